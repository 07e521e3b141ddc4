//! Directory entries: 8 B head and the name, in 64 B slots of the directory's blocks.
//!
//! ```text
//!   slot:  0        4      6      8                                     64
//!         | ino u32 | kind | len  | name ... zeros up to the slot's end |   1 to 5 slots, never across a block
//!   free:  ino 0, kind 0, len = number of slots of the free area
//! ```
//!
//! Invariants: walking from a block's first slot with each head's stride meets every entry and free area up to the
//! directory's high-water mark; areas are split but never joined, so a position once handed out stays a boundary.
//!
//! Source: ByteFS section 4.5 (inode number 4 B, type 2 B, length 2 B, name).

use granary_units::{LINE_SIZE, LINES_PER_PAGE};
use granary_vfs::NAME_MAX;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes in a slot.
pub const SLOT_SIZE: usize = LINE_SIZE;
/// Slots in a directory block.
pub const SLOTS_PER_BLOCK: u32 = LINES_PER_PAGE as u32;
/// Bytes of the head.
pub const HEAD_SIZE: usize = 8;
/// Slots of the longest name.
pub const MAX_SLOTS: u32 = slots_for(NAME_MAX);

/// The head of an entry or free area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DentryHead {
    /// Inode number; 0 = free area.
    pub ino: U32,
    /// Type bits of the inode's mode (S_IFMT >> 12); 0 = free area.
    pub kind: U16,
    /// Bytes of the name; slots of a free area.
    pub len: U16,
}

/// Slots of an entry whose name has `name_len` bytes.
pub const fn slots_for(name_len: usize) -> u32 {
    (HEAD_SIZE + name_len).div_ceil(SLOT_SIZE) as u32
}

impl DentryHead {
    /// The head at the start of `slot`.
    pub fn read(slot: &[u8]) -> DentryHead {
        DentryHead::read_from_bytes(&slot[..HEAD_SIZE]).expect("eight bytes")
    }

    /// The head of a free area of `slots` slots.
    pub fn free(slots: u32) -> DentryHead {
        DentryHead { ino: U32::ZERO, kind: U16::ZERO, len: U16::new(slots as u16) }
    }

    /// Whether this is a free area.
    pub fn is_free(&self) -> bool {
        self.ino.get() == 0
    }

    /// Slots from here to the next head; `None` where no correct file system wrote this head.
    pub fn stride(&self) -> Option<u32> {
        let len = self.len.get() as u32;
        let slots = match self.is_free() {
            true => len,
            false if (1..=NAME_MAX as u32).contains(&len) => slots_for(len as usize),
            false => 0,
        };
        (1..=MAX_SLOTS).contains(&slots).then_some(slots)
    }

    /// Writes the head alone (freeing an area, or pointing a name at another inode).
    pub fn write(&self, slot: &mut [u8]) {
        slot[..HEAD_SIZE].copy_from_slice(self.as_bytes());
    }
}

/// Writes a whole entry into its slots.
pub fn write_entry(slots: &mut [u8], ino: u32, kind: u16, name: &[u8]) {
    DentryHead { ino: U32::new(ino), kind: U16::new(kind), len: U16::new(name.len() as u16) }.write(slots);
    slots[HEAD_SIZE..HEAD_SIZE + name.len()].copy_from_slice(name);
    slots[HEAD_SIZE + name.len()..].fill(0);
}

/// The name of the entry at the start of `slots`, whose head is `head`.
pub fn name<'a>(slots: &'a [u8], head: &DentryHead) -> &'a [u8] {
    &slots[HEAD_SIZE..HEAD_SIZE + head.len.get() as usize]
}
