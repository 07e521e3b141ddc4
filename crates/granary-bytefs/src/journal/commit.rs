//! [`Journal`]: sealed transactions and their group commit.
//!
//! ```text
//!   sequence:  1 ............ committed ............ sealed
//!              durable       | queue of TxIDs      |
//!                            | taken by the leader |
//! ```
//!
//! Who needs durability up to a sequence number either finds it committed, waits for the leader at work, or becomes
//! the leader himself and commits everything that is sealed.

use crate::journal::redo::{Image, Redo};
use crate::space::Run;
use granary_mssd::{Port, Ticket};
use granary_sim::sync::{Condvar, Mutex};
use granary_units::TxId;
use granary_vfs::{FsError, Result};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A transaction that waits for its COMMIT.
struct Sealed {
    tx: TxId,
    /// Its lines, where the host keeps the redo log.
    image: Option<Box<Image>>,
}

#[derive(Default)]
struct State {
    queue: Vec<Sealed>,
    /// Lines that the queued transactions stored.
    lines: u64,
    sealed: u64,
    committed: u64,
    leader: bool,
    groups: u64,
}

/// The order of transactions.
pub struct Journal {
    state: Mutex<State>,
    done: Condvar,
    /// Copies of the state's numbers, to be read without the lock.
    sealed: AtomicU64,
    committed: AtomicU64,
    next_tx: AtomicU32,
    /// The host's redo log, where the firmware has none.
    redo: Option<Redo>,
    /// Byte stores outside transactions so far, and how many of them a verify is known to cover.
    posted: AtomicU64,
    verified: AtomicU64,
    broken: AtomicBool,
    why: parking_lot::Mutex<Option<FsError>>,
}

impl Journal {
    /// An empty journal whose first transaction is `next_tx`; with `redo` it commits there and not in the firmware.
    pub fn new(next_tx: u32, redo: Option<Redo>) -> Journal {
        Journal {
            state: Mutex::new(State::default()),
            done: Condvar::new(),
            sealed: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            next_tx: AtomicU32::new(next_tx),
            redo,
            posted: AtomicU64::new(0),
            verified: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            why: parking_lot::Mutex::new(None),
        }
    }

    /// A new transaction number; never [`TxId::NONE`].
    pub fn new_tx(&self) -> TxId {
        loop {
            let tx = TxId(self.next_tx.fetch_add(1, Relaxed));
            if tx != TxId::NONE {
                return tx;
            }
        }
    }

    /// The number that the next transaction will have.
    pub fn next_tx(&self) -> u32 {
        self.next_tx.load(Relaxed)
    }

    /// Stops everything: memory is ahead of the media and cannot catch up.
    pub fn fail(&self, why: FsError) {
        self.why.lock().get_or_insert(why);
        self.broken.store(true, Relaxed);
    }

    /// Whether changes are still possible.
    ///
    /// # Errors
    /// Why the journal stopped.
    pub fn alive(&self) -> Result<()> {
        if !self.broken.load(Relaxed) {
            return Ok(());
        }
        Err(self.why.lock().clone().unwrap_or(FsError::ReadOnly))
    }

    /// Passes `result` on; an error stops the journal.
    pub fn fatal<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|e| self.fail(e.clone()))
    }

    /// Gives a transaction, all of whose lines are stored, its place in the order. Returns its sequence number, and how
    /// many transactions wait now and their lines.
    pub fn seal(&self, tx: TxId, lines: u64, image: Option<Box<Image>>) -> (u64, usize, u64) {
        let mut s = self.state.lock();
        s.queue.push(Sealed { tx, image });
        s.lines += lines;
        s.sealed += 1;
        self.sealed.store(s.sealed, Relaxed);
        (s.sealed, s.queue.len(), s.lines)
    }

    /// Like [`Journal::seal`] for a transaction that was committed already.
    pub fn seal_committed(&self) -> u64 {
        let mut s = self.state.lock();
        s.sealed += 1;
        s.committed += 1;
        s.groups += 1;
        self.sealed.store(s.sealed, Relaxed);
        self.committed.store(s.committed, Relaxed);
        s.sealed
    }

    /// The last sequence number given.
    pub fn sealed(&self) -> u64 {
        self.sealed.load(Relaxed)
    }

    /// Everything up to here is committed.
    pub fn committed(&self) -> u64 {
        self.committed.load(Relaxed)
    }

    /// Group commits so far.
    pub fn groups(&self) -> u64 {
        self.state.lock().groups
    }

    /// Makes all transactions up to `seq` durable. Returns whether this task led a group.
    ///
    /// # Errors
    /// Of the drive; the journal has stopped then.
    pub fn commit_to(&self, port: &Port, seq: u64) -> Result<bool> {
        if self.committed() >= seq {
            return Ok(false);
        }
        let mut led = false;
        let mut s = self.state.lock();
        while s.committed < seq {
            self.alive()?;
            if s.leader {
                self.done.wait(&mut s);
                continue;
            }
            s.leader = true;
            let group = std::mem::take(&mut s.queue);
            s.lines = 0;
            let upto = s.sealed;
            drop(s);
            let result = self.fatal(self.commit_group(port, &group));
            s = self.state.lock();
            s.leader = false;
            led = true;
            if result.is_ok() {
                s.committed = upto;
                s.groups += 1;
                self.committed.store(upto, Relaxed);
                if s.queue.is_empty() {
                    // Keep the allocation for the next group.
                    s.queue = group;
                    s.queue.clear();
                }
            }
            self.done.notify_all();
            result?;
        }
        Ok(led)
    }

    fn commit_group(&self, port: &Port, group: &[Sealed]) -> Result<()> {
        if let Some(redo) = &self.redo {
            let images: Vec<&Image> = group.iter().filter_map(|s| s.image.as_deref()).collect();
            return redo.commit(port, &images);
        }
        self.verify(port)?;
        let mut all = Ticket::NONE;
        for sealed in group {
            all = all.and(port.submit_commit(sealed.tx)?);
        }
        port.wait(all);
        Ok(())
    }

    /// Commits one transaction by itself.
    ///
    /// # Errors
    /// Of the drive.
    pub fn commit_one(&self, port: &Port, tx: TxId, image: Option<Box<Image>>) -> Result<()> {
        self.commit_group(port, &[Sealed { tx, image }])
    }

    /// Whether transactions leave their lines to the host's redo log.
    pub fn is_redo(&self) -> bool {
        self.redo.is_some()
    }

    /// These blocks are about to get new owners: recovery must not store what they held before.
    ///
    /// # Errors
    /// Of the drive.
    pub fn retire(&self, port: &Port, runs: &[Run]) -> Result<()> {
        self.redo.as_ref().map_or(Ok(()), |redo| redo.retire(port, runs))
    }

    /// Counts a byte store outside transactions; the number is for [`Journal::verify_to`].
    pub fn posted(&self) -> u64 {
        self.posted.fetch_add(1, Relaxed) + 1
    }

    /// Makes sure that byte store number `posted` has reached the drive's safe memory.
    ///
    /// # Errors
    /// Of the drive.
    pub fn verify_to(&self, port: &Port, posted: u64) -> Result<()> {
        if self.verified.load(Relaxed) < posted { self.verify(port) } else { Ok(()) }
    }

    /// Makes sure that every byte store so far has.
    ///
    /// # Errors
    /// Of the drive.
    pub fn verify_all(&self, port: &Port) -> Result<()> {
        self.verify_to(port, self.posted.load(Relaxed))
    }

    fn verify(&self, port: &Port) -> Result<()> {
        let before = self.posted.load(Relaxed);
        port.verify()?;
        self.verified.fetch_max(before, Relaxed);
        Ok(())
    }
}
