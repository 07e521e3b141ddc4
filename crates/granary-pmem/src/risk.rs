//! [`Risk`]: lines that are on their way, or arrived, without a fence that was answered. A power failure may
//! take them back.
//!
//! ```text
//!   line 40:  base (fenced) | written back, no. 7 | nt-store, no. 9       each 8-byte word: any of these
//!                                                                         that it had
//!                                     fence behind no. 8 is answered: no. 7 becomes the base
//! ```
//!
//! Kept only while `track_in_flight` is on. The fate of a line at a power failure is drawn: nothing arrives,
//! everything, or each word on its own. So torn lines are as likely as whole ones next to lost ones.
//!
//! Invariants: the versions of a line are in the order of their numbers; the newest is what the medium has.
//! It does *not* promise that two stores to one line arrive in their order, which x86 processors do for
//! cached stores: only an aligned word of 8 bytes is whole.
//!
//! Source: docs/FAULT_MODEL.md; Intel 64 and IA-32 Architectures Software Developer's Manual, 8 bytes are
//! written at once.

use granary_sim::rng::{Stream, Thing};
use granary_units::LINE_SIZE;
use std::collections::BTreeMap;

/// Bytes that power failures leave whole.
pub const WORD: usize = 8;
/// Words of a line.
pub const WORDS: usize = LINE_SIZE / WORD;

type Line = [u8; LINE_SIZE];

#[derive(Clone, Debug)]
struct Version {
    number: u64,
    /// The line's content behind it.
    content: Line,
    /// Words that it changed.
    words: u8,
    /// It changed every byte, so that a line which could not be read can be.
    whole: bool,
}

#[derive(Clone, Debug)]
struct Exposed {
    base: Line,
    /// The base could not be read.
    bad: bool,
    versions: Vec<Version>,
}

/// A line after a power failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The line's number.
    pub line: u64,
    /// Its content.
    pub content: Line,
    /// It cannot be read: it could not before, and not all of what would have healed it arrived.
    pub bad: bool,
}

/// All lines at risk.
#[derive(Clone, Default)]
pub struct Risk {
    lines: BTreeMap<u64, Exposed>,
    /// Fences on their way: (answered at, number of the last write before it).
    pub fences: Vec<(granary_units::Nanos, u64)>,
}

/// The words that a mask of bytes touches, a bit for each.
pub fn words_of(mask: u64) -> u8 {
    (0..WORDS).fold(0, |words, w| words | (u8::from(mask >> (w * WORD) & 0xff != 0) << w))
}

/// Which words of a line arrive: none, all, or each on its own.
pub fn draw_words(line: u64, random: &mut Stream) -> u8 {
    let draw = |random: &mut Stream| match random.below(3) {
        0 => 0,
        1 => u8::MAX,
        _ => random.next_u64() as u8,
    };
    random.fate(Thing::Line("held", line), u64::from(u8::MAX), |random| u64::from(draw(random))) as u8
}

/// Takes the words whose bit is set over from another line.
pub fn take_words(words: u8, from: &Line, to: &mut Line) {
    for w in (0..WORDS).filter(|w| words >> w & 1 == 1) {
        to[w * WORD..(w + 1) * WORD].copy_from_slice(&from[w * WORD..(w + 1) * WORD]);
    }
}

impl Risk {
    /// Write no. `number` changes the bytes of `mask` in a line from what `before` says to `after`.
    pub fn write(
        &mut self,
        line: u64,
        number: u64,
        mask: u64,
        bad: bool,
        before: impl FnOnce() -> Line,
        after: Line,
    ) {
        let exposed = self.lines.entry(line).or_insert_with(|| Exposed {
            base: before(),
            bad,
            versions: Vec::with_capacity(1),
        });
        let (words, whole) = (words_of(mask), mask == u64::MAX);
        exposed.versions.push(Version { number, content: after, words, whole });
    }

    /// Everything up to write no. `number` is safe.
    pub fn safe(&mut self, number: u64) {
        self.lines.retain(|_, exposed| {
            let n = exposed.versions.partition_point(|v| v.number <= number);
            if let Some(last) = n.checked_sub(1) {
                exposed.bad &= !exposed.versions[..n].iter().any(|v| v.whole);
                exposed.base = exposed.versions[last].content;
                exposed.versions.drain(..n);
            }
            !exposed.versions.is_empty()
        });
    }

    /// Everything counts as safe.
    pub fn forget(&mut self) {
        self.lines.clear();
        self.fences.clear();
    }

    /// Whether nothing is at risk.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Power fails: takes everything out; returns what is left of each line.
    pub fn fail(&mut self, random: &mut Stream) -> Vec<Left> {
        self.fences.clear();
        std::mem::take(&mut self.lines).into_iter().map(|(line, e)| e.fail(line, random)).collect()
    }
}

impl Exposed {
    /// Versions that changed a word.
    fn touching(&self, w: usize) -> impl DoubleEndedIterator<Item = (usize, &Version)> {
        self.versions.iter().enumerate().filter(move |(_, v)| v.words >> w & 1 == 1)
    }

    /// Of each word the number of the version that it has; 0 is the base. No byte holds more than the last of
    /// 255 versions.
    fn draw(&self, random: &mut Stream) -> [u8; WORDS] {
        let draw = random.below(3);
        std::array::from_fn(|w| {
            let count = self.touching(w).count() as u64;
            let taken = match draw {
                0 => 0,
                1 => count,
                _ => random.below(count + 1),
            };
            u8::try_from(taken).unwrap_or(u8::MAX)
        })
    }

    fn fail(self, line: u64, random: &mut Stream) -> Left {
        let newest: [u8; WORDS] =
            std::array::from_fn(|w| u8::try_from(self.touching(w).count()).unwrap_or(u8::MAX));
        let whole = u64::from_le_bytes(newest);
        let draw = |random: &mut Stream| u64::from_le_bytes(self.draw(random));
        let taken = random.fate(Thing::Line("line", line), whole, draw).to_le_bytes();
        let mut content = self.base;
        // From which version on the line can be read, and the words that have come so far.
        let heals = self.versions.iter().position(|v| v.whole);
        let mut healed = 0u8;
        for (w, taken) in taken.into_iter().enumerate() {
            let version = match taken {
                0 => None,
                u8::MAX => self.touching(w).next_back(),
                n => self.touching(w).nth(usize::from(n) - 1),
            };
            if let Some((i, version)) = version {
                take_words(1 << w, &version.content, &mut content);
                healed |= u8::from(heals.is_some_and(|first| i >= first)) << w;
            }
        }
        Left { line, content, bad: self.bad && healed != u8::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(word: u64) -> Line {
        word.to_le_bytes().repeat(WORDS).try_into().expect("a line")
    }

    fn word(line: &Line, w: usize) -> u64 {
        u64::from_le_bytes(line[w * WORD..(w + 1) * WORD].try_into().expect("a word"))
    }

    #[test]
    fn each_word_has_one_of_the_versions_since_the_last_fence_and_all_of_them_occur() {
        let mut seen = [[false; 4]; WORDS];
        for seed in 0..200 {
            let mut risk = Risk::default();
            risk.write(3, 1, u64::MAX, false, || line(0), line(1));
            risk.write(3, 2, u64::MAX, false, || unreachable!("it has a base"), line(2));
            risk.safe(1);
            risk.write(3, 3, u64::MAX, false, || unreachable!("it has a base"), line(3));
            let left = risk.fail(&mut Stream::new(seed, "risk"));
            assert!(left.len() == 1 && left[0].line == 3 && !left[0].bad);
            (0..WORDS).for_each(|w| seen[w][word(&left[0].content, w) as usize] = true);
        }
        assert_eq!(seen, [[false, true, true, true]; WORDS]);
    }

    #[test]
    fn what_is_fenced_is_not_at_risk() {
        let mut risk = Risk::default();
        risk.write(3, 1, 1, false, || line(0), line(1));
        risk.safe(1);
        assert!(risk.is_empty());
    }

    #[test]
    fn a_bad_line_is_readable_only_if_all_of_what_heals_it_arrived() {
        let mut outcomes = [0; 2];
        for seed in 0..200 {
            let mut risk = Risk::default();
            risk.write(3, 1, u64::MAX, true, || line(0), line(1));
            let left = risk.fail(&mut Stream::new(seed, "risk")).remove(0);
            assert_eq!(left.bad, left.content != line(1));
            outcomes[usize::from(left.bad)] += 1;
        }
        assert!(outcomes.iter().all(|&n| n > 20), "{outcomes:?}");
    }

    #[test]
    fn a_mask_of_bytes_touches_words() {
        assert_eq!((words_of(0), words_of(1), words_of(0x180), words_of(u64::MAX)), (0, 1, 0b11, 0xff));
    }
}
