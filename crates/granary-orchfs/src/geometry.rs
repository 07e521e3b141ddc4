//! The units of storage (OrchFS section 3.3) and arithmetic on them.
//!
//! ```text
//!   block   32 KiB   a logical block of a file; as a whole on the SSD: two of its pages of 16 KiB
//!   page     4 KiB   eight in a block; on the NVM
//! ```

use granary_units::Page;

/// Bytes in a page of the NVM, "e.g. 4 KB" (slides, "Storage units").
pub const PAGE: u64 = 4096;
/// Bytes in a block of the SSD, "e.g. 32 KB": two SSD pages of 16 KB (slides, "Storage units").
pub const BLOCK: u64 = 32 * 1024;
/// Pages in a block.
pub const PAGES: usize = (BLOCK / PAGE) as usize;
/// Bits of a block's number: the index of the released code has 7 levels of 6 bits.
pub const KEY_BITS: u32 = 42;
/// Largest file in bytes. The vfs counts bytes in signed words of 64 bits; 42 bits of 32 KiB would be 128
/// PiB.
pub const MAX_FILE_SIZE: u64 = 1 << 56;
/// Most links of an inode.
pub const MAX_LINKS: u32 = 65_000;

/// The pages of a block.
pub type Pages = [Page; PAGES];

/// A part of one block: `from..to` are bytes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The block of the file.
    pub block: u64,
    /// First byte.
    pub from: u32,
    /// Byte behind the last.
    pub to: u32,
}

impl Part {
    /// Whether it is the block as a whole.
    pub fn is_whole(&self) -> bool {
        self.from == 0 && u64::from(self.to) == BLOCK
    }

    /// Where it begins in the file.
    pub fn start(&self) -> u64 {
        self.block * BLOCK + u64::from(self.from)
    }

    /// Number of bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// The pages that it touches, each with the bytes of the page: (page of the block, from, to).
    pub fn pages(self) -> impl Iterator<Item = (usize, u16, u16)> {
        let page = PAGE as u32;
        (self.from / page..self.to.div_ceil(page)).map(move |p| {
            let (from, to) = (self.from.max(p * page) - p * page, self.to.min((p + 1) * page) - p * page);
            (p as usize, from as u16, to as u16)
        })
    }
}

/// The parts of `pos..pos + len`, block by block, from the first on.
pub fn parts(pos: u64, len: u64) -> impl Iterator<Item = Part> {
    let end = pos + len;
    let last = if len == 0 { pos / BLOCK } else { end.div_ceil(BLOCK) };
    (pos / BLOCK..last).map(move |block| {
        let start = block * BLOCK;
        Part { block, from: (pos.max(start) - start) as u32, to: (end - start).min(BLOCK) as u32 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_their_pages_are_the_range() {
        for (pos, len) in [(0, 0), (0, 1), (5, 32_768), (32_768, 32_768), (100_001, 200_003), (4095, 2)] {
            let (mut at, end) = (pos, pos + len);
            for part in parts(pos, len) {
                for (page, from, to) in part.pages() {
                    let base = part.block * BLOCK + page as u64 * PAGE;
                    assert!(from < to && u64::from(to) <= PAGE);
                    assert_eq!(base + u64::from(from), at);
                    at = base + u64::from(to);
                }
                assert_eq!(part.is_whole(), part.len() as u64 == BLOCK);
            }
            assert_eq!(at, end);
        }
    }
}
