//! [`Table`]: a dynamic hash table on persistent memory, after CCEH: a directory of segments, buckets of 256
//! bytes.
//!
//! ```text
//!   root word   depth, cluster of the directory
//!   directory   2^depth cluster numbers; the top `depth` bits of a hash choose
//!   segment     buckets of 256 B, the last one is the header: magic 4, pattern 4, local depth 4, overflow
//!               page 8
//! ```
//!
//! A slot belongs into the bucket of its place or one of the next few; where they are full and a split would
//! move nothing, into an overflow page of the segment (`overflow.rs`). A slot whose hash does not fit the
//! segment's pattern is *stale*: a split left it behind, and it counts as free. Invariants: under the lock
//! held shared, slots come and go; segments and directory change under the lock held exclusively only, as one
//! store of 8 bytes or by the split record (`split.rs`).
//!
//! A copy of the directory, of the headers and of the overflow pages' numbers is kept in host memory. It
//! does *not* know what slots mean: [`Kind`] does.
//!
//! Source: SPFS slides, "Dynamic Hash Table"; CCEH (FAST'19); the split record is ours, since the released
//! code has none.

mod kind;
mod merge;
mod open;
mod overflow;
mod split;
mod whole;

pub use kind::Kind;
pub use split::recover;

use crate::alloc::Clusters;
use crate::layout::slot::SlotPlace;
use granary_fs::{FsError, Result};
use granary_pm::bytes::{put_u32, put_u64};
use granary_pm::{BLOCK, Batch, Pm, corrupt};
use granary_sim::sync::RwLock;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes in a bucket.
const BUCKET: usize = 256;
/// Most bits of a directory. \[choice\] a directory of 256 KiB; beyond it a full segment gets overflow pages.
pub const MAX_DEPTH: u32 = 16;
const MAGIC: u32 = u32::from_le_bytes(*b"CCEH");

/// Hashes that belong into a segment: their top `depth` bits are `pattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    depth: u32,
    pattern: u32,
}

impl Header {
    fn fits(&self, hash: u32) -> bool {
        top(hash, self.depth) == self.pattern
    }

    fn bytes(&self) -> [u8; 16] {
        let mut b = [0; 16];
        put_u32(&mut b, 0, MAGIC);
        put_u64(&mut b, 8, self.word());
        b
    }

    /// Depth and pattern in one word, so that both change at once.
    fn word(&self) -> u64 {
        u64::from(self.depth) << 32 | u64::from(self.pattern)
    }
}

/// The top `depth` bits.
fn top(hash: u32, depth: u32) -> u32 {
    if depth == 0 { 0 } else { hash >> (32 - depth) }
}

/// Directory and headers.
struct Dir {
    depth: u32,
    /// First cluster of the directory.
    cluster: u64,
    segments: Vec<u32>,
    headers: BTreeMap<u32, Header>,
    /// Overflow pages by segment; those that have some.
    overflow: BTreeMap<u32, Vec<u32>>,
    /// Goes up whenever slots move.
    epoch: u64,
}

/// Where a slot was found, while the epoch is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    at: u64,
    epoch: u64,
}

/// See the module.
pub struct Table {
    kind: Kind,
    /// Clusters in a segment.
    segment: u64,
    chunk: u32,
    /// Bits of a hash that its directory may have.
    deepest: u32,
    dir: RwLock<Dir>,
    /// Free slots that somebody is about to fill.
    claimed: Mutex<BTreeSet<u64>>,
}

/// Clusters of a directory of this depth.
fn directory_clusters(depth: u32) -> u64 {
    (4u64 << depth).div_ceil(BLOCK)
}

impl Table {
    fn buckets(&self) -> u64 {
        self.segment * BLOCK / BUCKET as u64 - 1
    }

    /// The buckets in which something of this place may be.
    fn probe(&self, segment: u32, place: SlotPlace) -> impl Iterator<Item = u64> + use<> {
        let n = self.buckets();
        let base = u64::from(segment) * BLOCK;
        (0..self.kind.probes().min(n)).map(move |i| base + (place.bucket + i) % n * BUCKET as u64)
    }

    /// The same, and all buckets of the segment's overflow pages.
    fn places<'a>(
        &self,
        dir: &'a Dir,
        segment: u32,
        place: SlotPlace,
    ) -> impl Iterator<Item = u64> + use<'a> {
        let buckets = (overflow::ROOM / BUCKET) as u64;
        let pages = self.pages(dir, segment).iter();
        let in_page = move |page: &'a u32| (0..buckets).map(|i| u64::from(*page) * BLOCK + i * BUCKET as u64);
        self.probe(segment, place).chain(pages.flat_map(in_page))
    }

    fn find_in(
        &self,
        pm: &Pm,
        dir: &Dir,
        place: SlotPlace,
        is: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<(u64, Vec<u8>)>> {
        let segment = dir.segments[top(place.hash, dir.depth) as usize];
        let header = dir.headers[&segment];
        for at in self.places(dir, segment, place) {
            let mut b = [0; BUCKET];
            pm.load(at, &mut b, self.kind.what())?;
            for (i, s) in b.chunks_exact(self.kind.slot()).enumerate() {
                if self.kind.place(s, self.chunk).is_some_and(|p| header.fits(p.hash)) && is(s) {
                    return Ok(Some((at + (i * self.kind.slot()) as u64, s.to_vec())));
                }
            }
        }
        Ok(None)
    }

    /// The slot at `place` that `is` says yes to.
    ///
    /// # Errors
    /// The device's.
    pub fn find(
        &self,
        pm: &Pm,
        place: SlotPlace,
        is: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<(Found, Vec<u8>)>> {
        let dir = self.dir.read();
        let found = self.find_in(pm, &dir, place, is)?;
        Ok(found.map(|(at, bytes)| (Found { at, epoch: dir.epoch }, bytes)))
    }

    /// Enters a slot, in the batch; it is durable with the batch's next fence. Splits segments, or gives one
    /// an overflow page, until there is room.
    ///
    /// # Errors
    /// `NoSpace` where there are no clusters for that; the device's.
    pub fn insert(&self, pm: &Pm, clusters: &Clusters, batch: &mut Batch<'_>, bytes: &[u8]) -> Result<Found> {
        let place = self.kind.place(bytes, self.chunk).ok_or_else(|| corrupt("an empty slot is entered"))?;
        loop {
            {
                let dir = self.dir.read();
                if let Some(at) = self.claim(pm, &dir, place)? {
                    let put = batch.put(at, bytes, self.kind.what());
                    self.claimed.lock().remove(&at);
                    return put.map(|()| Found { at, epoch: dir.epoch });
                }
            }
            self.make_room(pm, clusters, place)?;
        }
    }

    /// A free or stale slot for this place, which is the caller's until it is filled.
    fn claim(&self, pm: &Pm, dir: &Dir, place: SlotPlace) -> Result<Option<u64>> {
        let segment = dir.segments[top(place.hash, dir.depth) as usize];
        let header = dir.headers[&segment];
        for at in self.places(dir, segment, place) {
            // A claimed slot is filled before its claim goes. So a slot that was free when it was loaded may
            // be filled before the look at the claims: both are looked at twice.
            loop {
                let mut b = [0; BUCKET];
                pm.load(at, &mut b, self.kind.what())?;
                let free = b.chunks_exact(self.kind.slot()).enumerate().find_map(|(i, s)| {
                    let taken = self.kind.place(s, self.chunk).is_some_and(|p| header.fits(p.hash));
                    let at = at + (i * self.kind.slot()) as u64;
                    (!taken && !self.claimed.lock().contains(&at)).then_some(at)
                });
                let Some(slot) = free else { break };
                if !self.claimed.lock().insert(slot) {
                    continue;
                }
                let mut again = vec![0; self.kind.slot()];
                pm.load(slot, &mut again, self.kind.what())?;
                let still = !self.kind.place(&again, self.chunk).is_some_and(|p| header.fits(p.hash));
                if still {
                    return Ok(Some(slot));
                }
                self.claimed.lock().remove(&slot);
            }
        }
        Ok(None)
    }

    /// Puts a word of a slot, found before, in the batch. `word` counts from the slot's first.
    ///
    /// # Errors
    /// `Corrupt` where the slot is gone; the device's.
    pub fn put_word(
        &self,
        pm: &Pm,
        batch: &mut Batch<'_>,
        (found, place): (Found, SlotPlace),
        (word, value): (u64, u64),
        is: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Found> {
        let dir = self.dir.read();
        let at = self.there(pm, &dir, (found, place), is)?;
        batch.put_u64(at + 8 * word, value, self.kind.what())?;
        Ok(Found { at, epoch: dir.epoch })
    }

    /// Zeroes a slot, found before, in the batch.
    ///
    /// # Errors
    /// As [`Table::put_word`].
    pub fn remove(
        &self,
        pm: &Pm,
        batch: &mut Batch<'_>,
        at: (Found, SlotPlace),
        is: &dyn Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let dir = self.dir.read();
        let at = self.there(pm, &dir, at, is)?;
        batch.put(at, &vec![0; self.kind.slot()], self.kind.what())
    }

    fn there(
        &self,
        pm: &Pm,
        dir: &Dir,
        (found, place): (Found, SlotPlace),
        is: &dyn Fn(&[u8]) -> bool,
    ) -> Result<u64> {
        if found.epoch == dir.epoch {
            return Ok(found.at);
        }
        let lost = || corrupt(format!("a slot of table {:?} is lost", self.kind));
        Ok(self.find_in(pm, dir, place, is)?.ok_or_else(lost)?.0)
    }
}

/// Byte address of a segment's header.
fn header_at(segment: u64, clusters: u64) -> u64 {
    (segment + clusters) * BLOCK - BUCKET as u64
}

/// The error of a table that has no room.
fn full() -> FsError {
    FsError::NoSpace
}
