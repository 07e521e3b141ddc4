//! Choice of the segment to clean, or to fill the holes of: the search of Linux 6.1's
//! `get_victim_by_default`.
//!
//! ```text
//!                 looks at                begins                     takes
//!   clean now     all dirty segments      where the last greedy      one that idle cleaning chose before,
//!                                         search ended               else the fewest valid blocks
//!   clean idle    `victim_search` of      where the last of its      the largest
//!                 them                    kind ended                 (100 - u) * age / (100 + u)
//!   fill holes    `victim_search` of the  as "clean now"; nodes and  the fewest blocks that the log must
//!   (SSR)         log's kind, then those  hot data: at the first     pass over
//!                 of the class's others   segment (`noheap`)
//! ```
//!
//! Of equals the first met. u is the share of valid blocks and age that of the time since the segment last
//! changed, both in percent (`get_cb_cost`); the age is among those looked at. Choices of idle cleaning that
//! are still there (their nodes are only marked dirty) are left to cleaning that cannot wait: no other search
//! takes them (`victim_secmap`).

use super::log::{self, COLD_DATA, COLD_NODE, HOT_DATA, HOT_NODE};
use super::{Seg, Segs};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Criterion of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Greedy,
    CostBenefit,
}

/// State that searches remember. In memory only, as in the kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Remembered {
    /// Where the next search of each [`Choice`] begins (`last_victim`).
    next: [u32; 2],
    /// Chosen by idle cleaning and not dead yet (`victim_secmap`).
    background: BTreeSet<u32>,
}

impl Remembered {
    /// The segment has no valid block any more.
    pub fn died(&mut self, segno: u32) {
        self.background.remove(&segno);
    }

    /// Everything may be chosen again.
    pub fn forget_background(&mut self) {
        self.background.clear();
    }
}

impl Segs {
    fn is_dirty(&self, n: u32) -> bool {
        let valid = u32::from(self.segs[n as usize].valid);
        valid > 0 && valid < self.geo.seg_blocks && !self.is_open(n)
    }

    /// Up to `most` of the segments `among`, from `begin` on and around; remembers where the next search
    /// begins.
    fn look(
        &mut self,
        choice: Choice,
        begin: u32,
        most: usize,
        among: impl Fn(&Segs, u32) -> bool,
    ) -> Vec<u32> {
        let mut seen: Vec<u32> = (begin..self.geo.main_segs).filter(|n| among(self, *n)).take(most).collect();
        let ahead = seen.len();
        seen.extend((0..begin).filter(|n| among(self, *n)).take(most - ahead));
        let next = &mut self.victims.next[choice as usize];
        if let Some(last) = seen.last() {
            // Having turned, the kernel moves on by one segment only.
            *next = if seen.len() > ahead { *next + 1 } else { last + 1 } % self.geo.main_segs;
        }
        seen
    }

    /// The segment that cleaning takes, where it cannot wait: not one of `except`.
    pub fn victim_now(&mut self, except: &BTreeSet<u32>) -> Option<u32> {
        while let Some(n) = self.victims.background.pop_first() {
            if self.is_dirty(n) && !except.contains(&n) {
                return Some(n);
            }
        }
        let begin = self.victims.next[Choice::Greedy as usize];
        let seen = self.look(Choice::Greedy, begin, usize::MAX, Segs::is_dirty).into_iter();
        seen.filter(|n| !except.contains(n)).min_by_key(|n| self.segs[*n as usize].valid)
    }

    /// The segment that cleaning takes, where nobody needs the drive.
    pub fn victim_idle(&mut self) -> Option<u32> {
        let begin = self.victims.next[Choice::CostBenefit as usize];
        let mut seen = self.look(Choice::CostBenefit, begin, self.victim_search as usize, Segs::is_dirty);
        seen.retain(|n| !self.victims.background.contains(n));
        let mtime = |n: &u32| self.segs[*n as usize].mtime;
        let (min, max) = (seen.iter().map(mtime).min()?, seen.iter().map(mtime).max()?);
        let benefit = |s: &Seg| {
            let u = s.valid as u64 * 100 / self.geo.seg_blocks as u64;
            let age = match max - min {
                0 => 100,
                // Times on media may be anything.
                span => 100 - (100 * (s.mtime - min) as u128 / span as u128) as u64,
            };
            100 * (100 - u) * age / (100 + u)
        };
        let n = seen.into_iter().min_by_key(|n| Reverse(benefit(&self.segs[*n as usize])))?;
        self.victims.background.insert(n);
        Some(n)
    }

    /// The segment whose holes a log is to fill: of its own kind, else of its class (`get_ssr_segment`).
    pub(super) fn ssr_victim(&mut self, log: usize) -> Option<u32> {
        let (first, last) = if log::is_node(log) { (HOT_NODE, COLD_NODE) } else { (HOT_DATA, COLD_DATA) };
        let others: Vec<usize> =
            if log == first { (first..=last).collect() } else { (first..=last).rev().collect() };
        let others = others.into_iter().filter(|l| *l != log);
        std::iter::once(log).chain(others).find_map(|kind| self.holes_of(kind))
    }

    fn holes_of(&mut self, kind: usize) -> Option<u32> {
        let greedy = Choice::Greedy;
        // `noheap`, the default.
        let from_first = kind == HOT_DATA || log::is_node(kind);
        let begin = if from_first { 0 } else { self.victims.next[greedy as usize] };
        let among = |s: &Segs, n| s.segs[n as usize].log as usize == kind && s.is_dirty(n);
        let mut seen = self.look(greedy, begin, self.victim_search as usize, among);
        seen.retain(|n| !self.victims.background.contains(n));
        // Blocks that are valid, or were at the last checkpoint, or were written since (`ckpt_valid_blocks`).
        let taken = |n: &u32| {
            let s = &self.segs[*n as usize];
            s.map.iter().zip(s.keep).map(|(map, keep)| (map | keep).count_ones()).sum::<u32>()
        };
        seen.into_iter().min_by_key(taken).filter(|n| taken(n) < self.geo.seg_blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::segs::log::{WARM_DATA, WARM_NODE};
    use granary_kit::BlockCache;
    use granary_suite::suite::{drive, port, run};
    use granary_units::Bytes;
    use std::sync::Arc;

    /// Segments with so many valid blocks of 16 each, all of one log, and searches that look at three.
    fn segs(log: usize, valid: &[u16]) -> Segs {
        let blocks = 16 * 64;
        let geo = Geometry::plan(blocks, Some(16)).expect("large enough");
        let of = |&valid: &u16| {
            let map = std::array::from_fn(|i| if i == 0 { (1 << valid) - 1 } else { 0 });
            Seg { valid, log: log as u8, map, keep: map, mtime: 0 }
        };
        let mut list: Vec<Seg> = valid.iter().map(of).collect();
        list.resize(geo.main_segs as usize, Seg::default());
        let cache = Arc::new(BlockCache::new(port(&drive(Bytes::mib(16))), Bytes::kib(64)));
        let mut segs = Segs::new(geo, cache, list, 0, 0);
        segs.victim_search = 3;
        segs
    }

    /// All blocks of the segment are gone.
    fn empty(s: &mut Segs, n: u32) {
        for i in 0..u32::from(s.segs[n as usize].valid) {
            s.invalidate(s.geo.start(n) + i).expect("it was valid");
        }
    }

    #[test]
    fn cleaning_that_cannot_wait_looks_at_every_dirty_segment() {
        run(|| {
            let mut s = segs(WARM_DATA, &[9, 8, 16, 7, 0, 6, 3, 5]);
            assert_eq!(s.victim_now(&BTreeSet::new()), Some(6));
            assert_eq!(s.victim_now(&BTreeSet::from([6])), Some(7));
        });
    }

    #[test]
    fn idle_cleaning_looks_at_some_from_where_it_ended_and_around() {
        run(|| {
            let mut s = segs(WARM_DATA, &[5, 4, 9, 3, 16, 2, 8]);
            // 0 1 2, then 3 5 6, then around: 0 1 2 without 1.
            assert_eq!([s.victim_idle(), s.victim_idle(), s.victim_idle()], [Some(1), Some(5), Some(0)]);
            // Having turned, the next begins one behind the last beginning (7) and turns again.
            assert_eq!((s.victims.next[Choice::CostBenefit as usize], s.victim_idle()), (8, Some(2)));
            assert_eq!((s.victim_idle(), s.victims.next), (None, [0, 10]));
            // At the last segment all begins anew.
            s.victims.next[1] = s.geo.main_segs - 1;
            assert_eq!((s.victim_idle(), s.victims.next), (None, [0, 0]));
        });
    }

    #[test]
    fn times_of_any_size_are_compared() {
        run(|| {
            let mut s = segs(WARM_DATA, &[5, 4, 9]);
            (s.segs[1].mtime, s.segs[2].mtime) = (u64::MAX / 4, u64::MAX / 2);
            assert_eq!(s.victim_idle(), Some(0), "by far the oldest");
        });
    }

    #[test]
    fn what_idle_cleaning_chose_is_for_cleaning_that_cannot_wait() {
        run(|| {
            let mut s = segs(WARM_DATA, &[5, 4, 9]);
            assert_eq!([s.victim_idle(), s.victim_idle()], [Some(1), Some(0)]);
            assert_eq!(s.ssr_victim(WARM_DATA), Some(2));
            empty(&mut s, 0);
            assert_eq!(s.victim_now(&BTreeSet::new()), Some(1));
            assert_eq!(s.victim_now(&BTreeSet::from([1])), Some(2));
        });
    }

    #[test]
    fn holes_are_searched_from_where_greedy_ended_but_for_nodes_and_hot_data() {
        run(|| {
            let mut s = segs(WARM_DATA, &[2, 8, 7, 5, 1, 6]);
            assert_eq!([s.ssr_victim(WARM_DATA), s.ssr_victim(WARM_DATA)], [Some(0), Some(4)]);
            for log in [HOT_DATA, HOT_NODE, COLD_NODE] {
                let mut s = segs(log, &[2, 8, 7, 5, 1, 6]);
                assert_eq!([s.ssr_victim(log), s.ssr_victim(log)], [Some(0), Some(0)], "{log}");
            }
        });
    }

    #[test]
    fn a_log_fills_its_own_kind_before_emptier_ones_of_its_class() {
        run(|| {
            let mut s = segs(COLD_DATA, &[9, 2, 1, 3, 1]);
            s.segs[0].log = WARM_DATA as u8;
            s.segs[2].log = HOT_DATA as u8;
            s.segs[4].log = HOT_NODE as u8;
            let mut of = |log| s.ssr_victim(log);
            assert_eq!([of(WARM_DATA), of(HOT_NODE), of(WARM_NODE)], [Some(0), Some(4), Some(4)]);
            empty(&mut s, 0);
            // Warm: cold first, then hot. Hot, once it has none: warm (none), then cold.
            assert_eq!(s.ssr_victim(WARM_DATA), Some(1));
            empty(&mut s, 2);
            assert_eq!(s.ssr_victim(HOT_DATA), Some(1));
        });
    }

    /// A block that was freed since the last checkpoint is no hole yet.
    #[test]
    fn segments_without_a_block_to_write_are_not_filled() {
        run(|| {
            let mut s = segs(WARM_DATA, &[16, 9]);
            s.invalidate(s.geo.start(0)).expect("it was valid");
            assert_eq!(s.ssr_victim(WARM_DATA), Some(1));
            empty(&mut s, 1);
            assert_eq!(s.ssr_victim(WARM_DATA), None);
            s.committed();
            assert_eq!(s.ssr_victim(WARM_DATA), Some(0));
        });
    }
}
