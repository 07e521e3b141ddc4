//! A fallocate in one transaction: with `data = "journal"` every call takes effect wholly or not at all.
//!
//! ```text
//!   promise what is new ── take it ── trim, wait ──────────┐
//!   pages that are partly in the range: few lines, or ─────┴─ transaction: slots, bitmap, these pages, size,
//!   a record ── wait                                          times
//! ```
//!
//! Zeroing takes new blocks for whole pages, because trimming acts at once. Where there is no space for them
//! (or, in a punch, for the extent block of a second half), the pages are zeroed through a record and keep
//! their blocks, up to what one record holds.
//!
//! A call takes several transactions if it changes more lines than a group may have (`commit_lines`), or
//! zeroes more on a full file system. Each of them leaves a consistent file. First whole pages become holes
//! or zeros, from the end of the range backwards, and holes get blocks. The last transaction has the pages at
//! the edges, the size and the times.

use super::Request;
use crate::core::Core;
use crate::data::Holes;
use crate::journal::{Tx, area::Making};
use crate::layout::bitmap::BITS_PER_GROUP;
use crate::map::Piece;
use crate::node::{Node, node};
use crate::space::{Claim, Run};
use granary_device::{Structure, Ticket};
use granary_fs::{Allocate, FsError, Inode, Result};
use granary_sim::sync::MutexGuard;
use granary_units::{LINE_SIZE, Lpa, PAGE_SIZE, Page, Payload};
use std::ops::Range;

const PAGE: u64 = PAGE_SIZE as u64;

/// A block that gets new content with the transaction.
#[derive(Clone)]
pub struct Zeroed {
    /// The block.
    pub lba: u32,
    /// Its content.
    pub page: Page,
    /// Lines of it that change.
    lines: u64,
}

/// How whole pages become zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Their blocks go; where the range keeps blocks, new ones come.
    Blocks,
    /// They keep their blocks, which are zeroed through a record.
    Record,
}

impl Core {
    /// The pages that are partly in a range to be zeroed and not zero there.
    ///
    /// # Errors
    /// Of the drive.
    pub fn edges(&self, inode: &Inode, pos: u64, end: u64) -> Result<Vec<Zeroed>> {
        let size = inode.size();
        let inside = end.min(size);
        let first_end = pos.next_multiple_of(PAGE).min(inside);
        let mut edges = Vec::new();
        for part in [pos..first_end, (end / PAGE * PAGE).max(first_end)..inside] {
            let index = part.start / PAGE;
            let piece = node(inode).body.lock().map.piece(index);
            let (false, Piece::At { lba, .. }) = (part.is_empty(), piece) else { continue };
            let mut page = [Page::ZERO];
            self.read_pages(inode, index, &mut page)?;
            let [mut page] = page;
            let first = index * PAGE;
            // Beyond the end media have anything.
            page.zero_from((size - first).min(PAGE) as usize);
            let (from, to) = ((part.start - first) as usize, (part.end - first) as usize);
            let mut old = vec![0; to - from];
            page.copy_out(from, &mut old);
            if old.iter().any(|&b| b != 0) {
                page.write(from, Payload::Fill { word: 0, len: to - from });
                let lines = (u64::MAX >> (63 - (to - 1) / LINE_SIZE)) & (u64::MAX << (from / LINE_SIZE));
                edges.push(Zeroed { lba, page, lines });
            }
        }
        Ok(edges)
    }

    /// Makes the whole call one transaction. False: it takes several; nothing is changed.
    ///
    /// # Errors
    /// Of the drive.
    pub fn in_one(&self, request: &Request<'_>) -> Result<bool> {
        let ways: &[Way] = if request.how.zeroes() { &[Way::Blocks, Way::Record] } else { &[Way::Blocks] };
        for way in ways {
            match self.one_way(request, *way) {
                Ok(true) => return Ok(true),
                Ok(false) | Err(FsError::NoSpace) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }

    fn one_way(&self, request: &Request<'_>, way: Way) -> Result<bool> {
        let node = node(request.inode);
        let whole = if request.how.zeroes() { request.whole.clone() } else { 0..0 };
        let keeps = request.how != Allocate::PunchHole;
        let mapped = node.body.lock().map.runs_in(whole.clone());
        let old: u64 = mapped.iter().map(|r| r.len as u64).sum();
        let mut zeroed = request.edges.clone();
        let (cut, mut lines) = match way {
            Way::Blocks => (whole.clone(), mapped.iter().map(lines_of).sum()),
            Way::Record if old as usize + zeroed.len() > self.data_journal.limit() => return Ok(false),
            Way::Record => {
                let lbas = mapped.iter().flat_map(|r| r.lba..r.lba + r.len);
                zeroed.extend(lbas.map(zero));
                (0..0, 0)
            }
        };
        lines += request.edges.iter().map(|e| e.lines.count_ones() as u64).sum::<u64>();
        let most = self.options.commit_lines as u64;
        if lines > most {
            return Ok(false);
        }
        let touched = request.touched.clone();
        let holes = match keeps {
            true if cut.is_empty() => self.promise_filled(node, touched)?,
            true => self.promise(node, touched, true)?,
            false => Holes::new(),
        };
        let renewed = if keeps && way == Way::Blocks { old } else { 0 };
        let mut parts = holes.clone();
        if keeps && way == Way::Blocks && !whole.is_empty() {
            if !self.space.reserve(renewed, Claim::Free) {
                self.unpromise(node, &holes);
                return Err(FsError::NoSpace);
            }
            let outside = |h: &Range<u64>| [h.start..h.end.min(whole.start), h.start.max(whole.end)..h.end];
            let outside = holes.iter().flat_map(outside).filter(|h| !h.is_empty());
            parts = outside.chain([whole.clone()]).collect();
            parts.sort_unstable_by_key(|h| h.start);
        }
        let done = self.take_and_finish(request, parts, most - lines, &zeroed, &cut);
        // After a failure of the transaction itself nothing counts any more.
        if done != Ok(true) && self.journal.alive().is_ok() {
            self.unpromise(node, &holes);
            self.space.unreserve(renewed);
        }
        done
    }

    fn take_and_finish(
        &self,
        request: &Request<'_>,
        parts: Holes,
        mut lines: u64,
        zeroed: &[Zeroed],
        cut: &Range<u64>,
    ) -> Result<bool> {
        let mut tx = Tx::new(self);
        let mut new: Vec<(u64, Run)> = Vec::new();
        for mut part in parts {
            while !part.is_empty() {
                let run = self.take_run(&mut tx, node(request.inode), &mut part, new.last())?;
                let Some(left) = lines.checked_sub(lines_of(&run.1)) else { return Ok(false) };
                lines = left;
                new.push(run);
            }
        }
        if cut.is_empty() {
            self.promise_slots(node(request.inode), &new, 0)?;
        }
        self.trim(new.iter().map(|n| n.1))?;
        self.finish(request, tx, zeroed, cut, &new)?;
        Ok(true)
    }

    /// Gives up what [`Core::promise`] promised.
    pub fn unpromise(&self, node: &Node, holes: &[Range<u64>]) {
        let mut body = node.body.lock();
        for hole in holes {
            let n = body.map.reserved.remove(hole.clone());
            self.space.unreserve(n);
        }
        self.settle_reservation(&mut body);
    }

    /// The transaction brings these pages: few lines of one by byte, the others in a record, which counts
    /// once the caller has said where the transaction is sealed; until then the lock is held.
    ///
    /// # Errors
    /// Of the drive.
    pub fn put_zeroed(
        &self,
        tx: &mut Tx<'_>,
        zeroed: &[Zeroed],
    ) -> Result<Option<(MutexGuard<'_, ()>, Making)>> {
        let mut record = Vec::new();
        for z in zeroed {
            if z.lines.count_ones() < self.threshold && !self.data_journal.has(z.lba) {
                tx.put_data(Lpa(z.lba as u64), z.page.clone(), z.lines);
            } else {
                record.push((z.lba, z.page.clone()));
            }
        }
        if record.is_empty() {
            return Ok(None);
        }
        let lock = self.data_journal.making.lock();
        let (making, ticket) = self.make_record(record)?;
        self.port.wait(ticket);
        tx.put_entry(&making);
        Ok(Some((lock, making)))
    }

    /// Zeroes whole pages through records, from the end backwards; they keep their blocks.
    ///
    /// # Errors
    /// Of the drive.
    pub fn zero_in_place(&self, inode: &Inode, whole: &Range<u64>) -> Result<()> {
        let node = node(inode);
        let runs = node.body.lock().map.runs_in(whole.clone());
        let lbas: Vec<u32> = runs.iter().flat_map(|r| r.lba..r.lba + r.len).collect();
        for part in lbas.rchunks(self.data_journal.limit()) {
            let mut tx = Tx::new(self);
            let record = self.put_zeroed(&mut tx, &part.iter().map(|&lba| zero(lba)).collect::<Vec<_>>())?;
            let seq = tx.run(|| ())?;
            if let Some((_making, record)) = record {
                self.data_journal.sealed(record, seq);
            }
            node.depends(seq);
        }
        Ok(())
    }

    /// Writes pages of an inode that is no longer on media where they are.
    ///
    /// # Errors
    /// Of the drive.
    pub fn write_zeroed(&self, node: &Node, zeroed: &[Zeroed]) -> Result<()> {
        self.leave_journal(node, zeroed.iter().map(|z| Run { lba: z.lba, len: 1 }))?;
        let mut all = Ticket::NONE;
        for z in zeroed {
            let one = std::slice::from_ref(&z.page);
            all = all.and(self.port.submit_write(Lpa(z.lba as u64), one, Structure::Data)?);
        }
        self.port.wait(all);
        Ok(())
    }
}

fn zero(lba: u32) -> Zeroed {
    Zeroed { lba, page: Page::ZERO, lines: u64::MAX }
}

/// Lines that entering or removing a run changes at most: slots, and a run can begin and end within a group.
fn lines_of(run: &Run) -> u64 {
    4 + run.len as u64 / BITS_PER_GROUP
}
