//! [`Geometry`]: where each area lies, computed once by mkfs and kept in the superblock.

use crate::layout::bitmap;
use crate::layout::inode::{INODE_SIZE, INODES_PER_BLOCK};
use granary_units::{Lpa, PAGE_SIZE};

/// Where the areas lie; all in 4 KiB blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks in all.
    pub blocks: u64,
    /// Inodes in all; number 0 is never used.
    pub inodes: u64,
    /// The orphan table's block.
    pub orphans: u64,
    /// First block of the inode bitmap.
    pub inode_bitmap: u64,
    /// First block of the block bitmap.
    pub block_bitmap: u64,
    /// First block of the inode table.
    pub inode_table: u64,
    /// First block of the journal area.
    pub journal: u64,
    /// Blocks of the journal area.
    pub journal_blocks: u64,
    /// First block for data and directories.
    pub data: u64,
}

impl Geometry {
    /// Fewest blocks a file system can live in.
    pub const MIN_BLOCKS: u64 = 64;

    /// Fewest blocks of a journal area: what one transaction of the host's redo log needs, twice.
    pub const MIN_JOURNAL: u64 = 16;

    /// Blocks of the journal area where mkfs is not told: 1/128 of the drive, 32 MiB at most.
    pub fn default_journal(blocks: u64) -> u64 {
        (blocks / 128).clamp(Geometry::MIN_JOURNAL, 8192)
    }

    /// Lays out `blocks` blocks with an inode per `inode_ratio` bytes and a journal area of `journal_blocks`. `None`
    /// where that cannot be: too few or too many blocks (addresses have 32 bits), or no room for data.
    pub fn new(blocks: u64, inode_ratio: u64, journal_blocks: u64) -> Option<Geometry> {
        let journal_fits = (Geometry::MIN_JOURNAL..blocks).contains(&journal_blocks);
        if !(Geometry::MIN_BLOCKS..=u32::MAX as u64).contains(&blocks)
            || inode_ratio < INODE_SIZE as u64
            || !journal_fits
        {
            return None;
        }
        let wanted = (blocks * PAGE_SIZE as u64 / inode_ratio).clamp(INODES_PER_BLOCK, u32::MAX as u64 - 31);
        let inodes = wanted.next_multiple_of(INODES_PER_BLOCK);
        let orphans = 1;
        let inode_bitmap = orphans + 1;
        let block_bitmap = inode_bitmap + bitmap::blocks_for(inodes);
        let inode_table = block_bitmap + bitmap::blocks_for(blocks);
        let journal = inode_table + inodes / INODES_PER_BLOCK;
        let data = journal + journal_blocks;
        let geometry = Geometry {
            blocks,
            inodes,
            orphans,
            inode_bitmap,
            block_bitmap,
            inode_table,
            journal,
            journal_blocks,
            data,
        };
        (data < blocks).then_some(geometry)
    }

    /// The block and the byte in it where an inode lies.
    pub fn inode_place(&self, ino: u32) -> (Lpa, usize) {
        let n = ino as u64;
        (Lpa(self.inode_table + n / INODES_PER_BLOCK), (n % INODES_PER_BLOCK) as usize * INODE_SIZE)
    }

    /// Whether `ino` names an inode of the table.
    pub fn has_inode(&self, ino: u64) -> bool {
        (1..self.inodes).contains(&ino)
    }

    /// Whether all of `lba..lba + len` are blocks for data and directories.
    pub fn has_data(&self, lba: u64, len: u64) -> bool {
        lba >= self.data && len <= self.blocks && lba + len <= self.blocks
    }
}
