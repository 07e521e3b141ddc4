//! ByteFS: the dual byte/block file system for memory-semantic SSDs.
//!
//! ```text
//!   FileSystem (fs)      namespace    attributes   allocation   data                life
//!                        rename dir   truncate     fallocate    journaled  direct   sync mkfs mount check
//!                              |        |       |       |      |      |
//!   in memory            node (inode) ── map (extents) ── dir (names) ── groups, space (free inodes and
//!                                                                        blocks)
//!                              |
//!   durable              journal: Tx ── TxTable (line locks) ── seal order ── group COMMIT
//!                              |
//!   media                layout: 64 B lines, written by byte; metadata read by block and cached (BlockCache)
//! ```
//!
//! Every operation is a transaction of the 64 B lines that it changes, stored through the byte window with
//! its own TxID into the drive's write log, which is the redo log: nothing is written twice. Durability comes
//! by group commit in the order in which operations were finished (`journal`). File data goes by block, or by
//! byte where few lines of a page changed.
//!
//! Duplicates of mapped pages and their comparison are the vfs's: here come pages with the lines that
//! changed.
//!
//! Source: Li et al., "ByteFS: System Support for (CXL-based) Memory-Semantic Solid-State Drives", ASPLOS
//! 2025, section 4. Deviations from the paper are named at their places: `journal` (locks end at the seal),
//! `data` (write() stores nothing), `layout::extent` (unordered slots instead of a tree), `namespace` (no
//! orphan list).

mod allocation;
mod attributes;
mod check;
mod contiguity;
mod core;
mod data;
mod dir;
mod direct;
mod entry;
mod extents;
mod fallocate;
mod fs;
mod groups;
mod grow;
mod journal;
mod journaled;
mod layout;
mod life;
mod map;
mod mkfs;
mod mount;
mod namespace;
mod node;
mod options;
mod policy;
mod ranges;
mod rename;
mod repair;
mod space;
mod supers;
mod sync;
mod truncate;

pub use contiguity::Contiguity;
pub use entry::{BYTEFS, BYTEFS_DUAL, BYTEFS_LOG};
pub use fs::{ByteFs, RecoveryReport, Stats};
pub use mkfs::mkfs;
pub use mount::mount;
pub use options::{CommitMode, DataMode, MkfsOptions, MountOptions, Policy, Variant};
pub use repair::repair;
