//! [`Chunks::cut`]: a new chunk over parts of others, the general case of an insertion.
//!
//! ```text
//!   current   | a a a a |   | b b |          | a | N N N N N | b |
//!                 | N N N N N |       -->
//!   older     those below N's lines are asked whether they are needed, with what N displaced; the others
//!             stay as they are
//! ```
//!
//! A page can have a hundred versions of its lines, of which a new chunk concerns two or three: all others
//! are copied as they lie, as words, into a record of the size that they need.

use super::{Chunks, EntryRef, HEADER, Piece, lines_upto, piece_of, range_word};
use crate::firmware::log::index::{LineVersions, needed};
use crate::firmware::log::lean::{self, Lean};

/// Working memory.
#[derive(Clone, Default)]
pub struct Scratch {
    /// Versions of the new chunk's lines, newest first: itself, what it displaces, what is below.
    stack: Vec<Piece>,
    /// The words behind the header of the record that is made.
    words: Vec<u32>,
}

impl Chunks {
    /// Makes the record `head`, one with masks, anew with `piece` in it, which lies over chunks of it.
    /// Returns the record and by how much its lines changed.
    pub(super) fn cut(
        &mut self,
        head: u32,
        piece: Piece,
        versions: &impl LineVersions,
        s: &mut Scratch,
    ) -> (u32, i64) {
        let (cover, starts, new) = (self.cover(head), self.starts(head), piece.mask());
        s.stack.clear();
        s.words.clear();
        s.stack.push(piece);
        self.lookup(head, new, &mut s.stack);

        let chunks = starts.count_ones() as usize;
        let record = &self.words[head as usize + HEADER..][..chunks + 2 * self.older(head).0];
        let (entries, older) = record.split_at(chunks);
        let end = piece.first + piece.lines;
        let before = (starts & lines_upto(piece.first)).count_ones() as usize;
        let begun = (starts & lines_upto(end)).count_ones() as usize;
        let goes_on = end < 64 && (cover & !starts) >> end & 1 == 1;
        s.words.extend_from_slice(&entries[..before]);
        s.words.push(piece.entry.0);
        if goes_on {
            s.words.push(entries[begun - 1]);
        }
        s.words.extend_from_slice(&entries[begun..]);
        let made = s.words.len();

        let mut lines = (new & !cover).count_ones() as i64;
        let mut copied = 0;
        for at in (0..older.len()).step_by(2) {
            let p = piece_of(older[at], older[at + 1]);
            if p.mask() & new == 0 {
                continue;
            }
            s.words.extend_from_slice(&older[copied..at]);
            copied = at + 2;
            s.stack.push(p);
            lines += keep(&mut s.words, p, !new) - p.lines as i64;
        }
        s.words.extend_from_slice(&older[copied..]);
        let mut newest = true;
        needed(&s.stack, versions, |p, need| {
            if !std::mem::take(&mut newest) {
                lines += keep(&mut s.words, p, need & new);
            }
        });

        let starts = starts & !new | 1 << piece.first | (goes_on as u64) << (end & 63);
        self.release(head);
        (self.build_words(cover | new, starts, made, &s.words), lines)
    }

    /// A record of these chunks, `chunks` entries and behind them older versions, in the form that fits it.
    fn build_words(&mut self, cover: u64, starts: u64, chunks: usize, words: &[u32]) -> u32 {
        let older = (words.len() - chunks) / 2;
        if older == 0 && chunks <= lean::MOST {
            let mut pieces = [Piece { entry: EntryRef(0), first: 0, lines: 1 }; lean::MOST];
            let mut left = starts;
            for (p, &entry) in pieces.iter_mut().zip(words) {
                let (_, first, end) = Chunks::chunk_at(cover, starts, left.trailing_zeros());
                *p = Piece { entry: EntryRef(entry), first: first as u8, lines: (end - first) as u8 };
                left &= left - 1;
            }
            if let Some(lean) = Lean::new(&pieces[..chunks], &[]) {
                return self.build_lean(&lean);
            }
        }
        let head = self.begin(cover, starts, chunks, older);
        self.words[head as usize + HEADER..][..words.len()].copy_from_slice(words);
        head
    }
}

/// Appends the parts of an older version that are in `lines`; how many lines these are.
fn keep(words: &mut Vec<u32>, p: Piece, lines: u64) -> i64 {
    for part in p.parts(lines) {
        words.extend([part.entry.0, range_word(&part)]);
    }
    (p.mask() & lines).count_ones() as i64
}
