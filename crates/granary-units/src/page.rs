//! [`Page`]: 4096 bytes of content, kept as one repeated word, or as a few lines in zeros, where that is all
//! it is.
//!
//! ```text
//!   Word { word, len }     bytes 0..len repeat `word` (little endian, phase 0), bytes len..4096 are zero
//!   Lines                  some 64 B lines, all others are zero: what was packed for keeping
//!   Bytes(Arc<[u8; 4096]>) anything else; copied on write when shared
//! ```
//!
//! One type serves flash media, transfers and the page cache (design section 4): a million generated files
//! cost 16 bytes per page, and handing a page on is a reference count, never a copy. The content is always
//! real: every byte can be read, and a partial write turns a word page into bytes where it no longer repeats.
//!
//! Invariant: `Word.len <= 4096`; `Word { word: 0, .. }` is always stored with `len == 0` ([`Page::ZERO`]),
//! and a `Word` with `len == 0` always has `word == 0`, so equal content made of words compares equal
//! cheaply.
//!
//! It does *not* compress: [`Page::from_bytes`] finds a repeated word (vectorised compare), [`Page::packed`],
//! for an owner that keeps a page, leaves lines of zeros out; nothing cleverer. Changes turn packed pages
//! into bytes again.

mod lines;

use crate::addr::PAGE_SIZE;
use lines::Lines;
use std::fmt;
use triomphe::Arc;

/// The content of one 4 KiB page. Cloning is cheap (at most a reference count).
#[derive(Clone)]
pub struct Page(Repr);

#[derive(Clone)]
enum Repr {
    Word { word: u64, len: u16 },
    Bytes(Arc<[u8; PAGE_SIZE]>),
    Lines(Lines),
}

/// Data on its way into a file: real bytes, or a word repeated over a length.
///
/// The byte of a [`Payload::Fill`] that lands at file offset `o` is byte `o % 8` of the little-endian word,
/// so that neighbouring fills of one word join seamlessly whatever their boundaries.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// `len` bytes of a repeated word, in phase with the file offset.
    Fill {
        /// The repeated word.
        word: u64,
        /// Number of bytes.
        len: usize,
    },
}

/// Where data read from a file goes.
#[derive(Debug)]
pub enum Dest<'a> {
    /// Into this buffer.
    Bytes(&'a mut [u8]),
    /// Nowhere: the caller wants the effect and the cost of reading this many bytes, not the bytes.
    Discard(usize),
}

impl<'a> Payload<'a> {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Payload::Bytes(b) => b.len(),
            Payload::Fill { len, .. } => *len,
        }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part from `from` that is `len` bytes long.
    ///
    /// # Panics
    /// Where the part does not lie within the payload.
    pub fn part(&self, from: usize, len: usize) -> Payload<'a> {
        match self {
            Payload::Bytes(b) => Payload::Bytes(&b[from..from + len]),
            Payload::Fill { word, len: all } => {
                assert!(from + len <= *all, "part {from}+{len} outside a fill of {all}");
                Payload::Fill { word: *word, len }
            }
        }
    }

    /// Copies the payload into `out` as it would appear at file offset `at`.
    ///
    /// # Panics
    /// Where `out` has another length.
    pub fn copy_to(&self, at: u64, out: &mut [u8]) {
        assert_eq!(out.len(), self.len());
        match self {
            Payload::Bytes(b) => out.copy_from_slice(b),
            Payload::Fill { word, .. } => fill_phase(out, *word, (at % 8) as usize),
        }
    }
}

impl Dest<'_> {
    /// Number of bytes wanted.
    pub fn len(&self) -> usize {
        match self {
            Dest::Bytes(b) => b.len(),
            Dest::Discard(n) => *n,
        }
    }

    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part from `from` that is `len` bytes long.
    ///
    /// # Panics
    /// Where the part does not lie within the destination.
    pub fn part(&mut self, from: usize, len: usize) -> Dest<'_> {
        match self {
            Dest::Bytes(b) => Dest::Bytes(&mut b[from..from + len]),
            Dest::Discard(n) => {
                assert!(from + len <= *n, "part {from}+{len} outside a destination of {n}");
                Dest::Discard(len)
            }
        }
    }

    /// Writes zeros everywhere.
    pub fn zero(&mut self) {
        if let Dest::Bytes(b) = self {
            b.fill(0);
        }
    }

    /// Takes the bytes `from..from + self.len()` of `page`.
    pub fn copy_from(&mut self, page: &Page, from: usize) {
        if let Dest::Bytes(b) = self {
            page.copy_out(from, b);
        }
    }
}

/// Fills `out` with `word` repeated, starting at byte `phase` (0-7) of the word.
fn fill_phase(out: &mut [u8], word: u64, phase: usize) {
    let turned = word.rotate_right(phase as u32 * 8).to_le_bytes();
    let mut chunks = out.chunks_exact_mut(8);
    for c in &mut chunks {
        c.copy_from_slice(&turned);
    }
    let rest = chunks.into_remainder();
    let n = rest.len();
    rest.copy_from_slice(&turned[..n]);
}

impl Page {
    /// Bytes in a page.
    pub const SIZE: usize = PAGE_SIZE;
    /// Lines up to which packing pays: it saves a quarter of a page's memory and more.
    pub const FEW_LINES: u32 = 48;
    /// Lines up to which a cache packs what it looks at now and then: a quarter of a page (reasoned, not
    /// measured).
    pub const KEPT_LINES: u32 = 16;
    /// All zeros.
    pub const ZERO: Page = Page(Repr::Word { word: 0, len: 0 });

    /// A page that repeats `word` (little endian) from its first byte to its last.
    pub fn word(word: u64) -> Page {
        Page::prefix(word, PAGE_SIZE)
    }

    /// A page whose first `len` bytes repeat `word` and whose rest is zero.
    ///
    /// # Panics
    /// Where `len` exceeds the page.
    pub fn prefix(word: u64, len: usize) -> Page {
        assert!(len <= PAGE_SIZE, "prefix of {len} bytes in a page of {PAGE_SIZE}");
        if word == 0 || len == 0 { Page::ZERO } else { Page(Repr::Word { word, len: len as u16 }) }
    }

    /// A page with these bytes; found to be a repeated word where it is one.
    pub fn from_bytes(bytes: &[u8; PAGE_SIZE]) -> Page {
        match repeated(bytes) {
            Some(word) => Page::word(word),
            None => Page(Repr::Bytes(Arc::new(*bytes))),
        }
    }

    /// The page for keeping: without its lines of zeros where at most `lines` (1-64) of its 64 lines are
    /// anything else.
    ///
    /// The copy shares nothing with `self` then, which a change will not have to copy. A page of 16 lines
    /// takes a quarter of the memory; reading it as bytes costs a copy.
    pub fn packed(&self, lines: u32) -> Page {
        match &self.0 {
            Repr::Bytes(b) => match Lines::of(b, lines) {
                Some(few) if few.is_empty() => Page::ZERO,
                Some(few) => Page(Repr::Lines(few)),
                None => self.clone(),
            },
            _ => self.clone(),
        }
    }

    /// The page as bytes where it is packed: for callers that hand the bytes on, or look at them often.
    pub fn unpacked(&self) -> Page {
        match &self.0 {
            Repr::Lines(lines) => Page(Repr::Bytes(Arc::new(lines.expand()))),
            _ => self.clone(),
        }
    }

    /// Where the page's count of references is, for fetching it into the processor's caches; `None` for a
    /// word.
    pub fn count_at(&self) -> Option<usize> {
        match &self.0 {
            Repr::Word { .. } => None,
            Repr::Bytes(b) => Some(b.heap_ptr().addr()),
            Repr::Lines(lines) => Some(lines.address()),
        }
    }

    /// Holds the page as a repeated word if that is what changes through [`Page::bytes_mut`] have made of it.
    pub fn compact(&mut self) {
        if let Some(word) = self.as_bytes().and_then(repeated) {
            *self = Page::word(word);
        }
    }

    /// Whether every byte is zero (exact for word pages; byte pages are compared).
    pub fn is_zero(&self) -> bool {
        match &self.0 {
            Repr::Word { word, .. } => *word == 0,
            Repr::Lines(_) => false,
            Repr::Bytes(b) => b.iter().all(|&x| x == 0),
        }
    }

    /// Whether the page is held as a repeated word (and so takes no memory of its own).
    pub fn is_word(&self) -> bool {
        matches!(self.0, Repr::Word { .. })
    }

    /// The repeated word and the bytes that it fills from the page's start (the rest is zero), where the page
    /// is held as one.
    pub fn as_word(&self) -> Option<(u64, usize)> {
        match &self.0 {
            Repr::Word { word, len } => Some((*word, *len as usize)),
            Repr::Bytes(_) | Repr::Lines(_) => None,
        }
    }

    /// Copies bytes `from..from + out.len()` out.
    ///
    /// # Panics
    /// Where the range leaves the page.
    pub fn copy_out(&self, from: usize, out: &mut [u8]) {
        assert!(from + out.len() <= PAGE_SIZE);
        match &self.0 {
            Repr::Bytes(b) => out.copy_from_slice(&b[from..from + out.len()]),
            Repr::Lines(lines) => lines.copy_out(from, out),
            Repr::Word { word, len } => {
                let filled = (*len as usize).saturating_sub(from).min(out.len());
                let (head, tail) = out.split_at_mut(filled);
                fill_phase(head, *word, from % 8);
                tail.fill(0);
            }
        }
    }

    /// The whole content as bytes.
    pub fn to_bytes(&self) -> [u8; PAGE_SIZE] {
        let mut out = [0; PAGE_SIZE];
        self.copy_out(0, &mut out);
        out
    }

    /// The bytes where the page is held as bytes already; `None` for a word page or a packed one.
    pub fn as_bytes(&self) -> Option<&[u8; PAGE_SIZE]> {
        match &self.0 {
            Repr::Bytes(b) => Some(b),
            Repr::Word { .. } | Repr::Lines(_) => None,
        }
    }

    /// Looks at the whole content, which is copied where the page is not held as bytes.
    #[inline]
    pub fn with_bytes<T>(&self, f: impl FnOnce(&[u8; PAGE_SIZE]) -> T) -> T {
        match self.as_bytes() {
            Some(bytes) => f(bytes),
            None => f(&self.to_bytes()),
        }
    }

    /// Whether both are one piece of memory, so that neither has changed since one was made of the other.
    /// Word pages, which have none, never are; pages of equal content may be two.
    pub fn is_same(&self, other: &Page) -> bool {
        match (&self.0, &other.0) {
            (Repr::Bytes(a), Repr::Bytes(b)) => Arc::ptr_eq(a, b),
            (Repr::Lines(a), Repr::Lines(b)) => a.is_same(b),
            _ => false,
        }
    }

    /// The bytes for changing in place; any other page is turned into bytes first, a shared one is copied
    /// first.
    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE_SIZE] {
        match self.0 {
            Repr::Bytes(_) => {}
            Repr::Word { word: 0, .. } => self.0 = Repr::Bytes(Arc::new([0; PAGE_SIZE])),
            Repr::Word { .. } => self.0 = Repr::Bytes(Arc::new(self.to_bytes())),
            Repr::Lines(ref lines) => self.0 = Repr::Bytes(Arc::new(lines.expand())),
        }
        match &mut self.0 {
            Repr::Bytes(b) => Arc::make_mut(b),
            Repr::Word { .. } | Repr::Lines(_) => unreachable!("made bytes above"),
        }
    }

    /// Overwrites the bytes from `at` with `data`, keeping the word form where the result still has it.
    ///
    /// # Panics
    /// Where the range leaves the page.
    pub fn write(&mut self, at: usize, data: Payload<'_>) {
        let end = at + data.len();
        assert!(end <= PAGE_SIZE, "write {at}..{end} leaves the page");
        if data.is_empty() {
            return;
        }
        match data {
            Payload::Fill { word, .. } => self.write_fill(at, end, word),
            Payload::Bytes(b) => {
                if let Ok(whole) = <&[u8; PAGE_SIZE]>::try_from(b) {
                    *self = Page::from_bytes(whole);
                } else {
                    self.bytes_mut()[at..end].copy_from_slice(b);
                }
            }
        }
    }

    fn write_fill(&mut self, at: usize, end: usize, word: u64) {
        if let Repr::Word { word: old, len } = self.0 {
            let len = len as usize;
            // The fill replaces, continues or lies within the prefix: still a prefix of one word.
            let replaces = at == 0 && end >= len;
            let joins = old == word && at <= len;
            let zeroes_tail = word == 0 && end >= len;
            if replaces {
                *self = Page::prefix(word, end);
                return;
            } else if joins {
                *self = Page::prefix(word, len.max(end));
                return;
            } else if zeroes_tail {
                *self = Page::prefix(old, len.min(at));
                return;
            }
        }
        fill_phase(&mut self.bytes_mut()[at..end], word, at % 8);
    }

    /// Zeroes the bytes from `at` to the end of the page.
    pub fn zero_from(&mut self, at: usize) {
        self.write(at, Payload::Fill { word: 0, len: PAGE_SIZE - at });
    }

    /// Takes over the 64 B lines of `from` whose bit is set in `mask` (bit 0 = first line).
    pub fn merge_lines(&mut self, from: &Page, mask: u64) {
        if mask == u64::MAX {
            *self = from.clone();
            return;
        }
        let mut left = mask;
        while left != 0 {
            let first = left.trailing_zeros() as usize;
            let run = (left >> first).trailing_ones() as usize;
            left &= !(ones(run) << first);
            let (a, b) = (first * 64, (first + run) * 64);
            let mut buf = [0u8; PAGE_SIZE];
            from.copy_out(a, &mut buf[a..b]);
            self.bytes_mut()[a..b].copy_from_slice(&buf[a..b]);
        }
    }
}

/// The word that these bytes repeat, if they do.
fn repeated(bytes: &[u8; PAGE_SIZE]) -> Option<u64> {
    // Shifted self-compare: equal to itself 8 bytes on means one word repeated. memcmp is vectorised.
    let repeats = bytes[..PAGE_SIZE - 8] == bytes[8..];
    repeats.then(|| u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")))
}

fn ones(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

impl Default for Page {
    fn default() -> Page {
        Page::ZERO
    }
}

impl PartialEq for Page {
    fn eq(&self, other: &Page) -> bool {
        match (&self.0, &other.0) {
            (Repr::Word { word: a, len: x }, Repr::Word { word: b, len: y }) if x == y => {
                a == b || self.to_bytes() == other.to_bytes()
            }
            (Repr::Bytes(a), Repr::Bytes(b)) => Arc::ptr_eq(a, b) || a == b,
            (Repr::Lines(a), Repr::Lines(b)) => a.is_equal(b),
            _ => self.to_bytes() == other.to_bytes(),
        }
    }
}

impl Eq for Page {}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Word { word, len } => write!(f, "Page({word:#x} x {len}B)"),
            Repr::Bytes(_) | Repr::Lines(_) => {
                let mut head = [0; 8];
                self.copy_out(0, &mut head);
                write!(f, "Page({head:02x?}..)")
            }
        }
    }
}

#[cfg(test)]
mod tests;
