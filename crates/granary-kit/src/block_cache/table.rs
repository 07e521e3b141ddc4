//! [`Table`]: which blocks are in memory, by number.
//!
//! ```text
//!   leaves, by number / 256:   | nil | o | nil | o | ...
//!                                      v
//!   leaf:                      | used | place 0 | place 1 | ... | place 255 |
//!                                       place: block, address of its bytes
//! ```
//!
//! A place is found without a search and without looking at the block. It knows the address of the block's
//! bytes. So all memory that a look at a block touches can be fetched at once. With a million files each of
//! these accesses is a wait for main memory. One after the other, these waits took half of a lookup.
//!
//! Invariant: no leaf without blocks. It does *not* know what is loaded or used.

use super::Block;
use granary_units::prefetch_at;
use std::sync::Arc;

/// Numbers in a leaf: 1 MiB of the drive, 4 KiB of memory.
const LEAF: usize = 256;

struct Place {
    block: Arc<Block>,
    /// Address of the content when it was loaded, as a hint: a copy on write moves it.
    bytes: usize,
}

struct Leaf {
    used: usize,
    places: [Option<Place>; LEAF],
}

/// See the module.
#[derive(Default)]
pub(super) struct Table {
    leaves: Vec<Option<Box<Leaf>>>,
    len: usize,
}

fn split(n: u64) -> (usize, usize) {
    (n as usize / LEAF, n as usize % LEAF)
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn place(&self, n: u64) -> Option<&Place> {
        let (leaf, at) = split(n);
        self.leaves.get(leaf)?.as_ref()?.places[at].as_ref()
    }

    pub(super) fn get(&self, n: u64) -> Option<&Arc<Block>> {
        self.place(n).map(|p| &p.block)
    }

    /// Whether the table still means this very block by its number.
    pub(super) fn holds(&self, block: &Arc<Block>) -> bool {
        self.get(block.lpa.0).is_some_and(|b| Arc::ptr_eq(b, block))
    }

    /// Puts a block in the place of its number, and replaces one that was there.
    pub(super) fn insert(&mut self, block: &Arc<Block>) {
        let (leaf, at) = split(block.lpa.0);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, || None);
        }
        let leaf = self.leaves[leaf]
            .get_or_insert_with(|| Box::new(Leaf { used: 0, places: [const { None }; LEAF] }));
        let place = Place { block: Arc::clone(block), bytes: block.address() };
        if leaf.places[at].replace(place).is_none() {
            leaf.used += 1;
            self.len += 1;
        }
    }

    /// The content of a block was loaded.
    pub(super) fn loaded(&mut self, block: &Arc<Block>) {
        let (leaf, at) = split(block.lpa.0);
        let place = self.leaves.get_mut(leaf).and_then(|l| l.as_mut()?.places[at].as_mut());
        if let Some(place) = place.filter(|p| Arc::ptr_eq(&p.block, block)) {
            place.bytes = block.address();
        }
    }

    pub(super) fn remove(&mut self, n: u64) {
        let (leaf, at) = split(n);
        let Some(slot) = self.leaves.get_mut(leaf) else { return };
        let Some(leaf) = slot else { return };
        if leaf.places[at].take().is_some() {
            leaf.used -= 1;
            self.len -= 1;
            if leaf.used == 0 {
                *slot = None;
            }
        }
    }

    /// Keeps the blocks that `keep` says yes to.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Arc<Block>) -> bool) {
        for slot in &mut self.leaves {
            let Some(leaf) = slot else { continue };
            for place in &mut leaf.places {
                if place.take_if(|p| !keep(&p.block)).is_some() {
                    leaf.used -= 1;
                    self.len -= 1;
                }
            }
            if leaf.used == 0 {
                *slot = None;
            }
        }
    }

    /// Fetches the head of a block and its bytes from `offset` on (a line, and the next) into the processor's
    /// cache.
    #[inline]
    pub(super) fn prefetch(&self, n: u64, offset: usize) {
        if let Some(place) = self.place(n) {
            prefetch_at(Arc::as_ptr(&place.block).addr());
            prefetch_at(Arc::as_ptr(&place.block).addr() + 64);
            prefetch_at(place.bytes.wrapping_add(offset));
            prefetch_at(place.bytes.wrapping_add(offset + 64));
        }
    }
}
