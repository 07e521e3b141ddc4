//! What is free: a bitmap in host memory for each area, made at mount from what the inodes reach.
//!
//! A number that an operation takes and does not commit goes back at once. One that a committed group frees goes back only when
//! the digest of that group is durable ([`crate::journal`]): until then a replay may still lead to it.

use crate::layout::{Area, Layout};
use granary_pm::corrupt;
use granary_vfs::{FsError, Result};
use parking_lot::Mutex;

/// The numbers of one area.
struct Ids {
    /// Bit set: taken.
    taken: Vec<u64>,
    count: u64,
    free: u64,
    /// No number below is free.
    from: u64,
}

impl Ids {
    /// All of `0..count` are free; number 0 only where `has_zero`.
    fn new(count: u64, has_zero: bool) -> Ids {
        let mut ids = Ids { taken: vec![0; count.div_ceil(64) as usize], count, free: count, from: 0 };
        if !has_zero && count > 0 {
            ids.mark(0);
        }
        ids
    }

    fn mark(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if number >= self.count || self.taken[word] & bit != 0 {
            return false;
        }
        self.taken[word] |= bit;
        self.free -= 1;
        true
    }

    fn take(&mut self) -> Option<u64> {
        if self.free == 0 {
            return None;
        }
        let mut word = (self.from / 64) as usize;
        while self.taken[word] == u64::MAX {
            word += 1;
        }
        let number = word as u64 * 64 + u64::from(self.taken[word].trailing_ones());
        // Bits behind the end are not taken, but no number: then nothing below is free, whatever the count says.
        if !self.mark(number) {
            return None;
        }
        self.from = number + 1;
        if self.from >= self.count {
            self.from = self.count - 1;
        }
        Some(number)
    }

    fn give(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if number >= self.count || self.taken[word] & bit == 0 {
            return false;
        }
        self.taken[word] &= !bit;
        self.free += 1;
        self.from = self.from.min(number);
        true
    }
}

/// See the module.
pub struct Pools {
    ids: [Mutex<Ids>; 6],
    counts: [u64; 6],
}

impl Pools {
    /// All is free.
    pub fn new(layout: &Layout) -> Pools {
        let counts = Area::ALL.map(|area| layout.count(area));
        Pools {
            ids: Area::ALL.map(|area| Mutex::new(Ids::new(layout.count(area), area == Area::Block))),
            counts,
        }
    }

    fn of(&self, area: Area) -> &Mutex<Ids> {
        &self.ids[area as usize]
    }

    /// Takes the lowest free number.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn take(&self, area: Area) -> Result<u64> {
        self.of(area).lock().take().ok_or(FsError::NoSpace)
    }

    /// Takes the first run of free numbers within `among`, `most` of them at most.
    pub fn take_run(
        &self,
        area: Area,
        among: std::ops::Range<u64>,
        most: u64,
    ) -> Option<std::ops::Range<u64>> {
        let mut ids = self.of(area).lock();
        let is_free = |ids: &Ids, n: u64| ids.taken[(n / 64) as usize] >> (n % 64) & 1 == 0;
        let first = among.clone().find(|n| is_free(&ids, *n))?;
        let end = (first..among.end.min(first + most)).find(|n| !is_free(&ids, *n));
        let run = first..end.unwrap_or(among.end.min(first + most));
        for number in run.clone() {
            ids.mark(number);
        }
        Some(run)
    }

    /// Gives one back.
    ///
    /// # Errors
    /// `Corrupt` where it is free.
    pub fn give(&self, area: Area, number: u64) -> Result<()> {
        match self.of(area).lock().give(number) {
            true => Ok(()),
            false => Err(corrupt(format!("{} {number} is freed twice", area.name()))),
        }
    }

    /// Marks one that mount finds in use.
    ///
    /// # Errors
    /// `Corrupt` where another has it, or there is none of this number.
    pub fn mark(&self, area: Area, number: u64) -> Result<()> {
        match self.of(area).lock().mark(number) {
            true => Ok(()),
            false => Err(corrupt(format!("{} {number} is used twice, or there is none", area.name()))),
        }
    }

    /// How many are free.
    pub fn free(&self, area: Area) -> u64 {
        self.of(area).lock().free
    }

    /// How many there can be in use.
    pub fn all(&self, area: Area) -> u64 {
        self.counts[area as usize] - u64::from(area != Area::Block)
    }

    /// Numbers that only one of the two has taken, the first thousand of them.
    pub fn differences(&self, other: &Pools, area: Area) -> Vec<u64> {
        let (a, b) = (self.of(area).lock(), other.of(area).lock());
        let words = a.taken.iter().zip(&b.taken).enumerate().filter(|(_, (x, y))| x != y);
        let bits = words.flat_map(|(i, (x, y))| {
            (0..64).filter(move |bit| (x ^ y) >> bit & 1 == 1).map(move |bit| i as u64 * 64 + bit)
        });
        bits.take(1000).collect()
    }

    /// Whether one is taken.
    pub fn is_taken(&self, area: Area, number: u64) -> bool {
        let ids = self.of(area).lock();
        number < ids.count && ids.taken[(number / 64) as usize] >> (number % 64) & 1 == 1
    }
}

/// Numbers that an operation has taken; those that it does not keep go back.
pub struct Taken<'a> {
    pools: &'a Pools,
    ids: Vec<(Area, u64)>,
}

impl<'a> Taken<'a> {
    /// None yet.
    pub fn new(pools: &'a Pools) -> Taken<'a> {
        Taken { pools, ids: Vec::new() }
    }

    /// Takes one.
    ///
    /// # Errors
    /// `NoSpace`.
    pub fn take(&mut self, area: Area) -> Result<u64> {
        let number = self.pools.take(area)?;
        self.ids.push((area, number));
        Ok(number)
    }

    /// Gives those back that were taken after there were `count`.
    pub fn back_to(&mut self, count: usize) {
        for (area, number) in self.ids.drain(count..) {
            // It was taken above, so it can be given.
            let _ = self.pools.give(area, number);
        }
    }

    /// Whether this one was taken here.
    pub fn has(&self, area: Area, number: u64) -> bool {
        self.ids.contains(&(area, number))
    }

    /// They are in use from now on.
    pub fn keep(&mut self) {
        self.ids.clear();
    }

    /// This one goes back when an operation ends without having used it, though others are kept.
    pub fn keep_but(&mut self, area: Area, unused: &[u64]) {
        self.ids.retain(|(a, number)| *a == area && unused.contains(number));
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.back_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_are_a_set_and_the_lowest_is_taken() {
        let mut random = Stream::new(1, "ids");
        for count in [1, 2, 63, 64, 65, 200] {
            let (mut ids, mut free) = (Ids::new(count, false), (1..count).collect::<BTreeSet<u64>>());
            for _ in 0..2_000 {
                if random.chance(0.6) {
                    assert_eq!(ids.take(), free.pop_first());
                } else {
                    let number = random.below(count + 2);
                    let was_taken = number > 0 && number < count && !free.contains(&number);
                    if number > 0 {
                        assert_eq!(ids.give(number), was_taken);
                    }
                    if was_taken {
                        free.insert(number);
                    }
                }
                assert_eq!(ids.free, free.len() as u64);
            }
        }
    }
}
