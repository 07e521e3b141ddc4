//! cpfile: 192 B for each checkpoint, 21 in a block; the first place is the header's.
//!
//! ```text
//!   header      checkpoints 8 | snapshots 8
//!   checkpoint  flags 4 | 0 4 | age 8, ns | inodes 8 | blocks 8 | inodes without names 8 | 0 24
//!               | inode of the ifile 128
//! ```

use super::inode::DiskInode;
use super::{BLOCK_SIZE, IFILE_INO, le32, le64, put32, put64};
use granary_fs::Result;

/// Bytes of an entry.
pub const CHECKPOINT: usize = 192;
/// Entries in a block.
pub const PER_BLOCK: u64 = (BLOCK_SIZE / CHECKPOINT) as u64;
const INODE_AT: usize = 64;

/// `flags`: there is such a checkpoint.
pub const VALID: u32 = 1;
/// `flags`: it is a snapshot, which the cleaner keeps.
pub const SNAPSHOT: u32 = 2;

/// A checkpoint.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// [`VALID`], [`SNAPSHOT`].
    pub flags: u32,
    /// Nanoseconds that the file system had been mounted.
    pub age: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Blocks of files.
    pub blocks: u64,
    /// Inodes without names, in use.
    pub orphans: u64,
    /// The ifile.
    pub ifile: DiskInode,
}

/// Where checkpoint `cno` is: block of the cpfile, byte.
pub fn place(cno: u64) -> (u64, usize) {
    (cno / PER_BLOCK, (cno % PER_BLOCK) as usize * CHECKPOINT)
}

impl Checkpoint {
    /// Stores it at its place.
    pub fn store(&self, b: &mut [u8]) {
        put32(b, 0, self.flags);
        put32(b, 4, 0);
        for (i, v) in [self.age, self.inodes, self.blocks, self.orphans].into_iter().enumerate() {
            put64(b, 8 + 8 * i, v);
        }
        self.ifile.store(&mut b[INODE_AT..]);
    }

    /// Reads one; `None` where there is none.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn parse(b: &[u8]) -> Result<Option<Checkpoint>> {
        let flags = flags(b);
        if flags & VALID == 0 {
            return Ok(None);
        }
        Ok(Some(Checkpoint {
            flags,
            age: le64(b, 8),
            inodes: le64(b, 16),
            blocks: le64(b, 24),
            orphans: le64(b, 32),
            ifile: DiskInode::parse(&b[INODE_AT..], IFILE_INO)?,
        }))
    }
}

/// Flags of an entry.
pub fn flags(b: &[u8]) -> u32 {
    le32(b, 0)
}

/// Changes the flags of an entry.
pub fn set_flags(b: &mut [u8], flags: u32) {
    put32(b, 0, flags);
}

/// Checkpoints and snapshots, as the header counts them.
pub fn counts(b: &[u8]) -> (u64, u64) {
    (le64(b, 0), le64(b, 8))
}

/// Changes the header.
pub fn set_counts(b: &mut [u8], (checkpoints, snapshots): (u64, u64)) {
    put64(b, 0, checkpoints);
    put64(b, 8, snapshots);
}
