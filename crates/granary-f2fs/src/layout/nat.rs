//! The node address table: node number to block, 9 B each, 455 in a block.
//!
//! ```text
//!   entry    version 1 | inode 4 | block 4
//!   journal  count 2 | 38 x { nid 4, entry 9 } | zero           507 B of the checkpoint pack
//! ```
//!
//! Every NAT block has two copies; a bit of the checkpoint says which one counts.

use super::{le32, put32};

/// Entries in a block.
pub const NAT_ENTRIES: usize = 455;
/// Entries of the journal in the checkpoint pack.
pub const NAT_JOURNAL: usize = 38;
/// Bytes of an entry.
pub const NAT_ENTRY: usize = 9;

/// Where a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatEntry {
    /// Grows whenever the number is freed; summaries carry it.
    pub version: u8,
    /// The inode that the node belongs to.
    pub ino: u32,
    /// Where it lies; 0 = free.
    pub addr: u32,
}

impl NatEntry {
    /// The entry at `at`.
    pub fn read(bytes: &[u8], at: usize) -> NatEntry {
        NatEntry { version: bytes[at], ino: le32(bytes, at + 1), addr: le32(bytes, at + 5) }
    }

    /// Writes the entry at `at`.
    pub fn store(&self, bytes: &mut [u8], at: usize) {
        bytes[at] = self.version;
        put32(bytes, at + 1, self.ino);
        put32(bytes, at + 5, self.addr);
    }
}
