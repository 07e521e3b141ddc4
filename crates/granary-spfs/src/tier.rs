//! [`Tier`]: a file in persistent memory: its size, and the map of its extents in host memory.
//!
//! ```text
//!   inode.last ──> extent 40 ──prev──> extent 12 ──prev──> extent 3        chain, from the end to the
//!                                                                          beginning
//! ```
//!
//! An extent counts where the chain reaches it. So new extents are prepared beside the chain, however many,
//! and one store of 8 bytes (the successor's `prev`, or `last`) enters them all. Extents are cut from the end
//! the same way. Extents that the chain does not reach are zeroed after the store, or by recovery.
//!
//! An extent without clusters (`pcn` 0) is zeros: a punched range, for which the lower file may still have
//! bytes.
//!
//! Invariants: extents are disjoint, and none crosses a chunk. Bytes beyond the size are zeros. `limit <=
//! size`.
//!
//! Host memory learns the whole chain at the first write, or the first read that one search of the table does
//! not answer.

mod split;

use crate::exthash;
use crate::factor::Factor;
use crate::layout::alone::Alone;
use crate::layout::inode::{self, Identity, Inode};
use crate::layout::slot::{self, Extent};
use crate::store::Store;
use crate::table::Found;
use granary_device::Structure;
use granary_fs::{Result, Time};
use granary_pm::{BLOCK, Batch, corrupt};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// An extent as host memory knows it.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// First cluster of the data; 0: zeros.
    pub pcn: u32,
    /// Clusters.
    pub len: u32,
    found: Found,
}

impl Piece {
    /// It has no clusters: its bytes are zeros.
    pub fn is_zeros(&self) -> bool {
        self.pcn == 0
    }
}

/// See the module.
pub struct Tier {
    /// The inode.
    pub number: u64,
    /// Size in bytes.
    pub size: u64,
    /// Bytes of the lower file from there on are not the file's.
    pub limit: u64,
    /// Modification time.
    pub mtime: Time,
    /// Change time.
    pub ctime: Time,
    /// The sync factor.
    pub factor: Mutex<Factor>,
    /// Extents by first cluster; all of them where `complete`.
    pub map: BTreeMap<u32, Piece>,
    /// The chain is known.
    pub complete: bool,
    last: Option<u32>,
    /// Of a file that is in persistent memory alone: which it is, and what it has beside its bytes.
    pub alone: Option<(Identity, Alone)>,
    /// Clusters taken ahead of appends (16 KB in the released code): in host memory only.
    pub spare: Option<(u32, u32)>,
}

impl Tier {
    /// Sectors of 512 B of the file, of which so many are below. A program may take a file without any for
    /// one hole (tar does), so what is here counts, twice where it is below, too. Where not all extents are
    /// known, the size stands for them.
    pub fn sectors(&self, below: u64) -> u64 {
        const PER: u64 = BLOCK / 512;
        match self.complete {
            true => {
                let clusters = self.map.values().filter(|piece| !piece.is_zeros());
                below + clusters.map(|piece| u64::from(piece.len) * PER).sum::<u64>()
            }
            false => below.max(self.size.div_ceil(BLOCK) * PER),
        }
    }

    /// A file as its inode has it.
    pub fn new(number: u64, inode: &Inode, complete: bool) -> Tier {
        Tier {
            number,
            size: inode.size,
            limit: inode.limit.min(inode.size),
            mtime: inode.mtime,
            ctime: inode.ctime,
            factor: Mutex::new(Factor::new(inode.factor)),
            map: BTreeMap::new(),
            complete,
            last: inode.last,
            alone: None,
            spare: None,
        }
    }

    /// The extent that has this cluster: its first cluster, and itself.
    pub fn covering(&self, lcn: u32) -> Option<(u32, Piece)> {
        let (start, piece) = self.map.range(..=lcn).next_back()?;
        (lcn - start < piece.len).then_some((*start, *piece))
    }

    /// The first cluster of the next extent behind `lcn`.
    pub fn next_start(&self, lcn: u32) -> Option<u32> {
        self.map.range(lcn..).next().map(|(start, _)| *start)
    }

    /// Where the extent before `lcn` ends.
    pub fn end_before(&self, lcn: u32) -> u32 {
        self.map.range(..lcn).next_back().map_or(0, |(start, p)| start + p.len)
    }
}

impl Store {
    pub(crate) fn key(&self, lcn: u32) -> u32 {
        lcn % self.chunk
    }

    fn place(&self, number: u64, chunk: u32, key: u32) -> slot::SlotPlace {
        slot::extent_place(number, chunk, key)
    }

    /// One search of the table: the extent that the first pointer found leads to, if it has the cluster.
    ///
    /// # Errors
    /// The device's.
    pub fn search(&self, number: u64, lcn: u32) -> Result<Option<Extent>> {
        let chunk = lcn / self.chunk;
        for key in exthash::probes(self.key(lcn)) {
            let is = |b: &[u8]| {
                Extent::read(b)
                    .is_some_and(|e| (e.inode, e.key) == (number, key) && e.lcn / self.chunk == chunk)
            };
            if let Some((_, bytes)) = self.extents.find(&self.pm, self.place(number, chunk, key), &is)? {
                let hit = Extent::read(&bytes).filter(|e| lcn >= e.lcn && lcn - e.lcn < e.len);
                return Ok(hit);
            }
        }
        Ok(None)
    }

    /// Finds the slot at a key of the extent that begins at `lcn`.
    fn slot(&self, number: u64, lcn: u32, key: u32) -> Result<Option<(Found, Extent)>> {
        let is = |b: &[u8]| Extent::read(b).is_some_and(|e| (e.inode, e.lcn, e.key) == (number, lcn, key));
        let found = self.extents.find(&self.pm, self.place(number, lcn / self.chunk, key), &is)?;
        Ok(found.and_then(|(found, bytes)| Some((found, Extent::read(&bytes)?))))
    }

    /// Learns all extents.
    ///
    /// # Errors
    /// `Corrupt` where the chain is broken; the device's.
    pub fn load_chain(&self, t: &mut Tier) -> Result<()> {
        if t.complete {
            return Ok(());
        }
        let (mut at, mut end, mut map) = (t.last, u32::MAX, BTreeMap::new());
        while let Some(lcn) = at {
            let broken =
                || corrupt(format!("the chain of extents of inode {} breaks at cluster {lcn}", t.number));
            let (found, e) = self.slot(t.number, lcn, self.key(lcn))?.ok_or_else(broken)?;
            let whole = e.len <= end.saturating_sub(lcn) && e.prev.is_none_or(|prev| prev < lcn);
            if !whole || (e.pcn != 0 && u64::from(e.pcn) + u64::from(e.len) > self.sb.end()) {
                return Err(broken());
            }
            map.insert(lcn, Piece { pcn: e.pcn, len: e.len, found });
            (end, at) = (lcn, e.prev);
        }
        (t.map, t.complete) = (map, true);
        Ok(())
    }

    /// Enters extents (first cluster, clusters, first cluster of the data), ascending, in one hole of the
    /// file. Their data is in the batch. When it returns all are there; after a power failure before, all or
    /// none.
    ///
    /// # Errors
    /// `NoSpace` where the table is full, with nothing changed; the device's.
    pub fn add(&self, t: &mut Tier, b: &mut Batch<'_>, new: &[(u32, u32, u32)]) -> Result<()> {
        let (Some(first), Some(last)) = (new.first(), new.last()) else { return Ok(()) };
        let mut prev = t.map.range(..first.0).next_back().map(|(start, _)| *start);
        let mut entered = Vec::new();
        for &(lcn, len, pcn) in new {
            let e = Extent { pcn, len, lcn, prev, inode: t.number, key: self.key(lcn) };
            match self.enter(b, e) {
                Ok(found) => entered.push((lcn, Piece { pcn, len, found })),
                Err(error) => {
                    for (lcn, piece) in entered {
                        self.leave(b, t.number, lcn, piece.len, 0)?;
                    }
                    self.leave(b, t.number, lcn, len, 0)?;
                    b.fence()?;
                    return Err(error);
                }
            }
            prev = Some(lcn);
        }
        b.fence()?;
        match t.map.range(last.0..).next().map(|(start, piece)| (*start, *piece)) {
            Some((next, piece)) => {
                let link = u64::from(next) << 32 | (u64::from(last.0) + 1);
                let found = self.put(b, t.number, next, piece.found, (1, link))?;
                t.map.insert(next, Piece { found, ..piece });
            }
            None => {
                b.put_u64(
                    inode::at(t.number, inode::LAST),
                    inode::last_word(Some(last.0)),
                    Structure::Inode,
                )?;
                t.last = Some(last.0);
            }
        }
        b.fence()?;
        t.map.extend(entered);
        Ok(())
    }

    /// Enters the slots of one extent, the one at its start last.
    pub(crate) fn enter(&self, b: &mut Batch<'_>, e: Extent) -> Result<Found> {
        let keys: Vec<u32> = exthash::pointers(e.key, e.len).skip(1).collect();
        for key in keys.into_iter().rev() {
            self.extents.insert(&self.pm, &self.clusters, b, &Extent { key, ..e }.bytes())?;
        }
        self.extents.insert(&self.pm, &self.clusters, b, &e.bytes())
    }

    /// Zeroes the slots of an extent at keys from its cluster `from` on.
    fn leave(&self, b: &mut Batch<'_>, number: u64, lcn: u32, len: u32, from: u32) -> Result<()> {
        let start = self.key(lcn);
        for key in exthash::pointers(start, len).filter(|key| key - start >= from) {
            if let Some((found, _)) = self.slot(number, lcn, key)? {
                let place = self.place(number, lcn / self.chunk, key);
                let is =
                    |b: &[u8]| Extent::read(b).is_some_and(|e| (e.inode, e.lcn, e.key) == (number, lcn, key));
                self.extents.remove(&self.pm, b, (found, place), &is)?;
            }
        }
        Ok(())
    }

    /// Puts a word of the slot at the start of an extent.
    fn put(&self, b: &mut Batch<'_>, number: u64, lcn: u32, found: Found, word: (u64, u64)) -> Result<Found> {
        let key = self.key(lcn);
        let place = self.place(number, lcn / self.chunk, key);
        let is = |b: &[u8]| Extent::read(b).is_some_and(|e| (e.inode, e.lcn, e.key) == (number, lcn, key));
        self.extents.put_word(&self.pm, b, (found, place), word, &is)
    }

    /// Gives an extent other clusters or another length that its slot at the start can stand for. The data is
    /// in the batch. One store.
    ///
    /// # Errors
    /// The device's.
    pub fn change(&self, t: &mut Tier, b: &mut Batch<'_>, lcn: u32, pcn: u32, len: u32) -> Result<()> {
        b.fence()?;
        let Some(piece) = t.map.get(&lcn).copied() else { return Ok(()) };
        let head = u64::from(pcn) << 32 | u64::from(len);
        let found = self.put(b, t.number, lcn, piece.found, (0, head))?;
        b.fence()?;
        t.map.insert(lcn, Piece { pcn, len, found });
        // Searches that come by other pointers.
        for key in exthash::pointers(self.key(lcn), len).skip(1) {
            if let Some((found, _)) = self.slot(t.number, lcn, key)? {
                let place = self.place(t.number, lcn / self.chunk, key);
                let is = |b: &[u8]| {
                    Extent::read(b).is_some_and(|e| (e.inode, e.lcn, e.key) == (t.number, lcn, key))
                };
                self.extents.put_word(&self.pm, b, (found, place), (0, head), &is)?;
            }
        }
        b.fence()
    }

    /// The file keeps only its first `clusters` clusters.
    ///
    /// # Errors
    /// The device's.
    pub fn cut(&self, t: &mut Tier, clusters: u32) -> Result<()> {
        self.load_chain(t)?;
        let gone: Vec<(u32, Piece)> = t.map.range(clusters..).map(|(start, p)| (*start, *p)).collect();
        let cut =
            clusters.checked_sub(1).and_then(|lcn| t.covering(lcn)).filter(|(s, p)| s + p.len > clusters);
        let mut b = self.pm.batch();
        let mut free = Vec::new();
        if !gone.is_empty() {
            let last = t.map.range(..clusters).next_back().map(|(start, _)| *start);
            b.put_u64(inode::at(t.number, inode::LAST), inode::last_word(last), Structure::Inode)?;
            b.fence()?;
            t.last = last;
            for (lcn, piece) in &gone {
                self.leave(&mut b, t.number, *lcn, piece.len, 0)?;
                t.map.remove(lcn);
                free.extend((!piece.is_zeros()).then_some((u64::from(piece.pcn), u64::from(piece.len))));
            }
        }
        if let Some((lcn, piece)) = cut {
            let len = clusters - lcn;
            self.leave(&mut b, t.number, lcn, piece.len, len)?;
            self.change(t, &mut b, lcn, piece.pcn, len)?;
            if !piece.is_zeros() {
                free.push((u64::from(piece.pcn + len), u64::from(piece.len - len)));
            }
        }
        b.fence()?;
        free.into_iter().try_for_each(|(at, n)| self.clusters.give(at, n))
    }

    /// Gives back what was taken ahead.
    ///
    /// # Errors
    /// As [`crate::alloc::Clusters::give`].
    pub fn give_spare(&self, t: &mut Tier) -> Result<()> {
        match t.spare.take() {
            Some((at, n)) => self.clusters.give(at.into(), n.into()),
            None => Ok(()),
        }
    }

    /// Zeroes the bytes behind the size in the cluster that has the end.
    ///
    /// # Errors
    /// The device's.
    pub fn zero_tail(&self, t: &Tier) -> Result<()> {
        let inside = t.size % BLOCK;
        let with_end =
            t.covering((t.size / BLOCK) as u32).filter(|(_, piece)| inside > 0 && !piece.is_zeros());
        let Some((start, piece)) = with_end else { return Ok(()) };
        let at = (u64::from(piece.pcn) + t.size / BLOCK - u64::from(start)) * BLOCK + inside;
        let zeros = granary_units::Payload::Fill { word: 0, len: (BLOCK - inside) as usize };
        let mut b = self.pm.batch();
        b.stream(at, zeros, Structure::Data)?;
        b.fence()
    }
}
