//! ext4 in ordered mode over JBD2: the block-interface baseline.
//!
//! ```text
//!   namei  file           operations: one handle each (truncation: several)
//!     |     |
//!   dir   extents  orphan  node     structures on media, through granary-kit's BlockCache
//!     |     |        |      |
//!   alloc (blocks, inodes)          bitmaps, group descriptors, preallocation
//!     |
//!   journal                         transactions, commit, checkpoint, replay
//!     |
//!   Port (granary-mssd)             4 KiB blocks; layout/: the format, SPEC.md
//! ```
//!
//! The persistence protocol, the geometry and what each operation changes are those of Linux 6.1 with
//! mke2fs's defaults, so that the traffic is the kernel's (`tests/kernel_table.rs` compares it row by row).
//! The format is our own. Everything that is read back was written by it: recovery sees the media only.
//!
//! Source: reference/baselines.md section 3.

mod alloc;
mod check;
mod data;
mod dir;
mod entry;
mod extents;
mod fallocate;
mod file;
mod fs;
mod geometry;
mod journal;
pub mod layout;
mod life;
mod mbcache;
mod mkfs;
mod mount;
mod namei;
mod node;
mod options;
mod orphan;
mod ranges;
mod xattr;

pub use entry::EXT4;
pub use fs::{Ext4, Recovery};
pub use journal::JournalStats;
pub use layout::MAX_FILE_SIZE;
pub use mkfs::mkfs;
pub use mount::mount;
pub use options::{DataMode, JournalShare, MkfsOptions, MountOptions};
