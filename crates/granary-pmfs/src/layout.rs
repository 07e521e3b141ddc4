//! The media format (SPEC.md has every field).
//!
//! ```text
//!   block 0                 1 .. j          j+1            j+2 ..                       last
//!   | superblock; at 512:  | journal:      | inode table: | inode table pieces, nodes, | superblock copy |
//!   | head of the truncate | header line,  | 512 pointers | directories, data          |
//!   | list 8 B             | 64 B entries  | to pieces    |                            |
//! ```
//!
//! Source: Dulloor et al., "System Software for Persistent Memory", EuroSys 2014; sizes as in
//! reference/baselines.md section 7.1.

pub mod dentry;
pub mod inode;
pub mod journal;
pub mod superblock;

use granary_pm::BLOCK;
use smallvec::SmallVec;

/// Bytes on media or to be; those of an inode or of most entries need no memory of their own.
pub type Bytes = SmallVec<[u8; inode::SIZE]>;

/// Address of the truncate list's head: an inode number, 0 = empty.
pub const LIST_HEAD: u64 = 512;
/// Pointers in a node.
pub const FANOUT: u64 = 512;
/// Highest tree.
pub const MAX_HEIGHT: u8 = 3;
/// Largest file: a tree of three levels.
pub const MAX_FILE_SIZE: u64 = 512 * 512 * 512 * BLOCK;
