//! Extents: where file data lies, in unordered 16 B slots.
//!
//! ```text
//!   slot       0 1 2          3 ... 258      259 ... 514
//!              inode          extent block   extent block   ...
//!                                  ^              ^
//!   inode.index ─> index block [ u32 lba | u32 lba | ... 959 ][ u32 next index block ]
//!
//!   line of an extent block: 4 slots of 15 B (file block 7, drive block 4, length 4), CRC-32C
//!   line of an index block:  15 words, CRC-32C
//! ```
//!
//! The host keeps all extents of an open file sorted in memory, so the media need no order: an extent is
//! written into any free slot and stays there. A tree would shift its neighbours, up to 64 lines; here every
//! change of one extent is one line. `inode.slots` counts the slots ever used: later slots, and with them the
//! extent and index blocks that exist, follow from it; what lies beyond is garbage.
//!
//! Source: ByteFS section 4.5 for the 16 B leaf (file offset 8 B, logical block 4 B, length 4 B). In extent
//! blocks a leaf has 15 B, because the checksum of its line needs four: 2^56 file blocks are more than a file
//! can have.

use crate::layout::line::PAYLOAD;
use granary_units::{LINE_SIZE, LINES_PER_PAGE, PAGE_SIZE};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a slot of an extent block.
const PACKED: usize = 15;
/// Slots in the inode: the first in its hot half.
pub const INLINE_SLOTS: u32 = 3;
/// Slots in an extent block.
pub const SLOTS_PER_EXTENT_BLOCK: u32 = SLOTS_PER_LINE * LINES_PER_PAGE as u32;
/// Slots in a 64 B line.
pub const SLOTS_PER_LINE: u32 = 4;
/// Words in a line of an index block.
const WORDS_PER_LINE: u32 = (PAYLOAD / 4) as u32;
/// Extent blocks that one index block names; its last word names the next index block.
pub const POINTERS_PER_INDEX: u32 = WORDS_PER_LINE * LINES_PER_PAGE as u32 - 1;

/// A run of consecutive file blocks in consecutive blocks of the drive. `len` 0 = free slot.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Extent {
    /// First block in the file.
    pub block: U64,
    /// First block on the drive.
    pub lba: U32,
    /// Number of blocks.
    pub len: U32,
}

impl Extent {
    /// An extent.
    pub fn new(block: u64, lba: u32, len: u32) -> Extent {
        Extent { block: U64::new(block), lba: U32::new(lba), len: U32::new(len) }
    }

    /// The extent in slot `n` of an extent block.
    pub fn in_block(block: &[u8; PAGE_SIZE], n: u32) -> Extent {
        let bytes = &block[slot_at(n)..slot_at(n) + PACKED];
        let mut number = [0; 8];
        number[..7].copy_from_slice(&bytes[..7]);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Extent::new(u64::from_le_bytes(number), word(7), word(11))
    }

    /// Writes slot `n` of an extent block.
    pub fn write_to(&self, block: &mut [u8; PAGE_SIZE], n: u32) {
        let bytes = &mut block[slot_at(n)..slot_at(n) + PACKED];
        bytes[..7].copy_from_slice(&self.block.as_bytes()[..7]);
        bytes[7..11].copy_from_slice(self.lba.as_bytes());
        bytes[11..].copy_from_slice(self.len.as_bytes());
    }
}

fn slot_at(n: u32) -> usize {
    (n / SLOTS_PER_LINE) as usize * LINE_SIZE + (n % SLOTS_PER_LINE) as usize * PACKED
}

/// Where a slot is: extent block number and slot within it; `None` = in the inode.
pub const fn place(slot: u32) -> Option<(u32, u32)> {
    match slot.checked_sub(INLINE_SLOTS) {
        None => None,
        Some(n) => Some((n / SLOTS_PER_EXTENT_BLOCK, n % SLOTS_PER_EXTENT_BLOCK)),
    }
}

/// Extent blocks that `slots` slots take.
pub const fn blocks_for(slots: u32) -> u32 {
    slots.saturating_sub(INLINE_SLOTS).div_ceil(SLOTS_PER_EXTENT_BLOCK)
}

/// The lines that the first `n` slots of an extent block lie in, as a mask.
pub fn slot_lines(n: u32) -> u64 {
    first_lines(n.div_ceil(SLOTS_PER_LINE))
}

/// The lines of an index block that hold its first `n` pointers, and the last one with the next block's
/// number where it `goes_on`, as a mask.
pub fn pointer_lines(n: u32, goes_on: bool) -> u64 {
    first_lines(n.div_ceil(WORDS_PER_LINE)) | (goes_on as u64) << (LINES_PER_PAGE - 1)
}

fn first_lines(n: u32) -> u64 {
    if n == 0 { 0 } else { u64::MAX >> (64 - n.min(LINES_PER_PAGE as u32)) }
}

/// The line of word `n` of an index block.
pub const fn pointer_line(n: u32) -> u32 {
    n / WORDS_PER_LINE
}

fn pointer_at(n: u32) -> usize {
    pointer_line(n) as usize * LINE_SIZE + (n % WORDS_PER_LINE) as usize * 4
}

/// Word `n` of an index block.
pub fn pointer(block: &[u8; PAGE_SIZE], n: u32) -> u32 {
    let at = pointer_at(n);
    u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"))
}

/// Writes word `n` of an index block.
pub fn set_pointer(block: &mut [u8; PAGE_SIZE], n: u32, lba: u32) {
    let at = pointer_at(n);
    block[at..at + 4].copy_from_slice(&lba.to_le_bytes());
}
