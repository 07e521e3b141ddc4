//! [`NoData`]: flash that keeps the data that the FTL works with, and no content.
//!
//! ```text
//!   lpas[ppa]     lpa + 1 of a programmed page (0: failed program)      4 B per flash page, untouched = no
//!                                                                       memory
//!   live          1 bit per flash page: not called stale yet
//!   blocks[b]     programmed, erases, bad, sequence numbers of its first and last page     24 B per block
//! ```
//!
//! For raw drive benches of large drives: 4.1 bytes for each page where [`RamMedium`](super::RamMedium)
//! needs 32. Every page reads as zeros.
//!
//! Sequence numbers are kept for each block only. A live page reports its block's last number, a stale one
//! its block's first. So the current copy of a logical page has the highest number of all copies, as on real
//! media, and a power-up scan finds the same map. (Pages trimmed before the scan come back with undefined
//! content in any case.)
//!
//! It does *not* keep content: a host's data cannot be read back, and a record of such a run must say so.

use super::{BlockHeader, BlockNo, Medium, Oob};
use crate::ftl::LiveMap;
use granary_units::{Page, large_pages, prefetch};
use std::io;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    first: u64,
    last: u64,
    programmed: u16,
    bad: bool,
    erases: u32,
}

/// Flash pages without content.
#[derive(Clone, Debug)]
pub struct NoData {
    pages_per_block: u32,
    lpas: Vec<u32>,
    live: LiveMap,
    blocks: Vec<Block>,
    /// Stale pages whose bits are still set; none of them in an erased block.
    stale: Vec<u32>,
}

/// Stale pages whose bits are cleared together. One at a time, each would wait for its own cache miss.
const STALE: usize = 128;

impl NoData {
    /// `blocks` erased blocks of `pages_per_block` pages (at most 32767).
    pub fn new(blocks: u32, pages_per_block: u32) -> NoData {
        let pages = blocks as u64 * pages_per_block as u64;
        let lpas = vec![0; pages as usize];
        large_pages(&lpas);
        NoData {
            pages_per_block,
            lpas,
            live: LiveMap::new(pages),
            blocks: vec![Block::default(); blocks as usize],
            stale: Vec::with_capacity(STALE),
        }
    }

    fn clear_stale(&mut self) {
        for ppa in self.stale.drain(..) {
            self.live.clear(ppa);
        }
    }

    #[inline]
    fn ppa(&self, block: BlockNo, page: u32) -> u32 {
        block.0 * self.pages_per_block + page
    }

    #[inline]
    fn oob_of(&self, block: BlockNo, page: u32) -> Oob {
        let ppa = self.ppa(block, page);
        let lpa = self.lpas[ppa as usize].wrapping_sub(1);
        let b = &self.blocks[block.0 as usize];
        let live = self.live.get(ppa) && !self.stale.contains(&ppa);
        Oob { lpa, seq: if live { b.last } else { b.first } }
    }
}

impl Medium for NoData {
    fn shape(&self) -> (u32, u32) {
        (self.blocks.len() as u32, self.pages_per_block)
    }

    fn header(&self, block: BlockNo) -> io::Result<BlockHeader> {
        let b = &self.blocks[block.0 as usize];
        Ok(BlockHeader { programmed: b.programmed as u32, erases: b.erases, bad: b.bad })
    }

    #[inline]
    fn read(&self, block: BlockNo, page: u32) -> io::Result<(Page, Oob)> {
        Ok((Page::ZERO, self.oob_of(block, page)))
    }

    #[inline]
    fn fetch(&self, _block: BlockNo, _page: u32, lpa: u32) -> io::Result<(Page, u32)> {
        // There is no content that could be another page's, and looking would cost a cache miss; `Ftl::check`
        // looks.
        Ok((Page::ZERO, lpa))
    }

    #[inline]
    fn content(&self, block: BlockNo, page: u32) -> io::Result<(Page, u32)> {
        self.lpa(block, page).map(|lpa| (Page::ZERO, lpa))
    }

    #[inline]
    fn lpa(&self, block: BlockNo, page: u32) -> io::Result<u32> {
        // Sequence numbers, which would take a search among the stale pages, are not asked for.
        Ok(self.lpas[self.ppa(block, page) as usize].wrapping_sub(1))
    }

    #[inline]
    fn prefetch_oob(&self, block: BlockNo, page: u32, n: u32) {
        // 16 of them in a cache line.
        let first = self.ppa(block, page) as usize;
        (first..first + n as usize + 15).step_by(16).for_each(|ppa| prefetch(&self.lpas, ppa));
    }

    #[inline]
    fn touch(&self, _block: BlockNo, _page: u32) {}

    #[inline]
    fn oob(&self, block: BlockNo, page: u32) -> io::Result<Oob> {
        Ok(self.oob_of(block, page))
    }

    #[inline]
    fn program(&mut self, block: BlockNo, page: u32, _content: &Page, oob: Oob) -> io::Result<()> {
        let ppa = self.ppa(block, page);
        let b = &mut self.blocks[block.0 as usize];
        assert_eq!(b.programmed as u32, page, "pages of a block are programmed in order");
        if page == 0 {
            b.first = oob.seq;
        }
        b.last = oob.seq;
        b.programmed += 1;
        self.lpas[ppa as usize] = oob.lpa.wrapping_add(1);
        if oob.lpa != Oob::NO_LPA {
            self.live.set(ppa);
        }
        Ok(())
    }

    fn program_block(
        &mut self,
        block: BlockNo,
        first: Oob,
        step: u32,
        _content: impl FnMut(u32) -> Page,
    ) -> io::Result<()> {
        let n = self.pages_per_block;
        let from = self.ppa(block, 0);
        let b = &mut self.blocks[block.0 as usize];
        assert_eq!(b.programmed, 0, "only an erased block is programmed as a whole");
        b.first = first.seq;
        b.last = first.seq + (n - 1) as u64 * step as u64;
        b.programmed = n as u16;
        let mut lpa = first.lpa;
        for entry in &mut self.lpas[from as usize..(from + n) as usize] {
            *entry = lpa + 1;
            lpa = lpa.wrapping_add(step);
        }
        self.live.set_range(from, n);
        Ok(())
    }

    fn erase(&mut self, block: BlockNo) -> io::Result<()> {
        self.clear_stale();
        let from = self.ppa(block, 0);
        let b = &mut self.blocks[block.0 as usize];
        b.programmed = 0;
        b.erases += 1;
        self.live.clear_range(from, self.pages_per_block);
        Ok(())
    }

    fn mark_bad(&mut self, block: BlockNo) -> io::Result<()> {
        self.blocks[block.0 as usize].bad = true;
        Ok(())
    }

    fn replace(&mut self, _block: BlockNo, _page: u32, _content: &Page) -> io::Result<()> {
        Ok(())
    }

    #[inline]
    fn forget(&mut self, block: BlockNo, page: u32) {
        if self.stale.len() == STALE {
            self.clear_stale();
        }
        self.stale.push(self.ppa(block, page));
    }

    #[inline]
    fn doomed(&mut self, block: BlockNo, page: u32) {
        self.live.clear(self.ppa(block, page));
    }

    fn sync(&mut self) -> io::Result<()> {
        self.clear_stale();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_copies_the_current_one_is_the_newer() {
        let mut m = NoData::new(3, 4);
        let oob = |lpa, seq| Oob { lpa, seq };
        // Block 0 stays open while block 1 takes a copy of page 7 and block 0 its overwrite.
        m.program(BlockNo(0), 0, &Page::ZERO, oob(7, 1)).expect("program");
        m.program(BlockNo(1), 0, &Page::ZERO, oob(7, 2)).expect("program");
        m.doomed(BlockNo(0), 0);
        m.program(BlockNo(0), 1, &Page::ZERO, oob(7, 3)).expect("program");
        m.forget(BlockNo(1), 0);
        let seq = |b, p| m.oob(BlockNo(b), p).expect("oob").seq;
        assert!(seq(0, 1) > seq(0, 0) && seq(0, 1) > seq(1, 0));
        m.program(BlockNo(2), 0, &Page::ZERO, oob(Oob::NO_LPA, 4)).expect("program");
        assert_eq!(m.oob(BlockNo(2), 0).expect("oob").lpa, Oob::NO_LPA);
        m.erase(BlockNo(0)).expect("erase");
        let header = BlockHeader { programmed: 0, erases: 1, bad: false };
        assert_eq!(m.header(BlockNo(0)).expect("header"), header);
    }
}
