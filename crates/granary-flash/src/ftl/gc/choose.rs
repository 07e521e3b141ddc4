//! Which block is emptied next.

use super::{Effort, Job, UNHURRIED, WEAR_LOOK, WEAR_WINDOW};
use crate::ftl::Ftl;
use crate::ftl::alloc::Stream;
use crate::ftl::policy::Blocks;
use crate::medium::{BlockNo, Medium};
use granary_units::Nanos;

impl<M: Medium> Ftl<M> {
    pub(super) fn next_job(&mut self, plane: u32, effort: Effort) -> Option<Job> {
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
        if p.collecting || effort != Effort::Share {
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

    pub(super) fn job(&self, block: u32, share: u32, retire: bool) -> Job {
        let next = block * self.config.geometry.pages_per_block;
        Job { block, next, share, copied: Nanos::ZERO, retire, stream: Stream::Gc }
    }

    pub(super) fn retire_job(&mut self, plane: u32) -> Option<Job> {
        let block = self.planes[plane as usize].retiring.pop()?;
        Some(self.job(block, UNHURRIED, true))
    }

    pub(super) fn wear_job(&mut self, plane: u32) -> Option<Job> {
        let (from, end) = self.blocks_of(plane);
        let p = &mut self.planes[plane as usize];
        if !self.levels || p.erases_unlooked < WEAR_LOOK || p.free.len() <= self.config.gc_start {
            return None;
        }
        p.erases_unlooked = 0;
        let (first, most) = (from + p.wear_hand, p.most_erases);
        let last = end.min(first + WEAR_WINDOW);
        p.wear_hand = if last == end { 0 } else { last - from };
        let (erases, block) = (first..last)
            .filter(|&b| self.valid.is_candidate(b))
            .map(|b| (self.nand.header(BlockNo(b)).erases, b))
            .min()?;
        if !self.policies.leveling.moves(erases, most) {
            return None;
        }
        self.valid.withdraw(block);
        Some(Job { stream: Stream::Cold, ..self.job(block, UNHURRIED, false) })
    }

    /// The block that gc would empty next, and its live pages.
    pub(crate) fn best_victim(&self, plane: u32) -> Option<(u32, u32)> {
        let (from, end) = self.blocks_of(plane);
        let blocks = Blocks {
            valid: &self.valid,
            from,
            end,
            pages_per_block: self.config.geometry.pages_per_block,
            now: self.seq,
            youngest: self.youngest.get(from as usize..end as usize).unwrap_or_default(),
        };
        let block = self.policies.victims.choose(&blocks)?;
        let is_one = (from..end).contains(&block) && self.valid.is_candidate(block);
        is_one.then(|| (block, self.valid.get(block)))
    }

    pub(crate) fn blocks_of(&self, plane: u32) -> (u32, u32) {
        let n = self.config.geometry.blocks_per_plane;
        (plane * n, (plane + 1) * n)
    }
}
