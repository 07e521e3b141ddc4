//! [`Programs`]: the programs under way, the one that is done first on top; of one instant the lower slot.
//!
//! ```text
//!   finish    the first is done, its place stays open
//!   start     into the open place, one way down; else pushed
//!   close     nothing came: the open place goes
//! ```
//!
//! Where pages wait, the end of one program is the beginning of another: the heap is sifted once for both,
//! and compares one number.

use granary_units::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SLOT_BITS: u32 = u32::BITS;

/// See the module.
#[derive(Clone, Default)]
pub(super) struct Programs {
    /// Done at << 32 | slot.
    heap: BinaryHeap<Reverse<u128>>,
    /// The top has been finished.
    open: bool,
}

impl Programs {
    /// Number of programs.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.heap.len() - self.open as usize
    }

    /// When the first will be done.
    #[inline]
    pub(super) fn next_done(&self) -> Option<Nanos> {
        debug_assert!(!self.open, "the top is under way");
        self.heap.peek().map(|Reverse(key)| Nanos((key >> SLOT_BITS) as u64))
    }

    /// Which will be done first, as far as one knows now.
    #[inline]
    pub(super) fn next_slot(&self) -> Option<u32> {
        self.heap.peek().map(|Reverse(key)| *key as u32)
    }

    /// The program of `slot` is under way, and done at `done`.
    #[inline]
    pub(super) fn start(&mut self, done: Nanos, slot: u32) {
        let key = Reverse((done.0 as u128) << SLOT_BITS | slot as u128);
        match std::mem::take(&mut self.open) {
            true => *self.heap.peek_mut().expect("an open place is on top") = key,
            false => self.heap.push(key),
        }
    }

    /// Takes the first out: when it is done, and its slot. To be followed by [`Programs::close`] before
    /// anything but [`Programs::start`] and [`Programs::len`].
    #[inline]
    pub(super) fn finish(&mut self) -> Option<(Nanos, u32)> {
        debug_assert!(!self.open, "the one before was not closed");
        let Reverse(key) = *self.heap.peek()?;
        self.open = true;
        Some((Nanos((key >> SLOT_BITS) as u64), key as u32))
    }

    /// Removes the program that was finished.
    #[inline]
    pub(super) fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            self.heap.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    /// In any order of starts and finishes, programs are done by (instant, slot).
    #[test]
    fn programs_are_done_in_their_order() {
        let (mut programs, mut model, mut s) = (Programs::default(), Vec::new(), Stream::new(2, "programs"));
        for slot in 0..50_000u32 {
            let starts = s.below(3);
            if s.below(2) == 0 {
                model.sort_unstable();
                let first = (!model.is_empty()).then(|| model.remove(0));
                assert_eq!(programs.next_done(), first.map(|(done, _)| done));
                assert_eq!(programs.finish(), first);
            }
            for i in 0..starts.min(40 - model.len().min(40) as u64) {
                let new = (Nanos(slot as u64 / 7 + s.below(9)), slot * 4 + i as u32);
                programs.start(new.0, new.1);
                model.push(new);
            }
            programs.close();
            assert_eq!(programs.len(), model.len());
        }
    }
}
