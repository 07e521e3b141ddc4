//! [`Used`]: which blocks are in use, for recovery and checks.

use crate::corrupt;
use granary_vfs::Result;

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
        for block in first..first + count {
            let (word, bit) = ((block / 64) as usize, 1 << (block % 64));
            if block >= self.1 || self.0[word] & bit != 0 {
                return Err(corrupt(format!("block {block} is used by {by} and by another")));
            }
            self.0[word] |= bit;
        }
        Ok(())
    }

    /// Runs of blocks that nobody uses.
    pub fn free_runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for block in (0..self.1).filter(|b| self.0[(b / 64) as usize] >> (b % 64) & 1 == 0) {
            match runs.last_mut() {
                Some((start, n)) if *start + *n == block => *n += 1,
                _ => runs.push((block, 1)),
            }
        }
        runs
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
