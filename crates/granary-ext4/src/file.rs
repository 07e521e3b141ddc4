//! File content: delayed allocation, ordered writes, reads, direct I/O, truncation.
//!
//! ```text
//!   write()      reserve: promise a block for each hole       wrote: size in memory, times; inode journalled
//!   write-back   hole: handle { allocate, map, disksize } data submitted before the handle stops
//!                      ──> "ordered"
//!                mapped: data written in place; a handle only where the size on media grows, afterwards
//!                reserved (unwritten): data written in place; when it is there, a handle { mark as written }
//!   cut          truncation, edge of a hole: the vfs makes the page dirty; the commit writes it where it
//!                still is
//!   commit       waits for the ordered data of its transaction, then writes its commit block
//!
//!   data = "writeback"   hole: mapped as unwritten, nothing ordered; a second handle, after the data, makes
//!                        it written
//!   data = "journal"     write(), too, ends in write-back: per page one handle { map, page into the journal,
//!                        disksize }
//! ```
//!
//! Invariants: a written extent is committed only after its data is on the drive or with it. So a power loss
//! never shows old content of a block. The size on media (`disksize`) never exceeds the blocks that are
//! mapped, or a hole by intent.
//!
//! The kernel maps holes with unwritten extents in ordered mode, too, and converts them when the data is
//! there (`dioread_nolock`). The blocks that end up in the journal are the same, so for holes the ordered
//! scheme alone is kept.
//!
//! A write into reserved space always succeeds. Marking a part of an extent may need a tree block when none
//! is left: then the rest of the extent becomes zero and all of it is marked (`EXT4_EXT_MAY_ZEROOUT`).

mod cut;
mod journalled;

use crate::alloc::{Purpose, Wanted};
use crate::extents::{Mapping, Owner};
use crate::fs::Ext4;
use crate::journal::Handle;
use crate::layout::BLOCK_SIZE;
use crate::layout::extent::ExtentEntry;
use crate::node::{Node, number, show_blocks};
use crate::options::DataMode;
use crate::ranges::Ranges;
use granary_device::{Structure, Ticket};
use granary_fs::{Call, FsError, Inode, Result};
use granary_kit::work::Kind;
use granary_sim::{costs, cpu};
use granary_units::{Lpa, Page};

const BS: u64 = BLOCK_SIZE as u64;
/// Credits to allocate and map one extent: bitmap, descriptor, inode, superblock, and tree nodes split on the
/// way.
pub(crate) const WRITE: u32 = 40;
/// Credits to change an inode.
pub(crate) const INODE: u32 = 8;
/// Most blocks mapped in one handle (`MAX_WRITEPAGES_EXTENT_LEN`).
pub(crate) const MOST: u32 = 2048;

/// The blocks that a range of bytes touches: first, end.
pub(crate) fn blocks_of(pos: u64, len: u64) -> (u32, u32) {
    ((pos / BS) as u32, (pos + len).div_ceil(BS) as u32)
}

pub(crate) fn owner(inode: &Inode) -> Owner<'_> {
    Owner { node: inode.private::<Node>(), ino: number(inode.ino()), meta: false }
}

/// Data on its way to the drive, and the blocks that are to be marked as written when it is there.
#[derive(Default)]
pub(crate) struct Flight {
    ticket: Ticket,
    unwritten: Vec<(u32, u32)>,
}

impl Flight {
    fn add(&mut self, ticket: Ticket) {
        self.ticket = self.ticket.and(ticket);
    }
}

impl Ext4 {
    /// Promises blocks for the holes of a range that is about to be dirtied; returns those that are new.
    pub(crate) fn promise_range(&self, inode: &Inode, pos: u64, len: u64) -> Result<Vec<(u32, u32)>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        let node = inode.private::<Node>();
        let (mut at, end) = blocks_of(pos, len);
        let mut holes: Vec<(u32, u32)> = Vec::new();
        while at < end {
            let (stop, promised) = node.state.lock().delayed.next_part(at, end);
            while !promised && at < stop {
                match self.map_block(node, at)? {
                    Mapping::Mapped { len, .. } => at = at.saturating_add(len).min(stop),
                    Mapping::Hole { len } => {
                        let to = at.saturating_add(len).min(stop);
                        holes.push((at, to));
                        at = to;
                    }
                }
            }
            at = stop;
        }
        if holes.is_empty() {
            return Ok(holes);
        }
        let n: u64 = holes.iter().map(|(a, b)| (b - a) as u64).sum();
        self.groups.promise(n)?;
        cpu(costs().delayed_page * n);
        let mut s = node.state.lock();
        for (a, b) in &holes {
            s.delayed.insert(*a, *b);
        }
        s.delayed_count += n;
        show_blocks(inode, &s);
        Ok(holes)
    }

    /// Size and times after pages were dirtied, or (`on_drive`) data was written directly (`orphan`: take it
    /// off the list). Dirty pages bring the size to media when they are written back: a commit before that
    /// would show what the last block holds beyond the old end. (The kernel lets the size of mapped blocks go
    /// first and relies on zeros there; in ours truncation leaves the old bytes.)
    pub(crate) fn stamp_write(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        end: u64,
        on_drive: bool,
        orphan: bool,
    ) -> Result<()> {
        let node = inode.private::<Node>();
        let changed = inode.update(|a| {
            let before = *a;
            a.wrote(end, call.time);
            *a != before
        });
        let grows = {
            let mut s = node.state.lock();
            let grows = on_drive && end > s.disksize;
            if grows {
                s.disksize = end;
            }
            grows
        };
        if !changed && !grows && !orphan {
            return Ok(());
        }
        self.journal.run(INODE, |h| {
            if orphan {
                self.orphan_del(h, number(inode.ino()))?;
            }
            h.work(Kind::Attributes.inodes() + costs().inode_dirty);
            self.mark_inode(h, inode)
        })
    }

    /// Waits for writes in flight; extents that were mapped as unwritten for them become written.
    pub(crate) fn land(&self, inode: &Inode, flight: Flight) -> Result<()> {
        self.port.wait(flight.ticket);
        for &(first, end) in &flight.unwritten {
            match self.mark_landed(inode, first, end) {
                Err(FsError::NoSpace) => self.mark_whole(inode, first, end, &flight.unwritten)?,
                other => other?,
            }
        }
        Ok(())
    }

    /// The range `first..end` is written from now on.
    fn mark_landed(&self, inode: &Inode, first: u32, end: u32) -> Result<()> {
        let node = inode.private::<Node>();
        self.transaction(WRITE, |h| {
            {
                let _tree = node.map.write();
                self.mark_written(h, owner(inode), first, end)?;
            }
            self.mark_inode(h, inode)?;
            // The change may be in a block of the tree alone, where the inode does not show it; fdatasync
            // needs it.
            let mut s = node.state.lock();
            s.datasync_tid = h.tid();
            // A tree block may have come or gone.
            show_blocks(inode, &s);
            Ok(())
        })
    }

    /// The same without a new tree block: the unwritten extents of the range become written ones, whole, and
    /// what is not in `landed` of them zero. (Nobody else is writing there: the vfs's write-back lock is
    /// held.)
    fn mark_whole(&self, inode: &Inode, first: u32, end: u32, landed: &[(u32, u32)]) -> Result<()> {
        let node = inode.private::<Node>();
        let mut at = first;
        while at < end {
            let extent = {
                let _tree = node.map.read();
                self.extent_at(owner(inode), at)?
            };
            let Some(e) = extent.filter(|e| e.unwritten) else {
                at = match self.map_block(node, at)? {
                    Mapping::Mapped { len, .. } | Mapping::Hole { len } => at.saturating_add(len),
                };
                continue;
            };
            let mut zeros = Ranges::default();
            zeros.insert(e.key, e.key + e.len);
            landed.iter().for_each(|&(a, b)| {
                zeros.remove(a, b);
            });
            let (mut from, mut all) = (e.key, Ticket::NONE);
            while from < e.key + e.len {
                let (stop, inside) = zeros.next_part(from, e.key + e.len);
                if inside {
                    let part = e.part(from, stop);
                    all = all.and(self.zero_blocks(part.start, part.len)?);
                }
                from = stop;
            }
            self.port.wait(all);
            self.mark_landed(inode, e.key, e.key + e.len)?;
            at = e.key + e.len;
        }
        Ok(())
    }

    fn is_unwritten(&self, node: &Node, at: u32) -> Result<bool> {
        Ok(matches!(self.map_block(node, at)?, Mapping::Mapped { unwritten: true, .. }))
    }

    /// Writes consecutive pages from logical block `first` on; adds what is in flight to `flight`.
    pub(crate) fn write_run(
        &self,
        inode: &Inode,
        first: u32,
        pages: &[Page],
        flight: &mut Flight,
    ) -> Result<()> {
        let node = inode.private::<Node>();
        let mut done = 0;
        while done < pages.len() {
            let at = first + done as u32;
            let left = (pages.len() - done) as u32;
            match self.map_block(node, at)? {
                Mapping::Mapped { start, len, unwritten } => {
                    let n = len.min(left) as usize;
                    let part = &pages[done..done + n];
                    flight.add(self.port.submit_write(Lpa(start), part, Structure::Data)?);
                    if unwritten {
                        flight.unwritten.push((at, at + n as u32));
                    }
                    done += n;
                }
                Mapping::Hole { len } => {
                    let n = len.min(left).min(MOST) as usize;
                    let part = &pages[done..done + n];
                    let unwritten = self.options.data == DataMode::Writeback;
                    // The size grows over pages written in place just before: their data is ordered, too.
                    // Where they show only when they are marked as written, it grows after that.
                    let before = flight.ticket.done();
                    let grow = unwritten || flight.unwritten.is_empty();
                    let (written, t) = self.transaction(WRITE, |h| {
                        h.ordered(before);
                        self.write_hole(h, inode, at, part, grow)
                    })?;
                    flight.add(t);
                    if unwritten {
                        flight.unwritten.push((at, at + written as u32));
                    }
                    done += written;
                }
            }
        }
        Ok(())
    }

    /// Allocates and maps blocks for a hole and starts writing them, all before the handle stops: the
    /// transaction cannot commit without the data, or (`data = "writeback"`) maps them as unwritten. With
    /// `grow` the size on media reaches them. Returns how many pages it took.
    fn write_hole(
        &self,
        h: &mut Handle<'_>,
        inode: &Inode,
        at: u32,
        pages: &[Page],
        grow: bool,
    ) -> Result<(usize, Ticket)> {
        let node = inode.private::<Node>();
        let unwritten = self.options.data == DataMode::Writeback;
        let (start, len) = self.map_hole(h, inode, at, at + pages.len() as u32, unwritten)?;
        if grow {
            let size = inode.size();
            let mut s = node.state.lock();
            s.disksize = s.disksize.max(size.min((at + len) as u64 * BS));
        }
        self.mark_inode(h, inode)?;
        let submitted = self.port.submit_write(Lpa(start), &pages[..len as usize], Structure::Data);
        if !unwritten && submitted.is_err() {
            // The blocks hold what another file had: they show zeros until they are written.
            let (mut from, end) = (at, at + len);
            let tree = node.map.write();
            while from < end {
                from = self.mark_part(h, owner(inode), from, end, true)?;
            }
            drop(tree);
            self.mark_inode(h, inode)?;
        }
        let ticket = submitted?;
        if !unwritten {
            h.ordered(ticket.done());
        }
        Ok((len as usize, ticket))
    }

    /// Allocates and maps blocks for the hole `at..end`, or for its beginning: (first block, how many).
    /// Unwritten ones read as zeros until [`Ext4::mark_written`]. The caller marks the inode.
    pub(crate) fn map_hole(
        &self,
        h: &mut Handle<'_>,
        inode: &Inode,
        at: u32,
        end: u32,
        unwritten: bool,
    ) -> Result<(u64, u32)> {
        h.work(Kind::WriteBack.inodes());
        let node = inode.private::<Node>();
        // Pages that nobody reserved for (a caller without `reserve`) are promised now.
        let missing = end - at - node.state.lock().delayed.count(at, end);
        if missing > 0 {
            self.groups.promise(missing as u64)?;
            let mut s = node.state.lock();
            s.delayed.insert(at, end);
            s.delayed_count += missing as u64;
        }
        let (start, len) = {
            let _tree = node.map.write();
            let goal = self.goal(owner(inode), at)?;
            let wanted = Wanted {
                ino: number(inode.ino()),
                logical: at,
                len: end - at,
                file_blocks: end.max(inode.size().div_ceil(BS) as u32),
                goal,
                purpose: Purpose::Data,
            };
            let (start, len) = self.groups.allocate(h, &wanted)?;
            if let Err(e) =
                self.insert_extent(h, owner(inode), ExtentEntry { key: at, len, start, unwritten })
            {
                self.groups.free(h, start, len)?;
                let again = self.groups.promise(len as u64);
                if again.is_err() {
                    let mut s = node.state.lock();
                    s.delayed_count -= s.delayed.remove(at, at + len) as u64;
                }
                return Err(e);
            }
            (start, len)
        };
        let mut s = node.state.lock();
        s.delayed_count -= s.delayed.remove(at, at + len) as u64;
        s.blocks += len as u64;
        show_blocks(inode, &s);
        Ok((start, len))
    }

    /// Reads consecutive pages; holes are zeros.
    pub(crate) fn read_run(&self, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        let node = inode.private::<Node>();
        let (mut done, mut ticket) = (0, Ticket::NONE);
        while done < out.len() {
            let left = (out.len() - done) as u32;
            match self.map_block(node, (first + done as u64) as u32)? {
                Mapping::Mapped { start, len, unwritten: false } => {
                    let part = &mut out[done..done + len.min(left) as usize];
                    done += part.len();
                    ticket = ticket.and(self.read_mapped(start, part)?);
                }
                Mapping::Mapped { len, .. } | Mapping::Hole { len } => {
                    let n = len.min(left) as usize;
                    out[done..done + n].fill(Page::ZERO);
                    done += n;
                }
            }
        }
        self.port.wait(ticket);
        Ok(())
    }

    /// Starts reading blocks from `start` on; journalled data that is not home yet is in memory.
    fn read_mapped(&self, start: u64, out: &mut [Page]) -> Result<Ticket> {
        if self.options.data != DataMode::Journal {
            return Ok(self.port.submit_read(Lpa(start), out, Structure::Data)?);
        }
        let held: Vec<Option<Page>> = (start..).take(out.len()).map(|lpa| self.journal.data(lpa)).collect();
        let (mut ticket, mut at) = (Ticket::NONE, 0);
        for run in held.chunk_by(|a, b| a.is_some() == b.is_some()) {
            let part = &mut out[at..at + run.len()];
            if run[0].is_none() {
                ticket = ticket.and(self.port.submit_read(Lpa(start + at as u64), part, Structure::Data)?);
            }
            for (page, held) in part.iter_mut().zip(run) {
                if let Some(held) = held {
                    *page = held.clone();
                }
            }
            at += run.len();
        }
        Ok(ticket)
    }

    pub(crate) fn drop_promises_range(&self, inode: &Inode, first: u32, end: u32) {
        let mut s = inode.private::<Node>().state.lock();
        let n = s.delayed.remove(first, end) as u64;
        s.delayed_count -= n;
        self.groups.unpromise(n);
        show_blocks(inode, &s);
    }
}
