//! Extent tree nodes: a 12 B header and 12 B entries, 4 in the inode's root, 340 in a block.
//!
//! ```text
//!   header  magic 2 | entries 2 | max 2 | depth 2 | generation 4
//!   entry   first logical block 4 | length 2 (0 in an index; unwritten: 32768 + length)
//!           | block high 2 | block low 4
//! ```
//!
//! A leaf entry maps `len` blocks from logical `key` on to physical `start`; an index entry names the child
//! whose keys are at least `key`. Keys ascend; leaf extents do not overlap. Functions here work on the bytes
//! of one node (60 B root or 4096 B block) and take any bytes: [`validate`] first.

use super::{corrupt, le16, le32, put16, put32};
use granary_fs::Result;

/// Marks a node.
pub const MAGIC: u16 = 0xF30A;
/// Bytes of header and of an entry.
pub const ENTRY: usize = 12;
/// Entries in an inode.
pub const ROOT_MAX: u16 = 4;
/// Entries in a block.
pub const BLOCK_MAX: u16 = 340;
/// Longest extent in blocks; an unwritten one has a block less (`EXT_INIT_MAX_LEN`, `EXT_UNWRITTEN_MAX_LEN`).
pub const MAX_LEN: u32 = 32768;
/// Deepest tree (340^5 extents are more than any file has).
pub const MAX_DEPTH: u16 = 5;

/// An entry of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentEntry {
    /// First logical block.
    pub key: u32,
    /// Blocks mapped, 1 to [`MAX_LEN`]; 0 in an index.
    pub len: u32,
    /// First physical block, or the child's block.
    pub start: u64,
    /// The blocks are the file's, but hold nothing of it yet: they read as zeros.
    pub unwritten: bool,
}

impl ExtentEntry {
    /// The part of the extent from logical block `from` up to `to`, both within it.
    pub fn part(self, from: u32, to: u32) -> ExtentEntry {
        ExtentEntry { key: from, len: to - from, start: self.start + (from - self.key) as u64, ..self }
    }
}

/// Makes an empty node.
pub fn init(node: &mut [u8], max: u16, depth: u16) {
    node.fill(0);
    put16(node, 0, MAGIC);
    put16(node, 4, max);
    put16(node, 6, depth);
}

/// Checks a node that comes from media: its header, and that its entries ascend and do not overlap or reach
/// beyond the last block that a file can have (`ext4_valid_extent_entries`).
///
/// # Errors
/// `Corrupt`.
pub fn validate(node: &[u8], depth: Option<u16>) -> Result<()> {
    validate_header(node, depth)?;
    let (leaf, mut next) = (self::depth(node) == 0, 0);
    for e in (0..count(node)).map(|i| entry(node, i)) {
        let end = e.key as u64 + if leaf { e.len as u64 } else { 1 };
        if (e.key as u64) < next || leaf && e.len == 0 || end > u32::MAX as u64 {
            let kind = if leaf { "extent" } else { "index entry" };
            return Err(corrupt(format!("{kind} {e:?} behind what ends at block {next}")));
        }
        next = end;
    }
    Ok(())
}

/// Checks a node's header.
///
/// # Errors
/// `Corrupt`.
pub fn validate_header(node: &[u8], depth: Option<u16>) -> Result<()> {
    let room = (node.len() / ENTRY - 1) as u16;
    let (magic, n, max, d) = (le16(node, 0), le16(node, 2), le16(node, 4), le16(node, 6));
    if magic != MAGIC || n > max || max > room || d > MAX_DEPTH || depth.is_some_and(|want| want != d) {
        return Err(corrupt(format!("extent node: magic {magic:#x}, {n} of {max} entries, depth {d}")));
    }
    Ok(())
}

/// Number of entries. Of a damaged node no more than fit into it.
pub fn count(node: &[u8]) -> usize {
    (le16(node, 2) as usize).min(node.len() / ENTRY - 1)
}

/// Levels below this node.
pub fn depth(node: &[u8]) -> u16 {
    le16(node, 6)
}

/// Whether no entry fits any more.
pub fn full(node: &[u8]) -> bool {
    le16(node, 2) >= le16(node, 4)
}

/// Entry `i`.
pub fn entry(node: &[u8], i: usize) -> ExtentEntry {
    let at = (i + 1) * ENTRY;
    let len = le16(node, at + 4) as u32;
    let unwritten = len > MAX_LEN;
    ExtentEntry {
        key: le32(node, at),
        len: if unwritten { len - MAX_LEN } else { len },
        start: (le16(node, at + 6) as u64) << 32 | le32(node, at + 8) as u64,
        unwritten,
    }
}

/// Overwrites entry `i`.
pub fn set(node: &mut [u8], i: usize, e: ExtentEntry) {
    let at = (i + 1) * ENTRY;
    put32(node, at, e.key);
    put16(node, at + 4, (if e.unwritten { MAX_LEN + e.len } else { e.len }) as u16);
    put16(node, at + 6, (e.start >> 32) as u16);
    put32(node, at + 8, e.start as u32);
}

/// Makes room for and writes entry `i`.
pub fn insert(node: &mut [u8], i: usize, e: ExtentEntry) {
    let n = count(node);
    debug_assert!(i <= n && !full(node));
    node.copy_within((i + 1) * ENTRY..(n + 1) * ENTRY, (i + 2) * ENTRY);
    put16(node, 2, n as u16 + 1);
    set(node, i, e);
}

/// Removes entry `i`.
pub fn remove(node: &mut [u8], i: usize) {
    let n = count(node);
    debug_assert!(i < n);
    node.copy_within((i + 2) * ENTRY..(n + 1) * ENTRY, (i + 1) * ENTRY);
    put16(node, 2, n as u16 - 1);
}

/// Moves the entries from `from` on to the end of `to`.
pub fn split(node: &mut [u8], from: usize, to: &mut [u8]) {
    let (n, m) = (count(node), count(to));
    let moved = n - from;
    to[(m + 1) * ENTRY..(m + moved + 1) * ENTRY].copy_from_slice(&node[(from + 1) * ENTRY..(n + 1) * ENTRY]);
    put16(to, 2, (m + moved) as u16);
    put16(node, 2, from as u16);
}

/// The last entry whose key is at most `key`.
pub fn search(node: &[u8], key: u32) -> Option<usize> {
    let (mut low, mut high) = (0, count(node));
    while low < high {
        let mid = (low + high) / 2;
        if le32(node, (mid + 1) * ENTRY) <= key { low = mid + 1 } else { high = mid }
    }
    low.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_says_more_than_it_holds_is_searched_to_its_end() {
        let mut node = [0; 5 * ENTRY];
        init(&mut node, ROOT_MAX, 0);
        insert(&mut node, 0, ExtentEntry { key: 7, len: 1, start: 99, unwritten: false });
        put16(&mut node, 2, u16::MAX);
        assert_eq!(count(&node), 4);
        assert!(search(&node, 7).is_some_and(|i| i < 4));
    }
}
