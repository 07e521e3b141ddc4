//! [`Segs`]: which blocks of the main area are valid, the six logs, and where the next block goes.
//!
//! ```text
//!   segment:  map   valid now
//!             keep  valid at the last checkpoint, or written since: not to be overwritten before the next
//!                   one,
//!                   because a power loss may go back to it (checkpoint) or forward over it (fsynced nodes)
//!   log:      LFS  next block of a segment that was free      SSR  next block of a dirty one that is in
//!                                                                  neither map
//!   a segment without valid blocks is dead until the next checkpoint, then free
//! ```
//!
//! Invariants: a block is allocated once between two checkpoints; valid blocks = bits of the map; a summary
//! exists for every valid block, in the log, among `sums` (not yet written), or in the SSA. The kernel keeps
//! only node blocks from reuse in this way; keeping data, too, makes every fsynced pointer safe.

mod dead;
mod victim;

use crate::geometry::Geometry;
use crate::layout::checkpoint::LogPlace;
use crate::layout::sit::SitEntry;
use crate::layout::summary::{Summary, set_kind};
use crate::layout::{BLOCK_SIZE, BlockBytes, corrupt};
use granary_device::Structure;
use granary_fs::{FsError, Result};
use granary_kit::BlockCache;
use granary_sim::now;
use granary_units::Lpa;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The six logs.
pub(crate) mod log {
    pub const HOT_DATA: usize = 0;
    pub const WARM_DATA: usize = 1;
    pub const COLD_DATA: usize = 2;
    pub const HOT_NODE: usize = 3;
    pub const WARM_NODE: usize = 4;
    pub const COLD_NODE: usize = 5;
    /// Whether a log takes nodes.
    pub fn is_node(log: usize) -> bool {
        log >= HOT_NODE
    }
}

/// A segment.
#[derive(Clone, Default)]
pub(crate) struct Seg {
    pub valid: u16,
    pub log: u8,
    pub map: [u64; 8],
    pub keep: [u64; 8],
    pub mtime: u64,
}

fn test(map: &[u64; 8], n: u32) -> bool {
    map[n as usize / 64] >> (n % 64) & 1 == 1
}

impl Seg {
    pub fn is_valid(&self, n: u32) -> bool {
        test(&self.map, n)
    }

    /// Whether no block is valid.
    pub fn is_empty(&self) -> bool {
        self.map == [0; 8]
    }

    /// First block from `n` on that may be written.
    fn next_usable(&self, mut n: u32, blocks: u32) -> u32 {
        while n < blocks && (test(&self.map, n) || test(&self.keep, n)) {
            n += 1;
        }
        n
    }

    pub fn entry(&self) -> SitEntry {
        SitEntry { valid: self.valid, log: self.log, map: self.map, mtime: self.mtime }
    }
}

/// An open segment.
pub(crate) struct Log {
    pub segno: u32,
    pub next: u32,
    pub ssr: bool,
    pub sum: Box<BlockBytes>,
}

/// See the module.
pub(crate) struct Segs {
    pub geo: Geometry,
    cache: Arc<BlockCache>,
    pub segs: Vec<Seg>,
    free: Vec<u64>,
    pub free_count: u32,
    hint: u32,
    /// No valid block, not free yet.
    pub dead: BTreeSet<u32>,
    /// Changed since the last checkpoint.
    pub touched: BTreeSet<u32>,
    /// Blocks that the drive could be told to be dead, by segment.
    discards: dead::Discards,
    /// Summary blocks of closed segments that are not on media yet.
    pub sums: BTreeMap<u32, Box<BlockBytes>>,
    pub logs: Vec<Log>,
    /// Free segments at or below which logs fill holes (SSR).
    pub ssr_below: u32,
    pub ssr_segments: u64,
    /// Segments that a search for one to clean in idle time, or to fill, looks at.
    pub victim_search: u32,
    victims: victim::Remembered,
    /// A log could not be continued: nodes written from here on cannot be found by recovery.
    pub chain_broken: bool,
    /// Seconds mounted before this mount.
    pub elapsed: u64,
}

impl Segs {
    /// From what media say; logs are opened or restored afterwards.
    pub fn new(geo: Geometry, cache: Arc<BlockCache>, segs: Vec<Seg>, elapsed: u64, ssr_below: u32) -> Segs {
        let mut s = Segs {
            geo,
            cache,
            free: vec![0; (geo.main_segs as usize).div_ceil(64)],
            free_count: 0,
            hint: 0,
            dead: BTreeSet::new(),
            touched: BTreeSet::new(),
            discards: dead::Discards::default(),
            sums: BTreeMap::new(),
            logs: Vec::with_capacity(6),
            ssr_below,
            ssr_segments: 0,
            victim_search: u32::MAX,
            victims: victim::Remembered::default(),
            chain_broken: false,
            elapsed,
            segs,
        };
        for n in 0..geo.main_segs {
            if s.segs[n as usize].valid == 0 {
                s.set_free(n, true);
            }
        }
        s
    }

    /// Opens a log where a checkpoint says it was.
    ///
    /// # Errors
    /// `Corrupt` where that cannot be.
    pub fn restore(&mut self, place: LogPlace, sum: Box<BlockBytes>) -> Result<()> {
        let full = place.next as u32 >= self.geo.seg_blocks;
        if place.segno >= self.geo.main_segs || full || self.is_open(place.segno) {
            return Err(corrupt(format!("a log is said to be at {place:?}")));
        }
        if self.is_free(place.segno) {
            self.set_free(place.segno, false);
        }
        self.segs[place.segno as usize].log = self.logs.len() as u8;
        let (segno, next, ssr) = (place.segno, place.next as u32, place.ssr);
        self.logs.push(Log { segno, next, ssr, sum });
        Ok(())
    }

    pub fn is_free(&self, segno: u32) -> bool {
        self.free[segno as usize / 64] >> (segno % 64) & 1 == 1
    }

    fn set_free(&mut self, segno: u32, to: bool) {
        debug_assert_ne!(self.is_free(segno), to);
        self.free[segno as usize / 64] ^= 1 << (segno % 64);
        self.free_count = if to { self.free_count + 1 } else { self.free_count - 1 };
    }

    /// Whether a log writes into the segment.
    pub fn is_open(&self, segno: u32) -> bool {
        self.logs.iter().any(|l| l.segno == segno)
    }

    /// Keeps a free segment from being used (recovery: it holds what is still to be read). It counts as dead.
    fn protect(&mut self, segno: u32) {
        if self.is_free(segno) {
            self.set_free(segno, false);
            self.dead.insert(segno);
        }
    }

    /// Keeps a block from being written before the next checkpoint (recovery).
    pub fn hold(&mut self, addr: u32) {
        let (segno, n) = self.geo.place(addr);
        self.protect(segno);
        self.segs[segno as usize].keep[n as usize / 64] |= 1 << (n % 64);
        self.touched.insert(segno);
    }

    pub fn seconds(&self) -> u64 {
        self.elapsed + now().0 / 1_000_000_000
    }

    /// Whether the block is valid.
    pub fn is_valid(&self, addr: u32) -> bool {
        let (segno, n) = self.geo.place(addr);
        self.segs[segno as usize].is_valid(n)
    }

    /// Where the log writes next.
    pub fn next_addr(&self, log: usize) -> u32 {
        self.geo.start(self.logs[log].segno) + self.logs[log].next
    }

    /// Makes a block valid.
    ///
    /// # Errors
    /// `Corrupt` where it was.
    pub fn validate(&mut self, addr: u32) -> Result<()> {
        let (segno, n) = self.geo.place(addr);
        let (seconds, open) = (self.seconds(), self.is_open(segno));
        if self.is_free(segno) {
            self.set_free(segno, false);
        }
        let seg = &mut self.segs[segno as usize];
        if seg.is_valid(n) {
            return Err(corrupt(format!("block {addr} is used twice")));
        }
        seg.map[n as usize / 64] |= 1 << (n % 64);
        seg.keep[n as usize / 64] |= 1 << (n % 64);
        seg.valid += 1;
        seg.mtime = seconds;
        if seg.valid == 1 && !open {
            self.dead.remove(&segno);
        }
        self.touched.insert(segno);
        Ok(())
    }

    /// A block is no longer pointed to.
    ///
    /// # Errors
    /// `Corrupt` where it was not valid or lies elsewhere.
    pub fn invalidate(&mut self, addr: u32) -> Result<()> {
        if !self.geo.in_main(addr) {
            return Err(corrupt(format!("a pointer to block {addr}, outside the main area")));
        }
        let (segno, n) = self.geo.place(addr);
        let seconds = self.seconds();
        let open = self.is_open(segno);
        let seg = &mut self.segs[segno as usize];
        if !seg.is_valid(n) {
            return Err(corrupt(format!("block {addr} is in use and not valid")));
        }
        seg.map[n as usize / 64] &= !(1 << (n % 64));
        seg.valid -= 1;
        seg.mtime = seconds;
        if seg.valid == 0 && !open {
            self.dead.insert(segno);
            self.victims.died(segno);
        }
        self.touched.insert(segno);
        Ok(())
    }

    /// Takes the next block of a log.
    ///
    /// # Errors
    /// `NoSpace` where no segment can be opened after it; the drive's, reading a summary block.
    pub fn alloc(&mut self, log: usize, sum: Summary) -> Result<u32> {
        if self.logs[log].next >= self.geo.seg_blocks {
            self.open(log)?;
        }
        let addr = self.next_addr(log);
        let blocks = self.geo.seg_blocks;
        self.validate(addr)?;
        if self.logs[log].ssr {
            let (segno, n) = self.geo.place(addr);
            self.discards.used(segno, n);
        }
        let l = &mut self.logs[log];
        sum.put(&mut l.sum, l.next);
        l.next = match l.ssr {
            false => l.next + 1,
            true => self.segs[l.segno as usize].next_usable(l.next + 1, blocks),
        };
        // The next segment is known at once: a node's footer names the block after it.
        if l.next >= blocks && self.open(log).is_err() {
            // The block is taken all the same; but no footer can name the next one.
            self.chain_broken = true;
        }
        Ok(addr)
    }

    /// Closes the log's segment and opens another.
    ///
    /// # Errors
    /// As [`Segs::alloc`]; the log is full then.
    pub fn open(&mut self, log: usize) -> Result<()> {
        let want_ssr = self.free_count <= self.ssr_below;
        let holes = if want_ssr { self.ssr_victim(log) } else { None };
        let (segno, ssr) = match holes {
            Some(n) => (n, true),
            None => match self.take_free() {
                Some(n) => (n, false),
                None => {
                    // The last resort, which the kernel does not have.
                    self.victims.forget_background();
                    (self.ssr_victim(log).ok_or(FsError::NoSpace)?, true)
                }
            },
        };
        let mut sum = Box::new([0; BLOCK_SIZE]);
        if ssr {
            *sum = self.summaries(segno)?;
            self.sums.remove(&segno);
            self.ssr_segments += 1;
        }
        set_kind(&mut sum, log as u8);
        let next = if ssr { self.segs[segno as usize].next_usable(0, self.geo.seg_blocks) } else { 0 };
        let old = std::mem::replace(&mut self.logs[log], Log { segno, next, ssr, sum });
        self.dead.remove(&segno);
        self.segs[segno as usize].log = log as u8;
        self.touched.insert(segno);
        self.close(old);
        Ok(())
    }

    fn close(&mut self, old: Log) {
        if self.segs[old.segno as usize].valid == 0 {
            self.dead.insert(old.segno);
        }
        self.sums.insert(old.segno, old.sum);
    }

    /// Next fit.
    fn take_free(&mut self) -> Option<u32> {
        let words = self.free.len();
        let first = self.hint as usize / 64;
        for i in 0..=words {
            let w = (first + i) % words;
            let mut bits = self.free[w];
            if i == 0 {
                bits &= u64::MAX << (self.hint % 64);
            }
            if bits != 0 {
                let n = (w * 64) as u32 + bits.trailing_zeros();
                self.set_free(n, false);
                self.hint = (n + 1) % self.geo.main_segs;
                return Some(n);
            }
        }
        None
    }

    /// The summaries of a segment, wherever they are.
    ///
    /// # Errors
    /// The drive's.
    pub fn summaries(&self, segno: u32) -> Result<BlockBytes> {
        if let Some(l) = self.logs.iter().find(|l| l.segno == segno) {
            return Ok(*l.sum);
        }
        if let Some(sum) = self.sums.get(&segno) {
            return Ok(**sum);
        }
        Ok(self.cache.get(Lpa(self.geo.ssa(segno)), Structure::Bitmap)?.with(|b| *b))
    }

    /// Sets one summary (recovery).
    ///
    /// # Errors
    /// The drive's.
    pub fn set_summary(&mut self, addr: u32, log: usize, sum: Summary) -> Result<()> {
        let (segno, n) = self.geo.place(addr);
        if let Some(l) = self.logs.iter_mut().find(|l| l.segno == segno) {
            sum.put(&mut l.sum, n);
            return Ok(());
        }
        let mut block = self.summaries(segno)?;
        if self.segs[segno as usize].valid <= 1 {
            set_kind(&mut block, log as u8);
            self.segs[segno as usize].log = log as u8;
        }
        sum.put(&mut block, n);
        self.sums.insert(segno, Box::new(block));
        Ok(())
    }

    /// After a checkpoint: what was dead is free, and everything invalid may be written. Returns the freed
    /// segments.
    pub fn committed(&mut self) -> Vec<u32> {
        for segno in std::mem::take(&mut self.touched) {
            let seg = &mut self.segs[segno as usize];
            let died: [u64; 8] = std::array::from_fn(|i| seg.keep[i] & !seg.map[i]);
            self.discards.died(segno, &died);
            seg.keep = seg.map;
        }
        self.chain_broken = false;
        let freed: Vec<u32> = std::mem::take(&mut self.dead).into_iter().collect();
        for segno in &freed {
            self.set_free(*segno, true);
            self.sums.remove(segno);
            // The whole of it is the caller's to tell.
            self.discards.forget(*segno);
        }
        freed
    }

    /// Takes a run of at least `least` blocks that no checkpoint needs and nobody has written since: (first,
    /// count).
    pub fn take_discard(&mut self, least: u32) -> Option<(u32, u32)> {
        let (segno, n, count) = self.discards.take(least, self.geo.seg_blocks)?;
        Some((self.geo.start(segno) + n, count))
    }

    /// Blocks that wait for a TRIM and must not get it (none).
    pub fn wrong_discards(&self) -> u32 {
        let wrong = |(segno, bits): (u32, &[u64; 8])| {
            let seg = &self.segs[segno as usize];
            (0..8).map(|i| (bits[i] & (seg.map[i] | seg.keep[i])).count_ones()).sum::<u32>()
        };
        self.discards.waiting().map(wrong).sum()
    }

    /// Blocks valid in all.
    pub fn valid_blocks(&self) -> u64 {
        self.segs.iter().map(|s| s.valid as u64).sum()
    }
}
