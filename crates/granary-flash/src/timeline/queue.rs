//! [`Queue`]: the reservations of a timeline that have not passed, so that urgent work can go before them.
//!
//! ```text
//!   before    |## running ##|#### program ####|#### program ####|   idle   |## erase ##|
//!                  ^ ready   ^ turn: the first that has not begun
//!   after     |## running ##| read |#### program ####|#### program ####|   |## erase ##|
//!                            urgent  moved ......................... up to idle time
//! ```
//!
//! Urgent work keeps its order among itself. It waits for running work: nothing is interrupted.
//!
//! Invariant: reservations are sorted and disjoint, and all that end after `from` are here.

use super::{FEW, MOST};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Work {
    start: u64,
    end: u64,
    urgent: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    work: VecDeque<Work>,
    /// Reservations at which to look for those that have passed, beyond [`FEW`].
    many: usize,
    /// Reservations that ended by then are not known any more.
    from: u64,
}

impl Queue {
    /// Nothing is reserved before `at`, nor after.
    pub(super) fn reset(&mut self, at: u64) {
        self.work.clear();
        self.from = at;
    }

    /// `len` from `start` on is reserved; what ended by `now` may be forgotten.
    #[inline(always)]
    pub(super) fn book(&mut self, start: u64, len: u64, urgent: bool, now: u64) {
        // As a rule all of it has passed.
        if let Some(last) = self.work.back()
            && last.end <= now
        {
            self.from = last.end;
            self.work.clear();
        } else if self.work.len() >= self.many.max(FEW) {
            self.forget(now);
        }
        if self.work.back().is_none_or(|last| last.end <= start) {
            // Made here and not before the branch, it is written where it belongs, and not copied from where
            // it was just written in smaller parts, for which a processor waits.
            self.work.push_back(Work { start, end: start + len, urgent });
        } else if start >= self.from {
            self.book_between(start, len, urgent);
        }
    }

    fn book_between(&mut self, start: u64, len: u64, urgent: bool) {
        let i = self.work.partition_point(|w| w.start < start);
        self.work.insert(i, Work { start, end: start + len, urgent });
    }

    #[cold]
    fn forget(&mut self, now: u64) {
        let passed = self.work.partition_point(|w| w.end <= now);
        let n = if passed == 0 && self.work.len() >= MOST { MOST / 2 } else { passed };
        self.from = self.work.drain(..n).next_back().map_or(self.from, |w| w.end);
        self.many = (2 * self.work.len()).min(MOST);
    }

    /// Before which reservation urgent work goes that is ready at `ready`, and when it can begin there; none
    /// where nothing that is not urgent waits.
    #[inline]
    pub(super) fn turn(&self, ready: u64) -> Option<(usize, u64)> {
        let begun = self.work.partition_point(|w| w.start < ready);
        let waiting = self.work.range(begun..).position(|w| !w.urgent)? + begun;
        let before = waiting.checked_sub(1).map_or(self.from, |i| self.work[i].end);
        Some((waiting, before.max(ready)))
    }

    /// Puts urgent work of `len` at `start` before the `i`-th reservation, which moves to later with those
    /// behind it that have to. Returns the end of the last one moved, and whether nothing is behind it.
    pub(super) fn insert(&mut self, i: usize, start: u64, len: u64) -> (u64, bool) {
        let mut end = start + len;
        let mut last = true;
        for work in self.work.range_mut(i..) {
            if work.start >= end {
                last = false;
                break;
            }
            let late = end - work.start;
            (work.start, work.end) = (work.start + late, work.end + late);
            end = work.end;
        }
        self.work.insert(i, Work { start, end: start + len, urgent: true });
        (end, last)
    }

    /// The reservations that end after `now`, the last one first.
    pub(super) fn after(&self, now: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.work.iter().rev().take_while(move |w| w.end > now).map(|w| (w.start, w.end))
    }

    /// The reservations, for tests.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> Vec<(u64, u64)> {
        self.work.iter().map(|w| (w.start, w.end)).collect()
    }
}
