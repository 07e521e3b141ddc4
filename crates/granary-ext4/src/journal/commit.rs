//! Commit: the running transaction goes into the log.
//!
//! ```text
//!   close   lock, wait for handles, snapshot blocks, take log space; a new transaction may begin
//!   data    pages that truncations have cut, where they are dirty (ordered mode)
//!   write   [journal superblock, where the log was empty] [revokes][descriptor 254 copies]... ; wait, data
//!           too
//!           FLUSH; commit block FUA [superblock FUA, where as much of the log came free as the largest
//!           transaction takes]
//!   finish  blocks wait to go home; freed blocks are given back; waiters wake
//! ```

use super::{Checkpoint, Committing, Journal, Running};
use crate::layout::journal::{REVOKES, TAGS, Tag, commit, descriptor, escape, revoke};
use granary_device::Ticket;
use granary_fs::Result;
use granary_sim::{now, sleep_until};
use granary_units::Page;

/// A transaction on its way into the log.
struct Closed {
    txn: Running,
    /// Blocks still in the transaction with their content at the close.
    tags: Vec<Tag>,
    copies: Vec<Page>,
    first: u32,
    blocks: u32,
    log_was_empty: bool,
    /// Where the log's tail can go once this transaction is committed: (transaction, block).
    new_tail: Option<(u32, u32)>,
}

impl Journal {
    /// Commits the running transaction, if there is one.
    pub(super) fn commit(&self) -> Result<()> {
        let Some(closed) = self.close() else { return Ok(()) };
        let write = self.write_cut.get().filter(|_| !closed.txn.cut.is_empty());
        let cut = write.map_or(Ticket::NONE, |write| write(&closed.txn.cut));
        self.write(&closed, cut)?;
        self.finish(closed);
        Ok(())
    }

    fn close(&self) -> Option<Closed> {
        let mut s = self.state.lock();
        s.running.as_mut()?.locked = true;
        while s.running.as_ref().is_some_and(|r| r.updates > 0) && s.aborted.is_none() {
            self.drained.wait(&mut s);
        }
        let s = &mut *s;
        let txn = s.running.take()?;
        let mut tags = Vec::with_capacity(txn.metas.len());
        let mut copies = Vec::with_capacity(txn.metas.len());
        for lpa in &txn.metas {
            // Freed in the same transaction: nothing to journal. Listed twice: freed and, within it, used
            // again.
            if let Some(t) = s.tracked.get_mut(lpa).filter(|t| t.running == txn.tid) {
                t.running = 0;
                t.committing = txn.tid;
                let mut copy = t.content.snapshot();
                tags.push(Tag { home: *lpa, what: t.content.what(), escaped: escape(&mut copy) });
                copies.push(copy);
            }
        }
        let (n, r) = (tags.len(), txn.revoked.len());
        let blocks = match (n, r) {
            (0, 0) => 0,
            _ => (n + n.div_ceil(TAGS) + r.div_ceil(REVOKES) + 1) as u32,
        };
        assert!(blocks < s.free, "transaction of {blocks} blocks in {} free blocks of log", s.free);
        let first = s.head;
        s.head = self.after(s.head, blocks);
        s.free -= blocks;
        s.committing = Some(Committing { tid: txn.tid, first, flushed: false });
        let log_was_empty = blocks > 0 && std::mem::take(&mut s.marked_empty);
        if log_was_empty {
            (s.tail, s.tail_tid) = (first, txn.tid);
        }
        let oldest = s.checkpoints.front().map_or((txn.tid, first), |c| (c.tid, c.first));
        let gain = self.distance(s.tail, oldest.1);
        let new_tail = (blocks > 0 && gain >= self.max_transaction).then_some(oldest);
        self.unlocked.notify_all();
        Some(Closed { txn, tags, copies, first, blocks, log_was_empty, new_tail })
    }

    /// Writes the transaction; `cut` are the pages of its truncations, on their way.
    fn write(&self, c: &Closed, cut: Ticket) -> Result<()> {
        let _step = granary_sim::step("ext4: a transaction commits");
        if c.blocks == 0 {
            sleep_until(c.txn.ordered);
            self.port.wait(cut);
            return Ok(());
        }
        let tid = c.txn.tid;
        if c.log_was_empty {
            let _tail = self.tail.lock();
            self.write_super(tid, c.first, false)?;
        }
        let mut pages: Vec<Page> = Vec::with_capacity(c.blocks as usize);
        pages.extend(c.txn.revoked.chunks(REVOKES).map(|r| revoke(tid, r)));
        for (tags, copies) in c.tags.chunks(TAGS).zip(c.copies.chunks(TAGS)) {
            pages.push(descriptor(tid, tags));
            pages.extend_from_slice(copies);
        }
        let ticket = self.submit_log(c.first, &pages)?;
        sleep_until(c.txn.ordered);
        self.port.wait(ticket.and(cut));
        {
            let mut s = self.state.lock();
            if let Some(c) = &mut s.committing {
                c.flushed = true;
            }
            s.stats.commits += 1;
            s.stats.log_blocks += c.blocks as u64;
            s.stats.fua_writes += self.config.barrier as u64;
        }
        self.flush()?;
        let last = self.after(c.first, c.blocks - 1);
        let ticket = self.submit_log(last, &[commit(tid, c.blocks, now().0)])?;
        self.wait_safe(ticket)?;
        if let Some(to) = c.new_tail {
            self.move_tail(to, false)?;
        }
        Ok(())
    }

    fn finish(&self, c: Closed) {
        let tid = c.txn.tid;
        // Nobody may be writing home what is about to be given away.
        let gone = || c.txn.revoked.iter().chain(&c.txn.forgotten);
        let quiet = gone().next().is_some().then(|| self.home.lock());
        {
            let mut s = self.state.lock();
            let s = &mut *s;
            let mut left = 0;
            for tag in &c.tags {
                let t = s.tracked.get_mut(&tag.home).expect("a committing block is tracked");
                t.committing = 0;
                let before = std::mem::replace(&mut t.home, tid);
                Self::one_less(&mut s.checkpoints, before);
                left += 1;
            }
            s.checkpoints.push_back(Checkpoint { tid, first: c.first, left, metas: Vec::new() });
            for lpa in gone() {
                let Some(t) = s.tracked.get_mut(lpa) else { continue };
                let before = std::mem::take(&mut t.home);
                Self::one_less(&mut s.checkpoints, before);
                if t.running == 0 {
                    t.content.let_go();
                    s.tracked.remove(lpa);
                    self.cache.forget(granary_units::Lpa(*lpa));
                }
            }
            if let Some(last) = s.checkpoints.back_mut() {
                last.metas = c.tags.iter().map(|t| t.home).collect();
            }
            Self::drop_finished(&mut s.checkpoints);
            if left > 0 && s.dirty_since.is_none() {
                s.dirty_since = Some(now());
                self.dirtied.notify_all();
            }
        }
        drop(quiet);
        (self.release)(&c.txn.freed);
        let mut s = self.state.lock();
        s.committing = None;
        s.committed = tid;
        drop(s);
        self.done.notify_all();
    }
}
