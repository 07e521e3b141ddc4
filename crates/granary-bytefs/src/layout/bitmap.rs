//! Bitmaps: one bit per inode or block, in groups of 480 bits = one 64 B line with its checksum, the unit of
//! update.
//!
//! ```text
//!   group g: | 480 bits: bit n = bit n % 8 of byte n / 8 | CRC-32C |   1 = in use; bits beyond the end are 1
//!   block: 64 groups = 30,720 bits
//! ```
//!
//! Source: ByteFS section 4.5 ("each bitmap block is divided into multiple 64B groups"); the checksum is ours
//! (`line`).

use crate::layout::line::PAYLOAD;
use granary_units::{LINE_SIZE, LINES_PER_PAGE, PAGE_SIZE};

/// Bits in a 64 B group.
pub const BITS_PER_GROUP: u64 = PAYLOAD as u64 * 8;
/// Bits in a bitmap block.
pub const BITS_PER_BLOCK: u64 = BITS_PER_GROUP * LINES_PER_PAGE as u64;
/// Bytes of bits in a bitmap block.
const BYTES: usize = PAYLOAD * LINES_PER_PAGE;

/// Blocks that a bitmap of `bits` bits takes.
pub const fn blocks_for(bits: u64) -> u64 {
    bits.div_ceil(BITS_PER_BLOCK)
}

/// The lines of one bitmap block that bits `from..from + len` (counted within the block) lie in, as a mask.
pub fn line_mask(from: u64, len: u64) -> u64 {
    debug_assert!(len > 0 && from + len <= BITS_PER_BLOCK);
    let (first, last) = (from / BITS_PER_GROUP, (from + len - 1) / BITS_PER_GROUP);
    (u64::MAX >> (63 - last)) & (u64::MAX << first)
}

/// Sets or clears bits `from..from + len` of a bitmap block. Returns whether all of them were the opposite
/// before.
pub fn flip(block: &mut [u8; PAGE_SIZE], from: u64, len: u64, set: bool) -> bool {
    let mut clean = true;
    let (mut at, end) = (from, from + len);
    while at < end {
        let place = at / BITS_PER_GROUP * LINE_SIZE as u64 + at % BITS_PER_GROUP / 8;
        let byte = &mut block[place as usize];
        let n = (8 - at % 8).min(end - at);
        let mask = ((0xffu16 >> (8 - n)) << (at % 8)) as u8;
        clean &= (*byte & mask == 0) == set && (set || *byte & mask == mask);
        *byte = if set { *byte | mask } else { *byte & !mask };
        at += n;
    }
    clean
}

/// The block's bits as 480 words, bit 0 in the lowest bit of the first.
pub fn words(block: &[u8; PAGE_SIZE]) -> impl Iterator<Item = u64> {
    let mut bits = [0; BYTES];
    for (line, out) in block.chunks_exact(LINE_SIZE).zip(bits.chunks_exact_mut(PAYLOAD)) {
        out.copy_from_slice(&line[..PAYLOAD]);
    }
    (0..BYTES / 8).map(move |n| u64::from_le_bytes(bits[n * 8..n * 8 + 8].try_into().expect("eight bytes")))
}

/// Puts `words` into a block, as [`words`] reads them; checksums are for the caller.
pub fn put_words(block: &mut [u8; PAGE_SIZE], words: &[u64]) {
    for (n, byte) in words.iter().flat_map(|w| w.to_le_bytes()).take(BYTES).enumerate() {
        block[n / PAYLOAD * LINE_SIZE + n % PAYLOAD] = byte;
    }
}
