//! The orphan table: inodes whose blocks recovery must go on freeing.
//!
//! ```text
//!   block: 1024 x u32 inode number, 0 = empty place; 16 places to a line
//! ```
//!
//! Only removals and truncations that change too many lines for one transaction are entered here: they free their
//! blocks in several steps, each atomic. Recovery reads this block alone: an inode without links is freed, another is
//! cut to its size. A small file needs no entry, because its last name and all its blocks go in one transaction.

use granary_units::{LINE_SIZE, PAGE_SIZE};

/// Places in the table.
pub const PLACES: u32 = (PAGE_SIZE / 4) as u32;

/// The inode in place `n`; 0 = empty.
pub fn get(block: &[u8; PAGE_SIZE], n: u32) -> u32 {
    let at = n as usize * 4;
    u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"))
}

/// Fills or empties place `n`.
pub fn set(block: &mut [u8; PAGE_SIZE], n: u32, ino: u32) {
    let at = n as usize * 4;
    block[at..at + 4].copy_from_slice(&ino.to_le_bytes());
}

/// The line of place `n`, as a mask.
pub const fn line_mask(n: u32) -> u64 {
    1 << (n as usize * 4 / LINE_SIZE)
}
