//! OrchFS: a file system over an NVM DIMM and a plain SSD. A write is partitioned: what is whole aligned blocks of 32 KiB goes to the
//! SSD, the rest to the NVM, and one index leads to both.
//!
//! ```text
//!   fs        namespace  rename  write  read  cut  fallocate  xattr      one call each: the library's part (LibFS)
//!     |           |
//!   partition   node: hrtree, dir, ranges                                in host memory
//!     |           |
//!   unit  upage   tx ──> journal ──> digest ──> inodes, nodes, pages     the kernel's part (KernelFS) verifies and digests
//!                         group counts at one fence
//! ```
//!
//! No page cache for writes: a write is durable when it returns, and every other call, too. Metadata operations are atomic; a
//! power failure tears a write that has not returned byte by byte, as the paper promises no more (section 4), unless `data_atomicity` asks
//! for more.
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
pub use geometry::MAX_FILE_SIZE;
pub use mkfs::mkfs;
pub use mount::{Recovery, mount};
pub use options::{DataAtomicity, FullUpage, MkfsOptions, MountOptions, Partition, RangeKind, Reclaim};

use crate::engine::Engine;
use crate::journal::Journal;
use crate::layout::Layout;
use crate::layout::checkpoint::Checkpoint;
use crate::lease::Leases;
use crate::migrate::Victims;
use crate::node::Node;
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

/// Most links of an inode.
pub const MAX_LINKS: u32 = 65_000;

/// A mounted OrchFS.
pub struct OrchFs {
    pm: Pm,
    ssd: Port,
    /// The I/O threads, and pages of the SSD that were read.
    engine: Engine,
    layout: Layout,
    pools: Pools,
    journals: Vec<Journal>,
    checkpoint: Mutex<Checkpoint>,
    /// Processes that are there, and how many have come: who has which journal.
    processes: parking_lot::Mutex<(FxHashMap<u32, usize>, usize)>,
    generations: Generations,
    /// Inodes in memory, for checks and migration.
    nodes: parking_lot::Mutex<FxHashMap<u64, Weak<Node>>>,
    options: MountOptions,
    recovery: Recovery,
    /// Held while an inode comes into memory, or a block of one that is not there migrates.
    loading: Mutex<()>,
    /// Inodes whose journal was refused, and why, until they leave memory.
    revoked: parking_lot::Mutex<FxHashMap<u64, String>>,
    /// Who may change which inode.
    leases: Mutex<Leases>,
    victims: parking_lot::Mutex<Victims>,
    /// Groups of journals that were refused.
    refused: AtomicU64,
    /// Most bytes of a journal that a caller has waited for.
    longest_wait: AtomicU64,
    migrated: AtomicU64,
    /// NVM pages that a write of a part of them has taken, since mount.
    upages_made: AtomicU64,
    /// Number of the next undo slot.
    undone: AtomicU64,
    /// When a program called last, nanoseconds.
    last_call: AtomicU64,
    daemons: parking_lot::Mutex<Vec<Daemon>>,
    /// Wakes the kernel's daemon.
    kicker: std::sync::OnceLock<granary_sim::Kicker>,
    /// Held by the one that migrates because somebody needs numbers, and how often that gave some.
    making_room: Mutex<()>,
    room_made: AtomicU64,
    /// A group could not be appended: memory is ahead of the NVM, and nothing changes any more.
    failed: parking_lot::Mutex<Option<FsError>>,
}

impl OrchFs {
    /// What mount had to recover.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Lines and fences on the NVM since mount.
    pub fn stats(&self) -> PmStats {
        self.pm.stats()
    }

    /// The journal of a process: the first ones have one of their own, later ones share them.
    fn journal_of(&self, process: u32) -> usize {
        let mut processes = self.processes.lock();
        let (there, come) = &mut *processes;
        *there.entry(process).or_insert_with(|| {
            *come += 1;
            (*come - 1) % self.journals.len()
        })
    }

    /// Whether something can still be changed.
    fn check_alive(&self) -> Result<()> {
        self.failed.lock().clone().map_or(Ok(()), Err)
    }
}
