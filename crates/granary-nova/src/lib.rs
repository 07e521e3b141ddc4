//! NOVA: a log-structured file system for byte-addressable memory, here over the byte window of an M-SSD.
//!
//! ```text
//!   namespace  rename  file          operations: log appends, committed by a tail or a lite transaction
//!        |        |      |
//!      log (append, commit)  gc  replay      one log of 4 KiB pages per inode
//!        |               |
//!      journal         inodes                per-CPU lite journals and inode tables
//!        |               |
//!      granary-pm      batches, fences, per-CPU free lists
//! ```
//!
//! No page cache, no block commands: data and metadata are loads and stores. Host memory holds the indexes;
//! they are rebuilt from the logs. Every operation is durable and atomic when it returns (with
//! [`DataMode::InPlace`] data is durable, not atomic), so `fsync` has nothing to do.
//!
//! Source: Xu and Swanson, "NOVA: A Log-structured File System for Hybrid Volatile/Non-volatile Main
//! Memories", FAST 2016; counts of lines and fences from reference/baselines.md section 6 (kernel 5.1 tree).

#![forbid(unsafe_code)]

mod attributes;
mod check;
mod entry;
mod fallocate;
mod file;
mod gc;
mod in_place;
mod inodes;
mod journal;
pub mod layout;
mod log;
mod mkfs;
mod mount;
mod namespace;
mod node;
mod options;
mod rename;
mod replay;

pub use entry::NOVA;
pub use mkfs::mkfs;
pub use mount::{Recovery, mount};
pub use options::{DataMode, MkfsOptions, MountOptions};
pub use replay::MAX_FILE_SIZE;

use crate::inodes::Table;
use crate::journal::Journal;
use crate::layout::superblock::Superblock;
use granary_fs::Result;
use granary_kit::Generations;
use granary_pm::{Batch, FreeLists, Pm, PmStats};
use granary_sim::sync::Mutex;
use node::Node;
use rustc_hash::FxHashMap;
use std::sync::Weak;
use std::sync::atomic::AtomicU64;

/// A mounted NOVA.
pub struct Nova {
    pm: Pm,
    blocks: u64,
    /// Block behind the last that may be allocated.
    data_end: u64,
    cpus: usize,
    piece: u64,
    free: FreeLists,
    journals: Vec<Mutex<Journal>>,
    tables: Vec<Mutex<Table>>,
    used_inodes: AtomicU64,
    generations: Generations,
    /// Inodes in memory, for checks.
    nodes: parking_lot::Mutex<FxHashMap<u64, Weak<Node>>>,
    superblock: Superblock,
    options: MountOptions,
    recovery: Recovery,
    cleanings: AtomicU64,
}

impl Nova {
    /// The recovery that mount had to do.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Lines, fences and write-verify reads since mount.
    pub fn stats(&self) -> PmStats {
        self.pm.stats()
    }

    /// Logs cleaned since mount, fast or thorough.
    pub fn cleanings(&self) -> u64 {
        self.cleanings.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn cpu(&self) -> usize {
        granary_sim::cpu_id(self.cpus)
    }

    /// Stores of one operation. Where it fails, what it prepared is written back all the same.
    fn stores<T>(&self, operation: impl FnOnce(&mut Batch<'_>) -> Result<T>) -> Result<T> {
        let mut batch = self.pm.batch();
        let result = operation(&mut batch);
        if result.is_err() {
            // A second error of the drive says nothing new.
            let _ = batch.write_back();
        }
        result
    }
}
