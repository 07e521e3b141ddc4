//! sufile: 16 B for each segment, 256 in a block; the first two places are the header's.
//!
//! ```text
//!   header  clean segments 8 | dirty segments 8 | last one taken 8 | 0 8
//!   usage   age of the newest log in it 8, ns | blocks written 4 | flags 4
//! ```

use super::{BLOCK_SIZE, le32, le64, put32, put64};

/// Bytes of a usage.
pub const USAGE: usize = 16;
/// Usages in a block.
pub const PER_BLOCK: u64 = (BLOCK_SIZE / USAGE) as u64;
/// Places that the header takes.
const HEADER: u64 = 2;

/// `flags`: the segment is not free.
pub const DIRTY: u32 = 2;

/// A segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Nanoseconds that the file system had been mounted when it was last written.
    pub age: u64,
    /// Blocks written.
    pub blocks: u32,
    /// [`DIRTY`].
    pub flags: u32,
}

/// Where segment `n` is: block of the sufile, byte.
pub fn place(n: u64) -> (u64, usize) {
    ((n + HEADER) / PER_BLOCK, ((n + HEADER) % PER_BLOCK) as usize * USAGE)
}

impl Usage {
    /// Stores it at its place.
    pub fn store(&self, b: &mut [u8]) {
        put64(b, 0, self.age);
        put32(b, 8, self.blocks);
        put32(b, 12, self.flags);
    }

    /// Reads one.
    pub fn parse(b: &[u8]) -> Usage {
        Usage { age: le64(b, 0), blocks: le32(b, 8), flags: le32(b, 12) }
    }

    /// Whether it holds nothing.
    pub fn is_clean(&self) -> bool {
        self.flags & DIRTY == 0
    }
}

/// Clean and dirty segments, the last one taken, as the header has them.
pub fn header(b: &[u8]) -> (u64, u64, u64) {
    (le64(b, 0), le64(b, 8), le64(b, 16))
}

/// Changes the header.
pub fn set_header(b: &mut [u8], (clean, dirty, last): (u64, u64, u64)) {
    put64(b, 0, clean);
    put64(b, 8, dirty);
    put64(b, 16, last);
}
