//! Bitmaps: bit n of a block is bit n % 8 of byte n / 8.

use crate::layout::{BLOCK_SIZE, BlockBytes};

const BITS: u32 = (BLOCK_SIZE * 8) as u32;

fn word(map: &BlockBytes, i: u32) -> u64 {
    let at = i as usize * 8;
    u64::from_le_bytes(map[at..at + 8].try_into().expect("eight bytes"))
}

/// Bit `n`.
pub(crate) fn get(map: &BlockBytes, n: u32) -> bool {
    map[n as usize / 8] >> (n % 8) & 1 == 1
}

/// The first bit from `from` on, below `end`, that equals `value`; `end` where there is none.
fn next(map: &BlockBytes, from: u32, end: u32, value: bool) -> u32 {
    let flip = if value { 0 } else { u64::MAX };
    let mut at = from;
    while at < end {
        let left = (word(map, at / 64) ^ flip) >> (at % 64);
        if left != 0 {
            return (at + left.trailing_zeros()).min(end);
        }
        at = (at / 64 + 1) * 64;
    }
    end
}

/// The first zero bit in `from..end`, or `end`.
pub(crate) fn next_zero(map: &BlockBytes, from: u32, end: u32) -> u32 {
    next(map, from, end, false)
}

/// The first run of `want` zero bits in `from..end`, else the longest run: (first bit, length).
pub(crate) fn find_run(map: &BlockBytes, from: u32, end: u32, want: u32) -> (u32, u32) {
    let (mut at, mut best) = (from, (from, 0));
    loop {
        at = next(map, at, end, false);
        if at >= end {
            return best;
        }
        let stop = next(map, at, end.min(at.saturating_add(want)), true);
        if stop - at > best.1 {
            best = (at, stop - at);
        }
        if stop - at >= want {
            return best;
        }
        at = stop;
    }
}

/// Applies `f(word, mask)` to the words that hold bits `first..first + len`.
fn each_word(map: &mut BlockBytes, first: u32, len: u32, mut f: impl FnMut(u64, u64) -> u64) {
    assert!(first + len <= BITS);
    let (mut at, end) = (first, first + len);
    while at < end {
        let n = (64 - at % 64).min(end - at);
        let mask = if n == 64 { u64::MAX } else { ((1 << n) - 1) << (at % 64) };
        let new = f(word(map, at / 64), mask);
        let byte = (at / 64 * 8) as usize;
        map[byte..byte + 8].copy_from_slice(&new.to_le_bytes());
        at += n;
    }
}

/// Sets bits; returns whether all were clear.
pub(crate) fn set_range(map: &mut BlockBytes, first: u32, len: u32) -> bool {
    let mut clean = true;
    each_word(map, first, len, |w, mask| {
        clean &= w & mask == 0;
        w | mask
    });
    clean
}

/// Clears bits; returns whether all were set.
pub(crate) fn clear_range(map: &mut BlockBytes, first: u32, len: u32) -> bool {
    let mut clean = true;
    each_word(map, first, len, |w, mask| {
        clean &= w & mask == mask;
        w & !mask
    });
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    /// Ranges and searches agree with a plain vector of flags.
    #[test]
    fn ranges_and_searches_agree_with_a_vector() {
        let mut s = Stream::new(1, "bits");
        let (mut map, mut flags) = (Box::new([0; BLOCK_SIZE]), vec![false; BITS as usize]);
        for _ in 0..3000 {
            let first = s.below(BITS as u64) as u32;
            let len = s.below(200).min((BITS - first) as u64) as u32;
            let part = &mut flags[first as usize..(first + len) as usize];
            if s.chance(0.7) {
                assert_eq!(set_range(&mut map, first, len), part.iter().all(|f| !f));
                part.fill(true);
            } else {
                assert_eq!(clear_range(&mut map, first, len), part.iter().all(|f| *f));
                part.fill(false);
            }
            let n = s.below(BITS as u64) as u32;
            assert_eq!(get(&map, n), flags[n as usize]);
            let zero = flags[n as usize..].iter().position(|f| !f).map_or(BITS, |i| i as u32 + n);
            assert_eq!(next_zero(&map, n, BITS), zero);
        }
        let (first, len) = find_run(&map, 0, BITS, 40);
        assert!(len == 0 || flags[first as usize..(first + len) as usize].iter().all(|f| !f));
    }

    #[test]
    fn the_first_run_that_is_long_enough_wins_and_else_the_longest() {
        let mut map = Box::new([0xff; BLOCK_SIZE]);
        for (first, len) in [(10, 3), (100, 70), (1000, 20)] {
            clear_range(&mut map, first, len);
        }
        assert_eq!(find_run(&map, 0, BITS, 3), (10, 3));
        assert_eq!(find_run(&map, 0, BITS, 20), (100, 20));
        assert_eq!(find_run(&map, 171, BITS, 20), (1000, 20));
        assert_eq!(find_run(&map, 0, BITS, 71), (100, 70));
        assert_eq!(find_run(&map, 0, 105, 71), (100, 5));
        assert_eq!(find_run(&map, 2000, BITS, 1).1, 0);
    }
}
