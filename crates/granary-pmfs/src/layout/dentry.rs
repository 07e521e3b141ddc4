//! Directory entries: a list that fills each block.
//!
//! ```text
//!   | inode 8 | length 2 | name length 1 | kind 1 | name, padded to 4 |        inode 0: free
//! ```
//!
//! No name has a `/` or a zero byte. An entry's length reaches to the next entry or to the block's end; what
//! an entry does not need itself is free. An entry whose name or kind cannot be does not hide the others: it
//! stands for nothing, and keeps its place. With a length that cannot be nobody knows where the next one
//! begins.

use super::Bytes;
use granary_fs::{FileKind, Result};
use granary_pm::bytes::{put_u16, put_u64, u16_at, u64_at};
use granary_pm::corrupt;
use granary_units::PAGE_SIZE;
use smallvec::smallvec;

/// Bytes before the name.
pub const HEADER: usize = 12;

/// Bytes that an entry with a name of this length needs.
pub fn needs(name_len: usize) -> usize {
    HEADER + name_len.next_multiple_of(4)
}

/// An entry in its block.
#[derive(Clone, Copy, Debug)]
pub struct Dentry<'a> {
    /// Offset in the block.
    pub at: usize,
    /// Bytes to the next.
    pub len: usize,
    /// 0 = free.
    pub ino: u64,
    /// Kind of the inode.
    pub kind: FileKind,
    /// The name; none where it cannot be ([`Dentry::is_damaged`]).
    pub name: &'a [u8],
}

impl Dentry<'_> {
    /// Bytes that it needs itself.
    pub fn used(&self) -> usize {
        match self.ino {
            0 => 0,
            _ if self.is_damaged() => self.len,
            _ => needs(self.name.len()),
        }
    }

    /// Whether it names an inode under no name that can be.
    pub fn is_damaged(&self) -> bool {
        self.ino != 0 && self.name.is_empty()
    }
}

/// The bytes of an entry: header and name.
pub fn bytes(ino: u64, len: usize, kind: FileKind, name: &[u8]) -> Bytes {
    let mut b: Bytes = smallvec![0; needs(name.len())];
    put_u64(&mut b, 0, ino);
    put_u16(&mut b, 8, len as u16);
    (b[10], b[11]) = (name.len() as u8, kind.code());
    b[HEADER..HEADER + name.len()].copy_from_slice(name);
    b
}

/// The entry at `at`.
///
/// # Errors
/// `Corrupt`.
pub fn parse(block: &[u8; PAGE_SIZE], at: usize) -> Result<Dentry<'_>> {
    let bad = || corrupt(format!("directory entry at {at}: {:02x?}", &block[at..(at + 16).min(PAGE_SIZE)]));
    if at + HEADER > PAGE_SIZE {
        return Err(bad());
    }
    let b = &block[at..];
    let (ino, len, n) = (u64_at(b, 0), u16_at(b, 8) as usize, b[10] as usize);
    if len < HEADER || len % 4 != 0 || at + len > PAGE_SIZE {
        return Err(bad());
    }
    if ino == 0 {
        return Ok(Dentry { at, len, ino, kind: FileKind::File, name: &[] });
    }
    let kind = FileKind::from_code(b[11]).filter(|_| n > 0 && needs(n) <= len);
    let name = &b[HEADER..HEADER + if kind.is_some() { n } else { 0 }];
    if name.iter().any(|c| matches!(c, b'/' | 0)) {
        return Ok(Dentry { at, len, ino, kind: FileKind::File, name: &[] });
    }
    Ok(Dentry { at, len, ino, kind: kind.unwrap_or(FileKind::File), name })
}
