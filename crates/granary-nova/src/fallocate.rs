//! Space on request: reserving blocks, and where a file's holes are.
//!
//! ```text
//!   reserve   new blocks <── zeros (movnt) | fence | write entries, attribute entry | fence | tail | fence
//! ```
//!
//! The original knows no more: `nova_fallocate` refuses every mode but FALLOC_FL_KEEP_SIZE with EOPNOTSUPP
//! (in both data modes), so punching and zeroing are refused here, too; `nova_llseek` knows data and holes.
//! Extended attributes and access control lists it does not have ("NOVA does not currently support extended
//! attributes or ACL", its README).
//!
//! Invariant: blocks wholly beyond a file's end are zero. With data in place one moment breaks it: data was
//! stored there and the power failed before the size grew. So recovery zeroes them.
//!
//! Source: NVSL/linux-nova, fs/nova/file.c (`nova_fallocate`, `nova_llseek`) and README.md.

use crate::file::{RUN, Run};
use crate::layout::entry;
use crate::log::Pending;
use crate::namespace::node;
use crate::node::{AttrEntry, FileMap, NodeState};
use crate::{Nova, inodes};
use granary_device::Structure;
use granary_fs::{Allocate, Attr, Call, FsError, Inode, Result, Space, StatFs};
use granary_pm::{BLOCK, Batch, From};
use granary_units::Page;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

impl Nova {
    /// Blocks of zeros, safe, for the holes of a range of pages; `runs` has them even after an error.
    fn zeroed(
        &self,
        b: &mut Batch<'_>,
        st: &NodeState,
        (first, end): (u64, u64),
        runs: &mut Vec<Run>,
    ) -> Result<()> {
        let mut page = first;
        while page < end {
            if let Some((_, n)) = st.file().block(page) {
                page += n;
                continue;
            }
            let want = st.file().hole(page, end - page).min(RUN);
            let taken = self.free.take(self.cpu(), want, From::Below, false);
            let (block, n) = taken.ok_or(FsError::NoSpace)?;
            runs.push((page, block, n));
            (block..block + n).try_for_each(|at| b.stream_page(at, &Page::ZERO, Structure::Data))?;
            page += n;
        }
        b.fence()
    }

    /// The blocks that lie wholly beyond `size` and are not zero.
    pub(crate) fn not_zero_beyond(&self, map: &FileMap, size: u64) -> Result<Vec<u64>> {
        let mut wrong = Vec::new();
        for (block, n) in map.from(size.div_ceil(BLOCK)) {
            for at in block..block + n {
                if self.pm.load_block(at, Structure::Data)?.iter().any(|byte| *byte != 0) {
                    wrong.push(at);
                }
            }
        }
        Ok(wrong)
    }
}

impl Space for Nova {
    granary_fs::file_system_lacks!(empty_until, grow, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let Allocate::Reserve { .. } = how else { return Err(FsError::NotSupported) };
        let old = inode.attr();
        let end = pos + len;
        let mut new = old;
        new.allocated(how, end, call.time);
        let node = node(inode);
        let mut st = node.state.write();
        let st = &mut *st;
        self.stores(|b| {
            let (mut runs, mut p) = (Vec::new(), Pending::new(st));
            let prepared = self.zeroed(b, st, (pos / BLOCK, end.div_ceil(BLOCK)), &mut runs);
            let prepared =
                prepared.and_then(|()| self.append_runs(b, inode, st, &mut p, &runs, (new.mtime, new.size)));
            let prepared = prepared.and_then(|addrs| {
                let e = entry::attr(p.epoch(st), &new, false);
                Ok((addrs, self.append(b, st, &mut p, inode.ino(), (&e, Structure::Inode, false))?))
            });
            let (addrs, attr) = match prepared {
                Ok(addrs) => addrs,
                Err(e) => {
                    runs.into_iter().try_for_each(|(_, block, n)| self.free.give(block, n))?;
                    self.take_back(b, st, &p)?;
                    return Err(e);
                }
            };
            self.commit(b, st, p)?;
            self.map_runs(b, inode, st, &runs, &addrs, (new.mtime, new.size))?;
            self.attr_superseded(b, st)?;
            self.link_superseded(b, st)?;
            st.last_attr = AttrEntry { addr: attr, flags: entry::attr_flags(&new, false), size: new.size };
            inode.update(|a| *a = Attr { blocks: a.blocks, ..new });
            b.write_back()
        })?;
        self.clean_log(node, st)
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        let st = node(inode).state.read();
        let (map, page) = (st.file(), pos / BLOCK);
        let next = match map.block(page) {
            Some(_) => Some(page),
            None => map.extents.range(page..).next().map(|(first, _)| *first),
        };
        Ok(next.map(|page| (page * BLOCK).max(pos)).filter(|at| *at < inode.size()))
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        let st = node(inode).state.read();
        let mut page = pos / BLOCK;
        while let Some((_, n)) = st.file().block(page) {
            page += n;
        }
        Ok((page * BLOCK).clamp(pos, inode.size()))
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        let free = self.free.available();
        let (mut places, used) = (0, self.used_inodes.load(Relaxed));
        for table in &self.tables {
            places += table.lock().pieces.len() as u64 * inodes::per_piece(self.piece) - 1;
        }
        let more = free / self.piece * inodes::per_piece(self.piece);
        let blocks = self.data_end - crate::mount::first_free(&self.superblock);
        let (inodes, free_inodes) = (places + more, places + more - used);
        Ok(StatFs { blocks, free_blocks: free, reserved_blocks: 0, inodes, free_inodes })
    }

    fn trim(&self, _call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        self.free.trim(&self.pm, blocks, least)
    }
}
