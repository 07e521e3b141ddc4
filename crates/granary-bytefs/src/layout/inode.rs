//! Inodes: 128 B in two halves of one line each; the fields that change often are in the lower one.
//!
//! ```text
//!   hot    0 size | 8 mtime | 16 ctime | 24 atime | 32 nlink | 36 mode | 38 flags | 40 slots | 44 extent 0
//!          | 60 CRC-32C
//!   cold  64 extent 1 | 80 extent 2 | 96 uid | 100 gid | 104 generation | 108 rdev | 112 parent | 116 index
//!          | 120 xattr | 124 CRC-32C
//! ```
//!
//! The first extent is in the hot half: appending to a file of one extent changes one line of its inode. A
//! symbolic link of up to 48 bytes keeps its target in the places of the extents (`slots` 0). How many blocks
//! an inode has follows from its extents, all of which are read with it.
//!
//! Invariant: an inode is in use exactly when its bit in the inode bitmap is set; the record of a free inode
//! is garbage.
//!
//! Source: ByteFS section 4.5 ("we split each inode into the upper and lower regions (64B each)").

use crate::layout::extent::{Extent, INLINE_SLOTS};
use granary_fs::{Attr, FileKind, Time, flag};
use granary_units::PAGE_SIZE;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an inode.
pub const INODE_SIZE: usize = 128;
/// Inodes in a block of the inode table.
pub const INODES_PER_BLOCK: u64 = (PAGE_SIZE / INODE_SIZE) as u64;
/// Lines of an inode.
pub const LINES: u64 = 0b11;
/// Bytes of the inline area: the longest target of a symbolic link that needs no block.
pub const INLINE_SIZE: usize = 48;

/// An inode as it lies on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct InodeRecord {
    /// Bytes; for a directory 64 x the slots ever used.
    pub size: U64,
    /// Last change of content, nanoseconds since 1970.
    pub mtime: I64,
    /// Last change of attributes.
    pub ctime: I64,
    /// Last read.
    pub atime: I64,
    /// Hard links.
    pub nlink: U32,
    /// Type bits << 12 and permission bits.
    pub mode: U16,
    /// Inode flags (`granary_fs::flag`).
    pub flags: U16,
    /// Extent slots ever used.
    pub slots: U32,
    /// The first slot, or the begin of a short target.
    pub first: Extent,
    /// Of the bytes before.
    pub hot_crc: U32,
    /// The other slots, or the rest of a short target.
    pub more: [Extent; INLINE_SLOTS as usize - 1],
    /// Owner.
    pub uid: U32,
    /// Group.
    pub gid: U32,
    /// Counts the lives of this number.
    pub generation: U32,
    /// Device number of a device file.
    pub rdev: U32,
    /// Inode of the parent directory; 0 for what is no directory.
    pub parent: U32,
    /// First index block, where there are more slots than fit in here.
    pub index: U32,
    /// First block of extended attributes, which knows the others; 0 = none.
    pub xattr: U32,
    /// Of the bytes from 64 on.
    pub cold_crc: U32,
}

impl InodeRecord {
    /// The record at byte `at` of a table block.
    pub fn read(block: &[u8; PAGE_SIZE], at: usize) -> InodeRecord {
        InodeRecord::read_from_bytes(&block[at..at + INODE_SIZE]).expect("an inode's bytes")
    }

    /// File type; `None` where no correct file system wrote this.
    pub fn kind(&self) -> Option<FileKind> {
        FileKind::from_code((self.mode.get() >> 12) as u8)
    }

    /// The attributes, without the number of blocks.
    pub fn attr(&self) -> Option<Attr> {
        Some(Attr {
            kind: self.kind()?,
            mode: self.mode.get() & 0o7777,
            uid: self.uid.get(),
            gid: self.gid.get(),
            nlink: self.nlink.get(),
            size: self.size.get(),
            blocks: 0,
            atime: Time(self.atime.get()),
            mtime: Time(self.mtime.get()),
            ctime: Time(self.ctime.get()),
            rdev: self.rdev.get(),
            flags: self.flags.get() as u8 & flag::ALL,
        })
    }

    /// The slots in the inode.
    pub fn inline(&self) -> [Extent; INLINE_SLOTS as usize] {
        [self.first, self.more[0], self.more[1]]
    }

    /// Sets the slots in the inode.
    pub fn set_inline(&mut self, slots: &[Extent; INLINE_SLOTS as usize]) {
        self.first = slots[0];
        self.more.copy_from_slice(&slots[1..]);
    }

    /// The places of the slots as bytes: a short target and zeros.
    pub fn inline_bytes(&self) -> [u8; INLINE_SIZE] {
        let mut bytes = [0; INLINE_SIZE];
        let (first, more) = bytes.split_at_mut(size_of::<Extent>());
        first.copy_from_slice(self.first.as_bytes());
        more.copy_from_slice(self.more.as_bytes());
        bytes
    }

    /// Puts a short target into the places of the slots.
    pub fn set_target(&mut self, target: &[u8]) {
        let mut bytes = [0; INLINE_SIZE];
        bytes[..target.len()].copy_from_slice(target);
        let (first, more) = bytes.split_at(size_of::<Extent>());
        self.first.as_mut_bytes().copy_from_slice(first);
        self.more.as_mut_bytes().copy_from_slice(more);
    }
}
