//! A list of words that lies on media between a clean unmount and the next mount.
//!
//! ```text
//!   block   | magic 8 | next block 8 | words 4 | CRC-32C 4 | zero 8 | up to 508 words of 8 B |
//! ```
//!
//! The blocks are free ones and stay in the list of free blocks that they hold: the list is read, and the
//! file system marked as in use, before anything is allocated. So a list is used at most once.

use crate::bytes::{put_u32, put_u64, u32_at, u64_at};
use crate::{BLOCK, FreeLists, From, Pm, corrupt};
use granary_device::Structure;
use granary_fs::Result;
use granary_units::{PAGE_SIZE, Payload};

const MAGIC: u64 = u64::from_le_bytes(*b"GrnSaved");
const HEADER: usize = 32;
/// Words in a block.
const WORDS: usize = (PAGE_SIZE - HEADER) / 8;

/// Writes `words` into free blocks; returns the first, or `None` where too few are free. Safe when it
/// returns.
///
/// # Errors
/// The drive's.
pub fn write(pm: &Pm, free: &FreeLists, words: &[u64]) -> Result<Option<u64>> {
    let mut blocks = Vec::new();
    for _ in 0..words.len().div_ceil(WORDS).max(1) {
        match free.take(0, 1, From::Below, true) {
            Some((block, _)) => blocks.push(block),
            None => break,
        }
    }
    for block in &blocks {
        free.give(*block, 1)?;
    }
    if blocks.len() < words.len().div_ceil(WORDS).max(1) {
        return Ok(None);
    }
    let mut batch = pm.batch();
    for (i, block) in blocks.iter().enumerate() {
        let part = &words[(i * WORDS).min(words.len())..((i + 1) * WORDS).min(words.len())];
        let mut page = [0; PAGE_SIZE];
        put_u64(&mut page, 0, MAGIC);
        put_u64(&mut page, 8, blocks.get(i + 1).copied().unwrap_or(0));
        put_u32(&mut page, 16, part.len() as u32);
        for (n, word) in part.iter().enumerate() {
            put_u64(&mut page, HEADER + 8 * n, *word);
        }
        let crc = crc32c::crc32c(&page);
        put_u32(&mut page, 20, crc);
        batch.stream(block * BLOCK, Payload::Bytes(&page), Structure::Bitmap)?;
    }
    batch.fence()?;
    Ok(Some(blocks[0]))
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// `Corrupt`; the drive's.
pub fn read(pm: &Pm, first: u64) -> Result<Vec<u64>> {
    let (mut words, mut block, mut seen) = (Vec::new(), first, 0);
    while block != 0 {
        seen += 1;
        if block >= pm.info().pages || seen > pm.info().pages {
            return Err(corrupt(format!("the saved list goes on in block {block}")));
        }
        let mut page = pm.load_block(block, Structure::Bitmap)?;
        let (crc, count) = (u32_at(&page[..], 20), u32_at(&page[..], 16) as usize);
        put_u32(&mut page[..], 20, 0);
        if u64_at(&page[..], 0) != MAGIC || crc != crc32c::crc32c(&page[..]) || count > WORDS {
            return Err(corrupt(format!("block {block} holds no saved list")));
        }
        words.extend((0..count).map(|n| u64_at(&page[..], HEADER + 8 * n)));
        block = u64_at(&page[..], 8);
    }
    Ok(words)
}
