//! [`OrchFs`]: what a mounted file system has in memory. The files beside this one have what it does.

use crate::engine::Engine;
use crate::journal::Journal;
use crate::layout::Layout;
use crate::layout::checkpoint::Checkpoint;
use crate::lease::Leases;
use crate::migrate::victims::Victims;
use crate::node::Node;
use crate::options::MountOptions;
use crate::pools::Pools;
use granary_device::Port;
use granary_fs::{FsError, Result};
use granary_kit::Generations;
use granary_pm::{Pm, PmStats};
use granary_sim::Daemon;
use granary_sim::sync::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Weak;
use std::sync::atomic::AtomicU64;

/// State that mount found, and its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The file system had been unmounted: nothing to replay.
    pub clean: bool,
    /// Records replayed.
    pub records: u64,
    /// Inodes without links freed.
    pub orphans: u32,
    /// Pages and blocks that writes had overwritten which did not count, and that have their old bytes again.
    pub undone: u64,
    /// Inodes in use.
    pub inodes: u64,
}

/// A mounted OrchFS.
pub struct OrchFs {
    pub(crate) pm: Pm,
    pub(crate) ssd: Port,
    /// The I/O threads, and pages of the SSD that were read.
    pub(crate) engine: Engine,
    pub(crate) layout: Layout,
    pub(crate) pools: Pools,
    pub(crate) journals: Vec<Journal>,
    pub(crate) checkpoint: Mutex<Checkpoint>,
    /// Processes that are there, and how many have come: who has which journal.
    pub(crate) processes: parking_lot::Mutex<(FxHashMap<u32, usize>, usize)>,
    pub(crate) generations: Generations,
    /// Inodes in memory, for checks and migration.
    pub(crate) nodes: parking_lot::Mutex<FxHashMap<u64, Weak<Node>>>,
    pub(crate) options: MountOptions,
    pub(crate) recovery: Recovery,
    /// Held while an inode comes into memory, or a block of one that is not there migrates.
    pub(crate) loading: Mutex<()>,
    /// Inodes whose journal was refused, and why, until they leave memory.
    pub(crate) revoked: parking_lot::Mutex<FxHashMap<u64, String>>,
    /// The process that may change each inode.
    pub(crate) leases: Mutex<Leases>,
    pub(crate) victims: parking_lot::Mutex<Victims>,
    /// Groups of journals that were refused.
    pub(crate) refused: AtomicU64,
    /// Most bytes of a journal that a caller has waited for.
    pub(crate) longest_wait: AtomicU64,
    pub(crate) migrated: AtomicU64,
    /// NVM pages that a write of a part of them has taken, since mount.
    pub(crate) upages_made: AtomicU64,
    /// Number of the next undo slot.
    pub(crate) undone: AtomicU64,
    /// When a program called last, nanoseconds.
    pub(crate) last_call: AtomicU64,
    pub(crate) daemons: parking_lot::Mutex<Vec<Daemon>>,
    /// Wakes the kernel's daemon.
    pub(crate) kicker: std::sync::OnceLock<granary_sim::Kicker>,
    /// Held by the one that migrates because somebody needs numbers, and how often that gave some.
    pub(crate) making_room: Mutex<()>,
    pub(crate) room_made: AtomicU64,
    /// A group could not be appended: memory is ahead of the NVM, and nothing changes any more.
    pub(crate) failed: parking_lot::Mutex<Option<FsError>>,
}

impl OrchFs {
    /// Recovery by this mount.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Lines and fences on the NVM since mount.
    pub fn stats(&self) -> PmStats {
        self.pm.stats()
    }

    /// The journal of a process: the first ones have one of their own, later ones share them.
    pub(crate) fn journal_of(&self, process: u32) -> usize {
        let mut processes = self.processes.lock();
        let (there, come) = &mut *processes;
        *there.entry(process).or_insert_with(|| {
            *come += 1;
            (*come - 1) % self.journals.len()
        })
    }

    /// Whether something can still be changed.
    pub(crate) fn check_alive(&self) -> Result<()> {
        self.failed.lock().clone().map_or(Ok(()), Err)
    }
}
