//! [`NameIndex`]: from the hash of a name to its slot and inode, 12 B each.
//!
//! Two names may have one hash: the caller compares names. The inode is a hint of what the caller will look
//! at next.

use granary_kit::{HashIndex, Vacant};
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// Slots of names by hash.
pub type NameIndex = HashIndex<Named>;

/// Where a name with the hash may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its slot.
    pub slot: u32,
    /// The inode that it means, or meant.
    pub ino: u32,
}

impl Vacant for Named {
    const VACANT: Named = Named { slot: u32::MAX, ino: 0 };

    fn is_vacant(self) -> bool {
        self.slot == u32::MAX
    }
}

/// The hash of a name.
pub fn hash(name: &[u8]) -> u32 {
    let mut h = FxHasher::default();
    h.write(name);
    let x = h.finish();
    (x ^ (x >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbered names, as programs make them, spread evenly: a name is near its home (linear probing at a
    /// load of `a` expects a distance of `a / (2 - 2a)`, at most 1.5).
    #[test]
    fn numbered_names_are_near_their_homes() {
        let mut index = NameIndex::default();
        for slot in 0..100_000u32 {
            index.insert(hash(format!("file-{slot:010}").as_bytes()), Named { slot, ino: 0 });
            index.insert(hash(format!("{slot}").as_bytes()), Named { slot, ino: 0 });
        }
        let far = index.passed();
        assert!(far < 2 * index.len(), "{far} entries passed for {} names", index.len());
    }
}
