//! The superblock: block 0, 104 bytes used.
//!
//! Journalled when the head of the orphan list changes; written directly by mount and unmount. Its copies in
//! other groups are written by mkfs and never read by a mount.

use super::{BlockBytes, corrupt};
use granary_fs::Result;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// "GrE4": a Granary ext4.
pub const MAGIC: u32 = 0x3445_7247;
/// Version of the format.
pub const VERSION: u32 = 2;
/// `state`: unmounted cleanly, the journal is empty.
pub const CLEAN: u32 = 1;
/// `state`: unmounted cleanly, but recovered at some time before: blocks beyond the ends of files may hold
/// what a lost write left, and are made zero where an inode is loaded.
pub const CLEAN_LOOSE: u32 = 2;
/// `state`: mounted, or lost power while it was.
pub const DIRTY: u32 = 0;

/// The superblock on media.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: U32,
    /// [`VERSION`].
    pub version: U32,
    /// Blocks of the file system.
    pub blocks: U64,
    /// Free blocks at the last unmount.
    pub free_blocks: U64,
    /// Seed of the directory hash.
    pub hash_seed: U64,
    /// Inodes in all.
    pub inodes: U32,
    /// Free inodes at the last unmount.
    pub free_inodes: U32,
    /// Inodes per group, a multiple of 16.
    pub inodes_per_group: U32,
    /// Block groups.
    pub groups: U32,
    /// Groups whose bitmaps and inode tables are packed together.
    pub flex_groups: U32,
    /// Blocks of group descriptors, from block 1 on.
    pub descriptor_blocks: U32,
    /// Inode of the journal.
    pub journal_ino: U32,
    /// [`CLEAN`], [`CLEAN_LOOSE`] or [`DIRTY`].
    pub state: U32,
    /// First inode of the orphan list, 0 = none.
    pub last_orphan: U32,
    /// Times mounted.
    pub mounts: U32,
    /// Unused, zero.
    pub reserved: [u8; 28],
    /// CRC-32C of everything before.
    pub checksum: U32,
}

const SIZE: usize = size_of::<Superblock>();

impl Superblock {
    fn sum(&self) -> u32 {
        crc32c::crc32c(&self.as_bytes()[..SIZE - 4])
    }

    /// Reads and checks a superblock.
    ///
    /// # Errors
    /// `Corrupt` where it is none.
    pub fn parse(block: &BlockBytes) -> Result<Superblock> {
        let (sb, _) = Superblock::read_from_prefix(block).map_err(|_| corrupt("short superblock"))?;
        if sb.magic.get() != MAGIC || sb.version.get() != VERSION {
            return Err(corrupt(format!(
                "no ext4 superblock (magic {:#x}, version {})",
                sb.magic.get(),
                sb.version.get()
            )));
        }
        if sb.checksum.get() != sb.sum() {
            return Err(corrupt("superblock checksum is wrong"));
        }
        Ok(sb)
    }

    /// Writes itself, with its checksum.
    pub fn store(&self, block: &mut BlockBytes) {
        let mut sb = *self;
        sb.checksum = sb.sum().into();
        block[..SIZE].copy_from_slice(sb.as_bytes());
    }
}
