//! [`IndexSet`]: a set of small numbers that finds its next member quickly.
//!
//! ```text
//!   level 2   1                                  a bit is set where the word below has any bit set
//!   level 1   1 0 1                    (64 bits a word)
//!   level 0   0101 0000 1100 ...       one bit per number
//! ```
//!
//! Filebench keeps its files in three AVL trees (free, absent, present) and asks each for "this index, or the
//! next one, or the first". Here each tree is one of these: 1.02 bits per number, a query touches at most
//! `2 * log64(n)` words.

/// A set of numbers below a fixed bound.
#[derive(Clone, Debug)]
pub(crate) struct IndexSet {
    levels: Vec<Vec<u64>>,
    len: usize,
}

impl IndexSet {
    /// The empty set of numbers below `bound`.
    pub(crate) fn empty(bound: usize) -> IndexSet {
        let mut levels = Vec::new();
        let mut bits = bound.max(1);
        loop {
            let words = bits.div_ceil(64);
            levels.push(vec![0; words]);
            if words == 1 {
                return IndexSet { levels, len: 0 };
            }
            bits = words;
        }
    }

    /// All numbers below `bound`.
    pub(crate) fn full(bound: usize) -> IndexSet {
        let mut set = IndexSet::empty(bound);
        let mut bits = bound;
        for level in &mut set.levels {
            for (i, word) in level.iter_mut().enumerate() {
                let left = bits.saturating_sub(i * 64);
                *word = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
            }
            bits = bits.div_ceil(64);
        }
        set.len = bound;
        set
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn contains(&self, i: usize) -> bool {
        self.levels[0][i / 64] >> (i % 64) & 1 != 0
    }

    /// Adds `i`; nothing happens where it is a member.
    pub(crate) fn insert(&mut self, i: usize) {
        if self.contains(i) {
            return;
        }
        self.len += 1;
        let mut at = i;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let was = *word;
            *word |= 1 << (at % 64);
            if was != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// Removes `i`; nothing happens where it is no member.
    pub(crate) fn remove(&mut self, i: usize) {
        if !self.contains(i) {
            return;
        }
        self.len -= 1;
        let mut at = i;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The smallest member that is at least `i`, or else the smallest member; `None` where there is no
    /// member.
    pub(crate) fn next_around(&self, i: usize) -> Option<usize> {
        self.next(i).or_else(|| self.next(0))
    }

    /// The smallest member that is at least `i`.
    fn next(&self, i: usize) -> Option<usize> {
        let mut at = i;
        for (height, level) in self.levels.iter().enumerate() {
            let word = *level.get(at / 64)?;
            let rest = word & (u64::MAX << (at % 64));
            if rest != 0 {
                let mut found = at / 64 * 64 + rest.trailing_zeros() as usize;
                for below in self.levels[..height].iter().rev() {
                    found = found * 64 + below[found].trailing_zeros() as usize;
                }
                return Some(found);
            }
            at = at / 64 + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::IndexSet;
    use granary_sim::rng::Stream;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_an_ordered_set() {
        for bound in [1, 63, 64, 65, 4096, 4097, 300_000] {
            let mut random = Stream::new(bound as u64, "index set");
            let mut set = if bound % 2 == 0 { IndexSet::full(bound) } else { IndexSet::empty(bound) };
            let mut model: BTreeSet<usize> =
                if bound % 2 == 0 { (0..bound).collect() } else { BTreeSet::new() };
            for _ in 0..4_000 {
                let i = random.below(bound as u64) as usize;
                if random.chance(0.5) {
                    set.insert(i);
                    model.insert(i);
                } else {
                    set.remove(i);
                    model.remove(&i);
                }
                let from = random.below(bound as u64 + 2) as usize;
                let expected = model.range(from..).next().or_else(|| model.first()).copied();
                assert_eq!(set.next_around(from), expected, "bound {bound}, from {from}");
                assert_eq!(set.len(), model.len());
                assert_eq!(set.contains(i), model.contains(&i));
            }
        }
    }

    #[test]
    fn empties_one_by_one() {
        let mut set = IndexSet::full(5_000);
        while let Some(i) = set.next_around(2_500) {
            set.remove(i);
        }
        assert_eq!(set.len(), 0);
    }
}
