//! Blobs: bytes in a chain of NVM pages that are written once and replaced as a whole (long targets, extended
//! attributes).
//!
//! ```text
//!   page   0 next page 8 | 8 inode 8 | 16 bytes in here 4 | 20 CRC-32C (itself zero) 4 | 24 bytes
//! ```
//!
//! Nothing leads to a new blob before its group counts, so it is written without a journal.

use crate::geometry::PAGE;
use crate::layout::{Area, Layout};
use crate::node::Attributes;
use granary_device::Structure;
use granary_fs::{Result, XATTR_SIZE_MAX};
use granary_pm::bytes::{put_u32, put_u64, u16_at, u32_at, u64_at};
use granary_pm::{Batch, Pm, corrupt};
use granary_units::Payload;

const HEAD: usize = 24;
/// Bytes that a page holds.
pub const ROOM: usize = PAGE as usize - HEAD;
/// Most bytes of extended attributes that one inode can have, since all are written with each change: the
/// longest value that the vfs passes on, and a page for names and others.
pub const MOST_ATTRIBUTES: usize = XATTR_SIZE_MAX + ROOM;

/// Pages that so many bytes take.
pub fn pages(len: usize) -> usize {
    len.div_ceil(ROOM)
}

/// Writes a blob into these pages, of which there are as many as it takes; durable after a fence.
///
/// # Errors
/// The drive's.
pub fn write(b: &mut Batch<'_>, layout: &Layout, ino: u64, pages: &[u64], bytes: &[u8]) -> Result<()> {
    for (i, (page, part)) in pages.iter().zip(bytes.chunks(ROOM)).enumerate() {
        let mut content = vec![0; HEAD + part.len()];
        put_u64(&mut content, 0, pages.get(i + 1).copied().unwrap_or(0));
        put_u64(&mut content, 8, ino);
        put_u32(&mut content, 16, part.len() as u32);
        content[HEAD..].copy_from_slice(part);
        let crc = crc32c::crc32c(&content);
        put_u32(&mut content, 20, crc);
        b.stream(layout.at(Area::Page, *page), Payload::Bytes(&content), Structure::Inode)?;
    }
    Ok(())
}

/// Reads a blob of at most `most` bytes: its pages and its bytes.
///
/// # Errors
/// `Corrupt` where there is none; the drive's.
pub fn read(pm: &Pm, layout: &Layout, ino: u64, first: u64, most: usize) -> Result<(Vec<u64>, Vec<u8>)> {
    let (mut numbers, mut bytes, mut at) = (Vec::new(), Vec::new(), first);
    while at != 0 {
        let bad = || corrupt(format!("inode {ino}: NVM page {at} holds no part of its attributes or target"));
        if !layout.has(Area::Page, at) || numbers.len() >= pages(most) {
            return Err(bad());
        }
        let mut content = vec![0; PAGE as usize];
        pm.load(layout.at(Area::Page, at), &mut content, Structure::Inode)?;
        let (len, crc) = (u32_at(&content, 16) as usize, u32_at(&content, 20));
        if len > ROOM || u64_at(&content, 8) != ino {
            return Err(bad());
        }
        put_u32(&mut content, 20, 0);
        if crc32c::crc32c(&content[..HEAD + len]) != crc {
            return Err(bad());
        }
        bytes.extend(&content[HEAD..HEAD + len]);
        numbers.push(at);
        at = u64_at(&content, 0);
    }
    Ok((numbers, bytes))
}

/// Extended attributes as bytes: length of the name 2, of the value 4, both, for each.
pub fn encode(attributes: &Attributes) -> Vec<u8> {
    let mut b = Vec::new();
    for (name, value) in attributes {
        b.extend((name.len() as u16).to_le_bytes());
        b.extend((value.len() as u32).to_le_bytes());
        b.extend(name);
        b.extend(value);
    }
    b
}

/// Reads extended attributes.
///
/// # Errors
/// `Corrupt` where the bytes are none.
pub fn decode(b: &[u8]) -> Result<Attributes> {
    let (mut all, mut at) = (Attributes::new(), 0);
    while at < b.len() {
        let bad = || corrupt("extended attributes are cut off");
        if at + 6 > b.len() {
            return Err(bad());
        }
        let (name, value) = (u16_at(b, at) as usize, u32_at(b, at + 2) as usize);
        let (start, middle) = (at + 6, at + 6 + name);
        let end = middle.checked_add(value).filter(|end| *end <= b.len()).ok_or_else(bad)?;
        all.insert(b[start..middle].to_vec(), b[middle..end].to_vec());
        at = end;
    }
    Ok(all)
}
