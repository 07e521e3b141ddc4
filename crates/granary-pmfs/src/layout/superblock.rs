//! The superblock: block 0, with a copy in the last block.

use super::journal::Form;
use granary_fs::Result;
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::corrupt;

/// `GrnyPMFS`.
const MAGIC: u64 = u64::from_le_bytes(*b"GrnyPMFS");
/// The format for media that leave words of 8 bytes whole: the journal's entries have checksums.
pub const VERSION: u32 = 2;
/// The format for media that leave lines whole (byte windows): an entry is one line and needs no checksum.
pub const LINES_VERSION: u32 = 1;
/// PMFS's structures with a redo log in the journal's place: DevFS.
pub const REDO_VERSION: u32 = 3;
/// Bytes of the superblock on media: one line, so that it changes as a whole.
pub const SIZE: usize = 64;

/// The superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    /// Version of the format: the form of the journal's entries.
    pub version: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks of the journal.
    pub journal: u32,
    /// Blocks of one piece of the inode table.
    pub piece: u32,
    /// Unmounted properly: `saved` holds the free lists.
    pub clean: bool,
    /// First block of the saved lists.
    pub saved: u64,
    /// Mounts so far.
    pub mounts: u64,
}

impl Superblock {
    /// Reads it.
    ///
    /// # Errors
    /// `Corrupt` with the reason.
    pub fn parse(b: &[u8; SIZE]) -> Result<Superblock> {
        if u64_at(b, 0) != MAGIC {
            return Err(corrupt(format!("block 0 begins with {:02x?}: no PMFS here", &b[..8])));
        }
        let version = u32_at(b, 8);
        if !(LINES_VERSION..=REDO_VERSION).contains(&version) {
            let known = format!("this program reads {LINES_VERSION} to {REDO_VERSION}");
            return Err(corrupt(format!("format version {version}, {known}")));
        }
        if u32_at(b, SIZE - 4) != crc32c::crc32c(&b[..SIZE - 4]) {
            return Err(corrupt("the superblock's checksum does not fit"));
        }
        Ok(Superblock {
            version,
            blocks: u64_at(b, 24),
            journal: u32_at(b, 12),
            piece: u32_at(b, 16),
            clean: b[20] == 1,
            saved: u64_at(b, 32),
            mounts: u64_at(b, 40),
        })
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        put_u64(&mut b, 0, MAGIC);
        put_u32(&mut b, 8, self.version);
        put_u64(&mut b, 24, self.blocks);
        put_u32(&mut b, 12, self.journal);
        put_u32(&mut b, 16, self.piece);
        b[20] = self.clean.into();
        put_u64(&mut b, 32, self.saved);
        put_u64(&mut b, 40, self.mounts);
        let crc = crc32c::crc32c(&b[..SIZE - 4]);
        put_u32(&mut b, SIZE - 4, crc);
        b
    }

    /// How the journal is written.
    pub fn form(&self) -> Form {
        if self.version == LINES_VERSION { Form::Lines } else { Form::Words }
    }

    /// Block with the pointers to the inode table's pieces.
    pub fn table(&self) -> u64 {
        1 + self.journal as u64
    }
}
