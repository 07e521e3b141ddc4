//! [`Objects`]: the objects of each file in the drive's memory, and those that the host keeps meanwhile
//! (reverse caching).
//!
//! ```text
//!            create, load                     last close, host has room
//!   absent ───────────────> resident ──────────────────────────────────────> in the host: dentry,
//!      ^                     |  ^                                           |  host part of the inode
//!      |   memory is full    |  └────────────── opened, changed ────────────┘
//!      └──── (closed, clean) ┘
//! ```
//!
//! - There is one valid copy of each object. A moved object is gone from its old place: no protocol keeps
//!   copies alike.
//! - Only files move: a directory's dentry stays, since searches need it (DevFS section 3.4).
//! - Without room in the host an object stays resident. Without room in the drive closed files are dropped,
//!   the longest unused first (storage has them). If that does not free enough, the call fails with EMFILE.
//!
//! A move costs its copy, an allocation and the parent's list, from the same table of costs as everything
//! else.
//!
//! Source: DevFS section 3.4 and Figures 8 and 9; states and fall-back are ours.

use crate::memory::{Kind, Ledger};
use crate::options::MountOptions;
use granary_fs::{FsError, Result};
use granary_sim::HostCosts;
use granary_units::Nanos;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The drive's memory of one file.
#[derive(Clone, Copy, Debug, Default)]
struct Object {
    opens: u32,
    is_dir: bool,
    /// Of these an open file has one each: filemap, queue, journal.
    filemap: bool,
    queue: bool,
    journal: bool,
    /// In the host's memory, not in the drive's.
    dentry_in_host: bool,
    inode_in_host: bool,
    /// When it was used last, counted in uses.
    used: u64,
}

/// Use of the drive's memory, and the moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// By kind.
    pub ledger: Ledger,
    /// The most that it ever was, bytes.
    pub most: u64,
    /// Dentries that the host keeps.
    pub host_dentries: u64,
    /// Inodes of which it keeps a part.
    pub host_inodes: u64,
    /// Moves to the host, and back.
    pub moved_out: u64,
    /// Back.
    pub moved_in: u64,
    /// Closed files that were dropped because memory was full.
    pub dropped: u64,
    /// Closes after which the host had no room.
    pub stayed: u64,
}

/// Work that is to be charged to the drive's processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    dentries: u32,
    inodes: u32,
    loads: u32,
}

impl Work {
    /// Its time: for each move the copy and the list that holds the object, and for a name the removal from
    /// one table and the insertion into the other.
    pub fn cost(self, c: &HostCosts) -> Nanos {
        let dentry = c.copy(Kind::Dentry.bytes() as usize) + c.dentry_insert + c.dentry_remove;
        let inode = c.copy(Kind::InodeHost.bytes() as usize) + c.inode_dirty + c.inode_update;
        dentry * u64::from(self.dentries)
            + inode * u64::from(self.inodes)
            + c.inode_read * u64::from(self.loads)
    }
}

/// All files in memory.
pub(crate) struct Objects {
    all: FxHashMap<u64, Object>,
    /// Closed files, by when they were used last.
    closed: BTreeMap<u64, u64>,
    uses: u64,
    stats: MemoryStats,
    memory: u64,
    most_host_dentries: u64,
    most_host_inodes: u64,
    on_demand: bool,
    dentries: bool,
    inodes: bool,
}

impl Objects {
    /// None yet; `memory` is the drive's, in bytes.
    pub fn new(options: &MountOptions, memory: u64) -> Objects {
        Objects {
            all: FxHashMap::default(),
            closed: BTreeMap::new(),
            uses: 0,
            stats: MemoryStats::default(),
            memory,
            most_host_dentries: options.host_dentries.0 / Kind::Dentry.bytes(),
            most_host_inodes: options.host_inodes.0 / Kind::InodeHost.bytes(),
            on_demand: options.on_demand,
            dentries: options.reverse_dentries,
            inodes: options.reverse_inodes,
        }
    }

    /// Use of the memory.
    pub fn stats(&self) -> MemoryStats {
        self.stats
    }

    /// The ledger's total, and the sum over the objects.
    pub fn recount(&self) -> (u64, u64) {
        let of = |o: &Object| {
            let has = |yes: bool, kind: Kind| u64::from(yes) * kind.bytes();
            Kind::InodeDevice.bytes()
                + has(!o.inode_in_host, Kind::InodeHost)
                + has(!o.dentry_in_host, Kind::Dentry)
                + has(o.filemap, Kind::Filemap)
                + has(o.queue, Kind::Queue)
                + has(o.journal, Kind::Journal)
                + u64::from(o.opens) * Kind::FilePointer.bytes()
        };
        (self.stats.ledger.total().0, self.all.values().map(of).sum())
    }

    /// Room for one more of these kinds, by dropping closed files.
    ///
    /// # Errors
    /// `TableFull` (ENFILE) where all that is there is open.
    fn make_room(&mut self, kinds: &[Kind], for_ino: u64) -> Result<()> {
        let wanted: u64 = kinds.iter().map(|kind| kind.bytes()).sum();
        while self.stats.ledger.total().0 + wanted > self.memory {
            let oldest = self.closed.iter().find(|(_, ino)| **ino != for_ino).map(|(_, ino)| *ino);
            self.forget(oldest.ok_or(FsError::TableFull)?);
            self.stats.dropped += 1;
        }
        for kind in kinds {
            self.stats.ledger.add(*kind);
        }
        self.stats.most = self.stats.most.max(self.stats.ledger.total().0);
        Ok(())
    }

    /// It is used: not the next to be dropped.
    fn use_now(&mut self, ino: u64) {
        self.uses += 1;
        let Some(o) = self.all.get_mut(&ino) else { return };
        self.closed.remove(&o.used);
        o.used = self.uses;
        if o.opens == 0 {
            self.closed.insert(self.uses, ino);
        }
    }

    /// A file that is created, or that a command names and the drive's memory does not have.
    pub fn know(&mut self, ino: u64, is_dir: bool, new: bool) -> Result<Work> {
        if self.all.contains_key(&ino) {
            self.use_now(ino);
            return Ok(Work::default());
        }
        let kinds = [Kind::InodeDevice, Kind::InodeHost, Kind::Dentry, Kind::Filemap];
        let kinds = if self.on_demand { &kinds[..3] } else { &kinds[..] };
        self.make_room(kinds, ino)?;
        self.all.insert(ino, Object { is_dir, filemap: !self.on_demand, ..Object::default() });
        self.use_now(ino);
        Ok(Work { loads: u32::from(!new), ..Work::default() })
    }

    /// It is to be changed or opened: its parts in the host come back first.
    pub fn bring_in(&mut self, ino: u64) -> Result<Work> {
        let Some(o) = self.all.get(&ino).copied() else { return Ok(Work::default()) };
        let mut work = Work::default();
        if o.dentry_in_host {
            self.make_room(&[Kind::Dentry], ino)?;
            self.stats.host_dentries -= 1;
            work.dentries = 1;
        }
        if o.inode_in_host {
            if let Err(e) = self.make_room(&[Kind::InodeHost], ino) {
                // All or nothing: the dentry goes back to where it was.
                if o.dentry_in_host {
                    self.stats.ledger.take(Kind::Dentry);
                    self.stats.host_dentries += 1;
                }
                return Err(e);
            }
            self.stats.host_inodes -= 1;
            work.inodes = 1;
        }
        self.stats.moved_in += u64::from(work.dentries + work.inodes);
        if let Some(o) = self.all.get_mut(&ino) {
            (o.dentry_in_host, o.inode_in_host) = (false, false);
        }
        self.use_now(ino);
        Ok(work)
    }

    /// It is opened once more.
    pub fn open(&mut self, ino: u64, is_dir: bool) -> Result<Work> {
        let known = self.know(ino, is_dir, false)?;
        let moved = self.bring_in(ino)?;
        let o = self.all[&ino];
        let eager = !self.on_demand;
        let mut kinds = vec![Kind::FilePointer];
        kinds.extend((eager && !o.queue).then_some(Kind::Queue));
        kinds.extend((eager && !o.journal).then_some(Kind::Journal));
        self.make_room(&kinds, ino)?;
        if let Some(o) = self.all.get_mut(&ino) {
            o.opens += 1;
            (o.queue, o.journal) = (o.queue || eager, o.journal || eager);
            self.closed.remove(&o.used);
        }
        Ok(Work { loads: known.loads, ..moved })
    }

    /// The first read or write since it was opened.
    pub fn first_io(&mut self, ino: u64) -> Result<()> {
        let Some(o) = self.all.get(&ino).copied().filter(|o| o.opens > 0) else { return Ok(()) };
        let missing = [(o.filemap, Kind::Filemap), (o.queue, Kind::Queue), (o.journal, Kind::Journal)];
        let kinds: Vec<Kind> = missing.into_iter().filter(|(has, _)| !has).map(|(_, kind)| kind).collect();
        if kinds.is_empty() {
            return Ok(());
        }
        self.make_room(&kinds, ino)?;
        if let Some(o) = self.all.get_mut(&ino) {
            (o.filemap, o.queue, o.journal) = (true, true, true);
        }
        Ok(())
    }

    /// It is closed once.
    pub fn close(&mut self, ino: u64) -> Work {
        let Some(o) = self.all.get_mut(&ino).filter(|o| o.opens > 0) else { return Work::default() };
        o.opens -= 1;
        self.stats.ledger.take(Kind::FilePointer);
        if o.opens > 0 {
            return Work::default();
        }
        for (has, kind) in [(&mut o.queue, Kind::Queue), (&mut o.journal, Kind::Journal)] {
            if std::mem::take(has) {
                self.stats.ledger.take(kind);
            }
        }
        if self.on_demand && std::mem::take(&mut o.filemap) {
            self.stats.ledger.take(Kind::Filemap);
        }
        let mut work = Work::default();
        if !o.is_dir {
            if self.dentries && self.stats.host_dentries < self.most_host_dentries {
                o.dentry_in_host = true;
                self.stats.ledger.take(Kind::Dentry);
                self.stats.host_dentries += 1;
                work.dentries = 1;
            }
            if self.inodes && self.stats.host_inodes < self.most_host_inodes {
                o.inode_in_host = true;
                self.stats.ledger.take(Kind::InodeHost);
                self.stats.host_inodes += 1;
                work.inodes = 1;
            }
            let wanted = u32::from(self.dentries) + u32::from(self.inodes);
            self.stats.stayed += u64::from(work.dentries + work.inodes < wanted);
            self.stats.moved_out += u64::from(work.dentries + work.inodes);
        }
        self.use_now(ino);
        work
    }

    /// It is gone, or memory can do without it: nothing is copied.
    pub fn forget(&mut self, ino: u64) {
        let Some(o) = self.all.remove(&ino) else { return };
        self.closed.remove(&o.used);
        let ledger = &mut self.stats.ledger;
        ledger.take(Kind::InodeDevice);
        match o.inode_in_host {
            true => self.stats.host_inodes -= 1,
            false => ledger.take(Kind::InodeHost),
        }
        match o.dentry_in_host {
            true => self.stats.host_dentries -= 1,
            false => ledger.take(Kind::Dentry),
        }
        for (has, kind) in [(o.filemap, Kind::Filemap), (o.queue, Kind::Queue), (o.journal, Kind::Journal)] {
            if has {
                ledger.take(kind);
            }
        }
        (0..o.opens).for_each(|_| ledger.take(Kind::FilePointer));
    }
}

#[cfg(test)]
mod tests;
