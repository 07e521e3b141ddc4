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
//! The persistence protocol, the geometry and what each operation changes are those of Linux 6.1 with mke2fs's
//! defaults, so that the traffic is the kernel's (`tests/kernel_table.rs` compares it row by row). The format is our
//! own. Everything that is read back was written by it: recovery sees the media only.
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
pub use journal::JournalStats;
pub use mkfs::mkfs;
pub use mount::{Recovery, mount};
pub use options::{DataMode, JournalShare, MkfsOptions, MountOptions};

use crate::alloc::Groups;
use crate::journal::Journal;
use crate::mbcache::Known;
use crate::orphan::Orphans;
use granary_device::Port;
use granary_fs::DirtyPages;
use granary_kit::{Block, BlockCache};
use granary_sim::Daemon;
use granary_sim::sync::Mutex;
use std::sync::{Arc, Weak};

/// Largest file: 2^32 - 1 blocks, the reach of 32-bit logical block numbers.
pub const MAX_FILE_SIZE: u64 = (u32::MAX as u64) * 4096;

/// A mounted ext4.
pub struct Ext4 {
    port: Port,
    cache: Arc<BlockCache>,
    groups: Arc<Groups>,
    journal: Arc<Journal>,
    /// Block 0, always in memory.
    superblock: Arc<Block>,
    hash_seed: u64,
    options: MountOptions,
    orphans: Mutex<Orphans>,
    /// Attribute blocks that may be shared. Whoever changes one, or who uses it, holds this; taken within a handle.
    shared: Mutex<Known>,
    recovery: Recovery,
    /// Not unmounted properly, the last time or earlier: blocks beyond a file's end may hold anything.
    loose: bool,
    daemons: Mutex<Vec<Daemon>>,
    /// The vfs's page cache, once there is one.
    pages: parking_lot::Mutex<Option<Weak<dyn DirtyPages>>>,
}

impl Ext4 {
    /// What mount had to recover.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// What the journal did since mount.
    pub fn journal_stats(&self) -> JournalStats {
        self.journal.stats()
    }

    /// The options it was mounted with.
    pub fn options(&self) -> &MountOptions {
        &self.options
    }
}

impl Drop for Ext4 {
    /// An unmounted file system has stopped its daemons; one that is dropped tells them to.
    fn drop(&mut self) {
        self.journal.stop();
    }
}
