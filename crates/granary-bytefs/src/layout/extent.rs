//! Extents: where file data lies, in unordered 16 B slots.
//!
//! ```text
//!   slot       0 1 2          3 ... 258      259 ... 514
//!              inode          extent block   extent block   ...
//!                                  ^              ^
//!   inode.index ─> index block [ u32 lba | u32 lba | ... 1023 ][ u32 next index block ]
//! ```
//!
//! The host keeps all extents of an open file sorted in memory, so the media need no order: an extent is written into
//! any free slot and stays there. A tree would shift its neighbours, up to 64 lines; here every change of one extent
//! is one line. `inode.slots` counts the slots ever used: later slots, and with them the extent and index blocks that
//! exist, follow from it; what lies beyond is garbage.
//!
//! Source: ByteFS section 4.5 for the 16 B leaf (file offset 8 B, logical block 4 B, length 4 B).

use granary_units::PAGE_SIZE;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a slot.
pub const EXTENT_SIZE: usize = 16;
/// Slots in the inode: the first in its hot half.
pub const INLINE_SLOTS: u32 = 3;
/// Slots in an extent block.
pub const SLOTS_PER_EXTENT_BLOCK: u32 = (PAGE_SIZE / EXTENT_SIZE) as u32;
/// Slots in a 64 B line.
pub const SLOTS_PER_LINE: u32 = 4;
/// Extent blocks that one index block names; its last word names the next index block.
pub const POINTERS_PER_INDEX: u32 = (PAGE_SIZE / 4) as u32 - 1;

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
        let at = n as usize * EXTENT_SIZE;
        Extent::read_from_bytes(&block[at..at + EXTENT_SIZE]).expect("sixteen bytes")
    }

    /// Writes slot `n` of an extent block.
    pub fn write_to(&self, block: &mut [u8; PAGE_SIZE], n: u32) {
        let at = n as usize * EXTENT_SIZE;
        block[at..at + EXTENT_SIZE].copy_from_slice(self.as_bytes());
    }
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

/// Word `n` of an index block.
pub fn pointer(block: &[u8; PAGE_SIZE], n: u32) -> u32 {
    let at = n as usize * 4;
    u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"))
}

/// Writes word `n` of an index block.
pub fn set_pointer(block: &mut [u8; PAGE_SIZE], n: u32, lba: u32) {
    let at = n as usize * 4;
    block[at..at + 4].copy_from_slice(&lba.to_le_bytes());
}
