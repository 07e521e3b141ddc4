//! [`Caches`]: the lines that the processors' caches hold between a store and its way to a DIMM.
//!
//! ```text
//!   as many as the caches hold:
//!   store ──> | line 40, core 0: bytes 0..8, 16..64 | line 41, core 3: all 64 | ...
//!                   | write-back of a range (clwb), or pushed out: the line that is held for longest
//!                   v
//!             on its way to a DIMM
//! ```
//!
//! Invariants: a line is held once, by the core that stored to it last, since caches are coherent: a load or
//! a write-back by any core finds it. No more lines are held than there is room for.
//! It does *not* know time, nor lines that were only loaded.

use granary_device::Structure;
use granary_units::{ByteAddr, LINE_SIZE};
use std::collections::{BTreeMap, VecDeque};

/// A line with the bytes that were stored to it.
#[derive(Clone, Debug)]
pub struct Held {
    /// The bytes; only those in `mask` mean something.
    pub data: [u8; LINE_SIZE],
    /// One bit for each stored byte.
    pub mask: u64,
    /// The core that stored to it last.
    pub core: u16,
    /// The structure that is being written.
    pub what: Structure,
    /// Tells this stay in the caches from others of the line.
    stay: u64,
}

impl Held {
    /// Whether every byte was stored.
    pub fn is_whole(&self) -> bool {
        self.mask == u64::MAX
    }

    /// Puts the stored bytes among `byte..byte + out.len()` of the line over `out`.
    pub fn overlay(&self, byte: usize, out: &mut [u8]) {
        for (first, len) in runs(self.mask) {
            let (from, to) = (first.max(byte), (first + len).min(byte + out.len()));
            if from < to {
                out[from - byte..to - byte].copy_from_slice(&self.data[from..to]);
            }
        }
    }
}

/// The runs of ones in a mask: (first, length).
pub fn runs(mut mask: u64) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let skip = mask.trailing_zeros();
            mask >>= skip;
            let len = mask.trailing_ones();
            mask = mask.checked_shr(len).unwrap_or(0);
            let first = at + skip as usize;
            at = first + len as usize;
            (first, len as usize)
        })
    })
}

/// The part of `at..at + len` in each line: (line, first byte in it, offset in the data, length).
pub fn split(at: ByteAddr, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < len).then(|| {
            let here = at.offset(done as u64);
            let byte = (here.0 % LINE_SIZE as u64) as usize;
            let n = (LINE_SIZE - byte).min(len - done);
            done += n;
            (here.line(), byte, done - n, n)
        })
    })
}

/// The bits of `len` bytes (1 to 64) from `first` on.
pub fn bits(first: usize, len: usize) -> u64 {
    (u64::MAX >> (LINE_SIZE - len)) << first
}

/// All caches of the host's processors, as far as they hold lines of these DIMMs that are newer than what is
/// there.
#[derive(Clone)]
pub struct Caches {
    limit: usize,
    held: BTreeMap<u64, Held>,
    /// Stays in the order of their beginning; those that have ended otherwise are passed over.
    order: VecDeque<(u64, u64)>,
    stays: u64,
}

impl Caches {
    /// Empty ones, with room for `limit` lines.
    pub fn new(limit: usize) -> Caches {
        Caches { limit, held: BTreeMap::new(), order: VecDeque::new(), stays: 0 }
    }

    /// Stores to a line; returns the line that is pushed out for it.
    pub fn store(
        &mut self,
        core: u16,
        line: u64,
        byte: usize,
        data: &[u8],
        what: Structure,
    ) -> Option<(u64, Held)> {
        let stay = self.stays;
        let held = self.held.entry(line).or_insert_with(|| {
            self.stays += 1;
            self.order.push_back((line, stay));
            Held { data: [0; LINE_SIZE], mask: 0, core, what, stay }
        });
        held.data[byte..byte + data.len()].copy_from_slice(data);
        held.mask |= bits(byte, data.len());
        (held.core, held.what) = (core, what);
        let pushed = if self.held.len() > self.limit { self.oldest() } else { None };
        self.tidy();
        pushed
    }

    fn oldest(&mut self) -> Option<(u64, Held)> {
        while let Some((line, stay)) = self.order.pop_front() {
            if self.held.get(&line).is_some_and(|held| held.stay == stay) {
                return self.held.remove_entry(&line);
            }
        }
        None
    }

    /// Forgets stays that have ended, where those are most of the list.
    fn tidy(&mut self) {
        if self.order.len() > 64 + 2 * self.held.len() {
            self.order.retain(|(line, stay)| self.held.get(line).is_some_and(|held| held.stay == *stay));
        }
    }

    /// The line, if it is held.
    #[inline]
    pub fn get(&self, line: u64) -> Option<&Held> {
        self.held.get(&line)
    }

    /// Held lines with `first <= line < end`, in ascending order.
    pub fn range(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, &Held)> {
        self.held.range(first..end).map(|(line, held)| (*line, held))
    }

    /// Takes the held lines with `first <= line < end` out, in ascending order.
    pub fn take(&mut self, first: u64, end: u64) -> Vec<(u64, Held)> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let lines: Vec<u64> = self.held.range(first..end).map(|(line, _)| *line).collect();
        lines.into_iter().filter_map(|line| self.held.remove_entry(&line)).collect()
    }

    /// Whether nothing is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Lines held.
    pub fn len(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(caches: &mut Caches, core: u16, line: u64, byte: usize, data: &[u8]) -> Option<u64> {
        caches.store(core, line, byte, data, Structure::Data).map(|(line, _)| line)
    }

    #[test]
    fn the_line_that_is_held_for_longest_is_pushed_out() {
        let mut caches = Caches::new(2);
        assert_eq!(store(&mut caches, 0, 5, 0, &[1]), None);
        assert_eq!(store(&mut caches, 0, 9, 0, &[1]), None);
        assert_eq!(store(&mut caches, 0, 5, 8, &[1]), None);
        assert_eq!(store(&mut caches, 0, 7, 0, &[1]), Some(5));
        // A line that was written back in between stays anew.
        assert_eq!(caches.take(9, 10).len(), 1);
        assert_eq!(store(&mut caches, 0, 9, 0, &[1]), None);
        assert_eq!(store(&mut caches, 0, 1, 0, &[1]), Some(7));
        assert_eq!(caches.len(), 2);
    }

    #[test]
    fn lines_written_back_leave_nothing_behind() {
        let mut caches = Caches::new(8);
        for line in 0..10_000 {
            assert_eq!(store(&mut caches, 0, line % 4, 0, &[1]), None);
            assert_eq!(caches.take(0, u64::MAX).len(), 1);
        }
        assert!(caches.order.len() <= 66, "{}", caches.order.len());
    }

    #[test]
    fn a_line_belongs_to_the_core_that_stored_to_it_last_with_the_bytes_of_both() {
        let mut caches = Caches::new(8);
        store(&mut caches, 0, 3, 0, &[1; 8]);
        store(&mut caches, 4, 3, 4, &[2; 60]);
        let held = caches.get(3).expect("held");
        assert!(held.is_whole() && held.core == 4);
        let mut part = [9; 6];
        held.overlay(2, &mut part);
        assert_eq!(part, [1, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn only_stored_bytes_are_laid_over() {
        let mut caches = Caches::new(8);
        store(&mut caches, 0, 3, 1, &[7]);
        store(&mut caches, 0, 3, 62, &[8, 9]);
        let mut line = [0; LINE_SIZE];
        caches.get(3).expect("held").overlay(0, &mut line);
        assert_eq!((line[0], line[1], line[2], line[61], line[62], line[63]), (0, 7, 0, 0, 8, 9));
        assert_eq!(runs(u64::MAX).collect::<Vec<_>>(), [(0, 64)]);
    }
}
