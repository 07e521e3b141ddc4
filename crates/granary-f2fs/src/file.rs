//! File content: inline, in place or out of place; reading; size changes.
//!
//! ```text
//!   reserve      holes become NEW_ADDR, nodes are made: from here on nothing can run out of space
//!   write_pages  in place: to the block | out of place: to a log, and the pointer changes when the data
//!                is there
//!   fsync        the nodes that changed (fsync.rs), or the next checkpoint
//! ```
//!
//! Invariants: no pointer names a block whose data is not on the drive; the size on media (`disksize`) grows
//! with the data. Both under the inode lock, so that a block is not moved by cleaning while it is written.

mod in_place;
mod read;

use crate::fs::F2fs;
use crate::fs_write::Blocks;
use crate::layout::node::{ADDRS_AT, COLD_DATA, INLINE_AT, INLINE_BYTES, INLINE_DATA, XATTR_AT};
use crate::layout::summary::Summary;
use crate::layout::{BLOCK_SIZE, NEW_ADDR, NULL_ADDR, is_real, put32};
use crate::node::{Node, node};
use crate::nodes::Batch;
use crate::segs::log;
use crate::tree::Dnode;
use granary_device::Structure;
use granary_fs::{Call, DirtyPage, FsError, Inode, Result, SetAttr, WriteBackCause};
use granary_kit::work::Kind;
use granary_sim::sync::RwLockReadGuard;
use granary_sim::{costs, cpu, now};
use granary_units::{Lpa, Page};
use std::sync::atomic::Ordering::Relaxed;

pub(crate) const BS: u64 = BLOCK_SIZE as u64;

/// A block that gets a new place.
pub(crate) struct Moved {
    d: Dnode,
    old: u32,
    new: u32,
}

/// The blocks that a range of bytes touches: first, end.
pub(crate) fn blocks_of(pos: u64, len: u64) -> (u64, u64) {
    (pos / BS, (pos + len).div_ceil(BS))
}

impl F2fs {
    /// Begins an operation that changes something: no checkpoint before the guard goes.
    pub(crate) fn op(&self) -> Result<RwLockReadGuard<'_, ()>> {
        self.op_with(0)
    }

    /// The same for one that writes so many blocks of data to new places.
    pub(crate) fn op_with(&self, data: usize) -> Result<RwLockReadGuard<'_, ()>> {
        self.balance(data)?;
        self.busy.store(now().0, Relaxed);
        let guard = self.checkpoint_lock.read();
        self.working()?;
        Ok(guard)
    }

    /// Promises blocks for the holes of a range that is about to be dirtied; inline content that would not
    /// fit any more gets a block.
    pub(crate) fn promise_range(&self, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let node = node(inode);
        let inline = {
            let mut s = node.state.lock();
            if s.is_inline() && pos + len <= INLINE_BYTES as u64 {
                s.may_be_dirty = true;
                return Ok(());
            }
            s.is_inline()
        };
        let (first, end) = blocks_of(pos, len);
        let before = node.state.lock().blocks;
        {
            let _op = self.op()?;
            if inline {
                let _lock = self.inode_lock(node.ino);
                self.convert_inline(node)?;
            }
            let reserved = self.reserve_blocks(node, first, end);
            self.counted(inode, before);
            reserved?;
        }
        let more = node.state.lock().blocks.saturating_sub(before);
        cpu(costs().delayed_page * more);
        Ok(())
    }

    /// The number of blocks may have changed: the inode learns it.
    pub(crate) fn counted(&self, inode: &Inode, before: u64) {
        if node(inode).state.lock().blocks != before {
            self.show_blocks(inode);
            self.mark_grown(inode, true);
        }
    }

    /// Inline content moves to a block; content that only the page cache has gets one promised. Under the
    /// inode lock.
    pub(crate) fn convert_inline(&self, node: &Node) -> Result<()> {
        let entry = self.inode_node(node.ino)?;
        let (content, size, may_be_dirty) = {
            let s = node.state.lock();
            if !s.is_inline() {
                return Ok(());
            }
            let mut bytes = [0; BLOCK_SIZE];
            entry.with(|b| bytes[..INLINE_BYTES].copy_from_slice(&b[INLINE_AT..INLINE_AT + INLINE_BYTES]));
            (Page::from_bytes(&bytes), s.disksize, s.may_be_dirty)
        };
        let addr = match (size > 0, may_be_dirty) {
            (true, _) => self.write_new(node.ino, 0, content, log::HOT_DATA)?,
            (false, true) => self.take_blocks(1).map(|()| NEW_ADDR)?,
            (false, false) => NULL_ADDR,
        };
        self.spoil(node.ino);
        let mut s = node.state.lock();
        s.inline &= !INLINE_DATA;
        s.blocks += (addr != NULL_ADDR) as u64;
        s.unsynced.moved |= is_real(addr);
        let inline = s.inline;
        self.nodes.change(&entry, |b| {
            b[ADDRS_AT..XATTR_AT].fill(0);
            b[3] = inline;
            put32(b, ADDRS_AT, addr);
        });
        Ok(())
    }

    /// Takes a block, writes it and waits: its address.
    pub(crate) fn write_new(&self, nid: u32, ofs: u16, page: Page, log: usize) -> Result<u32> {
        self.take_blocks(1)?;
        let place = || {
            let version = self.nat.lookup(nid)?.version;
            let addr = self.segs.lock().alloc(log, Summary { nid, version, ofs })?;
            if let Err(e) = self.port.write(Lpa(addr as u64), &[page], Structure::Data) {
                self.segs.lock().invalidate(addr)?;
                return Err(e.into());
            }
            Ok(addr)
        };
        place().inspect_err(|_: &FsError| self.give_blocks(1))
    }

    /// Size and times after pages were dirtied.
    pub(crate) fn stamp_write(&self, call: &Call<'_>, inode: &Inode, end: u64) {
        let changed = inode.update(|a| {
            let before = *a;
            a.wrote(end, call.time);
            *a != before
        });
        if changed {
            self.mark_inode(inode, false);
        }
    }

    /// Some of the `all` pages that are to be written.
    pub(crate) fn write_part(
        &self,
        inode: &Inode,
        pages: &[DirtyPage],
        all: usize,
        why: WriteBackCause,
    ) -> Result<()> {
        let (Some(first), Some(last)) = (pages.first(), pages.last()) else { return Ok(()) };
        let node = node(inode);
        let in_place = self.in_place(all, why);
        let op = self.op_with(if in_place { 0 } else { pages.len() })?;
        let lock = self.inode_lock(node.ino);
        let end = last.end().min(inode.size());
        let before = node.state.lock().blocks;
        if node.state.lock().is_inline() {
            if last.index == 0 && end <= INLINE_BYTES as u64 {
                self.write_inline(node, &first.page)?;
                return self.grown(inode, end, true);
            }
            self.convert_inline(node)?;
        }
        let log = match node.state.lock().advise & COLD_DATA {
            0 if all <= self.options.min_hot_blocks as usize => log::HOT_DATA,
            0 => log::WARM_DATA,
            _ => log::COLD_DATA,
        };
        let covered = self.is_covered(node);
        if !covered {
            self.spoil(node.ino);
        }
        let in_place = in_place && !covered;
        let blocks = covered.then(|| Blocks {
            index: pages.iter().map(|p| p.index).collect(),
            end,
            before: node.state.lock().disksize,
        });
        let (mut batch, mut moved) = (Batch::with_capacity(pages.len()), Vec::new());
        let (mut placed, mut runs) = (Ok(()), 0);
        for run in pages.chunk_by(|a, b| a.index + 1 == b.index) {
            runs += 1;
            let content = run.iter().map(|p| p.page.clone());
            placed = self.place_blocks(node, run[0].index, content, in_place, log, &mut batch, &mut moved);
            if placed.is_err() {
                break;
            }
        }
        self.counted(inode, before);
        self.finish_write(node, batch, moved, placed, blocks.as_ref())?;
        self.grown(inode, end, false)?;
        drop((lock, op));
        self.charge_write(runs);
        Ok(())
    }

    /// The processor's part of writing so many runs of blocks: each gets its place, and its addresses change.
    pub(crate) fn charge_write(&self, runs: usize) {
        let c = costs();
        cpu((c.extent_alloc + c.extent_update + Kind::WriteBack.inodes()) * runs as u64);
    }

    fn write_inline(&self, node: &Node, page: &Page) -> Result<()> {
        let entry = self.inode_node(node.ino)?;
        self.nodes.change(&entry, |b| page.copy_out(0, &mut b[INLINE_AT..INLINE_AT + INLINE_BYTES]));
        node.state.lock().unsynced.moved = true;
        Ok(())
    }

    /// The size on media follows the data.
    pub(crate) fn grown(&self, inode: &Inode, end: u64, inline: bool) -> Result<()> {
        let grows = {
            let mut s = node(inode).state.lock();
            let grows = end > s.disksize;
            s.disksize = s.disksize.max(end);
            grows
        };
        if inline {
            self.mark_inode(inode, true);
        } else if grows {
            self.mark_grown(inode, true);
        }
        Ok(())
    }

    /// Finds places for consecutive pages.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn place_blocks(
        &self,
        node: &Node,
        first: u64,
        mut pages: impl ExactSizeIterator<Item = Page>,
        in_place: bool,
        log: usize,
        batch: &mut Batch,
        moved: &mut Vec<Moved>,
    ) -> Result<()> {
        let end = first + pages.len() as u64;
        let mut at = first;
        while at < end {
            let d = match self.dnode(node.ino, at)? {
                Ok(d) => d,
                // Nobody reserved (a caller without `reserve`).
                Err(_) => {
                    self.reserve_blocks(node, at, end)?;
                    continue;
                }
            };
            let n = d.left().min((end - at) as usize);
            let addrs: Vec<u32> = d
                .entry
                .with(|b| (d.ofs..d.ofs + n).map(|o| crate::layout::node::addr(b, d.place, o)).collect());
            if addrs.contains(&NULL_ADDR) {
                self.reserve_blocks(node, at, at + n as u64)?;
                continue;
            }
            let version = self.nat.lookup(d.nid)?.version;
            let mut segs = self.segs.lock();
            for (i, old) in addrs.into_iter().enumerate() {
                let ofs = d.ofs + i;
                let new = if in_place && is_real(old) {
                    old
                } else {
                    let new = segs.alloc(log, Summary { nid: d.nid, version, ofs: ofs as u16 })?;
                    moved.push(Moved { d: Dnode { ofs, ..d.clone() }, old, new });
                    new
                };
                let page = pages.next().expect("as many pages as blocks");
                batch.push((new, page, Structure::Data));
            }
            at += n as u64;
        }
        Ok(())
    }

    /// Writes and waits, then lets the pointers follow; after an error the new places are free again.
    /// `blocks`: by FS_WRITE.
    pub(crate) fn finish_write(
        &self,
        node: &Node,
        batch: Batch,
        moved: Vec<Moved>,
        placed: Result<()>,
        blocks: Option<&Blocks>,
    ) -> Result<()> {
        let written = batch.len();
        let result = placed.and_then(|()| match blocks {
            None => self.submit(batch),
            Some(blocks) => self.submit_blocks(node.ino, batch, blocks),
        });
        match &result {
            Ok(ticket) => self.port.wait(*ticket),
            Err(_) => {
                let mut segs = self.segs.lock();
                moved.iter().try_for_each(|m| segs.invalidate(m.new))?;
            }
        }
        result.map(|_| ())?;
        {
            let mut segs = self.segs.lock();
            moved.iter().filter(|m| is_real(m.old)).try_for_each(|m| segs.invalidate(m.old))?;
        }
        moved.iter().for_each(|m| self.set_addr(&m.d, m.new));
        {
            let mut s = node.state.lock();
            s.unsynced.moved |= !moved.is_empty();
            if moved.len() < written {
                s.unsynced.in_place = true;
                self.in_place[0].fetch_add(1, Relaxed);
            }
        }
        let mut stats = self.stats.lock();
        stats.out_of_place += moved.len() as u64;
        stats.in_place += (written - moved.len()) as u64;
        Ok(())
    }

    /// Changes attributes; with a size, frees what lies behind it.
    pub(crate) fn set_attributes(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        let (node, old_size) = (node(inode), inode.size());
        {
            let _op = self.op()?;
            let _lock = self.inode_lock(node.ino);
            if let Some(size) = set.size {
                self.resize(node, inode.size(), size)?;
            }
            inode.update(|a| a.set(set, call.time));
            self.mark_inode(inode, true);
            self.show_blocks(inode);
        }
        let kind =
            if set.size.is_some_and(|size| size < old_size) { Kind::Truncate } else { Kind::Attributes };
        cpu(kind.inodes() + costs().inode_dirty);
        Ok(())
    }

    /// Under the inode lock.
    fn resize(&self, node: &Node, old: u64, size: u64) -> Result<()> {
        let inline = node.state.lock().is_inline();
        if inline && size > INLINE_BYTES as u64 {
            self.convert_inline(node)?;
        } else if inline && size < old {
            let entry = self.inode_node(node.ino)?;
            let from = INLINE_AT + (size as usize).min(INLINE_BYTES);
            self.nodes.change(&entry, |b| b[from..INLINE_AT + INLINE_BYTES].fill(0));
        } else if size < old || size == 0 {
            self.cut_blocks(node, size.div_ceil(BS))?;
        }
        let mut s = node.state.lock();
        s.disksize = size;
        s.may_be_dirty &= size > 0;
        Ok(())
    }
}
