//! Space on request: reserving, punching and zeroing ranges of a file, and where its holes are.
//!
//! ```text
//!   reserve:  promise the holes ── take blocks ── trim them, wait ── transaction: slots, bitmap      per 64 runs
//!   punch:    transaction: slots, bitmap (blocks free at its COMMIT)                                 per 64 lines
//!   zero:     promise the holes ── trim what is mapped, wait ── as reserve for the rest
//! ```
//!
//! A trimmed page reads as zeros (NVMe "deallocated logical blocks read as zero", and an acknowledged trim survives a
//! power failure), so space is reserved at the cost of one command per run and without writing a page; and a block
//! that is reserved is a block like any other: writing there changes no pointer. There are no unwritten extents.
//!
//! Invariant: blocks wholly beyond a file's end are zero. Only one moment breaks it: data was written there and the
//! power failed before the transaction that grows the size. So after a recovery such blocks are trimmed again when
//! their inode is loaded.
//!
//! Everything that can fail for lack of space is promised first. A hole in the middle of an extent needs a slot; where
//! there is no space for one the middle is trimmed and keeps its blocks.

use crate::core::Core;
use crate::data::pages_of;
use crate::journal::Tx;
use crate::map::{FileMap, Piece};
use crate::node::{Half, Node, Standing, node};
use crate::options::DataMode;
use crate::space::{Claim, Run};
use crate::truncate::blocks_of;
use granary_mssd::Ticket;
use granary_units::{Lpa, PAGE_SIZE};
use granary_vfs::{Allocate, Cx, FileKind, FsError, Inode, Result};
use std::ops::Range;

const PAGE: u64 = PAGE_SIZE as u64;
/// Runs that one transaction makes part of a file.
const RUNS: usize = 64;
/// Pages of one run: 64 lines of the bitmap.
const LONGEST: u64 = 64 * 512;

impl Core {
    /// See [`granary_vfs::FileSystem::fallocate`].
    pub fn fallocate(&self, cx: &Cx<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let node = node(inode);
        if node.kind != FileKind::File {
            return Err(FsError::Invalid);
        }
        self.journal.alive()?;
        let _change = node.change.lock();
        let (touched, end) = (pages_of(pos, len), pos + len);
        let whole = pos.div_ceil(PAGE)..(end / PAGE).max(pos.div_ceil(PAGE));
        match how {
            Allocate::Reserve { .. } => {
                let holes = self.promise(node, touched)?;
                self.fill_holes(inode, &holes)?;
            }
            Allocate::PunchHole => self.punch(inode, &whole)?,
            Allocate::ZeroRange { .. } if self.options.data == DataMode::Journal => {
                // Trimming acts at once: in the order of transactions stand a punch and new blocks.
                let found = self.promise(node, touched)?;
                self.punch(inode, &whole)?;
                let outside =
                    |h: &Range<u64>| [h.start..h.end.min(whole.start), h.start.max(whole.end)..h.end];
                let mut holes: Vec<_> = found.iter().flat_map(outside).filter(|h| !h.is_empty()).collect();
                holes.extend(self.promise(node, whole)?);
                holes.sort_unstable_by_key(|h| h.start);
                self.fill_holes(inode, &holes)?;
            }
            Allocate::ZeroRange { .. } => {
                // Dirty pages of the range are about to be dropped: their promises are kept here.
                let dirty = promised(node, whole.clone());
                let mut holes = self.promise(node, touched)?;
                let mapped = node.body.lock().map.runs_in(whole);
                self.trim(mapped.into_iter())?;
                holes.extend(dirty);
                holes.sort_unstable_by_key(|h| h.start);
                self.fill_holes(inode, &holes)?;
            }
        }
        self.finish(cx, inode, how, end)
    }

    /// Times, and the size where it grows.
    fn finish(&self, cx: &Cx<'_>, inode: &Inode, how: Allocate, end: u64) -> Result<()> {
        let node = node(inode);
        let stamp = || {
            let mut body = node.body.lock();
            let blocks = body.stat_blocks();
            inode.update(|a| {
                let grows = how.grows() && end > a.size;
                if grows {
                    a.size = end;
                    body.disk_size = end;
                }
                if grows || how.zeroes() {
                    a.mtime = cx.time;
                }
                a.ctime = cx.time;
                a.blocks = blocks;
            });
        };
        if node.body.lock().standing == Standing::Gone {
            stamp();
            return Ok(());
        }
        let block = self.inode_block(node.ino)?;
        let mut tx = Tx::new(self);
        tx.touch(&block, self.inode_lines(node.ino, Half::Hot));
        let seq = tx.run(|| {
            stamp();
            self.put_inode(&block, inode);
        })?;
        node.depends(seq);
        Ok(())
    }

    /// Gives promised pages blocks that read as zeros.
    fn fill_holes(&self, inode: &Inode, holes: &[Range<u64>]) -> Result<()> {
        let mut left = holes.iter().flat_map(|h| {
            let h = h.clone();
            h.clone().step_by(LONGEST as usize).map(move |at| at..(at + LONGEST).min(h.end))
        });
        let mut part = left.next();
        while part.is_some() {
            let mut tx = Tx::new(self);
            let result = self.take_runs(&mut tx, node(inode), &mut part, &mut left);
            let result = result.and_then(|new| {
                self.trim(new.iter().map(|n| n.1))?;
                self.point_at(tx, inode, &new, 0).map(drop)
            });
            if let Err(e) = result {
                let mut body = node(inode).body.lock();
                for hole in holes {
                    let n = body.map.reserved.remove(hole.clone());
                    self.space.unreserve(n);
                }
                self.settle_reservation(&mut body);
                return Err(e);
            }
        }
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
            let want = hole.end - hole.start;
            let goal = match new.last() {
                Some((block, run)) if block + run.len as u64 == hole.start => run.lba.checked_add(run.len),
                _ => node.body.lock().map.goal(hole.start),
            };
            let goal = goal.filter(|&g| self.geometry.has_data(g as u64, 1));
            let gone = node.body.lock().standing == Standing::Gone;
            let run = match gone {
                true => tx.take_unrecorded(want, goal, Claim::Promised)?,
                false => tx.take_blocks(want, goal, Claim::Promised)?,
            };
            new.push((hole.start, run));
            lines += 1 + run.len as u64 / 512;
            hole.start += run.len as u64;
            if hole.is_empty() {
                *part = left.next();
            }
        }
        Ok(new)
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
                        // What was done before must not be undone while this is there.
                        self.commit_to(self.journal.sealed())?;
                        self.checkpoint_data(false)?;
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

    /// See [`granary_vfs::FileSystem::seek_data`].
    pub fn seek_data(&self, inode: &Inode, pos: u64) -> Option<u64> {
        let body = node(inode).body.lock();
        let end = blocks_of(inode.size());
        let mut at = pos / PAGE;
        while at < end {
            match body.map.piece(at) {
                Piece::At { .. } => return Some((at * PAGE).max(pos)),
                Piece::Hole { len } => {
                    let stop = at.saturating_add(len).min(end);
                    let gap = body.map.reserved.missing(at..stop).next();
                    match gap {
                        Some(gap) if gap.start == at && gap.end == stop => at = stop,
                        Some(gap) if gap.start == at => return Some(gap.end * PAGE),
                        _ => return Some((at * PAGE).max(pos)),
                    }
                }
            }
        }
        None
    }

    /// See [`granary_vfs::FileSystem::seek_hole`].
    pub fn seek_hole(&self, inode: &Inode, pos: u64) -> u64 {
        let body = node(inode).body.lock();
        let size = inode.size();
        let mut at = pos / PAGE;
        while at < blocks_of(size) {
            at += match body.map.piece(at) {
                Piece::At { len, .. } => len,
                Piece::Hole { len } => {
                    let stop = at.saturating_add(len).min(blocks_of(size));
                    match body.map.reserved.missing(at..stop).next() {
                        Some(gap) => return (gap.start * PAGE).max(pos),
                        None => stop - at,
                    }
                }
            };
        }
        size
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
