//! Extent hashing: at which keys a range of file clusters is entered into a hash table, and which keys a
//! search probes.
//!
//! ```text
//!   extent [3, 10):   pointers at 3 (0011), 4 (0100), 8 (1000)     strides 1, 4, ... : 2^tnz(key)
//!   search for 7 (0111):  7 no, 6 no, 4 hit                        the rightmost one bit is cleared each
//!                                                                  time
//! ```
//!
//! Keys are counted within one *chunk* of a file (a power of two of clusters; no extent crosses chunks), so
//! that key 0 is the chunk's first cluster and ends every search. Invariants, for disjoint extents:
//!
//! - An extent of `n` clusters has at most `floor(log2 n) + 1` pointers: the strides at least double.
//! - A search probes at most `popcount(q) + 1` keys.
//! - The first pointer that a search finds decides: if its extent does not contain `q`, nothing does.
//! - The pointers of `[s, m)` are those of `[s, e)` below `m`: a cut tail only takes pointers away.
//!
//! Source: SPFS slides, "Extent Hashing: Insert" and "Search"; the carved form is that of the released code.

use serde::{Deserialize, Serialize};

/// Where the value of an extent lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A range is cut into extents that need one slot each (released code).
    #[default]
    Carved,
    /// An extent has a slot at each of its pointers (slides).
    Pointers,
}

/// The longest extent that one slot at `start` can stand for: `2^tnz(start)`, and all of the chunk at its
/// start.
pub fn reach(start: u32, chunk: u32) -> u32 {
    if start == 0 { chunk } else { 1 << start.trailing_zeros() }
}

/// The keys at which the extent `start..start + len` is entered, ascending.
pub fn pointers(start: u32, len: u32) -> impl Iterator<Item = u32> {
    let end = u64::from(start) + u64::from(len);
    let first = (len > 0).then_some(u64::from(start));
    std::iter::successors(first, move |&key| {
        let next = key + if key == 0 { end } else { 1 << key.trailing_zeros() };
        (next < end).then_some(next)
    })
    .map(|key| key as u32)
}

/// The keys that a search for `key` probes, in order.
pub fn probes(key: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(key), |&k| (k != 0).then(|| k & (k - 1)))
}

/// The extents, as (start, length), that the range `start..start + len` becomes in this form. The range lies
/// within a chunk.
pub fn extents(form: Form, start: u32, len: u32, chunk: u32) -> Vec<(u32, u32)> {
    let (mut at, mut left, mut cut) = (start, len, Vec::new());
    while left > 0 {
        let n = match form {
            Form::Pointers => left,
            Form::Carved => floor_power(left.min(reach(at, chunk))),
        };
        cut.push((at, n));
        (at, left) = (at + n, left - n);
    }
    cut
}

/// The largest power of two that is not above `n`, which is not 0.
fn floor_power(n: u32) -> u32 {
    1 << (31 - n.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;
    use std::collections::BTreeMap;

    const CHUNK: u32 = 65_536;

    /// The slides' example: start 3, length 7, and the search for 7.
    #[test]
    fn the_slides_example_comes_out() {
        assert_eq!(pointers(3, 7).collect::<Vec<_>>(), [3, 4, 8]);
        assert_eq!(probes(7).collect::<Vec<_>>(), [7, 6, 4, 0]);
        assert_eq!(pointers(0, CHUNK).collect::<Vec<_>>(), [0]);
    }

    /// P2: entries and probes stay below their bounds, and a cut tail keeps the other pointers.
    #[test]
    fn entries_and_probes_are_bounded() {
        let mut rng = Stream::new(1, "extent hashing");
        for _ in 0..50_000 {
            let bits = rng.below(17);
            let start = rng.below(1 << bits) as u32;
            let len = 1 + rng.below(u64::from(CHUNK - start.min(CHUNK - 1)).max(1)) as u32;
            let keys: Vec<u32> = pointers(start, len).collect();
            assert!(keys.len() as u32 <= len.ilog2() + 1, "{start}+{len}: {keys:?}");
            let cut = 1 + rng.below(u64::from(len)) as u32;
            let kept: Vec<u32> = keys.iter().copied().filter(|k| *k < start + cut).collect();
            assert_eq!(kept, pointers(start, cut).collect::<Vec<_>>());
            let q = rng.below(u64::from(CHUNK)) as u32;
            assert!(probes(q).count() as u32 <= q.count_ones() + 1);
        }
    }

    /// P1: under random inserts, tail cuts and removals, the first pointer found says what a plain interval
    /// map says.
    #[test]
    fn searches_agree_with_an_interval_map() {
        for form in [Form::Carved, Form::Pointers] {
            for seed in 0..20 {
                let mut rng = Stream::new(seed, "intervals");
                let mut table: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
                let mut truth: BTreeMap<u32, u32> = BTreeMap::new();
                for _ in 0..300 {
                    let start = rng.below(2000) as u32;
                    match rng.below(3) {
                        0 | 1 => {
                            let before = truth.range(..=start).next_back();
                            let after = truth.range(start..).next().map_or(4000, |(s, _)| *s);
                            if before.is_some_and(|(s, n)| s + n > start) || after == start {
                                continue;
                            }
                            let len = (1 + rng.below(300) as u32).min(after - start);
                            for (s, n) in extents(form, start, len, CHUNK) {
                                truth.insert(s, n);
                                pointers(s, n).for_each(|k| assert!(table.insert(k, (s, n)).is_none()));
                                assert!(form == Form::Pointers || pointers(s, n).count() == 1);
                            }
                        }
                        _ => {
                            let Some((&s, &n)) = truth.range(start..).next() else { continue };
                            let keep = rng.below(u64::from(n)) as u32;
                            pointers(s, n)
                                .filter(|k| *k >= s + keep)
                                .for_each(|k| assert!(table.remove(&k).is_some()));
                            pointers(s, keep).for_each(|k| assert!(table.insert(k, (s, keep)).is_some()));
                            truth.remove(&s);
                            if keep > 0 {
                                truth.insert(s, keep);
                            }
                        }
                    }
                }
                for q in 0..4000 {
                    let hit = probes(q).find_map(|k| table.get(&k).copied());
                    let found = hit.filter(|(s, n)| (*s..s + n).contains(&q));
                    let there = truth.range(..=q).next_back().map(|(s, n)| (*s, *n));
                    assert_eq!(found, there.filter(|(s, n)| q < s + n), "{form:?}, seed {seed}, key {q}");
                }
            }
        }
    }

    /// The averages over random ranges of 64 clusters and of a whole chunk that were computed apart from this
    /// code.
    #[test]
    fn carved_extents_and_pointers_are_as_many_as_computed() {
        let mut rng = Stream::new(7, "ranges");
        let ranges = 4000;
        let (mut carved, mut pointed) = (0, 0);
        for _ in 0..ranges {
            let start = rng.below(1 << 15) as u32;
            carved += extents(Form::Carved, start, 64, CHUNK).len();
            pointed += pointers(start, 64).count();
        }
        let (carved, pointed) = (carved as f64 / f64::from(ranges), pointed as f64 / f64::from(ranges));
        assert!((carved - 6.0).abs() < 0.2 && (pointed - 4.0).abs() < 0.2, "{carved} {pointed}");
    }
}
