//! Where everything lies on the NVM, and what names it.
//!
//! ```text
//!   page 0          superblock; its copy in the last page
//!   pages 1, 2      checkpoint slots, written in turns
//!   undo slots      a page for each journal
//!   journals        a ring for each library
//!   inodes          512 B each               index nodes   640 B each
//!   A-ELNs          128 B each               O-ELNs        640 B each
//!   NVM pages       4096 B each: data, directories, blobs; number 0 is never used
//! ```
//!
//! The SSD has nothing but blocks of 32 KiB: block n of it is its pages 8n to 8n + 7. There are no bitmaps:
//! what is free follows from what the inodes reach.
//!
//! Source: OrchFS section 3 ("metadata: NVM only"); sizes of inode, page and block as in the released code.

pub mod checkpoint;
pub mod dentry;
pub mod inode;
pub mod nodes;
pub mod superblock;

use crate::geometry::PAGE;
use superblock::Superblock;

/// An area of things that have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// Inodes.
    Inode,
    /// Nodes of HRtrees.
    Index,
    /// A-ELNs.
    Append,
    /// O-ELNs.
    Over,
    /// Pages of the NVM.
    Page,
    /// Blocks of the SSD.
    Block,
}

impl Area {
    /// All.
    pub const ALL: [Area; 6] = [Area::Inode, Area::Index, Area::Append, Area::Over, Area::Page, Area::Block];

    /// Its name in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Area::Inode => "inode",
            Area::Index => "index node",
            Area::Append => "A-ELN",
            Area::Over => "O-ELN",
            Area::Page => "NVM page",
            Area::Block => "SSD block",
        }
    }

    /// How many are granted to a library by one request (released code: 256 inodes, 1024 nodes of each kind,
    /// 4096 pages, 4096 blocks).
    pub fn grant(self) -> u64 {
        match self {
            Area::Inode => 256,
            Area::Index | Area::Append | Area::Over => 1024,
            Area::Page | Area::Block => 4096,
        }
    }

    /// Bytes that one takes on the NVM; 0 for blocks of the SSD.
    pub fn size(self) -> u64 {
        match self {
            Area::Inode => inode::SIZE as u64,
            Area::Index => nodes::INDEX as u64,
            Area::Append => nodes::APPEND as u64,
            Area::Over => nodes::OVER as u64,
            Area::Page => PAGE,
            Area::Block => 0,
        }
    }
}

/// First byte of each area, and how many numbers it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Byte where the journals begin.
    pub journals: u64,
    areas: [(u64, u64); 5],
    blocks: u64,
}

impl Layout {
    /// The layout that a superblock describes.
    pub fn of(sb: &Superblock) -> Layout {
        let journals = (3 + sb.journals) * PAGE;
        let mut at = journals + sb.journals * sb.journal;
        let counts = [sb.inodes, sb.index, sb.appends, sb.overs, sb.pages];
        let mut areas = [(0, 0); 5];
        for ((place, area), count) in areas.iter_mut().zip(Area::ALL).zip(counts) {
            *place = (at, count);
            at = (at + count * area.size()).next_multiple_of(PAGE);
        }
        Layout { journals, areas, blocks: sb.blocks }
    }

    /// The undo slot of a journal.
    pub fn undo(&self, journal: u64) -> u64 {
        (3 + journal) * PAGE
    }

    /// Byte behind the last area.
    pub fn end(&self) -> u64 {
        let (at, count) = self.areas[4];
        at + count * PAGE
    }

    /// How many there are of something, number 0 included.
    pub fn count(&self, area: Area) -> u64 {
        match area {
            Area::Block => self.blocks,
            area => self.areas[area as usize].1,
        }
    }

    /// Whether something can have this number. Number 0 is only that of a block.
    pub fn has(&self, area: Area, number: u64) -> bool {
        number < self.count(area) && (number > 0 || area == Area::Block)
    }

    /// Where it lies on the NVM.
    pub fn at(&self, area: Area, number: u64) -> u64 {
        self.areas[area as usize].0 + number * area.size()
    }
}
