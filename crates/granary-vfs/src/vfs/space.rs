//! Space under a file: fallocate, and where data and holes are.
//!
//! ```text
//!   range      pos |----------------------------------------------------| pos + len
//!   pages     | edge |   whole   |   whole   |   whole   |   whole   | edge |
//!              zeros  the file system's: blocks, holes                zeros
//!              through the cache, which drops its whole pages        through the cache
//! ```
//!
//! All happens under the inode's lock and its write-back lock. Edges that are not zero are made dirty first,
//! the file system acts next, so that an error leaves everything as it was; then the cache lets go of the
//! whole pages, dirty ones too, and the edges become zeros. An edge that is not zero has a block or the
//! promise of one, so zeroing it needs no space: a file system of which that is not true zeroes edges itself.
//! A file system that [zeroes edges](granary_fs::Quirks::zeroes_edges) gets the bytes of the range, edges
//! included, and the cache lets go of the edges' pages, too.

use super::Vfs;
use super::io::OpenFile;
use super::node::{NO_TAIL, Node, NodeRef};
use super::perm;
use crate::posix::OpenFlags;
use granary_fs::{Allocate, Call, Caller, FileKind, FsError, Result, SetAttr, WriteBackCause};
use granary_sim::{costs, cpu};
use granary_units::{Dest, Nanos, PAGE_SIZE, Payload};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

const PAGE: u64 = PAGE_SIZE as u64;

impl Vfs {
    /// Allocates, punches or zeroes `len` bytes from `pos` on.
    ///
    /// # Errors
    /// `Invalid` for no length; `BadFd` where it is not open for writing; `TooBig` beyond the largest size;
    /// `NotPermitted` where the file's flags forbid it; `NotSupported`; `NoSpace`, with nothing changed; the
    /// file system's.
    pub fn fallocate(
        &self,
        caller: &Caller,
        file: &OpenFile,
        how: Allocate,
        pos: u64,
        len: u64,
    ) -> Result<()> {
        self.enter(caller.origin, Nanos::ZERO);
        let node = file.node();
        if len == 0 {
            return Err(FsError::Invalid);
        }
        if !file.flags().writes() {
            return Err(FsError::BadFd);
        }
        let end =
            pos.checked_add(len).filter(|&e| e <= self.features.max_file_size).ok_or(FsError::TooBig)?;
        {
            let _lock = node.rwsem.write();
            let changes_nothing = matches!(how, Allocate::Reserve { .. });
            node.view(|a| perm::content_may_change(a, changes_nothing))?;
            let call = self.call(caller);
            cpu(costs().inode_op);
            self.with_space(&call, node, || self.fallocate_locked(&call, node, how, pos..end))?;
            if how.zeroes() {
                self.write_through(&call, node, pos, len)?;
            }
            // After it: a file system that cannot do this must not take privileges away.
            if let Some(mode) = node.view(|a| perm::mode_after_write(call.cred, a)) {
                self.fs.setattr(&call, node, &SetAttr { mode: Some(mode), ..SetAttr::default() })?;
            }
            self.effects.mark();
        }
        if file.flags().contains(OpenFlags::DSYNC) {
            let data_only = !file.flags().contains(OpenFlags::SYNC);
            self.sync_range(&self.call(caller), node, Some(file), pos, len, data_only)?;
        }
        self.throttle();
        Ok(())
    }

    fn fallocate_locked(&self, call: &Call<'_>, node: &Node, how: Allocate, range: Range<u64>) -> Result<()> {
        let (pos, mut end, old) = (range.start, range.end, node.size());
        if how == Allocate::PunchHole && end > old && self.features.quirks.punches_last_page {
            end = end.max(old.next_multiple_of(PAGE));
        }
        if how.grows() && end > old {
            self.before_size(call, node, old, end)?;
        }
        if how.zeroes() {
            // Dirty pages bring the size to media: those that are about to be dropped must have done so.
            // (Linux, too, writes the range first.)
            self.write_back(call, node, pos / PAGE..end.div_ceil(PAGE), WriteBackCause::Sync)?;
        }
        // No page may be on its way to the drive while its block is freed or zeroed.
        let _quiet = node.writeback.lock();
        let inside = end.min(old);
        let first_end = pos.next_multiple_of(PAGE).min(inside);
        let ours = how.zeroes() && !self.features.quirks.zeroes_edges;
        let edges = match ours {
            true => [pos..first_end, (end / PAGE * PAGE).max(first_end)..inside],
            false => [0..0, 0..0],
        };
        let mut dirty = [false; 2];
        for (edge, dirty) in edges.iter().zip(&mut dirty) {
            *dirty = self.prepare_edge(call, node, edge.clone())?;
        }
        self.fs.fallocate(call, node, how, pos, end - pos)?;
        let stale = if ours { pos.div_ceil(PAGE)..end / PAGE } else { pos / PAGE..end.div_ceil(PAGE) };
        if how.zeroes() && !stale.is_empty() && self.features.cache.any() {
            self.cache.drop_range(node, stale.clone());
            if stale.contains(&node.tail.load(Relaxed)) {
                node.tail.store(NO_TAIL, Relaxed);
            }
        }
        for (edge, _) in edges.into_iter().zip(dirty).filter(|(_, dirty)| *dirty) {
            self.zero_edge(call, node, edge)?;
        }
        Ok(())
    }

    /// Tells the drive of free space in a part of it (fstrim), in runs of at least `least` bytes; returns the
    /// number of bytes. Earlier frees are made durable first, so that this space counts as free.
    ///
    /// # Errors
    /// `Invalid` where the part begins beyond the drive, or is less than a block; `NotSupported`; the file
    /// system's.
    pub fn trim(&self, start: u64, len: u64, least: u64) -> Result<u64> {
        let end = self.fs.statfs(&self.kernel())?.blocks * PAGE;
        if start >= end || len < PAGE || least > end {
            return Err(FsError::Invalid);
        }
        self.fs.sync(&self.kernel())?;
        let stop = start.saturating_add(len).min(end);
        let blocks = start.div_ceil(PAGE)..stop / PAGE;
        Ok(self.fs.trim(&self.kernel(), blocks, least.div_ceil(PAGE).max(1))? * PAGE)
    }

    /// Whether a page that begins within the file is empty: not in the cache, and a hole or blocks without
    /// content on media. Such a page is zero, also past the file's end, and nobody needs to zero it.
    pub(super) fn is_empty_page(&self, call: &Call<'_>, node: &Node, page: u64) -> Result<bool> {
        if !self.features.cache.any() || self.cache.next(node, page..page + 1, true).is_some() {
            return Ok(false);
        }
        Ok(self.fs.seek_hole(call, node, page * PAGE)? == page * PAGE && page * PAGE < node.size())
    }

    /// Looks whether the bytes of a range, which lies in one page and in the file, must be made zero. If so,
    /// the page is made dirty as it is. It has its space then and does not leave the cache, so that zeroing
    /// it cannot fail.
    fn prepare_edge(&self, call: &Call<'_>, node: &Node, edge: Range<u64>) -> Result<bool> {
        if edge.is_empty() || self.is_empty_page(call, node, edge.start / PAGE)? {
            return Ok(false);
        }
        let mut bytes = vec![0; (edge.end - edge.start) as usize];
        if !self.features.cache.writes {
            self.fs.read_direct(call, node, edge.start, Dest::Bytes(&mut bytes))?;
            return Ok(bytes.iter().any(|&b| b != 0));
        }
        let page = self.page_in(call, node, edge.start / PAGE)?;
        page.copy_out((edge.start % PAGE) as usize, &mut bytes);
        let dirty = bytes.iter().any(|&b| b != 0);
        if dirty {
            self.dirty(call, node, edge.start, Payload::Bytes(&bytes), node.size())?;
        }
        Ok(dirty)
    }

    /// Makes the bytes of a prepared range zero.
    fn zero_edge(&self, call: &Call<'_>, node: &Node, edge: Range<u64>) -> Result<()> {
        let zeros = Payload::Fill { word: 0, len: (edge.end - edge.start) as usize };
        if !self.features.cache.writes {
            return self.store_direct(call, node, edge.start, zeros);
        }
        self.put(call, node, edge.start, zeros, node.size())
    }

    /// The first byte at or after `pos` that is data, or (`hole`) that is in a hole; every file has a hole at
    /// its end.
    ///
    /// # Errors
    /// `NoDevice` (ENXIO) at or beyond the end, and where only a hole follows; the file system's.
    pub fn seek(&self, caller: &Caller, node: &NodeRef, pos: u64, hole: bool) -> Result<u64> {
        let call = &self.call(caller);
        let _shared = node.rwsem.read();
        let size = node.size();
        if pos >= size {
            return Err(FsError::NoDevice);
        }
        match (node.kind(), hole) {
            // Special files have no blocks, directories only what is theirs.
            (FileKind::File, true) => self.next_hole(call, node, pos, size),
            (FileKind::File, false) => self.next_data(call, node, pos, size)?.ok_or(FsError::NoDevice),
            (_, true) => Ok(size),
            (_, false) => Ok(pos),
        }
    }

    /// In blocks that hold nothing yet a page in the cache is data, be it dirty or read
    /// (`mapping_seek_hole_data`). Write-back may give them their data between two questions: what is neither
    /// is asked again.
    fn next_hole(&self, call: &Call<'_>, node: &Node, pos: u64, size: u64) -> Result<u64> {
        let mut at = pos;
        while at < size {
            let hole = self.fs.seek_hole(call, node, at)?.max(at);
            let end = self.empty_until(call, node, hole, size)?;
            if end <= hole {
                if hole >= size || self.fs.seek_hole(call, node, hole)? <= hole {
                    return Ok(hole.min(size));
                }
                at = hole;
                continue;
            }
            if let Some(page) = self.cache.next(node, hole / PAGE..end.div_ceil(PAGE), false) {
                return Ok((page * PAGE).max(hole).min(size));
            }
            at = end;
        }
        Ok(size)
    }

    fn next_data(&self, call: &Call<'_>, node: &Node, pos: u64, size: u64) -> Result<Option<u64>> {
        let data_at = |at| {
            Ok::<_, FsError>(self.fs.seek_data(call, node, at)?.map(|p| p.max(at)).filter(|&p| p < size))
        };
        let data = data_at(pos)?;
        let (mut at, stop) = (pos, data.unwrap_or(size));
        while at < stop
            && let Some(page) = self.cache.next(node, at / PAGE..stop.div_ceil(PAGE), true)
        {
            let start = (page * PAGE).max(at);
            if self.empty_until(call, node, start, size)? > start || data_at(start)? == Some(start) {
                return Ok(Some(start));
            }
            at = (page + 1) * PAGE;
        }
        Ok(data)
    }

    fn empty_until(&self, call: &Call<'_>, node: &Node, pos: u64, size: u64) -> Result<u64> {
        if pos < size && self.features.cache.any() { self.fs.empty_until(call, node, pos) } else { Ok(pos) }
    }
}
