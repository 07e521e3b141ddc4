//! [`Ranges`]: a set of block numbers kept as disjoint ranges; here the blocks of a file that were promised
//! to dirty pages (delayed allocation).

use std::collections::BTreeMap;

/// Disjoint, not touching ranges: first -> end.
#[derive(Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u32, u32>);

impl Ranges {
    /// The next maximal part of `from..end` that is wholly in (true) or wholly out of the set.
    pub fn next_part(&self, from: u32, end: u32) -> (u32, bool) {
        match self.0.range(..=from).next_back() {
            Some((_, e)) if *e > from => ((*e).min(end), true),
            _ => (self.0.range(from..end).next().map_or(end, |(s, _)| *s), false),
        }
    }

    /// Numbers of `first..end` in the set.
    pub fn count(&self, first: u32, end: u32) -> u32 {
        let (mut at, mut n) = (first, 0);
        while at < end {
            let (stop, inside) = self.next_part(at, end);
            n += if inside { stop - at } else { 0 };
            at = stop;
        }
        n
    }

    /// Adds `first..end`.
    pub fn insert(&mut self, first: u32, end: u32) {
        if first >= end {
            return;
        }
        let (mut a, mut b) = (first, end);
        // Every range that overlaps or touches becomes part of the new one.
        while let Some((&s, &e)) = self.0.range(..=b).next_back().filter(|(_, e)| **e >= a) {
            self.0.remove(&s);
            (a, b) = (a.min(s), b.max(e));
        }
        self.0.insert(a, b);
    }

    /// Removes `first..end`; returns how many numbers were in.
    pub fn remove(&mut self, first: u32, end: u32) -> u32 {
        let mut n = 0;
        if first >= end {
            return 0;
        }
        while let Some((&s, &e)) = self.0.range(..end).next_back().filter(|(_, e)| **e > first) {
            self.0.remove(&s);
            if e > end {
                self.0.insert(end, e);
            }
            if s < first {
                self.0.insert(s, first);
            }
            n += e.min(end) - s.max(first);
            if s < first {
                break;
            }
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    #[test]
    fn ranges_agree_with_a_vector_of_flags() {
        let mut s = Stream::new(5, "ranges");
        let (mut ranges, mut flags) = (Ranges::default(), [false; 200]);
        for _ in 0..5000 {
            let a = s.below(200) as u32;
            let b = a + s.below((201 - a) as u64) as u32;
            let part = &mut flags[a as usize..b as usize];
            let inside = part.iter().filter(|f| **f).count() as u32;
            assert_eq!(ranges.count(a, b), inside);
            if s.chance(0.5) {
                ranges.insert(a, b);
                part.fill(true);
            } else {
                assert_eq!(ranges.remove(a, b), inside);
                part.fill(false);
            }
            for n in 0..200 {
                assert_eq!(ranges.count(n, n + 1) == 1, flags[n as usize]);
            }
            let touching = ranges.0.iter().zip(ranges.0.iter().skip(1)).any(|(x, y)| x.1 >= y.0);
            assert!(!touching, "{ranges:?}");
        }
    }
}
