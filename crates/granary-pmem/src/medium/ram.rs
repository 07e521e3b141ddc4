//! [`RamMedium`]: content in memory, as sparse as it is.
//!
//! ```text
//!   chunks[c] ---> [Page; 2048]    16 B a page; nothing allocated while all of them are zeros
//! ```
//!
//! Memory: 16 B for each page of a chunk in use; for each page that is no repeated word, 64 B for each of its
//! lines that is not zero (4 KiB where those are many). Stores by the byte turn a page into bytes; the last
//! [`OPEN`] pages that had some stay so, since the next store is likely to go there, and the others are
//! packed again.

use super::Medium;
use granary_units::{Page, Payload};
use std::collections::VecDeque;
use std::io;

/// Pages of a chunk.
const CHUNK: usize = 2048;
/// Pages that are held as bytes because of stores by the byte.
const OPEN: usize = 256;

/// Pages in memory.
#[derive(Clone, Debug)]
pub struct RamMedium {
    pages: u64,
    chunks: Vec<Vec<Page>>,
    /// Pages that had stores by the byte since they were packed, the oldest first.
    open: VecDeque<u64>,
    /// The same, for looking up: one bit for each page of the chunks in use.
    is_open: Vec<Vec<u64>>,
}

impl RamMedium {
    /// `pages` pages of zeros.
    pub fn new(pages: u64) -> RamMedium {
        let chunks = pages.div_ceil(CHUNK as u64) as usize;
        RamMedium {
            pages,
            chunks: vec![Vec::new(); chunks],
            open: VecDeque::with_capacity(OPEN + 1),
            is_open: vec![Vec::new(); chunks],
        }
    }

    /// Bytes that the pages' handles take, and pages that are held as bytes or lines of their own.
    pub fn memory(&self) -> (usize, usize) {
        let handles = self.chunks.iter().map(|c| c.capacity() * size_of::<Page>()).sum();
        (handles, self.chunks.iter().flatten().filter(|page| !page.is_word()).count())
    }

    fn page_mut(&mut self, page: u64) -> &mut Page {
        let chunk = &mut self.chunks[page as usize / CHUNK];
        if chunk.is_empty() {
            *chunk = vec![Page::ZERO; CHUNK];
            self.is_open[page as usize / CHUNK] = vec![0; CHUNK / 64];
        }
        &mut chunk[page as usize % CHUNK]
    }

    /// The bit that says whether a page, whose chunk is in use, is open: (word, mask).
    fn open_bit(&mut self, page: u64) -> (&mut u64, u64) {
        let at = page as usize % CHUNK;
        (&mut self.is_open[page as usize / CHUNK][at / 64], 1 << (at % 64))
    }

    /// A page had stores by the byte.
    fn opened(&mut self, page: u64) {
        let (word, mask) = self.open_bit(page);
        if *word & mask != 0 {
            return;
        }
        *word |= mask;
        self.open.push_back(page);
        if self.open.len() > OPEN
            && let Some(oldest) = self.open.pop_front()
        {
            let (word, mask) = self.open_bit(oldest);
            *word &= !mask;
            self.pack(oldest);
        }
    }

    fn pack(&mut self, page: u64) {
        let content = self.page_mut(page);
        content.compact();
        *content = content.packed(Page::FEW_LINES);
    }
}

impl Medium for RamMedium {
    fn second(&self) -> Option<RamMedium> {
        Some(self.clone())
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    #[inline]
    fn page(&self, page: u64) -> io::Result<Page> {
        Ok(self.chunks[page as usize / CHUNK].get(page as usize % CHUNK).cloned().unwrap_or_default())
    }

    #[inline]
    fn read(&self, page: u64, from: usize, out: &mut [u8]) -> io::Result<()> {
        match self.chunks[page as usize / CHUNK].get(page as usize % CHUNK) {
            Some(content) => content.copy_out(from, out),
            None => out.fill(0),
        }
        Ok(())
    }

    fn write(&mut self, page: u64, from: usize, data: Payload<'_>) -> io::Result<()> {
        let content = self.page_mut(page);
        content.write(from, data);
        if !content.is_word() {
            self.opened(page);
        }
        Ok(())
    }

    fn replace(&mut self, page: u64, content: &Page) -> io::Result<()> {
        *self.page_mut(page) = content.packed(Page::FEW_LINES);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_one_word_take_sixteen_bytes_each_however_they_came_about() {
        let mut medium = RamMedium::new(1 << 20);
        let word = 0x0102_0304_0506_0708u64;
        let line: Vec<u8> = word.to_le_bytes().repeat(8);
        for page in 0..4096u64 {
            match page % 3 {
                0 => medium.replace(page, &Page::word(word)).expect("in memory"),
                1 => {
                    let data = Payload::Fill { word, len: Page::SIZE };
                    medium.write(page, 0, data).expect("in memory");
                }
                _ => (0..64)
                    .for_each(|i| medium.write(page, i * 64, Payload::Bytes(&line)).expect("in memory")),
            }
        }
        let (handles, own) = medium.memory();
        assert_eq!(handles, 4096 * 16);
        assert!(own <= OPEN, "{own}");
        assert!((0..4096).all(|page| medium.page(page).expect("in memory") == Page::word(word)));
    }

    #[test]
    fn a_page_that_is_stored_to_again_is_packed_again() {
        let mut medium = RamMedium::new(4096);
        for round in 1..4 {
            for page in 0..1000 {
                medium.write(page, 128, Payload::Bytes(&[round; 8])).expect("in memory");
            }
        }
        let as_bytes = |page: &Page| page.as_bytes().is_some();
        assert!(medium.chunks.iter().flatten().filter(|page| as_bytes(page)).count() <= OPEN);
        let mut out = [0; 24];
        medium.read(999, 120, &mut out).expect("in memory");
        assert_eq!(out[..], [[0; 8], [3; 8], [0; 8]].concat());
    }
}
