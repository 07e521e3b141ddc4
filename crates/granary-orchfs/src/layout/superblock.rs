//! The superblock: the shape of the file system. It never changes after mkfs.
//!
//! ```text
//!   0 "OrchFSv2" 8 | 8 era 8 | 16 NVM pages of the device 8 | 24 SSD blocks 8 | 32 journals 8
//!   40 bytes of each 8 | 48 inodes 8 | 56 index nodes 8 | 64 A-ELNs 8 | 72 O-ELNs 8 | 80 NVM pages 8
//!   88 CRC-32C of all before 4
//! ```

use crate::layout::Layout;
use granary_fs::Result;
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::corrupt;
use granary_units::PAGE_SIZE;

/// Bytes that are written.
pub const SIZE: usize = 128;
const MAGIC: u64 = u64::from_le_bytes(*b"OrchFSv2");
const CRC: usize = 88;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    /// Tells the file systems that were made on one device apart: groups of an older one's journals do not
    /// count.
    pub era: u64,
    /// Pages of the NVM device.
    pub device: u64,
    /// Blocks of the SSD.
    pub blocks: u64,
    /// Number of journals.
    pub journals: u64,
    /// Bytes of each.
    pub journal: u64,
    /// Inodes, number 0 (never used) included, as in the counts below.
    pub inodes: u64,
    /// Index nodes.
    pub index: u64,
    /// A-ELNs.
    pub appends: u64,
    /// O-ELNs.
    pub overs: u64,
    /// NVM pages.
    pub pages: u64,
}

/// Most journals.
pub const MOST_JOURNALS: u64 = 64;
/// Shortest journal: two groups of the largest size.
pub const SHORTEST_JOURNAL: u64 = 2 * crate::record::LARGEST_GROUP as u64;

impl Superblock {
    fn words(&self) -> [u64; 10] {
        [
            self.era,
            self.device,
            self.blocks,
            self.journals,
            self.journal,
            self.inodes,
            self.index,
            self.appends,
            self.overs,
            self.pages,
        ]
    }

    /// As it lies on the NVM.
    pub fn bytes(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        put_u64(&mut b, 0, MAGIC);
        self.words().iter().enumerate().for_each(|(i, word)| put_u64(&mut b, 8 + 8 * i, *word));
        let crc = crc32c::crc32c(&b[..CRC]);
        put_u32(&mut b, CRC, crc);
        b
    }

    /// Reads one.
    ///
    /// # Errors
    /// `Corrupt` where there is none, or it describes what cannot be.
    pub fn parse(b: &[u8; SIZE]) -> Result<Superblock> {
        if u64_at(b, 0) != MAGIC {
            return Err(corrupt("there is no OrchFS: no superblock"));
        }
        if u32_at(b, CRC) != crc32c::crc32c(&b[..CRC]) {
            return Err(corrupt("the superblock's checksum is wrong"));
        }
        let word = |i: usize| u64_at(b, 8 + 8 * i);
        let sb = Superblock {
            era: word(0),
            device: word(1),
            blocks: word(2),
            journals: word(3),
            journal: word(4),
            inodes: word(5),
            index: word(6),
            appends: word(7),
            overs: word(8),
            pages: word(9),
        };
        let small = sb.words()[1..].iter().all(|word| *word < 1 << 40);
        let sane = small
            && (1..=MOST_JOURNALS).contains(&sb.journals)
            && sb.journal >= SHORTEST_JOURNAL
            && sb.journal.is_multiple_of(PAGE_SIZE as u64)
            && sb.inodes > 1
            && Layout::of(&sb).end() + PAGE_SIZE as u64 <= sb.device * PAGE_SIZE as u64;
        if sane {
            Ok(sb)
        } else {
            Err(corrupt(format!("the superblock describes an impossible shape: {sb:?}")))
        }
    }
}
