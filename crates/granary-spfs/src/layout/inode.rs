//! An inode: 512 bytes, two blocks. Its number is that of its first block.
//!
//! ```text
//!   0 magic 4 | 4 lower generation 4 | 8 lower inode 8 | 16 CRC-32C of the 16 bytes before, 4 | 20 zero 4
//!   24 zero 8 | 32 size 8 | 40 limit 8 | 48 last extent 8 | 56 mtime 8 | 64 ctime 8 | 72 sync factor 8
//!   80-115 and 240-254, 272-511: name and owner of a file that is here alone (alone.rs)
//!   256 journal: undo record {cluster of the copy 4, of the target 4} | 264 {bytes 4, first byte 4}, 0: none
//! ```
//!
//! `limit`: bytes of the lower file from there on are not the file's, whatever it has there. `last extent`:
//! its first cluster + 1; from there the extents are chained back to the first one.

use granary_device::Structure;
use granary_fs::{Result, Time};
use granary_pm::Pm;
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};

use super::PM_BLOCK;

/// Bytes.
pub const SIZE: u64 = 2 * PM_BLOCK;
/// Inodes in a cluster.
pub const IN_CLUSTER: u64 = granary_pm::BLOCK / SIZE;
/// Size in bytes.
pub const FILE_SIZE: u64 = 32;
/// End of what the lower file still has to say.
pub const LIMIT: u64 = 40;
/// First cluster of the last extent, plus one.
pub const LAST: u64 = 48;
/// Modification time.
pub const MTIME: u64 = 56;
/// Change time.
pub const CTIME: u64 = 64;
/// Sync factor.
pub const FACTOR: u64 = 72;
/// The undo record.
pub const UNDO: u64 = 256;
/// Its bytes and the first of them, counted from the clusters' start: the record counts while that is not 0.
pub const UNDO_LEN: u64 = 264;

const MAGIC: u32 = u32::from_le_bytes(*b"SPFi");

/// Which lower file an inode belongs to: number and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The lower inode number.
    pub ino: u64,
    /// The lower generation.
    pub generation: u32,
}

/// Bytes that were being overwritten in place, and where they were copied to before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undo {
    /// First cluster of the copy.
    pub copy: u32,
    /// First cluster of the target.
    pub target: u32,
    /// First byte, counted from both.
    pub from: u32,
    /// Bytes.
    pub len: u32,
}

impl Undo {
    /// Its two words.
    pub fn words(&self) -> [u64; 2] {
        [(self.copy, self.target), (self.len, self.from)].map(|(a, b)| u64::from(a) << 32 | u64::from(b))
    }

    fn read(place: u64, range: u64) -> Option<Undo> {
        let (copy, target) = ((place >> 32) as u32, place as u32);
        (range != 0).then_some(Undo { copy, target, from: range as u32, len: (range >> 32) as u32 })
    }
}

/// An inode as it was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Identity of its file.
    pub identity: Identity,
    /// Size in bytes.
    pub size: u64,
    /// End of the bytes for which the lower file counts.
    pub limit: u64,
    /// First cluster of the last extent.
    pub last: Option<u32>,
    /// Modification time.
    pub mtime: Time,
    /// Change time.
    pub ctime: Time,
    /// Sync factor.
    pub factor: u64,
    /// Operation that a power failure has cut short.
    pub undo: Option<Undo>,
}

/// Byte address of a field.
pub fn at(number: u64, field: u64) -> u64 {
    number * PM_BLOCK + field
}

/// The word for the last extent.
pub fn last_word(last: Option<u32>) -> u64 {
    last.map_or(0, |lcn| u64::from(lcn) + 1)
}

impl Inode {
    /// The bytes; the journal is empty.
    pub fn bytes(&self) -> [u8; SIZE as usize] {
        let mut b = [0; SIZE as usize];
        put_u32(&mut b, 0, MAGIC);
        put_u32(&mut b, 4, self.identity.generation);
        put_u64(&mut b, 8, self.identity.ino);
        let crc = crc32c::crc32c(&b[..16]);
        put_u32(&mut b, 16, crc);
        let words = [
            (FILE_SIZE, self.size),
            (LIMIT, self.limit),
            (LAST, last_word(self.last)),
            (MTIME, self.mtime.0 as u64),
            (CTIME, self.ctime.0 as u64),
            (FACTOR, self.factor),
        ];
        words.iter().for_each(|(at, word)| put_u64(&mut b, *at as usize, *word));
        b
    }

    /// Loads one; `None` where there is none.
    ///
    /// # Errors
    /// The device's.
    pub fn load(pm: &Pm, number: u64) -> Result<Option<Inode>> {
        if number.saturating_add(2) > pm.info().pages * (granary_pm::BLOCK / PM_BLOCK) {
            return Ok(None);
        }
        let mut b = [0; UNDO_LEN as usize + 8];
        pm.load(number * PM_BLOCK, &mut b, Structure::Inode)?;
        if u32_at(&b, 0) != MAGIC || u32_at(&b, 16) != crc32c::crc32c(&b[..16]) {
            return Ok(None);
        }
        let word = |at: u64| u64_at(&b, at as usize);
        Ok(Some(Inode {
            identity: Identity { ino: word(8), generation: u32_at(&b, 4) },
            size: word(FILE_SIZE),
            limit: word(LIMIT),
            last: word(LAST).checked_sub(1).map(|lcn| lcn as u32),
            mtime: Time(word(MTIME) as i64),
            ctime: Time(word(CTIME) as i64),
            factor: word(FACTOR),
            undo: Undo::read(word(UNDO), word(UNDO_LEN)),
        }))
    }
}
