//! [`Queue`]: the events of a virtual world, the earliest first; of one instant the one that was pushed
//! first.
//!
//! ```text
//!   push ──> heap ──> pop                a task that becomes ready
//!   swap:    heap's first out, new one in its place: one way down     a task that suspends itself until an
//!                                                                     instant
//! ```
//!
//! A switch is a fifth of what a simulated system call costs, so it sifts once and compares without branches.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A task that is to run.
#[derive(Clone, Copy)]
pub(super) struct Event {
    pub(super) at: u64,
    /// Counts pushes: no two events have the same.
    order: u64,
    pub(super) task: u32,
    pub(super) generation: u32,
}

impl Event {
    /// One number, so that a comparison is no branch.
    fn key(&self) -> u128 {
        (self.at as u128) << 64 | self.order as u128
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    /// The earliest is the greatest, as the heap wants it.
    fn cmp(&self, other: &Event) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Event>,
    order: u64,
    /// The event of the task that is suspending itself.
    own: Option<Event>,
}

impl Queue {
    fn event(&mut self, at: u64, task: u32, generation: u32) -> Event {
        self.order += 1;
        Event { at, order: self.order, task, generation }
    }

    pub(super) fn push(&mut self, at: u64, task: u32, generation: u32) {
        let event = self.event(at, task, generation);
        self.heap.push(event);
    }

    /// The same for the running task, which suspends itself next: [`Queue::pop`] comes before any other call.
    pub(super) fn push_own(&mut self, at: u64, task: u32, generation: u32) {
        debug_assert!(self.own.is_none(), "one task runs");
        self.own = Some(self.event(at, task, generation));
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let Some(own) = self.own.take() else { return self.heap.pop() };
        match self.heap.peek_mut() {
            Some(mut first) if *first > own => Some(std::mem::replace(&mut *first, own)),
            _ => Some(own),
        }
    }

    /// The instant of the first event.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        self.heap.peek().map(|e| e.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// Events come out by (instant, order of pushing), after any pushes, swaps and pops.
    #[test]
    fn events_come_by_time_then_by_the_order_of_pushing() {
        let (mut queue, mut model, mut s) = (Queue::default(), Vec::new(), Stream::new(1, "queue"));
        let mut now = 0;
        for n in 0..100_000u32 {
            let at = now + s.below(20);
            model.push((at, n));
            let own = s.below(3) == 0;
            if own {
                queue.push_own(at, n, 0);
            } else {
                queue.push(at, n, 0);
            }
            if own || model.len() > 40 || s.below(2) == 0 {
                let i = (0..model.len()).min_by_key(|&i| model[i]).expect("one was pushed");
                let (at, task) = model.remove(i);
                let event = queue.pop().expect("one was pushed");
                assert_eq!((event.at, event.task), (at, task));
                assert_eq!(queue.first(), model.iter().map(|e| e.0).min());
                now = at;
            }
        }
    }
}
