//! The hashed directory index: a root in the directory's block 0, at most one level of inner nodes, leaf
//! blocks.
//!
//! ```text
//!   root (block 0)  "." 12 | ".." header 12 (rec_len covers the rest) | info 8 | entries of 8 B: 507
//!   node            free entry header 8 (rec_len covers the block)           | entries of 8 B: 510
//!   entry           hash 4 | logical block 4; entry 0 has limit 2 and count 2 in place of its hash
//! ```
//!
//! Entry i leads to names whose hash is in hash(i)..hash(i+1). Hashes of names are even; bit 0 of an entry's
//! hash says that names of that hash continue from the block before.

use super::{BlockBytes, corrupt, le16, le32, put16, put32};
use granary_fs::Result;

/// Which layout an index block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Block 0.
    Root,
    /// An inner node.
    Node,
}

impl Form {
    const fn base(self) -> usize {
        match self {
            Form::Root => 32,
            Form::Node => 8,
        }
    }

    /// Most entries.
    pub const fn limit(self) -> usize {
        (super::BLOCK_SIZE - self.base() - 8) / 8
    }
}

const INFO: usize = 24;

/// Turns a directory's first block ("." and ".." stay) into a root with one entry that leads to `child`.
pub fn init_root(block: &mut BlockBytes, levels: u8, child: u32) {
    block[INFO..].fill(0);
    put16(block, 12 + 4, (super::BLOCK_SIZE - 12) as u16);
    block[INFO + 4] = 1; // hash version
    block[INFO + 5] = 8; // length of this info
    block[INFO + 6] = levels;
    init_entries(block, Form::Root, child);
}

/// Makes an inner node with one entry.
pub fn init_node(block: &mut BlockBytes, child: u32) {
    block.fill(0);
    put16(block, 4, super::BLOCK_SIZE as u16);
    init_entries(block, Form::Node, child);
}

fn init_entries(block: &mut BlockBytes, form: Form, child: u32) {
    put16(block, form.base(), form.limit() as u16);
    put16(block, form.base() + 2, 1);
    put32(block, form.base() + 4, child);
}

/// Levels of inner nodes between root and leaves (0 or 1).
///
/// # Errors
/// `Corrupt`.
pub fn levels(root: &BlockBytes) -> Result<u8> {
    match root[INFO + 6] {
        n @ 0..=1 if root[INFO + 5] == 8 => Ok(n),
        n => Err(corrupt(format!("directory index of {n} levels"))),
    }
}

/// Number of entries.
///
/// # Errors
/// `Corrupt`.
pub fn count(block: &BlockBytes, form: Form) -> Result<usize> {
    let n = le16(block, form.base() + 2) as usize;
    let limit = le16(block, form.base()) as usize;
    if n == 0 || n > limit || limit != form.limit() {
        return Err(corrupt(format!("directory index node: {n} of {limit} entries")));
    }
    Ok(n)
}

fn put_count(block: &mut BlockBytes, form: Form, n: usize) {
    put16(block, form.base() + 2, n as u16);
}

/// The hash from which on entry `i` leads; 0 for the first.
pub fn hash(block: &BlockBytes, form: Form, i: usize) -> u32 {
    if i == 0 { 0 } else { le32(block, form.base() + 8 * i) }
}

/// The logical block to which entry `i` leads.
pub fn child(block: &BlockBytes, form: Form, i: usize) -> u32 {
    le32(block, form.base() + 8 * i + 4)
}

/// The entry that leads to `wanted`.
///
/// # Errors
/// `Corrupt`.
pub fn search(block: &BlockBytes, form: Form, wanted: u32) -> Result<usize> {
    let (mut low, mut high) = (1, count(block, form)?);
    while low < high {
        let mid = (low + high) / 2;
        if hash(block, form, mid) <= wanted { low = mid + 1 } else { high = mid }
    }
    Ok(low - 1)
}

/// Enters (hash, child) as entry `i` (at least 1). The caller has seen that there is room.
pub fn insert(block: &mut BlockBytes, form: Form, i: usize, hash: u32, child: u32) {
    let (base, n) = (form.base(), le16(block, form.base() + 2) as usize);
    block.copy_within(base + 8 * i..base + 8 * n, base + 8 * (i + 1));
    put32(block, base + 8 * i, hash);
    put32(block, base + 8 * i + 4, child);
    put_count(block, form, n + 1);
}

/// Moves the entries from `from` on into an empty node; returns the hash from which the new node leads.
pub fn split(block: &mut BlockBytes, form: Form, from: usize, node: &mut BlockBytes) -> u32 {
    let n = le16(block, form.base() + 2) as usize;
    let first = hash(block, form, from);
    init_node(node, child(block, form, from));
    let (a, b) = (form.base(), Form::Node.base());
    node[b + 8..b + 8 * (n - from)].copy_from_slice(&block[a + 8 * (from + 1)..a + 8 * n]);
    put_count(node, Form::Node, n - from);
    put_count(block, form, from);
    first
}

/// Hashes a name: (major, even; minor). Our own mixing (multiply and xor-shift, as in MurmurHash3's
/// finaliser).
pub fn name_hash(seed: u64, name: &[u8]) -> (u32, u32) {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut h = seed ^ (name.len() as u64).wrapping_mul(K);
    for chunk in name.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        h = (h ^ u64::from_le_bytes(word)).wrapping_mul(K);
        h ^= h >> 29;
    }
    h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^= h >> 33;
    ((h >> 32) as u32 & !1, h as u32)
}
