//! [`Data`] of [`ByteFs`], and file data through the page cache: reservation, write-back with the choice of
//! interface, reading.
//!
//! ```text
//!   write_pages:   page has a block?  no  -> allocate, write whole by block (its other lines are garbage)
//!                                     yes -> fewer than 8 dirty lines? store them by byte : write whole by
//!                                            block
//!                  wait for the block writes ── then the transaction that points to new blocks (ordered
//!                  mode)
//! ```
//!
//! Invariants: a transaction that makes a block part of a file is sealed only after the drive has the block's
//! data. The byte stores of data precede, on the same link, the verify of every commit that could depend on
//! them.
//!
//! Deviation from the paper (section 4.8, step W3), where `write()` already stores the inode with an
//! uncommitted TxID. That protects nothing before the COMMIT. So here `write()` changes memory only, and the
//! inode's line rides in the transaction of the write-back or of `fsync`.
//!
//! With `data = "journal"` pages go into the transaction instead: `journaled`.
//!
//! Source: ByteFS section 4.6 (buffered I/O, R < 1/8).

use crate::core::Core;
use crate::fs::ByteFs;
use crate::journal::{Tx, tx::runs};
use crate::map::Piece;
use crate::node::{Dirty, Half, Node, Standing, node};
use crate::options::DataMode;
use crate::space::{Claim, Run};
use granary_device::{Structure, Ticket};
use granary_fs::{Call, Data, DirtyPage, FsError, Inode, Result, WriteBackCause};
use granary_kit::work::Kind;
use granary_sim::{costs, cpu};
use granary_units::{Dest, LINE_SIZE, Lpa, PAGE_SIZE, Page, Payload, TxId};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Where a page goes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its block; [`NOWHERE`] before allocation.
    pub lba: u32,
    /// Just allocated.
    pub new: bool,
}

const NOWHERE: u32 = u32::MAX;

/// Where the pages of one call go.
pub type Targets = SmallVec<[Target; 8]>;
/// Runs that a file gets, with their first blocks in the file.
pub type NewRuns = SmallVec<[(u64, Run); 2]>;
/// Pages without a block and without a promise of one.
pub type Holes = SmallVec<[Range<u64>; 2]>;

/// The blocks that pages have already.
pub fn old_blocks(targets: &[Target]) -> impl Iterator<Item = Run> {
    targets.iter().filter(|t| !t.new).map(|t| Run { lba: t.lba, len: 1 })
}

/// File pages that bytes `pos..pos + len` touch.
pub fn pages_of(pos: u64, len: u64) -> Range<u64> {
    pos / PAGE_SIZE as u64..(pos + len).div_ceil(PAGE_SIZE as u64)
}

impl Data for ByteFs {
    granary_fs::file_system_lacks!(rewrites_cut_page, flush_on_close);

    fn read_pages(&self, _call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        self.core.read_pages(inode, first, out)
    }

    fn reserve(&self, _call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        let core = &*self.core;
        let pages = pages_of(pos, len);
        match core.promise(node(inode), pages.clone(), true) {
            Ok(holes) if holes.is_empty() => {}
            Ok(holes) => {
                cpu(costs().delayed_page * holes.iter().map(|h| h.end - h.start).sum::<u64>());
                core.put_blocks(inode);
            }
            // Perhaps only the promise is too large: the pages may lie one behind the other.
            Err(FsError::NoSpace) => {
                let _change = node(inode).change.lock();
                let holes = core.promise(node(inode), pages, false)?;
                let placed = core.fill_holes(inode, &holes);
                core.put_blocks(inode);
                placed?;
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        inode.update(|a| a.wrote(pos + len, call.time));
        self.core.mark_dirty(inode, Dirty { times: true, atime: false });
        Ok(())
    }

    fn write_pages(
        &self,
        _call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _: WriteBackCause,
    ) -> Result<()> {
        let core = &*self.core;
        let Some(last) = pages.last() else { return Ok(()) };
        let end = last.end().min(inode.size());
        core.journal.alive()?;
        let node = node(inode);
        let _change = node.change.lock();
        let mut targets = core.targets(node, pages.iter().map(|p| p.index));
        if core.options.data == DataMode::Journal {
            if core.standing(node) != Standing::Gone {
                return core.write_journaled(inode, pages, end);
            }
            core.leave_journal(node, old_blocks(&targets))?;
        }
        let mut tx = Tx::new(core);
        let new = core.allocate(&mut tx, node, |i| pages[i].index, &mut targets)?;
        let by_byte = |i: usize| !targets[i].new && pages[i].lines.count_ones() < core.threshold;
        let (mut all, mut scratch, mut i) = (Ticket::NONE, SmallVec::<[Page; 8]>::new(), 0);
        while i < pages.len() {
            let first = i;
            scratch.clear();
            while i < pages.len() && !by_byte(i) && (i == first || targets[i].lba == targets[i - 1].lba + 1) {
                scratch.push(pages[i].page.clone());
                i += 1;
            }
            if scratch.is_empty() {
                i += 1;
                continue;
            }
            let lpa = Lpa(targets[first].lba as u64);
            all = all.and(core.port.submit_write(lpa, &scratch, Structure::Data)?);
        }
        for i in (0..pages.len()).filter(|&i| by_byte(i)) {
            core.store_lines(node, targets[i].lba, &pages[i])?;
        }
        core.port.wait(all);
        core.point_at(tx, inode, &new, end).map(drop)
    }

    fn read_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.core.read_direct(inode, pos, dest)
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.core.write_direct(call, inode, pos, data)
    }

    /// The commit covers all that was sealed before it; data that went by byte outside transactions needs a
    /// verify of its own only where no commit came after it.
    fn fsync(&self, _call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        let core = &*self.core;
        let node = node(inode);
        {
            // Waits for a task that is just putting this inode's attributes on media: it has taken them out
            // of `pending`, and enters its transaction in `last_seq` before it unlocks.
            let _change = node.change.lock();
            if !data_only && node.body.lock().dirty.times {
                core.persist_held(node)?;
            }
        }
        core.commit_to(node.last_seq.load(Relaxed))?;
        core.journal.verify_to(&core.port, node.posted.load(Relaxed))
    }
}

impl Core {
    /// See [`granary_fs::Data::read_pages`].
    pub fn read_pages(&self, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        let node = node(inode);
        let (mut at, mut all) = (0, Ticket::NONE);
        while at < out.len() {
            let piece = node.body.lock().map.piece(first + at as u64);
            let rest = (out.len() - at) as u64;
            at += match piece {
                Piece::At { lba, len } => {
                    let n = len.min(rest) as usize;
                    let part = &mut out[at..at + n];
                    let held = self.data_journal.held(lba, n);
                    all = all.and(self.port.submit_read(Lpa(lba as u64), part, Structure::Data)?);
                    held.into_iter().for_each(|(i, page)| part[i] = page);
                    n
                }
                Piece::Hole { len } => {
                    let n = len.min(rest) as usize;
                    out[at..at + n].fill(Page::ZERO);
                    n
                }
            };
        }
        self.port.wait(all);
        Ok(())
    }

    /// Promises blocks to the holes among these pages that have no promise yet; returns them. `extents`: with
    /// room for an extent each.
    ///
    /// # Errors
    /// `NoSpace`, with nothing promised.
    pub fn promise(&self, node: &Node, pages: Range<u64>, extents: bool) -> Result<Holes> {
        let mut body = node.body.lock();
        let map = &mut body.map;
        let mut holes = Holes::new();
        for gap in map.reserved.missing(pages) {
            let mut at = gap.start;
            while at < gap.end {
                at += match map.piece(at) {
                    Piece::At { len, .. } => len,
                    Piece::Hole { len } => {
                        let n = len.min(gap.end - at);
                        holes.push(at..at + n);
                        n
                    }
                };
            }
        }
        if holes.is_empty() {
            return Ok(holes);
        }
        let pages: u64 = holes.iter().map(|h| map.reserved.insert(h.clone())).sum();
        let need = if extents { map.meta_needed() } else { 0 };
        let more = need.saturating_sub(map.reserved_meta);
        if self.space.reserve(pages + more, Claim::Free) {
            map.reserved_meta += more;
            return Ok(holes);
        }
        for hole in holes {
            map.reserved.remove(hole);
        }
        Err(FsError::NoSpace)
    }

    /// Where these pages are now.
    pub fn targets(&self, node: &Node, indexes: impl Iterator<Item = u64>) -> Targets {
        let body = node.body.lock();
        let mut from = 0;
        let mut piece = Piece::Hole { len: 0 };
        let lookup = |n: u64| {
            let (Piece::At { len, .. } | Piece::Hole { len }) = piece;
            if n < from || n - from >= len {
                (from, piece) = (n, body.map.piece(n));
            }
            match piece {
                Piece::At { lba, .. } => Target { lba: lba + (n - from) as u32, new: false },
                Piece::Hole { .. } => Target { lba: NOWHERE, new: true },
            }
        };
        indexes.map(lookup).collect()
    }

    /// Allocates blocks for all targets that have none. Returns the new runs with their first file blocks.
    pub fn allocate(
        &self,
        tx: &mut Tx<'_>,
        node: &Node,
        index: impl Fn(usize) -> u64,
        targets: &mut [Target],
    ) -> Result<NewRuns> {
        let mut new = NewRuns::new();
        let mut i = 0;
        while i < targets.len() {
            if targets[i].lba != NOWHERE {
                i += 1;
                continue;
            }
            let first = index(i);
            let mut want = 1;
            while i + want < targets.len()
                && targets[i + want].lba == NOWHERE
                && index(i + want) == first + want as u64
            {
                want += 1;
            }
            let (goal, claim) = {
                let body = node.body.lock();
                // All pages of one run are reserved, or none is.
                let gap = body.map.reserved.missing(first..first + want as u64).next();
                let reserved = gap.as_ref().is_none_or(|g| g.start > first);
                if let Some(gap) = gap {
                    want = (if reserved { gap.start - first } else { gap.end - gap.start }) as usize;
                }
                let goal = match new.last() {
                    Some((block, run)) if block + run.len as u64 == first => run.lba.checked_add(run.len),
                    _ => body.map.goal(first),
                };
                (goal, if reserved { Claim::Promised } else { Claim::Free })
            };
            let goal = goal.filter(|&g| self.geometry.has_data(g as u64, 1));
            let run = match self.standing(node) {
                Standing::Gone => tx.take_unrecorded(want as u64, goal, claim)?,
                _ => tx.take_blocks(want as u64, goal, claim)?,
            };
            tx.work(Kind::WriteBack.inodes());
            for (k, t) in targets[i..i + run.len as usize].iter_mut().enumerate() {
                t.lba = run.lba + k as u32;
            }
            new.push((first, run));
            i += run.len as usize;
        }
        Ok(new)
    }

    /// Where the inode stands on media.
    pub fn standing(&self, node: &Node) -> Standing {
        node.body.lock().standing
    }

    /// Stores the dirty lines of a page by byte, outside transactions; their write-backs overlap under one
    /// fence.
    fn store_lines(&self, node: &Node, lba: u32, page: &DirtyPage) -> Result<()> {
        for (first, lines) in runs(page.lines) {
            let mut buf = [0u8; PAGE_SIZE];
            let (at, len) = (first * LINE_SIZE, lines * LINE_SIZE);
            page.page.copy_out(at, &mut buf[..len]);
            let addr = Lpa(lba as u64).byte().offset(at as u64);
            self.port.stage(addr, &buf[..len], TxId::NONE, Structure::Data)?;
        }
        let ranges = runs(page.lines).map(|(first, lines)| {
            (Lpa(lba as u64).byte().offset((first * LINE_SIZE) as u64), lines * LINE_SIZE)
        });
        self.port.flush_lines(ranges)?;
        node.posted.fetch_max(self.journal.posted(), Relaxed);
        Ok(())
    }

    /// Stores bytes of a file's block, outside transactions.
    pub fn store_data(&self, node: &Node, lba: u32, at: usize, bytes: &[u8]) -> Result<()> {
        let addr = Lpa(lba as u64).byte().offset(at as u64);
        self.port.store(addr, bytes, TxId::NONE, Structure::Data)?;
        node.posted.fetch_max(self.journal.posted(), Relaxed);
        Ok(())
    }

    /// The drive has the data: makes the new blocks part of the file, and the file on media reach up to `end`
    /// bytes at most its size. Without either, and without data in it, the transaction is dropped; otherwise
    /// returns its sequence number, where the inode is on media.
    pub fn point_at(
        &self,
        mut tx: Tx<'_>,
        inode: &Inode,
        new: &[(u64, Run)],
        end: u64,
    ) -> Result<Option<u64>> {
        let node = node(inode);
        let end = end.min(inode.size());
        let standing = {
            let body = node.body.lock();
            if new.is_empty() && end <= body.disk_size && !tx.has_data() {
                return Ok(None);
            }
            body.standing
        };
        let block = match standing {
            Standing::Gone => None,
            _ => Some(self.inode_block(node.ino)?),
        };
        let half = if new.is_empty() { Half::Hot } else { self.add_extents(&mut tx, node, new)? };
        let mut body = node.body.lock();
        for &(first, run) in new {
            body.map.reserved.remove(first..first + run.len as u64);
        }
        self.settle_reservation(&mut body);
        drop(body);
        let grow = || {
            {
                let mut body = node.body.lock();
                body.disk_size = body.disk_size.max(end);
            }
            self.put_blocks(inode);
        };
        let Some(block) = block else {
            grow();
            tx.keep();
            return Ok(None);
        };
        tx.touch(&block, self.inode_lines(node.ino, half));
        let seq = tx.run(|| {
            grow();
            self.put_inode(&block, inode);
        })?;
        node.depends(seq);
        Ok(Some(seq))
    }
}
