//! [`DentryTable`]: names in memory, present and absent ones.
//!
//! ```text
//!   places: (hash, entry) (hash, entry) ...       open addressing, linear: a look reads one line of the processor's cache
//!   entries: one slab, also the face of the clock
//!   entry = { directory's key, name, inode number or ABSENT, referenced? }       one line of the cache, the name within
//! ```
//!
//! Keyed by [`super::node::Node::key`], which is never reused: the entries of a directory that left memory can no
//! longer be found and go when the clock hand (second chance, an approximation of LRU as in Linux) comes by.
//!
//! Invariant: what the table says is true while the directory's `rwsem` is held. It does *not* pin inodes.

use crate::attr::Ino;
use granary_units::prefetch;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::hash::Hasher;

const NONE: u32 = u32::MAX;
const ABSENT: u64 = u64::MAX;

/// What the table knows about a name.
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

/// Where an entry is, and enough of its name to pass most others by; or nothing.
#[derive(Clone, Copy)]
struct Place {
    hash: u32,
    entry: u32,
}

const EMPTY: Place = Place { hash: 0, entry: NONE };

/// See the module.
pub(super) struct DentryTable {
    /// A power of two of them, at most two thirds in use.
    places: Vec<Place>,
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
        DentryTable { places: vec![EMPTY; 64], entries: Vec::new(), hand: 0, capacity: capacity.max(1) }
    }

    /// The place at which something with this hash lies, or after which.
    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    fn find(&self, hash: u32, dir: u64, name: &[u8]) -> Option<usize> {
        let mut at = self.home(hash);
        loop {
            let place = self.places[at];
            if place.entry == NONE {
                return None;
            }
            if place.hash == hash {
                let e = &self.entries[place.entry as usize];
                if e.dir == dir && *e.name == *name {
                    return Some(place.entry as usize);
                }
            }
            at = self.after(at);
        }
    }

    /// A look for `name` comes soon: the first of what it reads is fetched into the processor's cache.
    #[inline]
    pub(super) fn prefetch(&self, dir: u64, name: &[u8]) {
        prefetch(&self.places, self.home(hash(dir, name)));
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = DentryTable::new(self.capacity);
    }

    /// What is known about `name` in the directory with this key.
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
        if self.entries.len() < self.capacity {
            let at = self.entries.len() as u32;
            self.entries.push(entry);
            if self.entries.len() * 3 > self.places.len() * 2 {
                self.double();
            } else {
                self.place(Place { hash, entry: at });
            }
        } else {
            let at = self.victim();
            self.displace(at);
            self.entries[at] = entry;
            self.place(Place { hash, entry: at as u32 });
        }
    }

    /// Puts an entry into the first free place.
    fn place(&mut self, new: Place) {
        let mut at = self.home(new.hash);
        while self.places[at].entry != NONE {
            at = self.after(at);
        }
        self.places[at] = new;
    }

    /// Takes an entry out of its place. Those behind it move up as far as they may, so that no look ends before them.
    fn displace(&mut self, entry: usize) {
        let mut hole = self.home(self.entries[entry].hash);
        while self.places[hole].entry != entry as u32 {
            hole = self.after(hole);
        }
        let mask = self.places.len() - 1;
        let mut at = self.after(hole);
        while self.places[at].entry != NONE {
            let home = self.home(self.places[at].hash);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = self.places[at];
                hole = at;
            }
            at = self.after(at);
        }
        self.places[hole] = EMPTY;
    }

    fn double(&mut self) {
        self.places = vec![EMPTY; self.places.len() * 2];
        for at in 0..self.entries.len() {
            self.place(Place { hash: self.entries[at].hash, entry: at as u32 });
        }
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

    /// Whatever the table still knows is what was said last; it forgets only for lack of room.
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
