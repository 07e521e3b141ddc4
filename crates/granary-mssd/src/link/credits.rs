//! [`Credits`]: how many posted lines the drive can have that its firmware has not taken yet.
//!
//! ```text
//!   CPU ── link ──> | line | line | line |   ──> firmware, when it has time
//!                                                (and the log room, the cache the page)
//!                    held until taken; where all places are held, the link sends no more, and the CPU waits
//! ```
//!
//! PCI Express flow control: a receiver says how many posted packets its buffer has room for, and gives that
//! back as it takes them, in their order. Without it stores would be gone at the link's speed however slow
//! the drive is.

use granary_units::Nanos;
use std::collections::VecDeque;

/// See the module.
#[derive(Clone, Default)]
pub struct Credits {
    /// Runs of lines on the way, in order: when each is taken, and how many lines it has.
    held: VecDeque<(Nanos, usize)>,
    lines: usize,
}

impl Credits {
    /// When there is room for a run of `lines` from `now` on, of `most` in all. A run that is longer than
    /// that waits until nothing is held: its own first lines are taken while its last are sent.
    pub fn wait(&mut self, now: Nanos, lines: usize, most: usize) -> Nanos {
        let mut free = now;
        while let Some(&(taken, n)) = self.held.front()
            && (taken <= now || self.lines + lines > most)
        {
            free = free.max(taken);
            self.lines -= n;
            self.held.pop_front();
        }
        free
    }

    /// A run of `lines` is held until `taken`.
    pub fn hold(&mut self, taken: Nanos, lines: usize) {
        // In their order: what is taken early gives its place back with those before it.
        let taken = self.held.back().map_or(taken, |last| last.0.max(taken));
        self.held.push_back((taken, lines));
        self.lines += lines;
    }

    /// Nothing is on its way.
    pub fn reset(&mut self) {
        *self = Credits::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_waits_until_those_before_it_leave_room() {
        let mut c = Credits::default();
        assert_eq!(c.wait(Nanos(5), 64, 10), Nanos(5), "longer than all, but nothing is held");
        c.hold(Nanos(100), 4);
        c.hold(Nanos(80), 4);
        c.hold(Nanos(200), 2);
        assert_eq!(c.wait(Nanos(6), 0, 10), Nanos(6));
        assert_eq!(c.wait(Nanos(7), 1, 10), Nanos(100), "one place, of the first four");
        c.hold(Nanos(300), 1);
        assert_eq!(c.wait(Nanos(8), 3, 10), Nanos(8), "they have places");
        c.hold(Nanos(310), 3);
        assert_eq!(
            c.wait(Nanos(9), 4, 10),
            Nanos(100),
            "taken in order: the second run not before the first"
        );
        assert_eq!(c.wait(Nanos(250), 7, 10), Nanos(300));
        assert_eq!(c.wait(Nanos(9), 11, 10), Nanos(310), "longer than all: waits for all");
    }
}
