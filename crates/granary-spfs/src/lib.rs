//! SPFS: a file system stacked on another one, with persistent memory as the write cache of small synchronous writes.
//!
//! ```text
//!   program -> vfs -> SPFS -> Lower -> lower vfs (page cache) -> lower file system -> SSD
//!                      |
//!                      +-> Store: tables, inodes, data                             -> persistent memory
//!
//!   alone   --- linked, renamed over something, no room, little used --->  bypass
//!   bypass  --- 30 fsyncs, small and soon after each other --->  tiered     metadata only; bytes follow with the writes
//!           <-- read much, written in large pieces, no room ---             all bytes of persistent memory are written below
//! ```
//!
//! Names, owners, modes and extended attributes are the lower file system's; so are the numbers of inodes. A new file may be in persistent
//! memory *alone*, with all of these (`alone.rs`). Of a *tiered* file
//! persistent memory has the size, the times, and the extents that were written since its promotion. Each byte has one master
//! (invariant C1): persistent memory where it has an extent, else the lower file up to `limit`, else zero. The other is never read.
//!
//! Writes to a tiered file are durable when they return. A tiered file is found by its lower inode number and generation, so that names
//! may change, go back in time with a power failure of the lower file system, or vanish: what is left over is dropped at the mount.
//!
//! Lock order: `at_work`; the upper vfs's; `loading`; a file's state; the lower vfs's; a table's directory. Short locks last.
//!
//! Source: Woo et al., "SPFS: On Stacking a Persistent Memory File System on Legacy File Systems", FAST 2023 (slides), and constants of
//! the released code where a comment says so. What the release lacks (recovery, demotion's commit) is designed here: DESIGN.md, "SPFS".

#![forbid(unsafe_code)]

mod alloc;
mod alone;
mod check;
mod children;
mod demote;
mod entry;
pub mod exthash;
pub mod factor;
mod fs;
mod layout;
pub mod mapping;
mod mkfs;
mod mount;
mod node;
mod options;
mod overwrite;
mod pair;
pub mod profiler;
mod promote;
mod punch;
mod purge;
mod read;
mod recover;
mod store;
mod survey;
mod table;
mod tier;
mod truncate;
mod unseen;
mod write;

#[cfg(test)]
mod tests;

pub use entry::{case, over, stacked_name};
pub use mkfs::mkfs;
pub use mount::{Access, is_clean, mount, mount_as};
pub use options::{Average, Consistency, MkfsOptions, Mode, MountOptions, PromotionCopy};
pub use pair::{NAME as PAIR, forget};
pub use recover::{Missing, Recovery};

use crate::children::Children;
use crate::node::Node;
use crate::purge::Dead;
use crate::store::Store;
use granary_fs::{Call, FsError, Ino, Result};
use granary_sim::Daemon;
use granary_sim::sync::{Mutex, RwLock};
use granary_vfs::Lower;
use layout::alone::{Alone, NamePlace};
use layout::inode::Identity;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A mounted SPFS.
pub struct Spfs {
    lower: Lower,
    store: Store,
    options: MountOptions,
    /// Inodes in memory, by the number that they have above: the lower one's, unless they were in persistent memory alone.
    nodes: parking_lot::Mutex<BTreeMap<u64, Arc<Node>>>,
    /// Shared: an inode is being loaded. Exclusive: the daemon loads one that nobody uses.
    loading: RwLock<()>,
    /// All inodes on persistent memory: number, and sync factor when it was last in memory.
    index: parking_lot::Mutex<BTreeMap<Identity, (u64, u64)>>,
    /// Names of files in persistent memory alone.
    children: parking_lot::Mutex<Children>,
    /// Names of such files under which something may be back below after a power failure: what a move that was given up has left, or a file
    /// that had the name before.
    leftovers: parking_lot::Mutex<BTreeSet<NamePlace>>,
    /// Shared: a call changes a lower directory. Exclusive: one is changed so that its times stay.
    directories: RwLock<()>,
    /// The next number of such a file, counted.
    made_alone: AtomicU64,
    /// Files without names, whose removal the lower file system may not have made durable.
    dead: parking_lot::Mutex<Vec<Dead>>,
    daemon: Mutex<Option<Daemon>>,
    /// Persistent memory knows the file system below.
    paired: Mutex<bool>,
    /// Nothing may be changed, not even by an unmount.
    read_only: bool,
    /// Held by the daemon while it works.
    at_work: Mutex<()>,
    recovery: Recovery,
    /// Lower files that recovery did not find.
    dropped: Vec<Missing>,
    counts: Counts,
    name: &'static str,
}

/// What happened since the mount.
#[derive(Debug, Default)]
struct Counts {
    promoted: AtomicU64,
    not_promoted: AtomicU64,
    demoted: AtomicU64,
    suspended: AtomicU64,
    spilled: AtomicU64,
}

/// What happened since the mount, and what is there now.
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

impl Spfs {
    /// The layer below.
    pub fn lower(&self) -> &Lower {
        &self.lower
    }

    /// What the mount had to recover.
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
            let alone = index.keys().filter(|of| layout::alone::is(of.ino)).count();
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

    /// Used bytes of persistent memory.
    fn in_use(&self) -> u64 {
        let clusters = &self.store.clusters;
        (clusters.total() - clusters.available()) * granary_pm::BLOCK
    }

    /// The kernel's call, now.
    fn kernel(&self) -> Call<'static> {
        Call::kernel(self.lower.vfs().time())
    }

    fn cached(&self, ino: Ino) -> Option<Arc<Node>> {
        self.nodes.lock().get(&ino.0).cloned()
    }

    /// Demotes every file: after it the lower file system has all. For who is to use that alone.
    ///
    /// # Errors
    /// The first that a file met; the others are demoted all the same.
    pub fn demote_all(&self) -> Result<()> {
        self.lower.sync(&self.kernel())?;
        self.purge(&self.kernel())?;
        let all: Vec<Identity> = self.index.lock().keys().copied().collect();
        all.into_iter().map(|of| self.demote_one(of, true).map(drop)).fold(Ok(()), Result::and)?;
        match self.index.lock().len() {
            0 => Ok(()),
            left => Err(FsError::Mismatch(format!(
                "{left} files of persistent memory are not below any more: removed beside the mount, or replaced by copies. Their \
                 bytes stay in persistent memory"
            ))),
        }
    }

    /// Files of persistent memory that are not below: removed beside the mount, or replaced by copies.
    ///
    /// # Errors
    /// The lower file system's.
    pub fn not_below(&self) -> Result<Vec<Missing>> {
        let mut all = Vec::new();
        for of in self.missing()? {
            all.extend(self.store.find(of)?.map(|(_, inode)| Missing::of(&inode)));
        }
        Ok(all)
    }

    /// Files of persistent memory that recovery did not find below, and dropped. Such as were removed before the stop are among them: what
    /// they had is freed once their removal is durable.
    pub fn dropped(&self) -> &[Missing] {
        &self.dropped
    }

    fn missing(&self) -> Result<Vec<Identity>> {
        let all: Vec<Identity> = self.index.lock().keys().copied().collect();
        let mut missing = Vec::new();
        for of in all.into_iter().filter(|of| !layout::alone::is(of.ino)) {
            if !recover::is_below(&self.lower, of)? {
                missing.push(of);
            }
        }
        Ok(missing)
    }

    /// Gives files in persistent memory alone whose directory was removed beside the mount a name in the root directory, before anybody
    /// calls; says which.
    ///
    /// # Errors
    /// The devices', the lower file system's.
    pub fn find_places(&self) -> Result<Vec<Vec<u8>>> {
        let own =
            |(of, (number, _)): (&Identity, &(u64, u64))| layout::alone::is(of.ino).then_some((*of, *number));
        let all: Vec<(Identity, u64)> = self.index.lock().iter().filter_map(own).collect();
        let mut found = Vec::new();
        for (of, number) in all {
            let Ok(Alone { place: Some(lost), .. }) = Alone::load(&self.store.pm, number)? else { continue };
            if recover::directory(&self.lower, lost.dir)?.is_some() {
                continue;
            }
            let place = recover::place_in_root(&self.lower, number)?;
            self.store.rename(number, &place)?;
            let mut children = self.children.lock();
            children.remove(&lost);
            children.enter(&place, of.ino);
            found.push(place.name);
        }
        self.lower.reap();
        Ok(found)
    }

    /// Gives up what persistent memory has of files that are not below any more, before anybody calls.
    ///
    /// # Errors
    /// The devices'.
    pub fn give_up_missing(&self) -> Result<()> {
        self.missing()?.into_iter().try_for_each(|of| {
            self.index.lock().remove(&of);
            self.free(of)
        })
    }
}
