//! Directory entries: 12 B head and the name, in 64 B slots of the directory's blocks.
//!
//! ```text
//!   slot:  0        4      6      8         12                               64
//!         | ino u32 | kind | len  | CRC-32C | name ... zeros up to the slot's end |   1 to 5 slots, never
//!                                                                                   across a block
//!   free:  ino 0, kind 0, len = number of slots of the free area
//! ```
//!
//! The sum is of the number of the head's line on the drive (8 B), the head before the sum, and the name: a
//! change of the head (another inode, a free area) is still one line.
//!
//! Invariants: walking from a block's first slot with each head's stride meets every entry and free area up
//! to the directory's high-water mark; areas are split but never joined, so a position once handed out stays
//! a boundary.
//!
//! Source: ByteFS section 4.5 (inode number 4 B, type 2 B, length 2 B, name); the checksum is ours.

use crate::layout::line;
use granary_fs::NAME_MAX;
use granary_units::{LINE_SIZE, LINES_PER_PAGE};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes in a slot.
pub const SLOT_SIZE: usize = LINE_SIZE;
/// Slots in a directory block.
pub const SLOTS_PER_BLOCK: u32 = LINES_PER_PAGE as u32;
/// Bytes of the head.
pub const HEAD_SIZE: usize = 12;
/// Slots of the longest name.
pub const MAX_SLOTS: u32 = slots_for(NAME_MAX);
/// Bytes of the head that are in the checksum.
const SUMMED: usize = 8;

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
    /// See the module.
    pub crc: U32,
}

/// Slots of an entry whose name has `name_len` bytes.
pub const fn slots_for(name_len: usize) -> u32 {
    (HEAD_SIZE + name_len).div_ceil(SLOT_SIZE) as u32
}

/// The number on the drive of the line where slot `slot` (of the directory) lies in block `lba`.
pub fn line_of(lba: u64, slot: u32) -> u64 {
    lba * LINES_PER_PAGE as u64 + (slot % SLOTS_PER_BLOCK) as u64
}

impl DentryHead {
    /// The head at the start of `slot`.
    pub fn read(slot: &[u8]) -> DentryHead {
        DentryHead::read_from_bytes(&slot[..HEAD_SIZE]).expect("twelve bytes")
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

    /// Whether the head at the start of `slots`, which has a stride, and its name are as they were sealed at
    /// `line`.
    pub fn is_sound(&self, slots: &[u8], line: u64) -> bool {
        let name = if self.is_free() { &[] } else { name(slots, self) };
        self.crc.get() == sum(line, &slots[..SUMMED], name)
    }
}

fn sum(number: u64, head: &[u8], name: &[u8]) -> u32 {
    crc32c::crc32c_append(line::checksum(number, head), name)
}

fn write_head(slots: &mut [u8], number: u64, (ino, kind, len): (u32, u16, u16)) {
    let mut head =
        DentryHead { ino: U32::new(ino), kind: U16::new(kind), len: U16::new(len), crc: U32::ZERO };
    let name = if ino == 0 { 0 } else { len as usize };
    head.crc = U32::new(sum(number, &head.as_bytes()[..SUMMED], &slots[HEAD_SIZE..HEAD_SIZE + name]));
    slots[..HEAD_SIZE].copy_from_slice(head.as_bytes());
}

/// Writes a whole entry into its slots, the first of which is line `number` of the drive.
pub fn write_entry(slots: &mut [u8], number: u64, ino: u32, kind: u16, name: &[u8]) {
    slots[HEAD_SIZE..HEAD_SIZE + name.len()].copy_from_slice(name);
    slots[HEAD_SIZE + name.len()..].fill(0);
    write_head(slots, number, (ino, kind, name.len() as u16));
}

/// Points the entry at the start of `slots` at another inode.
pub fn point_at(slots: &mut [u8], number: u64, ino: u32, kind: u16) {
    let len = DentryHead::read(slots).len.get();
    write_head(slots, number, (ino, kind, len));
}

/// Makes a free area of `count` slots, which begins at the start of `slots`.
pub fn write_free(slots: &mut [u8], number: u64, count: u32) {
    write_head(slots, number, (0, 0, count as u16));
}

/// The name of the entry at the start of `slots`, whose head is `head`.
pub fn name<'a>(slots: &'a [u8], head: &DentryHead) -> &'a [u8] {
    &slots[HEAD_SIZE..HEAD_SIZE + head.len.get() as usize]
}
