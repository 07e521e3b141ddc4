//! The segment information table: which blocks of a segment are valid, 74 B each, 55 in a block.
//!
//! ```text
//!   entry    valid blocks (10 bits) and log (6 bits) 2 | bitmap 64
//!            | mtime 8 (seconds the file system was mounted)
//!   journal  count 2 | 6 x { segment 4, entry 74 } | zero       507 B of the checkpoint pack
//! ```

use super::{le16, le64, put16, put64};

/// Entries in a block.
pub const SIT_ENTRIES: usize = 55;
/// Entries of the journal in the checkpoint pack.
pub const SIT_JOURNAL: usize = 6;
/// Bytes of an entry.
pub const SIT_ENTRY: usize = 74;

/// A segment as media have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SitEntry {
    /// Valid blocks.
    pub valid: u16,
    /// The log that filled it.
    pub log: u8,
    /// Bit n: block n is valid.
    pub map: [u64; 8],
    /// When a block of it last changed.
    pub mtime: u64,
}

impl SitEntry {
    /// The entry at `at`.
    pub fn read(bytes: &[u8], at: usize) -> SitEntry {
        let head = le16(bytes, at);
        let mut map = [0; 8];
        for (i, word) in map.iter_mut().enumerate() {
            *word = le64(bytes, at + 2 + 8 * i);
        }
        SitEntry { valid: head & 0x3ff, log: (head >> 10) as u8, map, mtime: le64(bytes, at + 66) }
    }

    /// Writes the entry at `at`.
    pub fn store(&self, bytes: &mut [u8], at: usize) {
        put16(bytes, at, self.valid | (self.log as u16) << 10);
        for (i, word) in self.map.iter().enumerate() {
            put64(bytes, at + 2 + 8 * i, *word);
        }
        put64(bytes, at + 66, self.mtime);
    }
}
