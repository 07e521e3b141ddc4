//! Nodes of HRtrees on the NVM: index nodes and the two kinds of extended leaf nodes.
//!
//! ```text
//!   all        0 number 8 | 8 CRC-32C (itself zero) 4 | 12 level of an index node 4 | 16 inode 8
//!              24 first block 8 | 32 zero
//!   index      64 word of child 0, 8 | ... 64 times  (in places of 640)                               576 B
//!   A-ELN      64 page 0, 8 | ... 8 times                                                             128 B
//!   O-ELN      64 word of the SSD block 8 | 72 zero | 128 header of page 0, 56, page 8 | ... 8 times  640 B
//! ```
//!
//! An entry of an O-ELN is one line of 64 B. It changes as one record of a journal, never in place alone: a
//! power failure may tear a line between words (OrchFS section 3.3: Upage header and page index are one entry
//! of 64 B).

use crate::geometry::PAGES;
use crate::hrtree::{FANOUT, Image};
use crate::unit::{Base, Slot, Unit, Word};
use crate::upage::{HEADER, Header};
use granary_fs::Result;
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::corrupt;

/// Bytes of an index node's place.
pub const INDEX: usize = 640;
/// Bytes of an A-ELN.
pub const APPEND: usize = 128;
/// Bytes of an O-ELN.
pub const OVER: usize = 640;
/// Where the children, the pages, or the word of the SSD block begin.
pub const BODY: usize = 64;
/// Where the entries of an O-ELN begin.
pub const SLOTS: usize = 128;
/// Bytes of an entry.
pub const SLOT: usize = HEADER + 8;
/// Where checksums lie, in inodes too.
pub const CRC: usize = 8;

/// The checksum of bytes that have one at [`CRC`].
pub fn checksum(b: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&b[..CRC]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &b[CRC + 4..])
}

/// Puts the checksum.
pub fn seal(b: &mut [u8]) {
    let crc = checksum(b);
    put_u32(b, CRC, crc);
}

/// Whether the checksum is right.
pub fn sealed(b: &[u8]) -> bool {
    u32_at(b, CRC) == checksum(b)
}

fn whole(b: &[u8], what: &str, number: u64, ino: u64) -> Result<()> {
    if u64_at(b, 0) == number && u64_at(b, 16) == ino && sealed(b) {
        return Ok(());
    }
    Err(corrupt(format!("{what} {number} of inode {ino}: wrong checksum, or it is another")))
}

/// An index node.
pub fn index(number: u64, ino: u64, image: &Image) -> [u8; INDEX] {
    let mut b = [0; INDEX];
    put_u64(&mut b, 0, number);
    put_u32(&mut b, 12, u32::from(image.level));
    put_u64(&mut b, 16, ino);
    put_u64(&mut b, 24, image.first);
    for (i, word) in image.children.iter().enumerate() {
        put_u64(&mut b, BODY + 8 * i, word.encode());
    }
    seal(&mut b);
    b
}

/// Reads an index node.
///
/// # Errors
/// `Corrupt`, here and below.
pub fn parse_index(b: &[u8; INDEX], number: u64, ino: u64) -> Result<Image> {
    whole(b, "index node", number, ino)?;
    let mut children = Box::new([Word::None; FANOUT]);
    for (i, word) in children.iter_mut().enumerate() {
        *word = Word::parse(u64_at(b, BODY + 8 * i))?;
    }
    let level =
        u8::try_from(u32_at(b, 12)).map_err(|_| corrupt(format!("index node {number} has no level")))?;
    Ok(Image { level, first: u64_at(b, 24), children })
}

/// An entry of an O-ELN.
pub fn slot(slot: &Slot) -> [u8; SLOT] {
    let mut b = [0; SLOT];
    b[..HEADER].copy_from_slice(&slot.header.bytes());
    put_u64(&mut b, HEADER, slot.page);
    b
}

/// Reads an entry of an O-ELN.
pub fn parse_slot(b: &[u8]) -> Result<Slot> {
    let slot = Slot { header: Header::parse(b)?, page: u64_at(b, HEADER) };
    if slot.page == 0 && !slot.header.is_empty() && !slot.header.is_whole() {
        return Err(corrupt("chunks of a page without a number"));
    }
    Ok(slot)
}

/// The ELN of a unit; nothing for units without one.
pub fn eln(unit: &Unit, ino: u64, block: u64) -> Vec<u8> {
    let mut b = match unit {
        Unit::Append { pages, .. } => {
            let mut b = vec![0; APPEND];
            pages.iter().enumerate().for_each(|(i, page)| put_u64(&mut b, BODY + 8 * i, *page));
            b
        }
        Unit::Over { base, slots, .. } => {
            let mut b = vec![0; OVER];
            put_u64(&mut b, BODY, Word::Block(*base).encode());
            for (i, entry) in slots.iter().enumerate() {
                b[SLOTS + SLOT * i..][..SLOT].copy_from_slice(&slot(entry));
            }
            b
        }
        _ => return Vec::new(),
    };
    let (Unit::Append { eln, .. } | Unit::Over { eln, .. }) = unit else { return Vec::new() };
    put_u64(&mut b, 0, *eln);
    put_u64(&mut b, 16, ino);
    put_u64(&mut b, 24, block);
    seal(&mut b);
    b
}

/// Reads an A-ELN.
pub fn parse_append(b: &[u8; APPEND], eln: u64, ino: u64) -> Result<Unit> {
    whole(b, "A-ELN", eln, ino)?;
    Ok(Unit::Append { eln, pages: std::array::from_fn(|i| u64_at(b, BODY + 8 * i)) })
}

/// Reads an O-ELN.
pub fn parse_over(b: &[u8; OVER], eln: u64, ino: u64) -> Result<Unit> {
    whole(b, "O-ELN", eln, ino)?;
    let mut slots: Box<[Slot; PAGES]> = Box::default();
    for (i, entry) in slots.iter_mut().enumerate() {
        *entry = parse_slot(&b[SLOTS + SLOT * i..][..SLOT])?;
    }
    let Word::Block(base) = Word::parse(u64_at(b, BODY))? else {
        return Err(corrupt(format!("O-ELN {eln} is over no SSD block")));
    };
    Ok(Unit::Over { eln, base: Base { ..base }, slots })
}
