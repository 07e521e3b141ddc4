//! [`Segments`]: a file's content as runs of a repeated word and of bytes; everything else is zero.
//!
//! ```text
//!   0        4096          12288   12300            20000
//!   | Fill w |    (zero)   | Bytes |   (zero)       |
//! ```
//!
//! Invariants: runs do not overlap and are not empty. A filled run repeats its word in phase with the file
//! offset ([`granary_units::Payload::Fill`]), so that cutting one costs nothing.

use granary_units::LINE_SIZE;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Where the bytes of a run come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Zeros.
    Zero,
    /// A word repeated, in phase with the file offset.
    Fill(u64),
    /// `data[i]` is the byte at file offset `origin + i`.
    Bytes { data: Arc<[u8]>, origin: u64 },
    /// An append of bytes that was in flight: any of its bytes may be anywhere.
    Anywhere(Arc<[u8]>),
}

impl Source {
    /// Whether the source has `byte` at `at`.
    fn has(&self, at: u64, byte: u8) -> bool {
        match self {
            Source::Zero => byte == 0,
            Source::Fill(word) => byte == word.to_le_bytes()[(at % 8) as usize],
            Source::Bytes { data, origin } => byte == data[(at - origin) as usize],
            Source::Anywhere(data) => data.contains(&byte),
        }
    }

    /// Whether `bytes` at `at` are this source's.
    pub(super) fn matches(&self, at: u64, bytes: &[u8]) -> bool {
        match self {
            Source::Zero => repeats(&[0; 8], bytes),
            Source::Fill(word) => repeats(&word.rotate_right((at % 8) as u32 * 8).to_le_bytes(), bytes),
            Source::Bytes { data, origin } => {
                let from = (at - origin) as usize;
                data[from..from + bytes.len()] == *bytes
            }
            Source::Anywhere(_) => false,
        }
    }

    fn describe(&self, at: u64) -> String {
        match self {
            Source::Zero => "00".into(),
            Source::Fill(word) => {
                format!("{:02x} of fill {word:#018x}", word.to_le_bytes()[(at % 8) as usize])
            }
            Source::Bytes { data, origin } => format!("{:02x}", data[(at - origin) as usize]),
            Source::Anywhere(_) => "a byte of an append in flight".into(),
        }
    }
}

/// Whether bytes are this word again and again: they begin with it, and each is the one eight before it.
fn repeats(word: &[u8; 8], bytes: &[u8]) -> bool {
    match bytes.split_at_checked(8) {
        Some((first, rest)) => first == word && rest == &bytes[..rest.len()],
        None => *bytes == word[..bytes.len()],
    }
}

/// Compares bytes read at `at` with what may be there; each byte may come from another source. The first that
/// comes from none is described.
pub(crate) fn explain(at: u64, bytes: &[u8], sources: &[Source]) -> Result<(), String> {
    if sources.iter().any(|s| s.matches(at, bytes)) {
        return Ok(());
    }
    let stranger = |(i, byte): &(usize, &u8)| !sources.iter().any(|s| s.has(at + *i as u64, **byte));
    let Some((i, byte)) = bytes.iter().enumerate().find(stranger) else { return Ok(()) };
    let bad = bytes.iter().enumerate().filter(stranger).count();
    let place = at + i as u64;
    let wanted: Vec<String> = sources.iter().map(|s| s.describe(place)).collect();
    let near: Vec<String> = bytes[i..].iter().take(16).map(|b| format!("{b:02x}")).collect();
    Err(format!(
        "byte {place:#x} is {byte:02x} (then {}; {bad} wrong of {} from {at:#x}), it may be {}",
        near.join(" "),
        bytes.len(),
        wanted.join(" or ")
    ))
}

/// The content of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments {
    /// By start: end and source.
    runs: BTreeMap<u64, (u64, Source)>,
}

impl Segments {
    /// `range` is `source`'s now.
    pub(crate) fn write(&mut self, range: Range<u64>, source: Source) {
        if range.is_empty() {
            return;
        }
        self.clear(range.clone());
        if !matches!(source, Source::Zero) {
            self.runs.insert(range.start, (range.end, source));
        }
    }

    fn clear(&mut self, range: Range<u64>) {
        let touched: Vec<u64> = match self.runs.range(..range.start).next_back() {
            Some((&start, &(end, _))) if end > range.start => Some(start),
            _ => None,
        }
        .into_iter()
        .chain(self.runs.range(range.clone()).map(|(&s, _)| s))
        .collect();
        for start in touched {
            let (end, source) = self.runs.remove(&start).expect("listed above");
            if start < range.start {
                self.runs.insert(start, (range.start, source.clone()));
            }
            if end > range.end {
                self.runs.insert(range.end, (end, source));
            }
        }
    }

    /// Zeros from `size` on.
    pub(crate) fn truncate(&mut self, size: u64) {
        self.clear(size..u64::MAX);
    }

    /// Adds the places inside `range` where the source changes.
    pub(crate) fn bounds(&self, range: &Range<u64>, out: &mut Vec<u64>) {
        let before = self.runs.range(..range.start).next_back();
        for (&start, &(end, _)) in before.into_iter().chain(self.runs.range(range.clone())) {
            out.extend([start, end].into_iter().filter(|b| range.contains(b)));
        }
    }

    /// The source at `at`.
    pub(crate) fn at(&self, at: u64) -> Source {
        match self.runs.range(..=at).next_back() {
            Some((_, (end, source))) if *end > at => source.clone(),
            _ => Source::Zero,
        }
    }

    /// Takes over bytes read from a file at `at` (a multiple of 64): lines of one word become fills.
    pub(crate) fn adopt(&mut self, at: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let word = word_of(&bytes[done..]);
            let mut end = next_line(done, bytes.len());
            while end < bytes.len() && word_of(&bytes[end..]) == word {
                end = next_line(end, bytes.len());
            }
            let range = at + done as u64..at + end as u64;
            let source = match word {
                Some(0) => Source::Zero,
                Some(word) => Source::Fill(word),
                None => Source::Bytes { data: bytes[done..end].into(), origin: range.start },
            };
            self.write(range, source);
            done = end;
        }
    }
}

fn next_line(from: usize, len: usize) -> usize {
    (from + LINE_SIZE).min(len)
}

/// The word that the first line repeats; `None` where it repeats none (or is shorter than a word).
fn word_of(bytes: &[u8]) -> Option<u64> {
    let line = &bytes[..bytes.len().min(LINE_SIZE)];
    let word = u64::from_le_bytes(line.get(..8)?.try_into().ok()?);
    Source::Fill(word).matches(0, line).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    /// Random writes, truncates and adoptions: every byte is what a plain array says.
    #[test]
    fn segments_agree_with_a_plain_array() {
        let mut random = Stream::new(1, "segments");
        let (mut segments, mut model) = (Segments::default(), vec![0u8; 4096]);
        for round in 0..3000u64 {
            let at = random.below(4096);
            let end = at + 1 + random.below(4096 - at);
            match random.below(4) {
                0 => {
                    segments.truncate(at);
                    model[at as usize..].fill(0);
                }
                1 => {
                    let at = at / 64 * 64;
                    let copy = model[at as usize..end as usize].to_vec();
                    segments.write(at..end, Source::Fill(round));
                    segments.adopt(at, &copy);
                }
                2 => {
                    let data: Arc<[u8]> = (at..end).map(|i| (i * round) as u8).collect();
                    model[at as usize..end as usize].copy_from_slice(&data);
                    segments.write(at..end, Source::Bytes { data, origin: at });
                }
                _ => {
                    for i in at..end {
                        model[i as usize] = round.to_le_bytes()[(i % 8) as usize];
                    }
                    segments.write(at..end, Source::Fill(round));
                }
            }
            let mut cuts = vec![0, 4096];
            segments.bounds(&(0..4096), &mut cuts);
            cuts.sort_unstable();
            cuts.dedup();
            for w in cuts.windows(2) {
                let bytes = &model[w[0] as usize..w[1] as usize];
                explain(w[0], bytes, &[segments.at(w[0])]).expect("the array's bytes");
            }
        }
    }

    /// One byte of a fill that is another is noticed, wherever it is and however long the fill.
    #[test]
    fn one_foreign_byte_is_noticed_anywhere() {
        let word = 0x0102_0304_0506_0708u64;
        for (source, word) in [(Source::Fill(word), word), (Source::Zero, 0)] {
            for (at, len) in (0..9).flat_map(|at| (1..40).map(move |len| (at, len))) {
                let right: Vec<u8> = (at..at + len).map(|i| word.to_le_bytes()[(i % 8) as usize]).collect();
                assert!(source.matches(at, &right));
                for i in 0..right.len() {
                    let mut wrong = right.clone();
                    wrong[i] ^= 0x40;
                    assert!(!source.matches(at, &wrong), "byte {i} of {len} at {at}");
                }
            }
        }
    }

    #[test]
    fn a_foreign_byte_is_named_with_what_may_be_there() {
        let evidence = explain(8, &[0, 0, 7, 0], &[Source::Zero, Source::Fill(0)]).expect_err("7 is foreign");
        assert!(evidence.starts_with("byte 0xa is 07"), "{evidence}");
    }
}
