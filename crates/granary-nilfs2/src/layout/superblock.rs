//! The superblock: the shape of the file system, and the place where recovery begins to read.
//!
//! ```text
//!   block 0, byte 1024    magic 4 | crc 4 | blocks 8 | segments 8 | blocks per segment 4
//!   last block, byte 0    | reserved segments 4 | mounts 4 | flags 4
//!                         | last log: address 8, sequence 8, serial 8 | writes 8
//! ```
//!
//! The two are written in turn; the valid one with more `writes` counts.

use super::{BLOCK_SIZE, BlockBytes, corrupt, le32, le64, put32, put64};
use crate::geometry::Geometry;
use granary_fs::Result;

/// "NIL2".
const MAGIC: u32 = u32::from_le_bytes(*b"NIL2");
const BYTES: usize = 72;
/// Where the first one begins in its block (Linux 6.1: NILFS_SB_OFFSET_BYTES).
pub const FIRST_AT: usize = 1024;
/// `flags`: unmounted, and nothing was written since.
pub const CLEAN: u32 = 1;

/// A superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Shape.
    pub geo: Geometry,
    /// Mounts that may write, so far.
    pub mounts: u32,
    /// [`CLEAN`].
    pub flags: u32,
    /// First block of a log with a super root; a recovery reads on from it.
    pub last_log: u64,
    /// Sequence number of its segment.
    pub last_seq: u64,
    /// Its serial number.
    pub last_serial: u64,
    /// Grows with each write of a superblock.
    pub writes: u64,
}

impl Superblock {
    /// Its block, the first (0) or the second (1).
    pub fn encode(&self, copy: usize) -> Box<BlockBytes> {
        let mut block = Box::new([0; BLOCK_SIZE]);
        let b = &mut block[Superblock::at(copy)..];
        put32(b, 0, MAGIC);
        put64(b, 8, self.geo.blocks);
        put64(b, 16, self.geo.segments);
        put32(b, 24, self.geo.seg_blocks as u32);
        put32(b, 28, self.geo.reserved as u32);
        put32(b, 32, self.mounts);
        put32(b, 36, self.flags);
        put64(b, 40, self.last_log);
        put64(b, 48, self.last_seq);
        put64(b, 56, self.last_serial);
        put64(b, 64, self.writes);
        let sum = crc32c::crc32c(&b[8..BYTES]);
        put32(b, 4, sum);
        block
    }

    fn at(copy: usize) -> usize {
        if copy == 0 { FIRST_AT } else { 0 }
    }

    /// Reads and checks one.
    ///
    /// # Errors
    /// `Corrupt` where it is none, or does not fit a drive of so many pages.
    pub fn parse(block: &BlockBytes, copy: usize, pages: u64) -> Result<Superblock> {
        let b = &block[Superblock::at(copy)..];
        if le32(b, 0) != MAGIC || le32(b, 4) != crc32c::crc32c(&b[8..BYTES]) {
            return Err(corrupt("no superblock, or its checksum is wrong"));
        }
        let geo = Geometry {
            blocks: le64(b, 8),
            segments: le64(b, 16),
            seg_blocks: le32(b, 24) as u64,
            reserved: le32(b, 28) as u64,
        };
        let s = Superblock {
            geo,
            mounts: le32(b, 32),
            flags: le32(b, 36),
            last_log: le64(b, 40),
            last_seq: le64(b, 48),
            last_serial: le64(b, 56),
            writes: le64(b, 64),
        };
        if !geo.is_sane(pages)
            || !geo.holds(s.last_log)
            || s.last_seq > u64::MAX / 2
            || s.writes > u64::MAX / 2
        {
            return Err(corrupt(format!("an impossible superblock: {s:?}")));
        }
        Ok(s)
    }
}
