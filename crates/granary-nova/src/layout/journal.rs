//! The lite journals: per CPU a ring of 32 B undo entries in one block, and a line with its head and tail.
//!
//! ```text
//!   pair   | head 8 | tail 8 |            head == tail: no transaction under way
//!   entry  | address 8 | old word 8 | CRC-32C 4 | zero 12 |
//! ```

use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};

/// Bytes of an entry.
pub const ENTRY: u64 = 32;

/// An entry's bytes.
pub fn entry(addr: u64, old: u64) -> [u8; ENTRY as usize] {
    let mut b = [0; ENTRY as usize];
    put_u64(&mut b, 0, addr);
    put_u64(&mut b, 8, old);
    let crc = crc32c::crc32c(&b[..16]);
    put_u32(&mut b, 16, crc);
    b
}

/// Address and old word, where the entry is whole.
pub fn parse(b: &[u8]) -> Option<(u64, u64)> {
    (u32_at(b, 16) == crc32c::crc32c(&b[..16])).then(|| (u64_at(b, 0), u64_at(b, 8)))
}
