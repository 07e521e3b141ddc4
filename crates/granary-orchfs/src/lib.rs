//! OrchFS: a file system over an NVM DIMM and a plain SSD. A write is partitioned: what is whole aligned
//! blocks of 32 KiB goes to the SSD, the rest to the NVM, and one index leads to both.
//!
//! ```text
//!   fs        namespace  rename  write  read  cut  fallocate  xattr      one call each: the library's part
//!                                                                        (LibFS)
//!     |           |
//!   partition   node: hrtree, dir, ranges                                in host memory
//!     |           |
//!   unit  upage   tx ──> journal ──> digest ──> inodes, nodes, pages     the kernel's part (KernelFS)
//!                                                                        verifies and digests
//!                         group counts at one fence
//! ```
//!
//! No page cache for writes: a write is durable when it returns, and every other call, too. Metadata
//! operations are atomic; a power failure tears a write that has not returned byte by byte, as the paper
//! promises no more (section 4), unless `data_atomicity` asks for more.
//!
//! Source: Zhan et al., "OrchFS", FAST 2025: the slides, notes of the paper, and the released code for sizes.

#![forbid(unsafe_code)]

mod blob;
mod cache;
mod check;
mod cut;
mod digest;
mod dir;
mod engine;
mod entry;
mod fallocate;
mod fs;
pub mod geometry;
mod grants;
pub mod hrtree;
mod journal;
pub mod layout;
mod lease;
mod life;
mod migrate;
mod mkfs;
mod mount;
mod namespace;
mod node;
mod options;
pub mod partition;
mod pools;
mod ranges;
mod read;
mod record;
mod rename;
mod space;
mod take;
mod trim;
mod tx;
mod undo;
pub mod unit;
pub mod upage;
mod verify;
mod write;
mod xattr;

pub use entry::{ORCHFS, PHFS};
pub use fs::{OrchFs, Recovery};
pub use geometry::{MAX_FILE_SIZE, MAX_LINKS};
pub use mkfs::mkfs;
pub use mount::mount;
pub use options::{DataAtomicity, FullUpage, MkfsOptions, MountOptions, Partition, RangeKind, Reclaim};
