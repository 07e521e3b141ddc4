//! [`Geometry`]: where each area lies, computed by mkfs and by every growth, and kept in the superblock.
//!
//! ```text
//!   0            1         2..                                                   data   blocks - 1
//!   | superblock | orphans | inode bitmap | block bitmap | inode table | journal | data | copy |
//!   | inode bitmap | block bitmap | inode table | data ...                              | copy |   segment 1
//!   | ...                                                                                          segment 2
//! ```
//!
//! A growth appends a *segment*. Bitmaps and the inode table go on in it, counted in whole blocks of them:
//! the bits that the last bitmap block had beyond the end are used first. So nothing that exists moves. The
//! last block of each part is a copy of the superblock.
//!
//! Segments are only added, and read without a lock.

use crate::journal::Bitmap;
use crate::layout::bitmap;
use crate::layout::inode::{INODE_SIZE, INODES_PER_BLOCK};
use granary_units::{Lpa, PAGE_SIZE};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often a file system can grow.
pub const MAX_SEGMENTS: usize = 31;

/// Areas that one growth has added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First block: the first of its inode bitmap.
    pub start: u64,
    /// The block behind the last.
    pub end: u64,
    /// First inode of its table.
    pub first_inode: u64,
    /// Inodes in all, with it.
    pub inodes: u64,
    /// First block of its block bitmap.
    pub block_bitmap: u64,
    /// First block of its inode table.
    pub inode_table: u64,
    /// First block for data.
    pub data: u64,
}

impl Segment {
    /// From block `start` up to `end`, with inodes `first_inode` up to `inodes`, both multiples of 32.
    pub fn new(start: u64, end: u64, first_inode: u64, inodes: u64) -> Segment {
        let more = |from: u64, to: u64| bitmap::blocks_for(to).saturating_sub(bitmap::blocks_for(from));
        let block_bitmap = start + more(first_inode, inodes);
        let inode_table = block_bitmap + more(start, end);
        let data = inode_table + inodes.saturating_sub(first_inode) / INODES_PER_BLOCK;
        Segment { start, end, first_inode, inodes, block_bitmap, inode_table, data }
    }

    /// The block of its copy of the superblock.
    pub fn copy(&self) -> u64 {
        self.end - 1
    }

    /// Blocks that hold its bitmaps and its inode table.
    pub fn fixed(&self) -> Range<u64> {
        self.start..self.data
    }
}

/// Where the areas lie; all in 4 KiB blocks.
#[derive(Debug)]
pub struct Geometry {
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
    /// Blocks as mkfs made them.
    pub first_blocks: u64,
    /// Inodes as mkfs made them.
    pub first_inodes: u64,
    segments: [OnceLock<Segment>; MAX_SEGMENTS],
    count: AtomicUsize,
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

    /// Lays out `blocks` blocks with an inode per `inode_ratio` bytes and a journal area of `journal_blocks`.
    /// `None` where that cannot be: too few or too many blocks (addresses have 32 bits), or no room for data.
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
        let areas = Geometry::areas(blocks, inodes, journal_blocks);
        // One block for the root directory, one for the superblock's copy.
        (areas[6] + 2 <= blocks).then(|| Geometry::from_areas(areas, blocks, inodes))
    }

    /// From what a superblock says: orphan table, bitmaps, inode table, journal and its blocks, data.
    pub fn from_areas(areas: [u64; 7], blocks: u64, inodes: u64) -> Geometry {
        let [orphans, inode_bitmap, block_bitmap, inode_table, journal, journal_blocks, data] = areas;
        Geometry {
            orphans,
            inode_bitmap,
            block_bitmap,
            inode_table,
            journal,
            journal_blocks,
            data,
            first_blocks: blocks,
            first_inodes: inodes,
            segments: Default::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// Whether the areas that mkfs made lie where it lays them for so many blocks, inodes and blocks of
    /// journal.
    pub fn is_laid_out(&self) -> bool {
        let fits = |n: u64, least: u64| (least..=u32::MAX as u64).contains(&n);
        if !fits(self.first_inodes, INODES_PER_BLOCK)
            || !self.first_inodes.is_multiple_of(INODES_PER_BLOCK)
            || !fits(self.journal_blocks, Geometry::MIN_JOURNAL)
            || !fits(self.first_blocks, Geometry::MIN_BLOCKS)
        {
            return false;
        }
        let areas = Geometry::areas(self.first_blocks, self.first_inodes, self.journal_blocks);
        let own = [
            self.orphans,
            self.inode_bitmap,
            self.block_bitmap,
            self.inode_table,
            self.journal,
            self.journal_blocks,
            self.data,
        ];
        own == areas && self.data + 2 <= self.first_blocks
    }

    /// Where mkfs lays the areas, as [`Geometry::from_areas`] takes them.
    fn areas(blocks: u64, inodes: u64, journal_blocks: u64) -> [u64; 7] {
        let orphans = 1;
        let inode_bitmap = orphans + 1;
        let block_bitmap = inode_bitmap + bitmap::blocks_for(inodes);
        let inode_table = block_bitmap + bitmap::blocks_for(blocks);
        let journal = inode_table + inodes / INODES_PER_BLOCK;
        let data = journal + journal_blocks;
        [orphans, inode_bitmap, block_bitmap, inode_table, journal, journal_blocks, data]
    }

    /// Segments that growths have added, in their order.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments[..self.count.load(Ordering::Acquire)].iter().filter_map(OnceLock::get)
    }

    /// Adds a segment; the caller knows that there is room for one. One growth at a time.
    pub fn add(&self, segment: Segment) {
        let n = self.count.load(Ordering::Acquire);
        let fresh = self.segments[n].set(segment);
        assert!(fresh.is_ok(), "two growths at a time");
        self.count.store(n + 1, Ordering::Release);
    }

    /// The segment that growing to `blocks` blocks would add, with as many inodes to a block as mkfs made.
    /// `None` where there is no room for it: too little more, or too much, or too many growths.
    pub fn next_segment(&self, blocks: u64) -> Option<Segment> {
        let (start, first) = (self.blocks(), self.inodes());
        if blocks <= start || blocks > u32::MAX as u64 || self.segments().count() == MAX_SEGMENTS {
            return None;
        }
        let share = (blocks - start) as u128 * self.first_inodes as u128 / self.first_blocks as u128;
        let more = share as u64 / INODES_PER_BLOCK * INODES_PER_BLOCK;
        let inodes =
            (first + more).min((u32::MAX as u64 - 31) / INODES_PER_BLOCK * INODES_PER_BLOCK).max(first);
        let segment = Segment::new(start, blocks, first, inodes);
        (segment.data < segment.copy()).then_some(segment)
    }

    /// Blocks in all.
    pub fn blocks(&self) -> u64 {
        self.segments().next_back().map_or(self.first_blocks, |s| s.end)
    }

    /// Inodes in all; number 0 is never used.
    pub fn inodes(&self) -> u64 {
        self.segments().next_back().map_or(self.first_inodes, |s| s.inodes)
    }

    /// Blocks for data and directories.
    pub fn data_blocks(&self) -> u64 {
        self.blocks() - self.fixed().map(|r| r.end - r.start).sum::<u64>()
    }

    /// Blocks that are neither data nor directories, ascending: metadata at the front of each part, and
    /// copies of the superblock.
    pub fn fixed(&self) -> impl Iterator<Item = Range<u64>> {
        let copy = |n: u64| n..n + 1;
        let first = [0..self.data, copy(self.first_blocks - 1)];
        first.into_iter().chain(self.segments().flat_map(move |s| [s.fixed(), copy(s.copy())]))
    }

    /// Where the copies of the superblock are.
    pub fn copies(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first_blocks - 1).chain(self.segments().map(Segment::copy))
    }

    /// Whether lines of this block are sealed whatever it holds: bitmaps, inode table, orphan table.
    pub fn is_metadata(&self, lba: u64) -> bool {
        lba < self.data || self.segments().any(|s| s.fixed().contains(&lba))
    }

    /// Blocks that a bitmap takes.
    pub fn bitmap_blocks(&self, which: Bitmap) -> u64 {
        match which {
            Bitmap::Inodes => bitmap::blocks_for(self.inodes()),
            Bitmap::Blocks => bitmap::blocks_for(self.blocks()),
        }
    }

    /// Where block `n` of a bitmap is, and up to which block the ones after it follow.
    pub fn bitmap_block(&self, which: Bitmap, n: u64) -> (u64, u64) {
        let (first, bits) = match which {
            Bitmap::Inodes => (self.inode_bitmap, self.first_inodes),
            Bitmap::Blocks => (self.block_bitmap, self.first_blocks),
        };
        if n < bitmap::blocks_for(bits) {
            return (first + n, first + bitmap::blocks_for(bits));
        }
        for s in self.segments() {
            let (area, from, to) = match which {
                Bitmap::Inodes => (s.start, s.first_inode, s.inodes),
                Bitmap::Blocks => (s.block_bitmap, s.start, s.end),
            };
            let (from, to) = (bitmap::blocks_for(from), bitmap::blocks_for(to));
            if n < to {
                return (area + n - from, area + to - from);
            }
        }
        panic!("{which:?} have no bitmap block {n}")
    }

    /// Where block `n` of the inode table is, with the area that it is in.
    pub fn table_block(&self, n: u64) -> (Lpa, Range<u64>) {
        let count = self.first_inodes / INODES_PER_BLOCK;
        if n < count {
            return (Lpa(self.inode_table + n), self.inode_table..self.inode_table + count);
        }
        let s = self.segments().find(|s| n < s.inodes / INODES_PER_BLOCK);
        let s = s.unwrap_or_else(|| panic!("the inode table has no block {n}"));
        (Lpa(s.inode_table + n - s.first_inode / INODES_PER_BLOCK), s.inode_table..s.data)
    }

    /// The block and the byte in it where an inode lies.
    #[inline]
    pub fn inode_place(&self, ino: u32) -> (Lpa, usize) {
        let n = ino as u64;
        let at = (n % INODES_PER_BLOCK) as usize * INODE_SIZE;
        if n < self.first_inodes {
            return (Lpa(self.inode_table + n / INODES_PER_BLOCK), at);
        }
        (self.table_block(n / INODES_PER_BLOCK).0, at)
    }

    /// Whether `ino` names an inode of the table.
    pub fn has_inode(&self, ino: u64) -> bool {
        (1..self.inodes()).contains(&ino)
    }

    /// Whether all of `lba..lba + len` are blocks for data and directories.
    pub fn has_data(&self, lba: u64, len: u64) -> bool {
        if lba < self.data || len > u32::MAX as u64 {
            return false;
        }
        let end = lba + len;
        end < self.first_blocks || self.segments().any(|s| s.data <= lba && end < s.end)
    }
}
