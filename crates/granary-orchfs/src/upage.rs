//! The header of an Upage: which bytes of its page are on the NVM.
//!
//! ```text
//!   56 B   | offset 2, length 2 | ... 14 times |      sorted, apart from each other; length 0 ends the list
//! ```
//!
//! A chunk's bytes lie in the page's body at their own offset. A header that covers the whole page makes it a
//! plain page; the empty one is that of a slot without a page. A write merges with what is there: the header
//! becomes the union. Where that would need a 15th entry the page is consolidated first
//! ([`crate::partition`]).
//!
//! Invariants: entries ascend, do not overlap and do not touch; none is empty or leaves the page.
//!
//! Source: OrchFS section 3.3 (notes of the paper: 56 B, 14 entries, "merge-on-write"); slides, "64B header +
//! 4KB data": the header with the number of its page.

use crate::geometry::PAGE;
use granary_fs::Result;
use granary_pm::bytes::{put_u16, u16_at};
use granary_pm::corrupt;

/// Entries of a header.
pub const ENTRIES: usize = 14;
/// Bytes of a header.
pub const HEADER: usize = ENTRIES * 4;

const WHOLE: u16 = PAGE as u16;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    count: u8,
    /// (first byte, byte behind the last).
    entries: [(u16, u16); ENTRIES],
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.chunks()).finish()
    }
}

impl Header {
    /// No byte is on the NVM.
    pub const EMPTY: Header = Header { count: 0, entries: [(0, 0); ENTRIES] };

    /// Every byte is.
    pub fn whole() -> Header {
        Header::of(0, WHOLE)
    }

    /// One chunk; empty where the chunk is.
    pub fn of(from: u16, to: u16) -> Header {
        let mut header = Header::EMPTY;
        if from < to {
            header.entries[0] = (from, to.min(WHOLE));
            header.count = 1;
        }
        header
    }

    /// The chunks: (first byte, byte behind the last).
    pub fn chunks(&self) -> impl DoubleEndedIterator<Item = (u16, u16)> + '_ {
        self.entries[..self.count as usize].iter().copied()
    }

    /// No chunk.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// It covers the page.
    pub fn is_whole(&self) -> bool {
        self.count == 1 && self.entries[0] == (0, WHOLE)
    }

    /// Whether all of these bytes are on the NVM.
    pub fn covers(&self, from: u16, to: u16) -> bool {
        self.chunks().any(|(f, t)| f <= from && to <= t)
    }

    /// With these bytes too. `None` where it takes more entries than there are.
    pub fn with(&self, from: u16, to: u16) -> Option<Header> {
        let (mut new, mut all) = ((from, to), Header::EMPTY);
        let mut is_in = from >= to;
        for (f, t) in self.chunks() {
            if t < new.0 || is_in {
                all.push((f, t))?;
            } else if f > new.1 {
                all.push(new)?;
                all.push((f, t))?;
                is_in = true;
            } else {
                new = (new.0.min(f), new.1.max(t));
            }
        }
        if !is_in {
            all.push(new)?;
        }
        Some(all)
    }

    fn push(&mut self, chunk: (u16, u16)) -> Option<()> {
        *self.entries.get_mut(self.count as usize)? = chunk;
        self.count += 1;
        Some(())
    }

    /// The bytes of `from..to` that are not on the NVM.
    pub fn gaps(&self, from: u16, to: u16) -> Vec<(u16, u16)> {
        let (mut at, mut gaps) = (from, Vec::new());
        for (f, t) in self.chunks() {
            if f > at && at < to {
                gaps.push((at, f.min(to)));
            }
            at = at.max(t);
        }
        if at < to {
            gaps.push((at, to));
        }
        gaps
    }

    /// As it lies on the NVM.
    pub fn bytes(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        for (i, (from, to)) in self.chunks().enumerate() {
            put_u16(&mut out, 4 * i, from);
            put_u16(&mut out, 4 * i + 2, to - from);
        }
        out
    }

    /// Reads one.
    ///
    /// # Errors
    /// `Corrupt` where the entries are no header.
    pub fn parse(bytes: &[u8]) -> Result<Header> {
        let (mut header, mut end) = (Header::EMPTY, None);
        for i in 0..ENTRIES {
            let (from, len) = (u16_at(bytes, 4 * i), u16_at(bytes, 4 * i + 2));
            if len == 0 {
                if bytes[4 * i..HEADER].iter().any(|b| *b != 0) {
                    return Err(corrupt(format!("a page header goes on behind its end, entry {i}")));
                }
                break;
            }
            let to = u32::from(from) + u32::from(len);
            if to > u32::from(WHOLE) || end.is_some_and(|end| from <= end) {
                return Err(corrupt(format!("a page header has bytes {from}+{len} as entry {i}")));
            }
            (header.entries[i], header.count) = ((from, to as u16), i as u8 + 1);
            end = Some(to as u16);
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    /// Bit n: byte n is in.
    fn model(header: &Header) -> Vec<bool> {
        let mut bytes = vec![false; PAGE as usize];
        header.chunks().for_each(|(f, t)| bytes[f as usize..t as usize].fill(true));
        bytes
    }

    fn runs(bytes: &[bool]) -> usize {
        (0..bytes.len()).filter(|i| bytes[*i] && (*i == 0 || !bytes[i - 1])).count()
    }

    #[test]
    fn a_union_is_the_union_of_the_bytes_and_is_refused_only_when_it_has_15_runs() {
        let mut random = Stream::new(1, "headers");
        let mut refused = 0;
        for seed in 0..300 {
            let mut header = Header::EMPTY;
            for _ in 0..40 {
                let from = random.below(PAGE) as u16;
                let longest = [1, 20, 60, 300][random.below(if seed % 2 == 0 { 2 } else { 4 }) as usize];
                let to = (u64::from(from) + 1 + random.below(longest)).min(PAGE) as u16;
                let mut bytes = model(&header);
                bytes[from as usize..to as usize].fill(true);
                match header.with(from, to) {
                    Some(new) => {
                        assert!(model(&new) == bytes, "{header:?} with {from}..{to} is {new:?}");
                        assert_eq!(Header::parse(&new.bytes()), Ok(new));
                        header = new;
                    }
                    None => {
                        assert_eq!(runs(&bytes), ENTRIES + 1);
                        refused += 1;
                        break;
                    }
                }
                let (a, b) = (random.below(PAGE) as u16, random.below(PAGE + 1) as u16);
                let gaps = header.gaps(a, b);
                let missing: u64 = gaps.iter().map(|(f, t)| u64::from(t - f)).sum();
                let bytes = model(&header);
                let range = a as usize..(b as usize).max(a as usize);
                assert_eq!(missing, bytes[range].iter().filter(|b| !**b).count() as u64);
                assert!(a >= b || header.covers(a, b) == gaps.is_empty());
            }
        }
        assert!(refused > 20, "only {refused} were full");
    }

    #[test]
    fn bytes_that_are_no_header_are_refused() {
        let bad: [&[(u16, u16)]; 5] =
            [&[(0, 4097)], &[(4000, 97)], &[(10, 5), (15, 5)], &[(10, 5), (3, 2)], &[(0, 0), (5, 5)]];
        for entries in bad {
            let mut bytes = [0; HEADER];
            for (i, (from, len)) in entries.iter().enumerate() {
                put_u16(&mut bytes, 4 * i, *from);
                put_u16(&mut bytes, 4 * i + 2, *len);
            }
            assert!(Header::parse(&bytes).is_err(), "{entries:?}");
        }
    }
}
