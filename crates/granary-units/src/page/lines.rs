//! [`Lines`]: the 64 B lines of a page that are not zero. Inodes, nodes and logs are a few lines in a page of
//! zeros.
//!
//! ```text
//!   thin pointer -> count of references 8 | mask 8 | number of lines 8 | lines whose bit is set, in order
//! ```
//!
//! Invariant: as many lines as bits, and none of them is zero: they never change, a change makes bytes of the
//! page.

use crate::addr::{LINE_SIZE as LINE, PAGE_SIZE};
use triomphe::ThinArc;

/// The bytes of a line.
type Line = [u8; LINE];

/// See the module. Cloning is a reference count.
#[derive(Clone)]
pub(super) struct Lines(ThinArc<u64, Line>);

impl Lines {
    /// The lines of `bytes` that are not zero, if there are at most `at_most`.
    pub fn of(bytes: &[u8; PAGE_SIZE], at_most: u32) -> Option<Lines> {
        let mask = mask(bytes);
        (mask.count_ones() <= at_most).then(|| {
            let (lines, _) = bytes.as_chunks::<LINE>();
            let mut left = mask;
            let some = (0..mask.count_ones() as usize).map(|_| {
                let n = left.trailing_zeros() as usize;
                left &= left - 1;
                lines[n]
            });
            Lines(ThinArc::from_header_and_iter(mask, some))
        })
    }

    /// Whether both are one piece of memory.
    pub fn is_same(&self, other: &Lines) -> bool {
        std::ptr::eq(self.0.ptr(), other.0.ptr())
    }

    /// Where it is in memory.
    pub fn address(&self) -> usize {
        self.0.ptr().addr()
    }

    /// Whether both have the same lines with the same content: whether the pages are equal.
    pub fn is_equal(&self, other: &Lines) -> bool {
        self.is_same(other) || self.0.header.header == other.0.header.header && self.0.slice == other.0.slice
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.slice.is_empty()
    }

    fn line(&self, n: usize) -> Option<&Line> {
        let (mask, bit) = (self.0.header.header, 1u64 << n);
        (mask & bit != 0).then(|| &self.0.slice[(mask & (bit - 1)).count_ones() as usize])
    }

    /// The page as bytes.
    pub fn expand(&self) -> [u8; PAGE_SIZE] {
        let mut bytes = [0; PAGE_SIZE];
        self.put_into(&mut bytes);
        bytes
    }

    /// Copies the lines to their places.
    fn put_into(&self, page: &mut [u8; PAGE_SIZE]) {
        let (places, _) = page.as_chunks_mut::<LINE>();
        let mut left = self.0.header.header;
        for line in &self.0.slice {
            places[left.trailing_zeros() as usize] = *line;
            left &= left - 1;
        }
    }

    /// Copies bytes `from..from + out.len()` of the page out.
    pub fn copy_out(&self, from: usize, out: &mut [u8]) {
        if let Ok(page) = <&mut [u8; PAGE_SIZE]>::try_from(&mut *out) {
            page.fill(0);
            return self.put_into(page);
        }
        let (mut at, mut out) = (from, out);
        while !out.is_empty() {
            let within = at % LINE;
            let (part, rest) = out.split_at_mut((LINE - within).min(out.len()));
            match self.line(at / LINE) {
                Some(line) => part.copy_from_slice(&line[within..within + part.len()]),
                None => part.fill(0),
            }
            (at, out) = (at + part.len(), rest);
        }
    }
}

/// Bit n: line n is not all zeros.
fn mask(bytes: &[u8; PAGE_SIZE]) -> u64 {
    let (lines, _) = bytes.as_chunks::<LINE>();
    lines.iter().enumerate().fold(0, |mask, (n, line)| {
        let (words, _) = line.as_chunks::<8>();
        let any = words.iter().fold(0, |any, word| any | u64::from_ne_bytes(*word));
        mask | u64::from(any != 0) << n
    })
}
