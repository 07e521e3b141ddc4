//! The undo journal: a header line and a ring of entries of one line each.
//!
//! ```text
//!   version 2, for media of which a power failure leaves any words of 8 bytes (NVM DIMMs)
//!   header  | head 6, generation 2 | zero |
//!   entry   | address 6, generation 2 | transaction 3, type and size 1, CRC-32C 4 | data 48 |
//!
//!   version 1, for media that leave lines whole (byte windows)
//!   header  | head 8 | generation 2 | zero |
//!   entry   | address 8 | transaction 4 | generation 2 | type 1 | size 1 | data 48 |
//! ```
//!
//! The header is at byte 0 of the journal; the ring begins at byte 64.
//!
//! `head` is the index of the oldest entry that may matter, `generation` that of the entries from there to
//! the end of the ring; those before the head have the next one. An entry of any other generation is not
//! valid, nor is one that is torn: its checksum does not fit. The type is 1 or 2 in the upper two bits of its
//! byte.

use granary_pm::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// How header and entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines are whole.
    Lines,
    /// Words of 8 bytes are whole.
    Words,
}

/// Transactions are counted up to here.
pub const TX_MASK: u32 = (1 << 24) - 1;
/// Bits of an address or a head.
const LOW: u64 = (1 << 48) - 1;

/// The header's bytes.
pub fn header(form: Form, head: u64, generation: u16) -> [u8; 16] {
    let mut b = [0; 16];
    match form {
        Form::Lines => {
            put_u64(&mut b, 0, head);
            put_u16(&mut b, 8, generation);
        }
        Form::Words => put_u64(&mut b, 0, head | u64::from(generation) << 48),
    }
    b
}

/// Head and generation.
pub fn parse_header(form: Form, b: &[u8]) -> (u64, u16) {
    match form {
        Form::Lines => (u64_at(b, 0), u16_at(b, 8)),
        Form::Words => (u64_at(b, 0) & LOW, (u64_at(b, 0) >> 48) as u16),
    }
}

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
pub struct JournalEntry {
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
    /// Old bytes.
    pub data: [u8; DATA],
}

impl JournalEntry {
    /// Its bytes.
    pub fn bytes(&self, form: Form) -> [u8; ENTRY as usize] {
        let mut b = [0; ENTRY as usize];
        b[16..].copy_from_slice(&self.data);
        match form {
            Form::Lines => {
                put_u64(&mut b, 0, self.addr);
                put_u32(&mut b, 8, self.tx);
                put_u16(&mut b, 12, self.generation);
                (b[14], b[15]) = (self.kind, self.size);
            }
            Form::Words => {
                put_u64(&mut b, 0, self.addr | u64::from(self.generation) << 48);
                put_u32(&mut b, 8, self.tx & TX_MASK);
                b[11] = self.kind << 6 | self.size;
                let sum = crc32c::crc32c(&b);
                put_u32(&mut b, 12, sum);
            }
        }
        b
    }

    /// Reads one; kind 0 where there is none, or one that is torn.
    pub fn parse(b: &[u8], form: Form) -> JournalEntry {
        let mut data = [0; DATA];
        data.copy_from_slice(&b[16..64]);
        if form == Form::Lines {
            let (generation, kind, size) = (u16_at(b, 12), b[14], b[15]);
            return JournalEntry { addr: u64_at(b, 0), tx: u32_at(b, 8), generation, kind, size, data };
        }
        let mut summed = [0; ENTRY as usize];
        summed.copy_from_slice(b);
        put_u32(&mut summed, 12, 0);
        let whole = crc32c::crc32c(&summed) == u32_at(b, 12);
        JournalEntry {
            addr: u64_at(b, 0) & LOW,
            tx: u32_at(b, 8) & TX_MASK,
            generation: (u64_at(b, 0) >> 48) as u16,
            kind: if whole { b[11] >> 6 } else { 0 },
            size: b[11] & 0x3f,
            data,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_in_both_forms_and_torn_ones_are_none() {
        let e = JournalEntry {
            addr: 0x12_3456_789a,
            tx: 77,
            generation: 513,
            kind: UNDO,
            size: 48,
            data: [9; DATA],
        };
        for form in [Form::Lines, Form::Words] {
            let back = JournalEntry::parse(&e.bytes(form), form);
            assert_eq!(
                (back.addr, back.tx, back.generation, back.kind, back.size),
                (e.addr, 77, 513, UNDO, 48)
            );
            assert_eq!(parse_header(form, &header(form, 99, 7)), (99, 7));
        }
        let (old, new) = ([0; 64], e.bytes(Form::Words));
        for words in 0..255u32 {
            let mut torn = old;
            for word in (0..8).filter(|w| words >> w & 1 == 1) {
                torn[word * 8..word * 8 + 8].copy_from_slice(&new[word * 8..word * 8 + 8]);
            }
            // Data words are alike: what has the other two of them is no less than whole.
            let whole = torn == new;
            assert_eq!(JournalEntry::parse(&torn, Form::Words).kind == UNDO, whole, "{words:08b}");
        }
    }
}
