//! CRC-32C of a frame that contains pages whose own CRC is known already: [`over_page`].
//!
//! ```text
//!   CRC(A, page) = (CRC(A) moved over 4096 zero bytes) xor CRC(page)
//! ```
//!
//! The move is linear, so a table for each of the four bytes of a CRC makes it: 4 KiB for four look-ups in place of a second
//! walk over the page.

use granary_units::PAGE_SIZE;
use std::sync::LazyLock;

static MOVED: LazyLock<[[u32; 256]; 4]> = LazyLock::new(|| {
    let bits: [u32; 32] = std::array::from_fn(|bit| crc32c::crc32c_combine(1 << bit, 0, PAGE_SIZE));
    std::array::from_fn(|byte| {
        std::array::from_fn(|value| {
            let set = (0..8).filter(|bit| value >> bit & 1 == 1);
            set.fold(0, |sum, bit| sum ^ bits[byte * 8 + bit])
        })
    })
});

/// The CRC-32C of what has `before`, followed by a page that has `page`.
#[inline]
pub fn over_page(before: u32, page: u32) -> u32 {
    let moved = &*MOVED;
    before.to_le_bytes().iter().zip(moved).fold(page, |sum, (&byte, table)| sum ^ table[byte as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_checksum_of_both_together() {
        for seed in 0..50usize {
            let bytes: Vec<u8> = (0..seed * 7 + PAGE_SIZE).map(|i| ((i * (seed + 3)) >> 2) as u8).collect();
            let (before, page) = bytes.split_at(seed * 7);
            let both = over_page(crc32c::crc32c(before), crc32c::crc32c(page));
            assert_eq!(both, crc32c::crc32c(&bytes), "{seed}");
        }
    }
}
