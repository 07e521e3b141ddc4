//! [`Lean`]: the record of a page of which the log holds one or two chunks, without older versions.
//!
//! ```text
//!   | first 6, lines 7 | first 6, lines 7 or 0 | zero 6 |  entry  | entry, if there are two |    8 B or 12 B
//!     bits 0 to 12       bits 13 to 25
//! ```
//!
//! Most pages have single lines. Masks of all 64 lines would be most of their records (chunks.rs): 24 B for a
//! line. A record that outgrows the lean form becomes one with masks, and stays one until it is made anew.
//!
//! Invariants: the chunks are disjoint and ascending; a record says the same in either form.

use super::chunks::{EntryRef, Piece};

/// Chunks of a lean record at most.
pub const MOST: usize = 2;
/// Set in the number of a lean record.
pub const LEAN: u32 = 1 << 31;
const RANGE: u32 = 13;

/// See the module.
#[derive(Clone, Copy)]
pub struct Lean {
    pieces: [Piece; MOST],
    len: usize,
}

impl Lean {
    /// These chunks, if they fit.
    pub fn new(current: &[Piece], older: &[Piece]) -> Option<Lean> {
        let (&first, len) = (current.first()?, current.len());
        let second = current.get(1).copied().unwrap_or(first);
        (len <= MOST && older.is_empty()).then_some(Lean { pieces: [first, second], len })
    }

    /// Words of a record.
    pub fn size(len: usize) -> usize {
        1 + len
    }

    /// The record that begins with these words.
    #[inline]
    pub fn read(words: &[u32]) -> Lean {
        let head = words[0];
        let len = 1 + (head >> RANGE != 0) as usize;
        let piece = |nth: usize| {
            let range = head >> (RANGE * nth as u32);
            Piece {
                entry: EntryRef(words[1 + nth]),
                first: range as u8 & 63,
                lines: (range >> 6) as u8 & 127,
            }
        };
        let first = piece(0);
        Lean { pieces: [first, if len == 2 { piece(1) } else { first }], len }
    }

    /// Writes the record.
    pub fn write(&self, words: &mut [u32]) {
        let range = |p: &Piece| p.first as u32 | (p.lines as u32) << 6;
        words[0] = self.pieces().iter().rev().fold(0, |word, p| word << RANGE | range(p));
        words[1..].iter_mut().zip(self.pieces()).for_each(|(word, p)| *word = p.entry.0);
    }

    /// The chunks.
    #[inline]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces[..self.len]
    }

    /// With one more chunk, on other lines.
    pub fn with(&self, piece: Piece) -> Option<Lean> {
        let [p, _] = self.pieces;
        let pieces = if p.first < piece.first { [p, piece] } else { [piece, p] };
        (self.len == 1).then_some(Lean { pieces, len: 2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_ranges_comes_back() {
        let piece = |entry, first, lines| Piece { entry: EntryRef(entry), first, lines };
        for (first, lines) in [(0u8, 1u8), (0, 64), (63, 1), (7, 9), (31, 2)] {
            let one = Lean::new(&[piece(u32::MAX, first, lines)], &[]).expect("fits");
            let mut words = [7; 3];
            one.write(&mut words);
            assert_eq!(Lean::read(&words).pieces(), one.pieces());
            for (other, n) in [(first + lines, 1), (63, 1)] {
                if other < first + lines || other > 63 {
                    continue;
                }
                let two = one.with(piece(5, other, n)).expect("fits");
                assert_eq!(two.pieces(), [piece(u32::MAX, first, lines), piece(5, other, n)]);
                two.write(&mut words);
                assert_eq!(Lean::read(&words).pieces(), two.pieces());
                assert!(two.with(piece(1, 0, 1)).is_none());
            }
        }
    }
}
