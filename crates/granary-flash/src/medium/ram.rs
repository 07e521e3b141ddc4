//! [`RamMedium`]: flash in memory, as sparse as its content.
//!
//! ```text
//!   blocks[b] ---> Vec<Slot>   len = pages programmed; nothing allocated while erased
//!                  Slot = Page (16 B handle) + Oob (16 B)  = 32 B, half a cache line
//! ```
//!
//! Memory: 40 B for each block, 32 B for each programmed page, and 4 KiB for each page that is no repeated word,
//! until the FTL calls it stale ([`Medium::forget`]) or its block is erased. So memory follows the live data, not the
//! capacity nor the amount ever written.

use super::{BlockHeader, BlockNo, Medium, Oob};
use granary_units::Page;
use std::io;

/// Stale pages whose content is dropped together. One at a time, each would wait for its own cache miss.
const STALE: usize = 128;
/// Freed page vectors kept for the next block to be programmed.
const SPARE: usize = 64;

#[derive(Clone, Debug)]
struct Slot {
    page: Page,
    oob: Oob,
}

#[derive(Clone, Debug, Default)]
struct Wear {
    erases: u32,
    bad: bool,
}

/// Flash pages in memory.
#[derive(Clone, Debug)]
pub struct RamMedium {
    pages_per_block: u32,
    blocks: Vec<Vec<Slot>>,
    wear: Vec<Wear>,
    spare: Vec<Vec<Slot>>,
    /// Stale pages that still hold their content; none of them in an erased block.
    stale: Vec<(u32, u32)>,
}

impl RamMedium {
    /// `blocks` erased blocks of `pages_per_block` pages.
    pub fn new(blocks: u32, pages_per_block: u32) -> RamMedium {
        RamMedium {
            pages_per_block,
            blocks: vec![Vec::new(); blocks as usize],
            wear: vec![Wear::default(); blocks as usize],
            spare: Vec::new(),
            stale: Vec::with_capacity(STALE),
        }
    }

    fn drop_stale(&mut self) {
        for (block, page) in self.stale.drain(..) {
            let slot = &mut self.blocks[block as usize][page as usize];
            if !slot.page.is_word() {
                slot.page = Page::ZERO;
            }
        }
    }

    fn slot(&self, block: BlockNo, page: u32) -> &Slot {
        &self.blocks[block.0 as usize][page as usize]
    }
}

impl Medium for RamMedium {
    fn shape(&self) -> (u32, u32) {
        (self.blocks.len() as u32, self.pages_per_block)
    }

    fn header(&self, block: BlockNo) -> io::Result<BlockHeader> {
        let Wear { erases, bad } = self.wear[block.0 as usize];
        Ok(BlockHeader { programmed: self.blocks[block.0 as usize].len() as u32, erases, bad })
    }

    #[inline]
    fn read(&self, block: BlockNo, page: u32) -> io::Result<(Page, Oob)> {
        let slot = self.slot(block, page);
        Ok((slot.page.clone(), slot.oob))
    }

    #[inline]
    fn oob(&self, block: BlockNo, page: u32) -> io::Result<Oob> {
        Ok(self.slot(block, page).oob)
    }

    #[inline]
    fn program(&mut self, block: BlockNo, page: u32, content: &Page, oob: Oob) -> io::Result<()> {
        let slots = &mut self.blocks[block.0 as usize];
        assert_eq!(slots.len(), page as usize, "pages of a block are programmed in order");
        if slots.capacity() == 0 {
            *slots = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.pages_per_block as usize));
        }
        slots.push(Slot { page: content.clone(), oob });
        Ok(())
    }

    fn erase(&mut self, block: BlockNo) -> io::Result<()> {
        self.drop_stale();
        let mut slots = std::mem::take(&mut self.blocks[block.0 as usize]);
        self.wear[block.0 as usize].erases += 1;
        if self.spare.len() < SPARE && slots.capacity() > 0 {
            slots.clear();
            self.spare.push(slots);
        }
        Ok(())
    }

    fn mark_bad(&mut self, block: BlockNo) -> io::Result<()> {
        self.wear[block.0 as usize].bad = true;
        Ok(())
    }

    fn replace(&mut self, block: BlockNo, page: u32, content: &Page) -> io::Result<()> {
        self.drop_stale();
        self.blocks[block.0 as usize][page as usize].page = content.clone();
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.drop_stale();
        Ok(())
    }

    #[inline]
    fn forget(&mut self, block: BlockNo, page: u32) {
        if self.stale.len() == STALE {
            self.drop_stale();
        }
        self.stale.push((block.0, page));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory follows the live data: content is dropped when it is stale and at an erase, its OOB stays until then.
    #[test]
    fn stale_content_takes_no_memory() {
        let mut medium = RamMedium::new(2, 4);
        let mut bytes = [0; Page::SIZE];
        bytes[9] = 1;
        let content = Page::from_bytes(&bytes);
        let oob = |lpa| Oob { seq: lpa as u64 + 1, lpa };
        for page in 0..4 {
            medium.program(BlockNo(1), page, &content, oob(page)).expect("program");
        }
        medium.forget(BlockNo(1), 2);
        medium.sync().expect("sync");
        assert_eq!(medium.read(BlockNo(1), 1).expect("read"), (content, oob(1)));
        assert_eq!(medium.read(BlockNo(1), 2).expect("read"), (Page::ZERO, oob(2)));
        assert_eq!(medium.header(BlockNo(1)).expect("header").programmed, 4);

        medium.forget(BlockNo(1), 3);
        medium.erase(BlockNo(1)).expect("erase");
        assert_eq!(medium.blocks[1].capacity(), 0, "an erased block holds nothing");
        let header = BlockHeader { programmed: 0, erases: 1, bad: false };
        assert_eq!(medium.header(BlockNo(1)).expect("header"), header);
    }
}
