//! Content of persistent memory: superblock, inodes, slots. SPEC.md, "SPFS", has the same in one table.
//!
//! ```text
//!   cluster 0       superblock             static part with a CRC (copy in the last cluster), roots of the
//!                                          tables, split record
//!   cluster 1..     cluster bitmap         one bit for each cluster; counts after a clean unmount only
//!   behind          segments and directories of three tables, clusters of 8 inodes, data
//! ```
//!
//! Every commit is one store of 8 bytes; bytes written before it are out of reach until then.

pub mod alone;
pub mod inode;
pub mod journal;
pub mod slot;

use crate::exthash::Form;
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::{BLOCK, Pm, corrupt, superblock};

/// Bytes in a block, the granule of Optane memory: inode numbers count them.
pub const PM_BLOCK: u64 = 256;
/// Roots of the tables: a word each, depth in the top byte, cluster of the directory below.
pub const ROOTS: u64 = 64;
/// The split record.
pub const SPLIT: u64 = 88;
/// 1: unmounted, the bitmap counts.
pub const CLEAN: u64 = 128;
/// The number by which the file system below is known; 0: by none.
pub const LOWER: u64 = 136;
/// How often persistent memory with files was mounted, from bit 1 on; bit 0: about to be ([`crate::pair`]).
pub const RUN: u64 = 144;
/// Which root directory the file system below has; 0: not known.
pub const ROOT: u64 = 152;
/// First cluster of the bitmap.
pub const BITMAP: u64 = 1;

/// Version 2: extents of zeros, overflow pages.
const MAGIC: u64 = u64::from_le_bytes(*b"GrnSPFS2");
const STATIC: usize = 64;

/// The static part of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Clusters in all.
    pub clusters: u64,
    /// Clusters in a segment.
    pub segment: u64,
    /// How extents are entered.
    pub form: Form,
}

impl Superblock {
    /// Clusters of the bitmap.
    pub fn bitmap(&self) -> u64 {
        self.clusters.div_ceil(8 * BLOCK)
    }

    /// The first cluster behind the bitmap.
    pub fn first(&self) -> u64 {
        BITMAP + self.bitmap()
    }

    /// The cluster behind the last that can be used: the copy.
    pub fn end(&self) -> u64 {
        self.clusters - 1
    }

    /// Clusters in a chunk of a file: so many extents of one cluster take half of a segment's slots. At most
    /// 65,536, the largest extent of the released code.
    pub fn chunk(&self) -> u32 {
        let slots = self.segment * BLOCK / slot::EXTENT as u64;
        (slots / 2).next_power_of_two().min(65_536) as u32
    }

    /// Writes both.
    ///
    /// # Errors
    /// The device's.
    pub fn write(&self, pm: &Pm) -> Result<()> {
        let mut b = [0; STATIC];
        put_u64(&mut b, 0, MAGIC);
        put_u64(&mut b, 16, self.clusters);
        put_u32(&mut b, 24, self.segment as u32);
        put_u32(&mut b, 28, u32::from(self.form == Form::Pointers));
        let crc = crc32c::crc32c(&b);
        put_u32(&mut b, 8, crc);
        superblock::write(pm, self.end(), &b)
    }

    /// Reads the first of both that is whole.
    ///
    /// # Errors
    /// `Corrupt`; the device's.
    pub fn read(pm: &Pm) -> Result<Superblock> {
        let pages = pm.info().pages;
        superblock::read(pm, pages.checked_sub(1).filter(|copy| *copy > 0), |b: &[u8; STATIC]| {
            let mut plain = *b;
            put_u32(&mut plain, 8, 0);
            if u64_at(b, 0) != MAGIC {
                return Err(corrupt(
                    "there is no SPFS of this version: its superblock has another magic number",
                ));
            }
            let sb = Superblock {
                clusters: u64_at(b, 16),
                segment: u64::from(u32_at(b, 24)),
                form: if u32_at(b, 28) == 1 { Form::Pointers } else { Form::Carved },
            };
            let sound = sb.segment.is_power_of_two() && sb.segment <= 2048;
            if crc32c::crc32c(&plain) != u32_at(b, 8) || !sound || sb.clusters > pages || sb.clusters < 8 {
                return Err(corrupt("the superblock of SPFS is damaged"));
            }
            Ok(sb)
        })
    }
}

/// Loads a word.
///
/// # Errors
/// The device's.
pub fn word(pm: &Pm, at: u64, what: Structure) -> Result<u64> {
    let mut b = [0; 8];
    pm.load(at, &mut b, what)?;
    Ok(u64::from_le_bytes(b))
}
