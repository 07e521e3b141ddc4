//! The cleaner: live blocks of a segment move to a new log, and the segment is free.
//!
//! ```text
//!   victim's summaries -> each block: virtual   its DAT entry says so? in use, of a snapshot, young: moves,
//!                                               only the entry changes
//!                                               ended: the number is free
//!                                     DAT, cpfile, sufile    still in the map? made dirty
//!   one log (GC) with everything else that is dirty -> FLUSH -> the segments can be taken
//! ```
//!
//! Checkpoints that are older than the protection period and no snapshots end first. So a block's number
//! never changes when it moves, and no index above it; the entries of snapshots stay right.
//!
//! Source: reference/nilfs2.md section 5.6 (nilfs_cleanerd of nilfs-utils); PebbleSSD section 4.2.1.

use crate::counts::Counts;
use crate::dat::{DatEntry, Physical, Virtual};
use crate::fs::Nilfs2;
use crate::layout::summary::{Part, SummaryEntry};
use crate::layout::{CPFILE_INO, DAT_INO, SUFILE_INO};
use crate::log::{Item, Kind};
use crate::media::Media;
use crate::recover::segment_blocks;
use crate::space::Want;
use crate::state::State;
use granary_device::{Structure, Ticket};
use granary_fs::{Result, Sweep, Swept};
use granary_sim::{Signal, Stopper};
use granary_units::{Nanos, Page};
use std::collections::BTreeSet;
use std::sync::Weak;

/// A segment as the cleaner sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub seg: u64,
    /// Blocks written, and those that would have to move.
    pub written: u64,
    pub live: u64,
    pub age: u64,
}

impl State {
    /// The first checkpoint whose blocks are protected by their age.
    pub fn first_protected(&mut self, protection: Nanos, media: &Media) -> Result<u64> {
        let (cno, since) = (self.cno, self.age().saturating_sub(protection.0));
        if protection == Nanos::ZERO {
            return Ok(cno);
        }
        let history = self.history(media)?;
        Ok(history.iter().rev().take_while(|(_, age)| **age >= since).last().map_or(cno, |(c, _)| *c))
    }

    /// Checkpoints before this one end, but for snapshots.
    fn prune(&mut self, before: u64, media: &Media) -> Result<()> {
        let snapshots = self.snapshots.clone();
        let history = self.history(media)?;
        let gone: Vec<u64> =
            history.range(..before).map(|(c, _)| *c).filter(|c| !snapshots.contains(c)).collect();
        self.end_checkpoints(&gone, media)
    }

    /// Whether a block is in use, or a checkpoint needs it that is protected.
    pub fn is_live(&self, e: &DatEntry, first_protected: u64) -> bool {
        e.is_in_use()
            || e.start.max(first_protected) < e.end.min(self.cno)
            || self.snapshots.range(e.start..e.end.max(e.start)).next().is_some()
    }

    /// Live blocks of segments, from what is in the DAT now.
    ///
    /// # Errors
    /// `Corrupt`, the drive's, here and below.
    pub fn walk_counts(&mut self, media: &Media) -> Result<Counts> {
        let mut counts = Counts::new(self.segs.geo, self.snapshots.clone());
        self.dat.walk(media, &mut |_, e| counts.add(&e))?;
        self.dat.file.tree.walk(&mut Physical(media), &mut |_, _, at| counts.add_dat(at))?;
        Ok(counts)
    }

    /// The same, as they were kept up; walks only for the first of it, and where there are other snapshots.
    pub fn counts(&mut self, media: &Media) -> Result<&Counts> {
        if !self.dat.counts.as_ref().is_some_and(|c| c.are_of(&self.snapshots)) {
            let walked = self.walk_counts(media)?;
            self.dat.counts = Some(walked);
            self.dat.walks += 1;
        }
        let (geo, none) = (self.segs.geo, BTreeSet::new());
        Ok(self.dat.counts.get_or_insert_with(|| Counts::new(geo, none)))
    }

    /// Every segment that is not free and that no log is about to go on in.
    pub fn candidates(&mut self, first_protected: u64, media: &Media) -> Result<Vec<Candidate>> {
        let live: Vec<u64> = self.counts(media)?.live(first_protected).collect();
        let cursor = self.segs.cursor;
        let all = (0..self.segs.geo.segments).zip(self.segs.usages.iter().zip(live));
        Ok(all
            .filter(|(seg, (usage, _))| !usage.is_clean() && *seg != cursor.seg && *seg != cursor.next)
            .map(|(seg, (usage, live))| Candidate { seg, written: usage.blocks as u64, live, age: usage.age })
            .collect())
    }

    /// Blocks that a log of the cleaner takes at most, beside those that it moves, if it decides about so
    /// many.
    fn cleaning_takes(&self, decided: u64) -> u64 {
        self.need(0, 0) + decided.min(self.dat.file.tree.count) * 102 / 100
    }

    /// Decides about every block of a segment; returns the blocks that move, by address.
    fn empty_segment(
        &mut self,
        (seg, blocks): (u64, Vec<(u64, SummaryEntry)>),
        first_protected: u64,
        media: &Media,
        moved: &mut Vec<(u64, SummaryEntry)>,
    ) -> Result<()> {
        for (at, e) in blocks {
            if e.ino == DAT_INO {
                let (file, mut from) = (&mut self.dat.file, Physical(media));
                match e.part {
                    Part::Data(n) if file.tree.lookup(n, &mut from)? == Some(at) => {
                        file.change(n, &mut from)?;
                    }
                    Part::Node { level, key } if file.tree.node_at(level, key, &mut from)? == Some(at) => {
                        file.tree.touch(level, key, &mut from)?;
                    }
                    _ => {}
                }
                continue;
            }
            let d = self.dat.entry(e.vblk, media)?;
            if d.at != at {
                continue;
            }
            if !self.is_live(&d, first_protected) {
                self.dat.free(e.vblk, media)?;
                continue;
            }
            let file = match e.ino {
                CPFILE_INO => Some(&mut self.cpfile),
                SUFILE_INO => Some(&mut self.sufile),
                _ => None,
            };
            let mut from = Virtual { media, dat: &mut self.dat };
            if let (Some(file), Part::Data(n)) = (file, e.part)
                && file.tree.lookup(n, &mut from)? == Some(e.vblk)
            {
                file.change(n, &mut from)?;
                continue;
            }
            moved.push((at, e));
        }
        self.segs.vacate(seg);
        Ok(())
    }
}

impl Nilfs2 {
    /// Cleans the segments that `choose` wants, when nobody changes anything; whether there is more room then
    /// beside what is dirty.
    pub(crate) fn clean(
        &self,
        protection: Nanos,
        choose: &mut dyn FnMut(&State, Vec<Candidate>) -> Vec<u64>,
    ) -> Result<(Swept, bool)> {
        let _step = granary_sim::step("nilfs2: segments are cleaned");
        let _all = self.ops.write();
        self.working()?;
        self.pull()?;
        let mut moved = Vec::new();
        let (segments, before) = {
            let mut s = self.state.lock();
            let before = s.slack();
            let first = s.first_protected(protection, &self.media)?;
            let all = s.candidates(first, &self.media)?;
            // A segment whose summaries are damaged stays as it is.
            let read = |seg: u64| {
                let written = s.segs.usages[seg as usize].blocks as u64;
                Some((seg, segment_blocks(&self.media, seg, written).ok()?))
            };
            let victims: Vec<_> = choose(&s, all).into_iter().filter_map(read).collect();
            if victims.is_empty() {
                return Ok((Swept::default(), false));
            }
            let count = victims.len() as u64;
            let emptied = s.prune(first, &self.media).and_then(|()| {
                victims.into_iter().try_for_each(|v| s.empty_segment(v, first, &self.media, &mut moved))
            });
            emptied.map_err(|e| self.give_up(e))?;
            (count, before)
        };
        moved.sort_by_key(|(_, e)| (e.ino, matches!(e.part, Part::Node { .. })));
        let (items, renamed) = self.move_blocks(&moved)?;
        let (all, refused) = (items.len() as u64, self.stats().refused_blocks);
        self.write_log(Kind::Full, items)?;
        let remapped = renamed - (self.stats().refused_blocks - refused).min(renamed);
        let copied = all - remapped;
        self.unflushed.store(false, std::sync::atomic::Ordering::Relaxed);
        self.media.port.flush().map_err(|e| self.give_up(e.into()))?;
        let gained = {
            let mut s = self.state.lock();
            s.segs.unready.clear();
            s.slack() > before
        };
        let mut stats = self.stats.lock();
        stats.cleaned += segments;
        stats.copied += copied;
        stats.remapped += remapped;
        Ok((Swept { segments, blocks_copied: copied, blocks_remapped: remapped }, gained))
    }

    /// Marks the file system as broken: the state in memory is inconsistent from now on.
    fn give_up(&self, error: granary_fs::FsError) -> granary_fs::FsError {
        self.broken.lock().get_or_insert(error.clone());
        error
    }

    /// The blocks that move, with their content; how many of them REMAP moves.
    fn move_blocks(&self, moved: &[(u64, SummaryEntry)]) -> Result<(Vec<Item>, u64)> {
        if self.options.remap_cleaning {
            let items = moved.iter().map(|(at, e)| {
                let entry = SummaryEntry { remapped: true, ..*e };
                Item { entry, page: None, what: entry.structure(Structure::Data), from: Some(*at) }
            });
            return Ok((items.collect(), moved.len() as u64));
        }
        let mut order: Vec<usize> = (0..moved.len()).collect();
        order.sort_by_key(|i| moved[*i].0);
        let addrs: Vec<u64> = order.iter().map(|i| moved[*i].0).collect();
        let mut pages = vec![Page::ZERO; addrs.len()];
        // A few segments at a time.
        let mut ticket = Ticket::NONE;
        let part = (2 * self.media.geo.seg_blocks) as usize;
        for (addrs, pages) in addrs.chunks(part).zip(pages.chunks_mut(part)) {
            let read = self.media.submit_reads(addrs, pages, Structure::Data).map_err(|e| self.give_up(e))?;
            ticket = ticket.and(read);
        }
        self.media.port.wait(ticket);
        let mut content: Vec<Option<Page>> = vec![None; moved.len()];
        order.into_iter().zip(pages).for_each(|(i, page)| content[i] = Some(page));
        let items = moved.iter().zip(content);
        let items = items.map(|((_, e), page)| {
            let entry = SummaryEntry { remapped: false, ..*e };
            Item { entry, page, what: entry.structure(Structure::Data), from: None }
        });
        Ok((items.collect(), 0))
    }

    /// Cleans so that there is room again, by the most that can be gained; whether it gained something. For
    /// what grows it does so only where the log that it writes takes less, at worst, than it frees: a crowd
    /// that finds no space must not use up the room that what frees space needs.
    pub(crate) fn clean_for_space(&self, want: Want) -> Result<bool> {
        let (_, gained) = self.clean(self.options.protection_period, &mut |s, mut all| {
            let size = s.segs.geo.seg_blocks;
            all.retain(|c| c.written > 0);
            all.sort_by_key(|c| (c.live, c.seg));
            let budget = s.segs.room().saturating_sub(2 * size);
            let wanted = s.segs.geo.kept() / 4;
            let (mut victims, mut live, mut dead) = (Vec::new(), 0, 0);
            let fixed = s.need(0, 0);
            let overhead = |live: u64, dead: u64| s.cleaning_takes(live + dead);
            for c in all {
                let more = (live + c.live, dead + size.saturating_sub(c.live));
                if more.0 + overhead(more.0, more.1) > budget {
                    break;
                }
                (live, dead) = more;
                victims.push(c.seg);
                if dead > overhead(live, dead) + wanted {
                    break;
                }
            }
            // The cleaning must gain more blocks than the log itself takes.
            let likely = match want {
                Want::Grow => u64::MAX,
                Want::Free => fixed + victims.len() as u64 * size / 4,
            };
            if dead <= overhead(live, dead).min(likely) { Vec::new() } else { victims }
        })?;
        Ok(gained)
    }

    /// Cleans until nothing is left that is worth it, as `nilfs-clean -p` does.
    pub(crate) fn sweep_all(&self, sweep: &Sweep) -> Result<Swept> {
        self.may_change()?;
        let (step, least) =
            (self.options.segments_per_clean.0 as usize, self.options.min_reclaimable.0 as u64);
        let (from, until) = {
            let s = self.state.lock();
            (s.segs.cursor.seq, s.age().saturating_sub(sweep.protection.0))
        };
        let mut all = Swept::default();
        loop {
            let (done, _) = self.clean(sweep.protection, &mut |s, candidates| {
                let old = candidates.into_iter().filter(|c| c.age <= until && s.segs.is_before(c.seg, from));
                oldest(s, old.collect(), step.max(1), least)
            })?;
            if done.segments == 0 {
                return Ok(all);
            }
            all.segments += done.segments;
            all.blocks_copied += done.blocks_copied;
            all.blocks_remapped += done.blocks_remapped;
        }
    }

    /// One step of the daemon; how long to wait for the next.
    fn clean_in_background(&self) -> Nanos {
        let o = &self.options;
        let few = {
            let s = self.state.lock();
            let share = s.segs.clean * 100 / s.segs.geo.segments;
            let cleaning = self.cleaning.load(std::sync::atomic::Ordering::Relaxed);
            let limit = if cleaning { o.max_clean_segments } else { o.min_clean_segments } as u64;
            if share >= limit {
                self.cleaning.store(false, std::sync::atomic::Ordering::Relaxed);
                return o.cleaning_interval.0;
            }
            self.cleaning.store(true, std::sync::atomic::Ordering::Relaxed);
            share < o.min_clean_segments as u64
        };
        let pick = |pair: (u32, u32)| if few { pair.1 } else { pair.0 };
        let (step, least) = (pick(o.segments_per_clean), pick(o.min_reclaimable));
        // An error stays where a caller that waits for durability finds it.
        let _ = self.clean(o.protection_period, &mut |s, all| {
            let until = s.age().saturating_sub(o.protection_period.0);
            let old = all.into_iter().filter(|c| c.age <= until);
            oldest(s, old.collect(), step.max(1) as usize, least as u64)
        });
        if few { o.cleaning_interval.1 } else { o.cleaning_interval.0 }
    }
}

/// The oldest segments that are worth it and whose blocks there is room for. Segments that are nearly full of
/// live blocks give less than the log takes that empties them: that may cost room, but not what is kept for
/// those who free space.
fn oldest(s: &State, mut all: Vec<Candidate>, step: usize, least: u64) -> Vec<u64> {
    let (size, room) = (s.segs.geo.seg_blocks, s.segs.room());
    all.retain(|c| c.written > 0 && c.written.saturating_sub(c.live) * 100 >= least.max(1) * size);
    all.sort_by_key(|c| (c.age, c.seg));
    let mut budget = room.saturating_sub(s.need(0, 0) + size * 2);
    let fits = |c: &&Candidate| {
        let fits = c.live * 2 <= budget;
        budget = budget.saturating_sub(c.live * 2);
        fits
    };
    let victims: Vec<&Candidate> = all.iter().take(step).take_while(fits).collect();
    let decided = victims.len() as u64 * size;
    let gives = decided.saturating_sub(victims.iter().map(|c| c.live).sum());
    let takes = s.cleaning_takes(decided);
    if gives < takes && room + gives < takes + s.segs.geo.kept() {
        return Vec::new();
    }
    victims.into_iter().map(|c| c.seg).collect()
}

/// Body of the cleaner (`nilfs_cleanerd`).
pub(crate) fn cleaner_loop(fs: &Weak<Nilfs2>, stop: &Stopper) {
    let Some(mut wait) = fs.upgrade().map(|f| f.options.cleaning_interval.0) else { return };
    while stop.pause(wait) != Signal::Stop {
        let Some(fs) = fs.upgrade() else { return };
        wait = fs.clean_in_background();
    }
}
