//! [`Spfs`]: what a mounted file system has in memory. The files beside this one have what it does.

use crate::children::Children;
use crate::layout::alone::{self, NamePlace};
use crate::layout::inode::{Identity, Inode};
use crate::node::Node;
use crate::options::MountOptions;
use crate::store::Store;
use granary_fs::{Call, Ino, Time};
use granary_sim::Daemon;
use granary_sim::sync::{Mutex, RwLock};
use granary_units::Nanos;
use granary_vfs::Lower;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A mounted SPFS.
pub struct Spfs {
    pub(crate) lower: Lower,
    pub(crate) store: Store,
    pub(crate) options: MountOptions,
    /// Inodes in memory, by the number that they have above: the lower one's, unless they were in persistent
    /// memory alone.
    pub(crate) nodes: parking_lot::Mutex<BTreeMap<u64, Arc<Node>>>,
    /// Shared: an inode is being loaded. Exclusive: the daemon loads one that nobody uses.
    pub(crate) loading: RwLock<()>,
    /// All inodes on persistent memory: number, and sync factor when it was last in memory.
    pub(crate) index: parking_lot::Mutex<BTreeMap<Identity, (u64, u64)>>,
    /// Names of files in persistent memory alone.
    pub(crate) children: parking_lot::Mutex<Children>,
    /// Names of such files under which something may be back below after a power failure: what a move that
    /// was given up has left, or a file that had the name before.
    pub(crate) leftovers: parking_lot::Mutex<BTreeSet<NamePlace>>,
    /// Shared: a call changes a lower directory. Exclusive: one is changed so that its times stay.
    pub(crate) directories: RwLock<()>,
    /// The next number of such a file, counted.
    pub(crate) made_alone: AtomicU64,
    /// Files without names, whose removal the lower file system may not have made durable.
    pub(crate) dead: parking_lot::Mutex<Vec<Dead>>,
    pub(crate) daemon: Mutex<Option<Daemon>>,
    /// Persistent memory knows the file system below.
    pub(crate) paired: Mutex<bool>,
    /// Nothing may be changed, not even by an unmount.
    pub(crate) read_only: bool,
    /// Held by the daemon while it works.
    pub(crate) at_work: Mutex<()>,
    pub(crate) recovery: Recovery,
    /// Lower files that recovery did not find.
    pub(crate) dropped: Vec<Missing>,
    pub(crate) counts: Counts,
    pub(crate) name: &'static str,
}

/// A removed file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dead {
    pub of: Identity,
    pub since: Nanos,
}

/// Counters since the mount.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub promoted: AtomicU64,
    pub not_promoted: AtomicU64,
    pub demoted: AtomicU64,
    pub suspended: AtomicU64,
    pub spilled: AtomicU64,
}

/// Counters since the mount, and the present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpfsStats {
    /// Files promoted.
    pub promoted: u64,
    /// Promotions that found no room.
    pub not_promoted: u64,
    /// Files demoted, for whatever reason.
    pub demoted: u64,
    /// Demotions given up because somebody wanted the file.
    pub suspended: u64,
    /// Demotions because a write found no room.
    pub spilled: u64,
    /// Tiered files now.
    pub tiered: u64,
    /// Files that are in persistent memory alone now.
    pub alone: u64,
    /// Used share of persistent memory, percent.
    pub used_percent: u32,
    /// Segments of the three tables.
    pub segments: [usize; 3],
    /// Overflow pages of all segments.
    pub overflow_pages: usize,
    /// Used bytes of persistent memory, tables included.
    pub in_use: u64,
    /// Bytes of persistent memory.
    pub capacity: u64,
}

/// Work of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// It had been unmounted.
    pub clean: bool,
    /// Splits or merges that were finished.
    pub splits: u64,
    /// Pairs of segments that were merged because they were nearly empty.
    pub merged: u64,
    /// Files that are tiered.
    pub files: u64,
    /// Files that the lower file system has no more.
    pub dropped: u64,
    /// Renames that were finished.
    pub renamed: u64,
    /// Lower files that a move had begun.
    pub unmoved: u64,
    /// Files in persistent memory alone that got another name: theirs was damaged, or its directory is gone.
    pub found: u64,
    /// Overwrites that were taken back.
    pub undone: u64,
    /// Slots of extents that no chain reached.
    pub scrubbed: u64,
}

/// A file of persistent memory that is not below: its name went with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its inode number below.
    pub ino: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last written.
    pub mtime: Time,
}

impl Missing {
    pub(crate) fn of(inode: &Inode) -> Missing {
        Missing { ino: inode.identity.ino, size: inode.size, mtime: inode.mtime }
    }
}

impl Spfs {
    /// The layer below.
    pub fn lower(&self) -> &Lower {
        &self.lower
    }

    /// Recovery by this mount.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Counters.
    pub fn stats(&self) -> SpfsStats {
        let c = &self.counts;
        let [promoted, not_promoted, demoted, suspended, spilled] =
            [&c.promoted, &c.not_promoted, &c.demoted, &c.suspended, &c.spilled].map(|n| n.load(Relaxed));
        let (alone, tiered) = {
            let index = self.index.lock();
            let alone = index.keys().filter(|of| alone::is(of.ino)).count();
            (alone, index.len() - alone)
        };
        SpfsStats {
            promoted,
            not_promoted,
            demoted,
            suspended,
            spilled,
            tiered: tiered as u64,
            alone: alone as u64,
            used_percent: self.store.clusters.used_percent(),
            segments: self.store.tables().map(|t| t.shape().1),
            overflow_pages: self.store.tables().iter().map(|t| t.overflow_pages()).sum(),
            in_use: self.in_use(),
            capacity: self.store.clusters.total() * granary_pm::BLOCK,
        }
    }

    /// Files of persistent memory that recovery did not find below, and dropped. Such as were removed before
    /// the stop are among them: what they had is freed once their removal is durable.
    pub fn dropped(&self) -> &[Missing] {
        &self.dropped
    }

    /// Used bytes of persistent memory.
    pub(crate) fn in_use(&self) -> u64 {
        let clusters = &self.store.clusters;
        (clusters.total() - clusters.available()) * granary_pm::BLOCK
    }

    /// The kernel's call, now.
    pub(crate) fn kernel(&self) -> Call<'static> {
        Call::kernel(self.lower.vfs().time())
    }

    pub(crate) fn cached(&self, ino: Ino) -> Option<Arc<Node>> {
        self.nodes.lock().get(&ino.0).cloned()
    }
}
