//! [`Blocks`]: bytes in whole, aligned blocks, as a disk takes them past the host's page cache.
//!
//! ```text
//!   | 4096 B aligned | 4096 B | 4096 B |        put() appends, pad() fills the last block with zeros
//!    <-------- len -------->00000000000
//! ```
//!
//! Invariant: what [`Blocks::pad`] returns begins at an address that is a multiple of [`BLOCK`] and is so
//! many long, too.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Bytes of a block: the largest logical block size of the disks that are sold.
pub const BLOCK: usize = 4096;

#[derive(Clone, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

/// See the module.
#[derive(Default)]
pub struct Blocks {
    blocks: Vec<Block>,
    len: usize,
}

impl Blocks {
    /// Without content; keeps its memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends.
    pub fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.reserve(end);
        self.blocks.as_mut_slice().as_mut_bytes()[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    /// Fills up with zeros to `len` bytes.
    pub fn zeros(&mut self, len: usize) {
        self.reserve(len);
        self.blocks.as_mut_slice().as_mut_bytes()[self.len..len].fill(0);
        self.len = len;
    }

    /// Content, mutable.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.blocks.as_mut_slice().as_mut_bytes()[..self.len]
    }

    fn reserve(&mut self, len: usize) {
        if self.blocks.len() * BLOCK < len {
            self.blocks.resize(len.div_ceil(BLOCK), Block::new_zeroed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_there_aligned_and_old_content_is_not() {
        let mut b = Blocks::default();
        b.put(&[7; 10_000]);
        b.clear();
        b.put(&[1; 100]);
        b.put(&[2; 4000]);
        b.zeros(2 * BLOCK);
        assert_eq!(b.bytes().as_ptr() as usize % BLOCK, 0);
        let expected = [vec![1; 100], vec![2; 4000], vec![0; 2 * BLOCK - 4100]].concat();
        assert_eq!(b.bytes(), expected);
    }
}
