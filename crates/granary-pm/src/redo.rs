//! [`RedoLog`]: new bytes in a log before they are at home, as a file system inside a drive keeps them (DevFS
//! sections 3.3, 4.2).
//!
//! ```text
//!   region   | first 8 | 0 ... | lane 0: tx, tx, tx ... | lane 1 | lane 2 | lane 3 |
//!   tx       | magic 4 | CRC 4 | number 8 | bytes 4 | 0 4 | then for each change: address 8, length 4, 0 4,
//!            bytes |
//!
//!   commit   append a transaction to a lane | fence | changes at home, in the processors' caches
//!   settle   everything at home written back | fence | first := next number, all lanes empty
//! ```
//!
//! - A transaction is whole where its checksum fits, so that one fence commits it. It counts where its number
//!   is `first` or larger. Recovery brings all that count home, in the order of their numbers, and may be
//!   repeated.
//! - Lanes are for processors that commit at the same time. A number that is missing was never acknowledged,
//!   and nothing that was depends on it: who depends on a change begins after it has committed.
//! - All lanes are emptied at once: an older transaction that stayed would be brought home over a newer one's
//!   bytes.
//! - [`Keep::Capacitor`]: the log is memory that a capacitor keeps. Changes go home lazily, and what is
//!   streamed (data, new blocks) goes home past the log, before the commit. So a block of metadata that
//!   becomes free may be overwritten by what the log does not know: [`RedoLog::settle`] before it is free.
//! - [`Keep::Storage`]: the log is storage. Data goes through it, too, and each commit settles.
//!
//! It does *not* know any format but its own.

use crate::bytes::{put_u32, put_u64, u32_at, u64_at};
use crate::{BLOCK, Pm, corrupt};
use granary_device::Structure;
use granary_fs::{FsError, Result};
use granary_sim::sync::{Mutex, RwLock};
use granary_units::{ByteAddr, Page, Payload};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// `REDO`.
const MAGIC: u32 = u32::from_le_bytes(*b"REDO");
/// Bytes before a transaction's changes, and before a change's bytes.
const HEAD: usize = 24;
const CHANGE: usize = 16;
/// Bytes before the first lane.
const FRONT: u64 = 64;
/// Lanes: as many as DevFS's drive has processors.
const LANES: u64 = 4;

/// How the log survives a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Memory of the drive, by a capacitor.
    Capacitor,
    /// Storage.
    Storage,
}

/// Where a log is, and how it is used.
#[derive(Clone, Copy, Debug)]
pub struct RedoConfig {
    /// Address of its region.
    pub base: u64,
    /// Bytes of its region.
    pub bytes: u64,
    /// How the log survives a power failure.
    pub keep: Keep,
    /// Most bytes of transactions that are not at home: what the capacitor has energy for.
    pub budget: u64,
}

/// Counters of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedoStats {
    /// Transactions.
    pub commits: u64,
    /// Bytes appended.
    pub bytes: u64,
    /// Times that all was brought home.
    pub settles: u64,
    /// Of these, because a lane or the budget was full: whoever commits waits.
    pub stalls: u64,
    /// The most bytes that were in it and not at home.
    pub most_bytes: u64,
    /// Transactions that the mount brought home.
    pub replayed: u64,
}

/// A change on its way.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) what: Structure,
    /// Past the caches: data and whole blocks.
    pub(crate) streamed: bool,
}

/// One lane: where the next transaction goes.
struct Lane {
    next: u64,
}

/// The log.
pub struct RedoLog {
    config: RedoConfig,
    lanes: Vec<Mutex<Lane>>,
    /// Shared by those that commit, alone for who settles.
    gate: RwLock<()>,
    /// Number of the next transaction.
    next: AtomicU64,
    /// Bytes in all lanes.
    held: AtomicU64,
    /// Changes at home that only processors' caches have.
    unflushed: Mutex<Vec<(ByteAddr, usize)>>,
    commits: AtomicU64,
    bytes: AtomicU64,
    settles: AtomicU64,
    stalls: AtomicU64,
    most: AtomicU64,
    replayed: u64,
}

impl RedoLog {
    /// Bytes of a lane in a region of this size.
    fn lane_bytes(bytes: u64) -> u64 {
        (bytes - FRONT) / LANES / 64 * 64
    }

    /// Most bytes of the changes of one transaction, their addresses included.
    pub fn most_in_transaction(&self) -> u64 {
        RedoLog::lane_bytes(self.config.bytes).min(self.config.budget) - HEAD as u64
    }

    /// How it is kept.
    pub fn keep(&self) -> Keep {
        self.config.keep
    }

    /// Current counters.
    pub fn stats(&self) -> RedoStats {
        RedoStats {
            commits: self.commits.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            settles: self.settles.load(Relaxed),
            stalls: self.stalls.load(Relaxed),
            most_bytes: self.most.load(Relaxed),
            replayed: self.replayed,
        }
    }

    fn structure(&self) -> Structure {
        match self.config.keep {
            Keep::Capacitor => Structure::Journal,
            Keep::Storage => Structure::Log,
        }
    }

    /// At mount, of the bare storage: brings home what the log has, and empties it.
    ///
    /// # Errors
    /// `Corrupt` for a transaction that changes what lies beyond the end; the drive's.
    pub fn recover(pm: &Pm, config: RedoConfig) -> Result<RedoLog> {
        let lane = RedoLog::lane_bytes(config.bytes);
        if lane < BLOCK || config.budget <= BLOCK {
            return Err(FsError::Invalid);
        }
        let mut first = [0; 8];
        pm.load(config.base, &mut first, Structure::Journal)?;
        let first = u64_at(&first, 0);
        let mut found = Vec::new();
        for n in 0..LANES {
            let mut bytes = vec![0; lane as usize];
            pm.load(config.base + FRONT + n * lane, &mut bytes, Structure::Journal)?;
            let (mut rest, mut last) = (&bytes[..], None);
            while let Some((number, len)) =
                whole(rest).filter(|(n, _)| *n >= first && last.is_none_or(|l| *n > l))
            {
                found.push((number, rest[HEAD..len].to_vec()));
                (rest, last) = (&rest[len..], Some(number));
            }
        }
        found.sort_unstable_by_key(|(number, _)| *number);
        let end = pm.info().pages * BLOCK;
        let _step = (!found.is_empty())
            .then(|| granary_sim::step("redo log on persistent memory: a mount brings changes home"));
        let mut b = pm.batch();
        for (_, changes) in &found {
            for (at, bytes) in parse(changes) {
                if at > end || bytes.len() as u64 > end - at {
                    return Err(corrupt(format!("the redo log changes {} bytes at {at}", bytes.len())));
                }
                b.put(at, bytes, Structure::Inode)?;
            }
        }
        b.fence()?;
        let next = found.last().map_or(first, |(number, _)| number + 1);
        b.put_u64(config.base, next, Structure::Journal)?;
        b.fence()?;
        Ok(RedoLog {
            config,
            lanes: (0..LANES).map(|_| Mutex::new(Lane { next: 0 })).collect(),
            gate: RwLock::new(()),
            next: AtomicU64::new(next),
            held: AtomicU64::new(0),
            unflushed: Mutex::new(Vec::new()),
            commits: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            settles: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            most: AtomicU64::new(0),
            replayed: found.len() as u64,
        })
    }

    /// Makes these changes, all or nothing; they are safe on return. `pm` is the bare storage.
    pub(crate) fn commit(&self, pm: &Pm, changes: Vec<Change>) -> Result<()> {
        let size: usize = changes.iter().map(|c| CHANGE + c.bytes.len()).sum();
        let mut tx = vec![0; HEAD];
        tx.reserve(size);
        for c in &changes {
            let mut head = [0; CHANGE];
            put_u64(&mut head, 0, c.at);
            put_u32(&mut head, 8, c.bytes.len() as u32);
            tx.extend(head);
            tx.extend(&c.bytes);
        }
        if size as u64 > self.most_in_transaction() {
            return Err(corrupt(format!(
                "a transaction of {size} bytes is more than the redo log has room for"
            )));
        }
        self.append(pm, &mut tx, changes)?;
        match self.config.keep {
            Keep::Capacitor => Ok(()),
            Keep::Storage => self.settle(pm),
        }
    }

    fn append(&self, pm: &Pm, tx: &mut [u8], changes: Vec<Change>) -> Result<()> {
        let lane_bytes = RedoLog::lane_bytes(self.config.bytes);
        loop {
            let gate = self.gate.read();
            let n = u64::from(granary_sim::core()) % LANES;
            let mut lane = self.lanes[n as usize].lock();
            let room = lane_bytes - lane.next;
            if tx.len() as u64 > room || self.held.load(Relaxed) + tx.len() as u64 > self.config.budget {
                drop((lane, gate));
                self.stalls.fetch_add(1, Relaxed);
                self.settle(pm)?;
                continue;
            }
            let number = self.next.fetch_add(1, Relaxed);
            seal(tx, number);
            let mut b = pm.batch();
            b.stream(
                self.config.base + FRONT + n * lane_bytes + lane.next,
                Payload::Bytes(tx),
                self.structure(),
            )?;
            b.fence()?;
            lane.next += tx.len() as u64;
            let held = self.held.fetch_add(tx.len() as u64, Relaxed) + tx.len() as u64;
            drop(lane);
            self.commits.fetch_add(1, Relaxed);
            self.bytes.fetch_add(tx.len() as u64, Relaxed);
            self.most.fetch_max(held, Relaxed);
            // At home for all to see, before anybody can settle.
            for c in changes {
                self.bring_home(pm, &c)?;
            }
            drop(gate);
            return Ok(());
        }
    }

    fn bring_home(&self, pm: &Pm, c: &Change) -> Result<()> {
        let mut b = pm.batch();
        if c.streamed {
            return b.stream(c.at, Payload::Bytes(&c.bytes), c.what);
        }
        b.put(c.at, &c.bytes, c.what)?;
        self.unflushed.lock().extend(b.keep());
        Ok(())
    }

    /// Changes that need not survive: at home, without the log.
    pub(crate) fn bring_home_all(&self, pm: &Pm, changes: Vec<Change>) -> Result<()> {
        changes.iter().try_for_each(|c| self.bring_home(pm, c))
    }

    /// Writes back all that is at home, and empties the log.
    ///
    /// # Errors
    /// The drive's.
    pub fn settle(&self, pm: &Pm) -> Result<()> {
        let _step = granary_sim::step("redo log on persistent memory: changes are brought home");
        let _alone = self.gate.write();
        let ranges = std::mem::take(&mut *self.unflushed.lock());
        if self.held.load(Relaxed) == 0 && ranges.is_empty() {
            return Ok(());
        }
        let mut b = pm.batch();
        b.resume(ranges);
        b.write_back()?;
        // Covers the bytes that other tasks streamed home, too.
        pm.port.verify()?;
        b.put_u64(self.config.base, self.next.load(Relaxed), self.structure())?;
        b.fence()?;
        for lane in &self.lanes {
            lane.lock().next = 0;
        }
        self.held.store(0, Relaxed);
        self.settles.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// Fills in the head of a transaction.
fn seal(tx: &mut [u8], number: u64) {
    let len = tx.len() as u32;
    put_u32(tx, 0, MAGIC);
    put_u64(tx, 8, number);
    put_u32(tx, 16, len);
    put_u32(tx, 20, 0);
    let sum = crc32c::crc32c(&tx[8..]);
    put_u32(tx, 4, sum);
}

/// The whole transaction that these bytes begin with: its number and length.
fn whole(bytes: &[u8]) -> Option<(u64, usize)> {
    if bytes.len() < HEAD || u32_at(bytes, 0) != MAGIC {
        return None;
    }
    let len = u32_at(bytes, 16) as usize;
    let tx = bytes.get(..len).filter(|tx| tx.len() >= HEAD)?;
    (crc32c::crc32c(&tx[8..]) == u32_at(tx, 4)).then(|| (u64_at(tx, 8), len))
}

/// The changes of a transaction: their addresses and bytes.
fn parse(mut changes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = changes.split_at_checked(CHANGE)?;
        let (bytes, rest) = rest.split_at_checked(u32_at(head, 8) as usize)?;
        changes = rest;
        Some((u64_at(head, 0), bytes))
    })
}

/// A whole page as a change.
pub(crate) fn page_change(block: u64, page: &Page, what: Structure) -> Change {
    Change { at: block * BLOCK, bytes: page.to_bytes().to_vec(), what, streamed: true }
}

#[cfg(test)]
mod tests;
