//! Garbage collection, static wear leveling and the retirement of failing blocks: moving live pages out of a
//! block.
//!
//! ```text
//!   a job:  block [stale][LIVE][stale][LIVE]...    read -> program into the open gc block   (cause Gc)
//!                         ^ next                   then erase -> free, or mark bad
//! ```
//!
//! Jobs of a plane, one at a time:
//! - *gc*: the closed block with the fewest live pages (greedy) or with the best ratio of benefit to cost
//!   ([`GcPolicy`]), from `gc_start` free blocks down until `gc_stop` up;
//! - *retire*: a block with a failed program; its data moves, then it is marked bad;
//! - *wear*: a closed block that has been erased much less often than the most erased one
//!   ([`crate::Leveling`]); its cold data moves to a worn block, and the block takes part in the traffic
//!   again. A hand goes round the plane's blocks to find it.
//!
//! Each host write to the plane pays a share of the job: as many copies as one page of its gain costs. So a
//! write waits for a bounded number of copies and free blocks do not run out meanwhile.
//!
//! A page that cannot be read cannot be moved: its block is marked bad with the page still mapped in it, so
//! that the host gets a read error rather than older data.

mod choose;

use super::Ftl;
use super::alloc::{Open, Stream};
use crate::counters::Cause;
use crate::error::FlashError;
use crate::medium::{BlockNo, Medium, Oob};
use granary_units::{Nanos, Page, prefetch};

/// Erases in a plane between two looks of static wear leveling, and the blocks that it looks at each time: a
/// whole round of the plane's blocks takes a sixteenth of an erase per block.
pub(super) const WEAR_LOOK: u32 = 4;
const WEAR_WINDOW: u32 = 64;
/// Pages read before the first of them is programmed, at most.
const BATCH: u32 = 16;
/// Pages that a host write copies for a job that gains no space.
const UNHURRIED: u32 = 2;

/// A block being emptied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) block: u32,
    /// First page that may still be live.
    next: u32,
    /// Copies that one host write pays for.
    share: u32,
    /// When the last copy is in the cells; the block may be erased from then on.
    copied: Nanos,
    /// The block is marked bad in the end, rather than erased.
    retire: bool,
    /// Where its pages go.
    stream: Stream,
}

impl Job {
    pub(crate) fn retires(&self) -> bool {
        self.retire
    }

    /// Its copies have arrived long ago.
    pub(crate) fn forget_time(&mut self) {
        self.copied = Nanos::ZERO;
    }
}

/// A live page on its way to another block.
#[derive(Clone, Debug, Default)]
struct Moving {
    page: Page,
    /// When it has been read.
    read: Nanos,
    ppa: u32,
    lpa: u32,
}

/// Live pages on their way to another block. Their places are filled in field by field: a processor waits for
/// what is copied as a whole after it was written in parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// [`BATCH`] places; none in what stands in for a batch in use.
    pages: Box<[Moving]>,
    len: usize,
}

impl Batch {
    pub(crate) fn new() -> Batch {
        Batch { pages: vec![Moving::default(); BATCH as usize].into(), len: 0 }
    }

    fn push(&mut self, page: Page, read: Nanos, ppa: u32, lpa: u32) {
        let place = &mut self.pages[self.len];
        place.page = page;
        (place.read, place.ppa, place.lpa) = (read, ppa, lpa);
        self.len += 1;
    }

    fn pages(&self) -> &[Moving] {
        &self.pages[..self.len]
    }

    /// The content may go.
    fn clear(&mut self) {
        self.pages[..self.len].iter_mut().for_each(|m| m.page = Page::ZERO);
        self.len = 0;
    }
}

/// How much of a job to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// The share of one host write.
    Share,
    /// The whole job.
    WholeBlock,
    /// A batch of pages, in idle time.
    Batch,
}

impl<M: Medium> Ftl<M> {
    /// Whether there is gc work to do in a plane after a write to it.
    #[inline]
    pub(super) fn gc_wanted(&self, plane: u32) -> bool {
        let p = &self.planes[plane as usize];
        p.free.len() <= self.config.gc_start
            || p.job.is_some()
            || p.collecting
            || !p.retiring.is_empty()
            || (p.erases_unlooked >= WEAR_LOOK && self.levels)
    }

    /// Pages that emptying the best victim of a plane gains; none where no victim has a stale page. A job
    /// that has begun comes first: nothing else can be emptied before it is done.
    pub(super) fn gain_of(&self, plane: u32) -> Option<u32> {
        let per_block = self.config.geometry.pages_per_block;
        match self.planes[plane as usize].job {
            Some(_) => Some(per_block),
            None => self.best_victim(plane).map(|(_, live)| per_block - live).filter(|&gain| gain > 0),
        }
    }

    /// Goes on with the job of a plane, starting one if there is need for it. Returns whether a job was
    /// finished.
    pub(super) fn gc_step(&mut self, now: Nanos, plane: u32, effort: Effort) -> Result<bool, FlashError> {
        if self.planes[plane as usize].job.is_none() {
            self.planes[plane as usize].job = self.next_job(plane, effort);
        }
        let Some(mut job) = self.planes[plane as usize].job else { return Ok(false) };
        let budget = match effort {
            Effort::Share => job.share,
            Effort::Batch => BATCH,
            Effort::WholeBlock => u32::MAX,
        };
        let mut moving = std::mem::take(&mut self.moving);
        let emptied = self.empty_block(now, plane, &mut job, budget, &mut moving);
        moving.clear();
        self.moving = moving;
        self.planes[plane as usize].job = if matches!(emptied, Ok(true)) { None } else { Some(job) };
        if matches!(emptied, Ok(false)) {
            // The plane's next step will read what names its pages.
            let first = job.block * self.config.geometry.pages_per_block;
            self.nand.medium().prefetch_oob(BlockNo(job.block), job.next - first, BATCH);
        }
        let finished = emptied?;
        if finished {
            self.finish(job.copied.max(now), job)?;
        }
        Ok(finished)
    }

    /// Moves up to `budget` live pages out of the job's block; returns whether none is left that can be
    /// moved.
    fn empty_block(
        &mut self,
        now: Nanos,
        home: u32,
        job: &mut Job,
        mut budget: u32,
        moving: &mut Batch,
    ) -> Result<bool, FlashError> {
        let _step = granary_sim::step("FTL: garbage collection");
        let end = (job.block + 1) * self.config.geometry.pages_per_block;
        loop {
            if self.live.next(job.next, end).is_none() {
                return Ok(true);
            }
            if budget == 0 {
                return Ok(false);
            }
            self.read_live(now, job, budget.min(BATCH), moving)?;
            budget -= moving.len as u32;
            let mut rest = moving.pages();
            while !rest.is_empty() {
                let Some((moved, done)) = self.place(home, job.stream, rest)? else {
                    // No page is left to copy to: end of life. The data stays where it is.
                    self.read_only = true;
                    return Ok(false);
                };
                job.copied = job.copied.max(done);
                job.next = rest[moved - 1].ppa + 1;
                rest = &rest[moved..];
            }
            moving.clear();
        }
    }

    /// Map entries of the next live pages of a block: by the time that their reads are booked they are in the
    /// processor's cache.
    fn prefetch_entries(&self, block: u32, mut from: u32, most: u32) {
        let n = self.config.geometry.pages_per_block;
        let first = block * n;
        for _ in 0..most {
            let Some(ppa) = self.live.next(from, first + n) else { break };
            from = ppa + 1;
            if let Ok(lpa) = self.nand.medium().lpa(BlockNo(block), ppa - first) {
                prefetch(&self.l2p, lpa as usize);
            }
        }
    }

    /// Reads up to `most` live pages of the job's block, passing over those that cannot be read.
    fn read_live(
        &mut self,
        now: Nanos,
        job: &mut Job,
        most: u32,
        moving: &mut Batch,
    ) -> Result<(), FlashError> {
        let first = job.block * self.config.geometry.pages_per_block;
        let end = first + self.config.geometry.pages_per_block;
        let mut from = job.next;
        self.prefetch_entries(job.block, from, most);
        let mut sequence = self.nand.sequence(job.block);
        while moving.len < most as usize
            && let Some(ppa) = self.live.next(from, end)
        {
            from = ppa + 1;
            self.counters.read_pages[Cause::Gc as usize] += 1;
            match self.nand.read_on(&mut sequence, now, job.block, ppa - first) {
                Ok((page, lpa, read)) => moving.push(page, read, ppa, self.owner(ppa, lpa)),
                Err(FlashError::Unreadable { .. }) => {
                    if !job.retire {
                        job.retire = true;
                        self.lose_block();
                    }
                    if moving.len == 0 {
                        job.next = from;
                    }
                }
                Err(e) => return Err(e),
            }
        }
        // A pass of its own: the map entries lie far apart, and this way their cache misses overlap.
        match moving.pages().iter().find(|m| self.l2p.get(m.lpa as usize) != Some(&(m.ppa + 1))) {
            None => Ok(()),
            Some(m) => Err(FlashError::Corrupt(format!(
                "live flash page {} says it holds page {}, which is mapped elsewhere",
                m.ppa, m.lpa
            ))),
        }
    }

    /// Programs pages that are being moved, the first one at least; returns how many, and when they are in
    /// the cells, `None` where there is no page for it.
    fn place(
        &mut self,
        home: u32,
        stream: Stream,
        run: &[Moving],
    ) -> Result<Option<(usize, Nanos)>, FlashError> {
        while let Some((plane, stream)) = self.destination(home, stream) {
            if !self.youngest.is_empty() {
                // Copies are as old as they were: cold data does not look young because it was moved.
                let from = self.youngest[(run[0].ppa / self.config.geometry.pages_per_block) as usize];
                let to = self.planes[plane as usize].open[stream as usize].block as usize;
                self.youngest[to] = self.youngest[to].max(from);
            }
            let (moved, done) = self.append_moved(plane, stream, run)?;
            if moved > 0 {
                return Ok(Some((moved, done)));
            }
        }
        Ok(None)
    }

    /// Programs pages of one block, which are being moved, to the next pages of the plane's open block, as
    /// many as have room there, and maps them. Returns how many, and when they are in the cells. Where a
    /// program fails it ends early: the open block is then closed for good.
    fn append_moved(
        &mut self,
        plane: u32,
        stream: Stream,
        run: &[Moving],
    ) -> Result<(usize, Nanos), FlashError> {
        let per_block = self.config.geometry.pages_per_block;
        let Open { block, used } = self.planes[plane as usize].open[stream as usize];
        let most = run.len().min((per_block - used) as usize);
        let mut sequence = self.nand.sequence(block);
        let (mut moved, mut done, mut stopped) = (0, Nanos::ZERO, None);
        for m in &run[..most] {
            let oob = Oob { lpa: m.lpa, seq: self.seq + 1 };
            match self.nand.program_on(&mut sequence, m.read, block, used + moved, &m.page, oob) {
                Ok(at) => (done, moved) = (done.max(at), moved + 1),
                Err(e) => {
                    stopped = Some(e);
                    break;
                }
            }
            self.seq += 1;
        }
        self.map_moved(block, used, &run[..moved as usize]);
        self.counters.program_pages[Cause::Gc as usize] += moved as u64;
        let open = &mut self.planes[plane as usize].open[stream as usize];
        open.used += moved;
        match stopped {
            None => {
                if open.used == per_block {
                    *open = Open::NONE;
                    self.close(block, stream);
                }
            }
            Some(FlashError::ProgramFailed { .. }) => {
                self.seq += 1;
                self.counters.program_pages[Cause::Gc as usize] += 1;
                self.retire_open(plane, stream);
            }
            Some(e) => return Err(e),
        }
        Ok((moved as usize, done))
    }

    /// Points the map to the copies of pages of one block, which are in the pages of `block` from `first` on.
    fn map_moved(&mut self, block: u32, first: u32, run: &[Moving]) {
        let Some(m) = run.first() else { return };
        let per_block = self.config.geometry.pages_per_block;
        let (from, to) = (m.ppa / per_block, block * per_block + first);
        for (ppa, m) in (to..).zip(run) {
            self.l2p[m.lpa as usize] = ppa + 1;
            self.live.clear(m.ppa);
            self.nand.doomed(from, m.ppa - from * per_block);
        }
        if !self.p2l.is_empty() {
            for (ppa, m) in (to..).zip(run) {
                self.p2l[ppa as usize] = m.lpa + 1;
                self.p2l[m.ppa as usize] = 0;
            }
        }
        let n = run.len() as u32;
        self.live.set_range(to, n);
        self.valid.add(block, n);
        self.valid.sub(from, n);
    }

    /// The job's block is empty but for unreadable pages: erase it, or take it out of service.
    fn finish(&mut self, now: Nanos, job: Job) -> Result<(), FlashError> {
        let block = BlockNo(job.block);
        if job.retire {
            return self.nand.mark_bad(block);
        }
        self.counters.erases += 1;
        match self.nand.erase(now, block) {
            Ok(_) => {
                let plane = self.config.geometry.plane_of(job.block) as usize;
                let erases = self.nand.header(block).erases;
                self.planes[plane].erases_unlooked += 1;
                self.planes[plane].most_erases = self.planes[plane].most_erases.max(erases);
                self.add_free(job.block);
                Ok(())
            }
            Err(FlashError::EraseFailed { .. }) => {
                self.lose_block();
                self.nand.mark_bad(block)
            }
            Err(e) => Err(e),
        }
    }
}
