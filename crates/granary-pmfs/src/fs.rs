//! [`Pmfs`]: memory of a mounted file system. The files beside this one have its operations.

use crate::dentries::Dentries;
use crate::hints::Hints;
use crate::journal::Journal;
use crate::layout::inode::Tree;
use crate::layout::superblock::Superblock;
use crate::table::Table;
use granary_fs::{Attr, FsError, Ino, Inode, Loaded, Result};
use granary_kit::Generations;
use granary_pm::{Batch, FreeLists, Pm, PmStats, RedoStats};
use granary_sim::sync::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};

/// Report of a mount: findings and recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The file system had been unmounted: nothing to do.
    pub clean: bool,
    /// Transactions undone; of a redo log brought home.
    pub undone: u32,
    /// Truncations finished.
    pub cut: u32,
    /// Inodes without links freed.
    pub freed: u32,
    /// Inodes scanned.
    pub inodes: u64,
    /// Blocks beyond the end of their file that were zeroed.
    pub zeroed: u32,
}

/// How changes are made all or nothing.
pub(crate) enum Protocol {
    /// Old bytes into a journal, then changes in place: PMFS.
    Undo(Journal),
    /// New bytes into the redo log under all stores ([`granary_pm::RedoLog`]): DevFS, which has PMFS's
    /// structures.
    Redo,
}

impl Protocol {
    /// Most entries (of up to 48 bytes each) of one transaction.
    pub fn most_entries(&self, pm: &Pm) -> usize {
        match self {
            Protocol::Undo(journal) => journal.most_entries(),
            // An entry takes its head beside the bytes.
            Protocol::Redo => pm.redo().map_or(usize::MAX, |redo| redo.most_in_transaction() as usize / 64),
        }
    }
}

/// An inode's private part.
pub(crate) struct Node {
    pub ino: Ino,
    /// Address on media.
    pub addr: u64,
    /// Changed under the inode's lock, together with media.
    pub tree: RwLock<Tree>,
    /// A directory's parent.
    pub parent: AtomicU64,
    /// The bytes behind the end in its last page are known to be zero.
    pub zero_behind: AtomicBool,
    pub generation: u32,
}

/// A mounted PMFS.
pub struct Pmfs {
    pub(crate) pm: Pm,
    /// Block behind the last that may be allocated.
    pub(crate) data_end: u64,
    pub(crate) free: FreeLists,
    pub(crate) protocol: Protocol,
    pub(crate) table: Mutex<Table>,
    /// The truncate list, newest first.
    pub(crate) list: Mutex<Vec<u64>>,
    pub(crate) generations: Generations,
    /// Inodes in memory, for checks.
    pub(crate) nodes: parking_lot::Mutex<FxHashMap<u64, Weak<Node>>>,
    /// Of directories' pages.
    pub(crate) hints: Hints,
    /// Directories in the drive's memory, where it works there.
    pub(crate) dentries: Option<Dentries>,
    pub(crate) superblock: Superblock,
    pub(crate) recovery: Recovery,
    /// A change ended half way because the drive failed: recovery finishes it, and until then nothing else
    /// may change.
    pub(crate) broken: AtomicBool,
}

pub(crate) fn node(inode: &Inode) -> &Node {
    inode.private()
}

impl Pmfs {
    /// The recovery that mount had to do.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Counters of the redo log since mount, where there is one.
    pub fn redo(&self) -> Option<RedoStats> {
        self.pm.redo().map(|redo| redo.stats())
    }

    /// Brings everything in the redo log home.
    ///
    /// # Errors
    /// The drive's.
    pub fn settle(&self) -> Result<()> {
        self.pm.settle()
    }

    /// Lines, fences and write-verify reads since mount.
    pub fn stats(&self) -> PmStats {
        self.pm.stats()
    }

    /// Whether pointers may lead to this block.
    pub(crate) fn is_data(&self, block: u64) -> bool {
        block > self.superblock.table() && block < self.data_end
    }

    /// Whether anything may change.
    pub(crate) fn working(&self) -> Result<()> {
        if self.broken.load(Relaxed) { Err(FsError::ReadOnly) } else { Ok(()) }
    }

    /// Stores of one operation. Where it fails, what it prepared is written back all the same. Where the
    /// drive fails, nothing changes behind it: a cut that is half done, for one, would be finished at
    /// recovery over what is written later.
    pub(crate) fn stores<T>(&self, operation: impl FnOnce(&mut Batch<'_>) -> Result<T>) -> Result<T> {
        self.working()?;
        let mut batch = self.pm.batch();
        let result = operation(&mut batch);
        if let Err(FsError::Drive(_) | FsError::Corrupt(_)) = &result {
            self.broken.store(true, Relaxed);
        }
        match self.protocol {
            Protocol::Undo(_) if result.is_err() => {
                // A second error of the drive says nothing new.
                let _ = batch.write_back();
            }
            Protocol::Redo if result.is_err() => batch.forget(),
            Protocol::Redo if batch.is_open() => batch.fence()?,
            _ => {}
        }
        result
    }

    /// An inode for the vfs, remembered for checks.
    pub(crate) fn loaded(
        &self,
        (ino, generation): (Ino, u32),
        addr: u64,
        attr: Attr,
        tree: Tree,
        parent: u64,
    ) -> Loaded {
        let node = Arc::new(Node {
            ino,
            addr,
            tree: RwLock::new(tree),
            parent: AtomicU64::new(parent),
            zero_behind: AtomicBool::new(false),
            generation,
        });
        self.nodes.lock().insert(ino.0, Arc::downgrade(&node));
        Loaded { attr, private: node }
    }
}
