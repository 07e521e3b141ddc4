//! F2FS: the log-structured block-interface baseline.
//!
//! ```text
//!   namei   file   fsync            operations: under the checkpoint lock, shared
//!     |       |      |
//!   dir     tree   nodes            directory blocks; pointers of a file; nodes in memory, dirty until
//!                                   written
//!     |       |      |
//!   cache (by inode and number)     nat: where nodes lie        segs: six logs, valid blocks, SSR
//!     |                               |                           |
//!   checkpoint   recover   gc       exclusive; mount; moving what is valid out of a segment (remap:
//!                                   PebbleSSD's way)
//!     |
//!   Port (granary-mssd)             4 KiB blocks; layout/: the format, SPEC.md
//! ```
//!
//! Everything is written out of place, to the log of its temperature, but for the overwrites that the
//! in-place policy names. A power loss goes back to the last checkpoint and forward again over nodes that
//! fsync has marked. The protocol, geometry and triggers are those of Linux 6.1 with mkfs.f2fs's defaults, so
//! that the traffic is the kernel's (`tests/kernel_table.rs` compares it row by row). The format is our own.
//!
//! Source: reference/baselines.md section 4.

mod cache;
mod check;
mod checkpoint;
mod data;
mod dir;
mod discard;
mod entry;
mod fallocate;
mod file;
mod flush;
mod fs;
mod fs_write;
mod fsync;
mod gc;
mod geometry;
mod given;
mod inode;
pub mod layout;
mod life;
mod mkfs;
mod mount;
mod namei;
mod names;
mod nat;
mod node;
mod nodes;
mod options;
mod recover;
mod remap;
mod segs;
mod tree;
mod xattr;

pub use entry::{F2FS, F2FS_FS_WRITE, F2FS_PEBBLE, F2FS_REMAP};
pub use fs::{F2fs, Recovery, Stats};
pub use geometry::Geometry;
pub use layout::node::MAX_FILE_SIZE;
pub use mkfs::mkfs;
pub use mount::mount;
pub use options::{FsyncMode, InPlace, MkfsOptions, MountOptions};
