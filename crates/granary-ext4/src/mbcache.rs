//! [`Known`]: which attribute blocks hold what, so that an inode with the same attributes takes one of them
//! (the kernel's `fs/mbcache.c`).
//!
//! ```text
//!   CRC-32C of the entries -> blocks          found: a candidate, to be compared
//!   order of entry, oldest first              beyond MOST: the oldest that nobody has asked for since goes
//! ```
//!
//! It is memory of what was read and written since mount, not of all there is: what is not here is not
//! shared.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Most blocks that it knows: 16 for each of 2^10 buckets (`HASH_BUCKET_BITS` of fs/ext4/xattr.c,
/// `mb_cache_create`).
const MOST: usize = 16 << 10;

/// A known block.
struct Entry {
    sum: u32,
    /// Its place in the order.
    turn: u64,
    /// Asked for since it was looked at for leaving.
    asked: bool,
}

/// The blocks, by their content.
#[derive(Default)]
pub(crate) struct Known {
    blocks: FxHashMap<u64, Entry>,
    by_sum: FxHashMap<u32, Vec<u64>>,
    order: BTreeMap<u64, u64>,
    turns: u64,
}

impl Known {
    /// `lba` holds `string`.
    pub fn add(&mut self, lba: u64, string: &[u8]) {
        let sum = crc32c::crc32c(string);
        if self.blocks.get(&lba).is_some_and(|e| e.sum == sum) {
            return;
        }
        self.remove(lba);
        while self.blocks.len() >= MOST {
            self.drop_oldest();
        }
        let turn = self.queue(lba);
        self.blocks.insert(lba, Entry { sum, turn, asked: false });
        self.by_sum.entry(sum).or_default().push(lba);
    }

    /// `lba` holds something else from now on, or nothing.
    pub fn remove(&mut self, lba: u64) {
        let Some(entry) = self.blocks.remove(&lba) else { return };
        self.order.remove(&entry.turn);
        if let Some(list) = self.by_sum.get_mut(&entry.sum) {
            list.retain(|l| *l != lba);
            if list.is_empty() {
                self.by_sum.remove(&entry.sum);
            }
        }
    }

    /// Blocks that may hold `string`.
    pub fn candidates(&mut self, string: &[u8]) -> Vec<u64> {
        let list = self.by_sum.get(&crc32c::crc32c(string)).cloned().unwrap_or_default();
        for lba in &list {
            if let Some(entry) = self.blocks.get_mut(lba) {
                entry.asked = true;
            }
        }
        list
    }

    /// Puts a block at the end of the order.
    fn queue(&mut self, lba: u64) -> u64 {
        self.turns += 1;
        self.order.insert(self.turns, lba);
        self.turns
    }

    fn drop_oldest(&mut self) {
        while let Some((_, lba)) = self.order.pop_first() {
            let turn = self.queue(lba);
            let entry = self.blocks.get_mut(&lba).expect("the order has what is known");
            entry.turn = turn;
            if !std::mem::take(&mut entry.asked) {
                return self.remove(lba);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_by_what_they_hold_until_that_changes() {
        let mut known = Known::default();
        known.add(5, b"one");
        known.add(6, b"one");
        known.add(6, b"one");
        known.add(7, b"two");
        assert_eq!(known.candidates(b"one"), [5, 6]);
        known.add(5, b"two");
        known.remove(6);
        known.remove(6);
        assert_eq!((known.candidates(b"one"), known.candidates(b"two")), (vec![], vec![7, 5]));
        assert_eq!((known.blocks.len(), known.order.len(), known.by_sum.len()), (2, 2, 1));
    }

    #[test]
    fn of_too_many_the_oldest_that_nobody_asked_for_goes() {
        let mut known = Known::default();
        let name = |n: u64| n.to_le_bytes();
        for n in 0..MOST as u64 {
            known.add(n, &name(n));
        }
        assert_eq!(known.candidates(&name(0)), [0]);
        known.add(90_000, b"new");
        assert_eq!((known.candidates(&name(0)), known.candidates(&name(1))), (vec![0], vec![]));
        assert_eq!(
            (known.candidates(b"new"), known.blocks.len(), known.order.len()),
            (vec![90_000], MOST, MOST)
        );
    }
}
