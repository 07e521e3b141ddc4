//! [`Used`]: which blocks are in use, for recovery and checks.

use crate::corrupt;
use granary_fs::Result;
use granary_units::bits;

/// Which blocks are in use.
pub struct Used(Vec<u64>, u64);

impl Used {
    /// Nothing of `0..end` is in use.
    pub fn new(end: u64) -> Used {
        Used(vec![0; end.div_ceil(64) as usize], end)
    }

    /// Marks blocks.
    ///
    /// # Errors
    /// `Corrupt` where one of them is in use already.
    pub fn mark(&mut self, first: u64, count: u64, by: &str) -> Result<()> {
        let twice = |block| Err(corrupt(format!("block {block} is used by {by} and by another")));
        // Where a run leaves the file system, its part inside is looked at first.
        let inside = count.min(self.1.saturating_sub(first));
        for (word, mask) in bits::words(first, inside) {
            let both = self.0[word] & mask;
            if both != 0 {
                return twice(word as u64 * 64 + u64::from(both.trailing_zeros()));
            }
            self.0[word] |= mask;
        }
        if inside < count { twice(first.max(self.1)) } else { Ok(()) }
    }

    /// Runs of blocks that nobody uses.
    pub fn free_runs(&self) -> Vec<(u64, u64)> {
        bits::clear_runs(&self.0, 0..self.1).collect()
    }
}

/// Runs with neighbours joined; they are in order.
pub fn merged(runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for &(start, n) in runs {
        match out.last_mut() {
            Some((s, m)) if *s + *m == start => *m += n,
            _ => out.push((start, n)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_is_taken_or_beyond_the_end_is_named() {
        const BEYOND: u64 = 1 << 60;
        let second = |first, count| {
            let mut used = Used::new(200);
            used.mark(3, 70, "a file").expect("free");
            used.mark(190, 10, "a file").expect("free");
            used.mark(first, count, "it").map_err(|e| e.to_string())
        };
        assert_eq!((second(5, 0), second(0, 3), second(73, 117)), (Ok(()), Ok(()), Ok(())));
        let wrong = [
            (0, 5, 3),
            (72, 130, 72),
            (100, 101, 190),
            (80, u64::MAX, 190),
            (200, 1, 200),
            (BEYOND, 9, BEYOND),
        ];
        for (first, count, named) in wrong {
            let said = second(first, count).expect_err("taken");
            assert!(said.contains(&format!("block {named} is used by it")), "{first} + {count}: {said}");
        }
    }

    #[test]
    fn what_nobody_marked_is_free() {
        let mut used = Used::new(200);
        used.mark(3, 70, "it").expect("free");
        used.mark(199, 1, "it").expect("free");
        assert_eq!(used.free_runs(), [(0, 3), (73, 126)]);
    }
}
