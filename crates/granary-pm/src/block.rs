//! [`Block`]: a block in host memory, as bytes, without a copy of what the drive holds as bytes already.

use granary_units::{PAGE_SIZE, Page};
use std::ops::{Deref, DerefMut};

/// The bytes of a block that was loaded. Changes stay here.
pub struct Block(
    /// Held as bytes.
    Page,
);

impl Block {
    /// The bytes of a page.
    pub fn new(mut page: Page) -> Block {
        if page.as_bytes().is_none() {
            page.bytes_mut();
        }
        Block(page)
    }

    /// The block as a page.
    pub fn page(&self) -> &Page {
        &self.0
    }
}

impl Deref for Block {
    type Target = [u8; PAGE_SIZE];

    fn deref(&self) -> &[u8; PAGE_SIZE] {
        self.0.as_bytes().expect("held as bytes")
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8; PAGE_SIZE] {
        self.0.bytes_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_bytes_of_its_page_and_changes_alone() {
        for page in [
            Page::ZERO,
            Page::prefix(7, 100),
            Page::from_bytes(&std::array::from_fn(|i| i as u8 ^ (i >> 8) as u8)),
        ] {
            let mut block = Block::new(page.clone());
            assert_eq!(*block, page.to_bytes());
            block[5] ^= 1;
            assert_eq!(block[5] ^ 1, page.to_bytes()[5]);
            assert_eq!(block.page().to_bytes(), *block);
        }
    }
}
