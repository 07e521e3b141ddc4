//! The superblock: block 0, with a copy in the block before the last.

use granary_fs::Result;
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::corrupt;

/// `GrnyNOVA`.
const MAGIC: u64 = u64::from_le_bytes(*b"GrnyNOVA");
/// The format that this code reads and writes.
const VERSION: u32 = 1;
/// Bytes of the superblock on media: one line, so that it changes as a whole.
pub const SIZE: usize = 64;

/// The superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    /// Blocks in all.
    pub blocks: u64,
    /// CPUs: journals, inode tables, free lists.
    pub cpus: u32,
    /// Blocks of one piece of an inode table.
    pub piece: u32,
    /// Unmounted properly: `saved` holds the free lists.
    pub clean: bool,
    /// First block of the saved lists.
    pub saved: u64,
    /// Mounts so far.
    pub mounts: u64,
    /// The last mount wrote data in place.
    pub in_place: bool,
}

impl Superblock {
    /// Reads it.
    ///
    /// # Errors
    /// `Corrupt` with the reason.
    pub fn parse(b: &[u8; SIZE]) -> Result<Superblock> {
        if u64_at(b, 0) != MAGIC {
            return Err(corrupt(format!("block 0 begins with {:02x?}: no NOVA here", &b[..8])));
        }
        if u32_at(b, 8) != VERSION {
            return Err(corrupt(format!("format version {}, this program reads {VERSION}", u32_at(b, 8))));
        }
        let crc = crc32c::crc32c(&b[..SIZE - 4]);
        if u32_at(b, SIZE - 4) != crc {
            return Err(corrupt("the superblock's checksum does not fit"));
        }
        Ok(Superblock {
            blocks: u64_at(b, 24),
            cpus: u32_at(b, 12),
            piece: u32_at(b, 16),
            clean: b[20] == 1,
            in_place: b[21] == 1,
            saved: u64_at(b, 32),
            mounts: u64_at(b, 40),
        })
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        put_u64(&mut b, 0, MAGIC);
        put_u32(&mut b, 8, VERSION);
        put_u64(&mut b, 24, self.blocks);
        put_u32(&mut b, 12, self.cpus);
        put_u32(&mut b, 16, self.piece);
        b[20] = self.clean.into();
        b[21] = self.in_place.into();
        put_u64(&mut b, 32, self.saved);
        put_u64(&mut b, 40, self.mounts);
        let crc = crc32c::crc32c(&b[..SIZE - 4]);
        put_u32(&mut b, SIZE - 4, crc);
        b
    }
}
