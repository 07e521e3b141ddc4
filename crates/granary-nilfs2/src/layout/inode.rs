//! Inodes: 128 B, 32 in a block of the ifile.
//!
//! ```text
//!   0 blocks 8 | size 8 | ctime 8 | mtime 8 | atime 8 | uid 4 | gid 4 | mode 2 | nlink 2 | flags 4 | map 56
//!   112 generation 4 | rdev 4 | 0 8
//! ```
//!
//! The kernel keeps seconds and nanoseconds of two times apart and no access time; here a time is 8 B of
//! nanoseconds, and there is room for the third. Inodes of files of metadata have blocks, size and map.

use super::{corrupt, le16, le32, le64, put16, put32, put64};
use granary_fs::{Attr, FileKind, Result, Time, flag};

/// Bytes of an inode.
pub const INODE: usize = 128;
/// Bytes of the root of its map.
pub const MAP: usize = 56;
const MAP_AT: usize = 56;

/// Content of an inode.
#[derive(Clone, Debug)]
pub struct DiskInode {
    /// Attributes; of a file of metadata only size counts.
    pub attr: Attr,
    /// Tells lives of a number apart.
    pub generation: u32,
    /// Blocks of data and of B-tree nodes.
    pub blocks: u64,
    /// Root of the map.
    pub map: [u8; MAP],
}

impl DiskInode {
    /// Stores it into 128 bytes.
    pub fn store(&self, b: &mut [u8]) {
        let a = &self.attr;
        put64(b, 0, self.blocks);
        put64(b, 8, a.size);
        put64(b, 16, a.ctime.0 as u64);
        put64(b, 24, a.mtime.0 as u64);
        put64(b, 32, a.atime.0 as u64);
        put32(b, 40, a.uid);
        put32(b, 44, a.gid);
        put16(b, 48, a.mode & 0o7777 | (a.kind.code() as u16) << 12);
        put16(b, 50, a.nlink.min(u16::MAX as u32) as u16);
        put32(b, 52, a.flags as u32);
        b[MAP_AT..MAP_AT + MAP].copy_from_slice(&self.map);
        put32(b, 112, self.generation);
        put32(b, 116, a.rdev);
        put64(b, 120, 0);
    }

    /// Reads one.
    ///
    /// # Errors
    /// `Corrupt` where a field has no possible value.
    pub fn parse(b: &[u8], ino: u64) -> Result<DiskInode> {
        let mode = le16(b, 48);
        let Some(kind) = FileKind::from_code((mode >> 12) as u8) else {
            return Err(corrupt(format!("inode {ino} is of no kind: mode {mode:o}")));
        };
        let (blocks, size) = (le64(b, 0), le64(b, 8));
        if size > super::MAX_FILE_SIZE || blocks > u64::MAX / 4096 {
            return Err(corrupt(format!("inode {ino} has {size} bytes and {blocks} blocks")));
        }
        let time = |at| Time(le64(b, at) as i64);
        let mut map = [0; MAP];
        map.copy_from_slice(&b[MAP_AT..MAP_AT + MAP]);
        let attr = Attr {
            kind,
            mode: mode & 0o7777,
            uid: le32(b, 40),
            gid: le32(b, 44),
            nlink: le16(b, 50) as u32,
            size,
            blocks: blocks * 8,
            atime: time(32),
            mtime: time(24),
            ctime: time(16),
            rdev: le32(b, 116),
            flags: le32(b, 52) as u8 & flag::ALL,
        };
        Ok(DiskInode { attr, generation: le32(b, 112), blocks, map })
    }
}
