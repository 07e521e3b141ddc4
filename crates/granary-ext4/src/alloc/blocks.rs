//! Blocks: search in the views, marking in the bitmaps, freeing.

use super::bits::{clear_range, find_run, get, set_range};
use super::prealloc::{Run, STREAM};
use super::{GroupState, Groups, less};
use crate::journal::Handle;
use crate::layout::group::{BLOCK_UNINIT, GroupDesc};
use crate::layout::{BLOCK_SIZE, BLOCKS_PER_GROUP, corrupt};
use granary_fs::{FsError, Result};
use granary_sim::{costs, cpu};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Purposes of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Data whose block was promised.
    Data,
    /// A directory block or a symbolic link's.
    Meta,
    /// An extent block: may use the spare blocks.
    Extent,
}

/// A wish for blocks that lie together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub ino: u32,
    /// Logical block in the file.
    pub logical: u32,
    /// Blocks; fewer may be given.
    pub len: u32,
    /// Blocks that the file will reach.
    pub file_blocks: u32,
    /// Where it would be best.
    pub goal: u64,
    pub purpose: Purpose,
}

impl Groups {
    /// Allocates up to `wanted.len` blocks that lie together: (first, count).
    ///
    /// # Errors
    /// `NoSpace`: also while freed blocks wait for their commit ([`Groups::has_pending`]).
    pub fn allocate(&self, h: &mut Handle<'_>, wanted: &Wanted) -> Result<(u64, u32)> {
        let asked = self.take_space(wanted)?;
        let found = match self.search(wanted, asked) {
            Ok(Some(run)) => Ok(run),
            Ok(None) if self.discard_all() => match self.search(wanted, asked) {
                Ok(Some(run)) => Ok(run),
                Ok(None) => Err(FsError::NoSpace),
                Err(e) => Err(e),
            },
            Ok(None) => Err(FsError::NoSpace),
            Err(e) => Err(e),
        };
        let got = found.as_ref().map_or(0, |r| r.len);
        self.return_space(wanted.purpose, asked - got);
        let run = found?;
        h.work(costs().extent_alloc);
        match self.mark_used(h, run) {
            Ok(()) => Ok((run.start, run.len)),
            Err(e) => {
                self.return_space(wanted.purpose, run.len);
                self.release_run(run);
                Err(e)
            }
        }
    }

    /// Moves blocks from free to used; returns how many of the wanted ones there are.
    fn take_space(&self, wanted: &Wanted) -> Result<u32> {
        let mut s = self.space.lock();
        let there = match wanted.purpose {
            Purpose::Data => s.free.min(s.delayed),
            Purpose::Meta => s.available(),
            Purpose::Extent => s.free - s.delayed,
        };
        let n = there.min(wanted.len as u64);
        if n == 0 {
            return Err(FsError::NoSpace);
        }
        s.free -= n;
        if wanted.purpose == Purpose::Data {
            s.delayed -= n;
        }
        Ok(n as u32)
    }

    fn return_space(&self, purpose: Purpose, n: u32) {
        let mut s = self.space.lock();
        s.free += n as u64;
        if purpose == Purpose::Data {
            s.delayed += n as u64;
        }
    }

    fn search(&self, w: &Wanted, len: u32) -> Result<Option<Run>> {
        match w.purpose {
            Purpose::Meta | Purpose::Extent => self.claim(w.goal, len),
            _ if w.file_blocks <= STREAM => self.take_small(w.goal, len),
            _ => self.take_large(w.ino, w.logical, len, w.file_blocks, w.goal),
        }
    }

    /// Takes a run of up to `want` blocks out of the views: the first that is long enough from `goal` on,
    /// group after group; else the longest of the first group that has any.
    pub(super) fn claim(&self, goal: u64, want: u32) -> Result<Option<Run>> {
        cpu(costs().extent_search);
        let goal = if goal < self.geo.blocks { goal } else { 0 };
        let (first, from) = (self.geo.group_of(goal), (goal % BLOCKS_PER_GROUP as u64) as u32);
        for any in [false, true] {
            for i in 0..=self.geo.groups {
                let group = (first + i) % self.geo.groups;
                let from = if i == 0 { from } else { 0 };
                if let Some(run) = self.claim_in(group, from, want, any)? {
                    return Ok(Some(run));
                }
            }
        }
        Ok(None)
    }

    fn claim_in(&self, group: u32, from: u32, want: u32, any: bool) -> Result<Option<Run>> {
        {
            let s = self.groups[group as usize].lock();
            if s.view_free == 0 || !any && s.longest < want {
                return Ok(None);
            }
        }
        self.load_view(group)?;
        let mut s = self.groups[group as usize].lock();
        let s = &mut *s;
        let view = s.view.as_mut().expect("just loaded");
        let (bit, len) = find_run(view, from, self.geo.group_len(group), want);
        if len == 0 || len < want && !any {
            if from == 0 {
                s.longest = len;
            }
            return Ok(None);
        }
        set_range(view, bit, len);
        s.view_free -= len;
        Ok(Some(Run { start: self.geo.group_start(group) + bit as u64, len }))
    }

    /// Takes the next free run of at least `least` blocks within a part of the drive out of the views, at
    /// most `most` of it and what nobody has a promise of: (first, count).
    ///
    /// # Errors
    /// The drive's, `Corrupt`.
    pub fn take_next(&self, within: Range<u64>, least: u64, most: u64) -> Result<Option<(u64, u64)>> {
        let mut at = within.start;
        while at < within.end.min(self.geo.blocks) {
            let group = self.geo.group_of(at);
            let first = self.geo.group_start(group);
            let end = (first + u64::from(self.geo.group_len(group))).min(within.end);
            self.load_view(group)?;
            let mut s = self.groups[group as usize].lock();
            let s = &mut *s;
            let view = s.view.as_mut().expect("just loaded");
            let is_free = |block: u64| !get(view, (block - first) as u32);
            let start = (at..end).find(|&b| is_free(b)).unwrap_or(end);
            let len = (start..end).take_while(|&b| is_free(b)).count() as u64;
            if len < least.max(1) {
                at = if start == end { end } else { start + len };
                continue;
            }
            let mut space = self.space.lock();
            let len = len.min(most).min(space.available());
            if len == 0 {
                return Ok(None);
            }
            space.free -= len;
            set_range(view, (start - first) as u32, len as u32);
            s.view_free -= len as u32;
            return Ok(Some((start, len)));
        }
        Ok(None)
    }

    /// Gives back what [`Groups::take_next`] took.
    pub fn put_back(&self, start: u64, len: u64) {
        self.release_run(Run { start, len: len as u32 });
        self.space.lock().free += len;
    }

    /// Makes sure that the group's view is in memory; reads the bitmap where there is one.
    fn load_view(&self, group: u32) -> Result<()> {
        let fill = |s: &mut GroupState, bytes: &[u8; BLOCK_SIZE]| {
            s.view_free = bytes.iter().map(|b| b.count_zeros()).sum();
            s.view = Some(Box::new(*bytes));
        };
        {
            let mut s = self.groups[group as usize].lock();
            if s.view.is_some() {
                return Ok(());
            }
            if s.desc.flags.get() & BLOCK_UNINIT != 0 {
                let mut bytes = [0; BLOCK_SIZE];
                self.empty_blocks(group, &mut bytes);
                fill(&mut s, &bytes);
                return Ok(());
            }
        }
        let block = self.bitmap(group, false)?;
        block.with(|b| {
            let mut s = self.groups[group as usize].lock();
            if s.view.is_none() {
                fill(&mut s, b);
            }
        });
        Ok(())
    }

    /// Puts a run back into the views.
    pub(super) fn release_run(&self, run: Run) {
        let group = self.geo.group_of(run.start);
        let mut s = self.groups[group as usize].lock();
        let s = &mut *s;
        let view = s.view.as_mut().expect("the run was taken out of the view");
        let bit = (run.start % BLOCKS_PER_GROUP as u64) as u32;
        assert!(clear_range(view, bit, run.len), "{run:?} was not taken");
        s.view_free += run.len;
        s.longest = u32::MAX;
    }

    /// Gives the blocks of a committed transaction back to the search.
    pub fn release(&self, freed: &[(u64, u32)]) {
        for &(start, len) in freed {
            self.each_group(start, len, |_, run| {
                self.release_run(run);
                Ok(())
            })
            .expect("release cannot fail");
            self.pending.fetch_sub(len as u64, Relaxed);
        }
    }

    /// Calls `f(group, part)` for each part of a run that lies in one group.
    fn each_group(&self, start: u64, len: u32, mut f: impl FnMut(u32, Run) -> Result<()>) -> Result<()> {
        let (mut at, end) = (start, start + len as u64);
        while at < end {
            let group = self.geo.group_of(at);
            let stop = end.min(self.geo.group_start(group) + BLOCKS_PER_GROUP as u64);
            f(group, Run { start: at, len: (stop - at) as u32 })?;
            at = stop;
        }
        Ok(())
    }

    /// Sets the run's bits on media.
    fn mark_used(&self, h: &mut Handle<'_>, run: Run) -> Result<()> {
        let group = self.geo.group_of(run.start);
        let bitmap = self.bitmap(group, false)?;
        let bit = (run.start % BLOCKS_PER_GROUP as u64) as u32;
        // A bitmap that an old version was put in the place of gives away what somebody has.
        if h.has_metadata_in(run.start..run.start + run.len as u64) {
            return Err(corrupt(format!(
                "blocks {}+{} are free, and metadata are in them",
                run.start, run.len
            )));
        }
        if !h.change(&bitmap, |b| set_range(b, bit, run.len)) {
            return Err(corrupt(format!("blocks {}+{} were in use", run.start, run.len)));
        }
        self.change_desc(h, group, |d| change_free(d, -(run.len as i64)));
        less(&self.flex[(group / self.geo.flex) as usize].free_blocks, run.len as u64);
        Ok(())
    }

    /// Frees blocks in this transaction: usable again when it has committed.
    ///
    /// # Errors
    /// `Corrupt` where some were free, or lie outside.
    pub fn free(&self, h: &mut Handle<'_>, start: u64, len: u32) -> Result<()> {
        if start == 0 || start + len as u64 > self.geo.blocks {
            return Err(corrupt(format!("blocks {start}+{len} lie outside")));
        }
        self.each_group(start, len, |group, run| {
            // The view keeps the bits until the commit, so it must be there before they go on media.
            self.load_view(group)?;
            let bitmap = self.bitmap(group, false)?;
            let bit = (run.start % BLOCKS_PER_GROUP as u64) as u32;
            if !h.change(&bitmap, |b| clear_range(b, bit, run.len)) {
                return Err(corrupt(format!("blocks {}+{} were free already", run.start, run.len)));
            }
            h.work(costs().extent_free);
            self.change_desc(h, group, |d| change_free(d, run.len as i64));
            self.flex[(group / self.geo.flex) as usize].free_blocks.fetch_add(run.len as u64, Relaxed);
            self.space.lock().free += run.len as u64;
            self.pending.fetch_add(run.len as u64, Relaxed);
            h.freed(run.start, run.len);
            Ok(())
        })
    }

    /// Frees a metadata block: its journalled copies must not be replayed over what comes there.
    ///
    /// # Errors
    /// As [`Groups::free`].
    pub fn free_meta(&self, h: &mut Handle<'_>, start: u64, len: u32) -> Result<()> {
        self.free(h, start, len)?;
        for lpa in start..start + len as u64 {
            h.revoke(lpa);
        }
        Ok(())
    }
}

fn change_free(d: &mut GroupDesc, by: i64) {
    d.free_blocks = ((d.free_blocks.get() as i64 + by) as u32).into();
}
