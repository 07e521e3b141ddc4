//! Checkpoint: committed blocks go home, and the log's tail follows.
//!
//! The flusher asks for blocks older than 30 s; `sync` and unmount ask for all. An operation that finds the
//! log short of room for the largest transaction asks for the oldest transactions, in batches of 64. The tail
//! moves by a write of the journal's superblock with FUA, after a flush unless a commit just sent one.

use super::{Checkpoint, Journal};
use granary_device::Ticket;
use granary_fs::Result;
use granary_units::{Lpa, Page};
use std::collections::VecDeque;

/// Which blocks to write home.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// All.
    All,
    /// Those whose last committed copy is in this transaction.
    Of(u32),
}

impl Journal {
    /// Writes committed blocks home; those in a running or committing transaction stay for later.
    pub(super) fn write_home(&self, which: Which) -> Result<()> {
        let _pass = self.home.lock();
        let mut todo: Vec<u64> = {
            let mut s = self.state.lock();
            match which {
                Which::All => {
                    s.dirty_since = None;
                    s.tracked.iter().filter(|(_, t)| t.home != 0).map(|(lpa, _)| *lpa).collect()
                }
                Which::Of(tid) => {
                    s.checkpoints.iter().find(|c| c.tid == tid).map_or(Vec::new(), |c| c.metas.clone())
                }
            }
        };
        todo.sort_unstable();
        // 64 = JBD2_NR_BATCH; the flusher's chunks are larger.
        let batch = if which == Which::All { 1024 } else { 64 };
        for lpas in todo.chunks(batch) {
            self.write_home_batch(lpas, which)?;
        }
        Ok(())
    }

    fn write_home_batch(&self, lpas: &[u64], which: Which) -> Result<()> {
        let _step = granary_sim::step("ext4: committed blocks are written home");
        let mut found = Vec::with_capacity(lpas.len());
        let mut pages: Vec<Page> = Vec::with_capacity(lpas.len());
        {
            let s = self.state.lock();
            for lpa in lpas {
                let Some(t) = s.tracked.get(lpa) else { continue };
                let wanted = t.home != 0 && (which == Which::All || which == Which::Of(t.home));
                if wanted && t.running == 0 && t.committing == 0 && !t.doomed {
                    found.push((*lpa, t.content.what(), t.home));
                    pages.push(t.content.snapshot());
                }
            }
        }
        let (mut ticket, mut at) = (Ticket::NONE, 0);
        for run in found.chunk_by(|a, b| a.0 + 1 == b.0 && a.1 == b.1) {
            let part = &pages[at..at + run.len()];
            ticket = ticket.and(self.port.submit_write(Lpa(run[0].0), part, run[0].1)?);
            at += run.len();
        }
        self.port.wait(ticket);
        let mut s = self.state.lock();
        let s = &mut *s;
        s.stats.home_blocks += found.len() as u64;
        for (lpa, _, tid) in found {
            let Some(t) = s.tracked.get_mut(&lpa).filter(|t| t.home == tid) else { continue };
            t.home = 0;
            Self::one_less(&mut s.checkpoints, tid);
            if t.running == 0 && t.committing == 0 {
                t.content.let_go();
                s.tracked.remove(&lpa);
            }
        }
        Self::drop_finished(&mut s.checkpoints);
        Ok(())
    }

    /// Writes these blocks home as far as they are committed and in no younger transaction; returns the
    /// others that wait.
    pub fn write_some_home(&self, lpas: Vec<u64>) -> Result<Vec<u64>> {
        let _pass = self.home.lock();
        self.write_home_batch(&lpas, Which::All)?;
        let s = self.state.lock();
        Ok(lpas.into_iter().filter(|lpa| s.tracked.contains_key(lpa)).collect())
    }

    /// One block fewer waits on behalf of transaction `tid` (0 = none).
    pub(super) fn one_less(checkpoints: &mut VecDeque<Checkpoint>, tid: u32) {
        if tid != 0
            && let Ok(i) = checkpoints.binary_search_by_key(&tid, |c| c.tid)
        {
            checkpoints[i].left -= 1;
        }
    }

    /// Forgets the oldest transactions while they are wholly home.
    pub(super) fn drop_finished(checkpoints: &mut VecDeque<Checkpoint>) {
        while checkpoints.front().is_some_and(|c| c.left == 0) {
            checkpoints.pop_front();
        }
    }

    /// Where the tail could be now: (transaction, log block).
    fn possible_tail(&self) -> (u32, u32) {
        let s = self.state.lock();
        match (s.checkpoints.front(), s.committing, &s.running) {
            (Some(c), ..) => (c.tid, c.first),
            (None, Some(c), _) => (c.tid, c.first),
            (None, None, Some(r)) => (r.tid, s.head),
            (None, None, None) => (s.next_tid, s.head),
        }
    }

    /// Moves the tail on media and in memory, where `to` is ahead of it.
    pub(super) fn move_tail(&self, to: (u32, u32), flush: bool) -> Result<bool> {
        let _tail = self.tail.lock();
        if to.0 <= self.state.lock().tail_tid {
            return Ok(false);
        }
        let _step = granary_sim::step("ext4: the log's tail moves");
        if flush {
            self.flush()?;
        }
        self.write_super(to.0, to.1, true)?;
        let mut s = self.state.lock();
        s.free += self.distance(s.tail, to.1);
        (s.tail_tid, s.tail) = to;
        Ok(true)
    }

    /// Makes room in the log for one more transaction of any size. The caller has no handle.
    pub(super) fn make_space(&self) -> Result<()> {
        let _one = self.space.lock();
        loop {
            let (oldest, running, committing) = {
                let s = self.state.lock();
                if let Some(e) = &s.aborted {
                    return Err(e.clone());
                }
                if s.free >= self.max_transaction + 32 {
                    return Ok(());
                }
                (s.checkpoints.front().map(|c| c.tid), s.running.as_ref().map(|r| r.tid), s.committing)
            };
            let _step = granary_sim::step("ext4: the log is full");
            if let Some(tid) = oldest {
                self.write_home(Which::Of(tid))?;
            }
            if self.move_tail(self.possible_tail(), true)? {
                continue;
            }
            // The rest of the oldest transaction is in a younger one that must commit first.
            let stuck = self.state.lock().checkpoints.front().map(|c| c.tid) == oldest;
            if let Some(tid) = running.or(committing.map(|c| c.tid)).filter(|_| stuck) {
                let mut s = self.state.lock();
                self.wait_committed(&mut s, tid)?;
            }
        }
    }

    /// Commits, writes everything home and marks the log empty: the end of a mount.
    ///
    /// # Errors
    /// Of the drive.
    pub fn shut_down(&self) -> Result<()> {
        let _step = granary_sim::step("ext4: the journal is shut down");
        self.sync()?;
        self.flush()?;
        let (sequence, used) = {
            let mut s = self.state.lock();
            assert!(s.tracked.is_empty(), "{} blocks are not home after a sync", s.tracked.len());
            let used = !std::mem::replace(&mut s.marked_empty, true);
            (s.next_tid, used)
        };
        if used {
            let _tail = self.tail.lock();
            self.write_super(sequence, 0, true)?;
        }
        Ok(())
    }

    /// Commits and writes everything home, as `sync(2)` does. Data that was written in place earlier is on
    /// flash as well: where no commit block will come, an empty flush goes to the drive (the kernel's
    /// `ext4_sync_fs`).
    ///
    /// # Errors
    /// Of the drive.
    pub fn sync(&self) -> Result<()> {
        self.sync_tid(self.present_tid())?;
        self.write_home(Which::All)
    }

    /// Blocks that committed but are not home, and blocks of the running transaction: for `check`.
    pub fn pending(&self) -> usize {
        self.state.lock().tracked.len()
    }
}
