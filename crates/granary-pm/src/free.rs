//! [`FreeLists`]: the free blocks in host memory, one list of runs for each CPU.
//!
//! ```text
//!   blocks   0 ........ a ........ b ........ end
//!   lists       CPU 0   |  CPU 1   |  CPU 2        each: start -> length, runs never touch
//!   a CPU takes from its own list, data from below, logs from above; from the next one's where it has none
//! ```
//!
//! Invariants: the sum of the runs is `free`, which changes under the lock of the list; a block is in one
//! run. The last `reserve` blocks are for callers that need space in order to free some.
//!
//! Source: NOVA section 3.3 (per-CPU free lists as red-black trees, rebuilt at mount).

use crate::{Pm, corrupt};
use granary_fs::{Result, TRIM_RUN};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// From which end of a list blocks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The low end: data.
    Below,
    /// The high end: logs, so that they do not cut the runs for data.
    Above,
}

/// Runs looked at for one that is long enough; bounds the search in a fragmented list.
const SEARCH: usize = 64;

/// See the module.
pub struct FreeLists {
    lists: Vec<Mutex<BTreeMap<u64, u64>>>,
    first: u64,
    share: u64,
    free: AtomicU64,
    reserve: u64,
}

impl FreeLists {
    /// Lists for the blocks `first..end`, none of which is free yet.
    pub fn new(first: u64, end: u64, cpus: usize, reserve: u64) -> FreeLists {
        let share = (end - first).div_ceil(cpus as u64).max(1);
        let lists = (0..cpus).map(|_| Mutex::default()).collect();
        FreeLists { lists, first, share, free: AtomicU64::new(0), reserve }
    }

    fn list_of(&self, block: u64) -> usize {
        ((block - self.first) / self.share) as usize
    }

    /// Free blocks for ordinary callers.
    pub fn available(&self) -> u64 {
        self.free.load(Relaxed).saturating_sub(self.reserve)
    }

    /// All free blocks.
    pub fn free_blocks(&self) -> u64 {
        self.free.load(Relaxed)
    }

    /// Takes up to `want` blocks in one run: (first, count). `urgent`: may use the reserve.
    pub fn take(&self, cpu: usize, want: u64, from: From, urgent: bool) -> Option<(u64, u64)> {
        self.take_at_least(cpu, want, 1, from, urgent)
    }

    /// Takes up to `want` and at least `least` blocks in one run.
    pub fn take_at_least(
        &self,
        cpu: usize,
        want: u64,
        least: u64,
        from: From,
        urgent: bool,
    ) -> Option<(u64, u64)> {
        let keep = if urgent { 0 } else { self.reserve };
        loop {
            let wish = want.min(self.free.load(Relaxed).saturating_sub(keep));
            if wish < least || wish == 0 {
                return None;
            }
            let cpus = self.lists.len();
            let got = (0..cpus).find_map(|i| self.take_from((cpu + i) % cpus, (wish, least), from, keep));
            // A block that is free was in no list that was looked at: others took and gave meanwhile.
            if got.is_some() || least > 1 {
                return got;
            }
        }
    }

    /// Takes up to `wish` and at least `least` blocks from one list, leaving `keep` in all.
    fn take_from(&self, list: usize, (wish, least): (u64, u64), from: From, keep: u64) -> Option<(u64, u64)> {
        let mut list = self.lists[list].lock();
        let search = if least > 1 { usize::MAX } else { SEARCH };
        let (start, len) = match from {
            From::Below => find(list.iter(), wish, search),
            From::Above => find(list.iter().rev(), wish, search),
        }?;
        // Only what this run has is taken from the sum, so that nobody is refused for what another only
        // wished.
        let mut n = 0;
        let _ = self.free.fetch_update(Relaxed, Relaxed, |free| {
            n = len.min(wish).min(free.saturating_sub(keep));
            (n >= least).then(|| free - n)
        });
        if n < least {
            return None;
        }
        list.remove(&start);
        if n < len {
            match from {
                From::Below => list.insert(start + n, len - n),
                From::Above => list.insert(start, len - n),
            };
        }
        Some(match from {
            From::Below => (start, n),
            From::Above => (start + len - n, n),
        })
    }

    /// Gives blocks back.
    ///
    /// # Errors
    /// `Corrupt` where one of them is free already, or none of ours.
    pub fn give(&self, start: u64, count: u64) -> Result<()> {
        let end = self.first + self.share * self.lists.len() as u64;
        if start < self.first || count > end || start > end - count {
            return Err(corrupt(format!("blocks {start}+{count} outside the data area are freed")));
        }
        let mut at = start;
        while at < start + count {
            let cpu = self.list_of(at);
            let stop = (start + count).min(self.first + (cpu as u64 + 1) * self.share);
            self.give_to(cpu, at, stop - at)?;
            at = stop;
        }
        Ok(())
    }

    fn give_to(&self, cpu: usize, start: u64, count: u64) -> Result<()> {
        let mut list = self.lists[cpu].lock();
        let (mut start, mut len) = (start, count);
        if let Some((&next, _)) = list.range(start..).next()
            && next < start + len
        {
            return Err(corrupt(format!("block {next} is freed twice")));
        }
        if let Some((&before, &n)) = list.range(..start).next_back() {
            if before + n > start {
                return Err(corrupt(format!("block {start} is freed twice")));
            }
            if before + n == start {
                list.remove(&before);
                (start, len) = (before, len + n);
            }
        }
        if let Some(n) = list.remove(&(start + len)) {
            len += n;
        }
        list.insert(start, len);
        self.free.fetch_add(count, Relaxed);
        Ok(())
    }

    /// Takes the next run of at least `least` free blocks within a part of the drive, at most `most` of it,
    /// leaving the reserve.
    fn take_next(&self, within: &Range<u64>, least: u64, most: u64) -> Option<(u64, u64)> {
        for list in &self.lists {
            let mut list = list.lock();
            let part = |(&start, &len): (&u64, &u64)| {
                let (from, to) = (start.max(within.start), (start + len).min(within.end));
                (to > from && to - from >= least).then(|| (start, len, from, to - from))
            };
            let Some((start, len, from, wish)) = list.iter().find_map(part) else { continue };
            let mut n = 0;
            let _ = self.free.fetch_update(Relaxed, Relaxed, |free| {
                n = wish.min(most).min(free.saturating_sub(self.reserve));
                (n > 0).then(|| free - n)
            });
            if n == 0 {
                return None;
            }
            list.remove(&start);
            if from > start {
                list.insert(start, from - start);
            }
            if from + n < start + len {
                list.insert(from + n, start + len - from - n);
            }
            return Some((from, n));
        }
        None
    }

    /// Tells the drive which of these blocks are free, in runs of at least `least`; says how many.
    ///
    /// # Errors
    /// The drive's.
    pub fn trim(&self, pm: &Pm, blocks: Range<u64>, least: u64) -> Result<u64> {
        let (mut within, mut told) = (blocks, 0);
        while let Some((start, len)) = self.take_next(&within, least, TRIM_RUN) {
            let done = pm.discard(start, len);
            self.give(start, len)?;
            done?;
            told += len;
            within.start = start + len;
        }
        Ok(told)
    }

    /// All free runs, ascending.
    pub fn runs(&self) -> Vec<(u64, u64)> {
        self.lists.iter().flat_map(|l| l.lock().iter().map(|(s, n)| (*s, *n)).collect::<Vec<_>>()).collect()
    }
}

/// The first run of at least `want` among the first `search`, else the longest of them.
fn find<'a>(runs: impl Iterator<Item = (&'a u64, &'a u64)>, want: u64, search: usize) -> Option<(u64, u64)> {
    let mut best = None;
    for (&start, &len) in runs.take(search) {
        if len >= want {
            return Some((start, len));
        }
        if best.is_none_or(|(_, n)| n < len) {
            best = Some((start, len));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_and_given_back_adds_up() {
        let lists = FreeLists::new(10, 1010, 4, 5);
        lists.give(10, 1000).expect("all of them");
        let mut taken: Vec<(u64, u64)> = Vec::new();
        let mut x = 1u64;
        for i in 0..2000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if x >> 62 < 2 && !taken.is_empty() {
                let (at, n) = taken.swap_remove((x >> 40) as usize % taken.len());
                lists.give(at, n).expect("was taken");
            } else {
                let from = if i % 2 == 0 { From::Below } else { From::Above };
                if let Some(run) = lists.take(i % 4, (x >> 50) % 40 + 1, from, i % 7 == 0) {
                    assert!(taken.iter().all(|(s, n)| run.0 + run.1 <= *s || s + n <= run.0));
                    taken.push(run);
                }
            }
            let out: u64 = taken.iter().map(|r| r.1).sum();
            assert_eq!(lists.free_blocks() + out, 1000);
            assert_eq!(lists.runs().iter().map(|r| r.1).sum::<u64>(), 1000 - out);
        }
    }

    #[test]
    fn no_thread_is_refused_what_others_only_wish_for() {
        let lists = FreeLists::new(0, 64, 4, 0);
        // No two free blocks touch: whoever wishes for many gets one.
        (0..32).for_each(|i| lists.give(2 * i, 1).expect("ours"));
        std::thread::scope(|scope| {
            for t in 0..4usize {
                let lists = &lists;
                scope.spawn(move || {
                    for i in 0..20_000 {
                        let from = if i % 2 == 0 { From::Below } else { From::Above };
                        let (at, n) = lists.take(t, 32, from, false).expect("28 are free at least");
                        lists.give(at, n).expect("was taken");
                    }
                });
            }
        });
        assert_eq!((lists.free_blocks(), lists.runs().len()), (32, 32));
    }

    #[test]
    fn the_reserve_is_for_urgent_callers_and_nothing_is_freed_twice() {
        let lists = FreeLists::new(0, 8, 2, 2);
        lists.give(0, 8).expect("ours");
        assert_eq!((0..9).map_while(|_| lists.take(0, 1, From::Below, false)).count(), 6);
        assert_eq!((0..9).map_while(|_| lists.take(0, 1, From::Below, true)).count(), 2);
        lists.give(3, 2).expect("taken");
        assert!(lists.give(2, 2).is_err() && lists.give(4, 1).is_err() && lists.give(7, 2).is_err());
    }
}
