//! [`Chunks`]: the third layer of the log index: for each page its ordered list of chunks, in one piece of memory.
//!
//! ```text
//!   record of a page, in 32-bit words:
//!   | cover 2 | starts 2 | older n, class | entry | entry | ... | older: entry, range | entry, range | ...
//!     bit per line: the log holds it         one for each chunk    versions below the current ones
//!               bit per line: a chunk starts here
//! ```
//!
//! The current chunks of a page are disjoint: a newer one cuts what it overlaps. So a chunk's entry is found by counting the
//! bits of `starts`, without a walk, and ends where the next one starts or `cover` ends. Arbitrary lengths of 1 to 64
//! lines; 4 B for each chunk (the paper's log offset), its block offset and length are in the masks. Older versions that
//! may still be needed (see `index.rs`) follow as a list, newest first for each line. One or two chunks without older versions
//! are kept without masks (lean.rs): the number of such a record has its top bit set.
//!
//! Records have size classes and lie in one array per partition: a lookup touches one or two cache lines.
//!
//! Invariants: `starts` is within `cover`; older versions lie on covered lines only; every record is in use or on its class's
//! free list. It does *not* know pages.
//!
//! Source: ByteFS section 4.3.

mod cut;

use super::index::LineVersions;
use super::lean::{self, LEAN, Lean};
pub use cut::Scratch;
use granary_units::prefetch;

/// Names an entry of either half of the log: region in bit 31, *native* (not migrated) in bit 30, number below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryRef(pub u32);

impl EntryRef {
    const REGION: u32 = 1 << 31;
    const NATIVE: u32 = 1 << 30;

    /// Entry `number` of region 0 or 1.
    pub fn new(region: usize, native: bool, number: u32) -> EntryRef {
        debug_assert!(number < EntryRef::NATIVE);
        let region = if region == 1 { EntryRef::REGION } else { 0 };
        EntryRef(region | if native { EntryRef::NATIVE } else { 0 } | number)
    }

    /// The region.
    #[inline]
    pub fn region(self) -> usize {
        (self.0 >> 31) as usize
    }

    /// The number within the region.
    #[inline]
    pub fn number(self) -> u32 {
        self.0 & (EntryRef::NATIVE - 1)
    }
}

/// A run of lines of a page and the entry that holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The entry.
    pub entry: EntryRef,
    /// First line in the page, 0 to 63.
    pub first: u8,
    /// Number of lines, 1 to 64.
    pub lines: u8,
}

impl Piece {
    /// One bit for each line.
    #[inline]
    pub fn mask(&self) -> u64 {
        mask(self.first as usize, self.lines as usize)
    }

    /// The pieces of this entry whose lines are in `keep`.
    pub fn parts(self, keep: u64) -> impl Iterator<Item = Piece> {
        runs(self.mask() & keep).map(move |(first, lines)| Piece { entry: self.entry, first, lines })
    }
}

/// Bits `first..first + lines`.
#[inline]
pub fn mask(first: usize, lines: usize) -> u64 {
    debug_assert!(lines >= 1 && first + lines <= 64);
    (u64::MAX >> (64 - lines)) << first
}

/// The runs of set bits as (first, length).
pub fn runs(mut mask: u64) -> impl Iterator<Item = (u8, u8)> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let first = mask.trailing_zeros();
            let length = (mask >> first).trailing_ones();
            mask &= !(self::mask(first as usize, length as usize));
            (first as u8, length as u8)
        })
    })
}

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
    /// What a look for lines does not read.
    room: Box<Room>,
}

/// What is free in the records' array, and what is not.
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

    /// The current chunk of a covered line: its place among the entries, first line, and the line after its last.
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

    /// Appends the newest versions of the lines in `want`, one run of lines, to `found`, ascending and disjoint; returns
    /// which there are.
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
        // A piece begins where a wanted covered line does not belong to the piece of the line before: at most at the
        // first wanted line and at every start.
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

    /// Adds the newest version of some lines to a record ([`NIL`]: to a new one); older versions that can no longer be
    /// needed leave. Returns the record and by how much its lines changed.
    pub fn insert(
        &mut self,
        head: u32,
        piece: Piece,
        versions: &impl LineVersions,
        scratch: &mut Scratch,
    ) -> (u32, i64) {
        if head == NIL {
            return (self.build(&[piece], &[]), piece.lines as i64);
        }
        if head & LEAN != 0 {
            return self.insert_lean(head, piece, versions, scratch);
        }
        let (cover, starts, new) = (self.cover(head), self.starts(head), piece.mask());
        if cover & new == 0 {
            return (self.add(head, cover, starts, piece), piece.lines as i64);
        }
        if cover & new == new {
            let (index, first, end) = Chunks::chunk_at(cover, starts, piece.first as u32);
            if (first, end) == (piece.first as u32, (piece.first + piece.lines) as u32)
                && let Some(change) = self.replace(head, index, piece, versions)
            {
                return (head, change);
            }
        }
        self.cut(head, piece, versions, scratch)
    }

    /// The same for a lean record, which stays one where that is simple.
    fn insert_lean(
        &mut self,
        head: u32,
        piece: Piece,
        versions: &impl LineVersions,
        scratch: &mut Scratch,
    ) -> (u32, i64) {
        let lean = self.lean(head);
        let overlapped = lean.pieces().iter().enumerate().find(|(_, p)| p.mask() & piece.mask() != 0);
        match overlapped {
            None => {
                if let Some(more) = lean.with(piece) {
                    self.release(head);
                    return (self.build_lean(&more), piece.lines as i64);
                }
            }
            Some((nth, same)) if (same.first, same.lines) == (piece.first, piece.lines) => {
                let tx = versions.tx(piece.entry);
                if versions.tx(same.entry) == tx || versions.committed(tx) {
                    self.words[(head & !LEAN) as usize + 1 + nth] = piece.entry.0;
                    return (head, 0);
                }
            }
            Some(_) => {}
        }
        self.release(head);
        let head = self.build_masks(lean.pieces(), &[]);
        self.insert(head, piece, versions, scratch)
    }

    /// A chunk on lines that the record does not cover.
    fn add(&mut self, head: u32, cover: u64, starts: u64, piece: Piece) -> u32 {
        let below = (starts & ((1u64 << piece.first) - 1)).count_ones() as usize;
        let (older, class) = self.older(head);
        let used = starts.count_ones() as usize + 2 * older;
        let (head, from) = if used < CLASSES[class] as usize {
            (head, head)
        } else {
            let bigger = class_for(used + 1);
            let new = self.allocate(bigger);
            let (at, to) = (head as usize, new as usize);
            self.words.copy_within(at..at + HEADER + below, to);
            self.set_older(new, older, bigger);
            (new, head)
        };
        let (to, from) = (head as usize + HEADER, from as usize + HEADER);
        self.words.copy_within(from + below..from + used, to + below + 1);
        self.words[to + below] = piece.entry.0;
        self.set_mask(head as usize, cover | piece.mask());
        self.set_mask(head as usize + 2, starts | 1 << piece.first);
        if from != to {
            self.release((from - HEADER) as u32);
        }
        head
    }

    /// A new version of exactly one current chunk, in place where that is simple: returns the change in lines.
    fn replace(
        &mut self,
        head: u32,
        index: usize,
        piece: Piece,
        versions: &impl LineVersions,
    ) -> Option<i64> {
        let at = head as usize + HEADER;
        let old = EntryRef(self.words[at + index]);
        let (older, class) = self.older(head);
        let tx = versions.tx(piece.entry);
        let old_tx = versions.tx(old);
        let mut change = 0;
        if old_tx != tx && versions.committed(tx) {
            if older != 0 {
                return None;
            }
        } else if old_tx != tx {
            let chunks = self.starts(head).count_ones() as usize;
            let below = at + chunks;
            let room = (CLASSES[class] as usize - chunks) / 2;
            let mut count = older;
            if versions.committed(old_tx) {
                // The committed version makes what is below it superfluous.
                let dropped = self.drop_older(below, older, piece.mask())?;
                (count, change) = (older - dropped, -((dropped * piece.lines as usize) as i64));
            }
            if count == room {
                // Where something was dropped there is room.
                return None;
            }
            self.words.copy_within(below..below + 2 * count, below + 2);
            self.words[below] = old.0;
            self.words[below + 1] = range_word(&piece);
            self.set_older(head, count + 1, class);
            change += piece.lines as i64;
        }
        self.words[at + index] = piece.entry.0;
        Some(change)
    }

    /// Takes the older versions of exactly these lines out of the list at `below`; returns how many. `None` where one
    /// has some of the lines and others.
    fn drop_older(&mut self, below: usize, count: usize, lines: u64) -> Option<usize> {
        // As a rule at most one is concerned: nothing before it moves.
        let mut first = None;
        for (i, pair) in self.words[below..below + 2 * count].chunks_exact(2).enumerate() {
            let m = piece_of(pair[0], pair[1]).mask();
            if m & lines == 0 {
                continue;
            }
            if m != lines {
                return None;
            }
            first = first.or(Some(i));
        }
        let Some(first) = first else { return Some(0) };
        let mut kept = below + 2 * first;
        for i in first..count {
            let at = below + 2 * i;
            if self.older_at(at).mask() & lines == 0 {
                (self.words[kept], self.words[kept + 1]) = (self.words[at], self.words[at + 1]);
                kept += 2;
            }
        }
        Some(count - (kept - below) / 2)
    }

    /// A record of disjoint ascending chunks and older versions, newest first for each line.
    fn build(&mut self, current: &[Piece], older: &[Piece]) -> u32 {
        match Lean::new(current, older) {
            Some(lean) => self.build_lean(&lean),
            None => self.build_masks(current, older),
        }
    }

    fn build_lean(&mut self, lean: &Lean) -> u32 {
        let (len, size) = (lean.pieces().len(), Lean::size(lean.pieces().len()));
        let at = self.take(CLASSES.len() + len - 1, size);
        lean.write(&mut self.words[at as usize..at as usize + size]);
        at | LEAN
    }

    fn build_masks(&mut self, current: &[Piece], older: &[Piece]) -> u32 {
        let cover = current.iter().fold(0, |all, p| all | p.mask());
        let starts = current.iter().fold(0, |all, p| all | 1 << p.first);
        let head = self.begin(cover, starts, current.len(), older.len());
        let mut at = head as usize + HEADER;
        for p in current {
            self.words[at] = p.entry.0;
            at += 1;
        }
        for p in older {
            self.words[at] = p.entry.0;
            self.words[at + 1] = range_word(p);
            at += 2;
        }
        head
    }

    /// A record with its header, for so many chunks and older versions.
    fn begin(&mut self, cover: u64, starts: u64, chunks: usize, older: usize) -> u32 {
        // Where there are older versions there will be more: without room for them every insertion would make it anew.
        let class = class_for(chunks + 2 * older + older / 2 * 2);
        let head = self.allocate(class);
        self.set_mask(head as usize, cover);
        self.set_mask(head as usize + 2, starts);
        self.set_older(head, older, class);
        head
    }

    /// Makes `newest_first` (newest first for each line) all that `head` holds; returns the record.
    pub fn set(&mut self, head: u32, newest_first: &[Piece]) -> u32 {
        let (mut taken, mut current, mut older) = (0u64, Vec::new(), Vec::new());
        for p in newest_first {
            current.extend(p.parts(!taken));
            older.extend(p.parts(taken));
            taken |= p.mask();
        }
        current.sort_unstable_by_key(|p| p.first);
        self.release(head);
        self.build(&current, &older)
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
mod tests {
    use super::*;

    #[test]
    fn a_lone_chunk_takes_8_bytes_and_a_full_page_of_lines_less_than_5_each() {
        let piece = |first| Piece { entry: EntryRef(first as u32), first, lines: 1 };
        let mut chunks = Chunks::new();
        chunks.build(&[piece(7)], &[]);
        assert_eq!(chunks.words.len() * 4, 8);
        let mut chunks = Chunks::new();
        chunks.build(&(0..64).map(piece).collect::<Vec<_>>(), &[]);
        assert!(chunks.words.len() * 4 < 64 * 5);
    }

    #[test]
    fn runs_of_a_mask_cover_it_exactly() {
        for m in [0, 1, u64::MAX, 0b1011_0111, 1 << 63, 0xf0f0_0000_0000_0001] {
            let all: Vec<_> = runs(m).collect();
            assert_eq!(all.iter().fold(0, |a, &(f, n)| a | mask(f as usize, n as usize)), m);
            assert!(all.windows(2).all(|w| w[0].0 + w[0].1 < w[1].0), "{all:?}");
        }
    }
}
