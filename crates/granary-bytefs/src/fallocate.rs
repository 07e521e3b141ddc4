//! Space on request: reserving, punching and zeroing ranges of a file, and where its holes are.
//!
//! ```text
//!   reserve:  promise the holes ── take blocks ── trim them, wait ── transaction: slots, bitmap per 64 runs
//!   punch:    transaction: slots, bitmap (blocks free at its COMMIT)                           per 64 lines
//!   zero:     promise the holes ── trim what is mapped, wait ── as reserve for the rest
//! ```
//!
//! A trimmed page reads as zeros (NVMe "deallocated logical blocks read as zero"), and an acknowledged trim
//! survives a power failure. So space is reserved at the cost of one command per run and without writing a
//! page. A reserved block is a block like any other: writing there changes no pointer. There are no unwritten
//! extents.
//!
//! Invariant: blocks wholly beyond a file's end are zero. Only one moment breaks it: data was written there
//! and the power failed before the transaction that grows the size. So after a recovery such blocks are
//! trimmed again when their inode is loaded.
//!
//! Everything that can fail for lack of space is promised first. A hole in the middle of an extent needs a
//! slot; where there is no space for one the middle is trimmed and keeps its blocks.
//!
//! With `data = "journal"` all of it is one transaction, the pages at the edges included: `whole`.

mod whole;

use crate::core::Core;
use crate::data::Holes;
use crate::journal::Tx;
use crate::map::FileMap;
use crate::node::{Node, Standing, node};
use crate::options::DataMode;
use crate::space::{Claim, Run};
use crate::truncate::blocks_of;
use granary_device::Ticket;
use granary_fs::{Allocate, Call, FsError, Inode, Result};
use granary_units::Lpa;
use std::ops::Range;
use whole::Zeroed;

/// Runs that one transaction makes part of a file.
const RUNS: usize = 64;
/// Pages of one run: 64 lines of the bitmap.
const LONGEST: u64 = 64 * 512;

/// A request on its way.
pub struct Request<'a> {
    pub(crate) call: &'a Call<'a>,
    /// The file.
    pub inode: &'a Inode,
    /// The operation.
    pub how: Allocate,
    /// Where the range ends, in bytes.
    pub(crate) end: u64,
    /// Pages of the range.
    pub touched: Range<u64>,
    /// Pages wholly in it.
    pub whole: Range<u64>,
    /// With a data journal: the other pages that are to be zero there and are not.
    pub edges: Vec<Zeroed>,
}

impl Core {
    pub(crate) fn allocate_range(&self, request: &Request<'_>) -> Result<()> {
        let node = node(request.inode);
        let journaled = self.options.data == DataMode::Journal;
        if journaled && self.standing(node) != Standing::Gone && self.in_one(request)? {
            return Ok(());
        }
        self.in_steps(request)?;
        if self.standing(node) == Standing::Gone {
            self.stamp(request);
            return if request.edges.is_empty() { Ok(()) } else { self.write_zeroed(node, &request.edges) };
        }
        self.finish(request, Tx::new(self), &request.edges, &(0..0), &[])
    }

    /// All but what [`Core::finish`] does, in as many transactions as it takes.
    fn in_steps(&self, request: &Request<'_>) -> Result<()> {
        let (inode, touched, whole) = (request.inode, request.touched.clone(), request.whole.clone());
        let node = node(inode);
        match request.how {
            Allocate::Reserve { .. } => {
                let holes = self.promise_filled(node, touched)?;
                self.fill_holes(inode, &holes)?;
            }
            Allocate::PunchHole => self.punch(inode, &whole)?,
            Allocate::ZeroRange { .. }
                if self.options.data == DataMode::Journal && self.standing(node) != Standing::Gone =>
            {
                let holes = self.promise_filled(node, touched)?;
                self.zero_in_place(inode, &whole)?;
                self.fill_holes(inode, &holes)?;
            }
            Allocate::ZeroRange { .. } => {
                // Dirty pages of the range are about to be dropped: their promises are kept here.
                let dirty = promised(node, whole.clone());
                let mut holes = self.promise_filled(node, touched)?;
                let mapped = node.body.lock().map.runs_in(whole);
                if self.options.data == DataMode::Journal {
                    self.leave_journal(node, mapped.iter().copied())?;
                }
                self.trim(mapped.into_iter())?;
                holes.extend(dirty);
                holes.sort_unstable_by_key(|h| h.start);
                self.fill_holes(inode, &holes)?;
            }
        }
        Ok(())
    }

    /// Times, and the size where it grows.
    fn stamp(&self, request: &Request<'_>) {
        let mut body = node(request.inode).body.lock();
        let blocks = body.stat_blocks();
        request.inode.update(|a| {
            if a.allocated(request.how, request.end, request.call.time) {
                body.disk_size = request.end;
            }
            a.blocks = blocks;
        });
    }

    /// The last transaction of a request: the size, the times, these pages; and in place of what was in
    /// `cut`, new blocks.
    ///
    /// # Errors
    /// `NoSpace` for extent blocks, with nothing changed; of the drive: the journal has stopped then.
    fn finish(
        &self,
        request: &Request<'_>,
        mut tx: Tx<'_>,
        zeroed: &[Zeroed],
        cut: &Range<u64>,
        new: &[(u64, Run)],
    ) -> Result<()> {
        let node = node(request.inode);
        let block = self.inode_block(node.ino)?;
        let record = self.put_zeroed(&mut tx, zeroed)?;
        let half = match self.replace(&mut tx, node, cut, new) {
            Ok(half) => half,
            Err(e) => {
                record.iter().for_each(|(_, making)| self.data_journal.forget(making));
                return Err(e);
            }
        };
        tx.touch(&block, self.inode_lines(node.ino, half));
        let seq = tx.run(|| {
            self.stamp(request);
            self.put_inode(&block, request.inode);
        })?;
        if let Some((_making, record)) = record {
            self.data_journal.sealed(record, seq);
        }
        node.depends(seq);
        Ok(())
    }

    /// Promises the holes among these pages, which get their blocks at once: with the extent blocks that any
    /// places of theirs need, or else with none, since they may lie one behind the other
    /// ([`Core::fill_holes`] finds out).
    ///
    /// # Errors
    /// `NoSpace`, with nothing promised.
    pub fn promise_filled(&self, node: &Node, pages: Range<u64>) -> Result<Holes> {
        match self.promise(node, pages.clone(), true) {
            Err(FsError::NoSpace) => self.promise(node, pages, false),
            other => other,
        }
    }

    /// Gives promised pages blocks that read as zeros.
    ///
    /// # Errors
    /// Of the drive; `NoSpace` for extent blocks, where they were not promised: the pages have lost their
    /// promises then, but for those that came into their places with earlier transactions.
    pub fn fill_holes(&self, inode: &Inode, holes: &[Range<u64>]) -> Result<()> {
        let mut later: u64 = holes.iter().map(|h| h.end - h.start).sum();
        let mut left = holes.iter().flat_map(|h| {
            let h = h.clone();
            h.clone().step_by(LONGEST as usize).map(move |at| at..(at + LONGEST).min(h.end))
        });
        let mut part = left.next();
        while part.is_some() {
            let mut tx = Tx::new(self);
            let result = self.take_runs(&mut tx, node(inode), &mut part, &mut left);
            let result = result.and_then(|new| {
                later -= new.iter().map(|(_, run)| run.len as u64).sum::<u64>();
                self.promise_slots(node(inode), &new, later)?;
                self.trim(new.iter().map(|n| n.1))?;
                self.point_at(tx, inode, &new, 0).map(drop)
            });
            if let Err(e) = result {
                self.unpromise(node(inode), holes);
                return Err(e);
            }
        }
        Ok(())
    }

    /// Promises the extent blocks that these runs and the pages that stay promised need, where too few are;
    /// but for `later` of those pages, which get their places in this call, too.
    pub fn promise_slots(&self, node: &Node, new: &[(u64, Run)], later: u64) -> Result<()> {
        let mut body = node.body.lock();
        if body.standing == Standing::Gone {
            return Ok(());
        }
        let pages: u64 = new.iter().map(|(_, run)| run.len as u64).sum();
        let stay = body.map.reserved.count() - pages - later;
        let (slots, index) = body.map.blocks_missing(body.map.slots_for(new) + stay);
        let more = (slots + index).saturating_sub(body.map.reserved_meta);
        if !self.space.reserve(more, Claim::Free) {
            return Err(FsError::NoSpace);
        }
        body.map.reserved_meta += more;
        Ok(())
    }

    /// Takes blocks for the next promised pages, as many runs as one transaction may.
    fn take_runs(
        &self,
        tx: &mut Tx<'_>,
        node: &Node,
        part: &mut Option<Range<u64>>,
        left: &mut impl Iterator<Item = Range<u64>>,
    ) -> Result<Vec<(u64, Run)>> {
        let mut new: Vec<(u64, Run)> = Vec::new();
        let mut lines = 0;
        while let Some(hole) = part
            && new.len() < RUNS
            && lines < RUNS as u64
        {
            let run = self.take_run(tx, node, hole, new.last())?;
            lines += 1 + run.1.len as u64 / 512;
            new.push(run);
            if hole.is_empty() {
                *part = left.next();
            }
        }
        Ok(new)
    }

    /// Takes blocks for the first of these promised pages, behind those of `last` where that precedes them;
    /// the pages shrink by what was taken.
    ///
    /// # Errors
    /// `NoSpace`.
    fn take_run(
        &self,
        tx: &mut Tx<'_>,
        node: &Node,
        pages: &mut Range<u64>,
        last: Option<&(u64, Run)>,
    ) -> Result<(u64, Run)> {
        let goal = match last {
            Some((block, run)) if block + run.len as u64 == pages.start => run.lba.checked_add(run.len),
            _ => node.body.lock().map.goal(pages.start),
        };
        let goal = goal.filter(|&g| self.geometry.has_data(g as u64, 1));
        let want = pages.end - pages.start;
        let run = match self.standing(node) {
            Standing::Gone => tx.take_unrecorded(want, goal, Claim::Promised)?,
            _ => tx.take_blocks(want, goal, Claim::Promised)?,
        };
        let first = pages.start;
        pages.start += run.len as u64;
        Ok((first, run))
    }

    fn trim(&self, runs: impl Iterator<Item = Run>) -> Result<()> {
        let mut all = Ticket::NONE;
        for run in runs {
            all = all.and(self.port.trim(Lpa(run.lba as u64), run.len as u64)?);
        }
        self.port.wait(all);
        Ok(())
    }

    /// Makes whole pages a hole.
    fn punch(&self, inode: &Inode, whole: &Range<u64>) -> Result<()> {
        let node = node(inode);
        {
            let mut body = node.body.lock();
            let n = body.map.reserved.remove(whole.clone());
            self.space.unreserve(n);
            self.settle_reservation(&mut body);
        }
        let gone = node.body.lock().standing == Standing::Gone;
        loop {
            let mut tx = Tx::new(self);
            let (half, done) = match self.punch_step(&mut tx, node, whole) {
                Err(FsError::NoSpace) => {
                    if self.options.data == DataMode::Journal {
                        return self.zero_in_place(inode, whole);
                    }
                    let runs = node.body.lock().map.runs_in(whole.clone());
                    return self.trim(runs.into_iter());
                }
                other => other?,
            };
            if gone {
                if done {
                    return Ok(());
                }
                continue;
            }
            let block = self.inode_block(node.ino)?;
            tx.touch(&block, self.inode_lines(node.ino, half));
            let seq = tx.run(|| self.put_inode(&block, inode))?;
            node.depends(seq);
            if done {
                return Ok(());
            }
        }
    }

    /// See the module: after a recovery.
    pub fn zero_beyond(&self, map: &FileMap, size: u64) -> Result<()> {
        self.trim(map.runs_in(blocks_of(size)..u64::MAX).into_iter())
    }
}

/// The pages of a range that have a promise.
fn promised(node: &Node, range: Range<u64>) -> Vec<Range<u64>> {
    let body = node.body.lock();
    let (mut all, mut at) = (Vec::new(), range.start);
    for gap in body.map.reserved.missing(range.clone()) {
        if at < gap.start {
            all.push(at..gap.start);
        }
        at = gap.end;
    }
    if at < range.end {
        all.push(at..range.end);
    }
    all
}
