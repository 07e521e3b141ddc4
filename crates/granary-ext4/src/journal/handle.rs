//! [`Handle`]: one operation's part in the running transaction.

use super::{Content, Journal, Running, Tracked};
use crate::layout::BlockBytes;
use granary_kit::Block;
use granary_sim::{costs, cpu};
use granary_units::{Nanos, Page};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// Blocks that a handle remembers having announced; more are announced again, which is only slower.
const SEEN: usize = 16;

/// An open handle. While it lives its transaction cannot commit; end it with [`Handle::stop`].
pub(crate) struct Handle<'j> {
    journal: &'j Journal,
    tid: u32,
    credits: u32,
    /// Blocks that this handle brought into the transaction.
    used: u32,
    seen: [u64; SEEN],
    touched: u32,
    /// Processor time of the changes, beyond the journal's.
    work: Nanos,
    open: bool,
}

impl<'j> Handle<'j> {
    pub(super) fn new(journal: &'j Journal, tid: u32, credits: u32) -> Handle<'j> {
        Handle {
            journal,
            tid,
            credits,
            used: 0,
            seen: [u64::MAX; SEEN],
            touched: 0,
            work: Nanos::ZERO,
            open: true,
        }
    }

    /// The transaction.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// The operation's changes cost the processor so much, beyond the journal's part.
    pub fn work(&mut self, cost: Nanos) {
        self.work += cost;
    }

    /// Blocks that may still be brought into the transaction.
    pub fn room(&self) -> u32 {
        self.credits - self.used
    }

    /// Changes a metadata block as part of the transaction.
    pub fn change<T>(&mut self, block: &Arc<Block>, f: impl FnOnce(&mut BlockBytes) -> T) -> T {
        self.touch(block);
        block.change(f)
    }

    /// Announces that a block is going to be changed.
    fn touch(&mut self, block: &Arc<Block>) {
        let lpa = block.lpa().0;
        if self.seen[..(self.touched as usize).min(SEEN)].contains(&lpa) {
            return;
        }
        if (self.touched as usize) < SEEN {
            self.seen[self.touched as usize] = lpa;
        }
        self.enter(lpa, |tracked| {
            let t = tracked.entry(lpa).or_insert_with(|| {
                block.pin();
                Tracked {
                    content: Content::Meta(Arc::clone(block)),
                    running: 0,
                    committing: 0,
                    home: 0,
                    doomed: false,
                }
            });
            let one = matches!(&t.content, Content::Meta(known) if Arc::ptr_eq(known, block));
            assert!(one, "one cached copy of block {lpa}");
            t
        });
    }

    /// File data that belongs at `lpa` becomes part of the transaction (`data = "journal"`).
    pub fn data(&mut self, lpa: u64, page: Page) {
        self.enter(lpa, |tracked| {
            let new = || Tracked {
                content: Content::Data(Page::ZERO),
                running: 0,
                committing: 0,
                home: 0,
                doomed: false,
            };
            let t = tracked.entry(lpa).or_insert_with(new);
            assert!(matches!(t.content, Content::Data(_)), "block {lpa} is a file's");
            t.content = Content::Data(page);
            t
        });
    }

    /// Brings the block that `find` says into the running transaction.
    fn enter(&mut self, lpa: u64, find: impl FnOnce(&mut FxHashMap<u64, Tracked>) -> &mut Tracked) {
        self.touched += 1;
        let mut s = self.journal.state.lock();
        let s = &mut *s;
        let t = find(&mut s.tracked);
        if t.running == 0 {
            t.running = self.tid;
            t.doomed = false;
            self.used += 1;
            assert!(self.used <= self.credits, "an operation changed more than its {} blocks", self.credits);
            s.running.as_mut().expect("the handle keeps it running").metas.push(lpa);
        }
    }

    /// Whether metadata that have not all come home belong into one of these blocks. With `data = "journal"`
    /// that tells nothing: what was freed stays known.
    pub fn has_metadata_in(&self, blocks: Range<u64>) -> bool {
        if self.journal.config.data {
            return false;
        }
        let s = self.journal.state.lock();
        let held = |lpa: u64| s.tracked.get(&lpa).is_some_and(|t| !t.doomed);
        // Long runs are longer than what is known.
        if blocks.end - blocks.start <= s.tracked.len() as u64 {
            return blocks.into_iter().any(held);
        }
        s.tracked.iter().any(|(lpa, t)| blocks.contains(lpa) && !t.doomed)
    }

    /// A metadata block that has been [`Handle::freed`]: older journalled copies must not be replayed.
    pub fn revoke(&mut self, lpa: u64) {
        if self.journal.config.data {
            return; // what comes there is journalled: see the module of the journal
        }
        let mut s = self.journal.state.lock();
        let s = &mut *s;
        let running = s.running.as_mut().expect("the handle keeps it running");
        drop_from(&mut s.tracked, lpa);
        running.revoked.push(lpa);
        self.announce_anew(lpa, 1);
    }

    /// A later block at one of these places is announced again.
    fn announce_anew(&mut self, start: u64, len: u32) {
        for seen in &mut self.seen {
            if (start..start + len as u64).contains(seen) {
                *seen = u64::MAX;
            }
        }
    }

    /// Blocks are free once the transaction has committed.
    pub fn freed(&mut self, start: u64, len: u32) {
        let mut s = self.journal.state.lock();
        let s = &mut *s;
        let Running { freed, forgotten, .. } = s.running.as_mut().expect("the handle keeps it running");
        match freed.last_mut() {
            Some((first, n)) if *first + *n as u64 == start => *n += len,
            Some((first, n)) if start + len as u64 == *first => (*first, *n) = (start, *n + len),
            _ => freed.push((start, len)),
        }
        if self.journal.config.data {
            // Its room in the transaction stays taken, as in jbd2 (`journal_unmap_buffer`).
            forgotten.extend((start..start + len as u64).filter(|lpa| drop_from(&mut s.tracked, *lpa)));
            self.announce_anew(start, len);
        }
    }

    /// File data that the transaction must not overtake is on the drive from `done` on.
    pub fn ordered(&mut self, done: Nanos) {
        let mut s = self.journal.state.lock();
        let r = s.running.as_mut().expect("the handle keeps it running");
        r.ordered = r.ordered.max(done);
    }

    /// The commit writes this page of a file, too, where it is dirty then (`ext4_jbd2_inode_add_write`).
    pub fn cut_page(&mut self, ino: u32, page: u32) {
        let mut s = self.journal.state.lock();
        s.running.as_mut().expect("the handle keeps it running").cut.insert((ino, page));
    }

    /// Charges the CPU time of the changes and lets the transaction go.
    pub fn stop(mut self) {
        let c = costs();
        let journal =
            c.journal_handle + c.journal_block * self.touched as u64 + c.journal_join * self.used as u64;
        cpu(journal + self.work);
        self.let_go();
    }

    fn let_go(&mut self) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        let drained = {
            let mut s = self.journal.state.lock();
            let Some(r) = s.running.as_mut() else { return };
            r.updates -= 1;
            r.reserved -= self.credits;
            r.locked && r.updates == 0
        };
        if drained {
            self.journal.drained.notify_all();
        }
    }
}

/// A freed block need not be journalled by the running transaction. It stays tracked where it is: the home
/// write waits, and is dropped when this transaction has committed (`jbd2_journal_forget`, BJ_Forget).
/// Returns whether it is known.
fn drop_from(tracked: &mut FxHashMap<u64, Tracked>, lpa: u64) -> bool {
    tracked.get_mut(&lpa).map(|t| (t.running, t.doomed) = (0, true)).is_some()
}

impl Drop for Handle<'_> {
    /// Only where a task is unwound: no waiting here.
    fn drop(&mut self) {
        self.let_go();
    }
}
