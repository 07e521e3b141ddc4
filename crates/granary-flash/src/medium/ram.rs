//! [`RamMedium`]: flash in memory, as sparse as its content.
//!
//! ```text
//!   chunks[c] ---> [Slot; 2048 or so]      whole blocks; nothing allocated while all of them are erased
//!                  Slot = Page (16 B handle) + Oob (16 B)  = 32 B, half a cache line
//!   rows[b]   { lpa, seq, step }          a block that preconditioning filled, where its chunk has no slots:
//!                                         page i holds
//!                                         logical page n = lpa + i * step, with sequence number seq + i *
//!                                         step and the word n
//! ```
//!
//! Memory: 10 B for each block and 32 B for each page of a chunk in use. A page that is no repeated word
//! takes 64 B more for each of its lines that is not zero (4 KiB where those are many), until the FTL calls
//! it stale ([`Medium::forget`]) or its block is erased. So memory follows the live data, not the capacity
//! nor the amount ever written. Chunks rather than blocks, so that a random read waits for one cache miss,
//! the slot's: the table of chunks is small.
//!
//! A drive that was filled at once takes 16 B for each block, not 32 B for each page, until its blocks are
//! written: a chunk gets its slots when one of its pages changes.
//!
//! Copies of a medium ([`RamMedium::share`]) have the slots of a chunk in common until one of them changes
//! it.

use super::{BlockHeader, BlockNo, Medium, Oob};
use granary_units::{Page, prefetch};
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Stale pages whose content is dropped together. One at a time, each would wait for its own cache miss.
const STALE: usize = 128;
/// Pages of a chunk, at least, of a large drive.
const CHUNK: u32 = 2048;
/// And of a small one, so that a copy of it that changes a few pages copies few: a drive of 64 MiB has 128
/// chunks.
const SMALL_CHUNK: u32 = 128;
/// Pages of a drive from which on it is a large one.
const LARGE: u64 = 128 << 10;

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

/// The slots of a chunk: its own, or in common with copies of the medium.
#[derive(Clone, Debug)]
enum Slots {
    Own(Vec<Slot>),
    Shared(Arc<Vec<Slot>>),
}

impl Default for Slots {
    fn default() -> Slots {
        Slots::Own(Vec::new())
    }
}

impl Deref for Slots {
    type Target = [Slot];

    #[inline]
    fn deref(&self) -> &[Slot] {
        match self {
            Slots::Own(slots) => slots,
            Slots::Shared(slots) => slots,
        }
    }
}

impl DerefMut for Slots {
    /// Its own from now on.
    #[inline]
    fn deref_mut(&mut self) -> &mut [Slot] {
        if let Slots::Shared(_) = self {
            self.split();
        }
        match self {
            Slots::Own(slots) => slots,
            Slots::Shared(_) => unreachable!("it was split"),
        }
    }
}

impl Slots {
    #[cold]
    fn split(&mut self) {
        if let Slots::Shared(slots) = std::mem::take(self) {
            *self = Slots::Own(Arc::unwrap_or_clone(slots));
        }
    }

    fn share(&mut self) {
        if let Slots::Own(slots) = self
            && !slots.is_empty()
        {
            *self = Slots::Shared(Arc::new(std::mem::take(slots)));
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    slots: Slots,
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
    /// Of each block what it was filled with; empty where none was filled. It counts where a chunk has no
    /// slots: then each of its programmed blocks is as filled.
    rows: Vec<Row>,
    /// Stale pages that still hold their content; none of them in an erased block.
    stale: Vec<(u32, u32)>,
}

/// A block whose pages hold the words of their own numbers: those of its first page, and what each page adds.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    seq: u64,
    lpa: u32,
    step: u32,
}

impl Row {
    #[inline]
    fn oob(self, page: u32) -> Oob {
        Oob {
            seq: self.seq + page as u64 * self.step as u64,
            lpa: self.lpa.wrapping_add(page.wrapping_mul(self.step)),
        }
    }

    #[inline]
    fn slot(self, page: u32) -> Slot {
        let oob = self.oob(page);
        Slot { page: Page::word(oob.lpa as u64), oob }
    }
}

impl RamMedium {
    /// `blocks` erased blocks of `pages_per_block` pages (1 to 32767).
    pub fn new(blocks: u32, pages_per_block: u32) -> RamMedium {
        let is_large = blocks as u64 * pages_per_block as u64 >= LARGE;
        let chunk = if is_large { CHUNK } else { SMALL_CHUNK };
        let chunk_shift = chunk.div_ceil(pages_per_block).next_power_of_two().ilog2();
        RamMedium {
            pages_per_block,
            chunk_shift,
            chunks: vec![Chunk::default(); blocks.div_ceil(1 << chunk_shift) as usize],
            programmed: vec![0; blocks as usize],
            wear: vec![Wear::default(); blocks as usize],
            rows: Vec::new(),
            stale: Vec::with_capacity(STALE),
        }
    }

    /// Erased blocks are added, up to `blocks` in all.
    pub fn grow(&mut self, blocks: u32) {
        self.chunks.resize(blocks.div_ceil(1 << self.chunk_shift) as usize, Chunk::default());
        self.programmed.resize(blocks as usize, 0);
        self.wear.resize(blocks as usize, Wear::default());
        if !self.rows.is_empty() {
            self.rows.resize(blocks as usize, Row::default());
        }
    }

    /// A clone from now on costs the tables of blocks, not the pages: these are in common until one of the
    /// two changes a chunk.
    pub fn share(&mut self) {
        self.chunks.iter_mut().for_each(|chunk| chunk.slots.share());
    }

    fn drop_stale(&mut self) {
        let mut stale = std::mem::take(&mut self.stale);
        for (block, page) in stale.drain(..) {
            let (chunk, slot) = self.place(BlockNo(block), page);
            // A block as it was filled holds words only.
            let slots = &mut self.chunks[chunk].slots;
            if slots.get(slot).is_some_and(|slot| !slot.page.is_word()) {
                slots[slot].page = Page::ZERO;
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

    /// The slot of a page; none where its chunk has none, and then [`RamMedium::row`] says what the page
    /// holds.
    #[inline]
    fn slot(&self, block: BlockNo, page: u32) -> Option<&Slot> {
        let (chunk, slot) = self.place(block, page);
        self.chunks[chunk].slots.get(slot)
    }

    #[inline]
    fn slot_mut(&mut self, block: BlockNo, page: u32) -> &mut Slot {
        let (chunk, slot) = self.place(block, page);
        &mut self.chunks[chunk].slots[slot]
    }

    /// The row of a block whose chunk has no slots.
    #[cold]
    fn row(&self, block: BlockNo) -> Row {
        self.rows[block.0 as usize]
    }

    /// The first page of a block is programmed.
    fn begin_block(&mut self, block: BlockNo) {
        let (chunk, _) = self.place(block, 0);
        self.open_chunk(chunk);
        self.chunks[chunk].used += 1;
    }

    /// Gives a chunk its slots, with what its blocks were filled with.
    fn open_chunk(&mut self, chunk: usize) {
        if !self.chunks[chunk].slots.is_empty() {
            return;
        }
        let (n, first) = (self.pages_per_block as usize, (chunk as u32) << self.chunk_shift);
        let mut slots = vec![EMPTY; n << self.chunk_shift];
        if self.chunks[chunk].used > 0 {
            for (slots, b) in slots.chunks_exact_mut(n).zip(first..) {
                if self.programmed.get(b as usize).is_some_and(|&p| p > 0) {
                    let row = self.rows[b as usize];
                    slots.iter_mut().zip(0..).for_each(|(slot, page)| *slot = row.slot(page));
                }
            }
        }
        self.chunks[chunk].slots = Slots::Own(slots);
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
        Ok(match self.slot(block, page) {
            Some(slot) => (slot.page.clone(), slot.oob),
            None => {
                let slot = self.row(block).slot(page);
                (slot.page, slot.oob)
            }
        })
    }

    #[inline]
    fn prefetch_oob(&self, block: BlockNo, page: u32, n: u32) {
        let (chunk, first) = self.place(block, page);
        // Two of them in a cache line.
        (first..first + n as usize).step_by(2).for_each(|slot| prefetch(&self.chunks[chunk].slots, slot));
    }

    #[inline]
    fn oob(&self, block: BlockNo, page: u32) -> io::Result<Oob> {
        Ok(match self.slot(block, page) {
            Some(slot) => slot.oob,
            None => self.row(block).oob(page),
        })
    }

    #[inline]
    fn program(&mut self, block: BlockNo, page: u32, content: &Page, oob: Oob) -> io::Result<()> {
        let programmed = self.programmed[block.0 as usize];
        assert_eq!(programmed as u32, page, "pages of a block are programmed in order");
        if page == 0 {
            self.begin_block(block);
        }
        self.programmed[block.0 as usize] = programmed + 1;
        *self.slot_mut(block, page) = Slot { page: content.packed(Page::FEW_LINES), oob };
        Ok(())
    }

    fn program_block(
        &mut self,
        block: BlockNo,
        first: Oob,
        step: u32,
        mut content: impl FnMut(u32) -> Page,
    ) -> io::Result<()> {
        assert_eq!(self.programmed[block.0 as usize], 0, "only an erased block is programmed as a whole");
        let (chunk, row) = (self.place(block, 0).0, Row { seq: first.seq, lpa: first.lpa, step });
        // As many pages hold the word of their own number.
        let (mut own, mut other) = (0, None);
        while own < self.pages_per_block && other.is_none() {
            let page = content(row.oob(own).lpa);
            match page == row.slot(own).page {
                true => own += 1,
                false => other = Some(page),
            }
        }
        if other.is_none() && self.chunks[chunk].slots.is_empty() {
            self.rows.resize(self.programmed.len(), Row::default());
            self.rows[block.0 as usize] = row;
            self.programmed[block.0 as usize] = self.pages_per_block as u16;
            self.chunks[chunk].used += 1;
            return Ok(());
        }
        for page in 0..self.pages_per_block {
            let Slot { page: word, oob } = row.slot(page);
            let page_content = match page < own {
                true => word,
                false => other.take().unwrap_or_else(|| content(oob.lpa)),
            };
            self.program(block, page, &page_content, oob)?;
        }
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
            chunk.slots = Slots::default();
        } else if !chunk.slots.is_empty() {
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
        self.open_chunk(self.place(block, 0).0);
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
mod tests;
