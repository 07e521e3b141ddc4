//! Legal crash states of a [`Tape`](super::tape::Tape): what a drive with a volatile cache may hold when the
//! power fails.
//!
//! ```text
//!   cut before entry 6:   w0 w1 F2 w3 w4 F5 | w6
//!     F5 was answered     w0 w1 w3 w4 are durable, where each had ended before F5 came
//!     F5 was not          w0 w1 are durable; w3 w4: any subset, each in whole or page by page
//! ```
//!
//! Of two writes to one block the later one wins where both are kept; keeping the first alone is another
//! subset. A page is whole: the device's sectors have 4 KiB.

use super::tape::{Asked, TapeEntry};
use granary_sim::rng::Stream;
use granary_units::Page;
use rustc_hash::FxHashMap;
use std::hash::{Hash, Hasher};

/// Blocks that differ from the base; `None`: zeros.
pub type Overlay = FxHashMap<u64, Option<Page>>;

/// Of many writes of several pages that are kept, one is torn.
const TORN: f64 = 0.15;

/// Cuts that one is chosen of.
const TRIES: u32 = 4;

/// A crash state.
pub struct CrashState {
    /// Entries that had arrived.
    pub cut: usize,
    /// The drive's content above the base.
    pub overlay: Overlay,
    /// Writes that no flush covered.
    pub loose: usize,
    /// Of these, the ones that are there, at least in part.
    pub kept: Vec<usize>,
    /// Which state of this tape it is: equal states have equal numbers.
    pub identity: u64,
}

/// Which entries before `cut` are durable. `ignored`: so many of the last flushes are as if they had never
/// been.
pub fn durable(entries: &[TapeEntry], cut: usize, ignored: usize) -> Vec<bool> {
    let now = entries.get(cut).map_or(u64::MAX, |next| next.arrived);
    let flushes = entries[..cut].iter().filter(|e| matches!(e.asked, Asked::Flush) && e.ended < now);
    let mut arrivals: Vec<u64> = flushes.map(|e| e.arrived).collect();
    arrivals.sort_unstable();
    arrivals.truncate(arrivals.len().saturating_sub(ignored));
    let covered = arrivals.last().copied().unwrap_or(0);
    entries[..cut].iter().map(|e| e.ended < covered).collect()
}

fn pages(entry: &TapeEntry) -> u64 {
    match &entry.asked {
        Asked::Write(_, pages) => pages.len() as u64,
        Asked::Zero(_, count) => *count,
        Asked::Flush => 0,
    }
}

fn put(overlay: &mut Overlay, entry: &TapeEntry, is_kept: impl Fn(u64) -> bool) {
    match &entry.asked {
        Asked::Write(first, pages) => {
            let kept = pages.iter().enumerate().filter(|(i, _)| is_kept(*i as u64));
            overlay.extend(kept.map(|(i, page)| (first + i as u64, Some(page.clone()))));
        }
        Asked::Zero(first, count) => {
            overlay.extend((0..*count).filter(|&i| is_kept(i)).map(|i| (first + i, None)));
        }
        Asked::Flush => {}
    }
}

/// Which of `n` loose writes are kept.
fn choose(n: usize, random: &mut Stream) -> Vec<bool> {
    let one = random.below(n.max(1) as u64) as usize;
    let share = [0.5, 0.1, 0.9][random.below(3) as usize];
    match random.below(9) {
        0 => vec![false; n],
        1 => vec![true; n],
        2 => (0..n).map(|i| i != one).collect(),
        3 => (0..n).map(|i| i == one).collect(),
        // The newest first, as a drive may write back.
        4 => (0..n).map(|i| i >= one).collect(),
        5 => (0..n).map(|i| i <= one).collect(),
        _ => (0..n).map(|_| random.chance(share)).collect(),
    }
}

/// The pages of a torn write: a beginning, an end, or any.
fn tear(n: u64, random: &mut Stream) -> Vec<bool> {
    let at = 1 + random.below(n - 1);
    match random.below(3) {
        0 => (0..n).map(|i| i < at).collect(),
        1 => (0..n).map(|i| i >= at).collect(),
        _ => (0..n).map(|_| random.chance(0.5)).collect(),
    }
}

/// Draws a state of a power failure before entry `cut`.
pub fn draw(entries: &[TapeEntry], cut: usize, ignored: usize, random: &mut Stream) -> CrashState {
    let durable = durable(entries, cut, ignored);
    let mut overlay = Overlay::default();
    for (entry, _) in entries.iter().zip(&durable).filter(|(_, d)| **d) {
        put(&mut overlay, entry, |_| true);
    }
    let loose: Vec<usize> = (0..cut).filter(|&i| !durable[i] && pages(&entries[i]) > 0).collect();
    let chosen = choose(loose.len(), random);
    let (mut kept, mut hash) = (Vec::new(), rustc_hash::FxHasher::default());
    cut.hash(&mut hash);
    for (&i, _) in loose.iter().zip(&chosen).filter(|(_, c)| **c) {
        let (entry, n) = (&entries[i], pages(&entries[i]));
        kept.push(i);
        i.hash(&mut hash);
        if n > 1 && random.chance(TORN) {
            let parts = tear(n, random);
            parts.hash(&mut hash);
            put(&mut overlay, entry, |page| parts[page as usize]);
        } else {
            put(&mut overlay, entry, |_| true);
        }
    }
    CrashState { cut, overlay, loose: loose.len(), kept, identity: hash.finish() }
}

/// Where the power fails: anywhere, beside a flush, or beside a call.
pub fn cut(entries: &[TapeEntry], calls: &[usize], random: &mut Stream) -> usize {
    let len = entries.len() as u64;
    let flushes: Vec<usize> =
        (0..entries.len()).filter(|&i| matches!(entries[i].asked, Asked::Flush)).collect();
    let near = match random.below(3) {
        0 if !flushes.is_empty() => flushes[random.below(flushes.len() as u64) as usize] + 1,
        1 if !calls.is_empty() => calls[random.below(calls.len() as u64) as usize],
        _ => return random.below(len + 1) as usize,
    };
    (near + random.below(3) as usize).saturating_sub(1).min(entries.len())
}

/// A [`cut`]; most often, of a few, the one with the most writes that no flush covers: much is legal there.
pub fn busy_cut(entries: &[TapeEntry], calls: &[usize], ignored: usize, random: &mut Stream) -> usize {
    let tries = if random.chance(0.25) { 1 } else { TRIES };
    let loose = |cut: usize| durable(entries, cut, ignored).iter().filter(|d| !**d).count();
    let cuts: Vec<usize> = (0..tries).map(|_| cut(entries, calls, random)).collect();
    cuts.into_iter().max_by_key(|&cut| loose(cut)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn write(block: u64, words: &[u64], arrived: u64, ended: u64) -> TapeEntry {
        let pages = words.iter().map(|&word| Page::word(word)).collect();
        TapeEntry { asked: Asked::Write(block, pages), arrived, ended }
    }

    fn flush(arrived: u64, ended: u64) -> TapeEntry {
        TapeEntry { asked: Asked::Flush, arrived, ended }
    }

    fn word(state: &CrashState, block: u64) -> u64 {
        let page = state.overlay.get(&block).cloned().flatten();
        page.and_then(|page| page.as_word()).map_or(0, |(word, _)| word)
    }

    fn states(entries: &[TapeEntry], cut: usize, ignored: usize, blocks: &[u64]) -> BTreeSet<Vec<u64>> {
        let mut random = Stream::new(1, "test");
        let all = (0..400).map(|_| draw(entries, cut, ignored, &mut random));
        all.map(|s| blocks.iter().map(|&b| word(&s, b)).collect()).collect()
    }

    #[test]
    fn what_ended_before_an_answered_flush_came_is_durable_and_the_rest_may_be_there() {
        // The second write ends while the flush is under way.
        let tape = [write(1, &[11], 1, 2), write(2, &[22], 3, 5), flush(4, 6), write(3, &[33], 7, 8)];
        let all = states(&tape, 4, 0, &[1, 2, 3]);
        assert_eq!(all, BTreeSet::from([vec![11, 0, 0], vec![11, 22, 0], vec![11, 0, 33], vec![11, 22, 33]]));
        assert_eq!(states(&tape, 2, 0, &[1, 2]).len(), 4, "no flush was answered yet");
    }

    #[test]
    fn a_flush_that_is_not_answered_covers_nothing() {
        let tape = [write(1, &[11], 1, 2), flush(3, 6), write(2, &[22], 4, 5)];
        assert_eq!(durable(&tape, 2, 0), [false, false], "the next write came before its answer");
        assert_eq!(durable(&tape, 3, 0), [true, false, false]);
        assert_eq!(durable(&tape, 3, 1), [false; 3], "a drive that lies");
    }

    #[test]
    fn each_page_of_a_torn_write_is_old_or_new_and_the_later_of_two_writes_wins() {
        let tape = [write(1, &[11, 12], 1, 2), flush(3, 4), write(1, &[21, 22], 5, 6), write(2, &[32], 7, 8)];
        let all = states(&tape, 4, 0, &[1, 2]);
        let expected = [[11, 12], [21, 22], [21, 12], [11, 22], [11, 32], [21, 32]].map(|s| s.to_vec());
        assert_eq!(all, BTreeSet::from(expected));
    }

    #[test]
    fn zeros_are_a_write() {
        let zero = TapeEntry { asked: Asked::Zero(1, 1), arrived: 5, ended: 6 };
        let tape = [write(1, &[11], 1, 2), flush(3, 4), zero];
        assert_eq!(states(&tape, 3, 0, &[1]), BTreeSet::from([vec![0], vec![11]]));
    }

    #[test]
    fn a_state_is_its_seeds_and_a_cut_lies_on_the_tape() {
        let tape = [write(1, &[11, 12], 1, 2), write(5, &[1], 3, 4), flush(5, 6)];
        let identity = |seed| {
            let mut random = Stream::new(seed, "test");
            let at = cut(&tape, &[0, 2], &mut random);
            assert!(at <= tape.len());
            draw(&tape, at, 0, &mut random).identity
        };
        let all: BTreeSet<u64> = (0..50).map(identity).collect();
        assert!(all.len() > 5);
        assert!((0..50).all(|seed| identity(seed) == identity(seed)));
    }
}
