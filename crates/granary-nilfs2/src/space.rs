//! Space: promised blocks can be written.
//!
//! ```text
//!   all blocks of segments
//!   | in use (files, metadata) ... | promised | free for users | dead, and reserved for the cleaner |
//!                                              capacity (9/10 of what is not kept)
//!   room for logs: clean segments and the rest of the present one >= the next log's largest need + kept
//! ```
//!
//! Two conditions must hold before a block is made dirty. First, all blocks in use then fit the capacity:
//! there are dead blocks enough for the cleaner to make room, at any time. Second, there is room for the log
//! now, else somebody has to write one and clean first. Where dead blocks are protected (by their age, by
//! snapshots) cleaning may find nothing. That is no space, as in the kernel, and statfs does not offer it.

use crate::fs::Nilfs2;
use crate::layout::inode::INODE;
use crate::layout::{BLOCK_SIZE, BS};
use crate::media::Media;
use crate::state::State;
use granary_fs::{Call, FsError, Inode, Result, Space, StatFs, Sweep, Swept};
use granary_units::{Bytes, Nanos};
use std::sync::atomic::Ordering::Relaxed;

/// For whom there is to be space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Something that grows.
    Grow,
    /// Something that gives space back, or changes attributes: it may have more of what is kept.
    Free,
}

/// Blocks that a node has at least, but for the last one of a file.
const NODE_SHARE: u64 = 127;
/// Kept blocks are a reason for having no space where they are this part of all.
const A_REASON: u64 = 50;
/// Rounds of writing a log and cleaning before there is no space.
const ROUNDS: usize = 24;

impl State {
    /// Blocks that a log of all that is dirty takes at most, with so many more pages and changed blocks of
    /// names.
    pub fn need(&self, pages: u64, names: u64) -> u64 {
        let (pending, inodes, dat) = (self.pending, self.dirty.len(), self.dat.file.dirty.len());
        self.log_of(
            [pending + pages, self.misc + names, inodes as u64 + names, dat as u64],
            self.runs + 2 * u64::from(pages > 0),
        )
    }

    /// The same when a log has been written of all that is dirty now.
    fn need_after_log(&self, pages: u64, names: u64) -> u64 {
        self.log_of([pages, names, names, 0], 2 * u64::from(pages > 0))
    }

    /// Blocks that a log of so many pages in so many runs, changed blocks of names, inodes and blocks of the
    /// DAT takes at most.
    fn log_of(&self, [data, misc, inodes, dat_dirty]: [u64; 4], runs: u64) -> u64 {
        // Nodes: a run of pages has its own, a long one as many as it fills.
        let nodes = runs * 2 + data / 64 + misc;
        let ifile = inodes.min(self.ifile.tree.count + 1) + 6;
        let sufile = self.sufile.tree.count.min(8) + 2;
        let virtuals = data + misc + nodes + ifile + sufile + 3;
        // DAT: where old numbers end, anywhere; where new ones begin, close together.
        let dat = virtuals.min(self.dat.file.tree.count) + dat_dirty + virtuals / 128 + 8;
        let all = virtuals + dat + dat.min(self.dat.file.tree.count / 64 + 4);
        all + all / 100 + 8
    }

    /// Room beyond the log of all that is dirty.
    pub fn slack(&self) -> i64 {
        self.segs.room() as i64 - self.need(0, 0) as i64
    }

    /// Blocks that users can still have. New ones need nodes above them.
    pub fn free(&self) -> u64 {
        self.segs
            .geo
            .capacity()
            .saturating_sub(self.used() + self.pending_new + self.pending_new / NODE_SHARE)
    }

    /// Dead blocks that the cleaner may not take yet, for their age or for a snapshot. They are not looked
    /// for where clean segments have room for all that is free.
    fn protected(&mut self, protection: Nanos, media: &Media) -> Result<u64> {
        if self.slack() >= (self.free() + self.segs.geo.kept()) as i64 {
            return Ok(0);
        }
        self.dead_kept(protection, media)
    }

    /// The same, wherever they are.
    fn dead_kept(&mut self, protection: Nanos, media: &Media) -> Result<u64> {
        if protection == Nanos::ZERO && self.snapshots.is_empty() {
            return Ok(0);
        }
        let first = self.first_protected(protection, media)?;
        Ok(self.counts(media)?.kept(first))
    }

    /// Whether so many pages, of which some are new, and blocks of names can become dirty.
    pub fn has_space(&self, want: Want, pages: u64, new: u64, names: u64) -> bool {
        let kept = self.segs.geo.kept();
        let (grows, kept) = match want {
            // Of the blocks that a name makes dirty few are new ones.
            Want::Grow => (new + new / NODE_SHARE + (names + self.misc).div_ceil(4), kept / 4 * 3),
            Want::Free => (0, kept / 2),
        };
        let fits = want == Want::Free || new + names == 0 || grows <= self.free();
        fits && self.segs.room() >= self.need(pages, names) + kept
    }

    /// Whether there could be, if all that is dirty were written: else a log of it only takes room.
    fn may_have_space(&self, want: Want, pages: u64, names: u64) -> bool {
        let kept = self.segs.geo.kept() / 4 * if want == Want::Grow { 3 } else { 2 };
        let dirty = self.dirty_since.is_some() || self.pending > 0;
        dirty && self.segs.room() > self.need_after_log(pages, names) + kept
    }
}

impl Nilfs2 {
    /// Sees to it that so much can become dirty: writes a log and cleans where that helps. Nothing is held
    /// meanwhile.
    ///
    /// # Errors
    /// `NoSpace`; what a log can fail with.
    pub(crate) fn space_for(&self, want: Want, pages: u64, new: u64, names: u64) -> Result<()> {
        let mut spent = false;
        for round in 0..ROUNDS {
            self.working()?;
            let (enough, log_may_help) = {
                let s = self.state.lock();
                (s.has_space(want, pages, new, names), s.may_have_space(want, pages, names))
            };
            if enough {
                return Ok(());
            }
            // Only now: what one's own cleaning did not find, another's may have freed while this one waited
            // for it.
            if spent {
                break;
            }
            // A log makes an estimate a fact.
            if log_may_help && round == 0 {
                self.construct()?;
                continue;
            }
            spent = !self.clean_for_space(want)?;
        }
        // Operations that free space may use all of the rest.
        let last = {
            let s = self.state.lock();
            want == Want::Free && s.segs.room() > s.need(pages, names) + s.segs.geo.seg_blocks
        };
        if last {
            return Ok(());
        }
        self.say_why();
        Err(FsError::NoSpace)
    }

    /// Says once, in the log of a mount, why space is kept that somebody was just refused. It says nothing if
    /// little is kept: then blocks in use fill the space.
    fn say_why(&self) {
        if granary_sim::in_virtual_time() || self.said_why.load(Relaxed) {
            return;
        }
        if let Ok((blocks, Some(why))) = self.what_is_kept()
            && blocks * A_REASON >= self.media.geo.capacity()
            && !self.said_why.swap(true, Relaxed)
        {
            eprintln!("granary: nilfs2 has no space: {why}");
        }
    }

    /// The same, and how many blocks they are.
    fn what_is_kept(&self) -> Result<(u64, Option<String>)> {
        let protection = self.options.protection_period;
        let (blocks, snapshots) = {
            let mut s = self.state.lock();
            (s.dead_kept(protection, &self.media)?, s.snapshots.len())
        };
        let mut reasons = Vec::new();
        if protection > Nanos::ZERO {
            let seconds = protection.0 as f64 / 1e9;
            reasons.push(format!(
                "the protection period of {seconds} s (--set nilfs2.protection_period=0 lets the cleaner take what is dead at once)"
            ));
        }
        if snapshots > 0 {
            reasons.push(format!("{snapshots} snapshots (`granary lscp IMAGE` lists them)"));
        }
        let kept = Bytes(blocks * BLOCK_SIZE as u64);
        let why =
            (blocks > 0).then(|| format!("{kept} of dead blocks are kept for {}", reasons.join(" and ")));
        Ok((blocks, why))
    }
}

impl Space for Nilfs2 {
    granary_fs::file_system_lacks!(fallocate, empty_until, trim, grow);

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        let size = inode.size();
        let next = self.next_block(inode.ino().0, pos / BS)?;
        Ok(next.map(|index| pos.max(index * BS)).filter(|at| *at < size))
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        let (size, mut index) = (inode.size(), pos / BS);
        while index * BS < size && self.next_block(inode.ino().0, index)? == Some(index) {
            index += 1;
        }
        Ok(pos.max(index * BS).min(size))
    }

    /// Total space, and space that is available now.
    ///
    /// # Errors
    /// `Corrupt`; the drive's.
    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        let mut s = self.state.lock();
        let protected = s.protected(self.options.protection_period, &self.media)?;
        let free_blocks = s.free().saturating_sub(protected);
        let reserved_blocks = StatFs::index_of_all(free_blocks, NODE_SHARE / 2).min(free_blocks);
        let blocks = s.segs.geo.capacity();
        // As many as there are, and those that blocks could be had for: the ifile grows with them.
        let most = (blocks * (BLOCK_SIZE / INODE) as u64).max(s.inodes);
        let free_inodes = (free_blocks * (BLOCK_SIZE / INODE) as u64).min(most - s.inodes);
        let inodes = s.inodes + free_inodes;
        Ok(StatFs { blocks, free_blocks, reserved_blocks, inodes, free_inodes })
    }

    /// The checkpoints that dead blocks are kept for; `None`: none are kept.
    ///
    /// # Errors
    /// `Corrupt`; the drive's.
    fn kept_back(&self, _call: &Call<'_>) -> Result<Option<String>> {
        Ok(self.what_is_kept()?.1)
    }

    fn sweep(&self, _call: &Call<'_>, sweep: &Sweep) -> Result<Swept> {
        self.sweep_all(sweep)
    }
}
