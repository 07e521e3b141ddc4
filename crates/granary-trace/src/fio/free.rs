//! [`FreeMap`]: which units of a pass were visited, and the next one that was not, in a few steps however
//! many there are.
//!
//! ```text
//!   level 0   a bit for each unit: visited
//!   level 1   a bit for each word of level 0: no unit of it is left, and so on up to one word
//! ```
//!
//! Source: fio's `axmap` (lib/axmap.c) has the same form and the same answers.

/// See the module.
pub(super) struct FreeMap {
    units: u64,
    levels: Vec<Vec<u64>>,
}

impl FreeMap {
    /// None of `units` was visited; at least one.
    pub(super) fn new(units: u64) -> FreeMap {
        let (mut levels, mut bits) = (Vec::new(), units);
        loop {
            let words = bits.div_ceil(64);
            let mut level = vec![0; words as usize];
            // Bits that stand for nothing count as visited.
            if !bits.is_multiple_of(64) {
                level[words as usize - 1] = u64::MAX << (bits % 64);
            }
            levels.push(level);
            if words == 1 {
                return FreeMap { units, levels };
            }
            bits = words;
        }
    }

    pub(super) fn is_visited(&self, unit: u64) -> bool {
        self.levels[0][(unit / 64) as usize] >> (unit % 64) & 1 == 1
    }

    pub(super) fn visit(&mut self, unit: u64) {
        let mut at = unit;
        for level in &mut self.levels {
            let word = &mut level[(at / 64) as usize];
            *word |= 1 << (at % 64);
            if *word != u64::MAX {
                return;
            }
            at /= 64;
        }
    }

    /// The first unit at or behind this one that was not visited; behind the last the search goes on at the
    /// first. `None`: all were.
    pub(super) fn next_free(&self, unit: u64) -> Option<u64> {
        self.from(unit).or_else(|| self.from(0))
    }

    fn from(&self, unit: u64) -> Option<u64> {
        let mut at = unit;
        // Up to a word with a free bit at or behind `at`, then down to the unit.
        for up in 0..self.levels.len() {
            let word = self.levels[up].get((at / 64) as usize)?;
            let free = !word & (u64::MAX << (at % 64));
            if free == 0 {
                at = at / 64 + 1;
                continue;
            }
            let mut found = at / 64 * 64 + u64::from(free.trailing_zeros());
            for level in self.levels[..up].iter().rev() {
                found = found * 64 + u64::from((!level[found as usize]).trailing_zeros());
            }
            return (found < self.units).then_some(found);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    #[test]
    fn the_next_free_unit_is_that_of_a_plain_list() {
        let mut random = Stream::new(1, "units");
        for units in [1, 2, 63, 64, 65, 4095, 4096, 4097, 20_000] {
            let (mut map, mut plain) = (FreeMap::new(units), vec![false; units as usize]);
            for n in 0..units {
                let start = random.below(units);
                let wrapped = (start..units).chain(0..start).find(|unit| !plain[*unit as usize]);
                // Long lists are looked at now and then.
                if units < 100 || n % 97 == 0 || n + 200 > units {
                    assert_eq!(map.next_free(start), wrapped, "{units} units, from {start}");
                }
                let unit = wrapped.expect("some are left");
                assert!(!map.is_visited(unit));
                map.visit(unit);
                plain[unit as usize] = true;
            }
            assert_eq!(map.next_free(0), None);
        }
    }
}
