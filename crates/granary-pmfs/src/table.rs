//! The inode table: a file of pieces, reached by one node of pointers.
//!
//! ```text
//!   table block  | piece 0 | piece 1 | 0 | ...    512 pointers
//!   piece        | inode n | inode n + 1 | ...    128 B each
//! ```
//!
//! Inode numbers are positions in the table; 0 is not used, 1 is the root. Which inodes are free is known in
//! host memory; on media a free one has no links. Source: PMFS section 3.1 (the inode table is itself a
//! file).

use crate::layout::FANOUT;
use crate::layout::inode::PLACE;
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::bytes::u64_at;
use granary_pm::{BLOCK, Pm, corrupt};

/// The table in host memory.
#[derive(Debug, Default)]
pub struct Table {
    /// First block of each piece.
    pub pieces: Vec<u64>,
    /// First number never used.
    pub next: u64,
    /// Free ones below.
    pub free: Vec<u64>,
}

/// Inodes in a piece of `blocks` blocks.
pub fn per_piece(blocks: u64) -> u64 {
    blocks * BLOCK / PLACE
}

/// The pieces on media.
///
/// # Errors
/// `Corrupt`; the drive's.
pub fn read_pieces(pm: &Pm, table: u64, piece: u64, end: u64) -> Result<Vec<u64>> {
    let node = pm.load_block(table, Structure::Inode)?;
    let pieces: Vec<u64> =
        (0..FANOUT as usize).map(|i| u64_at(&node[..], i * 8)).take_while(|p| *p != 0).collect();
    match pieces.iter().find(|p| **p <= table || **p >= end || **p + piece > end) {
        Some(p) => Err(corrupt(format!("a piece of the inode table in block {p}"))),
        None if pieces.is_empty() => Err(corrupt("no inode table")),
        None => Ok(pieces),
    }
}

impl Table {
    /// Address of an inode.
    pub fn addr(&self, ino: u64, piece: u64) -> Option<u64> {
        let n = per_piece(piece);
        let first = self.pieces.get((ino / n) as usize)?;
        Some(first * BLOCK + ino % n * PLACE)
    }

    /// Inodes in use.
    pub fn used(&self) -> u64 {
        self.next - 1 - self.free.len() as u64
    }
}
