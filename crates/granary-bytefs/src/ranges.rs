//! [`Ranges`]: a set of page numbers as sorted, disjoint, non-touching ranges (which pages of a file are
//! reserved).

use smallvec::SmallVec;
use std::ops::Range;

/// A set of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    ranges: SmallVec<[Range<u64>; 1]>,
    count: u64,
}

impl Ranges {
    /// How many numbers are in the set.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first range that ends after `n`.
    fn at(&self, n: u64) -> usize {
        // Appending is the common case: look at the end first.
        match self.ranges.last() {
            Some(last) if last.end <= n => self.ranges.len(),
            Some(last) if last.start <= n => self.ranges.len() - 1,
            _ => self.ranges.partition_point(|r| r.end <= n),
        }
    }

    /// The parts of `range` that are not in the set.
    pub fn missing(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = range.start;
        let mut rest = self.ranges[self.at(range.start)..].iter();
        let end = range.end;
        std::iter::from_fn(move || {
            while at < end {
                let gap_end = match rest.next() {
                    Some(r) => {
                        let gap = at..r.start.min(end);
                        at = r.end;
                        gap
                    }
                    None => std::mem::replace(&mut at, end)..end,
                };
                if gap_end.start < gap_end.end {
                    return Some(gap_end);
                }
            }
            None
        })
    }

    /// Adds a range, parts of which may be in the set. Returns how many numbers are new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        // All ranges that overlap or touch become one.
        let from = if range.start == 0 { 0 } else { self.at(range.start - 1) };
        let mut merged = range;
        let mut held = 0;
        let mut to = from;
        while let Some(r) = self.ranges.get(to).filter(|r| r.start <= merged.end) {
            held += r.end - r.start;
            merged = merged.start.min(r.start)..merged.end.max(r.end);
            to += 1;
        }
        let new = merged.end - merged.start - held;
        if to == from {
            self.ranges.insert(from, merged);
        } else {
            self.ranges[from] = merged;
            self.ranges.drain(from + 1..to);
        }
        self.count += new;
        new
    }

    /// Removes a range, parts of which may not be in the set. Returns how many numbers were.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let from = self.at(range.start);
        let (mut to, mut gone) = (from, 0);
        let (mut left, mut right) = (None, None);
        while let Some(r) = self.ranges.get(to).filter(|r| r.start < range.end) {
            gone += r.end.min(range.end) - r.start.max(range.start);
            if r.start < range.start {
                left = Some(r.start..range.start);
            }
            if r.end > range.end {
                right = Some(range.end..r.end);
            }
            to += 1;
        }
        if to > from {
            self.ranges.drain(from..to);
            self.ranges.insert_many(from, left.into_iter().chain(right));
        }
        self.count -= gone;
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    #[test]
    fn any_sequence_agrees_with_an_array() {
        let mut s = Stream::new(1, "ranges");
        let (mut set, mut model) = (Ranges::default(), [false; 200]);
        for _ in 0..20_000 {
            let a = s.below(201);
            let b = a + s.below((201 - a).min(30));
            let part = &mut model[a as usize..b as usize];
            let held = part.iter().filter(|&&x| x).count() as u64;
            if s.chance(0.3) {
                let missing: u64 = set.missing(a..b).map(|r| r.end - r.start).sum();
                assert_eq!(missing, b - a - held);
            } else if s.chance(0.5) {
                assert_eq!(set.insert(a..b), b - a - held);
                part.fill(true);
            } else {
                assert_eq!(set.remove(a..b), held);
                part.fill(false);
            }
            assert_eq!(set.count(), model.iter().filter(|&&x| x).count() as u64);
            assert!(set.ranges.windows(2).all(|w| w[0].end < w[1].start));
        }
    }
}
