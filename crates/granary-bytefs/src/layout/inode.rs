//! Inodes: 128 B in two halves of one line each; what changes often is in the lower one.
//!
//! ```text
//!   hot    0 size | 8 mtime | 16 ctime | 24 atime | 32 nlink | 36 mode | 38 - | 40 blocks | 44 slots | 48 extent 0
//!   cold  64 extent 1 | 80 extent 2 | 96 uid | 100 gid | 104 generation | 108 rdev | 112 parent | 116 index | 120 xattr | 124 xattr blocks
//! ```
//!
//! The first extent is in the hot half: appending to a file of one extent changes one line of its inode. A symbolic
//! link of up to 48 bytes keeps its target in bytes 48-95 instead of extents (`slots` 0).
//!
//! Invariant: an inode is in use exactly when its bit in the inode bitmap is set; the record of a free inode is
//! garbage.
//!
//! Source: ByteFS section 4.5 ("we split each inode into the upper and lower regions (64B each)").

use crate::layout::extent::{Extent, INLINE_SLOTS};
use granary_units::PAGE_SIZE;
use granary_vfs::{Attr, FileKind, Time};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an inode.
pub const INODE_SIZE: usize = 128;
/// Inodes in a block of the inode table.
pub const INODES_PER_BLOCK: u64 = (PAGE_SIZE / INODE_SIZE) as u64;
/// Where the inline area (three extents or a short target) begins.
pub const INLINE_AT: usize = 48;
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
    /// Zero.
    pub reserved0: U16,
    /// Blocks of 4 KiB that belong to the inode, extent and index blocks included.
    pub blocks: U32,
    /// Extent slots ever used.
    pub slots: U32,
    /// The first slots, or a short target.
    pub inline: [Extent; INLINE_SLOTS as usize],
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
    /// First block of extended attributes; 0 = none.
    pub xattr: U32,
    /// Their number.
    pub xattr_blocks: U32,
}

impl InodeRecord {
    /// The record at byte `at` of a table block.
    pub fn read(block: &[u8; PAGE_SIZE], at: usize) -> InodeRecord {
        InodeRecord::read_from_bytes(&block[at..at + INODE_SIZE]).expect("an inode's bytes")
    }

    /// What it is; `None` where no correct file system wrote this.
    pub fn kind(&self) -> Option<FileKind> {
        FileKind::from_code((self.mode.get() >> 12) as u8)
    }

    /// The attributes.
    pub fn attr(&self) -> Option<Attr> {
        Some(Attr {
            kind: self.kind()?,
            mode: self.mode.get() & 0o7777,
            uid: self.uid.get(),
            gid: self.gid.get(),
            nlink: self.nlink.get(),
            size: self.size.get(),
            blocks: self.blocks.get() as u64 * (PAGE_SIZE as u64 / 512),
            atime: Time(self.atime.get()),
            mtime: Time(self.mtime.get()),
            ctime: Time(self.ctime.get()),
            rdev: self.rdev.get(),
        })
    }

    /// The inline area as bytes.
    pub fn inline_bytes(&self) -> &[u8] {
        self.inline.as_bytes()
    }

    /// The inline area to put a short target into.
    pub fn inline_bytes_mut(&mut self) -> &mut [u8] {
        self.inline.as_mut_bytes()
    }
}
