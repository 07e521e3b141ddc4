//! [`Groups`]: which inodes or blocks are free, in groups of 480, with a free list per CPU.
//!
//! ```text
//!   words:   1 bit each, 1 = taken          group g = bits 480 g .. 480 g + 479 = one 64 B line of the
//!                                           bitmap on media
//!   free:    free bits of each group
//!   lists:   per CPU { group it has claimed, cursor } ─ allocates from its own group, so that two CPUs
//!            change different lines of the bitmap and their transactions do not conflict
//! ```
//!
//! A list that has used up its group claims the next unclaimed one, searching from the CPU's own region. It
//! prefers a group that is at least half free, then an eighth, then any. When every group with space is
//! claimed, it takes from another's. So allocation fails only when nothing is free. Low regions are filled
//! first, which keeps the used part of the drive compact.
//!
//! It does *not* know what is reserved, or freed but not yet committed: that is [`crate::space::Space`]. It
//! never waits.
//!
//! Source: ByteFS section 4.5 (per-CPU free lists, extent-based allocation).

use crate::layout::bitmap::BITS_PER_GROUP;
use granary_units::prefetch;
use std::ops::Range;

const GROUP: u64 = BITS_PER_GROUP;

/// Free bits among `from..to`.
fn zeros(words: &[u64], from: u64, to: u64) -> u64 {
    let (mut at, mut n) = (from, 0);
    while at < to {
        let here = (64 - at % 64).min(to - at);
        let mask = (u64::MAX >> (64 - here)) << (at % 64);
        n += (!words[(at / 64) as usize] & mask).count_ones() as u64;
        at += here;
    }
    n
}

struct List {
    group: Option<u32>,
    /// Where in the group to go on.
    cursor: u64,
    /// First group of the CPU's region.
    home: u32,
}

/// Free bits in groups.
pub struct Groups {
    words: Vec<u64>,
    free: Vec<u16>,
    claimed: Vec<bool>,
    lists: Vec<List>,
    total_free: u64,
    bits: u64,
}

impl Groups {
    /// `bits` bits that are taken where `words` (64 bits each, lowest first) says so, for up to `cpus` lists.
    pub fn new(bits: u64, words: impl IntoIterator<Item = u64>, cpus: usize) -> Groups {
        let groups = bits.div_ceil(GROUP) as usize;
        let end = groups as u64 * GROUP;
        let words_all = end.div_ceil(64) as usize;
        let mut all: Vec<u64> = words.into_iter().take(words_all).collect();
        all.resize(words_all, u64::MAX);
        for bit in bits..words_all as u64 * 64 {
            all[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        let free: Vec<u16> =
            (0..groups as u64).map(|g| zeros(&all, g * GROUP, (g + 1) * GROUP) as u16).collect();
        let lists = cpus.clamp(1, groups);
        Groups {
            total_free: free.iter().map(|&n| n as u64).sum(),
            claimed: vec![false; groups],
            lists: (0..lists)
                .map(|cpu| List { group: None, cursor: 0, home: (cpu * groups / lists) as u32 })
                .collect(),
            words: all,
            free,
            bits,
        }
    }

    /// More bits, `bits` in all: the new ones are free but for `taken`.
    pub fn grow(&mut self, bits: u64, taken: &[Range<u64>]) {
        let old = std::mem::replace(&mut self.bits, bits);
        let groups = bits.div_ceil(GROUP);
        self.words.resize((groups * GROUP).div_ceil(64) as usize, u64::MAX);
        for bit in (old..bits).filter(|bit| !taken.iter().any(|t| t.contains(bit))) {
            self.words[(bit / 64) as usize] &= !(1 << (bit % 64));
        }
        self.claimed.resize(groups as usize, false);
        self.free.resize(groups as usize, 0);
        for g in old / GROUP..groups {
            self.free[g as usize] = zeros(&self.words, g * GROUP, (g + 1) * GROUP) as u16;
        }
        self.total_free = self.free.iter().map(|&n| n as u64).sum();
    }

    /// Free bits.
    pub fn free(&self) -> u64 {
        self.total_free
    }

    /// Whether a bit is taken.
    pub fn is_taken(&self, bit: u64) -> bool {
        self.words[(bit / 64) as usize] >> (bit % 64) & 1 == 1
    }

    /// This bit will be looked at soon: a hint about this program's own time.
    #[inline]
    pub fn prefetch(&self, bit: u64) {
        prefetch(&self.words, (bit / 64) as usize);
    }

    /// Whether all of `from..from + len` are free.
    pub fn all_free(&self, from: u64, len: u64) -> bool {
        self.run_at(from, len) == len
    }

    /// Takes up to `want` consecutive bits for `cpu`, if possible beginning at `goal`. Returns the first and
    /// how many.
    pub fn take(&mut self, cpu: usize, want: u64, goal: Option<u64>) -> Option<(u64, u64)> {
        debug_assert!(want > 0);
        if self.total_free == 0 {
            return None;
        }
        let (first, len) = match goal.map(|g| (g, self.run_at(g, want))).filter(|run| run.1 > 0) {
            Some(run) => run,
            None => self.take_listed(cpu % self.lists.len(), want),
        };
        self.mark(first, len, true);
        Some((first, len))
    }

    /// Takes the first run of at least `least` free bits within `from..end`, at most `most` of it.
    pub fn take_next(&mut self, mut from: u64, end: u64, least: u64, most: u64) -> Option<(u64, u64)> {
        let end = end.min(self.bits);
        while let Some(first) = self.next_free(from, end) {
            let len = self.run_at(first, end - first);
            if len >= least && most > 0 {
                self.mark(first, len.min(most), true);
                return Some((first, len.min(most)));
            }
            from = first + len;
        }
        None
    }

    /// Gives back `from..from + len`.
    ///
    /// # Errors
    /// Which of them were free already (two owners had them: damaged media), with nothing changed.
    pub fn give(&mut self, from: u64, len: u64) -> Result<(), String> {
        let free = zeros(&self.words, from, from + len);
        if free > 0 {
            return Err(format!("{free} of {from}+{len} are freed twice"));
        }
        self.mark(from, len, false);
        Ok(())
    }

    fn take_listed(&mut self, cpu: usize, want: u64) -> (u64, u64) {
        loop {
            if let Some(g) = self.lists[cpu].group {
                let begin = g as u64 * GROUP;
                let at = self.next_free(begin + self.lists[cpu].cursor, begin + GROUP);
                if let Some(first) = at {
                    let len = self.run_at(first, want);
                    self.lists[cpu].cursor = (first + len).min(begin + GROUP) - begin;
                    return (first, len);
                }
            }
            self.claim(cpu);
        }
    }

    /// Gives the list another group that has free bits; some group has.
    fn claim(&mut self, cpu: usize) {
        if let Some(old) = self.lists[cpu].group.take() {
            self.claimed[old as usize] = false;
        }
        let home = self.lists[cpu].home as usize;
        let n = self.free.len();
        let search = |least: u16, stolen: bool| {
            (home..n).chain(0..home).find(|&g| self.free[g] >= least && (stolen || !self.claimed[g]))
        };
        let half = (GROUP / 2) as u16;
        let found = search(half, false)
            .or_else(|| search(half / 4, false))
            .or_else(|| search(1, false))
            .or_else(|| search(1, true))
            .expect("some bit is free");
        self.claimed[found] = true;
        self.lists[cpu].group = Some(found as u32);
        self.lists[cpu].cursor = 0;
    }

    /// The first free bit of `from..end`.
    fn next_free(&self, from: u64, end: u64) -> Option<u64> {
        let mut at = from;
        while at < end {
            let word = !self.words[(at / 64) as usize] >> (at % 64);
            if word != 0 {
                let bit = at + word.trailing_zeros() as u64;
                return (bit < end).then_some(bit);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// How many bits from `from` on are free, at most `want`.
    fn run_at(&self, from: u64, want: u64) -> u64 {
        let end = (from + want).min(self.bits);
        let mut at = from;
        while at < end {
            let word = self.words[(at / 64) as usize] >> (at % 64);
            let here = 64 - at % 64;
            let run = (word.trailing_zeros() as u64).min(here);
            at += run;
            if run < here {
                break;
            }
        }
        at.min(end).saturating_sub(from)
    }

    fn mark(&mut self, from: u64, len: u64, taken: bool) {
        let (mut at, end) = (from, from + len);
        while at < end {
            let n = (64 - at % 64).min(GROUP - at % GROUP).min(end - at);
            let mask = (u64::MAX >> (64 - n)) << (at % 64);
            let word = &mut self.words[(at / 64) as usize];
            let was = *word & mask;
            // Ours: `take` looked for free bits, `give` has looked.
            assert!(was == if taken { 0 } else { mask }, "bits {at}..{} taken or freed twice", at + n);
            *word ^= mask;
            let group = &mut self.free[(at / GROUP) as usize];
            *group = if taken { *group - n as u16 } else { *group + n as u16 };
            at += n;
        }
        self.total_free = if taken { self.total_free - len } else { self.total_free + len };
    }

    /// Counters against bits.
    pub fn check(&self) -> Vec<String> {
        let mut bad = Vec::new();
        for g in 0..self.free.len() {
            let free = zeros(&self.words, g as u64 * GROUP, (g as u64 + 1) * GROUP);
            if free != self.free[g] as u64 {
                bad.push(format!("group {g} has {free} free bits, its counter says {}", self.free[g]));
            }
        }
        let total: u64 = self.free.iter().map(|&n| n as u64).sum();
        if total != self.total_free {
            bad.push(format!("{total} bits are free, the counter says {}", self.total_free));
        }
        bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    /// Any sequence of takes and gives agrees with a plain array, and takes until nothing is free.
    #[test]
    fn nothing_is_taken_twice_and_nothing_is_lost() {
        let mut s = Stream::new(4, "groups");
        let bits = 5000;
        let mut groups = Groups::new(bits, (0..79).map(|i| if i < 3 { u64::MAX } else { 0 }), 4);
        let mut model = vec![false; bits as usize];
        model[..192].fill(true);
        let mut held: Vec<(u64, u64)> = Vec::new();
        for round in 0..20_000 {
            if s.chance(if round % 4000 < 2500 { 0.7 } else { 0.3 }) {
                let want = 1 + s.below(40);
                let goal = held.last().map(|h| h.0 + h.1).filter(|_| s.chance(0.5));
                let free = model.iter().filter(|&&b| !b).count() as u64;
                match groups.take(s.below(6) as usize, want, goal.filter(|&g| g < bits)) {
                    None => assert_eq!(free, 0),
                    Some((first, len)) => {
                        assert!(len > 0 && len <= want);
                        for b in first..first + len {
                            assert!(!std::mem::replace(&mut model[b as usize], true));
                        }
                        held.push((first, len));
                    }
                }
            } else if !held.is_empty() {
                let (first, len) = held.swap_remove(s.below(held.len() as u64) as usize);
                assert_eq!(groups.give(first, len), Ok(()));
                assert!(groups.give(first, len).is_err(), "twice");
                model[first as usize..(first + len) as usize].fill(false);
            }
            assert_eq!(groups.free(), model.iter().filter(|&&b| !b).count() as u64);
        }
        assert_eq!(groups.check(), Vec::<String>::new());
    }

    #[test]
    fn two_cpus_allocate_in_different_groups_and_a_file_goes_on_where_it_ends() {
        let mut groups = Groups::new(8192, std::iter::repeat_n(0, 128), 4);
        let (a, _) = groups.take(0, 8, None).expect("free");
        let (b, _) = groups.take(1, 8, None).expect("free");
        assert_ne!(a / GROUP, b / GROUP);
        assert_eq!(groups.take(0, 4, Some(b + 8)), Some((b + 8, 4)));
        assert_eq!(groups.take(0, 1000, Some(a + 8)), Some((a + 8, 1000)), "runs cross groups");
    }
}
