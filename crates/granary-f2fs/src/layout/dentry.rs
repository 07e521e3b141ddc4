//! Directory entries: slots of 11 B, names in units of 8 B, a bitmap of slots; in blocks or inline in the
//! inode.
//!
//! ```text
//!   block    bitmap 27 | zero 3 | 214 x { hash 4, inode 4, name length 2, kind 1 } | 214 x 8 B names    4096
//!   inline   bitmap 23 | zero 7 | 182 x ...                                        | 182 x 8 B          3488
//!   hash table: level l has 2^l buckets of 2 blocks (of 4 from level 31 on), level after level
//! ```
//!
//! A name takes as many slots as units; only the first has an entry, the others have name length 0. "." and
//! ".." are the first two.

use super::node::MAX_BLOCKS;
use super::{bit, corrupt, le16, le32, put16, put32, set_bit};
use granary_fs::{FileKind, Result};
use std::ops::Range;

/// Deepest level plus one of the kernel's hash table (MAX_DIR_HASH_DEPTH).
const MAX_DEPTH: u32 = 63;
/// Deepest level plus one that a file has any block of.
pub const LEVELS: u32 = {
    let mut level = 0;
    while start(level) < MAX_BLOCKS {
        level += 1;
    }
    level
};
/// Bytes of an entry.
const ENTRY: usize = 11;
/// Bytes of a unit of names.
const UNIT: usize = 8;

/// Which layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Slots.
    pub slots: usize,
    entries: usize,
    names: usize,
}

/// A dentry block.
pub const BLOCK: Form = Form { slots: 214, entries: 30, names: 30 + 214 * ENTRY };
/// Inline in the inode.
pub const INLINE: Form = Form { slots: 182, entries: 30, names: 30 + 182 * ENTRY };

const _: () = assert!(BLOCK.names + 214 * UNIT == 4096 && INLINE.names + 182 * UNIT == 3488);

/// An entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its first slot.
    pub slot: usize,
    /// Its inode.
    pub ino: u32,
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dentry<'a> {
    /// Its first slot.
    pub slot: usize,
    /// Hash of the name.
    pub hash: u32,
    /// Its inode.
    pub ino: u32,
    /// Kind of the inode.
    pub kind: FileKind,
    /// The name.
    pub name: &'a [u8],
}

/// Hash of a name.
pub fn name_hash(name: &[u8]) -> u32 {
    crc32c::crc32c(name)
}

/// Slots that a name takes.
pub fn slots(name: usize) -> usize {
    name.div_ceil(UNIT)
}

/// Buckets of a level.
const fn buckets(level: u32) -> u64 {
    1 << if level < 30 { level } else { 30 }
}

/// Blocks of a bucket of a level.
const fn bucket_blocks(level: u32) -> u64 {
    if level < MAX_DEPTH / 2 { 2 } else { 4 }
}

/// First block of a level.
const fn start(level: u32) -> u64 {
    let (mut l, mut before) = (0, 0);
    while l < level {
        before += buckets(l) * bucket_blocks(l);
        l += 1;
    }
    before
}

/// The blocks of the bucket of a hash at a level; none where they lie beyond the largest file. That takes
/// tens of thousands of names of few hashes: somebody who looks for them (the hash has no secret, as in the
/// kernel) gets a full directory.
pub fn bucket(level: u32, hash: u32) -> Option<Range<u64>> {
    let first = start(level) + (hash as u64 % buckets(level)) * bucket_blocks(level);
    let end = first + bucket_blocks(level);
    (level < LEVELS && end <= MAX_BLOCKS).then_some(first..end)
}

/// The level that a block belongs to, and its bucket.
pub fn level_of(block: u64) -> (u32, u64) {
    let (mut level, mut before) = (0, 0);
    loop {
        let here = buckets(level) * bucket_blocks(level);
        if block < before + here {
            return (level, (block - before) / bucket_blocks(level));
        }
        before += here;
        level += 1;
    }
}

impl Form {
    fn entry(&self, slot: usize) -> usize {
        self.entries + slot * ENTRY
    }

    fn name_at(&self, slot: usize) -> usize {
        self.names + slot * UNIT
    }

    /// Finds a name.
    pub fn find(&self, b: &[u8], name: &[u8], hash: u32) -> Option<Found> {
        // The hash decides almost always; a free slot may have an old one.
        let entries = b[self.entries..self.names].chunks_exact(ENTRY);
        for (slot, e) in entries.enumerate().filter(|(_, e)| e[..4] == hash.to_le_bytes()) {
            if le16(e, 8) as usize == name.len() && bit(b, slot) {
                let from = self.name_at(slot);
                if b.get(from..from + name.len()) == Some(name) {
                    return Some(Found { slot, ino: le32(e, 4) });
                }
            }
        }
        None
    }

    /// Slots in use.
    pub fn used(&self, b: &[u8]) -> u64 {
        b[..self.slots.div_ceil(8)].iter().map(|byte| byte.count_ones() as u64).sum()
    }

    /// The hashes of all names, and perhaps of some that are gone.
    pub fn hashes<'a>(&self, b: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        let entries = b[self.entries..self.names].chunks_exact(ENTRY);
        entries.enumerate().filter(|(slot, _)| bit(b, *slot)).map(|(_, e)| le32(e, 0))
    }

    /// Entry at or after `slot`, or `None`.
    ///
    /// # Errors
    /// `Corrupt` where it is no entry.
    pub fn next<'a>(&self, b: &'a [u8], mut slot: usize) -> Result<Option<Dentry<'a>>> {
        while slot < self.slots {
            if b[slot / 8] == 0 && slot.is_multiple_of(8) {
                slot += 8;
                continue;
            }
            let at = self.entry(slot);
            let len = le16(b, at + 8) as usize;
            if !bit(b, slot) || len == 0 {
                slot += 1;
                continue;
            }
            let from = self.name_at(slot);
            let kind = FileKind::from_code(b[at + 10]);
            if len > 255 || slot + slots(len) > self.slots {
                return Err(corrupt(format!("a directory entry has a name of {len} bytes in slot {slot}")));
            }
            let Some(kind) = kind else {
                return Err(corrupt(format!("a directory entry of kind {}", b[at + 10])));
            };
            let name = &b[from..from + len];
            return Ok(Some(Dentry { slot, hash: le32(b, at), ino: le32(b, at + 4), kind, name }));
        }
        Ok(None)
    }

    /// A run of free slots for a name.
    pub fn room(&self, b: &[u8], name: usize) -> Option<usize> {
        let want = slots(name);
        let (mut slot, mut run) = (0, 0);
        while slot < self.slots {
            if b[slot / 8] == 0xff && slot.is_multiple_of(8) {
                (slot, run) = (slot + 8, 0);
                continue;
            }
            run = if bit(b, slot) { 0 } else { run + 1 };
            slot += 1;
            if run == want {
                return Some(slot - want);
            }
        }
        None
    }

    /// Enters a name at a run of free slots.
    pub fn insert(&self, b: &mut [u8], slot: usize, name: &[u8], ino: u32, kind: FileKind) {
        for i in 0..slots(name.len()) {
            set_bit(b, slot + i, true);
            put16(b, self.entry(slot + i) + 8, 0);
        }
        let (at, from) = (self.entry(slot), self.name_at(slot));
        put32(b, at, name_hash(name));
        put16(b, at + 8, name.len() as u16);
        b[from..from + name.len()].copy_from_slice(name);
        self.repoint(b, slot, ino, kind);
    }

    /// Lets an entry stand for another inode.
    pub fn repoint(&self, b: &mut [u8], slot: usize, ino: u32, kind: FileKind) {
        let at = self.entry(slot);
        put32(b, at + 4, ino);
        b[at + 10] = kind.code();
    }

    /// Removes the entry at `slot`.
    pub fn remove(&self, b: &mut [u8], slot: usize) {
        let n = slots(le16(b, self.entry(slot) + 8) as usize).clamp(1, self.slots - slot);
        for i in 0..n {
            set_bit(b, slot + i, false);
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self, b: &[u8]) -> bool {
        b[..self.slots.div_ceil(8)].iter().all(|x| *x == 0)
    }

    /// Takes over the entries of another form, slot for slot.
    pub fn copy_from(&self, b: &mut [u8], from: &Form, source: &[u8]) {
        let n = self.slots.min(from.slots);
        for slot in 0..n {
            set_bit(b, slot, bit(source, slot));
        }
        let (to, at) = (self.entry(0), from.entry(0));
        b[to..to + n * ENTRY].copy_from_slice(&source[at..at + n * ENTRY]);
        let (to, at) = (self.name_at(0), from.name_at(0));
        b[to..to + n * UNIT].copy_from_slice(&source[at..at + n * UNIT]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_entered_is_found_until_it_is_removed() {
        for form in [BLOCK, INLINE] {
            let mut b = vec![0; 4096];
            let names: Vec<Vec<u8>> = (0..60).map(|i| vec![b'a' + i as u8 % 26; 1 + i % 20]).collect();
            let mut there = Vec::new();
            for (i, name) in names.iter().enumerate() {
                if form.find(&b, name, name_hash(name)).is_some() {
                    continue;
                }
                let Some(slot) = form.room(&b, name.len()) else { break };
                form.insert(&mut b, slot, name, i as u32 + 10, FileKind::File);
                there.push((name, slot, i as u32 + 10));
            }
            for (name, slot, ino) in &there {
                assert_eq!(form.find(&b, name, name_hash(name)), Some(Found { slot: *slot, ino: *ino }));
            }
            for (name, slot, _) in &there {
                form.remove(&mut b, *slot);
                assert_eq!(form.find(&b, name, name_hash(name)), None);
            }
            assert!(form.is_empty(&b) && form.next(&b, 0) == Ok(None));
        }
    }

    #[test]
    fn levels_follow_each_other() {
        assert_eq!(
            [bucket(0, 77), bucket(1, 6), bucket(1, 7), bucket(2, 0)],
            [0, 2, 4, 6].map(|b| Some(b..b + 2))
        );
        assert!((0..LEVELS).all(|level| bucket(level, 0).is_some_and(|b| b.end <= MAX_BLOCKS)));
        assert_eq!((bucket(LEVELS - 1, u32::MAX), bucket(LEVELS, 0)), (None, None));
        assert_eq!((level_of(0), level_of(5), level_of(6)), ((0, 0), (1, 1), (2, 0)));
    }
}
