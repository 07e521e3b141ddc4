//! [`RamMedium`]: flash in memory, as sparse as its content.
//!
//! ```text
//!   chunks[c] ---> [Slot; 2048 or more]    whole blocks; nothing allocated while all of them are erased
//!                  Slot = Page (16 B handle) + Oob (16 B)  = 32 B, half a cache line
//! ```
//!
//! Memory: 10 B for each block, 32 B for each page of a chunk in use, and for each page that is no repeated word 64 B for each
//! of its lines that is not zero (4 KiB where those are many), until the FTL calls it stale ([`Medium::forget`]) or its block
//! is erased. So memory follows the live data, not the capacity nor the amount ever written. Chunks rather
//! than blocks, so that a random read waits for one cache miss, the slot's: the table of chunks is small.

use super::{BlockHeader, BlockNo, Medium, Oob};
use granary_units::{Page, prefetch};
use std::io;

/// Stale pages whose content is dropped together. One at a time, each would wait for its own cache miss.
const STALE: usize = 128;
/// Pages of a chunk, at least.
const CHUNK: u32 = 2048;

#[derive(Clone, Debug)]
struct Slot {
    page: Page,
    oob: Oob,
}

const EMPTY: Slot = Slot { page: Page::ZERO, oob: Oob { seq: 0, lpa: Oob::NO_LPA } };

#[derive(Clone, Debug, Default)]
struct Wear {
    erases: u32,
    bad: bool,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    slots: Vec<Slot>,
    /// Blocks that are not erased.
    used: u32,
}

/// Flash pages in memory.
#[derive(Clone, Debug)]
pub struct RamMedium {
    pages_per_block: u32,
    /// A chunk holds two to this power blocks.
    chunk_shift: u32,
    chunks: Vec<Chunk>,
    programmed: Vec<u16>,
    wear: Vec<Wear>,
    /// Stale pages that still hold their content; none of them in an erased block.
    stale: Vec<(u32, u32)>,
}

impl RamMedium {
    /// `blocks` erased blocks of `pages_per_block` pages (1 to 32767).
    pub fn new(blocks: u32, pages_per_block: u32) -> RamMedium {
        let chunk_shift = CHUNK.div_ceil(pages_per_block).next_power_of_two().ilog2();
        RamMedium {
            pages_per_block,
            chunk_shift,
            chunks: vec![Chunk::default(); blocks.div_ceil(1 << chunk_shift) as usize],
            programmed: vec![0; blocks as usize],
            wear: vec![Wear::default(); blocks as usize],
            stale: Vec::with_capacity(STALE),
        }
    }

    /// Erased blocks are added, up to `blocks` in all.
    pub fn grow(&mut self, blocks: u32) {
        self.chunks.resize(blocks.div_ceil(1 << self.chunk_shift) as usize, Chunk::default());
        self.programmed.resize(blocks as usize, 0);
        self.wear.resize(blocks as usize, Wear::default());
    }

    fn drop_stale(&mut self) {
        let mut stale = std::mem::take(&mut self.stale);
        for (block, page) in stale.drain(..) {
            let slot = self.slot_mut(BlockNo(block), page);
            if !slot.page.is_word() {
                slot.page = Page::ZERO;
            }
        }
        self.stale = stale;
    }

    /// Chunk of a block, and place of a page in it.
    #[inline]
    fn place(&self, block: BlockNo, page: u32) -> (usize, usize) {
        let within = block.0 & ((1 << self.chunk_shift) - 1);
        ((block.0 >> self.chunk_shift) as usize, (within * self.pages_per_block + page) as usize)
    }

    #[inline]
    fn slot(&self, block: BlockNo, page: u32) -> &Slot {
        let (chunk, slot) = self.place(block, page);
        &self.chunks[chunk].slots[slot]
    }

    #[inline]
    fn slot_mut(&mut self, block: BlockNo, page: u32) -> &mut Slot {
        let (chunk, slot) = self.place(block, page);
        &mut self.chunks[chunk].slots[slot]
    }

    /// The first page of a block is programmed.
    fn begin_block(&mut self, block: BlockNo) {
        let (chunk, _) = self.place(block, 0);
        let chunk = &mut self.chunks[chunk];
        chunk.used += 1;
        if chunk.slots.is_empty() {
            chunk.slots = vec![EMPTY; (self.pages_per_block as usize) << self.chunk_shift];
        }
    }
}

impl Medium for RamMedium {
    fn shape(&self) -> (u32, u32) {
        (self.programmed.len() as u32, self.pages_per_block)
    }

    fn header(&self, block: BlockNo) -> io::Result<BlockHeader> {
        let Wear { erases, bad } = self.wear[block.0 as usize];
        Ok(BlockHeader { programmed: self.programmed[block.0 as usize] as u32, erases, bad })
    }

    #[inline]
    fn read(&self, block: BlockNo, page: u32) -> io::Result<(Page, Oob)> {
        let slot = self.slot(block, page);
        Ok((slot.page.clone(), slot.oob))
    }

    #[inline]
    fn prefetch_oob(&self, block: BlockNo, page: u32, n: u32) {
        let (chunk, first) = self.place(block, page);
        // Two of them in a cache line.
        (first..first + n as usize).step_by(2).for_each(|slot| prefetch(&self.chunks[chunk].slots, slot));
    }

    #[inline]
    fn oob(&self, block: BlockNo, page: u32) -> io::Result<Oob> {
        Ok(self.slot(block, page).oob)
    }

    #[inline]
    fn program(&mut self, block: BlockNo, page: u32, content: &Page, oob: Oob) -> io::Result<()> {
        let programmed = &mut self.programmed[block.0 as usize];
        assert_eq!(*programmed as u32, page, "pages of a block are programmed in order");
        *programmed += 1;
        if page == 0 {
            self.begin_block(block);
        }
        *self.slot_mut(block, page) = Slot { page: content.packed(Page::FEW_LINES), oob };
        Ok(())
    }

    fn erase(&mut self, block: BlockNo) -> io::Result<()> {
        self.drop_stale();
        self.wear[block.0 as usize].erases += 1;
        let n = std::mem::take(&mut self.programmed[block.0 as usize]) as usize;
        let (chunk, first) = self.place(block, 0);
        let chunk = &mut self.chunks[chunk];
        chunk.used -= (n > 0) as u32;
        if chunk.used == 0 {
            chunk.slots = Vec::new();
        } else {
            for slot in chunk.slots[first..first + n].iter_mut().filter(|s| !s.page.is_word()) {
                slot.page = Page::ZERO;
            }
        }
        Ok(())
    }

    fn mark_bad(&mut self, block: BlockNo) -> io::Result<()> {
        self.wear[block.0 as usize].bad = true;
        Ok(())
    }

    fn replace(&mut self, block: BlockNo, page: u32, content: &Page) -> io::Result<()> {
        self.drop_stale();
        self.slot_mut(block, page).page = content.packed(Page::FEW_LINES);
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
        assert_eq!(medium.chunks[0].slots.capacity(), 0, "erased blocks hold nothing");
        let header = BlockHeader { programmed: 0, erases: 1, bad: false };
        assert_eq!(medium.header(BlockNo(1)).expect("header"), header);
    }
}
