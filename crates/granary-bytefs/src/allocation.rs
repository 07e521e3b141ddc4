//! [`Space`] of [`ByteFs`]: blocks on request, where holes are, and how much is left.

use crate::data::pages_of;
use crate::fallocate::Request;
use crate::fs::ByteFs;
use crate::map::Piece;
use crate::node::node;
use crate::options::DataMode;
use crate::space::Claim;
use crate::truncate::blocks_of;
use granary_fs::{Allocate, Call, Inode, Result, Space, StatFs, TRIM_RUN};
use granary_units::{Lpa, PAGE_SIZE};
use std::ops::Range;

const PAGE: u64 = PAGE_SIZE as u64;

impl Space for ByteFs {
    granary_fs::file_system_lacks!(empty_until, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let core = &*self.core;
        let node = node(inode);
        core.journal.alive()?;
        let _change = node.change.lock();
        let (touched, end) = (pages_of(pos, len), pos + len);
        let whole = pos.div_ceil(PAGE)..(end / PAGE).max(pos.div_ceil(PAGE));
        let journaled = core.options.data == DataMode::Journal;
        let edges = if journaled && how.zeroes() { core.edges(inode, pos, end)? } else { Vec::new() };
        let request = Request { call, inode, how, end, touched, whole, edges };
        let done = core.allocate_range(&request);
        if done.is_err() {
            // The call may have given up promised blocks.
            core.put_blocks(inode);
        }
        done
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        let _core = &*self.core;
        let body = node(inode).body.lock();
        let end = blocks_of(inode.size());
        let mut at = pos / PAGE;
        while at < end {
            match body.map.piece(at) {
                Piece::At { .. } => return Ok(Some((at * PAGE).max(pos))),
                Piece::Hole { len } => {
                    let stop = at.saturating_add(len).min(end);
                    let gap = body.map.reserved.missing(at..stop).next();
                    match gap {
                        Some(gap) if gap.start == at && gap.end == stop => at = stop,
                        Some(gap) if gap.start == at => return Ok(Some(gap.end * PAGE)),
                        _ => return Ok(Some((at * PAGE).max(pos))),
                    }
                }
            }
        }
        Ok(None)
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        let _core = &*self.core;
        let body = node(inode).body.lock();
        let size = inode.size();
        let mut at = pos / PAGE;
        while at < blocks_of(size) {
            at += match body.map.piece(at) {
                Piece::At { len, .. } => len,
                Piece::Hole { len } => {
                    let stop = at.saturating_add(len).min(blocks_of(size));
                    match body.map.reserved.missing(at..stop).next() {
                        Some(gap) => return Ok((gap.start * PAGE).max(pos)),
                        None => stop - at,
                    }
                }
            };
        }
        Ok(size)
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        let g = &self.core.geometry;
        let free_inodes = self.core.inodes.lock().free();
        Ok(StatFs {
            blocks: g.data_blocks(),
            free_blocks: self.core.space.free(),
            reserved_blocks: self.core.space.kept(),
            inodes: g.inodes() - 1,
            free_inodes,
        })
    }

    fn trim(&self, _call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        let core = &*self.core;
        let (mut at, mut told) = (blocks.start, 0);
        while let Some(run) = core.space.take_next(at..blocks.end, least, TRIM_RUN) {
            let done = core.port.trim(Lpa(run.lba as u64), run.len as u64);
            let done = done.map(|ticket| core.port.wait(ticket));
            core.space.give_back(run, Claim::Free);
            done?;
            told += run.len as u64;
            at = run.lba as u64 + run.len as u64;
        }
        Ok(told)
    }

    fn grow(&self, _call: &Call<'_>, blocks: u64) -> Result<()> {
        self.core.grow(&self.superblock, blocks)
    }
}
