//! [`NameIndex`]: an open-addressed table from the hash of a name to its slot and inode.
//!
//! ```text
//!   entry: { hash u32, slot u32, inode u32 }     at index hash & mask, or behind it (linear probing)
//! ```
//!
//! Invariants: at most 3/4 full; removal moves followers back, so there are no tombstones and a chain ends at the first
//! empty entry. Two names may have one hash: the caller compares names. The inode is a hint of what the caller will look at
//! next.

use rustc_hash::FxHasher;
use std::hash::Hasher;

const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    slot: u32,
    ino: u32,
}

/// Where a name with the hash may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its slot.
    pub slot: u32,
    /// The inode that it means, or meant.
    pub ino: u32,
    /// For the search to go on.
    pub position: usize,
}

/// Slots of names by hash.
#[derive(Default)]
pub struct NameIndex {
    table: Vec<Entry>,
    len: usize,
}

/// The hash of a name.
pub fn hash(name: &[u8]) -> u32 {
    let mut h = FxHasher::default();
    h.write(name);
    let x = h.finish();
    (x ^ (x >> 32)) as u32
}

impl NameIndex {
    /// Names in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    fn mask(&self) -> usize {
        self.table.len() - 1
    }

    /// Adds a name's slot.
    pub fn insert(&mut self, hash: u32, slot: u32, ino: u32) {
        debug_assert!(slot != EMPTY);
        if (self.len + 1) * 4 > self.table.len() * 3 {
            let size = (self.table.len() * 2).max(8);
            let old = std::mem::replace(&mut self.table, vec![Entry { hash: 0, slot: EMPTY, ino: 0 }; size]);
            for e in old.into_iter().filter(|e| e.slot != EMPTY) {
                self.place(e);
            }
        }
        self.place(Entry { hash, slot, ino });
        self.len += 1;
    }

    fn place(&mut self, entry: Entry) {
        let mask = self.mask();
        let mut i = entry.hash as usize & mask;
        while self.table[i].slot != EMPTY {
            i = (i + 1) & mask;
        }
        self.table[i] = entry;
    }

    /// The next slot with this hash, behind position `after` of an earlier answer.
    pub fn next(&self, hash: u32, after: Option<usize>) -> Option<Candidate> {
        if self.table.is_empty() {
            return None;
        }
        let mask = self.mask();
        let mut i = after.map_or(hash as usize, |a| a + 1) & mask;
        while self.table[i].slot != EMPTY {
            let Entry { hash: its, slot, ino } = self.table[i];
            if its == hash {
                return Some(Candidate { slot, ino, position: i });
            }
            i = (i + 1) & mask;
        }
        None
    }

    /// Removes a name's slot.
    ///
    /// # Panics
    /// Where it is not there.
    pub fn remove(&mut self, hash: u32, slot: u32) {
        let mask = self.mask();
        let mut hole = hash as usize & mask;
        while (self.table[hole].hash, self.table[hole].slot) != (hash, slot) {
            assert!(self.table[hole].slot != EMPTY, "slot {slot} is not in the index");
            hole = (hole + 1) & mask;
        }
        // Followers whose home is not behind the hole move into it.
        let mut i = hole;
        loop {
            i = (i + 1) & mask;
            let e = self.table[i];
            if e.slot == EMPTY {
                break;
            }
            let from_home = i.wrapping_sub(e.hash as usize) & mask;
            if from_home >= i.wrapping_sub(hole) & mask {
                self.table[hole] = e;
                hole = i;
            }
        }
        self.table[hole].slot = EMPTY;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    /// Numbered names, as programs make them, spread evenly: a name is near its home (linear probing at a load of `a`
    /// expects a distance of `a / (2 - 2a)`, at most 1.5).
    #[test]
    fn numbered_names_are_near_their_homes() {
        let mut index = NameIndex::default();
        for n in 0..100_000u32 {
            index.insert(hash(format!("file-{n:010}").as_bytes()), n, 0);
            index.insert(hash(format!("{n}").as_bytes()), n, 0);
        }
        let mask = index.mask();
        let full = index.table.iter().enumerate().filter(|(_, e)| e.slot != EMPTY);
        let far: usize = full.map(|(i, e)| i.wrapping_sub(e.hash as usize) & mask).sum();
        assert!(far < 2 * index.len(), "{far} entries passed for {} names", index.len());
    }

    /// Random insertions and removals with many equal hashes agree with a list.
    #[test]
    fn the_index_agrees_with_a_list() {
        let mut s = Stream::new(6, "index");
        let mut index = NameIndex::default();
        let mut model: Vec<(u32, u32)> = Vec::new();
        for slot in 0..20_000 {
            if s.chance(0.55) || model.is_empty() {
                let hash = (s.below(300) as u32).wrapping_mul(0x0101_0107);
                index.insert(hash, slot, !slot);
                model.push((hash, slot));
            } else {
                let (hash, slot) = model.swap_remove(s.below(model.len() as u64) as usize);
                index.remove(hash, slot);
            }
            let hash = (s.below(310) as u32).wrapping_mul(0x0101_0107);
            let mut found = Vec::new();
            let mut after = None;
            while let Some(c) = index.next(hash, after) {
                assert_eq!(c.ino, !c.slot);
                found.push(c.slot);
                after = Some(c.position);
            }
            found.sort_unstable();
            let mut expect: Vec<u32> = model.iter().filter(|m| m.0 == hash).map(|m| m.1).collect();
            expect.sort_unstable();
            assert_eq!(found, expect);
            assert_eq!(index.len(), model.len());
        }
    }
}
