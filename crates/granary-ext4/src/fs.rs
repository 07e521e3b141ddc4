//! [`Ext4`]: memory of a mounted file system. The files beside this one have its operations.

use crate::alloc::Groups;
use crate::journal::{Journal, JournalStats};
use crate::mbcache::Known;
use crate::options::MountOptions;
use crate::orphan::list::Orphans;
use granary_device::Port;
use granary_fs::DirtyPages;
use granary_kit::{Block, BlockCache};
use granary_sim::Daemon;
use granary_sim::sync::Mutex;
use std::sync::{Arc, Weak};

/// Report of a mount: findings and recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The file system had been unmounted: nothing to do.
    pub clean: bool,
    /// Transactions found complete in the journal.
    pub transactions: u32,
    /// Blocks replayed.
    pub blocks: u32,
    /// Copies left out because the block had been revoked.
    pub revoked: u32,
    /// Inodes without names that were freed.
    pub orphans_freed: u32,
    /// Inodes with names that were cut to their size.
    pub orphans_cut: u32,
}

/// A mounted ext4.
pub struct Ext4 {
    pub(crate) port: Port,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) journal: Arc<Journal>,
    /// Block 0, always in memory.
    pub(crate) superblock: Arc<Block>,
    pub(crate) hash_seed: u64,
    pub(crate) options: MountOptions,
    pub(crate) orphans: Mutex<Orphans>,
    /// Attribute blocks that may be shared. A task that changes or uses one holds this; taken within a
    /// handle.
    pub(crate) shared: Mutex<Known>,
    pub(crate) recovery: Recovery,
    /// Not unmounted properly, the last time or earlier: blocks beyond a file's end may hold anything.
    pub(crate) loose: bool,
    pub(crate) daemons: Mutex<Vec<Daemon>>,
    /// The vfs's page cache, once there is one.
    pub(crate) pages: parking_lot::Mutex<Option<Weak<dyn DirtyPages>>>,
}

impl Ext4 {
    /// The recovery that mount had to do.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Counters of the journal since mount.
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
