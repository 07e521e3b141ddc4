//! [`Uses`]: the order in which the slots of a cache were used last.
//!
//! ```text
//!   log      | 7 | 3 | 7 | 12 | 3 | 9 |     uses in their order; a slot's last one counts, the others are
//!                                           stale
//!                  .   |    |   |   |
//!   last       7 at 2 ─┘    |   |   |       slot -> place of its last use
//!             12 at 3 ──────┘   |   |
//!   use       append to the log, overwrite one place
//!   longest   the first use in the log that is not stale
//! ```
//!
//! Exact LRU. A list of neighbours would write five places all over memory for each use, and a linear search
//! of a directory uses hundreds of slots for each name.
//!
//! Invariant: each used slot has exactly one use in the log that is its last.

use granary_units::prefetch;

/// No place: the slot is not in use.
const NONE: u32 = u32::MAX;
/// Uses that are kept for each slot, at most, before the stale ones are taken out.
const KEPT: usize = 4;
/// Uses that are kept however few slots there are.
const LEAST: usize = 1 << 12;
/// Uses that are looked at ahead.
const AHEAD: usize = 8;

/// See the module.
#[derive(Clone, Default)]
pub struct Uses {
    log: Vec<u32>,
    /// The first use that may not be stale.
    first: usize,
    last: Vec<u32>,
}

impl Uses {
    /// `slot` was used.
    #[inline]
    pub fn used(&mut self, slot: u32) {
        if self.log.len() == self.log.capacity() {
            self.make_room();
        }
        let place = self.log.len() as u32;
        match self.last.get_mut(slot as usize) {
            Some(last) => *last = place,
            None => self.first_use(slot, place),
        }
        self.log.push(slot);
    }

    #[cold]
    fn first_use(&mut self, slot: u32, place: u32) {
        self.last.resize(slot as usize + 1, NONE);
        self.last[slot as usize] = place;
    }

    #[cold]
    fn make_room(&mut self) {
        self.forget_stale();
        let want = LEAST.max(self.last.len() * KEPT);
        self.log.reserve_exact(want.saturating_sub(self.log.len()));
    }

    /// `slot` is out of use.
    pub fn out(&mut self, slot: u32) {
        self.last[slot as usize] = NONE;
    }

    fn is_last(&self, place: usize) -> bool {
        self.last[self.log[place] as usize] as usize == place
    }

    fn forget_stale(&mut self) {
        let mut kept = 0;
        for place in self.first..self.log.len() {
            if self.is_last(place) {
                let slot = self.log[place];
                self.log[kept] = slot;
                self.last[slot as usize] = kept as u32;
                kept += 1;
            }
        }
        self.log.truncate(kept);
        self.first = 0;
    }

    /// The slot that was not used for the longest time.
    pub fn longest(&mut self) -> Option<u32> {
        while self.first < self.log.len() && !self.is_last(self.first) {
            self.first += 1;
        }
        self.log.get(self.first).copied()
    }

    /// The slots in the order of their last use, the longest ago first.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (self.first..self.log.len()).filter(|place| self.is_last(*place)).map(|place| self.log[place])
    }

    /// Fetches the memory that a use of `slot` writes into the processor's caches.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        prefetch(&self.last, slot as usize);
    }

    /// Some of the slots that were not used for the longest time.
    pub fn next(&self) -> impl Iterator<Item = u32> + '_ {
        let end = self.log.len().min(self.first + AHEAD);
        (self.first..end).filter(|place| self.is_last(*place)).map(|place| self.log[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    /// The order is that of a plain list, whichever slots are used or go out of use.
    #[test]
    fn the_order_is_that_of_a_list() {
        let (mut uses, mut list) = (Uses::default(), Vec::new());
        let mut random = Stream::new(5, "uses");
        for step in 0..100_000 {
            let slot = random.below(200) as u32;
            match random.below(10) {
                0 if list.contains(&slot) => {
                    uses.out(slot);
                    list.retain(|s| *s != slot);
                }
                1 => {
                    assert_eq!(uses.longest(), list.first().copied(), "step {step}");
                    if !list.is_empty() {
                        uses.out(list.remove(0));
                    }
                }
                _ => {
                    uses.used(slot);
                    list.retain(|s| *s != slot);
                    list.push(slot);
                }
            }
            if step % 1_000 == 0 {
                assert_eq!(uses.iter().collect::<Vec<_>>(), list, "step {step}");
            }
        }
        assert!(uses.log.capacity() <= 2 * LEAST, "stale uses are forgotten");
    }

    #[test]
    fn the_last_use_of_a_slot_that_came_back_counts() {
        let mut uses = Uses::default();
        uses.used(3);
        uses.out(3);
        assert_eq!(uses.longest(), None);
        uses.used(3);
        uses.used(3);
        assert_eq!(uses.iter().collect::<Vec<_>>(), [3]);
    }
}
