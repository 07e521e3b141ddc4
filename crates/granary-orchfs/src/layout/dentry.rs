//! Directories on the NVM: a chain of pages with entries in units of 32 B.
//!
//! ```text
//!   page     0 inode of the directory 8 | 8 next page 8 | 16 zero | 32 units 1 to 127
//!   entry    0 inode 8, 0 = removed | 8 cookie 8 | 16 kind 1 | 17 bytes of the name 1 | 18 units 1 | 19 zero
//!            | 20 CRC-32C 4 | 24 name
//! ```
//!
//! A cookie is the entry's place in the order of listing: new entries get larger ones than all before, and
//! keep them. The checksum is over the entry with itself zero. An entry whose inode is 0 is free, whatever
//! else it says. Names of up to 255 bytes (the released code stops at 230).

use crate::geometry::PAGE;
use granary_fs::{FileKind, NAME_MAX, Result};
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::corrupt;

/// Bytes of a unit.
pub const UNIT: usize = 32;
/// Units of a page, the first of which is its head.
pub const UNITS: usize = PAGE as usize / UNIT;
/// Where the next page lies in a page's head.
pub const NEXT: usize = 8;
const HEAD: usize = 24;
const CRC: usize = 20;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dentry {
    /// Inode that it names.
    pub ino: u64,
    /// Its place in the order of listing.
    pub cookie: u64,
    /// File type of the inode.
    pub kind: FileKind,
    /// Its name.
    pub name: Vec<u8>,
}

/// Units that an entry of such a name takes.
pub fn units(name: &[u8]) -> usize {
    (HEAD + name.len()).div_ceil(UNIT)
}

/// The head of a page.
pub fn page_head(ino: u64, next: u64) -> [u8; UNIT] {
    let mut b = [0; UNIT];
    put_u64(&mut b, 0, ino);
    put_u64(&mut b, NEXT, next);
    b
}

/// An entry as it lies on the NVM.
pub fn bytes(d: &Dentry) -> Vec<u8> {
    let units = units(&d.name);
    let mut b = vec![0; units * UNIT];
    put_u64(&mut b, 0, d.ino);
    put_u64(&mut b, 8, d.cookie);
    (b[16], b[17], b[18]) = (d.kind.code(), d.name.len() as u8, units as u8);
    b[HEAD..HEAD + d.name.len()].copy_from_slice(&d.name);
    let crc = crc32c::crc32c(&b);
    put_u32(&mut b, CRC, crc);
    b
}

/// Reads the entry in unit `at` of a page; `None` where it is free: (entry, units).
///
/// # Errors
/// `Corrupt` where it is none.
pub fn parse(page: &[u8], at: usize) -> Result<Option<(Dentry, usize)>> {
    let b = &page[at * UNIT..];
    if u64_at(b, 0) == 0 {
        return Ok(None);
    }
    let bad = || corrupt(format!("no directory entry in unit {at} of a page"));
    let (len, units) = (b[17] as usize, b[18] as usize);
    let fits = len > 0 && len <= NAME_MAX && units == (HEAD + len).div_ceil(UNIT) && at + units <= UNITS;
    if !fits {
        return Err(bad());
    }
    let mut plain = b[..units * UNIT].to_vec();
    put_u32(&mut plain, CRC, 0);
    if crc32c::crc32c(&plain) != u32_at(b, CRC) {
        return Err(bad());
    }
    let name = b[HEAD..HEAD + len].to_vec();
    let kind = FileKind::from_code(b[16]).ok_or_else(bad)?;
    if !granary_fs::is_name(&name) {
        return Err(corrupt("a directory has a name that cannot be"));
    }
    Ok(Some((Dentry { ino: u64_at(b, 0), cookie: u64_at(b, 8), kind, name }, units)))
}
