//! The superblock: block 0, read and written whole by the block interface (ByteFS Table 3), so it can have a
//! checksum.
//!
//! Copies lie in the last block of what mkfs made and of each segment that a growth added. They are written
//! by mkfs, by growths and by repairs only: a copy never says "clean", so what is mounted from it is
//! recovered.

use crate::layout::geometry::{Geometry, MAX_SEGMENTS, Segment};
use granary_fs::{FsError, Result};
use granary_units::PAGE_SIZE;
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `GRBYTEFS`.
pub const MAGIC: [u8; 8] = *b"GRBYTEFS";
/// The format that this code reads and writes.
pub const VERSION: u32 = 4;
/// Where the checksum of the superblock of versions 1 to 3 was.
const OLD_CRC: usize = 124;
/// [`Superblock::state`] of a file system that was unmounted properly.
pub const CLEAN: u32 = 1;
/// [`Superblock::state`] of a file system that was unmounted properly, and that was recovered, or repaired,
/// at some time before. Bytes beyond the ends of files may be remains of a lost write; they are made zero
/// when an inode is loaded.
pub const CLEAN_LOOSE: u32 = 3;
/// [`Superblock::state`] of a mounted file system, or one whose power failed.
pub const IN_USE: u32 = 0;
/// [`Superblock::state`] while a repair writes what it mended: only another repair may touch the rest.
pub const REPAIRING: u32 = 2;

/// Blocks and inodes that a growth added; their numbers begin where the former end.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Added {
    /// Blocks in all, with it.
    pub blocks: U32,
    /// Inodes in all, with it.
    pub inodes: U32,
}

/// The superblock; the rest of its block is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: U32,
    /// [`CLEAN`], [`CLEAN_LOOSE`], [`IN_USE`] or [`REPAIRING`].
    pub state: U32,
    /// Names this file system.
    pub uuid: [u8; 16],
    /// Blocks that mkfs made.
    pub blocks: U64,
    /// Inodes that mkfs made.
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
    /// The block that this is in: 0, or that of a copy.
    pub place: U32,
    /// Growths.
    pub grown: U32,
    /// 1 while the last growth is under way: nothing of it is in use, and bits of the bitmaps may still be
    /// missing.
    pub growing: U32,
    /// Blocks and inodes that each growth added.
    pub added: [Added; MAX_SEGMENTS],
    /// CRC-32C of the bytes before.
    pub crc: U32,
}

impl Superblock {
    /// Bytes of the struct.
    pub const SIZE: usize = size_of::<Superblock>();

    /// Whether it was unmounted properly.
    pub fn is_clean(&self) -> bool {
        matches!(self.state.get(), CLEAN | CLEAN_LOOSE)
    }

    /// Reads and checks the superblock in block `place`.
    ///
    /// # Errors
    /// `Corrupt` with what is wrong.
    pub fn read(block: &[u8; PAGE_SIZE], place: u64) -> Result<Superblock> {
        let sb = Superblock::read_from_bytes(&block[..Superblock::SIZE]).expect("a superblock's bytes");
        let bad = |what: String| Err(FsError::Corrupt(what));
        if sb.magic != MAGIC {
            return bad(format!(
                "block {place} begins with {:02x?}, not with GRBYTEFS: no ByteFS here",
                sb.magic
            ));
        }
        if sb.version.get() != VERSION {
            return bad(format!(
                "ByteFS of format version {}, this program reads {VERSION}: copy the files out with the granary that made it \
                 (`granary cp-out IMAGE / DIR`), and into a new image (`granary mkfs IMAGE`, `granary cp-in IMAGE DIR /`)",
                sb.version
            ));
        }
        if sb.crc.get() != sb.checksum() {
            return bad(format!("superblock checksum {:#x}, computed {:#x}", sb.crc, sb.checksum()));
        }
        if sb.place.get() as u64 != place || sb.grown.get() as usize > MAX_SEGMENTS {
            return bad(format!("block {place} holds the superblock of block {}", sb.place));
        }
        Ok(sb)
    }

    /// Whether this is an undamaged superblock of an earlier version.
    pub fn is_older(block: &[u8; PAGE_SIZE]) -> bool {
        let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
        block[..8] == MAGIC && word(8) < VERSION && word(OLD_CRC) == crc32c::crc32c(&block[..OLD_CRC])
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
        let small = |n: U32| n.get() as u64;
        let areas = [
            self.orphans.get(),
            self.inode_bitmap.get(),
            self.block_bitmap.get(),
            self.inode_table.get(),
            small(self.journal),
            small(self.journal_blocks),
            self.data.get(),
        ];
        let geometry = Geometry::from_areas(areas, self.blocks.get(), self.inodes.get());
        for added in self.added.iter().take(self.grown.get() as usize) {
            let (start, first) = (geometry.blocks(), geometry.inodes());
            geometry.add(Segment::new(start, small(added.blocks), first, small(added.inodes)));
        }
        geometry
    }

    /// Whether another block describes the same file system.
    pub fn agrees(&self, other: &Superblock) -> bool {
        let plain = |sb: &Superblock| Superblock {
            state: U32::ZERO,
            next_tx: U32::ZERO,
            mounts: U64::ZERO,
            place: U32::ZERO,
            crc: U32::ZERO,
            ..*sb
        };
        plain(self) == plain(other)
    }

    /// With a growth added, which is under way.
    pub fn with(mut self, segment: &Segment) -> Superblock {
        let added = Added { blocks: U32::new(segment.end as u32), inodes: U32::new(segment.inodes as u32) };
        self.added[self.grown.get() as usize] = added;
        self.grown += 1;
        self.growing = U32::new(1);
        self
    }

    fn checksum(&self) -> u32 {
        crc32c::crc32c(&self.as_bytes()[..Superblock::SIZE - 4])
    }
}
