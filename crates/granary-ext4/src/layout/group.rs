//! Group descriptors: 64 B each, 64 in a block, from block 1 on.

use super::{BlockBytes, corrupt};
use granary_fs::Result;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a descriptor.
pub const DESCRIPTOR_SIZE: usize = 64;
/// Descriptors in a block.
pub const DESCRIPTORS_PER_BLOCK: u32 = 64;
/// `flags`: no inode of the group was ever used; its inode bitmap is not on media.
pub const INODE_UNINIT: u16 = 1;
/// `flags`: no block was ever allocated in the group; its block bitmap is not on media.
pub const BLOCK_UNINIT: u16 = 2;

/// A group descriptor on media.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct GroupDesc {
    /// Block of the block bitmap.
    pub block_bitmap: U64,
    /// Block of the inode bitmap.
    pub inode_bitmap: U64,
    /// First block of the inode table.
    pub inode_table: U64,
    /// Free blocks.
    pub free_blocks: U32,
    /// Free inodes.
    pub free_inodes: U32,
    /// Directories.
    pub used_dirs: U32,
    /// Inodes at the end of the table that were never used.
    pub itable_unused: U32,
    /// [`INODE_UNINIT`], [`BLOCK_UNINIT`].
    pub flags: U16,
    /// Unused, zero.
    pub reserved: [u8; 18],
    /// CRC-32C of everything before, begun with the group's number.
    pub checksum: U32,
}

const _: () = assert!(size_of::<GroupDesc>() == DESCRIPTOR_SIZE);

impl GroupDesc {
    fn sum(&self, group: u32) -> u32 {
        crc32c::crc32c_append(group, &self.as_bytes()[..DESCRIPTOR_SIZE - 4])
    }

    /// The descriptor of `group` in its block.
    ///
    /// # Errors
    /// `Corrupt` where the checksum is wrong.
    pub fn parse(block: &BlockBytes, group: u32) -> Result<GroupDesc> {
        let at = (group % DESCRIPTORS_PER_BLOCK) as usize * DESCRIPTOR_SIZE;
        let (desc, _) =
            GroupDesc::read_from_prefix(&block[at..]).map_err(|_| corrupt("short group descriptor"))?;
        if desc.checksum.get() != desc.sum(group) {
            return Err(corrupt(format!("checksum of the descriptor of group {group} is wrong")));
        }
        Ok(desc)
    }

    /// Writes itself into its block, with its checksum.
    pub fn store(&self, block: &mut BlockBytes, group: u32) {
        let mut desc = *self;
        desc.checksum = desc.sum(group).into();
        let at = (group % DESCRIPTORS_PER_BLOCK) as usize * DESCRIPTOR_SIZE;
        block[at..at + DESCRIPTOR_SIZE].copy_from_slice(desc.as_bytes());
    }
}
