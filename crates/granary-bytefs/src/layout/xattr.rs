//! Extended attributes: a string of entries in blocks of their own.
//!
//! ```text
//!   inode.xattr ─> head block: | magic 4 | bytes 4 | CRC-32C 4 | zero 4 | 28 x next blocks 4 | bytes 128 |
//!                                                                           └─> next block:  | bytes ... |
//!   bytes:  a `granary_kit::xattr_string`; CRC-32C of magic, bytes, next blocks and the string
//! ```
//!
//! Setting an attribute changes the header's line, its own and those behind it. Bytes behind the string are
//! garbage.
//!
//! Limit: 28 next blocks, 114 KiB with the head: more than one value of Linux's 64 KiB, not arbitrarily many.

use granary_fs::{FsError, Result};
use granary_kit::xattr_string;
use granary_units::PAGE_SIZE;

/// `XATR`.
const MAGIC: u32 = u32::from_le_bytes(*b"XATR");
/// Where the string begins in the head block: two lines.
const HEAD: usize = 128;
/// Blocks that an inode can have for its attributes.
pub const MOST_BLOCKS: usize = 1 + (HEAD - 16) / 4;
fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"))
}

/// Blocks that a string of `bytes` takes; `None` = more than there can be.
pub fn blocks_for(bytes: usize) -> Option<usize> {
    let blocks = if bytes == 0 { 0 } else { (HEAD + bytes).div_ceil(PAGE_SIZE) };
    (blocks <= MOST_BLOCKS).then_some(blocks)
}

/// Blocks that a head block says there are, itself included; `None` where it is no head block.
pub fn count(head: &[u8; PAGE_SIZE]) -> Option<usize> {
    let bytes = u32_at(head, 4) as usize;
    blocks_for(bytes).filter(|&n| n > 0 && u32_at(head, 0) == MAGIC)
}

fn checksum(head: &[u8; PAGE_SIZE], string: &[u8]) -> u32 {
    let head = crc32c::crc32c_append(crc32c::crc32c(&head[..8]), &head[12..HEAD]);
    crc32c::crc32c_append(head, string)
}

/// The `count - 1` blocks that follow a head block.
pub fn next_blocks(head: &[u8; PAGE_SIZE], count: usize) -> Vec<u32> {
    (1..count).map(|n| u32_at(head, 16 + (n - 1) * 4)).collect()
}

/// The part of block `n` that a string of `bytes` fills.
pub fn used(n: usize, bytes: usize) -> usize {
    (HEAD + bytes).saturating_sub(n * PAGE_SIZE).min(PAGE_SIZE)
}

/// Writes the string into the images of its blocks, whose numbers are `lbas`.
pub fn write(string: &[u8], lbas: &[u32], images: &mut [[u8; PAGE_SIZE]]) {
    let mut left = string;
    for (n, image) in images.iter_mut().enumerate() {
        let from = if n == 0 { HEAD } else { 0 };
        let (part, rest) = left.split_at(left.len().min(PAGE_SIZE - from));
        image[from..from + part.len()].copy_from_slice(part);
        left = rest;
    }
    if let Some(head) = images.first_mut() {
        head[..HEAD].fill(0);
        head[..4].copy_from_slice(&MAGIC.to_le_bytes());
        head[4..8].copy_from_slice(&(string.len() as u32).to_le_bytes());
        for (n, lba) in lbas.iter().skip(1).enumerate() {
            head[16 + n * 4..20 + n * 4].copy_from_slice(&lba.to_le_bytes());
        }
        let crc = checksum(head, string);
        head[8..12].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The string in these blocks.
///
/// # Errors
/// `Corrupt`.
pub fn read(blocks: &[[u8; PAGE_SIZE]]) -> Result<Vec<u8>> {
    let bad = |what: String| Err(FsError::Corrupt(format!("extended attributes: {what}")));
    let Some(head) = blocks.first() else { return Ok(Vec::new()) };
    let (magic, bytes, crc) = (u32_at(head, 0), u32_at(head, 4) as usize, u32_at(head, 8));
    if magic != MAGIC || blocks_for(bytes) != Some(blocks.len()) {
        return bad(format!("magic {magic:#x}, {bytes} bytes in {} blocks", blocks.len()));
    }
    let mut string = Vec::with_capacity(bytes);
    for (n, block) in blocks.iter().enumerate() {
        string.extend_from_slice(&block[if n == 0 { HEAD } else { 0 }..used(n, bytes)]);
    }
    let computed = checksum(head, &string);
    if computed != crc {
        return bad(format!("checksum {crc:#x}, computed {computed:#x}"));
    }
    if xattr_string::is_sound(&string) { Ok(string) } else { bad("an entry runs over the end".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;
    use std::collections::BTreeMap;

    #[test]
    fn a_string_of_attributes_is_a_map_and_survives_its_blocks() {
        let mut s = Stream::new(3, "xattr");
        let (mut string, mut model) = (Vec::new(), BTreeMap::new());
        for _ in 0..2000 {
            let name = format!("user.{}", s.below(9)).into_bytes();
            let value = s.chance(0.8).then(|| vec![s.below(256) as u8; s.below(9000) as usize]);
            let new = xattr_string::set(&string, &name, value.as_deref());
            let Some(count) = blocks_for(new.len()) else { continue };
            string = new;
            match value {
                Some(v) => drop(model.insert(name, v)),
                None => drop(model.remove(&name)),
            }
            let lbas: Vec<u32> = (0..count as u32).map(|n| 100 + n).collect();
            let mut images = vec![[0xaa; PAGE_SIZE]; count];
            write(&string, &lbas, &mut images);
            assert_eq!(read(&images), Ok(string.clone()));
            if count > 0 {
                assert_eq!(next_blocks(&images[0], count), &lbas[1..]);
            }
            assert_eq!(xattr_string::names(&string).len(), model.len());
            for (name, value) in &model {
                assert_eq!(xattr_string::get(&string, name), Some(&value[..]));
            }
        }
    }

    #[test]
    fn any_block_is_read_or_refused() {
        let mut s = Stream::new(4, "xattr");
        for _ in 0..2000 {
            let mut block = [0; PAGE_SIZE];
            block.iter_mut().for_each(|b| *b = s.next_u64() as u8);
            assert!(read(&[block]).is_err());
        }
    }
}
