//! [`Journal`]: transactions, their group, and its commit.
//!
//! ```text
//!   sequence:  1 ............ committed ............ sealed          in the running group, all under its one
//!                                                                    TxID:
//!              durable       | group of the leader | running group   transactions inside ─ seal ─> waiting
//!
//!   leader:  close the group ── those inside seal ── open the next ── bitmap lines of all ── verify
//!            ── COMMIT ── wait
//! ```
//!
//! A task that needs durability up to a sequence number has three ways: it finds the number committed, waits
//! for the leader at work, or becomes the leader itself and commits the running group.
//!
//! Invariants:
//! - Nobody is inside when a group ends, and nobody enters the next before. So a line changed in one group is
//!   changed later in the next: log order is commit order.
//! - Tasks inside wait for lines and for the drive only, so the leader's wait ends.
//!
//! Source: the group is jbd2's compound transaction (Linux `fs/jbd2/transaction.c`, T_LOCKED); ByteFS
//! section 4.3 has a TxID and a COMMIT for each operation, which is `commit = "sync"` here.

use crate::journal::redo::{Image, Redo};
use crate::journal::tx::ManyBits;
use crate::space::Run;
use granary_device::Port;
use granary_device::vendor::transactions::Transactions;
use granary_fs::{FsError, Result};
use granary_sim::sync::{Condvar, Mutex};
use granary_units::TxId;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

struct State {
    /// The running group's.
    tx: TxId,
    /// Transactions that have entered the running group and not sealed.
    inside: u32,
    /// The leader waits for them; nobody enters.
    closing: bool,
    /// Tasks that wait to enter.
    outside: u32,
    /// Transactions sealed in the running group.
    waiting: usize,
    /// Lines of the running group, of those inside too.
    lines: u64,
    /// Changes of its transactions to the bitmaps, in the order of their seals.
    bits: ManyBits,
    /// Its lines, where the host keeps the redo log.
    images: Vec<Image>,
    sealed: u64,
    committed: u64,
    leader: bool,
    groups: u64,
}

/// The order of transactions.
pub struct Journal {
    state: Mutex<State>,
    /// A group was committed.
    done: Condvar,
    /// Nobody is inside any more.
    drained: Condvar,
    /// The running group takes transactions, or one was sealed.
    opened: Condvar,
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
    /// An empty journal whose first transaction is `next_tx`; with `redo` it commits there and not in the
    /// firmware.
    pub fn new(next_tx: u32, redo: Option<Redo>) -> Journal {
        let state = State {
            tx: TxId::NONE,
            inside: 0,
            closing: false,
            outside: 0,
            waiting: 0,
            lines: 0,
            bits: ManyBits::new(),
            images: Vec::new(),
            sealed: 0,
            committed: 0,
            leader: false,
            groups: 0,
        };
        let journal = Journal {
            state: Mutex::new(state),
            done: Condvar::new(),
            drained: Condvar::new(),
            opened: Condvar::new(),
            sealed: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            next_tx: AtomicU32::new(next_tx),
            redo,
            posted: AtomicU64::new(0),
            verified: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            why: parking_lot::Mutex::new(None),
        };
        let first = journal.new_tx();
        journal.state.lock().tx = first;
        journal
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

    /// Enters the running group with a transaction of `lines` lines; returns the group's TxID. `None`: the
    /// group has no room for them among `most` and is to be committed first. A transaction larger than that
    /// gets a group of its own.
    ///
    /// # Errors
    /// Why the journal stopped.
    pub fn enter(&self, lines: u64, most: u64) -> Result<Option<TxId>> {
        let mut s = self.state.lock();
        loop {
            self.alive()?;
            if !s.closing {
                if s.lines == 0 || s.lines + lines <= most {
                    s.inside += 1;
                    s.lines += lines;
                    return Ok(Some(s.tx));
                }
                if s.waiting > 0 {
                    return Ok(None);
                }
            }
            s.outside += 1;
            self.opened.wait(&mut s);
            s.outside -= 1;
        }
    }

    /// Gives a transaction that entered, all of whose lines are stored, its place in the order. Returns its
    /// sequence number, and how many transactions wait now.
    pub fn seal(&self, bits: ManyBits, image: Option<Box<Image>>) -> (u64, usize) {
        let mut s = self.state.lock();
        s.bits.extend(bits);
        s.images.extend(image.map(|i| *i));
        s.waiting += 1;
        s.sealed += 1;
        self.sealed.store(s.sealed, Relaxed);
        let place = (s.sealed, s.waiting);
        self.left(&mut s);
        place
    }

    /// A transaction that entered has failed; the journal has stopped.
    pub fn abandon(&self) {
        self.left(&mut self.state.lock());
    }

    fn left(&self, s: &mut State) {
        s.inside -= 1;
        if s.closing && s.inside == 0 {
            self.drained.notify_all();
        }
        if s.outside > 0 {
            self.opened.notify_all();
        }
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

    /// Makes all transactions up to `seq` durable. The leader has the bitmap lines of the group stored by
    /// `store_bits`. Returns whether this task led a group.
    ///
    /// # Errors
    /// Of the drive; the journal has stopped then.
    pub fn commit_to(
        &self,
        port: &Port,
        seq: u64,
        store_bits: impl Fn(TxId, ManyBits) -> Result<Option<Box<Image>>>,
    ) -> Result<bool> {
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
            (s.leader, s.closing) = (true, true);
            while s.inside > 0 {
                self.drained.wait(&mut s);
            }
            let (tx, upto) = (std::mem::replace(&mut s.tx, self.new_tx()), s.sealed);
            let (bits, mut images) = (std::mem::take(&mut s.bits), std::mem::take(&mut s.images));
            (s.waiting, s.lines, s.closing) = (0, 0, false);
            if s.outside > 0 {
                self.opened.notify_all();
            }
            drop(s);
            // Somebody inside may have failed.
            let stored = self.alive().and_then(|()| store_bits(tx, bits));
            let result = stored.and_then(|image| {
                images.extend(image.map(|i| *i));
                self.commit_group(port, tx, &images)
            });
            let result = self.fatal(result);
            s = self.state.lock();
            s.leader = false;
            led = true;
            if result.is_ok() {
                s.committed = upto;
                s.groups += 1;
                self.committed.store(upto, Relaxed);
            }
            self.done.notify_all();
            result?;
        }
        Ok(led)
    }

    fn commit_group(&self, port: &Port, tx: TxId, images: &[Image]) -> Result<()> {
        if let Some(redo) = &self.redo {
            return redo.commit(port, images);
        }
        self.verify(port)?;
        let done = port.require::<Transactions>()?.submit_commit(tx)?;
        port.wait(done);
        Ok(())
    }

    /// Commits one transaction by itself.
    ///
    /// # Errors
    /// Of the drive.
    pub fn commit_one(&self, port: &Port, tx: TxId, image: Option<Box<Image>>) -> Result<()> {
        self.commit_group(port, tx, image.as_deref().map_or(&[], std::slice::from_ref))
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

    /// The number of the last byte store outside transactions.
    pub fn posted_so_far(&self) -> u64 {
        self.posted.load(Relaxed)
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
        self.verify_to(port, self.posted_so_far())
    }

    fn verify(&self, port: &Port) -> Result<()> {
        let before = self.posted.load(Relaxed);
        port.verify()?;
        self.verified.fetch_max(before, Relaxed);
        Ok(())
    }
}
