//! [`Node`]: an inode in memory: its lower node, and which state its file is in.

use crate::profiler::Profile;
use crate::tier::Tier;
use granary_fs::{FsError, Inode, Result};
use granary_sim::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use granary_vfs::NodeRef;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The tier that serves a file.
pub enum Residence {
    /// The lower file system.
    Bypass,
    /// Persistent memory, where it has something.
    Tiered(Box<Tier>),
}

/// See the module.
pub struct Node {
    /// The lower node, until the inode leaves memory.
    below: Mutex<Option<NodeRef>>,
    /// There is no lower file.
    alone: AtomicBool,
    /// The file's tier. Held shared by reads and by writes below, exclusively by changes of persistent
    /// memory.
    state: RwLock<Residence>,
    /// How many want the state now: a demotion in the background makes room for them.
    wanted: AtomicU32,
    pub(crate) profile: Mutex<Profile>,
    /// Changes below, counted when they are made, and how many of them an fsync has made durable.
    changed: AtomicU64,
    synced: AtomicU64,
    /// Of a directory: the last of these that may bring a name back which is somebody's.
    moved: AtomicU64,
    /// Of a directory: the last of these that removed a name.
    lost: AtomicU64,
    /// Its last name went through this mount, and not beside it.
    removed: AtomicBool,
    /// The vfs has it.
    pub(crate) adopted: AtomicBool,
}

impl Node {
    pub(crate) fn new(below: NodeRef, state: Residence) -> Node {
        Node {
            below: Mutex::new(Some(below)),
            alone: AtomicBool::new(false),
            state: RwLock::new(state),
            wanted: AtomicU32::new(0),
            profile: Mutex::default(),
            // Changes before it was loaded may not be durable either.
            changed: AtomicU64::new(1),
            moved: AtomicU64::new(1),
            lost: AtomicU64::new(1),
            synced: AtomicU64::new(0),
            removed: AtomicBool::new(false),
            adopted: AtomicBool::new(false),
        }
    }

    /// Of a file that is in persistent memory alone.
    pub(crate) fn alone(state: Residence) -> Node {
        Node {
            below: Mutex::new(None),
            alone: AtomicBool::new(true),
            state: RwLock::new(state),
            wanted: AtomicU32::new(0),
            profile: Mutex::default(),
            changed: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            removed: AtomicBool::new(false),
            adopted: AtomicBool::new(false),
        }
    }

    /// Whether there is no lower file. Only who holds the state can be sure that there will be none.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Relaxed)
    }

    /// Its last name was removed through this mount.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Relaxed)
    }

    /// A call of this mount has taken its last name.
    pub(crate) fn remove(&self) {
        self.removed.store(true, Relaxed);
    }

    /// It has a lower file now.
    pub(crate) fn land(&self, below: NodeRef) {
        *self.below.lock() = Some(below);
        self.alone.store(false, Relaxed);
    }

    /// The lower node; none where there is no lower file. For who holds the state.
    pub(crate) fn ground(&self) -> Result<Option<NodeRef>> {
        if self.is_alone() { Ok(None) } else { self.below().map(Some) }
    }

    /// The lower node.
    pub(crate) fn below(&self) -> Result<NodeRef> {
        self.below.lock().clone().ok_or(FsError::Stale)
    }

    /// Lets go of the lower node.
    pub(crate) fn let_go(&self) {
        let node = self.below.lock().take();
        drop(node);
    }

    /// The state, shared.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Residence> {
        self.wanted.fetch_add(1, Relaxed);
        let guard = self.state.read();
        self.wanted.fetch_sub(1, Relaxed);
        guard
    }

    /// The state, exclusively.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Residence> {
        self.wanted.fetch_add(1, Relaxed);
        let guard = self.state.write();
        self.wanted.fetch_sub(1, Relaxed);
        guard
    }

    /// The state, shared, unless it is held exclusively.
    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, Residence>> {
        self.state.try_read()
    }

    /// Whether somebody waits for the state.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Something of it was changed below. After the change: an fsync that begins before it may miss it, and
    /// must not count for it.
    pub(crate) fn touch(&self) {
        self.changed.fetch_add(1, Relaxed);
    }

    /// The same of a directory that lost a name of something that lives on, or of a directory. After a power
    /// failure it could be back under that name. A file that is here alone and has taken the name meanwhile
    /// could not get it back without harm.
    pub(crate) fn touch_moved(&self) {
        let changes = self.changed.fetch_add(1, Relaxed) + 1;
        self.moved.fetch_max(changes, Relaxed);
    }

    /// The same of a directory that lost the last name of a file.
    pub(crate) fn touch_lost(&self) {
        let changes = self.changed.fetch_add(1, Relaxed) + 1;
        self.lost.fetch_max(changes, Relaxed);
    }

    /// Whether a name that was removed here may be back after a power failure.
    pub(crate) fn may_bring_back(&self) -> bool {
        self.lost.load(Relaxed) > self.synced.load(Relaxed)
    }

    /// The changes of a directory so far, as below; `None`: a name can be taken here. A file that the lower
    /// file system may bring back under it is gone for good then, and recovery removes it (recover.rs).
    pub(crate) fn unsettled_names(&self) -> Option<u64> {
        let changed = self.changed.load(Relaxed);
        (self.moved.load(Relaxed) > self.synced.load(Relaxed)).then_some(changed)
    }

    /// The changes so far, for [`Node::settled`] when an fsync that begins now has returned; `None`: all of
    /// them are durable.
    pub(crate) fn unsettled(&self) -> Option<u64> {
        let changed = self.changed.load(Relaxed);
        (changed > self.synced.load(Relaxed)).then_some(changed)
    }

    /// So many changes are durable.
    pub(crate) fn settled(&self, changes: u64) {
        self.synced.fetch_max(changes, Relaxed);
    }
}

/// The node of an inode.
pub fn of(inode: &Inode) -> &Node {
    inode.private::<Arc<Node>>()
}

/// The lower node of an inode.
pub fn below(inode: &Inode) -> Result<NodeRef> {
    of(inode).below()
}
