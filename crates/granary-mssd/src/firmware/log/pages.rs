//! [`Pages`]: the second layer of the log index: the pages of a 16 MB partition that the log holds something of.
//!
//! ```text
//!   few pages      skip list by page, as in the paper (skiplist.rs)
//!   512 or more    | record of page 0 | page 1 | ... | page 4095 |   one word for each possible page: 16 KiB
//!                  | bit: held | ...                             |   their order
//! ```
//!
//! In a crowded partition a table of all pages takes no more memory than a skip list's towers, and finding a page takes one
//! step instead of a dozen cache misses. A table stays one until the partition is empty.
//!
//! Invariant: both forms hold the same map from page to record. It does *not* know what a record means.
//!
//! Source: ByteFS section 4.3 (partition table, skip list, chunk list); the table is ours.

use super::skiplist::SkipList;

/// Keys are below this.
pub const KEYS: usize = 4096;
/// Pages from which on a partition has a table: at most 33 B for each of them.
const CROWDED: usize = 512;
/// In the table: not held. Not allowed as a record.
const NONE: u32 = u32::MAX;

/// An ordered map from 12-bit keys to records (32 bits, not all ones).
pub enum Pages {
    /// Few keys.
    Sparse(SkipList),
    /// Many.
    Crowded(Box<Table>),
}

/// A word for every key.
pub struct Table {
    records: [u32; KEYS],
    held: [u64; KEYS / 64],
    len: u16,
}

impl Pages {
    /// An empty map.
    pub fn new() -> Pages {
        Pages::Sparse(SkipList::new())
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        match self {
            Pages::Sparse(list) => list.is_empty(),
            Pages::Crowded(t) => t.len == 0,
        }
    }

    /// Bytes of memory taken beyond the value itself.
    pub fn memory(&self) -> usize {
        match self {
            Pages::Sparse(list) => list.memory(),
            Pages::Crowded(_) => size_of::<Table>(),
        }
    }

    /// The record of `key`.
    #[inline]
    pub fn find(&self, key: u16) -> Option<u32> {
        match self {
            Pages::Crowded(t) => Some(t.records[key as usize]).filter(|&r| r != NONE),
            Pages::Sparse(list) => list.find(key),
        }
    }

    /// Changes the record of a key that the map has.
    pub fn set(&mut self, key: u16, record: u32) {
        match self {
            Pages::Crowded(t) => t.records[key as usize] = record,
            Pages::Sparse(list) => list.set(key, record),
        }
    }

    /// Adds a key that the map does not have. `random` decides about the skip list's shape.
    pub fn insert(&mut self, key: u16, record: u32, random: impl FnOnce() -> u64) {
        assert!((key as usize) < KEYS && record != NONE);
        match self {
            Pages::Crowded(t) => t.insert(key, record),
            Pages::Sparse(list) => {
                list.insert(key, record, random);
                if list.len() >= CROWDED {
                    let mut t = Box::new(Table { records: [NONE; KEYS], held: [0; KEYS / 64], len: 0 });
                    list.iter().for_each(|(key, record)| t.insert(key, record));
                    *self = Pages::Crowded(t);
                }
            }
        }
    }

    /// Removes `key`; returns its record.
    pub fn remove(&mut self, key: u16) -> Option<u32> {
        match self {
            Pages::Sparse(list) => list.remove(key),
            Pages::Crowded(t) => {
                let record = std::mem::replace(&mut t.records[key as usize], NONE);
                (record != NONE).then(|| {
                    t.held[key as usize / 64] &= !(1 << (key % 64));
                    t.len -= 1;
                    record
                })
            }
        }
    }

    /// The first key not below `key`.
    pub fn at_or_after(&self, key: u16) -> Option<u16> {
        match self {
            Pages::Sparse(list) => list.at_or_after(key),
            Pages::Crowded(t) => {
                let mut bits = t.held[key as usize / 64] & (u64::MAX << (key % 64));
                for word in key as usize / 64.. {
                    if bits != 0 {
                        return Some(word as u16 * 64 + bits.trailing_zeros() as u16);
                    }
                    bits = *t.held.get(word + 1)?;
                }
                None
            }
        }
    }

    /// All keys with their records, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        let mut next = self.at_or_after(0);
        std::iter::from_fn(move || {
            let key = next?;
            next = if (key as usize) < KEYS - 1 { self.at_or_after(key + 1) } else { None };
            Some((key, self.find(key)?))
        })
    }
}

impl Table {
    fn insert(&mut self, key: u16, record: u32) {
        self.records[key as usize] = record;
        self.held[key as usize / 64] |= 1 << (key % 64);
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;
    use std::collections::BTreeMap;

    #[test]
    fn behaves_like_an_ordered_map_whether_few_or_many() {
        let mut rng = Stream::new(1, "pages");
        let mut pages = Pages::new();
        let mut map = BTreeMap::new();
        for step in 0..60_000u32 {
            // Grows to all 4096 keys, then shrinks again.
            let key = rng.below(KEYS as u64) as u16;
            let grow = if step < 40_000 { 0.8 } else { 0.3 };
            if !rng.chance(grow) {
                assert_eq!(pages.remove(key), map.remove(&key));
            } else if map.insert(key, step).is_some() {
                pages.set(key, step);
            } else {
                pages.insert(key, step, || rng.next_u64());
            }
            let probe = rng.below(KEYS as u64) as u16;
            assert_eq!(pages.find(probe), map.get(&probe).copied());
            assert_eq!(pages.at_or_after(probe), map.range(probe..).next().map(|(&k, _)| k));
            assert_eq!(pages.is_empty(), map.is_empty());
        }
        assert_eq!(pages.iter().collect::<Vec<_>>(), map.into_iter().collect::<Vec<_>>());
    }
}
