//! [`TxLog`]: the transactions that committed, in their order.
//!
//! ```text
//!   oldest | tx 4 B | tx | tx | tx | ...  newest      at most 2 MiB; COMMIT appends
//!          `-- purged when cleaning has proved that no --'
//!              entry of these is left in the log
//! ```
//!
//! When a half of the log becomes the one to be cleaned, every transaction that has committed by then has all
//! its entries in that half or nowhere (COMMIT comes after the last store). Once it is cleaned, that prefix
//! of the TxLog is purged.
//!
//! Wrap-around of the 4 B numbers: a number is looked up here only, and stays for at most `capacity` further
//! commits (a full TxLog forces cleaning). So a number may be used again after 2^32 transactions without
//! being mistaken, as long as the host skips 0 ([`TxId::NONE`]) and the numbers of transactions that still
//! run.
//!
//! In an image the TxLog is a ring: commit number `n` since the drive was made is at `4 (n % capacity)`, and
//! the numbers of commits purged and made are kept beside it.
//!
//! Invariants: no number twice. Battery-backed: it survives power loss.
//!
//! Source: ByteFS section 4.3.

use granary_redo::redo::Redo;
use granary_units::{Bytes, TxId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A set of transactions, one bit each, 64 to a word: hosts number them one after the other, so that half a
/// million of them take 128 KiB and looking one up stays in the processor's caches.
#[derive(Clone, Default)]
struct Numbers(FxHashMap<u32, u64>);

impl Numbers {
    /// Where a number is: its word, and its bit there.
    #[inline]
    fn place(tx: TxId) -> (u32, u64) {
        (tx.0 / 64, 1 << (tx.0 % 64))
    }

    #[inline]
    fn contains(&self, tx: TxId) -> bool {
        let (word, bit) = Numbers::place(tx);
        self.0.get(&word).is_some_and(|w| w & bit != 0)
    }

    /// Whether it was not there.
    fn insert(&mut self, tx: TxId) -> bool {
        let (word, bit) = Numbers::place(tx);
        let word = self.0.entry(word).or_default();
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn remove(&mut self, tx: TxId) {
        let (word, bit) = Numbers::place(tx);
        if let Some(w) = self.0.get_mut(&word) {
            *w &= !bit;
            if *w == 0 {
                self.0.remove(&word);
            }
        }
    }

    fn len(&self) -> usize {
        self.0.values().map(|w| w.count_ones() as usize).sum()
    }
}

/// The transaction log.
#[derive(Clone)]
pub struct TxLog {
    order: VecDeque<TxId>,
    /// The same numbers, for looking up; rebuilt from `order` after power loss.
    present: Numbers,
    capacity: usize,
    /// Commits purged since the drive was made.
    purged: u64,
    /// Changes, where an image keeps them: of the numbers, and of the counts.
    redo: Option<(Redo, Redo)>,
}

impl TxLog {
    /// An empty log of `size`, 4 B for each commit.
    pub fn new(size: Bytes) -> TxLog {
        TxLog {
            order: VecDeque::new(),
            present: Numbers::default(),
            capacity: (size.0 / 4) as usize,
            purged: 0,
            redo: None,
        }
    }

    /// The log that an image kept: its numbers at `base`, how many were purged and made at `counts` of its
    /// memory, read by `read(place, out)`.
    ///
    /// # Errors
    /// Those of `read`; `Err(Err(_))` says what contradicts itself.
    pub fn load<E>(
        size: Bytes,
        base: u64,
        counts: u64,
        read: impl Fn(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<TxLog, Result<E, String>> {
        let mut log = TxLog::new(size);
        let mut numbers = [0; 16];
        read(counts, &mut numbers).map_err(Ok)?;
        let long = |i: usize| u64::from_le_bytes(numbers[i..i + 8].try_into().expect("8 bytes"));
        let (purged, made) = (long(0), long(8));
        if made.checked_sub(purged).is_none_or(|n| n > log.capacity as u64) {
            return Err(Err(format!("{purged} commits purged of {made}, room for {}", log.capacity)));
        }
        let mut ring = vec![0; log.capacity * 4];
        if made > purged {
            read(base, &mut ring).map_err(Ok)?;
        }
        for n in purged..made {
            let at = (n % log.capacity as u64) as usize * 4;
            let tx = TxId(u32::from_le_bytes(ring[at..at + 4].try_into().expect("4 bytes")));
            if tx == TxId::NONE || !log.present.insert(tx) {
                return Err(Err(format!("transaction {} committed twice", tx.0)));
            }
            log.order.push_back(tx);
        }
        log.purged = purged;
        log.redo = Some((Redo::new(base), Redo::new(counts)));
        Ok(log)
    }

    /// The image keeps the numbers at `base` from now on.
    pub fn rebase(&mut self, base: u64) {
        if let Some((numbers, _)) = &mut self.redo {
            numbers.rebase(base);
        }
    }

    /// Moves the changes since the last time to the end of `out`.
    pub fn drain_redo(&mut self, out: &mut Vec<u8>) {
        if let Some((numbers, counts)) = &mut self.redo {
            numbers.drain_into(out);
            counts.drain_into(out);
        }
    }

    /// Whether `tx` has committed and may still have entries.
    #[inline]
    pub fn contains(&self, tx: TxId) -> bool {
        self.present.contains(tx)
    }

    /// Number of commits held.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether another commit has room.
    pub fn has_room(&self) -> bool {
        self.order.len() < self.capacity
    }

    /// Appends a commit; a second commit of the same transaction changes nothing.
    ///
    /// # Panics
    /// Without room.
    pub fn append(&mut self, tx: TxId) {
        if self.present.insert(tx) {
            assert!(self.has_room(), "TxLog overflows");
            self.order.push_back(tx);
            if let Some((numbers, counts)) = &mut self.redo {
                let made = self.purged + self.order.len() as u64;
                numbers.put((made - 1) % self.capacity as u64 * 4, &tx.0.to_le_bytes());
                counts.put(8, &made.to_le_bytes());
            }
        }
    }

    /// Forgets the oldest `count` commits.
    pub fn purge(&mut self, count: usize) {
        let _step = granary_sim::step("write log: the TxLog is purged");
        for tx in self.order.drain(..count) {
            self.present.remove(tx);
        }
        self.purged += count as u64;
        if let Some((_, counts)) = &mut self.redo {
            counts.put(0, &self.purged.to_le_bytes());
        }
    }

    /// After power-up: makes the lookup structures again from the logged entries.
    pub fn reload(&mut self) {
        self.present = Numbers::default();
        self.order.iter().for_each(|tx| _ = self.present.insert(*tx));
    }

    /// Internal consistency.
    pub fn check(&self) -> Vec<String> {
        let ok = self.order.len() == self.present.len()
            && self.order.iter().all(|tx| self.present.contains(*tx))
            && self.order.len() <= self.capacity;
        if ok { Vec::new() } else { vec!["TxLog: order and lookup contradict each other".to_owned()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_a_set() {
        let (mut numbers, mut naive) = (Numbers::default(), std::collections::BTreeSet::new());
        let mut rng = granary_sim::rng::Stream::new(1, "txlog");
        for _ in 0..20_000 {
            // Neighbours, and both ends of what a number may be.
            let tx = TxId((rng.below(300) as u32).wrapping_sub(150));
            if rng.chance(0.5) {
                assert_eq!(numbers.insert(tx), naive.insert(tx.0));
            } else {
                numbers.remove(tx);
                naive.remove(&tx.0);
            }
            assert_eq!(numbers.len(), naive.len());
            let other = TxId((rng.below(300) as u32).wrapping_sub(150));
            assert_eq!(numbers.contains(other), naive.contains(&other.0));
        }
        naive.iter().for_each(|&tx| numbers.remove(TxId(tx)));
        assert!(numbers.0.is_empty(), "words without a number are left");
    }
}
