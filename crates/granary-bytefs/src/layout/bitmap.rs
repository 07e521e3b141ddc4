//! Bitmaps: one bit per inode or block, in groups of 512 bits = one 64 B line, the unit of update.
//!
//! ```text
//!   bit n of the bitmap = bit n % 8 of byte n / 8;  1 = in use;  bits beyond the end are 1
//!   page: 4096 B = 32,768 bits = 64 groups
//! ```
//!
//! Source: ByteFS section 4.5 ("each bitmap block is divided into multiple 64B groups").

use granary_units::{LINE_SIZE, PAGE_SIZE};

/// Bits in a 64 B group.
pub const BITS_PER_GROUP: u64 = LINE_SIZE as u64 * 8;
/// Bits in a bitmap block.
pub const BITS_PER_BLOCK: u64 = PAGE_SIZE as u64 * 8;

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

/// Sets or clears bits `from..from + len` of a bitmap block. Returns whether all of them were the opposite before.
pub fn flip(block: &mut [u8; PAGE_SIZE], from: u64, len: u64, set: bool) -> bool {
    let mut clean = true;
    let (mut at, end) = (from, from + len);
    while at < end {
        let byte = &mut block[(at / 8) as usize];
        let n = (8 - at % 8).min(end - at);
        let mask = ((0xffu16 >> (8 - n)) << (at % 8)) as u8;
        clean &= (*byte & mask == 0) == set && (set || *byte & mask == mask);
        *byte = if set { *byte | mask } else { *byte & !mask };
        at += n;
    }
    clean
}

/// The block's bits as 512 words, bit 0 in the lowest bit of the first.
pub fn words(block: &[u8; PAGE_SIZE]) -> impl Iterator<Item = u64> + '_ {
    block.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")))
}
