//! [`Nat`]: map from node number to block, and the free numbers.
//!
//! ```text
//!   lookup:  dirty (since the last checkpoint)  ->  journal (in the checkpoint pack)
//!            ->  NAT block (the copy that counts)
//!   free numbers: a queue, filled eight NAT blocks at a time; a freed number comes back with the next
//!            checkpoint
//! ```
//!
//! The block of a number does not change while its node is being read: a task that moves a node has it in
//! memory.

use crate::geometry::Geometry;
use crate::layout::nat::{NAT_ENTRIES, NAT_ENTRY, NAT_JOURNAL, NatEntry};
use crate::layout::node::FIRST_NID;
use crate::layout::{BLOCK_SIZE, NEW_ADDR, NULL_ADDR, bit, corrupt, set_bit};
use granary_device::{Port, Structure};
use granary_fs::{FsError, Result};
use granary_kit::{Block, BlockCache};
use granary_sim::sync::Mutex;
use granary_units::{Lpa, Page};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// NAT blocks looked through for free numbers at once (`FREE_NID_PAGES`).
const SCAN: u32 = 8;

/// fsync's knowledge of an inode since the last checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    /// Its inode block was written with a mark.
    pub fsynced_inode: bool,
    /// The last of its nodes that was written had a mark.
    pub last_marked: bool,
}

struct Inner {
    dirty: BTreeMap<u32, NatEntry>,
    journal: BTreeMap<u32, NatEntry>,
    copies: Vec<u8>,
    /// Numbers taken since the last checkpoint.
    fresh: FxHashSet<u32>,
    marks: FxHashMap<u32, Marks>,
    free: VecDeque<u32>,
    /// Not to be taken: recovery may still find them in the log.
    excluded: FxHashSet<u32>,
    /// Next NAT block to look through, and how many are left of this round.
    scan: u32,
}

/// See the module.
pub(crate) struct Nat {
    geo: Geometry,
    cache: Arc<BlockCache>,
    inner: parking_lot::Mutex<Inner>,
    scanning: Mutex<()>,
}

/// Changes of the NAT that a checkpoint writes.
pub(crate) struct NatFlush {
    pub journal: Vec<(u32, NatEntry)>,
    pub blocks: Vec<(Lpa, Page)>,
    /// The same in memory, to be held until the drive has been told. Lookups take no lock that a checkpoint
    /// excludes: they would read an evicted block again from its old place.
    pub held: Vec<Arc<Block>>,
}

impl Nat {
    pub fn new(
        geo: Geometry,
        cache: Arc<BlockCache>,
        journal: Vec<(u32, NatEntry)>,
        copies: Vec<u8>,
        next_nid: u32,
    ) -> Nat {
        let inner = Inner {
            dirty: BTreeMap::new(),
            journal: journal.into_iter().collect(),
            copies,
            fresh: FxHashSet::default(),
            marks: FxHashMap::default(),
            free: VecDeque::new(),
            excluded: FxHashSet::default(),
            scan: next_nid / NAT_ENTRIES as u32 % geo.nat_blocks,
        };
        Nat { geo, cache, inner: parking_lot::Mutex::new(inner), scanning: Mutex::new(()) }
    }

    fn block_of(&self, s: &Inner, n: u32) -> Lpa {
        Lpa(self.geo.nat(n, bit(&s.copies, n as usize)))
    }

    /// Where a node is.
    ///
    /// # Errors
    /// `Corrupt` where the number is none; the drive's.
    pub fn lookup(&self, nid: u32) -> Result<NatEntry> {
        if nid < crate::layout::node::ROOT_INO || nid >= self.geo.nids() {
            return Err(corrupt(format!("node number {nid}")));
        }
        let lpa = {
            let s = self.inner.lock();
            if let Some(e) = s.dirty.get(&nid).or_else(|| s.journal.get(&nid)) {
                return Ok(*e);
            }
            self.block_of(&s, nid / NAT_ENTRIES as u32)
        };
        let block = self.cache.get(lpa, Structure::DataPointer)?;
        Ok(block.with(|b| NatEntry::read(b, nid as usize % NAT_ENTRIES * NAT_ENTRY)))
    }

    /// A node moves, or gets its first place.
    ///
    /// # Errors
    /// As [`Nat::lookup`].
    pub fn set(&self, nid: u32, ino: u32, addr: u32) -> Result<NatEntry> {
        let old = self.lookup(nid)?;
        let version = old.version.wrapping_add((addr == NULL_ADDR) as u8);
        self.inner.lock().dirty.insert(nid, NatEntry { version, ino, addr });
        Ok(old)
    }

    /// Remembers how a node of `ino` was written.
    pub fn mark(&self, nid: u32, ino: u32, fsync: bool) {
        let mut s = self.inner.lock();
        let fresh = s.fresh.contains(&ino);
        let m = s.marks.entry(ino).or_insert(Marks { fsynced_inode: false, last_marked: !fresh });
        m.fsynced_inode |= fsync && nid == ino;
        m.last_marked = fsync;
    }

    /// Whether the last checkpoint knows the node.
    pub fn is_checkpointed(&self, nid: u32) -> bool {
        !self.inner.lock().fresh.contains(&nid)
    }

    fn marks(s: &Inner, ino: u32) -> Marks {
        let fresh = s.fresh.contains(&ino);
        s.marks.get(&ino).copied().unwrap_or(Marks { fsynced_inode: false, last_marked: !fresh })
    }

    /// Whether recovery finds an inode: in the last checkpoint, or in the log with a mark.
    pub fn is_on_media(&self, ino: u32) -> bool {
        let s = self.inner.lock();
        !s.fresh.contains(&ino) || Nat::marks(&s, ino).fsynced_inode
    }

    /// Whether an fsync must write the inode block, too (`f2fs_need_inode_block_update`); `others`: it writes
    /// other nodes.
    pub fn needs_inode_block(&self, ino: u32, others: bool) -> bool {
        let s = self.inner.lock();
        let m = Nat::marks(&s, ino);
        !((others || m.last_marked) && (!s.fresh.contains(&ino) || m.fsynced_inode))
    }

    /// Whether recovery would have to enter the name (`f2fs_need_dentry_mark`).
    pub fn needs_dentry_mark(&self, ino: u32) -> bool {
        let s = self.inner.lock();
        s.fresh.contains(&ino) && !Nat::marks(&s, ino).fsynced_inode
    }

    /// Takes a free number.
    ///
    /// # Errors
    /// `NoSpace`; the drive's.
    pub fn take(&self, ino: Option<u32>) -> Result<u32> {
        loop {
            {
                let mut s = self.inner.lock();
                while let Some(nid) = s.free.pop_front() {
                    if s.excluded.contains(&nid) {
                        continue;
                    }
                    s.fresh.insert(nid);
                    let version = s.journal.get(&nid).map_or(0, |e| e.version);
                    let entry = NatEntry { version, ino: ino.unwrap_or(nid), addr: NEW_ADDR };
                    s.dirty.insert(nid, entry);
                    return Ok(nid);
                }
            }
            self.look_for_free()?;
        }
    }

    /// Keeps numbers from being taken until the next checkpoint (recovery).
    pub fn exclude(&self, nids: impl Iterator<Item = u32>) {
        self.inner.lock().excluded.extend(nids);
    }

    /// Takes one particular free number, which is excluded from being taken otherwise (recovery).
    pub fn take_this(&self, nid: u32) {
        let mut s = self.inner.lock();
        s.fresh.insert(nid);
        let version = s.journal.get(&nid).map_or(0, |e| e.version);
        s.dirty.insert(nid, NatEntry { version, ino: nid, addr: NEW_ADDR });
    }

    /// Gives back a number that was taken and never written.
    pub fn give_back(&self, nid: u32) {
        let mut s = self.inner.lock();
        s.dirty.remove(&nid);
        s.fresh.remove(&nid);
        s.free.push_front(nid);
    }

    fn look_for_free(&self) -> Result<()> {
        let _one = self.scanning.lock();
        let mut left = self.geo.nat_blocks;
        while left > 0 && self.inner.lock().free.is_empty() {
            for _ in 0..SCAN.min(left) {
                left -= 1;
                let (n, lpa) = {
                    let s = self.inner.lock();
                    (s.scan, self.block_of(&s, s.scan))
                };
                let block = self.cache.get(lpa, Structure::DataPointer)?;
                let s = &mut *self.inner.lock();
                s.scan = (n + 1) % self.geo.nat_blocks;
                block.with(|b| {
                    for i in 0..NAT_ENTRIES {
                        let nid = n * NAT_ENTRIES as u32 + i as u32;
                        let used = NatEntry::read(b, i * NAT_ENTRY).addr != NULL_ADDR;
                        let known = s.journal.get(&nid).map_or(used, |e| e.addr != NULL_ADDR);
                        let barred = s.dirty.contains_key(&nid) || s.excluded.contains(&nid);
                        if nid >= FIRST_NID && !known && !barred {
                            s.free.push_back(nid);
                        }
                    }
                });
            }
        }
        if self.inner.lock().free.is_empty() { Err(FsError::NoSpace) } else { Ok(()) }
    }

    pub fn dirty_count(&self) -> usize {
        self.inner.lock().dirty.len()
    }

    pub fn copies(&self) -> Vec<u8> {
        self.inner.lock().copies.clone()
    }

    pub fn next_nid(&self) -> u32 {
        self.inner.lock().scan * NAT_ENTRIES as u32
    }

    /// For a checkpoint, which excludes every change: moves what is dirty to the journal or, in whole NAT
    /// blocks, to the copies that did not count (`f2fs_flush_nat_entries`).
    ///
    /// # Errors
    /// The drive's.
    pub fn flush(&self) -> Result<NatFlush> {
        let mut freed = Vec::new();
        let (mut sets, mut room): (Vec<Vec<(u32, NatEntry)>>, usize) = {
            let s = &mut *self.inner.lock();
            freed.extend(s.dirty.iter().filter(|(_, e)| e.addr == NULL_ADDR).map(|(nid, _)| *nid));
            if s.journal.len() + s.dirty.len() > NAT_JOURNAL {
                for (nid, e) in std::mem::take(&mut s.journal) {
                    s.dirty.entry(nid).or_insert(e);
                }
            }
            let all: Vec<_> = s.dirty.iter().map(|(n, e)| (*n, *e)).collect();
            let sets = all.chunk_by(|a, b| a.0 / NAT_ENTRIES as u32 == b.0 / NAT_ENTRIES as u32);
            (sets.map(|c| c.to_vec()).collect(), NAT_JOURNAL - s.journal.len())
        };
        sets.sort_by_key(|s| (s.len(), s[0].0));
        let mut blocks = Vec::new();
        let mut old = Vec::new();
        let mut to_journal = Vec::new();
        for set in &sets {
            if set.len() <= room {
                room -= set.len();
                to_journal.extend_from_slice(set);
                continue;
            }
            let n = set[0].0 / NAT_ENTRIES as u32;
            let lpa = self.block_of(&self.inner.lock(), n);
            let mut bytes = self.cache.get(lpa, Structure::DataPointer)?.with(|b| Box::new(*b));
            for (nid, e) in set {
                e.store(&mut bytes[..], *nid as usize % NAT_ENTRIES * NAT_ENTRY);
            }
            old.push((n, lpa));
            blocks.push(bytes);
        }
        let s = &mut *self.inner.lock();
        let (mut writes, mut held) = (Vec::with_capacity(blocks.len()), Vec::with_capacity(blocks.len()));
        for ((n, lpa), bytes) in old.into_iter().zip(blocks) {
            let copy = !bit(&s.copies, n as usize);
            set_bit(&mut s.copies, n as usize, copy);
            let to = Lpa(self.geo.nat(n, copy));
            let block = self.cache.fresh(to, Structure::DataPointer);
            block.change(|b| *b = *bytes);
            held.push(block);
            self.cache.forget(lpa);
            writes.push((to, Page::from_bytes(&bytes)));
        }
        s.journal.extend(to_journal);
        for (nid, e) in std::mem::take(&mut s.dirty) {
            assert_ne!(e.addr, NEW_ADDR, "node {nid} was not written before the checkpoint");
        }
        s.free.extend(freed);
        Ok(NatFlush { journal: s.journal.iter().map(|(n, e)| (*n, *e)).collect(), blocks: writes, held })
    }

    /// The checkpoint is on media: every node is in it.
    pub fn committed(&self) {
        let s = &mut *self.inner.lock();
        s.fresh.clear();
        s.marks.clear();
        s.excluded.clear();
    }

    /// All numbers in use with their entries.
    ///
    /// # Errors
    /// The drive's.
    pub fn all(&self, port: &Port) -> Result<Vec<(u32, NatEntry)>> {
        let mut list = Vec::new();
        for n in 0..self.geo.nat_blocks {
            // From the drive: nothing in memory is newer than what a checkpoint wrote, but journal and
            // `dirty`.
            let mut page = [Page::ZERO];
            let lpa = self.block_of(&self.inner.lock(), n);
            port.read(lpa, &mut page, Structure::DataPointer)?;
            let s = self.inner.lock();
            let first = n * NAT_ENTRIES as u32;
            let over = s.journal.range(first..first + NAT_ENTRIES as u32).next().is_some()
                || s.dirty.range(first..first + NAT_ENTRIES as u32).next().is_some();
            if !over && page[0].is_zero() {
                continue;
            }
            let bytes = Box::new(page[0].to_bytes());
            for i in 0..NAT_ENTRIES {
                let nid = first + i as u32;
                let media = NatEntry::read(&bytes[..BLOCK_SIZE], i * NAT_ENTRY);
                let e = s.dirty.get(&nid).or_else(|| s.journal.get(&nid)).copied().unwrap_or(media);
                if e.addr != NULL_ADDR {
                    list.push((nid, e));
                }
            }
        }
        Ok(list)
    }
}
