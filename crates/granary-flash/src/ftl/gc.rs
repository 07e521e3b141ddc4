//! Garbage collection, static wear leveling and the retirement of failing blocks: moving live pages out of a block.
//!
//! ```text
//!   a job:  block [stale][LIVE][stale][LIVE]...    read -> program into the open gc block   (cause Gc)
//!                         ^ next                   then erase -> free, or mark bad
//! ```
//!
//! Jobs of a plane, one at a time:
//! - *gc*: the closed block with the fewest live pages (greedy), from `gc_start` free blocks down until `gc_stop` up;
//! - *retire*: a block with a failed program; its data moves, then it is marked bad;
//! - *wear*: the least erased closed block, where the most erased one is `wear_gap` ahead; its cold data moves, and the block
//!   takes part in the traffic again.
//!
//! Each host write to the plane pays a share of the job: as many copies as one page of its gain costs. So a write waits for
//! a bounded number of copies and free blocks do not run out meanwhile.
//!
//! A page that cannot be read cannot be moved: its block is marked bad with the page still mapped in it, so that the host
//! gets a read error rather than older data.

use super::Ftl;
use super::alloc::Stream;
use crate::counters::Cause;
use crate::error::FlashError;
use crate::medium::{BlockNo, Medium};
use granary_units::{Nanos, Ppa};

/// Erases in a plane between two looks of static wear leveling: the look scans the plane's blocks.
const WEAR_LOOK: u32 = 32;
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
}

impl Job {
    pub(crate) fn retires(&self) -> bool {
        self.retire
    }
}

/// How much of a job to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// What one host write pays for.
    Share,
    /// The whole job.
    WholeBlock,
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
            || p.erases_unlooked >= WEAR_LOOK
    }

    /// Pages that emptying the best victim of a plane gains; none where no victim has a stale page.
    pub(super) fn gain_of(&self, plane: u32) -> Option<u32> {
        let per_block = self.config.geometry.pages_per_block;
        let live = match self.planes[plane as usize].job {
            Some(job) => self.valid.get(job.block),
            None => self.best_victim(plane)?.1,
        };
        (live < per_block).then(|| per_block - live)
    }

    /// Goes on with the job of a plane, starting one if there is need for it.
    pub(super) fn gc_step(&mut self, now: Nanos, plane: u32, effort: Effort) -> Result<(), FlashError> {
        if self.planes[plane as usize].job.is_none() {
            self.planes[plane as usize].job = self.next_job(plane, effort);
        }
        let Some(mut job) = self.planes[plane as usize].job else { return Ok(()) };
        let end = (job.block + 1) * self.config.geometry.pages_per_block;
        let mut budget = if effort == Effort::Share { job.share } else { u32::MAX };
        while let Some(ppa) = self.live.next(job.next, end) {
            if budget == 0 {
                self.planes[plane as usize].job = Some(job);
                return Ok(());
            }
            budget -= 1;
            match self.copy(now, plane, ppa) {
                Ok(Some(done)) => job.copied = job.copied.max(done),
                // No page is left to copy to: end of life. The data stays where it is.
                Ok(None) => {
                    self.planes[plane as usize].job = Some(job);
                    self.read_only = true;
                    return Ok(());
                }
                Err(FlashError::Unreadable { .. }) => {
                    if !job.retire {
                        job.retire = true;
                        self.lose_block();
                    }
                }
                Err(e) => {
                    self.planes[plane as usize].job = Some(job);
                    return Err(e);
                }
            }
            job.next = ppa + 1;
        }
        self.planes[plane as usize].job = None;
        self.finish(job.copied.max(now), job)
    }

    fn next_job(&mut self, plane: u32, effort: Effort) -> Option<Job> {
        let p = &mut self.planes[plane as usize];
        let free = p.free.len();
        if free <= self.config.gc_start {
            p.collecting = true;
        } else if free >= self.config.gc_stop {
            p.collecting = false;
        }
        // A block that retires gives nothing back: only where there is room for its data anyway.
        if !p.retiring.is_empty() && free > self.config.gc_start {
            return self.retire_job(plane);
        }
        if p.collecting || effort == Effort::WholeBlock {
            let per_block = self.config.geometry.pages_per_block;
            if let Some((block, live)) = self.best_victim(plane)
                && live < per_block
            {
                self.valid.withdraw(block);
                return Some(self.job(block, live.div_ceil(per_block - live) + 1, false));
            }
        }
        if !self.planes[plane as usize].retiring.is_empty() {
            return self.retire_job(plane);
        }
        self.wear_job(plane)
    }

    fn job(&self, block: u32, share: u32, retire: bool) -> Job {
        let next = block * self.config.geometry.pages_per_block;
        Job { block, next, share, copied: Nanos::ZERO, retire }
    }

    fn retire_job(&mut self, plane: u32) -> Option<Job> {
        let block = self.planes[plane as usize].retiring.pop()?;
        Some(self.job(block, UNHURRIED, true))
    }

    fn wear_job(&mut self, plane: u32) -> Option<Job> {
        let p = &mut self.planes[plane as usize];
        let (gap, most) = (self.config.wear_gap, p.most_erases);
        if gap == 0 || p.erases_unlooked < WEAR_LOOK || p.free.len() <= 1 {
            return None;
        }
        p.erases_unlooked = 0;
        let (from, end) = self.blocks_of(plane);
        let (erases, block) = (from..end)
            .filter(|&b| self.valid.is_candidate(b))
            .map(|b| (self.nand.header(BlockNo(b)).erases, b))
            .min()?;
        if most - erases <= gap {
            return None;
        }
        self.valid.withdraw(block);
        Some(self.job(block, UNHURRIED, false))
    }

    fn best_victim(&self, plane: u32) -> Option<(u32, u32)> {
        let (from, end) = self.blocks_of(plane);
        self.valid.best(from, end)
    }

    pub(super) fn blocks_of(&self, plane: u32) -> (u32, u32) {
        let n = self.config.geometry.blocks_per_plane;
        (plane * n, (plane + 1) * n)
    }

    /// Moves one live page; returns when the new copy is in the cells, `None` where there is no page to move it to.
    fn copy(&mut self, now: Nanos, home: u32, ppa: u32) -> Result<Option<Nanos>, FlashError> {
        // Found first, so that a copy that cannot be stored is not read either.
        let Some(mut plane) = self.gc_plane(home) else { return Ok(None) };
        self.counters.read_pages[Cause::Gc as usize] += 1;
        let (page, oob, read) = self.nand.read(now, Ppa(ppa))?;
        if self.l2p.get(oob.lpa as usize) != Some(&(ppa + 1)) {
            return Err(FlashError::Corrupt(format!(
                "live flash page {ppa} says it holds page {}, which is mapped elsewhere",
                oob.lpa
            )));
        }
        loop {
            if let Some(done) = self.append(read, plane, Stream::Gc, oob.lpa, &page, Cause::Gc)? {
                return Ok(Some(done));
            }
            match self.gc_plane(home) {
                Some(next) => plane = next,
                None => return Ok(None),
            }
        }
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
