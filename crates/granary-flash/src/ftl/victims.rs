//! Live pages: which physical pages hold the newest copy ([`LiveMap`]) and how many of them each block has
//! ([`ValidCounts`], which also finds the greedy gc victim).
//!
//! ```text
//!   count[block]:  [C|  live pages : 15 ]    C = 1 while the block is no candidate (free, open, in gc, bad)
//!   least[group]:  minimum of count over the candidates among 64 blocks; C alone where there is none
//! ```
//!
//! A count only sinks while its block is closed, so the groups' minima follow each overwrite with one
//! comparison; they are searched afresh only when a block of the group opens, closes or is taken. The victim
//! with the fewest live pages of a plane is found by a scan over its groups and one group.
//!
//! Invariant: `least[g]` equals the minimum over its blocks; both are checked by `Ftl::check`.

use granary_units::{bits, prefetch};

/// One bit for each physical page.
#[derive(Clone, Debug)]
pub(crate) struct LiveMap(Vec<u64>);

impl LiveMap {
    pub(crate) fn new(pages: u64) -> LiveMap {
        LiveMap(vec![0; pages.div_ceil(64) as usize])
    }

    /// For `pages` pages; the new ones are not live.
    pub(crate) fn grow(&mut self, pages: u64) {
        self.0.resize(pages.div_ceil(64) as usize, 0);
    }

    #[inline]
    pub(crate) fn set(&mut self, ppa: u32) {
        self.0[ppa as usize / 64] |= 1 << (ppa % 64);
    }

    #[inline]
    pub(crate) fn clear(&mut self, ppa: u32) {
        self.0[ppa as usize / 64] &= !(1 << (ppa % 64));
    }

    /// Fetches the word of a page into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, ppa: u32) {
        prefetch(&self.0, ppa as usize / 64);
    }

    /// Sets `n` bits from `first` on.
    pub(crate) fn set_range(&mut self, first: u32, n: u32) {
        for (word, mask) in bits::words(first.into(), n.into()) {
            self.0[word] |= mask;
        }
    }

    /// Clears `n` bits from `first` on.
    pub(crate) fn clear_range(&mut self, first: u32, n: u32) {
        for (word, mask) in bits::words(first.into(), n.into()) {
            self.0[word] &= !mask;
        }
    }

    #[inline]
    pub(crate) fn get(&self, ppa: u32) -> bool {
        self.0[ppa as usize / 64] >> (ppa % 64) & 1 == 1
    }

    /// The first live page in `from..end`.
    pub(crate) fn next(&self, from: u32, end: u32) -> Option<u32> {
        bits::next_set(&self.0, from.into()..end.into()).map(|ppa| ppa as u32)
    }

    /// How many of `n` pages from `first` on are live.
    pub(crate) fn count_range(&self, first: u32, n: u32) -> u32 {
        bits::words(first.into(), n.into()).map(|(word, mask)| (self.0[word] & mask).count_ones()).sum()
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|w| w.count_ones() as u64).sum()
    }
}

const GROUP: usize = 64;
const NO_CANDIDATE: u16 = 0x8000;

/// Live pages of each block, and the candidates for gc.
#[derive(Clone, Debug)]
pub(crate) struct ValidCounts {
    count: Vec<u16>,
    least: Vec<u16>,
}

impl ValidCounts {
    /// `blocks` blocks without live pages, none of them a candidate.
    pub(crate) fn new(blocks: u32) -> ValidCounts {
        let groups = (blocks as usize).div_ceil(GROUP);
        ValidCounts { count: vec![NO_CANDIDATE; blocks as usize], least: vec![NO_CANDIDATE; groups] }
    }

    /// For `blocks` blocks; the new ones have no live pages and are no candidates.
    pub(crate) fn grow(&mut self, blocks: u32) {
        self.count.resize(blocks as usize, NO_CANDIDATE);
        self.least.resize((blocks as usize).div_ceil(GROUP), NO_CANDIDATE);
    }

    /// Fetches a block's count into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, block: u32) {
        prefetch(&self.count, block as usize);
    }

    #[inline]
    pub(crate) fn get(&self, block: u32) -> u32 {
        (self.count[block as usize] & !NO_CANDIDATE) as u32
    }

    pub(crate) fn is_candidate(&self, block: u32) -> bool {
        self.count[block as usize] & NO_CANDIDATE == 0
    }

    /// `n` live pages more. The block is open, so it is in no minimum.
    #[inline]
    pub(crate) fn add(&mut self, block: u32, n: u32) {
        let c = &mut self.count[block as usize];
        debug_assert!(*c & NO_CANDIDATE != 0, "a closed block gains no live pages");
        *c += n as u16;
    }

    /// `n` live pages less.
    #[inline]
    pub(crate) fn sub(&mut self, block: u32, n: u32) {
        let c = &mut self.count[block as usize];
        debug_assert!((*c & !NO_CANDIDATE) as u32 >= n, "block {block} has fewer live pages than {n}");
        *c -= n as u16;
        let c = *c;
        let least = &mut self.least[block as usize / GROUP];
        *least = (*least).min(c);
    }

    /// All `n` pages of an open block become live at once.
    pub(crate) fn fill(&mut self, block: u32, n: u32) {
        let c = &mut self.count[block as usize];
        assert_eq!(*c, NO_CANDIDATE, "block {block} is in use");
        *c |= n as u16;
    }

    /// The block becomes a candidate for gc.
    pub(crate) fn offer(&mut self, block: u32) {
        self.count[block as usize] &= !NO_CANDIDATE;
        let c = self.count[block as usize];
        let least = &mut self.least[block as usize / GROUP];
        *least = (*least).min(c);
    }

    /// The block is a candidate no more.
    pub(crate) fn withdraw(&mut self, block: u32) {
        self.count[block as usize] |= NO_CANDIDATE;
        let group = block as usize / GROUP;
        self.least[group] = self.search(group);
    }

    /// The candidate among `from..end` with the fewest live pages (of equals the first), and that number.
    pub(crate) fn best(&self, from: u32, end: u32) -> Option<(u32, u32)> {
        let (from, end) = (from as usize, end as usize);
        let (first_whole, end_whole) = (from.div_ceil(GROUP), end / GROUP);
        let mut best = NO_CANDIDATE;
        let mut at = from..from;
        let mut look = |range: std::ops::Range<usize>, value: u16| {
            if value < best {
                (best, at) = (value, range);
            }
        };
        if first_whole >= end_whole {
            look(from..end, least_of(&self.count[from..end]));
        } else {
            look(from..first_whole * GROUP, least_of(&self.count[from..first_whole * GROUP]));
            for g in first_whole..end_whole {
                look(g * GROUP..(g + 1) * GROUP, self.least[g]);
            }
            look(end_whole * GROUP..end, least_of(&self.count[end_whole * GROUP..end]));
        }
        let block = at.find(|&b| self.count[b] == best)?;
        Some((block as u32, best as u32))
    }

    /// Whether the group minima are right, for `Ftl::check`.
    pub(crate) fn minima_hold(&self) -> bool {
        (0..self.least.len()).all(|g| self.least[g] == self.search(g))
    }

    fn search(&self, group: usize) -> u16 {
        let end = self.count.len().min((group + 1) * GROUP);
        least_of(&self.count[group * GROUP..end])
    }
}

fn least_of(counts: &[u16]) -> u16 {
    counts.iter().copied().fold(NO_CANDIDATE, u16::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    #[test]
    fn the_best_victim_is_the_one_a_plain_search_finds() {
        for (blocks, per_plane) in [(12, 4), (300, 75), (512, 256)] {
            let mut counts = ValidCounts::new(blocks);
            let mut rng = Stream::new(blocks as u64, "victims");
            for _ in 0..5_000 {
                let b = rng.below(blocks as u64) as u32;
                match rng.below(4) {
                    0 | 1 if !counts.is_candidate(b) && counts.get(b) < 32 => counts.add(b, 1),
                    2 if counts.get(b) > 0 => counts.sub(b, 1),
                    3 if counts.is_candidate(b) => counts.withdraw(b),
                    3 => counts.offer(b),
                    _ => {}
                }
                assert!(counts.minima_hold());
                let from = b / per_plane * per_plane;
                let plain = (from..from + per_plane)
                    .filter(|&b| counts.is_candidate(b))
                    .map(|b| (counts.get(b), b))
                    .min()
                    .map(|(c, b)| (b, c));
                assert_eq!(counts.best(from, from + per_plane), plain);
            }
        }
    }

    #[test]
    fn live_pages_are_found_across_words() {
        let mut map = LiveMap::new(1000);
        for p in [0, 63, 64, 200, 999] {
            map.set(p);
        }
        map.clear(63);
        assert!(map.get(64) && !map.get(63));
        let found: Vec<u32> = std::iter::successors(map.next(0, 1000), |&p| map.next(p + 1, 1000)).collect();
        assert_eq!(found, [0, 64, 200, 999]);
        assert_eq!((map.next(65, 200), map.count()), (None, 4));
    }

    #[test]
    fn ranges_of_live_pages_end_where_they_should() {
        for (first, n) in [(0, 64), (3, 5), (60, 8), (64, 64), (10, 300), (128, 1), (255, 0)] {
            let mut map = LiveMap::new(400);
            map.set_range(first, n);
            assert!((0..400).all(|p| map.get(p) == (first..first + n).contains(&p)), "{first}+{n}");
            map.set_range(0, 400);
            map.clear_range(first, n);
            assert!((0..400).all(|p| map.get(p) != (first..first + n).contains(&p)), "{first}+{n}");
        }
    }
}
