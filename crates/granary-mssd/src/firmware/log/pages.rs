//! [`Pages`]: the second layer of the log index: the pages of a 16 MB partition that the log holds something
//! of.
//!
//! ```text
//!   few pages      skip list by page, as in the paper (skiplist.rs)
//!   128 or more    groups     | 48 bits: held; 16 bits: pages held before | 48 pages | 48 pages | ...
//!                               86 words: 688 B
//!                  records    | of the first page held | of the second | ...
//!                               4 B each
//! ```
//!
//! In a crowded partition the words of all groups take less memory than a skip list's towers. Finding a page
//! takes two steps instead of a dozen cache misses: its bit, and the record at the place that counting bits
//! gives. A page that is added moves the records behind it, 8 KiB of 16 on average where all pages are held.
//! The partition keeps this form until it is empty.
//!
//! Invariant: both forms hold the same map from page to record. It does *not* know what a record means.
//!
//! Source: ByteFS section 4.3 (partition table, skip list, chunk list); the words are ours, a rank directory
//! as in Jacobson, "Space-efficient static trees and graphs" (1989).

use super::skiplist::SkipList;
use granary_units::prefetch;

/// Keys are below this.
pub const KEYS: usize = 4096;
/// Pages from which on a partition has groups: 720 B and 4 B for each page are less than 9.3 B for each.
const CROWDED: usize = 128;
/// Keys of a group.
const GROUP: usize = 48;
const GROUPS: usize = KEYS.div_ceil(GROUP);
/// The bits of a group's keys.
const HELD: u64 = (1 << GROUP) - 1;
/// One page more before a group.
const ONE: u64 = 1 << GROUP;

/// An ordered map from 12-bit keys to records (32 bits).
#[derive(Clone)]
pub enum Pages {
    /// Few keys.
    Sparse(Box<SkipList>),
    /// Many.
    Crowded(Packed),
}

/// The records of the keys that are held, in their order.
#[derive(Clone)]
pub struct Packed {
    /// From bit 0 on which keys of the group are held; above, how many of all groups before.
    groups: Box<[u64; GROUPS]>,
    records: Vec<u32>,
}

impl Pages {
    /// An empty map.
    pub fn new() -> Pages {
        Pages::Sparse(Box::new(SkipList::new()))
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        match self {
            Pages::Sparse(list) => list.is_empty(),
            Pages::Crowded(packed) => packed.records.is_empty(),
        }
    }

    /// Bytes of memory taken beyond the value itself.
    pub fn memory(&self) -> usize {
        match self {
            Pages::Sparse(list) => size_of::<SkipList>() + list.memory(),
            Pages::Crowded(packed) => size_of_val(&*packed.groups) + packed.records.capacity() * 4,
        }
    }

    /// The record of `key`.
    #[inline]
    pub fn find(&self, key: u16) -> Option<u32> {
        match self {
            Pages::Crowded(packed) => packed.place(key).ok().map(|place| packed.records[place]),
            Pages::Sparse(list) => list.find(key),
        }
    }

    /// A look for `key` comes soon: the first of what it reads is fetched into the processor's cache, the
    /// word of its group.
    #[inline]
    pub fn prefetch_group(&self, key: u16) {
        if let Pages::Crowded(packed) = self {
            prefetch(&*packed.groups, split(key).0);
        }
    }

    /// The second, by way of the first: its record.
    #[inline]
    pub fn prefetch_record(&self, key: u16) {
        if let Pages::Crowded(packed) = self
            && let Ok(place) = packed.place(key)
        {
            prefetch(&packed.records, place);
        }
    }

    /// Changes the record of a key that the map has.
    pub fn set(&mut self, key: u16, record: u32) {
        match self {
            Pages::Crowded(packed) => {
                if let Ok(place) = packed.place(key) {
                    packed.records[place] = record;
                }
            }
            Pages::Sparse(list) => list.set(key, record),
        }
    }

    /// Adds a key that the map does not have. `random` decides about the skip list's shape.
    pub fn insert(&mut self, key: u16, record: u32, random: impl FnOnce() -> u64) {
        assert!((key as usize) < KEYS);
        match self {
            Pages::Crowded(packed) => packed.insert(key, record),
            Pages::Sparse(list) => {
                list.insert(key, record, random);
                if list.len() >= CROWDED {
                    let mut packed = Packed { groups: Box::new([0; GROUPS]), records: Vec::new() };
                    list.iter().for_each(|(key, record)| packed.insert(key, record));
                    *self = Pages::Crowded(packed);
                }
            }
        }
    }

    /// Removes `key`; returns its record.
    pub fn remove(&mut self, key: u16) -> Option<u32> {
        match self {
            Pages::Sparse(list) => list.remove(key),
            Pages::Crowded(packed) => packed.remove(key),
        }
    }

    /// The first key not below `key`.
    pub fn at_or_after(&self, key: u16) -> Option<u16> {
        match self {
            Pages::Sparse(list) => list.at_or_after(key),
            Pages::Crowded(packed) => {
                let (first, bit) = split(key);
                let mut from = HELD & (u64::MAX << bit);
                for (group, word) in packed.groups.iter().enumerate().skip(first) {
                    let held = word & from;
                    if held != 0 {
                        return Some((group * GROUP) as u16 + held.trailing_zeros() as u16);
                    }
                    from = HELD;
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

/// Group and bit of a key.
#[inline]
fn split(key: u16) -> (usize, u32) {
    (key as usize / GROUP, (key as usize % GROUP) as u32)
}

impl Packed {
    /// Where the record of `key` is, or else would be.
    #[inline]
    fn place(&self, key: u16) -> Result<usize, usize> {
        let (group, bit) = split(key);
        let word = self.groups[group];
        let place = (word >> GROUP) as usize + (word & ((1 << bit) - 1)).count_ones() as usize;
        if word >> bit & 1 == 1 { Ok(place) } else { Err(place) }
    }

    fn insert(&mut self, key: u16, record: u32) {
        let (Ok(place) | Err(place)) = self.place(key);
        if self.records.len() == self.records.capacity() {
            // By a sixteenth, not by half: the index should be small.
            self.records.reserve_exact((self.records.len() / 16).max(16));
        }
        self.records.insert(place, record);
        let (group, bit) = split(key);
        assert_eq!(self.groups[group] >> bit & 1, 0, "the map has no such key yet");
        self.groups[group] |= 1 << bit;
        self.groups[group + 1..].iter_mut().for_each(|word| *word += ONE);
    }

    fn remove(&mut self, key: u16) -> Option<u32> {
        let place = self.place(key).ok()?;
        let (group, bit) = split(key);
        self.groups[group] &= !(1 << bit);
        self.groups[group + 1..].iter_mut().for_each(|word| *word -= ONE);
        Some(self.records.remove(place))
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
