//! The write partition: a write becomes I/Os, each on the device that is best for it (OrchFS section 3.4,
//! Algorithm 1).
//!
//! ```text
//!   the block holds    covered as a whole           covered in part, page by page
//!   nothing            SSD, a new block             a new NVM page (the rest of it below the file's end
//!                                                   becomes zero)
//!   A  NVM pages       in place; missing pages are new                                   the same
//!   S  SSD block       SSD, in place                whole page: a new plain page; else a chunk in a new
//!                                                   Upage
//!   O  SSD + pages     SSD, in place; slots clear   plain page: in place; Upage: merged; no page: as for S
//! ```
//!
//! Alignment first: what can be one whole I/O of the SSD goes there, then whole pages to the NVM, then
//! chunks. Least fragments: what can be updated in place never gets a second unit. So a block of appended
//! pages stays on the NVM even when it is covered as a whole; only migration moves it (the published Table 2
//! keeps the SSD's share constant under overwrites). One pass, front to back, constant work for each unit.
//!
//! It does *not* know devices, numbers of free pages, or how anything becomes durable.

use crate::geometry::{PAGE, Part, parts};
use crate::unit::Unit;

/// How a page of the NVM takes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Bytes of a page that is there and hides everything below it: in place.
    InPlace,
    /// A new page that hides everything below it. Its unwritten bytes read as zeros.
    New,
    /// A chunk in the body of an Upage, which is new or there.
    Chunk {
        /// It has no page yet.
        new: bool,
        /// Its header has no entry left: the gaps are read from the SSD into the body first, and it becomes a
        /// plain page.
        full: bool,
    },
}

/// One I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A block of the SSD as a whole.
    Ssd {
        /// A new one; else the block that is there, in place.
        new: bool,
    },
    /// Bytes of one page on the NVM.
    Nvm {
        /// The page of the block.
        page: usize,
        /// First byte of the page.
        from: u16,
        /// Byte behind the last.
        to: u16,
        /// How.
        touch: Touch,
    },
}

/// The I/Os for a part of one block.
pub fn plan_block(unit: &Unit, part: Part) -> Vec<Piece> {
    let touch_all = |touch: &dyn Fn(usize, u16, u16) -> Touch| {
        part.pages()
            .map(|(page, from, to)| Piece::Nvm { page, from, to, touch: touch(page, from, to) })
            .collect()
    };
    match unit {
        Unit::Hole if part.is_whole() => vec![Piece::Ssd { new: true }],
        Unit::Hole => touch_all(&|_, _, _| Touch::New),
        Unit::Append { pages, .. } => {
            touch_all(&|page, _, _| if pages[page] == 0 { Touch::New } else { Touch::InPlace })
        }
        Unit::Block(_) | Unit::Over { .. } if part.is_whole() => vec![Piece::Ssd { new: false }],
        Unit::Block(_) => touch_all(&|_, from, to| fresh(from, to)),
        Unit::Over { slots, .. } => touch_all(&|page, from, to| {
            let slot = &slots[page];
            match (slot.page != 0, slot.header.is_whole()) {
                (true, true) => Touch::InPlace,
                // Zeros without a page: whatever is not written stays zero.
                (false, true) => Touch::New,
                (true, false) if is_page(from, to) => Touch::InPlace,
                (true, false) => Touch::Chunk { new: false, full: slot.header.with(from, to).is_none() },
                (false, false) => fresh(from, to),
            }
        }),
    }
}

fn is_page(from: u16, to: u16) -> bool {
    from == 0 && u64::from(to) == PAGE
}

/// The first bytes of a page over an SSD block.
fn fresh(from: u16, to: u16) -> Touch {
    if is_page(from, to) { Touch::New } else { Touch::Chunk { new: true, full: false } }
}

/// The I/Os of a write of `len` bytes at `pos`, where `unit` tells what each block holds: the blocks that it
/// touches in order, each with its part and its I/Os.
pub fn plan<'a>(pos: u64, len: u64, unit: impl Fn(u64) -> &'a Unit) -> Vec<(Part, Vec<Piece>)> {
    parts(pos, len).map(|part| (part, plan_block(unit(part.block), part))).collect()
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
