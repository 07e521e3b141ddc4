//! [`TxLog`]: the transactions that committed, in their order.
//!
//! ```text
//!   oldest | tx 4 B | tx | tx | tx | ...  newest      at most 2 MiB; COMMIT appends
//!          `-- purged when cleaning has proved that no --'
//!              entry of these is left in the log
//! ```
//!
//! When a half of the log becomes the one to be cleaned, every transaction that has committed by then has all its entries
//! in that half or nowhere (COMMIT comes after the last store). Once it is cleaned, that prefix of the TxLog is purged.
//!
//! Wrap-around of the 4 B numbers: a number is looked up here only, and stays for at most `capacity` further commits
//! (a full TxLog forces cleaning). So a number may be used again after 2^32 transactions without being mistaken, as long as
//! the host skips 0 ([`TxId::NONE`]) and the numbers of transactions that still run.
//!
//! Invariants: no number twice. Battery-backed: it survives power loss.
//!
//! Source: ByteFS section 4.3.

use granary_units::{Bytes, TxId};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;

/// The transaction log.
pub struct TxLog {
    order: VecDeque<TxId>,
    /// The same numbers, for looking up; rebuilt from `order` after power loss.
    present: FxHashSet<TxId>,
    capacity: usize,
}

impl TxLog {
    /// An empty log of `size`, 4 B for each commit.
    pub fn new(size: Bytes) -> TxLog {
        TxLog { order: VecDeque::new(), present: FxHashSet::default(), capacity: (size.0 / 4) as usize }
    }

    /// Whether `tx` has committed and may still have entries.
    #[inline]
    pub fn contains(&self, tx: TxId) -> bool {
        self.present.contains(&tx)
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
        }
    }

    /// Forgets the oldest `count` commits.
    pub fn purge(&mut self, count: usize) {
        for tx in self.order.drain(..count) {
            self.present.remove(&tx);
        }
    }

    /// After power-up: what is looked up is made again from what was logged.
    pub fn reload(&mut self) {
        self.present = self.order.iter().copied().collect();
    }

    /// Internal consistency.
    pub fn check(&self) -> Vec<String> {
        let ok = self.order.len() == self.present.len()
            && self.order.iter().all(|tx| self.present.contains(tx))
            && self.order.len() <= self.capacity;
        if ok { Vec::new() } else { vec!["TxLog: order and lookup contradict each other".to_owned()] }
    }
}
