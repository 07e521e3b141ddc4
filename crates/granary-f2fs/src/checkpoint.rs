//! Checkpoints: everything that changed, and then one block that makes it count.
//!
//! ```text
//!   [exclusive] directory blocks -> inodes -> nodes | wait | NAT, SIT, SSA blocks, pack: header, orphans,
//!               summaries | wait, FLUSH | footer (FUA) | BAM_RESET, where it is used
//!               | dead segments are free: TRIM
//! ```
//!
//! When: sync, unmount, fsync where it must (fsync.rs), every 60 s if anything changed, many dirty nodes or
//! dead segments (the daemon), no free segments but dead ones (gc.rs). The pack goes to the place that the
//! last one did not take. An error leaves the file system read-only.

use crate::fs::F2fs;
use crate::layout::checkpoint::{COMPACT, Checkpoint, LogPlace, ORPHANS_PER_BLOCK, UMOUNT, encode_orphans};
use crate::layout::nat::{NAT_ENTRY, NatEntry};
use crate::layout::node::{COLD, Footer, is_direct};
use crate::layout::sit::{SIT_ENTRIES, SIT_ENTRY, SIT_JOURNAL};
use crate::layout::summary::{COMPACT_FIRST, COMPACT_NEXT, JOURNAL_BYTES, SUMMARY, Summary};
use crate::layout::{BLOCK_SIZE, BlockBytes, bit, corrupt, is_real, put16, put32, set_bit};
use crate::nodes::Batch;
use crate::segs::{Segs, log};
use granary_device::vendor::pebble::Bam;
use granary_device::{Structure, Ticket};
use granary_fs::Result;
use granary_sim::{now, sleep_until};
use granary_units::{Lpa, Nanos, Page};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// Where the journals lie in full summary blocks.
pub(crate) const JOURNAL_AT: usize = 512 * SUMMARY;

/// SIT and NAT journal as bytes.
pub(crate) struct Journals {
    pub nat: [u8; JOURNAL_BYTES],
    pub sit: [u8; JOURNAL_BYTES],
}

impl Journals {
    pub fn encode(nat: &[(u32, NatEntry)], sit: &[(u32, crate::layout::sit::SitEntry)]) -> Journals {
        let mut j = Journals { nat: [0; JOURNAL_BYTES], sit: [0; JOURNAL_BYTES] };
        put16(&mut j.nat, 0, nat.len() as u16);
        for (i, (nid, e)) in nat.iter().enumerate() {
            let at = 2 + i * (4 + NAT_ENTRY);
            put32(&mut j.nat, at, *nid);
            e.store(&mut j.nat, at + 4);
        }
        put16(&mut j.sit, 0, sit.len() as u16);
        for (i, (segno, e)) in sit.iter().enumerate() {
            let at = 2 + i * (4 + SIT_ENTRY);
            put32(&mut j.sit, at, *segno);
            e.store(&mut j.sit, at + 4);
        }
        j
    }
}

/// Summaries of a log that a checkpoint needs.
fn used(segs: &Segs, log: usize) -> u32 {
    let l = &segs.logs[log];
    if l.ssr { segs.geo.seg_blocks } else { l.next }
}

/// The data summaries as blocks, and whether they are compact.
pub(crate) fn data_summaries(segs: &Segs, journals: &Journals) -> (Vec<Page>, bool) {
    let total: usize = (0..3).map(|l| used(segs, l) as usize).sum();
    if total > COMPACT_FIRST + 2 * COMPACT_NEXT {
        let full = |l: usize| {
            let mut b: BlockBytes = *segs.logs[l].sum;
            match l {
                log::HOT_DATA => b[JOURNAL_AT..JOURNAL_AT + JOURNAL_BYTES].copy_from_slice(&journals.nat),
                log::COLD_DATA => b[JOURNAL_AT..JOURNAL_AT + JOURNAL_BYTES].copy_from_slice(&journals.sit),
                _ => {}
            }
            Page::from_bytes(&b)
        };
        return ((0..3).map(full).collect(), false);
    }
    let mut list = (0..3).flat_map(|l| (0..used(segs, l)).map(move |n| Summary::of(&segs.logs[l].sum, n)));
    let mut blocks = Vec::new();
    let mut left = total;
    loop {
        let mut b = Box::new([0; BLOCK_SIZE]);
        let (base, room) = if blocks.is_empty() {
            b[..JOURNAL_BYTES].copy_from_slice(&journals.nat);
            b[JOURNAL_BYTES..2 * JOURNAL_BYTES].copy_from_slice(&journals.sit);
            (2 * JOURNAL_BYTES, COMPACT_FIRST)
        } else {
            (0, COMPACT_NEXT)
        };
        for (i, s) in list.by_ref().take(room).enumerate() {
            s.store(&mut b[..], base + i * SUMMARY);
        }
        blocks.push(Page::from_bytes(&b));
        left = left.saturating_sub(room);
        if left == 0 {
            return (blocks, true);
        }
    }
}

impl F2fs {
    /// Whether a checkpoint would write anything.
    pub(crate) fn is_dirty(&self) -> bool {
        self.nodes.dirty_count() > 0
            || self.dents.dirty_count() > 0
            || !self.dirty_inodes.lock().is_empty()
            || self.nat.dirty_count() > 0
            || !self.segs.lock().touched.is_empty()
    }

    /// Writes a checkpoint where anything changed (`unmount`: anyway).
    pub(crate) fn checkpoint(&self, unmount: bool) -> Result<()> {
        let _all = self.checkpoint_lock.write();
        self.checkpoint_alone(unmount)
    }

    /// The same for a caller that holds the lock of checkpoints: nothing changes until that is let go.
    pub(crate) fn checkpoint_alone(&self, unmount: bool) -> Result<()> {
        self.working()?;
        if !unmount && !self.is_dirty() {
            return Ok(());
        }
        self.write_checkpoint(unmount).inspect_err(|_| self.broken.store(true, Relaxed))
    }

    /// sync(2): nodes first, as they are (the flusher writes the node mapping), then the checkpoint, which
    /// writes those again whose inode has newer attributes.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.working()?;
        if !self.is_dirty() {
            // Blocks that were written in place leave nothing dirty, and may be in the drive's volatile
            // cache. Where there are none, nothing is sent, as by the kernel.
            let written = self.in_place[0].load(Relaxed);
            if self.in_place[1].load(Relaxed) < written {
                self.flush()?;
                self.in_place[1].fetch_max(written, Relaxed);
            }
            return Ok(());
        }
        {
            let _op = self.checkpoint_lock.read();
            let (ticket, chain) = self.write_nodes(&self.nodes.dirty(), None)?;
            self.port.wait(ticket);
            sleep_until(chain);
        }
        self.checkpoint(false)
    }

    /// After recovery: the caller has everything to itself.
    pub(crate) fn write_recovered(&self) -> Result<()> {
        self.write_checkpoint(false)
    }

    fn write_checkpoint(&self, unmount: bool) -> Result<()> {
        let _step = granary_sim::step("f2fs: a checkpoint is written");
        let dents = self.write_dents()?;
        let inodes: Vec<_> = self.dirty_inodes.lock().values().cloned().collect();
        for node in &inodes {
            self.settle_inode(node)?;
        }
        let mut nodes = self.nodes.dirty();
        nodes.sort_by_key(|e| {
            let foot = e.with(Footer::read);
            let order = match is_direct(foot.place) {
                false => 0,
                true => 1 + (foot.flags & COLD != 0) as u8,
            };
            (order, e.key)
        });
        let (ticket, chain) = self.write_nodes(&nodes, None)?;
        self.port.wait(dents.and(ticket));
        sleep_until(chain);
        let journals = self.write_tables()?;
        self.write_pack(unmount, &journals)
    }

    /// Directory blocks go to the hot data log.
    fn write_dents(&self) -> Result<Ticket> {
        // A name lookup takes no lock that a checkpoint excludes: a block must stay in memory until the drive
        // has been told of it.
        let held = self.dents.dirty();
        let mut batch = Batch::new();
        for e in &held {
            let (ino, index) = e.key;
            let Ok(d) = self.dnode(ino, index as u64)? else {
                return Err(corrupt(format!("directory {ino} has no place for its block {index}")));
            };
            let version = self.nat.lookup(d.nid)?.version;
            let old = d.addr();
            let new = {
                let mut segs = self.segs.lock();
                let sum = Summary { nid: d.nid, version, ofs: d.ofs as u16 };
                let new = segs.alloc(log::HOT_DATA, sum)?;
                if is_real(old) {
                    segs.invalidate(old)?;
                }
                new
            };
            self.set_addr(&d, new);
            batch.push((new, self.dents.clean(e, |_| ()), Structure::Dentry));
        }
        self.submit(batch)
    }

    /// Writes what of NAT, SIT and SSA does not fit the journals.
    fn write_tables(&self) -> Result<Journals> {
        let nat = self.nat.flush()?;
        let mut held = nat.held;
        let mut batch: Batch = Vec::new();
        batch.extend(nat.blocks.into_iter().map(|(lpa, page)| (lpa.0 as u32, page, Structure::DataPointer)));
        let mut segs = self.segs.lock();
        let mut last_guard = self.last.lock();
        let last = &mut *last_guard;
        let mut todo: BTreeSet<u32> = segs.touched.clone();
        if last.sit_journal.len() + todo.len() > SIT_JOURNAL {
            todo.append(&mut last.sit_journal);
        }
        let todo: Vec<u32> = todo.into_iter().collect();
        let block = |segno: u32| segno / SIT_ENTRIES as u32;
        let mut sets: Vec<&[u32]> = todo.chunk_by(|a, b| block(*a) == block(*b)).collect();
        sets.sort_by_key(|s| (s.len(), s[0]));
        for set in sets {
            let news = set.iter().filter(|s| !last.sit_journal.contains(s)).count();
            if last.sit_journal.len() + news <= SIT_JOURNAL {
                last.sit_journal.extend(set);
                continue;
            }
            let n = block(set[0]);
            let copy = !bit(&last.sit_copies, n as usize);
            set_bit(&mut last.sit_copies, n as usize, copy);
            let mut b = Box::new([0; BLOCK_SIZE]);
            let first = n * SIT_ENTRIES as u32;
            for segno in first..(first + SIT_ENTRIES as u32).min(self.geo.main_segs) {
                let seg = &segs.segs[segno as usize];
                if seg.valid > 0 || seg.mtime > 0 {
                    seg.entry().store(&mut b[..], (segno - first) as usize * SIT_ENTRY);
                }
            }
            batch.push((self.geo.sit(n, copy) as u32, Page::from_bytes(&b), Structure::Bitmap));
        }
        for (segno, sum) in std::mem::take(&mut segs.sums) {
            if segs.dead.contains(&segno) {
                continue;
            }
            let lpa = self.geo.ssa(segno);
            // A search that fills the segment's holes, or cleaning, asks for the block soon (the kernel's
            // stay in the meta inode's page cache).
            let block = self.tables.fresh(Lpa(lpa), Structure::Bitmap);
            block.change(|b| *b = *sum);
            held.push(block);
            batch.push((lpa as u32, Page::from_bytes(&sum), Structure::Bitmap));
        }
        let sit: Vec<_> = last.sit_journal.iter().map(|s| (*s, segs.segs[*s as usize].entry())).collect();
        drop(last_guard);
        drop(segs);
        let ticket = self.submit(batch)?;
        drop(held);
        self.port.wait(ticket);
        Ok(Journals::encode(&nat.journal, &sit))
    }

    fn write_pack(&self, unmount: bool, journals: &Journals) -> Result<()> {
        let orphans: Vec<u32> = self.memory.lock().orphans.iter().copied().collect();
        let mut body: Vec<Page> = Vec::new();
        body.extend(orphans.chunks(ORPHANS_PER_BLOCK).map(|c| Page::from_bytes(&encode_orphans(c))));
        let orphan_blocks = body.len() as u32;
        let segs = self.segs.lock();
        let (summaries, compact) = data_summaries(&segs, journals);
        body.extend(summaries);
        if unmount {
            body.extend((3..6).map(|l| Page::from_bytes(&segs.logs[l].sum)));
        }
        let pack_blocks = body.len() as u32 + self.geo.payload + 2;
        if pack_blocks > self.geo.seg_blocks {
            return Err(granary_fs::FsError::NoSpace);
        }
        let space = *self.space.lock();
        let (start, cp) = {
            let last = self.last.lock();
            let place = |l: &crate::segs::Log| LogPlace { segno: l.segno, next: l.next as u16, ssr: l.ssr };
            let mut logs = [LogPlace::default(); 6];
            logs.iter_mut().zip(&segs.logs).for_each(|(to, l)| *to = place(l));
            let cp = Checkpoint {
                version: last.version + 1,
                user_blocks: space.user,
                valid_blocks: space.valid,
                valid_nodes: space.nodes,
                valid_inodes: space.inodes,
                reserved: last.reserved,
                overprovision: last.overprovision,
                free_segs: segs.free_count,
                flags: if unmount { UMOUNT } else { 0 } | if compact { COMPACT } else { 0 },
                pack_blocks,
                orphan_blocks,
                next_nid: self.nat.next_nid(),
                elapsed: segs.seconds(),
                payload: self.geo.payload,
                logs,
                sit_copies: last.sit_copies.clone(),
                nat_copies: self.nat.copies(),
            };
            (self.geo.pack(1 - last.pack), cp)
        };
        drop(segs);
        let footer = Page::from_bytes(&cp.encode());
        let payload = cp.encode_payload().map(|b| Page::from_bytes(&b));
        body.splice(..0, [footer.clone()].into_iter().chain(payload));
        self.port.write(Lpa(start), &body, Structure::Superblock)?;
        if self.options.barrier {
            self.port.flush()?;
            self.port.write_safe(Lpa(start + body.len() as u64), &[footer], Structure::Superblock)?;
        } else {
            self.port.write(Lpa(start + body.len() as u64), &[footer], Structure::Superblock)?;
        }
        self.committed()
    }

    /// The checkpoint counts.
    fn committed(&self) -> Result<()> {
        // First of all: from here on old places end, by BAM_RESET, by TRIM or by new blocks. A reader that
        // looked one up before asks for the version again after it has read; one that sees the new version
        // already finds new places, which nobody moves now.
        self.last.lock().version += 1;
        if self.uses_bam() {
            // It has all that BAM knows, and no block that it freed is used again before.
            self.port.require::<Bam>()?.reset()?;
        }
        let freed = self.segs.lock().committed();
        self.nat.committed();
        {
            let mut memory = self.memory.lock();
            memory.renamed.clear();
            memory.given.clear();
            memory.cuts.clear();
            memory.unsynced.clear();
            memory.spoiled.clear();
        }
        {
            let mut s = self.space.lock();
            (s.since, s.at_checkpoint) = (0, s.valid);
        }
        {
            let mut last = self.last.lock();
            last.pack = 1 - last.pack;
            last.at = now();
        }
        let mut stats = self.stats.lock();
        stats.checkpoints += 1;
        stats.flushes += self.options.barrier as u64;
        stats.fua_writes += 1;
        stats.trimmed += if self.options.discard { freed.len() as u64 } else { 0 };
        drop(stats);
        if self.options.discard {
            for run in freed.chunk_by(|a, b| a + 1 == *b) {
                let blocks = run.len() as u64 * self.geo.seg_blocks as u64;
                // A trim that fails costs space on the drive, nothing else.
                let _ = self.port.trim(Lpa(self.geo.start(run[0]) as u64), blocks);
            }
        }
        Ok(())
    }

    /// Whether the daemon should write a checkpoint now (`f2fs_balance_fs_bg`).
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        let old = now().saturating_sub(self.last.lock().at) >= self.options.checkpoint_interval;
        let excess_dead = {
            let segs = self.segs.lock();
            // DEF_RECLAIM_PREFREE_SEGMENTS: 5 % of the main area, at most 4096 segments (8 GiB).
            segs.dead.len() as u32 > (self.geo.main_segs / 20).min(4096)
        };
        (old || excess_dead || self.too_many_dirty_nodes()) && self.is_dirty()
    }

    pub(crate) fn too_many_dirty_nodes(&self) -> bool {
        let limit = match self.options.dirty_nodes {
            0 => 8 * self.geo.seg_blocks,
            n => n,
        };
        self.nodes.dirty_count() as u32 >= limit || self.nat.dirty_count() > 100_000
    }

    /// Body of the checkpoint daemon.
    pub(crate) fn checkpoint_if_due(&self) {
        self.due.store(false, Relaxed);
        if self.checkpoint_is_due() {
            // An error makes the file system read-only; the next writer learns it.
            let _ = self.checkpoint(false);
        }
    }

    /// Nothing happened for so long.
    pub(crate) fn is_idle(&self, span: Nanos) -> bool {
        now().saturating_sub(Nanos(self.busy.load(Relaxed))) >= span
    }
}
