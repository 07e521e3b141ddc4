//! Taking bytes away: truncation, and holes that are punched.
//!
//! ```text
//!   whole block          nothing
//!   pages of a block     A: the pages go; S and O: slots say zeros (no page, no I/O)
//!   truncation           blocks behind the end go, and the last block's NVM pages; its SSD bytes behind the
//!                        end may be anything
//! ```
//!
//! A truncation allocates nothing, so it works on a full file system. Size, words and entries are one group.

use crate::fs::OrchFs;
use crate::geometry::{BLOCK, PAGE, PAGES};
use crate::layout::Area;
use crate::node::{Node, node};
use crate::ranges::Use;
use crate::unit::{Slot, Unit};
use crate::write::{Job, Segment, Source, Stamp};
use granary_fs::{Attr, Call, FsError, Inode, Result, SetAttr};
use granary_units::Payload;
use std::ops::Range;

/// No data.
const NOTHING: Payload<'static> = Payload::Bytes(&[]);

impl OrchFs {
    /// The rest of a unit without these pages, where that needs no number; else `None`.
    fn without(unit: &Unit, pages: &Range<usize>) -> Option<Unit> {
        let mut left = unit.clone();
        match &mut left {
            Unit::Append { pages: numbers, .. } => {
                numbers[pages.clone()].fill(0);
                Some(if numbers.iter().all(|page| *page == 0) { Unit::Hole } else { left })
            }
            Unit::Over { slots, .. } => {
                slots[pages.clone()].fill(Slot::zeros());
                Some(if slots.iter().all(|slot| *slot == Slot::zeros()) { Unit::Hole } else { left })
            }
            Unit::Block(base) if !base.unwritten => None,
            _ => Some(left),
        }
    }

    /// A block without these pages of it.
    pub(crate) fn punched(
        &self,
        process: u32,
        block: u64,
        unit: &Unit,
        pages: Range<usize>,
    ) -> Result<Job<'_>> {
        if pages == (0..PAGES) {
            return Ok(Job::change(self, process, block, Unit::Hole));
        }
        if let Some(left) = Self::without(unit, &pages) {
            return Ok(Job::change(self, process, block, left));
        }
        let mut job = Job::change(self, process, block, unit.clone());
        match (self.take_for(&mut job, Area::Over), unit.base()) {
            (Ok(eln), Some(base)) => {
                let mut slots: Box<[Slot; PAGES]> = Box::default();
                slots[pages].fill(Slot::zeros());
                job.after = Unit::Over { eln, base, slots };
                Ok(job)
            }
            (Err(FsError::NoSpace), _) => {
                let part = crate::geometry::Part {
                    block,
                    from: (pages.start as u64 * PAGE) as u32,
                    to: (pages.end as u64 * PAGE) as u32,
                };
                self.merge_on_ssd(process, block, unit, &[Segment { part, source: Source::Zeros }])
            }
            (Err(e), _) => Err(e),
            (Ok(_), None) => Err(FsError::Invalid),
        }
    }

    /// Changes attributes; with a size, cuts the file or lets it grow over zeros.
    pub(crate) fn set_attributes(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.called(call);
        let (node, old) = (node(inode), inode.attr());
        let mut new = old;
        new.set(set, call.time);
        let _held = set.size.map(|size| node.ranges.lock(size.min(old.size) / BLOCK, u64::MAX, Use::Resize));
        let jobs = match set.size {
            Some(size) if size <= old.size => self.cut(call.process, node, size),
            Some(size) => self.grow(call.process, node, old.size, size)?,
            None => Vec::new(),
        };
        let attr = |_: Attr, _: Option<u64>| new;
        self.execute(
            call.process,
            inode,
            jobs,
            NOTHING,
            &Stamp { attr: &attr, head: true, group: usize::MAX },
        )
    }

    /// Changes of blocks when a file is cut to `size`.
    fn cut(&self, process: u32, node: &Node, size: u64) -> Vec<Job<'_>> {
        let state = node.state.read();
        let first = size.div_ceil(PAGE) % PAGES as u64;
        let mut jobs = Vec::new();
        for (block, unit) in state.tree.range(size.div_ceil(PAGE) / PAGES as u64, u64::MAX) {
            if block > size / BLOCK || first == 0 {
                jobs.push(Job::change(self, process, block, Unit::Hole));
            } else if let Some(left) = Self::without(unit, &(first as usize..PAGES))
                && left != *unit
            {
                jobs.push(Job::change(self, process, block, left));
            }
        }
        jobs
    }

    /// Changes of the last block when a file grows.
    pub(crate) fn grow(&self, process: u32, node: &Node, size: u64, to: u64) -> Result<Vec<Job<'_>>> {
        let unit = node.state.read().tree.get(size / BLOCK).clone();
        let gap = if size.is_multiple_of(BLOCK) { Vec::new() } else { self.gap(&unit, size, to) };
        if gap.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![self.grown(process, size / BLOCK, &unit, &gap, to)?])
    }

    /// Punches the pages wholly within a range, after these jobs.
    pub(crate) fn punch(
        &self,
        process: u32,
        node: &Node,
        range: Range<u64>,
        before: &[Job<'_>],
    ) -> Result<Vec<Job<'_>>> {
        let (first, last) = (range.start.div_ceil(PAGE), range.end / PAGE);
        if first >= last {
            return Ok(Vec::new());
        }
        let per = PAGES as u64;
        let mut units: Vec<(u64, Unit)> = {
            let state = node.state.read();
            state.tree.range(first / per, last.div_ceil(per)).map(|(b, u)| (b, u.clone())).collect()
        };
        for (block, unit) in &mut units {
            if let Some(job) = before.iter().find(|job| job.block == *block) {
                *unit = job.after.clone();
            }
        }
        let within = |block: u64| {
            let from = first.saturating_sub(block * per) as usize;
            from..(last - block * per).min(per) as usize
        };
        units.iter().map(|(block, unit)| self.punched(process, *block, unit, within(*block))).collect()
    }
}
