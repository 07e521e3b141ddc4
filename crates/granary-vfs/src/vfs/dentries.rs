//! [`DentryTable`]: names in memory, present and absent ones.
//!
//! ```text
//!   places: (hash, entry) (hash, entry) ...       hash_index.rs
//!   entries: one slab, also the face of the clock
//!   entry = { directory's key, name, inode number or ABSENT, referenced? }
//!                                      one line of the cache, the name within
//! ```
//!
//! Keyed by [`super::node::Node::key`], which is never reused: the entries of a directory that left memory
//! can no longer be found and go when the clock hand (second chance, an approximation of LRU as in Linux)
//! comes by.
//!
//! Invariant: the table's entries are true while the directory's `rwsem` is held. It does *not* pin inodes.

use granary_fs::Ino;
use granary_kit::{HashIndex, Vacant};
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::hash::Hasher;

const ABSENT: u64 = u64::MAX;

/// Result of a look into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    /// Nothing: ask the file system.
    Unknown,
    /// There is no such name.
    Absent,
    /// It stands for this inode.
    Present(Ino),
}

/// Fills a line of the processor's cache: a million of them are looked at once in a while.
#[repr(align(64))]
struct Entry {
    name: SmallVec<[u8; 32]>,
    dir: u64,
    target: u64,
    hash: u32,
    referenced: bool,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// An entry's number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Number(u32);

impl Vacant for Number {
    const VACANT: Number = Number(u32::MAX);

    fn is_vacant(self) -> bool {
        self == Number::VACANT
    }
}

/// See the module.
pub(super) struct DentryTable {
    places: HashIndex<Number>,
    entries: Vec<Entry>,
    hand: usize,
    capacity: usize,
}

fn hash(dir: u64, name: &[u8]) -> u32 {
    let mut h = FxHasher::default();
    h.write_u64(dir);
    h.write(name);
    let h = h.finish();
    (h ^ (h >> 32)) as u32
}

impl DentryTable {
    /// A table of at most `capacity` names (at least one).
    pub(super) fn new(capacity: usize) -> DentryTable {
        DentryTable { places: HashIndex::default(), entries: Vec::new(), hand: 0, capacity: capacity.max(1) }
    }

    fn find(&self, hash: u32, dir: u64, name: &[u8]) -> Option<usize> {
        let mut after = None;
        loop {
            let (Number(at), place) = self.places.next(hash, after)?;
            let e = &self.entries[at as usize];
            if e.dir == dir && *e.name == *name {
                return Some(at as usize);
            }
            after = Some(place);
        }
    }

    /// A look for `name` comes soon: the first of what it reads is fetched into the processor's cache.
    #[inline]
    pub(super) fn prefetch(&self, dir: u64, name: &[u8]) {
        self.places.prefetch(hash(dir, name));
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = DentryTable::new(self.capacity);
    }

    /// The table's knowledge of `name` in the directory with this key.
    pub(super) fn get(&mut self, dir: u64, name: &[u8]) -> Hit {
        match self.find(hash(dir, name), dir, name) {
            None => Hit::Unknown,
            Some(i) => {
                let e = &mut self.entries[i];
                e.referenced = true;
                if e.target == ABSENT { Hit::Absent } else { Hit::Present(Ino(e.target)) }
            }
        }
    }

    /// `name` now stands for `target`, or for nothing.
    pub(super) fn set(&mut self, dir: u64, name: &[u8], target: Option<Ino>) {
        let target = target.map_or(ABSENT, |i| i.0);
        let hash = hash(dir, name);
        if let Some(i) = self.find(hash, dir, name) {
            self.entries[i].target = target;
            return;
        }
        let entry = Entry { name: name.into(), dir, target, hash, referenced: false };
        let at = if self.entries.len() < self.capacity {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let at = self.victim();
            self.places.remove(self.entries[at].hash, |n| n == Number(at as u32));
            self.entries[at] = entry;
            at
        };
        self.places.insert(hash, Number(at as u32));
    }

    fn victim(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.entries.len();
            if !std::mem::take(&mut self.entries[at].referenced) {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;
    use std::collections::BTreeMap;

    /// Each entry of the table is the last one that was set. Entries are forgotten only for lack of room.
    #[test]
    fn the_table_never_contradicts_a_plain_map() {
        for capacity in [1, 7, 100, 10_000] {
            let mut table = DentryTable::new(capacity);
            let mut map = BTreeMap::new();
            let mut rng = Stream::new(capacity as u64, "dentries");
            let mut known = 0;
            for _ in 0..50_000 {
                let (dir, name) = (rng.below(5), format!("f{}", rng.below(200)));
                if rng.chance(0.4) {
                    let target = rng.chance(0.7).then(|| Ino(rng.below(1000)));
                    table.set(dir, name.as_bytes(), target);
                    map.insert((dir, name), target);
                } else {
                    let said = map.get(&(dir, name.clone()));
                    match table.get(dir, name.as_bytes()) {
                        Hit::Unknown => assert!(capacity < 1000 || said.is_none()),
                        Hit::Absent => assert_eq!(said, Some(&None)),
                        Hit::Present(i) => assert_eq!(said, Some(&Some(i))),
                    }
                    known += usize::from(table.get(dir, name.as_bytes()) != Hit::Unknown);
                }
                assert!(table.entries.len() <= capacity);
            }
            assert!(known > 0);
        }
    }

    #[test]
    fn a_name_in_use_outlives_names_that_are_not() {
        let mut table = DentryTable::new(4);
        table.set(1, b"hot", Some(Ino(7)));
        for i in 0..100 {
            assert_eq!(table.get(1, b"hot"), Hit::Present(Ino(7)));
            table.set(1, format!("cold{i}").as_bytes(), None);
        }
    }
}
