//! Segment summaries: owners of the blocks of a segment, 7 B each, one block per segment.
//!
//! ```text
//!   summary block   512 x { node 4, version 1, place in the node 2 } = 3584 | zero 507 | zero 4 | log 1
//!   compact         NAT journal 507 | SIT journal 507 | 439 summaries | zero 9     first block
//!                   584 summaries | zero 8                                          the others
//! ```
//!
//! For a node segment the summary names the node itself. Summary blocks of the open segments are in memory
//! and, for the data logs (all logs at unmount), in the checkpoint pack.

use super::{BLOCK_SIZE, BlockBytes, le16, le32, put16, put32};

/// Bytes of a summary.
pub const SUMMARY: usize = 7;
/// Bytes of a journal.
pub const JOURNAL_BYTES: usize = 507;
/// Summaries in the first block of compact summaries.
pub const COMPACT_FIRST: usize = (BLOCK_SIZE - 2 * JOURNAL_BYTES) / SUMMARY;
/// Summaries in the others.
pub const COMPACT_NEXT: usize = (BLOCK_SIZE - 5) / SUMMARY;
/// The log in the summary block.
const KIND: usize = BLOCK_SIZE - 1;

const _: () = assert!(COMPACT_FIRST >= 439);

/// Owner of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The node that points to the block, or that is the block.
    pub nid: u32,
    /// The NAT's version of that node.
    pub version: u8,
    /// Which pointer of the node.
    pub ofs: u16,
}

impl Summary {
    /// The summary at `at`.
    pub fn read(bytes: &[u8], at: usize) -> Summary {
        Summary { nid: le32(bytes, at), version: bytes[at + 4], ofs: le16(bytes, at + 5) }
    }

    /// Writes the summary at `at`.
    pub fn store(&self, bytes: &mut [u8], at: usize) {
        put32(bytes, at, self.nid);
        bytes[at + 4] = self.version;
        put16(bytes, at + 5, self.ofs);
    }

    /// Summary `n` of a summary block.
    pub fn of(block: &BlockBytes, n: u32) -> Summary {
        Summary::read(block, n as usize * SUMMARY)
    }

    /// Writes summary `n` of a summary block.
    pub fn put(&self, block: &mut BlockBytes, n: u32) {
        self.store(block, n as usize * SUMMARY);
    }
}

/// Marks a summary block with its log.
pub fn set_kind(block: &mut BlockBytes, log: u8) {
    block[KIND] = log;
}

/// The log of a summary block.
pub fn kind(block: &BlockBytes) -> u8 {
    block[KIND]
}
