//! The media format (SPEC.md has every field).
//!
//! ```text
//!   block 0        1..47   48              49..63   64 ..                                last 2
//!   | superblock | zero  | journal pairs | zero   | journals, inode tables, logs, data | superblock copy |
//!                          1 line per CPU           1 block per CPU, then by allocation
//! ```
//!
//! Everything that a pointer word makes reachable is written, and safe, before the word: the tail of a log in
//! its inode is such a word. Source: NOVA section 3 and 4; sizes as in reference/baselines.md section 6.1.

pub mod entry;
pub mod inode;
pub mod journal;
pub mod superblock;

/// First block that is not at a fixed place.
pub const HEAD_BLOCKS: u64 = 64;
/// Blocks at the end for the copy of the superblock.
pub const TAIL_BLOCKS: u64 = 2;
/// Block with the journals' head and tail pairs, one line per CPU.
pub const JOURNAL_PAIRS: u64 = 48;
/// Bytes of entries in a log page; its last 32 B are the page's tail.
pub const LOG_SPACE: u64 = 4064;
/// In a log page's tail: entries in the page, 4 B.
pub const PAGE_ENTRIES: u64 = 4064;
/// Dead entries in the page, 4 B.
pub const PAGE_DEAD: u64 = 4068;
/// Inode that owns the page, 8 B.
pub const PAGE_OWNER: u64 = 4072;
/// The next page of the log, 8 B; 0 = none.
pub const PAGE_NEXT: u64 = 4080;
