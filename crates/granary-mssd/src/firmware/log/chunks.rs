//! [`Chunks`]: the third layer of the log index: for each page its ordered list of chunks, in one piece of
//! memory.
//!
//! ```text
//!   record of a page, in 32-bit words:
//!   | cover 2 | starts 2 | older n, class | entry | entry | ... | older: entry, range | entry, range | ...
//!     bit per line: the log holds it         one for each chunk    versions below the current ones
//!               bit per line: a chunk starts here
//! ```
//!
//! The current chunks of a page are disjoint: a newer one cuts what it overlaps. So a chunk's entry is found
//! by counting the bits of `starts`, without a walk, and ends where the next one starts or `cover` ends.
//! Arbitrary lengths of 1 to 64 lines; 4 B for each chunk (the paper's log offset), its block offset and
//! length are in the masks. Older versions that may still be needed (see `index.rs`) follow as a list, newest
//! first for each line. One or two chunks without older versions are kept without masks (lean.rs): the number
//! of such a record has its top bit set.
//!
//! Records have size classes and lie in one array per partition: a lookup touches one or two cache lines.
//!
//! Invariants: `starts` is within `cover`; older versions lie on covered lines only; every record is in use
//! or on its class's free list. It does *not* know pages.
//!
//! Source: ByteFS section 4.3.

mod cut;
mod insert;
mod piece;

use super::lean::{self, LEAN, Lean};
pub use cut::Scratch;
use granary_units::prefetch;
pub use piece::{EntryRef, Piece, mask, runs};

/// No record.
pub const NIL: u32 = u32::MAX;

/// Words of a record before its entries.
const HEADER: usize = 5;
/// Words for entries and older versions, by size class.
const CLASSES: [u32; 34] = [
    1,
    2,
    3,
    4,
    6,
    8,
    12,
    16,
    24,
    32,
    48,
    64,
    96,
    128,
    192,
    256,
    384,
    512,
    1 << 10,
    1 << 11,
    1 << 12,
    1 << 13,
    1 << 14,
    1 << 15,
    1 << 16,
    1 << 17,
    1 << 18,
    1 << 19,
    1 << 20,
    1 << 21,
    1 << 22,
    1 << 23,
    1 << 24,
    1 << 25,
];

/// The records of a partition.
#[derive(Clone)]
pub struct Chunks {
    words: Vec<u32>,
    /// The part that lookups of lines do not read.
    room: Box<Room>,
}

/// Free and used records of the array.
#[derive(Clone)]
struct Room {
    /// First free record of each class, then of each length of lean ones; the next one is in its first word.
    free: [u32; CLASSES.len() + lean::MOST],
    /// Records in use.
    len: u32,
}

/// The smallest class with room for `payload` words.
fn class_for(payload: usize) -> usize {
    let class = CLASSES.iter().position(|&c| c as usize >= payload);
    class.expect("a page has at most 2^25 words of versions: more than a gigabyte of log")
}

fn range_word(p: &Piece) -> u32 {
    p.first as u32 | (p.lines as u32) << 8
}

/// The older version of which these are the words.
#[inline]
fn piece_of(entry: u32, range: u32) -> Piece {
    Piece { entry: EntryRef(entry), first: range as u8, lines: (range >> 8) as u8 }
}

/// Lines 0 to `end` - 1; `end` is 0 to 64.
#[inline]
fn lines_upto(end: u8) -> u64 {
    if end == 64 { u64::MAX } else { (1 << end) - 1 }
}

impl Chunks {
    /// None.
    pub fn new() -> Chunks {
        let room = Room { free: [NIL; CLASSES.len() + lean::MOST], len: 0 };
        Chunks { words: Vec::new(), room: Box::new(room) }
    }

    /// Bytes of memory taken beyond the value itself.
    pub fn memory(&self) -> usize {
        self.words.capacity() * 4 + size_of::<Room>()
    }

    /// Records in use.
    pub fn len(&self) -> usize {
        self.room.len as usize
    }

    #[inline]
    fn word(&self, at: usize) -> u32 {
        self.words[at]
    }

    #[inline]
    fn mask_at(&self, at: usize) -> u64 {
        self.words[at] as u64 | (self.words[at + 1] as u64) << 32
    }

    #[inline]
    fn set_mask(&mut self, at: usize, mask: u64) {
        self.words[at] = mask as u32;
        self.words[at + 1] = (mask >> 32) as u32;
    }

    #[inline]
    fn cover(&self, head: u32) -> u64 {
        self.mask_at(head as usize)
    }

    #[inline]
    fn starts(&self, head: u32) -> u64 {
        self.mask_at(head as usize + 2)
    }

    /// Older versions of a record, and its class.
    #[inline]
    fn older(&self, head: u32) -> (usize, usize) {
        let w = self.word(head as usize + 4);
        ((w >> 8) as usize, (w & 0xff) as usize)
    }

    #[inline]
    fn set_older(&mut self, head: u32, count: usize, class: usize) {
        self.words[head as usize + 4] = (count as u32) << 8 | class as u32;
    }

    /// The current chunk of a covered line: its place among the entries, first line, and the line after its
    /// last.
    #[inline]
    fn chunk_at(cover: u64, starts: u64, line: u32) -> (usize, u32, u32) {
        let upto = starts & (u64::MAX >> (63 - line));
        let first = 63 - upto.leading_zeros();
        let end = match line {
            63 => 64,
            _ => {
                let stop = (starts | !cover) >> (line + 1);
                if stop == 0 { 64 } else { line + 1 + stop.trailing_zeros() }
            }
        };
        (upto.count_ones() as usize - 1, first, end)
    }

    /// Appends the newest versions of the lines in `want`, one run of lines, to `found`, ascending and
    /// disjoint; returns which there are.
    #[inline]
    pub fn lookup(&self, head: u32, want: u64, found: &mut Vec<Piece>) -> u64 {
        if head & LEAN != 0 {
            return self.lookup_lean(head, want, found);
        }
        let record = &self.words[head as usize..];
        let (header, entries) = record.split_first_chunk::<HEADER>().expect("a record has a header");
        let cover = header[0] as u64 | (header[1] as u64) << 32;
        let starts = header[2] as u64 | (header[3] as u64) << 32;
        let covered = cover & want;
        // A piece begins where a wanted covered line does not belong to the piece of the line before: at most
        // at the first wanted line and at every start.
        let mut begins = covered & (starts | want & want.wrapping_neg());
        let mut index = (starts & (begins ^ begins.wrapping_sub(1))).count_ones() as usize;
        let stops = begins | !covered;
        while begins != 0 {
            let first = begins.trailing_zeros();
            begins &= begins - 1;
            let lines = ((stops >> 1) >> first).trailing_zeros().min(63 - first) + 1;
            found.push(Piece { entry: EntryRef(entries[index - 1]), first: first as u8, lines: lines as u8 });
            index += 1;
        }
        covered
    }

    #[inline]
    fn lean(&self, head: u32) -> Lean {
        Lean::read(&self.words[(head & !LEAN) as usize..])
    }

    #[inline]
    fn lookup_lean(&self, head: u32, want: u64, found: &mut Vec<Piece>) -> u64 {
        let mut covered = 0;
        for p in self.lean(head).pieces() {
            let lines = p.mask() & want;
            if lines != 0 {
                let (first, n) = (lines.trailing_zeros() as u8, lines.count_ones() as u8);
                found.push(Piece { entry: p.entry, first, lines: n });
                covered |= lines;
            }
        }
        covered
    }

    /// Fetches what is at a place, or a record, into the processor's cache.
    #[inline]
    pub fn prefetch(&self, place: u32) {
        prefetch(&self.words, (place & !LEAN) as usize);
    }

    /// Where the entry of the current chunk is that a line belongs to, if the record covers the line.
    #[inline]
    pub fn place_of(&self, head: u32, line: u32) -> Option<u32> {
        if head & LEAN != 0 {
            let nth = self.lean(head).pieces().iter().position(|p| p.mask() >> line & 1 == 1)?;
            return Some((head & !LEAN) + 1 + nth as u32);
        }
        let upto = self.starts(head) & (u64::MAX >> (63 - line));
        let covered = self.cover(head) >> line & 1 == 1;
        covered.then(|| head + HEADER as u32 + upto.count_ones() - 1)
    }

    /// The entry at such a place.
    #[inline]
    pub fn entry_at(&self, place: u32) -> EntryRef {
        EntryRef(self.words[place as usize])
    }

    /// Current chunks, then older versions: newest first for each line.
    pub fn gather(&self, head: u32, all: &mut Vec<Piece>) {
        self.lookup(head, u64::MAX, all);
        if head & LEAN == 0 {
            self.gather_older(head, all);
        }
    }

    fn gather_older(&self, head: u32, all: &mut Vec<Piece>) {
        let mut at = head as usize + HEADER + self.starts(head).count_ones() as usize;
        for _ in 0..self.older(head).0 {
            all.push(self.older_at(at));
            at += 2;
        }
    }

    #[inline]
    fn older_at(&self, at: usize) -> Piece {
        piece_of(self.word(at), self.word(at + 1))
    }

    /// Lines of all chunks of a record, older versions included.
    pub fn lines(&self, head: u32) -> u64 {
        if head & LEAN != 0 {
            return self.lean(head).pieces().iter().map(|p| p.lines as u64).sum();
        }
        let older = head as usize + HEADER + self.starts(head).count_ones() as usize;
        let count = self.older(head).0;
        let lines: u64 = (0..count).map(|i| self.older_at(older + 2 * i).lines as u64).sum();
        lines + self.cover(head).count_ones() as u64
    }

    /// Frees a record.
    pub fn release(&mut self, head: u32) {
        let list = match head & LEAN {
            0 => self.older(head).1,
            _ => CLASSES.len() + self.lean(head).pieces().len() - 1,
        };
        let at = head & !LEAN;
        self.words[at as usize] = self.room.free[list];
        self.room.free[list] = at;
        self.room.len -= 1;
    }

    fn allocate(&mut self, class: usize) -> u32 {
        self.take(class, HEADER + CLASSES[class] as usize)
    }

    /// A record of `size` words, from a list of free ones if it can be.
    fn take(&mut self, list: usize, size: usize) -> u32 {
        self.room.len += 1;
        let free = self.room.free[list];
        if free != NIL {
            self.room.free[list] = self.words[free as usize];
            return free;
        }
        let at = self.words.len();
        if self.words.capacity() - at < size {
            // By an eighth, not by half: the index should be small.
            self.words.reserve_exact((at / 8).max(size).max(16));
        }
        self.words.resize(at + size, 0);
        at as u32
    }

    /// One sentence for each violated invariant of a record.
    pub fn check(&self, head: u32) -> Vec<String> {
        if head & LEAN != 0 {
            let lean = self.lean(head);
            let wrong = lean.pieces().windows(2).any(|w| w[0].first + w[0].lines > w[1].first);
            return if wrong { vec![format!("chunks overlap: {:?}", lean.pieces())] } else { Vec::new() };
        }
        let (cover, starts) = (self.cover(head), self.starts(head));
        let (older, class) = self.older(head);
        let mut bad = Vec::new();
        if cover == 0 || starts & !cover != 0 || (starts | !(cover << 1)) & cover != starts & cover {
            bad.push(format!("cover {cover:x} and starts {starts:x} contradict each other"));
        }
        if starts.count_ones() as usize + 2 * older > CLASSES[class] as usize {
            bad.push("more versions than its record has room for".to_owned());
        }
        let mut all = Vec::new();
        self.gather_older(head, &mut all);
        if all.iter().any(|p| p.mask() & !cover != 0) {
            bad.push("older versions without a current one".to_owned());
        }
        bad
    }
}

#[cfg(test)]
mod tests;
