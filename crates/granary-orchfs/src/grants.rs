//! Extent grants: numbers of an area that a process may take without asking the kernel's part (OrchFS section
//! 4).
//!
//! ```text
//!   |  granted to 7  | free |  granted to 9  |  granted to 7  | free ...     numbers of an area
//!    taken . taken .          taken . . .      . . . .                       a process takes its lowest free
//!                                                                            one
//! ```
//!
//! A grant is a range of numbers. The process may take its free numbers; taken ones stay as they are. A
//! number that a process has taken is *fresh* until its journal is digested: no other process's records may
//! name it.
//!
//! Not durable: after a power failure nobody has a grant.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// The grants of one area.
#[derive(Default)]
pub struct Grants {
    /// First number -> behind the last one, and whose. They do not overlap, and neighbours are of two
    /// processes.
    ranges: BTreeMap<u64, (u64, u32)>,
    /// None of a process's numbers below is free.
    from: FxHashMap<u32, u64>,
    /// Taken and not digested: by process the numbers, and when each was taken
    /// ([`crate::pools::Pools::clock`]).
    fresh: FxHashMap<u32, FxHashMap<u64, u64>>,
}

impl Grants {
    /// The grant that a number is in.
    pub fn around(&self, number: u64) -> Option<(Range<u64>, u32)> {
        let (start, (end, process)) = self.ranges.range(..=number).next_back()?;
        (number < *end).then_some((*start..*end, *process))
    }

    /// Where the next grant behind a number begins.
    pub fn next_after(&self, number: u64) -> Option<u64> {
        self.ranges.range(number + 1..).next().map(|(start, _)| *start)
    }

    /// Ranges of a process in which something may be free, in ascending order.
    pub fn of(&self, process: u32) -> impl Iterator<Item = Range<u64>> {
        let from = self.from.get(&process).copied().unwrap_or(0);
        let first = self.around(from).map_or(from, |(range, _)| range.start);
        let own = self.ranges.range(first..).filter(move |(_, (_, whose))| *whose == process);
        own.map(move |(start, (end, _))| from.max(*start)..*end)
    }

    /// All of a process's numbers below this one are taken.
    pub fn looked(&mut self, process: u32, below: u64) {
        self.from.insert(process, below);
    }

    /// A number is free again.
    pub fn freed(&mut self, number: u64) {
        if let Some((_, process)) = self.around(number) {
            let from = self.from.entry(process).or_default();
            *from = number.min(*from);
        }
    }

    /// A range that nobody has is a process's.
    pub fn add(&mut self, process: u32, range: Range<u64>) {
        let from = self.from.entry(process).or_insert(range.start);
        *from = range.start.min(*from);
        let (mut start, mut end) = (range.start, range.end);
        if let Some((before, (met, whose))) = self.ranges.range(..start).next_back()
            && (*met, *whose) == (start, process)
        {
            start = *before;
        }
        if let Some((behind, whose)) = self.ranges.get(&end).copied()
            && whose == process
        {
            self.ranges.remove(&end);
            end = behind;
        }
        self.ranges.insert(start, (end, process));
    }

    /// Nothing is a process's any more; what it has taken stays fresh.
    pub fn take_back(&mut self, process: u32) {
        self.ranges.retain(|_, (_, whose)| *whose != process);
        self.from.remove(&process);
    }

    /// Processes with grants, in ascending order.
    pub fn holders(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.ranges.values().map(|(_, process)| *process).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// A process uses a number from this instant on.
    pub fn used(&mut self, process: u32, number: u64, when: u64) {
        self.fresh.entry(process).or_default().insert(number, when);
    }

    /// The journals of these processes are digested up to an instant: what they had taken by then is as any
    /// other number.
    pub fn digested(&mut self, of: &dyn Fn(u32) -> bool, until: u64) {
        self.fresh.retain(|process, numbers| {
            if of(*process) {
                numbers.retain(|_, when| *when > until);
            }
            !numbers.is_empty()
        });
    }

    /// The process, if not this one, for which a number is fresh.
    pub fn fresh_of_other(&self, process: u32, number: u64) -> Option<u32> {
        let others = self.fresh.iter().filter(|(whose, _)| **whose != process);
        others.filter(|(_, numbers)| numbers.contains_key(&number)).map(|(whose, _)| *whose).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_a_process_become_one() {
        let mut grants = Grants::default();
        grants.add(7, 0..10);
        grants.add(9, 10..20);
        grants.add(7, 30..40);
        grants.add(7, 20..30);
        assert_eq!(grants.ranges.len(), 3);
        assert_eq!(grants.around(25), Some((20..40, 7)));
        assert_eq!((grants.around(40), grants.next_after(5)), (None, Some(10)));
        assert_eq!(grants.of(7).collect::<Vec<_>>(), [0..10, 20..40]);
        grants.looked(7, 22);
        assert_eq!((grants.of(7).next(), grants.of(7).count()), (Some(22..40), 1));
        grants.freed(3);
        assert_eq!(grants.of(7).collect::<Vec<_>>(), [3..10, 20..40]);
        grants.take_back(7);
        assert_eq!((grants.of(7).count(), grants.holders()), (0, vec![9]));
    }

    #[test]
    fn what_a_process_has_taken_is_its_own_until_the_digest() {
        let mut grants = Grants::default();
        grants.used(7, 3, 1);
        grants.used(7, 4, 2);
        assert_eq!((grants.fresh_of_other(7, 3), grants.fresh_of_other(9, 3)), (None, Some(7)));
        // A digest of the first group alone.
        grants.digested(&|process| process == 7, 1);
        assert_eq!((grants.fresh_of_other(9, 3), grants.fresh_of_other(9, 4)), (None, Some(7)));
        grants.digested(&|process| process == 7, 2);
        assert_eq!(grants.fresh_of_other(9, 4), None);
    }
}
