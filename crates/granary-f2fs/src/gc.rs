//! Cleaning: moving the valid blocks out of a segment, so that it is free after the next checkpoint.
//!
//! ```text
//!   nodes, directory blocks   read and marked dirty: the next checkpoint writes them elsewhere
//!   file blocks               inode locks -> still pointed to? -> read -> cold data log
//!                             -> pointers follow (or remap.rs)
//! ```
//!
//! Foreground (greedy) runs before an operation, where free segments are down to the need. The need is the
//! reserve, the space of dirty nodes and directory blocks (`has_not_enough_free_secs`), and the data of the
//! operation. It cleans victims until that many would be free after a checkpoint, or as many are left as that
//! checkpoint may take. Then it takes the checkpoint. Background (cost-benefit) cleans one victim every 30 to
//! 60 s in which nobody did anything.

use crate::fs::F2fs;
use crate::layout::node::{Footer, addr, addrs, decode, first_index};
use crate::layout::summary::Summary;
use crate::layout::{BlockBytes, NULL_ADDR};
use crate::nodes::Batch;
use crate::segs::{Seg, log};
use crate::tree::Dnode;
use granary_device::Structure;
use granary_fs::{FileKind, Result, Swept};
use granary_sim::{Signal, Stopper};
use granary_units::{Nanos, Page};
use std::collections::BTreeSet;
use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;

/// Segments that a checkpoint may begin besides those of its dirty blocks: data, nodes, directories
/// (`NR_GC_CHECKPOINT_SECS`).
const FOR_CHECKPOINT: u32 = 3;
/// Most rounds of cleaning that win nothing: after them logs fill holes. Ours, so that no operation cleans
/// for ever; Linux goes on while there are victims.
const FRUITLESS: u32 = 4;

/// Segments.
struct Room {
    /// Segments that dirty nodes and directory blocks take in the next checkpoint.
    dirty: u32,
    /// `dirty`, the reserve, and the data that is coming.
    need: u32,
    free: u32,
    /// Free after the next checkpoint.
    dead: u32,
}

impl F2fs {
    /// `data`: blocks that an operation is going to write.
    fn room(&self, data: usize) -> Room {
        let blocks = self.geo.seg_blocks as usize;
        let nodes = (self.nodes.dirty_count() + self.dirty_inodes.lock().len()).div_ceil(blocks);
        let dents = self.dents.dirty_count().div_ceil(blocks);
        let reserved = self.last.lock().reserved;
        let dirty = (nodes + 2 * dents) as u32;
        let need = dirty + reserved + data.div_ceil(blocks) as u32;
        let segs = self.segs.lock();
        Room { dirty, need, free: segs.free_count, dead: segs.dead.len() as u32 }
    }

    /// Before an operation that writes so many blocks of data: makes room (`f2fs_balance_fs`).
    pub(crate) fn balance(&self, data: usize) -> Result<()> {
        if self.recovering.load(Relaxed) {
            return Ok(());
        }
        if self.too_many_dirty_nodes() && !self.due.swap(true, Relaxed) {
            self.daemons.lock().iter().for_each(|d| d.kick());
        }
        if self.uses_bam() && self.port.drive().wants_attention() {
            self.checkpoint(false)?;
        }
        let room = self.room(data);
        if room.free > room.need {
            return Ok(());
        }
        let _gc = self.gc_lock.lock();
        self.clean_foreground(data)
    }

    fn clean_foreground(&self, data: usize) -> Result<()> {
        let mut fruitless = 0;
        // Each round ends with a checkpoint.
        loop {
            let before = self.room(data);
            if before.free > before.need {
                return Ok(());
            }
            let mut done = BTreeSet::new();
            loop {
                let room = self.room(data);
                // A few more than needed, or every operation would end here. And what is moved makes nodes
                // dirty: the checkpoint must find space for them.
                if room.free + room.dead > room.need + 2 || room.free <= room.dirty + FOR_CHECKPOINT {
                    break;
                }
                let victim = self.segs.lock().victim_now(&done);
                let Some(victim) = victim else { break };
                done.insert(victim);
                self.clean(victim)?;
                self.stats.lock().cleaned += 1;
            }
            self.checkpoint(false)?;
            let after = self.room(data);
            if after.free > after.need || done.is_empty() && before.dirty == 0 {
                return Ok(());
            }
            if after.free <= before.free {
                fruitless += 1;
                if fruitless == FRUITLESS {
                    return Ok(());
                }
            }
        }
    }

    /// Moves what is valid out of a segment.
    fn clean(&self, segno: u32) -> Result<()> {
        let _step = granary_sim::step("f2fs: a segment is cleaned");
        let _op = self.checkpoint_lock.read();
        self.working()?;
        let (sums, seg) = {
            let segs = self.segs.lock();
            if segs.is_open(segno) || segs.segs[segno as usize].valid == 0 {
                return Ok(());
            }
            (segs.summaries(segno)?, segs.segs[segno as usize].clone())
        };
        if log::is_node(seg.log as usize) {
            self.clean_nodes(segno, &sums, &seg)
        } else {
            self.clean_data(segno, &sums, &seg)
        }
    }

    fn valid(&self, segno: u32, seg: &Seg) -> Vec<(u32, u32)> {
        let start = self.geo.start(segno);
        (0..self.geo.seg_blocks).filter(|n| seg.is_valid(*n)).map(|n| (n, start + n)).collect()
    }

    fn clean_nodes(&self, segno: u32, sums: &BlockBytes, seg: &Seg) -> Result<()> {
        for (n, at) in self.valid(segno, seg) {
            let nid = Summary::of(sums, n).nid;
            let Ok(e) = self.nat.lookup(nid) else { continue };
            if e.addr != at {
                continue;
            }
            match self.node(e.ino, nid) {
                Ok(entry) => self.nodes.mark(&entry),
                // Freed meanwhile?
                Err(error) if self.nat.lookup(nid)?.addr == at => return Err(error),
                Err(_) => {}
            }
            self.stats.lock().moved += 1;
        }
        Ok(())
    }

    /// The owner of a block of data, if anybody still points to it: the node, its inode, and the kind of
    /// that.
    fn owner(&self, at: u32, sum: Summary) -> Result<Option<(Dnode, u32, FileKind)>> {
        let Ok(e) = self.nat.lookup(sum.nid) else { return Ok(None) };
        if e.addr == NULL_ADDR || e.version != sum.version {
            return Ok(None);
        }
        let Ok(entry) = self.node(e.ino, sum.nid) else { return Ok(None) };
        let place = entry.with(Footer::read).place;
        let d = Dnode { entry, nid: sum.nid, place, ofs: sum.ofs as usize };
        if first_index(place).is_none() || d.ofs >= addrs(place) || d.addr() != at {
            return Ok(None);
        }
        let kind = self.inode_node(e.ino)?.with(|b| decode(b, e.ino))?.0.kind;
        Ok(Some((d, e.ino, kind)))
    }

    /// Whether a node, which nobody freed, points to a block.
    fn is_owner(&self, d: &Dnode, at: u32) -> bool {
        d.addr() == at && self.nodes.cached(d.entry.key).is_some()
    }

    fn clean_data(&self, segno: u32, sums: &BlockBytes, seg: &Seg) -> Result<()> {
        let mut files: Vec<(u32, Dnode, u32)> = Vec::new();
        for (n, at) in self.valid(segno, seg) {
            let Some((d, ino, kind)) = self.owner(at, Summary::of(sums, n))? else { continue };
            if kind != FileKind::Dir {
                files.push((at, d, ino));
                continue;
            }
            let index = first_index(d.place).unwrap_or(0) + d.ofs as u64;
            if let Ok(Some(e)) = self.dent(ino, index) {
                // Freed meanwhile, alone or with its directory, whose end holds this lock?
                let _lock = self.inode_lock(ino);
                if !self.is_owner(&d, at) {
                    continue;
                }
                self.dents.mark(&e);
                self.stats.lock().moved += 1;
            }
        }
        // Nobody may be writing or cutting these files. Everybody else holds one of these locks at a time.
        let stripes: BTreeSet<usize> = files.iter().map(|f| f.2 as usize % self.inode_locks.len()).collect();
        let _locks: Vec<_> = stripes.into_iter().map(|s| self.inode_locks[s].lock()).collect();
        files.retain(|(at, d, _)| self.is_owner(d, *at));
        let from: Vec<u32> = files.iter().map(|f| f.0).collect();
        let mut pages = Vec::new();
        if !self.options.remap_cleaning {
            pages = self.read_all(&from)?;
        }
        let mut to = Vec::with_capacity(from.len());
        for (_, d, _) in &files {
            let version = self.nat.lookup(d.nid)?.version;
            let sum = Summary { nid: d.nid, version, ofs: d.ofs as u16 };
            let Ok(new) = self.segs.lock().alloc(log::COLD_DATA, sum) else { break };
            to.push(new);
        }
        if let Err(e) = self.move_blocks(&from[..to.len()], &to, pages) {
            // The blocks stay where they are; the new places have no owner.
            let mut segs = self.segs.lock();
            to.iter().try_for_each(|new| segs.invalidate(*new))?;
            return Err(e);
        }
        for ((old, d, _), new) in files.iter().zip(&to) {
            // Freed meanwhile? Only an inode lock away: no.
            debug_assert_eq!(d.entry.with(|b| addr(b, d.place, d.ofs)), *old);
            self.segs.lock().invalidate(*old)?;
            self.set_addr(d, *new);
        }
        self.stats.lock().moved += to.len() as u64;
        Ok(())
    }

    /// Brings blocks to their new places: by REMAP, or by writing `pages`, which are read where there are
    /// none.
    fn move_blocks(&self, from: &[u32], to: &[u32], mut pages: Vec<Page>) -> Result<()> {
        if self.options.remap_cleaning {
            if self.remap(from, to)? {
                return Ok(());
            }
            pages = self.read_all(from)?;
        }
        let batch: Batch = to.iter().zip(pages).map(|(new, page)| (*new, page, Structure::Data)).collect();
        let ticket = self.submit(batch)?;
        self.port.wait(ticket);
        Ok(())
    }

    fn read_all(&self, from: &[u32]) -> Result<Vec<Page>> {
        let mut pages = vec![Page::ZERO; from.len()];
        let ticket = self.read_addrs(from, &mut pages)?;
        self.port.wait(ticket);
        Ok(pages)
    }

    /// Cleans until no segment has anything to gain, and makes that durable (the ioctl
    /// F2FS_IOC_GARBAGE_COLLECT, again and again). Open logs stay.
    ///
    /// # Errors
    /// `ReadOnly`; the drive's.
    pub(crate) fn sweep_all(&self) -> Result<Swept> {
        let (before, mut swept) = (self.stats(), Swept::default());
        let _gc = self.gc_lock.lock();
        // A round that has nothing or frees nothing is the last; so is one for each segment.
        for _ in 0..self.geo.main_segs {
            let (mut done, free) = (BTreeSet::new(), self.segs.lock().free_count);
            loop {
                let room = self.room(0);
                if room.free <= room.dirty + FOR_CHECKPOINT {
                    break;
                }
                let Some(victim) = self.segs.lock().victim_now(&done) else { break };
                done.insert(victim);
                self.clean(victim)?;
                self.stats.lock().cleaned += 1;
            }
            self.checkpoint(false)?;
            let after = self.segs.lock().free_count;
            swept.segments += after.saturating_sub(free) as u64;
            if done.is_empty() || after <= free {
                break;
            }
        }
        let after = self.stats();
        swept.blocks_remapped = after.remapped - before.remapped;
        swept.blocks_copied = after.moved - before.moved - swept.blocks_remapped;
        Ok(swept)
    }

    /// One victim, where nobody needs the drive.
    fn clean_background(&self) -> Result<bool> {
        let _gc = self.gc_lock.lock();
        let victim = self.segs.lock().victim_idle();
        let Some(victim) = victim else { return Ok(false) };
        self.clean(victim)?;
        self.stats.lock().cleaned_background += 1;
        Ok(true)
    }

    /// Much is invalid and little free (`has_enough_invalid_blocks`: 40 %).
    fn cleaning_pays(&self) -> bool {
        let s = *self.space.lock();
        let free = self.segs.lock().free_count as u64 * self.geo.seg_blocks as u64;
        let invalid = s.user.saturating_sub(s.valid + free);
        invalid * 10 > s.user * 4 && free * 10 < s.user * 4
    }
}

/// Body of the cleaning daemon.
pub(crate) fn gc_loop(fs: &Weak<F2fs>, stop: &Stopper) {
    let Some((least, most, none)) = fs.upgrade().map(|f| f.options.gc_sleep) else { return };
    let step = Nanos(least.0.max(1));
    let mut wait = least;
    loop {
        if stop.pause(wait) == Signal::Stop {
            return;
        }
        let Some(fs) = fs.upgrade() else { return };
        if !fs.is_idle(fs.options.idle_interval) {
            wait = (wait + step).min(most);
            continue;
        }
        wait =
            if fs.cleaning_pays() { wait.saturating_sub(step).max(least) } else { (wait + step).min(most) };
        if !matches!(fs.clean_background(), Ok(true)) {
            wait = none;
        }
    }
}
