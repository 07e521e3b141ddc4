//! [`Tx`]: one operation's transaction while it is planned and stored.
//!
//! ```text
//!   pages: [ (block, mask of its lines) ... ]     few, sorted by address when stored
//!   bits:  [ (bitmap, from, len, set or clear) ]  left to the group's commit, which changes each line once
//! ```
//!
//! Planning takes blocks and inodes out of the allocators at once, but changes nothing else; [`Tx::run`]
//! applies all changes while the lines are locked. A transaction that is dropped before that gives back what
//! it took.
//!
//! Neighbouring lines are one store. For the CPU cost table a transaction is a handle, and each run of lines
//! a block of it.

use crate::core::Core;
use crate::journal::area::Making;
use crate::journal::redo::Image;
use crate::layout::{bitmap, line, orphan};
use crate::options::CommitMode;
use crate::space::{Claim, Run};
use granary_device::Structure;
use granary_fs::{FsError, Result};
use granary_kit::Block;
use granary_sim::{costs, cpu};
use granary_units::{LINE_SIZE, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// Which bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bitmap {
    /// Of inodes.
    Inodes,
    /// Of blocks.
    Blocks,
}

/// Bits that a transaction sets or clears.
pub struct Bits {
    which: Bitmap,
    from: u64,
    len: u64,
    set: bool,
}

/// Those of one transaction, or of a group of them.
pub type ManyBits = SmallVec<[Bits; 4]>;

/// A transaction being planned.
pub struct Tx<'a> {
    core: &'a Core,
    pages: SmallVec<[(Arc<Block>, u64); 8]>,
    bits: ManyBits,
    /// Blocks to give back if the transaction never runs, and on what ground they were taken.
    taken: SmallVec<[(Run, Claim); 2]>,
    taken_inode: Option<u32>,
    /// The same of a place of the orphan table.
    taken_orphan: Option<u32>,
    /// Blocks that become free with the COMMIT.
    freed: Vec<Run>,
    /// Lines of file data.
    data: Vec<(Lpa, Page, u64)>,
    /// The entry of a record of file data.
    entry: Option<Making>,
    /// Processor time of the changes, beyond the transaction's.
    work: Nanos,
    /// A block that two directories have, each with a copy of its own: media are damaged.
    crossed: Option<Lpa>,
}

impl<'a> Tx<'a> {
    /// An empty transaction.
    pub fn new(core: &'a Core) -> Tx<'a> {
        Tx {
            core,
            pages: SmallVec::new(),
            bits: ManyBits::new(),
            taken: SmallVec::new(),
            taken_inode: None,
            taken_orphan: None,
            freed: Vec::new(),
            data: Vec::new(),
            entry: None,
            work: Nanos::ZERO,
            crossed: None,
        }
    }

    /// The operation's changes cost the processor so much, beyond the transaction's part.
    pub fn work(&mut self, cost: Nanos) {
        self.work += cost;
    }

    /// The transaction changes these lines of `block`.
    pub fn touch(&mut self, block: &Arc<Block>, mask: u64) {
        match self.pages.iter_mut().find(|p| p.0.lpa() == block.lpa()) {
            Some(page) => {
                if !Arc::ptr_eq(&page.0, block) {
                    self.crossed = Some(block.lpa());
                }
                page.1 |= mask;
            }
            None => {
                block.prefetch(mask);
                self.pages.push((Arc::clone(block), mask));
            }
        }
    }

    /// The transaction brings these lines of a file's block.
    pub fn put_data(&mut self, at: Lpa, page: Page, lines: u64) {
        self.data.push((at, page, lines));
    }

    /// The transaction's COMMIT makes this record count.
    pub fn put_entry(&mut self, making: &Making) {
        self.entry = Some(making.clone());
    }

    /// Whether it brings file data.
    pub fn has_data(&self) -> bool {
        !self.data.is_empty() || self.entry.is_some()
    }

    /// The transaction changes `len` lines of `block` from line `first` on.
    pub fn touch_lines(&mut self, block: &Arc<Block>, first: u32, len: u32) {
        self.touch(block, (u64::MAX >> (64 - len)) << first);
    }

    /// Takes up to `want` blocks; they are set in the bitmap with the transaction.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn take_blocks(&mut self, want: u64, goal: Option<u32>, claim: Claim) -> Result<Run> {
        let run = self.core.take_blocks(want, goal, claim)?;
        let c = costs();
        // Free runs are in memory by processor: nothing is searched.
        self.work(c.extent_alloc + c.extent_update);
        self.taken.push((run, claim));
        self.set_bits(Bitmap::Blocks, run.lba as u64, run.len as u64, true);
        Ok(run)
    }

    /// Like [`Tx::take_blocks`] for an inode that is no longer on media: memory only.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn take_unrecorded(&mut self, want: u64, goal: Option<u32>, claim: Claim) -> Result<Run> {
        let run = self.core.take_blocks(want, goal, claim)?;
        self.taken.push((run, claim));
        Ok(run)
    }

    /// Takes an inode; returns its number and its block of the table.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn take_inode(&mut self) -> Result<(u32, Arc<Block>)> {
        let ino = self.core.take_inode()?;
        self.taken_inode = Some(ino);
        self.set_bits(Bitmap::Inodes, ino as u64, 1, true);
        Ok((ino, self.core.inode_block(ino)?))
    }

    /// Takes a place of the orphan table, if one is free, and names its line.
    pub fn take_orphan(&mut self) -> Option<u32> {
        debug_assert!(self.taken_orphan.is_none());
        let place = self.core.orphans.take()?;
        self.taken_orphan = Some(place);
        self.work(costs().orphan);
        self.touch(&self.core.orphans.block, orphan::line_mask(place));
        Some(place)
    }

    /// Clears blocks in the bitmap. With `release` they become free with the COMMIT; otherwise an inode
    /// without links goes on using them until it is evicted.
    pub fn free_blocks(&mut self, run: Run, release: bool) {
        self.work(costs().extent_free + costs().extent_update);
        self.set_bits(Bitmap::Blocks, run.lba as u64, run.len as u64, false);
        if release {
            self.freed.push(run);
        }
    }

    /// Clears an inode in the bitmap. Its number stays taken in memory until it is evicted.
    pub fn free_inode(&mut self, ino: u32) {
        self.work(costs().inode_free);
        self.set_bits(Bitmap::Inodes, ino as u64, 1, false);
    }

    /// Clears inodes in the bitmap that were never used.
    pub fn free_inodes(&mut self, inodes: Range<u64>) {
        self.set_bits(Bitmap::Inodes, inodes.start, inodes.end - inodes.start, false);
    }

    fn set_bits(&mut self, which: Bitmap, from: u64, len: u64, set: bool) {
        self.bits.push(Bits { which, from, len, set });
    }

    /// Keeps what was taken although nothing is stored: for inodes that are no longer on media.
    pub fn keep(mut self) {
        debug_assert!(self.pages.is_empty() && self.bits.is_empty());
        self.taken.clear();
        self.taken_inode = None;
    }

    /// Locks the lines, applies the changes (`apply` must not wait), stores the lines, seals. Returns the
    /// sequence number; the transaction is durable once that is committed.
    ///
    /// # Errors
    /// Of the drive; `Corrupt` where two directories have one block. The journal has stopped then.
    pub fn run(mut self, apply: impl FnOnce()) -> Result<u64> {
        let core = self.core;
        core.journal.alive()?;
        if let Some(lpa) = self.crossed {
            // Only one of the copies would be stored.
            let twice = FsError::Corrupt(format!("two directories have block {}", lpa.0));
            return core.journal.fatal(Err(twice));
        }
        let alone = core.options.commit == CommitMode::Sync;
        if alone {
            self.touch_bits();
        }
        self.charge();
        let tx = if alone { core.journal.new_tx() } else { self.join()? };
        core.locks.enter(self.locked());
        self.taken.clear();
        (self.taken_inode, self.taken_orphan) = (None, None);
        let stored = if alone { self.apply_bits() } else { Ok(()) };
        let stored = stored.and_then(|()| {
            apply();
            self.seal_lines();
            self.store(tx)
        });
        let sealed = match core.journal.fatal(stored) {
            Ok(image) if alone => {
                let done = core.journal.fatal(core.journal.commit_one(&core.port, tx, image));
                done.map(|()| (core.journal.seal_committed(), 0))
            }
            Ok(image) => Ok(core.journal.seal(std::mem::take(&mut self.bits), image)),
            Err(e) => {
                if !alone {
                    core.journal.abandon();
                }
                Err(e)
            }
        };
        core.locks.leave(self.locked());
        let (seq, waiting) = sealed?;
        for run in self.freed.drain(..) {
            core.space.withhold(seq, run);
        }
        if alone {
            // As in `commit_to`: the transaction is durable.
            let _ = core.release_ripe();
        } else if waiting == core.options.commit_batch.max(1) as usize
            && let Some(daemon) = core.committer.get()
        {
            // The caller holds inodes that others wait for: the commit is the daemon's.
            daemon.kick();
        }
        Ok(seq)
    }

    /// Enters the running group; commits it first where it has no room for these lines.
    fn join(&self) -> Result<TxId> {
        let core = self.core;
        let mut lines: u64 = self.pages.iter().map(|p| p.1.count_ones() as u64).sum();
        lines += self.data.iter().map(|d| d.2.count_ones() as u64).sum::<u64>() + self.entry.is_some() as u64;
        for b in &self.bits {
            core.bitmap_parts(b.which, b.from, b.len, |_, from, len| {
                lines += bitmap::line_mask(from, len).count_ones() as u64;
            });
        }
        loop {
            if let Some(tx) = core.journal.enter(lines, core.options.commit_lines as u64)? {
                return Ok(tx);
            }
            core.commit_to(core.journal.sealed())?;
        }
    }

    /// The lines of the bitmaps' blocks are the transaction's own.
    fn touch_bits(&mut self) {
        for i in 0..self.bits.len() {
            let Bits { which, from, len, .. } = self.bits[i];
            let core = self.core;
            core.bitmap_parts(which, from, len, |block, from, len| {
                self.touch(block, bitmap::line_mask(from, len))
            });
        }
    }

    /// Charges the CPU time of the changes.
    fn charge(&mut self) {
        self.pages.sort_unstable_by_key(|p| p.0.lpa());
        let (c, changed) = (costs(), self.pages.iter().map(|p| runs(p.1).count() as u64).sum::<u64>());
        cpu(c.journal_handle + c.journal_block * changed + self.work);
    }

    fn locked(&self) -> impl Iterator<Item = (u64, u64)> + Clone {
        self.pages.iter().map(|p| (p.0.lpa().0, p.1))
    }

    fn apply_bits(&self) -> Result<()> {
        for b in &self.bits {
            let mut clean = true;
            self.core.bitmap_parts(b.which, b.from, b.len, |block, from, len| {
                clean &= block.change(|bytes| bitmap::flip(bytes, from, len, b.set));
            });
            if !clean {
                let (kind, how) = (b.which, if b.set { "in use" } else { "free" });
                let what = format!("bitmap of {kind:?}: part of {}+{} is already {how}", b.from, b.len);
                return Err(FsError::Corrupt(what));
            }
        }
        Ok(())
    }

    /// Brings the checksums of the changed lines up to date. Names and extended attributes have their own.
    fn seal_lines(&self) {
        for (block, mask) in &self.pages {
            if self.core.geometry.is_metadata(block.lpa().0) || block.what() == Structure::DataPointer {
                block.change(|bytes| line::seal(bytes, block.lpa().0, *mask));
            }
        }
    }

    /// Stores the changed lines; their write-backs overlap under one fence. Where the host keeps the redo log
    /// they are only copied: they go to the drive with the commit.
    fn store(&self, tx: TxId) -> Result<Option<Box<Image>>> {
        let port = &self.core.port;
        if self.core.journal.is_redo() {
            debug_assert!(!self.has_data());
            let ranges: Vec<_> = self.ranges().map(|(block, at, len)| (Arc::clone(block), at, len)).collect();
            let mut bytes = Vec::with_capacity(ranges.iter().map(|r| r.2).sum());
            for (block, at, len) in &ranges {
                block.with(|b| bytes.extend_from_slice(&b[*at..at + len]));
            }
            return Ok(Some(Box::new(Image { ranges, bytes })));
        }
        let mut buf = [0u8; 8 * LINE_SIZE];
        for (block, at, len) in self.ranges() {
            for from in (at..at + len).step_by(buf.len()) {
                let n = (at + len - from).min(buf.len());
                block.with(|bytes| buf[..n].copy_from_slice(&bytes[from..from + n]));
                port.stage(block.lpa().byte().offset(from as u64), &buf[..n], tx, block.what())?;
            }
        }
        for (lpa, page, lines) in &self.data {
            let mut bytes = [0; PAGE_SIZE];
            for (first, n) in runs(*lines) {
                let (at, len) = (first * LINE_SIZE, n * LINE_SIZE);
                page.copy_out(at, &mut bytes[..len]);
                port.stage(lpa.byte().offset(at as u64), &bytes[..len], tx, Structure::Data)?;
            }
        }
        let entry = self.entry.as_ref().map(|making| {
            let at = making.at.0.byte().offset(making.at.1 as u64 * LINE_SIZE as u64);
            (at, making.line(tx))
        });
        if let Some((at, line)) = &entry {
            port.stage(*at, line, tx, Structure::Journal)?;
        }
        let data = self.data.iter().flat_map(|(lpa, _, lines)| {
            runs(*lines).map(|(first, n)| (lpa.byte().offset((first * LINE_SIZE) as u64), n * LINE_SIZE))
        });
        let metadata = self.ranges().map(|(block, at, len)| (block.lpa().byte().offset(at as u64), len));
        port.flush_lines(metadata.chain(data).chain(entry.map(|e| (e.0, LINE_SIZE))))?;
        Ok(None)
    }

    /// The runs of changed lines: block, first byte, bytes.
    fn ranges(&self) -> impl Iterator<Item = (&Arc<Block>, usize, usize)> {
        self.pages.iter().flat_map(|(block, mask)| {
            runs(*mask).map(move |(first, n)| (block, first * LINE_SIZE, n * LINE_SIZE))
        })
    }
}

impl Core {
    /// Changes and stores the bitmap lines of a group, each once however many transactions changed it. One
    /// task at a time does that, so these lines need no locks.
    pub fn store_bits(&self, tx: TxId, bits: ManyBits) -> Result<Option<Box<Image>>> {
        let mut all = Tx::new(self);
        all.bits = bits;
        all.touch_bits();
        if all.pages.is_empty() {
            return Ok(None);
        }
        all.charge();
        all.apply_bits()?;
        all.seal_lines();
        all.store(tx)
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        for (run, claim) in self.taken.drain(..) {
            self.core.space.give_back(run, claim);
        }
        if let Some(ino) = self.taken_inode.take() {
            self.core.inodes.lock().give(ino as u64, 1).expect("it was taken a moment ago");
        }
        self.taken_orphan.take().into_iter().for_each(|place| self.core.orphans.give(place));
    }
}

/// The runs of set bits, as first bit and length.
pub fn runs(mask: u64) -> impl Iterator<Item = (usize, usize)> {
    let mut left = mask;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let first = left.trailing_zeros() as usize;
        let len = (left >> first).trailing_ones() as usize;
        left &= !((u64::MAX >> (64 - len)) << first);
        Some((first, len))
    })
}
