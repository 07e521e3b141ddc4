//! Units: the kinds of logical blocks of 32 KiB, and the words by which an index names them.
//!
//! ```text
//!   Hole                 nothing: reads as zeros
//!   Append  (A)          up to eight NVM pages; a page that is not there reads as zeros    an A-ELN of 128 B
//!   Block   (S)          a block of the SSD; unwritten: reserved, reads as zeros           no node
//!   Over    (O)          a block of the SSD under slots                                    an O-ELN of 640 B
//!     slot   page | header      0 | empty   the SSD's bytes          n | whole     a plain page
//!                               0 | whole   zeros, without a page    n | chunks    an Upage
//!                               n | empty   the SSD's bytes; the page is kept for the next write (`reclaim =
//!                                           artifact`)
//! ```
//!
//! Source: OrchFS section 3.5 (legacy leaves and extended leaf nodes, A-ELN and O-ELN).

use crate::geometry::PAGES;
use crate::upage::Header;
use granary_fs::Result;
use granary_pm::corrupt;

/// One page of a block that an O-ELN is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// The NVM page; 0: none.
    pub page: u64,
    /// Which bytes of it hide the SSD's.
    pub header: Header,
}

impl Slot {
    /// Zeros without a page.
    pub fn zeros() -> Slot {
        Slot { page: 0, header: Header::whole() }
    }

    /// The SSD's bytes are seen, as if there were no slot.
    pub fn is_clear(&self) -> bool {
        self.page == 0 && self.header.is_empty()
    }

    /// A page that hides all of the SSD's.
    pub fn is_plain(&self) -> bool {
        self.page != 0 && self.header.is_whole()
    }
}

/// A block on the SSD, as a leaf or an O-ELN names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// Its number there.
    pub block: u64,
    /// Nothing has been written to it for this file: it reads as zeros.
    pub unwritten: bool,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Nothing.
    #[default]
    Hole,
    /// NVM pages.
    Append {
        /// Number of the A-ELN.
        eln: u64,
        /// The pages, 0 where there is none.
        pages: [u64; PAGES],
    },
    /// An SSD block.
    Block(Base),
    /// An SSD block under NVM pages.
    Over {
        /// Number of the O-ELN.
        eln: u64,
        /// The SSD block below.
        base: Base,
        /// The slots above it, page by page.
        slots: Box<[Slot; PAGES]>,
    },
}

/// Which area a leaf's number is of.
const NUMBER: u64 = (1 << 48) - 1;
const SHIFT: u32 = 56;

/// Node or block that a word in an index node, or the root in an inode, names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Nothing.
    None,
    /// A block of the SSD.
    Block(Base),
    /// An A-ELN.
    Append(u64),
    /// An O-ELN.
    Over(u64),
    /// An index node.
    Index(u64),
}

impl Word {
    /// As it lies on the NVM: kind in the highest byte, number in the lowest six.
    pub fn encode(self) -> u64 {
        let of = |kind: u64, number: u64| kind << SHIFT | number & NUMBER;
        match self {
            Word::None => 0,
            Word::Block(base) => of(if base.unwritten { 2 } else { 1 }, base.block),
            Word::Append(eln) => of(3, eln),
            Word::Over(eln) => of(4, eln),
            Word::Index(node) => of(5, node),
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// `Corrupt` for a kind that there is not.
    pub fn parse(word: u64) -> Result<Word> {
        let number = word & NUMBER;
        Ok(match word >> 48 {
            0 if number == 0 => Word::None,
            0x100 => Word::Block(Base { block: number, unwritten: false }),
            0x200 => Word::Block(Base { block: number, unwritten: true }),
            0x300 => Word::Append(number),
            0x400 => Word::Over(number),
            0x500 => Word::Index(number),
            _ => return Err(corrupt(format!("an index has the word {word:#x}"))),
        })
    }
}

impl Unit {
    /// The word that names it.
    pub fn word(&self) -> Word {
        match self {
            Unit::Hole => Word::None,
            Unit::Append { eln, .. } => Word::Append(*eln),
            Unit::Block(base) => Word::Block(*base),
            Unit::Over { eln, .. } => Word::Over(*eln),
        }
    }

    /// NVM pages that it has.
    pub fn nvm_pages(&self) -> impl Iterator<Item = u64> + '_ {
        let (pages, slots): (&[u64], &[Slot]) = match self {
            Unit::Append { pages, .. } => (pages, &[]),
            Unit::Over { slots, .. } => (&[], &slots[..]),
            _ => (&[], &[]),
        };
        pages.iter().copied().chain(slots.iter().map(|slot| slot.page)).filter(|page| *page != 0)
    }

    /// The SSD block that it has.
    pub fn base(&self) -> Option<Base> {
        match self {
            Unit::Block(base) | Unit::Over { base, .. } => Some(*base),
            _ => None,
        }
    }

    /// Whether it has bytes for a page, so that what lies there beyond a file's end may be anything.
    pub fn has_page(&self, page: usize) -> bool {
        match self {
            Unit::Hole => false,
            Unit::Append { pages, .. } => pages[page] != 0,
            Unit::Block(base) => !base.unwritten,
            Unit::Over { base, slots, .. } => {
                slots[page].page != 0 || slots[page].is_clear() && !base.unwritten
            }
        }
    }

    /// Pages of 4 KiB that it takes, of either device.
    pub fn space(&self) -> u64 {
        self.nvm_pages().count() as u64 + self.base().map_or(0, |_| PAGES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_and_others_are_refused() {
        let base = |unwritten| Word::Block(Base { block: 77, unwritten });
        for word in [Word::None, base(false), base(true), Word::Append(1), Word::Over(NUMBER), Word::Index(3)]
        {
            assert_eq!(Word::parse(word.encode()), Ok(word));
        }
        for bad in [1, 6 << SHIFT, 1 << 50, u64::MAX, 1 << SHIFT | 1 << 48] {
            assert!(Word::parse(bad).is_err(), "{bad:#x}");
        }
    }
}
