//! The undo journal: a header line and a ring of entries of one line each.
//!
//! ```text
//!   header  | head 8 | generation 2 | zero |                                       at byte 0 of the journal
//!   entry   | address 8 | transaction 4 | generation 2 | type 1 | size 1 | data 48 |    ring from byte 64 on
//! ```
//!
//! `head` is the index of the oldest entry that may matter, `generation` that of the entries from there to the end of
//! the ring; those before the head have the next one. An entry of any other generation is not valid.

use granary_pm::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// Bytes of an entry.
pub const ENTRY: u64 = 64;
/// Bytes that an entry can put back.
pub const DATA: usize = 48;
/// Type: bytes to put back.
pub const UNDO: u8 = 1;
/// Type: the transaction is complete.
pub const COMMIT: u8 = 2;

/// An entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Where the data were.
    pub addr: u64,
    /// The transaction.
    pub tx: u32,
    /// The ring's turn.
    pub generation: u16,
    /// [`UNDO`] or [`COMMIT`].
    pub kind: u8,
    /// Bytes of `data`.
    pub size: u8,
    /// What was there.
    pub data: [u8; DATA],
}

impl Entry {
    /// Its bytes.
    pub fn bytes(&self) -> [u8; ENTRY as usize] {
        let mut b = [0; ENTRY as usize];
        put_u64(&mut b, 0, self.addr);
        put_u32(&mut b, 8, self.tx);
        put_u16(&mut b, 12, self.generation);
        (b[14], b[15]) = (self.kind, self.size);
        b[16..].copy_from_slice(&self.data);
        b
    }

    /// Reads one.
    pub fn parse(b: &[u8]) -> Entry {
        let mut data = [0; DATA];
        data.copy_from_slice(&b[16..64]);
        let (generation, kind, size) = (u16_at(b, 12), b[14], b[15]);
        Entry { addr: u64_at(b, 0), tx: u32_at(b, 8), generation, kind, size, data }
    }
}
