//! The orphan table: inodes whose blocks recovery must go on freeing.
//!
//! ```text
//!   block: 960 x u32 inode number, 0 = empty place; 15 places and a checksum to a line
//! ```
//!
//! Removals and truncations that change too many lines for one transaction are entered here: they free their
//! blocks in several steps, each atomic; and files that have no name yet. Recovery reads this block alone: an
//! inode without links is freed, another is cut to its size. A small file needs no entry, because its last
//! name and all its blocks go in one transaction.

use crate::layout::line::PAYLOAD;
use granary_units::{LINE_SIZE, LINES_PER_PAGE, PAGE_SIZE};

const PER_LINE: u32 = (PAYLOAD / 4) as u32;
/// Places in the table.
pub const PLACES: u32 = PER_LINE * LINES_PER_PAGE as u32;

fn place(n: u32) -> usize {
    (n / PER_LINE) as usize * LINE_SIZE + (n % PER_LINE) as usize * 4
}

/// The inode in place `n`; 0 = empty.
pub fn get(block: &[u8; PAGE_SIZE], n: u32) -> u32 {
    let at = place(n);
    u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"))
}

/// Fills or empties place `n`.
pub fn set(block: &mut [u8; PAGE_SIZE], n: u32, ino: u32) {
    let at = place(n);
    block[at..at + 4].copy_from_slice(&ino.to_le_bytes());
}

/// The line of place `n`, as a mask.
pub const fn line_mask(n: u32) -> u64 {
    1 << (n / PER_LINE)
}
