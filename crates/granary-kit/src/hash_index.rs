//! [`HashIndex`]: an open-addressed table from hashes to small values.
//!
//! ```text
//!   place: { hash u32, value }     at index hash & mask, or behind it (linear probing): a look mostly reads
//!                                  one line of the
//!                                  processor's cache
//! ```
//!
//! Invariants: at most 3/4 full; removal moves followers back, so there are no tombstones and a chain ends at
//! the first vacant place. Two things may have one hash: the caller compares what the values stand for.

use granary_units::prefetch;

/// A value of which one means that there is none.
pub trait Vacant: Copy {
    /// None.
    const VACANT: Self;
    /// Whether it is none.
    fn is_vacant(self) -> bool;
}

#[derive(Clone, Copy)]
struct Place<V> {
    hash: u32,
    value: V,
}

/// See the module.
pub struct HashIndex<V> {
    table: Vec<Place<V>>,
    len: usize,
}

impl<V> Default for HashIndex<V> {
    fn default() -> HashIndex<V> {
        HashIndex { table: Vec::new(), len: 0 }
    }
}

impl<V: Vacant> HashIndex<V> {
    /// Values in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn mask(&self) -> usize {
        self.table.len() - 1
    }

    /// Adds a value, which is not [`Vacant`].
    pub fn insert(&mut self, hash: u32, value: V) {
        debug_assert!(!value.is_vacant());
        if (self.len + 1) * 4 > self.table.len() * 3 {
            let size = (self.table.len() * 2).max(8);
            let old = std::mem::replace(&mut self.table, vec![Place { hash: 0, value: V::VACANT }; size]);
            old.into_iter().filter(|p| !p.value.is_vacant()).for_each(|p| self.place(p));
        }
        self.place(Place { hash, value });
        self.len += 1;
    }

    fn place(&mut self, new: Place<V>) {
        let mask = self.mask();
        let mut at = new.hash as usize & mask;
        while !self.table[at].value.is_vacant() {
            at = (at + 1) & mask;
        }
        self.table[at] = new;
    }

    /// The next value with this hash, behind the position `after` of an earlier answer, and its position.
    #[inline]
    pub fn next(&self, hash: u32, after: Option<usize>) -> Option<(V, usize)> {
        if self.table.is_empty() {
            return None;
        }
        let mask = self.mask();
        let mut at = after.map_or(hash as usize, |a| a + 1) & mask;
        loop {
            let Place { hash: its, value } = self.table[at];
            if value.is_vacant() {
                return None;
            }
            if its == hash {
                return Some((value, at));
            }
            at = (at + 1) & mask;
        }
    }

    /// Removes the value with this hash that is meant.
    ///
    /// # Panics
    /// Where it is not there.
    pub fn remove(&mut self, hash: u32, is_meant: impl Fn(V) -> bool) {
        let mut after = None;
        let mut hole = loop {
            let (value, at) = self.next(hash, after).expect("what is removed is in the index");
            if is_meant(value) {
                break at;
            }
            after = Some(at);
        };
        // Followers whose home is not behind the hole move into it.
        let mask = self.mask();
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let place = self.table[at];
            if place.value.is_vacant() {
                break;
            }
            let from_home = at.wrapping_sub(place.hash as usize) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.table[hole] = place;
                hole = at;
            }
        }
        self.table[hole].value = V::VACANT;
        self.len -= 1;
    }

    /// A look for this hash comes soon: what it reads first is fetched into the processor's cache.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        if !self.table.is_empty() {
            prefetch(&self.table, hash as usize & self.mask());
        }
    }

    /// Places between the values and where their hashes would have them, all together: what a hash function
    /// is judged by.
    pub fn passed(&self) -> usize {
        let full = self.table.iter().enumerate().filter(|(_, p)| !p.value.is_vacant());
        full.map(|(at, p)| at.wrapping_sub(p.hash as usize) & self.mask()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    impl Vacant for u16 {
        const VACANT: u16 = u16::MAX;
        fn is_vacant(self) -> bool {
            self == u16::MAX
        }
    }

    /// Random insertions and removals with many equal hashes agree with a list.
    #[test]
    fn the_index_agrees_with_a_list() {
        let mut s = Stream::new(6, "index");
        let mut index = HashIndex::default();
        let mut model: Vec<(u32, u16)> = Vec::new();
        for value in 0..20_000 {
            if s.chance(0.55) || model.is_empty() {
                let hash = (s.below(300) as u32).wrapping_mul(0x0101_0107);
                index.insert(hash, value);
                model.push((hash, value));
            } else {
                let (hash, value) = model.swap_remove(s.below(model.len() as u64) as usize);
                index.remove(hash, |v| v == value);
            }
            let hash = (s.below(310) as u32).wrapping_mul(0x0101_0107);
            index.prefetch(hash);
            let mut found = Vec::new();
            let mut after = None;
            while let Some((value, at)) = index.next(hash, after) {
                found.push(value);
                after = Some(at);
            }
            found.sort_unstable();
            let mut expect: Vec<u16> = model.iter().filter(|m| m.0 == hash).map(|m| m.1).collect();
            expect.sort_unstable();
            assert_eq!(found, expect);
            assert_eq!((index.len(), index.is_empty()), (model.len(), model.is_empty()));
        }
    }
}
