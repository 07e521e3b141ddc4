//! Space on request: reserving, punching and zeroing ranges of a file, and where its holes are.
//!
//! ```text
//!   reserve   promise the holes | per extent one handle { allocate, map as unwritten }
//!   punch     per extent one handle { unmap, free }
//!   zero      promise the holes | per extent one handle { make it unwritten } | as reserve for the rest
//! ```
//!
//! As in the kernel, in all modes: unwritten blocks read as zeros, and the first data that comes there makes
//! them written ones, which costs a change of the tree each time. Zeroing and punching may need a tree block
//! when none is left. Then blocks become zero where they are. Trims do that: trimmed blocks read as zeros
//! also after a power failure. With `data = "journal"` the zeros go through the journal like other data, as a
//! replay of the old content would undo a trim.
//!
//! Invariant: blocks wholly beyond a file's end are zero. Only one moment breaks it: data was written there
//! and the power failed before the size on media grew. So once a file system was recovered (state
//! `CLEAN_LOOSE` from then on) such blocks are trimmed again when their inode is loaded.

use crate::extents::Mapping;
use crate::file::{INODE, MOST, WRITE, blocks_of, owner};
use crate::fs::Ext4;
use crate::layout::BLOCK_SIZE;
use crate::node::{Node, number, show_blocks};
use crate::options::DataMode;
use granary_device::Ticket;
use granary_fs::{Allocate, Call, FsError, Inode, Result, Space, StatFs, TRIM_RUN};
use granary_units::{Lpa, Page};
use std::ops::Range;

const BS: u64 = BLOCK_SIZE as u64;

impl Ext4 {
    /// The blocks of a range that were promised to dirty pages.
    fn promised(&self, node: &Node, first: u32, end: u32) -> Vec<(u32, u32)> {
        let s = node.state.lock();
        let (mut at, mut all) = (first, Vec::new());
        while at < end {
            let (stop, inside) = s.delayed.next_part(at, end);
            if inside {
                all.push((at, stop));
            }
            at = stop;
        }
        all
    }

    /// Gives promised blocks a place that reads as zeros.
    fn fill_holes(&self, inode: &Inode, holes: &[(u32, u32)]) -> Result<()> {
        for &(first, end) in holes {
            let mut at = first;
            while at < end {
                let stop = end.min(at.saturating_add(MOST));
                let mapped = self.transaction(WRITE, |h| {
                    let (_, len) = self.map_hole(h, inode, at, stop, true)?;
                    self.mark_inode(h, inode)?;
                    Ok(len)
                });
                match mapped {
                    Ok(len) => at += len,
                    Err(e) => {
                        for &(first, end) in holes {
                            self.drop_promises_range(inode, first, end);
                        }
                        return Err(e);
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes what is written of a range of blocks unwritten.
    fn forget_written(&self, inode: &Inode, first: u32, end: u32) -> Result<()> {
        let node = inode.private::<Node>();
        let mut at = first;
        while at < end {
            at = match self.map_block(node, at)? {
                Mapping::Mapped { len, unwritten: false, .. } => {
                    let stop = end.min(at.saturating_add(len));
                    let marked = self.transaction(WRITE, |h| {
                        let stop = {
                            let _tree = node.map.write();
                            self.mark_part(h, owner(inode), at, stop, true)?
                        };
                        self.mark_inode(h, inode)?;
                        // As where they become written ones: see `mark_landed`.
                        let mut s = node.state.lock();
                        s.datasync_tid = h.tid();
                        show_blocks(inode, &s);
                        drop(s);
                        Ok(stop)
                    });
                    match marked {
                        Err(FsError::NoSpace) => {
                            self.zero_written(node, at, stop, |start, len| self.zero_blocks(start, len))?;
                            stop
                        }
                        other => other?,
                    }
                }
                Mapping::Mapped { len, .. } | Mapping::Hole { len } => at.saturating_add(len),
            };
        }
        Ok(())
    }

    /// Makes what is written of a range of blocks zero, where it is.
    fn zero_written(
        &self,
        node: &Node,
        first: u32,
        end: u32,
        zero: impl Fn(u64, u32) -> Result<Ticket>,
    ) -> Result<()> {
        let (mut at, mut all) = (first, Ticket::NONE);
        while at < end {
            match self.map_block(node, at)? {
                Mapping::Mapped { start, len, unwritten: false } => {
                    let n = len.min(end - at);
                    all = all.and(zero(start, n)?);
                    at += n;
                }
                Mapping::Mapped { len, .. } | Mapping::Hole { len } => at = at.saturating_add(len),
            }
        }
        self.port.wait(all);
        Ok(())
    }

    /// Makes blocks of a file zero: by a trim, with a data journal through that. The caller waits.
    pub(crate) fn zero_blocks(&self, start: u64, len: u32) -> Result<Ticket> {
        /// Blocks of zeros in one handle: a part of any transaction.
        const MOST_ZEROS: u64 = 64;
        let end = start + len as u64;
        if self.options.data != DataMode::Journal {
            return Ok(self.port.trim(Lpa(start), len as u64)?);
        }
        for from in (start..end).step_by(MOST_ZEROS as usize) {
            let to = end.min(from + MOST_ZEROS);
            self.journal.run((to - from) as u32, |h| {
                (from..to).for_each(|lpa| h.data(lpa, Page::ZERO));
                Ok(())
            })?;
        }
        Ok(Ticket::NONE)
    }

    fn punch(&self, inode: &Inode, first: u32, end: u32) -> Result<()> {
        let node = inode.private::<Node>();
        self.drop_promises_range(inode, first, end);
        let mut to = end;
        while to > first {
            let step = self.transaction(WRITE, |h| {
                let part = {
                    let _tree = node.map.write();
                    self.unmap_last(h, owner(inode), first, to)?
                };
                if let Some(part) = part {
                    self.groups.free(h, part.start, part.len)?;
                    let mut s = node.state.lock();
                    s.blocks -= part.len as u64;
                    show_blocks(inode, &s);
                    drop(s);
                    self.mark_inode(h, inode)?;
                }
                Ok(part)
            });
            match step {
                Ok(Some(part)) => to = part.key,
                Ok(None) => break,
                // No room for the second half of an extent: its middle is zero and keeps its blocks.
                Err(FsError::NoSpace) => {
                    return self.zero_written(node, first, to, |start, len| self.zero_blocks(start, len));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// See the module: after a recovery.
    pub(crate) fn zero_beyond(&self, node: &Node, size: u64) -> Result<()> {
        let extents = node.state.lock().flags & crate::layout::inode::EXTENTS != 0;
        if !extents {
            return Ok(());
        }
        let trim = |start, len: u32| Ok(self.port.trim(Lpa(start), len as u64)?);
        self.zero_written(node, size.div_ceil(BS) as u32, u32::MAX, trim)
    }
}

impl Space for Ext4 {
    granary_fs::file_system_lacks!(grow, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let end = pos + len;
        let (first, last) = (pos.div_ceil(BS) as u32, (end / BS) as u32);
        let node = inode.private::<Node>();
        match how {
            Allocate::Reserve { .. } => {
                let holes = self.promise_range(inode, pos, len)?;
                self.fill_holes(inode, &holes)?;
            }
            Allocate::PunchHole => {
                // Blocks that were reserved behind the end stay.
                let last = last.min(inode.size().div_ceil(BS) as u32);
                if first < last {
                    self.punch(inode, first, last)?;
                }
            }
            Allocate::ZeroRange { .. } => {
                // Dirty pages of the range are about to be dropped: their promises are kept here.
                let mut holes = if first < last { self.promised(node, first, last) } else { Vec::new() };
                holes.extend(self.promise_range(inode, pos, len)?);
                self.forget_written(inode, first, last)?;
                holes.sort_unstable();
                self.fill_holes(inode, &holes)?;
            }
        }
        let mut cut = Vec::new();
        if how.zeroes() {
            // The pages at the range's edges, which the vfs makes zero in part.
            for edge in [pos, end] {
                if edge < inode.size() && self.orders_cut(inode, edge)? {
                    cut.push((edge / BS) as u32);
                }
            }
        }
        self.journal.run(INODE, |h| {
            cut.iter().for_each(|page| h.cut_page(number(inode.ino()), *page));
            let grown = inode.update(|a| a.allocated(how, end, call.time));
            if grown {
                node.state.lock().disksize = end;
            }
            self.mark_inode(h, inode)
        })
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        let node = inode.private::<Node>();
        let (mut at, end) = blocks_of(pos, inode.size() - pos);
        while at < end {
            let (stop, promised) = node.state.lock().delayed.next_part(at, end);
            match self.map_block(node, at)? {
                Mapping::Hole { len } if !promised => at = at.saturating_add(len).min(stop),
                Mapping::Mapped { len, unwritten: true, .. } => at = at.saturating_add(len),
                _ => return Ok(Some((at as u64 * BS).max(pos))),
            }
        }
        Ok(None)
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        let node = inode.private::<Node>();
        let (mut at, end) = blocks_of(pos, inode.size() - pos);
        while at < end {
            let (stop, promised) = node.state.lock().delayed.next_part(at, end);
            match self.map_block(node, at)? {
                Mapping::Mapped { len, unwritten: false, .. } => at = at.saturating_add(len),
                Mapping::Hole { .. } if promised => at = stop,
                _ => return Ok((at as u64 * BS).max(pos)),
            }
        }
        Ok(inode.size())
    }

    /// Where the unwritten extent at `pos` ends, or `pos` where there is none.
    fn empty_until(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        let at = (pos / BS) as u32;
        Ok(match self.map_block(inode.private::<Node>(), at)? {
            Mapping::Mapped { len, unwritten: true, .. } => (at as u64 + len as u64) * BS,
            _ => pos,
        })
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        let geo = &self.groups.geo;
        Ok(StatFs {
            blocks: geo.blocks,
            free_blocks: self.groups.space().available(),
            reserved_blocks: 0,
            inodes: geo.inodes() as u64,
            free_inodes: self.groups.free_inodes(),
        })
    }

    fn trim(&self, _call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        let (mut at, mut told) = (blocks.start, 0);
        while let Some((start, len)) = self.groups.take_next(at..blocks.end, least, TRIM_RUN)? {
            let done = self.port.trim(Lpa(start), len).map(|ticket| self.port.wait(ticket));
            self.groups.put_back(start, len);
            done?;
            told += len;
            at = start + len;
        }
        Ok(told)
    }
}
