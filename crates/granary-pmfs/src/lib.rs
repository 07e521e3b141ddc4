//! PMFS: a file system for persistent memory with in-place updates, here over the byte window of an M-SSD.
//!
//! ```text
//!   namespace  rename  file           operations: undo entries, changes in place, commit
//!      |         |       |
//!     dir      table    tree          entries in blocks; inode table; a tree of pointers per file
//!      |         |       |
//!     journal (undo)   list (truncations and removals under way)
//!      |
//!     granary-pm        batches, fences, free list
//! ```
//!
//! No page cache, no block commands, and no indexes in host memory either: directories are searched entry by entry, trees
//! are walked by loads. Metadata operations are durable and atomic when they return; data is stored in place, past the
//! caches, and is durable when `write` returns, but a power failure may tear it.
//!
//! Source: Dulloor et al., "System Software for Persistent Memory", EuroSys 2014; counts of lines and fences from
//! reference/baselines.md section 7.

#![forbid(unsafe_code)]

mod check;
mod dentries;
mod dir;
mod entry;
mod fallocate;
mod file;
mod hints;
mod journal;
pub mod layout;
mod list;
mod mkfs;
mod mount;
mod namespace;
mod options;
mod rename;
mod table;
mod tree;

pub use entry::PMFS;
pub use mkfs::{mkfs, mkfs_redo};
pub use mount::{Recovery, mount, mount_redo};
pub use options::{MkfsOptions, MountOptions};

use crate::dentries::Dentries;
use crate::hints::Hints;
use crate::journal::Journal;
use crate::layout::inode::Tree;
use crate::layout::superblock::Superblock;
use crate::table::Table;
use granary_fs::{Attr, FsError, Ino, Inode, Loaded, Result};
use granary_kit::Generations;
use granary_pm::{BLOCK, Batch, FreeLists, Pm, PmStats, RedoStats};
use granary_sim::sync::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};

/// Largest file: a tree of three levels.
pub const MAX_FILE_SIZE: u64 = 512 * 512 * 512 * BLOCK;

/// How changes are made all or nothing.
enum Protocol {
    /// Old bytes into a journal, then changes in place: PMFS.
    Undo(Journal),
    /// New bytes into the redo log under all stores ([`granary_pm::RedoLog`]): DevFS, which has PMFS's structures.
    Redo,
}

impl Protocol {
    /// Most entries (of up to 48 bytes each) of one transaction.
    fn most_entries(&self, pm: &Pm) -> usize {
        match self {
            Protocol::Undo(journal) => journal.most_entries(),
            // An entry takes its head beside the bytes.
            Protocol::Redo => pm.redo().map_or(usize::MAX, |redo| redo.most_in_transaction() as usize / 64),
        }
    }
}

/// An inode's private part.
struct Node {
    ino: Ino,
    /// Address on media.
    addr: u64,
    /// Changed under the inode's lock, together with media.
    tree: RwLock<Tree>,
    /// A directory's parent.
    parent: AtomicU64,
    /// The bytes behind the end in its last page are known to be zero.
    zero_behind: AtomicBool,
    generation: u32,
}

/// A mounted PMFS.
pub struct Pmfs {
    pm: Pm,
    /// Block behind the last that may be allocated.
    data_end: u64,
    free: FreeLists,
    protocol: Protocol,
    table: Mutex<Table>,
    /// The truncate list, newest first.
    list: Mutex<Vec<u64>>,
    generations: Generations,
    /// Inodes in memory, for checks.
    nodes: parking_lot::Mutex<FxHashMap<u64, Weak<Node>>>,
    /// Of directories' pages.
    hints: Hints,
    /// Directories in the drive's memory, where it works there.
    dentries: Option<Dentries>,
    superblock: Superblock,
    recovery: Recovery,
    /// A change ended half way because the drive failed: recovery finishes it, and until then nothing else
    /// may change.
    broken: AtomicBool,
}

fn node(inode: &Inode) -> &Node {
    inode.private()
}

impl Pmfs {
    /// What mount had to recover.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// What the redo log did since mount, where there is one.
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
    fn is_data(&self, block: u64) -> bool {
        block > self.superblock.table() && block < self.data_end
    }

    /// Whether anything may change.
    fn working(&self) -> Result<()> {
        if self.broken.load(Relaxed) { Err(FsError::ReadOnly) } else { Ok(()) }
    }

    /// Stores of one operation. Where it fails, what it prepared is written back all the same. Where the
    /// drive fails, nothing changes behind it: a cut that is half done, for one, would be finished at
    /// recovery over what is written later.
    fn stores<T>(&self, operation: impl FnOnce(&mut Batch<'_>) -> Result<T>) -> Result<T> {
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
    fn loaded(
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
