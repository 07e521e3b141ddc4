//! [`Chunks`]: the third layer of the log index: for each page its ordered list of chunks.
//!
//! ```text
//!   page ──> { lines 2..4, entry 17 } ──> { lines 9..10, entry 40 } ──> { lines 9..12, entry 8 } ──> nil
//!            12 B each: next 4, entry 4 (the paper's log offset), block offset 1, length 1
//! ```
//!
//! A list is ordered by first line. Chunks may overlap: older versions stay below newer ones as long as they can
//! still be needed (see `index.rs`). Arbitrary lengths of 1 to 64 lines.
//!
//! Invariant: every chunk is in one list or on the free list. It does *not* decide which version is current.
//!
//! Source: ByteFS section 4.3.

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

    /// Age: of two versions of a line the one with the higher rank is the newer. Everything in the active region is
    /// newer than what the other one holds; in a region natives are newer than migrated entries.
    #[inline]
    pub fn rank(self, active: usize) -> u32 {
        if active == 1 { self.0 } else { self.0 ^ EntryRef::REGION }
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

/// End of a list.
pub const NIL: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Chunk {
    next: u32,
    piece: Piece,
}

/// The chunks of a partition.
pub struct Chunks {
    pool: Vec<Chunk>,
    free: u32,
    len: u32,
}

impl Chunks {
    /// None.
    pub fn new() -> Chunks {
        Chunks { pool: Vec::new(), free: NIL, len: 0 }
    }

    /// Bytes of memory taken.
    pub fn memory(&self) -> usize {
        self.pool.capacity() * size_of::<Chunk>() + size_of::<Chunks>()
    }

    /// Chunks in lists.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// The pieces of a list, in order.
    #[inline]
    pub fn iter(&self, head: u32) -> impl Iterator<Item = Piece> + '_ {
        let mut at = head;
        std::iter::from_fn(move || {
            (at != NIL).then(|| {
                let chunk = &self.pool[at as usize];
                at = chunk.next;
                chunk.piece
            })
        })
    }

    /// Adds `piece` at its place; returns the list's head.
    pub fn insert(&mut self, head: u32, piece: Piece) -> u32 {
        let mut prev = NIL;
        let mut at = head;
        while at != NIL && self.pool[at as usize].piece.first <= piece.first {
            prev = at;
            at = self.pool[at as usize].next;
        }
        let new = self.allocate(Chunk { next: at, piece });
        if prev == NIL {
            return new;
        }
        self.pool[prev as usize].next = new;
        head
    }

    /// Replaces the one chunk of the list that has exactly the range and the entry of `old`.
    pub fn exchange(&mut self, head: u32, old: Piece, entry: EntryRef) {
        let mut at = head;
        while self.pool[at as usize].piece != old {
            at = self.pool[at as usize].next;
        }
        self.pool[at as usize].piece.entry = entry;
    }

    /// Takes out the chunk that equals `piece`; returns the list's head.
    pub fn remove(&mut self, head: u32, piece: Piece) -> u32 {
        let mut prev = NIL;
        let mut at = head;
        while self.pool[at as usize].piece != piece {
            prev = at;
            at = self.pool[at as usize].next;
        }
        let next = self.pool[at as usize].next;
        self.release(at);
        if prev == NIL {
            return next;
        }
        self.pool[prev as usize].next = next;
        head
    }

    /// Frees a whole list.
    pub fn free_list(&mut self, head: u32) {
        let mut at = head;
        while at != NIL {
            let next = self.pool[at as usize].next;
            self.release(at);
            at = next;
        }
    }

    fn allocate(&mut self, chunk: Chunk) -> u32 {
        self.len += 1;
        if self.free != NIL {
            let at = self.free;
            self.free = self.pool[at as usize].next;
            self.pool[at as usize] = chunk;
            return at;
        }
        if self.pool.capacity() == self.pool.len() {
            self.pool.reserve_exact((self.pool.len() / 4).max(4));
        }
        self.pool.push(chunk);
        (self.pool.len() - 1) as u32
    }

    fn release(&mut self, at: u32) {
        self.pool[at as usize].next = self.free;
        self.free = at;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_takes_twelve_bytes() {
        assert_eq!(size_of::<Chunk>(), 12);
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
