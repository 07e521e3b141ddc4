//! Wait queues of locks and condition variables, kept beside the locks so that a lock is four bytes.
//!
//! Keyed by the lock's address; a queue exists only while somebody waits. First come, first served.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Ways of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// To hold a lock alone.
    Exclusive,
    /// To hold a lock with other readers.
    Shared,
    /// To be notified.
    Condvar,
}

/// A task in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) task: u32,
    pub(crate) mode: Mode,
}

/// No single task holds the lock (readers do, or it is a condition variable).
pub(crate) const NOBODY: u32 = u32::MAX;

struct Queue {
    /// The task that holds the lock now, for finding cycles.
    holder: u32,
    waiters: VecDeque<Waiter>,
}

/// All wait queues of a world.
#[derive(Default)]
pub(super) struct Parking {
    queues: FxHashMap<usize, Queue>,
    /// Queues that nobody waits in any more, for the next ones: a lock is waited for all the time.
    spare: Vec<VecDeque<Waiter>>,
}

impl Parking {
    pub(super) fn push(&mut self, key: usize, holder: u32, waiter: Waiter) {
        let spare = &mut self.spare;
        let empty = || Queue { holder, waiters: spare.pop().unwrap_or_default() };
        let queue = self.queues.entry(key).or_insert_with(empty);
        queue.waiters.push_back(waiter);
    }

    /// The single task that holds the lock `key`, where others wait for it.
    pub(super) fn holder(&self, key: usize) -> Option<u32> {
        self.queues.get(&key).map(|q| q.holder).filter(|&h| h != NOBODY)
    }

    /// Takes out the first waiter if `take` agrees; also says whether others still wait.
    pub(super) fn pop_if(&mut self, key: usize, take: impl FnOnce(Waiter) -> bool) -> Option<(Waiter, bool)> {
        let queue = self.queues.get_mut(&key)?;
        let first = *queue.waiters.front()?;
        if !take(first) {
            return None;
        }
        queue.waiters.pop_front();
        queue.holder = if first.mode == Mode::Exclusive { first.task } else { NOBODY };
        let more = !queue.waiters.is_empty();
        if !more && let Some(empty) = self.queues.remove(&key) {
            self.spare.push(empty.waiters);
        }
        Some((first, more))
    }

    pub(super) fn remove(&mut self, key: usize, task: u32) {
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.waiters.retain(|w| w.task != task);
            if queue.waiters.is_empty() {
                self.queues.remove(&key);
            }
        }
    }
}
