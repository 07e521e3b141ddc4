//! Bitmaps as slices of words: bit `n` is bit `n % 64` of word `n / 64`. A word at a time, so that maps of
//! terabytes take milliseconds.

use std::ops::Range;

/// The words that hold the bits `first..first + n`, and which of their bits these are.
pub fn words(first: u64, n: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = first + n;
    let after = if n == 0 { first / 64 } else { end.div_ceil(64) };
    (first / 64..after).map(move |w| {
        let low = first.saturating_sub(w * 64);
        let high = (end - w * 64).min(64);
        (w as usize, u64::MAX << low & u64::MAX >> (64 - high))
    })
}

/// The first bit of a range that is set.
///
/// # Panics
/// The map ends before the range.
#[inline]
pub fn next_set(map: &[u64], range: Range<u64>) -> Option<u64> {
    next(map, range, 0)
}

/// The runs of bits in a range that are not set, as (first, number), ascending: between two there is a set
/// bit.
///
/// # Panics
/// As [`next_set`].
pub fn clear_runs(map: &[u64], range: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let first = next(map, at..range.end, u64::MAX)?;
        at = next_set(map, first..range.end).unwrap_or(range.end);
        Some((first, at - first))
    })
}

/// The first bit that is set in the map with each word changed by `flip`.
#[inline]
fn next(map: &[u64], range: Range<u64>, flip: u64) -> Option<u64> {
    let mut at = range.start;
    while at < range.end {
        let left = (map[(at / 64) as usize] ^ flip) >> (at % 64);
        if left != 0 {
            let found = at + u64::from(left.trailing_zeros());
            return (found < range.end).then_some(found);
        }
        at = (at / 64 + 1) * 64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_runs_and_the_next_bit_are_those_of_a_list_of_bits(
            mut bits in prop::collection::vec(any::<bool>(), 1..400),
            runs in prop::collection::vec((0..400usize, 0..200usize), 0..4),
            from in 0..400usize,
        ) {
            let mut map = vec![0; bits.len().div_ceil(64)];
            for (n, _) in bits.iter().enumerate().filter(|(_, set)| **set) {
                map[n / 64] |= 1u64 << (n % 64);
            }
            for (first, n) in runs {
                let first = first.min(bits.len());
                let n = n.min(bits.len() - first);
                bits[first..first + n].fill(true);
                words(first as u64, n as u64).for_each(|(w, mask)| map[w] |= mask);
            }
            let (from, end) = (from.min(bits.len()), bits.len());
            let next = (from..end).find(|n| bits[*n]).map(|n| n as u64);
            prop_assert_eq!(next_set(&map, from as u64..end as u64), next);
            let mut clear: Vec<(u64, u64)> = Vec::new();
            for n in (from..end).filter(|n| !bits[*n]) {
                match clear.last_mut() {
                    Some((first, count)) if *first + *count == n as u64 => *count += 1,
                    _ => clear.push((n as u64, 1)),
                }
            }
            prop_assert_eq!(clear_runs(&map, from as u64..end as u64).collect::<Vec<_>>(), clear);
        }
    }
}
