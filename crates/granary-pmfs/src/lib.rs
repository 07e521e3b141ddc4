//! PMFS: a file system for persistent memory with in-place updates, here over the byte window of an M-SSD.
//!
//! ```text
//!   namespace  rename  file           operations: undo entries, changes in place, commit
//!      |         |       |
//!     dir      table    tree          entries in blocks; inode table; a tree of pointers per file
//!      |         |       |
//!     journal (undo)   list (truncations and removals under way)
//!      |
//!     granary-pm        batches, fences, free list
//! ```
//!
//! No page cache, no block commands, and no indexes in host memory either: directories are searched entry by
//! entry, trees are walked by loads. Metadata operations are durable and atomic when they return; data is
//! stored in place, past the caches, and is durable when `write` returns, but a power failure may tear it.
//!
//! Source: Dulloor et al., "System Software for Persistent Memory", EuroSys 2014; counts of lines and fences
//! from reference/baselines.md section 7.

#![forbid(unsafe_code)]

mod check;
mod dentries;
mod dir;
mod entry;
mod fallocate;
mod file;
mod fs;
mod hints;
mod journal;
pub mod layout;
mod list;
mod mkfs;
mod mount;
mod namespace;
mod numbers;
mod options;
mod rename;
mod table;
mod transaction;
mod tree;

pub use entry::PMFS;
pub use fs::{Pmfs, Recovery};
pub use layout::MAX_FILE_SIZE;
pub use mkfs::{mkfs, mkfs_redo};
pub use mount::{mount, mount_redo};
pub use options::{MkfsOptions, MountOptions};
