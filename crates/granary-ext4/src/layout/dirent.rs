//! Directory blocks: entries that fill the block but for a 12 B tail.
//!
//! ```text
//!   entry  inode 4 | rec_len 2 | name_len 1 | kind 1 | name, padded to 4
//!   tail   at 4084: inode 0, rec_len 12, name_len 0, kind 0xDE, checksum (kept zero)
//! ```
//!
//! Entries lie end to end: an entry's `rec_len` reaches to the next one, so slack after a name is room for
//! another. Inode 0 marks a free entry. The first block of a directory begins with "." and "..".

use super::{BlockBytes, corrupt, le16, le32, put16, put32};
use granary_fs::{FileKind, Result};

/// Where the tail begins and entries end.
pub const END: usize = super::BLOCK_SIZE - 12;
const HEADER: usize = 8;

/// An entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its place in the block.
    pub at: usize,
    /// Its inode.
    pub ino: u32,
}

/// An entry in use.
#[derive(Clone, Copy, Debug)]
pub struct Dentry<'a> {
    /// Its place in the block.
    pub at: usize,
    /// Its inode.
    pub ino: u32,
    /// Kind of the inode.
    pub kind: FileKind,
    /// Its name.
    pub name: &'a [u8],
}

/// Bytes that an entry with a name of `len` bytes needs.
pub const fn needed(len: usize) -> usize {
    (HEADER + len).next_multiple_of(4)
}

/// Makes a block with one free entry.
pub fn init(block: &mut BlockBytes) {
    block.fill(0);
    put16(block, 4, END as u16);
    put16(block, END + 4, 12);
    block[END + 7] = 0xDE;
}

/// Makes the first block of a directory: ".", ".." and no more.
pub fn init_first(block: &mut BlockBytes, own: u32, parent: u32) {
    init(block);
    write(block, 0, needed(1), own, FileKind::Dir, b".");
    write(block, needed(1), END - needed(1), parent, FileKind::Dir, b"..");
}

/// The length of the entry at `at`, checked.
#[inline]
fn rec_len(block: &BlockBytes, at: usize) -> Result<usize> {
    let len = le16(block, at + 4) as usize;
    if len < needed(1) || !len.is_multiple_of(4) || at + len > END || HEADER + block[at + 6] as usize > len {
        return Err(corrupt(format!("directory entry at {at}: length {len}, name of {}", block[at + 6])));
    }
    Ok(len)
}

/// Bytes of its length that the entry at `at` uses.
fn used(block: &BlockBytes, at: usize) -> usize {
    if le32(block, at) == 0 { 0 } else { needed(block[at + 6] as usize) }
}

fn write(block: &mut BlockBytes, at: usize, len: usize, ino: u32, kind: FileKind, name: &[u8]) {
    put32(block, at, ino);
    put16(block, at + 4, len as u16);
    block[at + 6] = name.len() as u8;
    block[at + 7] = kind.code();
    block[at + HEADER..at + HEADER + name.len()].copy_from_slice(name);
}

/// Finds `name` among the entries from `from` on.
///
/// # Errors
/// `Corrupt`.
pub fn find(block: &BlockBytes, from: usize, name: &[u8]) -> Result<(Option<Found>, u64)> {
    // Names of one directory tend to differ at their ends: that decides most comparisons with one load.
    let ending = |bytes: &[u8]| bytes.last_chunk::<4>().map(|c| u32::from_le_bytes(*c));
    let (mut at, wanted, mut passed) = (from, ending(name), 0);
    while at < END {
        let len = rec_len(block, at)?;
        if block[at + 6] as usize == name.len() {
            let here = &block[at + HEADER..at + HEADER + name.len()];
            if ending(here) == wanted && here == name && le32(block, at) != 0 {
                return Ok((Some(Found { at, ino: le32(block, at) }), passed));
            }
        }
        at += len;
        passed += 1;
    }
    Ok((None, passed))
}

/// The entries in use from `from` on, "." and ".." left out, given to `each` until it returns false.
///
/// # Errors
/// `Corrupt`.
pub fn each(block: &BlockBytes, from: usize, mut each: impl FnMut(Dentry<'_>) -> bool) -> Result<()> {
    let mut at = from;
    while at < END {
        let len = rec_len(block, at)?;
        let name = &block[at + HEADER..at + HEADER + block[at + 6] as usize];
        let ino = le32(block, at);
        if ino != 0 && name != b"." && name != b".." {
            let kind = FileKind::from_code(block[at + 7])
                .ok_or_else(|| corrupt(format!("directory entry of kind {}", block[at + 7])))?;
            if name.is_empty() {
                return Err(corrupt(format!("directory entry at {at} has no name")));
            }
            if !each(Dentry { at, ino, kind, name }) {
                return Ok(());
            }
        }
        at += len;
    }
    Ok(())
}

/// Adds an entry where there is room. Returns how many it passed over, or `None` where there is no room.
///
/// # Errors
/// `Corrupt`.
pub fn insert(
    block: &mut BlockBytes,
    from: usize,
    name: &[u8],
    ino: u32,
    kind: FileKind,
) -> Result<Option<u64>> {
    let want = needed(name.len());
    let (mut at, mut passed) = (from, 0);
    while at < END {
        let len = rec_len(block, at)?;
        let used = used(block, at);
        if len - used >= want {
            if used > 0 {
                put16(block, at + 4, used as u16);
            }
            write(block, at + used, len - used, ino, kind, name);
            return Ok(Some(passed));
        }
        at += len;
        passed += 1;
    }
    Ok(None)
}

/// The last entry from `from` on.
///
/// # Errors
/// `Corrupt`.
pub fn last(block: &BlockBytes, from: usize) -> Result<usize> {
    let mut at = from;
    loop {
        let next = at + rec_len(block, at)?;
        if next >= END {
            return Ok(at);
        }
        at = next;
    }
}

/// Removes the entry at `target`: the one before it takes its room over. Returns how many it passed over.
///
/// # Errors
/// `Corrupt` where no entry begins there.
pub fn remove(block: &mut BlockBytes, from: usize, target: usize) -> Result<u64> {
    let (mut at, mut before, mut passed) = (from, None, 0);
    while at < END {
        let len = rec_len(block, at)?;
        if at == target {
            match before {
                Some(b) => {
                    let joined = le16(block, b + 4) + len as u16;
                    put16(block, b + 4, joined);
                    put32(block, at, 0);
                }
                None => put32(block, at, 0),
            }
            return Ok(passed);
        }
        before = Some(at);
        at += len;
        passed += 1;
    }
    Err(corrupt(format!("no directory entry at {target}")))
}

/// Points the entry at `at` to another inode.
pub fn repoint(block: &mut BlockBytes, at: usize, ino: u32, kind: FileKind) {
    put32(block, at, ino);
    block[at + 7] = kind.code();
}

/// The inode that ".." in a directory's first block stands for.
///
/// # Errors
/// `Corrupt` where there is no such entry.
pub fn parent(block: &BlockBytes) -> Result<u32> {
    let at = needed(1);
    if block[8] != b'.' || block[at + 6] != 2 || &block[at + 8..at + 10] != b".." {
        return Err(corrupt("a directory's first block does not begin with \".\" and \"..\""));
    }
    Ok(le32(block, at))
}

/// Points ".." to another parent.
pub fn set_parent(block: &mut BlockBytes, parent: u32) {
    put32(block, needed(1), parent);
}

/// Where entries begin in the first block of a directory without index.
pub const AFTER_DOTS: usize = needed(1);
