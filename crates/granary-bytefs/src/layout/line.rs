//! Sealed lines: every 64 B line of fixed metadata carries the CRC-32C of itself, so the unit of update stays
//! a line.
//!
//! ```text
//!   line of block b:   0                                                 60        64
//!                     | payload: bits, half an inode, four extents, ... | CRC-32C |
//!                                                                         of (64 b + line, 8 B) and payload
//! ```
//!
//! The number of the line is in the sum, so a line that was written to a wrong place is damage, too. Sealed
//! are the bitmaps, the inode table, the orphan table, extent and index blocks; a directory entry has one sum
//! for all its lines (`dentry`), the superblock and the extended attributes each have their own.
//!
//! Invariant: whoever changes a line in memory seals it before it is stored ([`crate::journal::Tx::run`] does
//! it for all). A line of zeros is sound where that means "nothing here" (bitmaps, orphan table): mkfs need
//! not write those.
//!
//! Source: our own. The paper (ByteFS section 4.5) has no checksums; its bitmap groups have 512 bits,
//! ours 480.

use granary_units::{LINE_SIZE, LINES_PER_PAGE, PAGE_SIZE};

/// Bytes of a line that are not the checksum.
pub const PAYLOAD: usize = LINE_SIZE - 4;

/// The checksum of what lies at line `number` of the drive (64 x block + line).
pub fn checksum(number: u64, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), payload)
}

fn bounds(line: usize) -> (usize, usize) {
    (line * LINE_SIZE, line * LINE_SIZE + PAYLOAD)
}

/// Seals the lines of `mask` in block `lba`.
pub fn seal(block: &mut [u8; PAGE_SIZE], lba: u64, mask: u64) {
    let mut left = mask;
    while left != 0 {
        let line = left.trailing_zeros() as usize;
        left &= left - 1;
        let (from, to) = bounds(line);
        let crc = checksum(lba * LINES_PER_PAGE as u64 + line as u64, &block[from..to]);
        block[to..to + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Whether line `line` of block `lba` is as it was sealed.
pub fn is_sound(block: &[u8; PAGE_SIZE], lba: u64, line: usize) -> bool {
    let (from, to) = bounds(line);
    let crc = checksum(lba * LINES_PER_PAGE as u64 + line as u64, &block[from..to]);
    block[to..to + 4] == crc.to_le_bytes()
}

/// The lines of `mask` that are not as they were sealed, as a mask.
pub fn damaged(block: &[u8; PAGE_SIZE], lba: u64, mask: u64) -> u64 {
    (0..LINES_PER_PAGE).filter(|&n| mask >> n & 1 == 1 && !is_sound(block, lba, n)).fold(0, |m, n| m | 1 << n)
}

/// Like [`damaged`] where a line of zeros is sound: bitmaps and the orphan table.
pub fn damaged_or_zero(block: &[u8; PAGE_SIZE], lba: u64) -> u64 {
    let mut bad = 0;
    for (n, line) in block.chunks_exact(LINE_SIZE).enumerate() {
        if line.iter().any(|&b| b != 0) && !is_sound(block, lba, n) {
            bad |= 1 << n;
        }
    }
    bad
}

/// The sentence for damaged lines of a block.
pub fn sentence(what: &str, lba: u64, bad: u64) -> String {
    let first = bad.trailing_zeros();
    match bad.count_ones() {
        1 => format!("{what}: wrong checksum in line {first} of block {lba}"),
        n => format!("{what}: wrong checksums in {n} lines of block {lba}, the first is {first}"),
    }
}
