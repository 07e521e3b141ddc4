//! [`Mapping`]: which slots of the page cache hold the pages of one file.
//!
//! ```text
//!   Few    [(page, slot), ...]                     sorted; up to 32 pages: 8 bytes per page, the first 8
//!                                                  pages within the mapping
//!   Many   page / 64 -> { 64 slots, dirty bits }   ordered; a file's dirty pages are found without its clean
//!                                                  ones
//! ```

use granary_fs::Ino;
use granary_units::Nanos;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;
/// Pages that a sorted list holds; at 33 the tree's 300 bytes per 64 pages are the smaller.
const FEW: usize = 32;

/// Of so many pages a file's list lies within its mapping: what fills two lines of the processor's cache with
/// the rest.
const WITHIN: usize = 8;

/// The pages of one file, and its place in the queue of dirty files.
#[repr(align(64))]
pub(super) struct Mapping {
    pub(super) ino: Ino,
    pages: Pages,
    /// Pages with dirty lines.
    pub(super) dirty: u32,
    /// Pages in write-back.
    pub(super) writing: u32,
    /// Since when the file has waited in the queue of dirty files.
    pub(super) since: Nanos,
    pub(super) queued: bool,
    pub(super) prev: u32,
    pub(super) next: u32,
}

const _: () = assert!(size_of::<Option<Mapping>>() == 128);

enum Pages {
    Few(SmallVec<[(u32, u32); WITHIN]>),
    Many(BTreeMap<u32, Box<Chunk>>),
}

struct Chunk {
    slots: [u32; 64],
    dirty: u64,
    used: u8,
}

/// Enters a page that is not there.
fn enter(tree: &mut BTreeMap<u32, Box<Chunk>>, page: u32, slot: u32, dirty: bool) {
    let chunk =
        tree.entry(page / 64).or_insert_with(|| Box::new(Chunk { slots: [NONE; 64], dirty: 0, used: 0 }));
    let old = std::mem::replace(&mut chunk.slots[page as usize % 64], slot);
    assert_eq!(old, NONE, "page {page} is there already");
    chunk.used += 1;
    chunk.dirty |= u64::from(dirty) << (page % 64);
}

impl Mapping {
    pub(super) fn new(ino: Ino) -> Mapping {
        Mapping {
            ino,
            pages: Pages::Few(SmallVec::new()),
            dirty: 0,
            writing: 0,
            since: Nanos::ZERO,
            queued: false,
            prev: NONE,
            next: NONE,
        }
    }

    /// The slot that holds a page.
    #[inline]
    pub(super) fn get(&self, page: u32) -> Option<u32> {
        match &self.pages {
            Pages::Few(list) => list.binary_search_by_key(&page, |e| e.0).ok().map(|i| list[i].1),
            Pages::Many(tree) => {
                let slot = tree.get(&(page / 64))?.slots[page as usize % 64];
                (slot != NONE).then_some(slot)
            }
        }
    }

    /// Enters a page that is not there.
    pub(super) fn insert(&mut self, page: u32, slot: u32, is_dirty: impl Fn(u32) -> bool) {
        if let Pages::Few(list) = &mut self.pages {
            if list.len() < FEW {
                let at = list.partition_point(|e| e.0 < page);
                list.insert(at, (page, slot));
                return;
            }
            let mut tree = BTreeMap::new();
            for &(p, s) in list.iter() {
                enter(&mut tree, p, s, is_dirty(s));
            }
            self.pages = Pages::Many(tree);
        }
        let Pages::Many(tree) = &mut self.pages else { unreachable!("made a tree above") };
        enter(tree, page, slot, false);
    }

    /// Takes a page out.
    pub(super) fn remove(&mut self, page: u32) {
        match &mut self.pages {
            Pages::Few(list) => {
                if let Ok(i) = list.binary_search_by_key(&page, |e| e.0) {
                    list.remove(i);
                }
            }
            Pages::Many(tree) => {
                let Some(chunk) = tree.get_mut(&(page / 64)) else { return };
                let old = std::mem::replace(&mut chunk.slots[page as usize % 64], NONE);
                chunk.dirty &= !(1 << (page % 64));
                chunk.used -= u8::from(old != NONE);
                if chunk.used == 0 {
                    tree.remove(&(page / 64));
                }
            }
        }
    }

    /// Notes whether a page that is there has dirty lines (a short list asks the slots instead).
    pub(super) fn set_dirty(&mut self, page: u32, dirty: bool) {
        if let Pages::Many(tree) = &mut self.pages
            && let Some(chunk) = tree.get_mut(&(page / 64))
        {
            let bit = 1u64 << (page % 64);
            chunk.dirty = if dirty { chunk.dirty | bit } else { chunk.dirty & !bit };
        }
    }

    /// The first page at or after `from` with dirty lines, and its slot.
    pub(super) fn next_dirty(&self, from: u32, is_dirty: impl Fn(u32) -> bool) -> Option<(u32, u32)> {
        match &self.pages {
            Pages::Few(list) => {
                let at = list.partition_point(|e| e.0 < from);
                list[at..].iter().copied().find(|e| is_dirty(e.1))
            }
            Pages::Many(tree) => {
                for (&number, chunk) in tree.range(from / 64..) {
                    let skip = if number == from / 64 { from % 64 } else { 0 };
                    let dirty = chunk.dirty >> skip << skip;
                    if dirty != 0 {
                        let bit = dirty.trailing_zeros();
                        return Some((number * 64 + bit, chunk.slots[bit as usize]));
                    }
                }
                None
            }
        }
    }

    /// The first page at or after `from`, and its slot.
    pub(super) fn next(&self, from: u32) -> Option<(u32, u32)> {
        match &self.pages {
            Pages::Few(list) => list.get(list.partition_point(|e| e.0 < from)).copied(),
            Pages::Many(tree) => tree.range(from / 64..).find_map(|(&number, chunk)| {
                let skip = if number == from / 64 { from as usize % 64 } else { 0 };
                let i = (skip..64).find(|&i| chunk.slots[i] != NONE)?;
                Some((number * 64 + i as u32, chunk.slots[i]))
            }),
        }
    }

    /// The pages in `from..to`, ascending, with their slots.
    pub(super) fn range(&self, from: u32, to: u64) -> SmallVec<[(u32, u32); 2 * WITHIN]> {
        let inside = |page: u32| page >= from && (page as u64) < to;
        match &self.pages {
            Pages::Few(list) => list.iter().copied().filter(|e| inside(e.0)).collect(),
            Pages::Many(tree) => tree
                .range(from / 64..)
                .take_while(|(number, _)| (**number as u64) * 64 < to)
                .flat_map(|(number, chunk)| {
                    chunk.slots.iter().enumerate().map(move |(i, &slot)| (number * 64 + i as u32, slot))
                })
                .filter(|&(page, slot)| slot != NONE && inside(page))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    /// Short list and tree answer as a plain ordered map does, while pages come, go and get dirty.
    #[test]
    fn a_mapping_is_an_ordered_map() {
        for (span, seed) in [(20, 1), (40, 2), (1000, 3), (100_000, 4)] {
            let mut mapping = Mapping::new(Ino(1));
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            let mut dirty = vec![false; 20_000];
            let mut rng = Stream::new(seed, "mapping");
            for slot in 0..20_000u32 {
                let page = rng.below(span) as u32;
                match (rng.below(4), model.get(&page).copied()) {
                    (0, Some(s)) => {
                        mapping.remove(page);
                        model.remove(&page);
                        dirty[s as usize] = false;
                    }
                    (1, Some(s)) => {
                        dirty[s as usize] = rng.chance(0.5);
                        mapping.set_dirty(page, dirty[s as usize]);
                    }
                    (_, Some(_)) => {}
                    (_, None) => {
                        mapping.insert(page, slot, |s| dirty[s as usize]);
                        model.insert(page, slot);
                    }
                }
                let from = rng.below(span) as u32;
                assert_eq!(mapping.get(from), model.get(&from).copied());
                assert_eq!(mapping.next(from), model.range(from..).next().map(|(a, b)| (*a, *b)));
                let next = model.range(from..).find(|e| dirty[*e.1 as usize]).map(|(a, b)| (*a, *b));
                assert_eq!(mapping.next_dirty(from, |s| dirty[s as usize]), next);
                if slot % 64 == 0 {
                    let all: Vec<_> = model.range(from..from + 70).map(|(a, b)| (*a, *b)).collect();
                    assert_eq!(mapping.range(from, from as u64 + 70).to_vec(), all);
                }
            }
        }
    }
}
