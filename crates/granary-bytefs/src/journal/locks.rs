//! [`TxTable`]: the ongoing transactions and the lines that they have locked.
//!
//! ```text
//!   page p, lines as a 64-bit mask      ->  word hash(p) of 256; a bit = a locked line
//! ```
//!
//! Two pages that share a word can conflict without need; with 256 words that is rare, costs a few
//! microseconds, and is never wrong. Locking and unlocking a page is one bit operation.
//!
//! Source: ByteFS section 4.3 ("the transaction-level lock maintained at the host TxTable").

use granary_sim::sync::{Condvar, Mutex};

const WORDS: usize = 256;

/// Lines of one page: the page's number and a mask.
pub type Lines = (u64, u64);

struct State {
    locked: [u64; WORDS],
    ongoing: usize,
    waiting: u32,
    conflicts: u64,
}

/// The transaction table.
pub struct TxTable {
    state: Mutex<State>,
    unlocked: Condvar,
}

fn word(page: u64) -> usize {
    // Fibonacci hashing: neighbouring pages, which are used together, get different words.
    (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

impl TxTable {
    /// No transactions.
    pub fn new() -> TxTable {
        let state = State { locked: [0; WORDS], ongoing: 0, waiting: 0, conflicts: 0 };
        TxTable { state: Mutex::new(state), unlocked: Condvar::new() }
    }

    /// Enters a transaction and locks all of `lines`, waiting until none of them is locked.
    pub fn enter(&self, lines: impl Iterator<Item = Lines> + Clone) {
        let mut s = self.state.lock();
        let mut waited = false;
        while lines.clone().any(|(page, mask)| s.locked[word(page)] & mask != 0) {
            s.conflicts += !waited as u64;
            waited = true;
            s.waiting += 1;
            self.unlocked.wait(&mut s);
            s.waiting -= 1;
        }
        for (page, mask) in lines {
            s.locked[word(page)] |= mask;
        }
        s.ongoing += 1;
    }

    /// Unlocks what [`TxTable::enter`] locked.
    pub fn leave(&self, lines: impl Iterator<Item = Lines>) {
        let mut s = self.state.lock();
        for (page, mask) in lines {
            s.locked[word(page)] &= !mask;
        }
        s.ongoing -= 1;
        if s.waiting > 0 {
            self.unlocked.notify_all();
        }
    }

    /// Transactions that had to wait for another's lines, so far.
    pub fn conflicts(&self) -> u64 {
        self.state.lock().conflicts
    }

    /// Transactions that hold lines now.
    pub fn ongoing(&self) -> usize {
        self.state.lock().ongoing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::{World, sleep, spawn};
    use granary_units::Nanos;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// Two tasks in transactions of these lines: the most that were inside at once.
    fn inside(lines: [(u64, u64); 2]) -> u32 {
        let world = World::default().run(move || {
            let (table, now, most) =
                (Arc::new(TxTable::new()), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            let tasks = lines.map(|line| {
                let (table, now, most) = (Arc::clone(&table), Arc::clone(&now), Arc::clone(&most));
                spawn("transaction", move || {
                    table.enter([line].into_iter());
                    most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
                    sleep(Nanos(1_000));
                    now.fetch_sub(1, Relaxed);
                    table.leave([line].into_iter());
                })
            });
            tasks.into_iter().for_each(granary_sim::JoinHandle::join);
            assert_eq!(table.ongoing(), 0);
            most.load(Relaxed)
        });
        world.expect("ends")
    }

    #[test]
    fn transactions_of_one_line_go_one_after_the_other_and_others_together() {
        assert_eq!(inside([(7, 0b0110), (7, 0b0010)]), 1);
        assert_eq!(inside([(7, 0b0110), (7, 0b1001)]), 2, "other lines of the page");
        assert_eq!(inside([(7, 1), (8, 1)]), 2, "other pages");
    }
}
