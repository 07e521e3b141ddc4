//! Further fields of the inode of a file that is in persistent memory alone: its name, its owner, its mode,
//! its access time.
//!
//! ```text
//!   80 directory's lower inode 8, 0: no name | 88 its generation 4 | 92 mode 2 | 94 bytes of the name 2
//!   96 owner 4 | 100 group 4 | 104 access time 8 | 112 CRC-32C of directory, generation and name 4
//!   240 the name from its 240th byte on, 15 | 272 its first 240 bytes
//! ```
//!
//! The inode's identity is a number of a range that no lower inode is in, counted up from the largest that is
//! there at the mount, and the time when it was made.

use super::inode::{self, Identity};
use granary_device::Structure;
use granary_fs::{Result, Time};
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::{Batch, Pm};

/// Numbers of such files begin here. \[choice\] the last numbers that an `i64` has: lower file systems count
/// from 1, and directories of the host have numbers above for what is mounted within.
const NUMBERS: u64 = 0x7fff_f000_0000_0000;
/// Bits that are counted.
const BITS: u32 = 44;
/// Longest name.
pub const LONGEST: usize = 255;

const DIR: u64 = 80;
const GENERATION: u64 = 88;
const LEN: u64 = 94;
/// Mode: in the word with generation and length.
const MODE: u64 = 92;
/// Owner and group.
const OWNER: u64 = 96;
/// Access time.
pub const ATIME: u64 = 104;
const CRC: u64 = 112;
const REST: u64 = 240;
const NAME: u64 = 272;
/// Bytes of a name at [`NAME`].
const FIRST: usize = 240;

/// The `nth` such number.
pub fn ino(nth: u64) -> u64 {
    NUMBERS | nth & ((1 << BITS) - 1)
}

/// How many come before a number of these.
pub fn nth(ino: u64) -> u64 {
    ino & ((1 << BITS) - 1)
}

/// Whether a number is one of those.
pub fn is(ino: u64) -> bool {
    ino >> BITS == NUMBERS >> BITS
}

/// A name, and the directory that it is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamePlace {
    /// The lower directory.
    pub dir: Identity,
    /// The name.
    pub name: Vec<u8>,
}

impl NamePlace {
    fn crc(&self) -> u32 {
        let mut b = [0; 14];
        put_u64(&mut b, 0, self.dir.ino);
        put_u32(&mut b, 8, self.dir.generation);
        b[12..].copy_from_slice(&(self.name.len() as u16).to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c(&b), &self.name)
    }

    /// Whether a path can have the name.
    pub fn is_sound(&self) -> bool {
        self.dir.ino != 0 && self.name.len() <= LONGEST && granary_fs::is_name(&self.name)
    }

    /// Puts it in the batch, for this inode. May be done again.
    ///
    /// # Errors
    /// The device's.
    pub fn put(&self, b: &mut Batch<'_>, number: u64) -> Result<()> {
        let at = |field: u64| inode::at(number, field);
        let (first, rest) = self.name.split_at(self.name.len().min(FIRST));
        b.put_u64(at(DIR), self.dir.ino, Structure::Dentry)?;
        b.put_u32(at(GENERATION), self.dir.generation, Structure::Dentry)?;
        b.put(at(LEN), &(self.name.len() as u16).to_le_bytes(), Structure::Dentry)?;
        b.put_u32(at(CRC), self.crc(), Structure::Dentry)?;
        b.put(at(NAME), first, Structure::Dentry)?;
        if rest.is_empty() { Ok(()) } else { b.put(at(REST), rest, Structure::Dentry) }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alone {
    /// Its name, unless that was removed.
    pub place: Option<NamePlace>,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Access time.
    pub atime: Time,
}

impl Alone {
    /// Puts everything in the batch, for this inode.
    ///
    /// # Errors
    /// The device's.
    pub fn put(&self, b: &mut Batch<'_>, number: u64) -> Result<()> {
        self.put_attributes(b, number)?;
        b.put_u64(inode::at(number, ATIME), self.atime.0 as u64, Structure::Inode)?;
        self.place.iter().try_for_each(|place| place.put(b, number))
    }

    /// Puts mode and owner in the batch.
    ///
    /// # Errors
    /// The device's.
    pub fn put_attributes(&self, b: &mut Batch<'_>, number: u64) -> Result<()> {
        b.put(inode::at(number, MODE), &self.mode.to_le_bytes(), Structure::Inode)?;
        let owner = u64::from(self.gid) << 32 | u64::from(self.uid);
        b.put_u64(inode::at(number, OWNER), owner, Structure::Inode)
    }

    /// Takes the name away: one store.
    ///
    /// # Errors
    /// The device's.
    pub fn put_no_name(b: &mut Batch<'_>, number: u64) -> Result<()> {
        b.put_u64(inode::at(number, DIR), 0, Structure::Dentry)
    }

    /// Loads it; where the name is damaged, that is the error within.
    ///
    /// # Errors
    /// The device's.
    #[allow(clippy::type_complexity)]
    pub fn load(pm: &Pm, number: u64) -> Result<std::result::Result<Alone, Alone>> {
        let mut b = [0; inode::SIZE as usize];
        pm.load(inode::at(number, 0), &mut b, Structure::Inode)?;
        let half = |at: u64| u16::from_le_bytes([b[at as usize], b[at as usize + 1]]);
        let word = |at: u64| u64_at(&b, at as usize);
        let mut alone = Alone {
            place: None,
            mode: half(MODE) & 0o7777,
            uid: word(OWNER) as u32,
            gid: (word(OWNER) >> 32) as u32,
            atime: Time(word(ATIME) as i64),
        };
        if word(DIR) == 0 {
            return Ok(Ok(alone));
        }
        let len = usize::from(half(LEN)).min(LONGEST);
        let (first, rest) = (len.min(FIRST), len.saturating_sub(FIRST));
        let name = [&b[NAME as usize..][..first], &b[REST as usize..][..rest]].concat();
        let dir = Identity { ino: word(DIR), generation: u32_at(&b, GENERATION as usize) };
        let place = NamePlace { dir, name };
        let sound = place.is_sound() && place.crc() == u32_at(&b, CRC as usize);
        if !sound {
            return Ok(Err(alone));
        }
        alone.place = Some(place);
        Ok(Ok(alone))
    }
}
