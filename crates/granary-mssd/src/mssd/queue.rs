//! [`Queue`]: the commands that a drive works on at a time (SATA's NCQ has 32); others wait on the host's
//! side.

use granary_units::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Completions of the commands under way.
#[derive(Clone, Default)]
pub struct Queue {
    /// 0: no bound.
    depth: usize,
    done: BinaryHeap<Reverse<Nanos>>,
}

impl Queue {
    /// One of so many places; 0: as many as there are commands.
    pub fn new(depth: usize) -> Queue {
        Queue { depth, done: BinaryHeap::new() }
    }

    /// When a command that the host has at `now` gets a place. [`Queue::ended`] says when it leaves it.
    #[inline]
    pub fn place(&mut self, now: Nanos) -> Nanos {
        if self.depth == 0 {
            return now;
        }
        while self.done.peek().is_some_and(|done| done.0 <= now) {
            self.done.pop();
        }
        if self.done.len() < self.depth {
            return now;
        }
        self.done.pop().map_or(now, |free| free.0)
    }

    /// The command that was given a place last completes at `done`.
    #[inline]
    pub fn ended(&mut self, done: Nanos) {
        if self.depth > 0 {
            self.done.push(Reverse(done));
        }
    }

    /// Nothing is under way.
    pub fn reset(&mut self) {
        self.done.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_command_begins_when_the_first_of_a_full_queue_ends() {
        let mut queue = Queue::new(2);
        assert_eq!(queue.place(Nanos(0)), Nanos(0));
        queue.ended(Nanos(90));
        assert_eq!(queue.place(Nanos(0)), Nanos(0));
        queue.ended(Nanos(50));
        assert_eq!(queue.place(Nanos(10)), Nanos(50));
        queue.ended(Nanos(120));
        assert_eq!((queue.place(Nanos(95)), Queue::new(0).place(Nanos(7))), (Nanos(95), Nanos(7)));
    }
}
