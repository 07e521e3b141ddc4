//! The superblock: block 0, read and written whole by the block interface (ByteFS Table 3), so it can have a checksum.

use crate::layout::geometry::Geometry;
use granary_units::PAGE_SIZE;
use granary_vfs::{FsError, Result};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `GRBYTEFS`.
pub const MAGIC: [u8; 8] = *b"GRBYTEFS";
/// The format that this code reads and writes.
pub const VERSION: u32 = 3;
/// [`Superblock::state`] of a file system that was unmounted properly.
pub const CLEAN: u32 = 1;
/// [`Superblock::state`] of a mounted file system, or one whose power failed.
pub const IN_USE: u32 = 0;
/// [`Superblock::state`] while a repair writes what it mended: only another repair may touch the rest.
pub const REPAIRING: u32 = 2;

/// The superblock; the rest of its block is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: U32,
    /// [`CLEAN`], [`IN_USE`] or [`REPAIRING`].
    pub state: U32,
    /// Names this file system.
    pub uuid: [u8; 16],
    /// Blocks in all.
    pub blocks: U64,
    /// Inodes in all.
    pub inodes: U64,
    /// Block of the orphan table.
    pub orphans: U64,
    /// First block of the inode bitmap.
    pub inode_bitmap: U64,
    /// First block of the block bitmap.
    pub block_bitmap: U64,
    /// First block of the inode table.
    pub inode_table: U64,
    /// First block for data.
    pub data: U64,
    /// The next transaction number, valid when clean: the drive's TxLog may still hold older ones.
    pub next_tx: U32,
    /// Inode of the root directory.
    pub root: U32,
    /// Mounts so far.
    pub mounts: U64,
    /// When mkfs ran, nanoseconds since 1970.
    pub made: I64,
    /// First block of the journal area, right before the data.
    pub journal: U32,
    /// Its blocks.
    pub journal_blocks: U32,
    /// Zero.
    pub reserved: U32,
    /// CRC-32C of the bytes before.
    pub crc: U32,
}

impl Superblock {
    /// Bytes of the struct.
    pub const SIZE: usize = size_of::<Superblock>();

    /// Reads and checks block 0.
    ///
    /// # Errors
    /// `Corrupt` with what is wrong.
    pub fn read(block: &[u8; PAGE_SIZE]) -> Result<Superblock> {
        let sb = Superblock::read_from_bytes(&block[..Superblock::SIZE]).expect("a superblock's bytes");
        let bad = |what: String| Err(FsError::Corrupt(what));
        if sb.magic != MAGIC {
            return bad(format!("block 0 begins with {:02x?}, not with GRBYTEFS: no ByteFS here", sb.magic));
        }
        if sb.version.get() != VERSION {
            return bad(format!("format version {}, this program reads {VERSION}", sb.version));
        }
        if sb.crc.get() != sb.checksum() {
            return bad(format!("superblock checksum {:#x}, computed {:#x}", sb.crc, sb.checksum()));
        }
        Ok(sb)
    }

    /// The block to write.
    pub fn to_block(mut self) -> [u8; PAGE_SIZE] {
        self.crc = U32::new(self.checksum());
        let mut block = [0; PAGE_SIZE];
        block[..Superblock::SIZE].copy_from_slice(self.as_bytes());
        block
    }

    /// Where the areas lie.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            blocks: self.blocks.get(),
            inodes: self.inodes.get(),
            orphans: self.orphans.get(),
            inode_bitmap: self.inode_bitmap.get(),
            block_bitmap: self.block_bitmap.get(),
            inode_table: self.inode_table.get(),
            journal: self.journal.get() as u64,
            journal_blocks: self.journal_blocks.get() as u64,
            data: self.data.get(),
        }
    }

    fn checksum(&self) -> u32 {
        crc32c::crc32c(&self.as_bytes()[..Superblock::SIZE - 4])
    }
}
