//! Inodes: 256 B each, 16 in a block.
//!
//! ```text
//!   0   mode 2 | zero 2 | links 4 | uid 4 | gid 4 | flags 4
//!   20  size 8 | blocks 8
//!   36  atime 8 | mtime 8 | ctime 8 | crtime 8
//!   68  generation 4 | next_orphan 4 | rdev 4 | dtime 4
//!   84  root 60: extent tree root, or the target of a short symbolic link
//!   144 xattr block 8 | length 2 | extended attributes 98 | checksum 4 (of bytes 0-251)
//! ```
//!
//! A free inode has `links` 0; a never-used one is all zeros (checksum too).

use super::{BlockBytes, corrupt};
use granary_fs::Result;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an inode.
pub const INODE_SIZE: usize = 256;
/// Inodes in a block.
pub const INODES_PER_BLOCK: u32 = 16;
/// Bytes of the extent root, and of the longest symbolic link held in the inode plus one.
pub const ROOT_SIZE: usize = 60;
/// Bytes for extended attributes in the inode.
pub const XATTR_ROOM: usize = 98;
/// The root directory.
pub const ROOT_INO: u32 = 2;
/// The journal.
pub const JOURNAL_INO: u32 = 8;
/// First inode that files get; 1-10 are reserved.
pub const FIRST_INO: u32 = 11;

/// `flags`: `root` is an extent tree.
pub const EXTENTS: u32 = 0x8_0000;
/// `flags`: a hashed directory.
pub const INDEX: u32 = 0x1000;

/// An inode on media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawInode {
    /// File type (4 bits) and permissions (12 bits).
    pub mode: U16,
    /// Unused, zero.
    pub zero: U16,
    /// Hard links; 0 = free, or orphan.
    pub links: U32,
    /// Owner.
    pub uid: U32,
    /// Group.
    pub gid: U32,
    /// [`EXTENTS`], [`INDEX`], and those of `granary_fs::flag`.
    pub flags: U32,
    /// Size in bytes that is safe to show after a power loss (the kernel's `i_disksize`).
    pub size: U64,
    /// Blocks taken, extent blocks included.
    pub blocks: U64,
    /// Last read, ns since 1970.
    pub atime: I64,
    /// Last change of content.
    pub mtime: I64,
    /// Last change of attributes.
    pub ctime: I64,
    /// Creation.
    pub crtime: I64,
    /// Changes with every reuse of the inode.
    pub generation: U32,
    /// Next inode of the orphan list.
    pub next_orphan: U32,
    /// Device number.
    pub rdev: U32,
    /// Seconds of deletion, 0 = in use.
    pub dtime: U32,
    /// Extent tree root or short link target.
    pub root: [u8; ROOT_SIZE],
    /// Block of the extended attributes that do not fit in here, 0 = none.
    pub xattr_block: U64,
    /// Bytes of `xattrs` in use.
    pub xattr_len: U16,
    /// Extended attributes (`granary_kit::xattr_string`).
    pub xattrs: [u8; XATTR_ROOM],
    /// CRC-32C of bytes 0-251, begun with the inode's number.
    pub checksum: U32,
}

const _: () = assert!(size_of::<RawInode>() == INODE_SIZE);

impl RawInode {
    /// The inode at `slot` (0-15) of a block, as it lies there.
    pub fn at(block: &BlockBytes, slot: usize) -> &RawInode {
        let at = slot * INODE_SIZE;
        RawInode::ref_from_bytes(&block[at..at + INODE_SIZE]).expect("an unaligned struct of that size")
    }

    /// The same, for changing; [`RawInode::seal`] must follow.
    pub fn at_mut(block: &mut BlockBytes, slot: usize) -> &mut RawInode {
        let at = slot * INODE_SIZE;
        RawInode::mut_from_bytes(&mut block[at..at + INODE_SIZE]).expect("an unaligned struct of that size")
    }

    fn sum(&self, ino: u32) -> u32 {
        crc32c::crc32c_append(ino, &self.as_bytes()[..INODE_SIZE - 4])
    }

    /// Puts the checksum right.
    pub fn seal(&mut self, ino: u32) {
        self.checksum = self.sum(ino).into();
    }

    /// Checks that this is an inode `ino` that is in use.
    ///
    /// # Errors
    /// `Stale` where it is free, `Corrupt` where the checksum is wrong.
    pub fn verify(&self, ino: u32) -> Result<()> {
        if self.mode.get() == 0 && self.links.get() == 0 {
            return Err(granary_fs::FsError::Stale);
        }
        if self.checksum.get() != self.sum(ino) {
            return Err(corrupt(format!("checksum of inode {ino} is wrong")));
        }
        Ok(())
    }
}
