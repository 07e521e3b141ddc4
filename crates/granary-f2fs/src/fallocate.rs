//! Space on request: reserving, punching and zeroing ranges of a file, and where its holes are.
//!
//! ```text
//!   pointer      reserve     punch      zero
//!   0            NEW_ADDR    0          NEW_ADDR
//!   NEW_ADDR     NEW_ADDR    0          NEW_ADDR           NEW_ADDR: counted, no place, reads as zeros
//!   block        block       0          NEW_ADDR           the block: invalid, not written before the next
//!                                                          checkpoint
//! ```
//!
//! Only pointers change, and no data moves; nodes that lose their last pointer stay. All of a call happens
//! between two checkpoints, and fsync marks the nodes that it changed, so that it survives whole or not at
//! all but where a file has several nodes and no fsync.
//!
//! Source: the kernel's `f2fs_expand_inode_data`, `f2fs_punch_hole` and `f2fs_zero_range` (fs/f2fs/file.c).

use crate::file::{BS, blocks_of};
use crate::fs::F2fs;
use crate::layout::node::{NODE_ADDRS, addr, addr_at};
use crate::layout::{NEW_ADDR, NULL_ADDR, is_real, put32};
use crate::node::{Node, node};
use crate::tree::Dnode;
use granary_fs::{Allocate, Call, FsError, Inode, Result, Space, StatFs, Sweep, Swept};
use granary_kit::work::Kind;
use granary_sim::{costs, cpu};
use std::ops::Range;

impl F2fs {
    fn change_pointers(&self, own: &Node, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let (first, end) = blocks_of(pos, len);
        let whole = pos.div_ceil(BS)..(pos + len) / BS;
        if how != Allocate::PunchHole {
            self.room_for(own, first..end)?;
            self.reserve_blocks(own, first, end)?;
        }
        match how {
            Allocate::Reserve { .. } => Ok(()),
            Allocate::PunchHole => self.replace_pointers(own, whole, NULL_ADDR),
            Allocate::ZeroRange { .. } => self.replace_pointers(own, whole, NEW_ADDR),
        }
    }

    /// Whether there is room for blocks in all holes of a range: nodes that were made in vain would stay.
    ///
    /// # Errors
    /// `NoSpace`.
    fn room_for(&self, own: &Node, range: Range<u64>) -> Result<()> {
        let (mut at, mut wanted) = (range.start, 0);
        while at < range.end {
            let left = range.end - at;
            at += match self.dnode(own.ino, at)? {
                Ok(d) => {
                    let n = d.left().min(left as usize);
                    wanted += d
                        .entry
                        .with(|b| (0..n).filter(|i| addr(b, d.place, d.ofs + i) == NULL_ADDR).count() as u64);
                    n as u64
                }
                Err(hole) => {
                    let n = hole.min(left);
                    wanted += n + n / NODE_ADDRS as u64;
                    n
                }
            };
        }
        let s = self.space.lock();
        if s.valid + wanted > s.user { Err(FsError::NoSpace) } else { Ok(()) }
    }

    /// Lets the pointers of a range, as far as they are not holes, be `to`: nothing, or a promise. Under the
    /// inode lock.
    fn replace_pointers(&self, own: &Node, range: Range<u64>, to: u32) -> Result<()> {
        let _grow = self.grow_lock(own.ino);
        let mut at = range.start;
        while at < range.end {
            let d = match self.dnode(own.ino, at)? {
                Ok(d) => d,
                Err(hole) => {
                    at = at.saturating_add(hole);
                    continue;
                }
            };
            let n = d.left().min((range.end - at) as usize);
            self.replace_in(own, &d, n, to)?;
            at += n as u64;
        }
        Ok(())
    }

    fn replace_in(&self, own: &Node, d: &Dnode, n: usize, to: u32) -> Result<()> {
        let old: Vec<(usize, u32)> = d.entry.with(|b| {
            let all = (d.ofs..d.ofs + n).map(|ofs| (ofs, addr(b, d.place, ofs)));
            all.filter(|(_, a)| *a != NULL_ADDR && *a != to).collect()
        });
        if old.is_empty() {
            return Ok(());
        }
        {
            let mut segs = self.segs.lock();
            old.iter().filter(|(_, a)| is_real(*a)).try_for_each(|(_, a)| segs.invalidate(*a))?;
        }
        self.nodes.change(&d.entry, |b| {
            old.iter().for_each(|(ofs, _)| put32(b, addr_at(d.place, *ofs), to));
        });
        if to == NULL_ADDR {
            self.give_blocks(old.len() as u64);
            let mut s = own.state.lock();
            s.blocks = s.blocks.saturating_sub(old.len() as u64);
        }
        Ok(())
    }

    /// Whether the byte at `pos` lies in a block that the file has, reserved or written
    /// (`truncate_partial_data_page`); inline content is in none.
    pub(crate) fn has_block(&self, inode: &Inode, pos: u64) -> Result<bool> {
        let own = node(inode);
        if own.state.lock().is_inline() {
            return Ok(false);
        }
        let found = self.dnode(own.ino, pos / BS)?;
        Ok(found.is_ok_and(|d| d.entry.with(|b| addr(b, d.place, d.ofs)) != NULL_ADDR))
    }

    /// The first byte from `pos` on in a block whose pointer is as wanted. Inline content is data.
    fn find_block(&self, inode: &Inode, pos: u64, wanted: impl Fn(u32) -> bool) -> Result<Option<u64>> {
        let own = node(inode);
        let (mut at, end) = (pos / BS, inode.size().div_ceil(BS));
        if own.state.lock().is_inline() {
            return Ok((at < end && wanted(NEW_ADDR)).then_some(pos));
        }
        while at < end {
            let found = match self.dnode(own.ino, at)? {
                Err(_) if wanted(NULL_ADDR) => Some(at),
                Err(hole) => {
                    at = at.saturating_add(hole);
                    continue;
                }
                Ok(d) => {
                    let n = d.left().min((end - at) as usize);
                    let first = d.entry.with(|b| (0..n).find(|i| wanted(addr(b, d.place, d.ofs + i))));
                    at += first.unwrap_or(n) as u64;
                    first.map(|_| at)
                }
            };
            if let Some(block) = found {
                return Ok(Some((block * BS).max(pos)));
            }
        }
        Ok(None)
    }
}

impl Space for F2fs {
    granary_fs::file_system_lacks!(empty_until, grow);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let (own, end) = (node(inode), pos + len);
        {
            let _op = self.op()?;
            let _lock = self.inode_lock(own.ino);
            let before = own.state.lock().blocks;
            let changed = self.convert_inline(own).and_then(|()| self.change_pointers(own, how, pos, len));
            self.counted(inode, before);
            changed?;
            let grown = inode.update(|a| a.allocated(how, end, call.time));
            if grown {
                own.state.lock().disksize = end;
            }
            self.mark_inode(inode, true);
        }
        cpu(costs().extent_alloc + costs().extent_update + Kind::Allocate.inodes());
        Ok(())
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        self.find_block(inode, pos, |a| a != NULL_ADDR)
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        Ok(self.find_block(inode, pos, |a| a == NULL_ADDR)?.unwrap_or(inode.size()))
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        let s = *self.space.lock();
        let free_blocks = s.user.saturating_sub(s.valid);
        let nids = (self.geo.nids() - crate::layout::node::FIRST_NID) as u64;
        // The kernel says how many there could be on an empty drive, so that whatever takes blocks seems to
        // take inodes.
        let free_inodes = (nids.saturating_sub(s.nodes as u64)).min(free_blocks);
        let inodes = s.inodes as u64 + free_inodes;
        // A block of nodes names so many of data: what is offered can be filled.
        let reserved_blocks = StatFs::index_of_all(free_blocks, NODE_ADDRS as u64);
        Ok(StatFs { blocks: s.user, free_blocks, reserved_blocks, inodes, free_inodes })
    }

    fn trim(&self, _call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        // All that is dead and no checkpoint needs; which part of the drive it is in makes no difference to
        // it.
        let _ = blocks;
        let before = self.stats.lock().discarded;
        while self.discard_some(64, least.try_into().unwrap_or(u32::MAX)) == 64 {}
        Ok(self.stats.lock().discarded - before)
    }

    fn sweep(&self, _call: &Call<'_>, _sweep: &Sweep) -> Result<Swept> {
        self.sweep_all()
    }
}
