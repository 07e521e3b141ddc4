//! Free numbers: a bitmap in host memory for each area, made at mount from the numbers that the inodes reach;
//! and the grants to take them ([`crate::grants`]).
//!
//! A number that an operation takes and does not commit goes back at once. One that a committed group frees
//! goes back only when the digest of that group is durable ([`crate::journal`]): until then a replay may
//! still lead to it.

use crate::blob::MOST_ATTRIBUTES;
use crate::geometry::PAGE;
use crate::grants::Grants;
use crate::layout::{Area, Layout};
use granary_fs::Result;
use granary_pm::corrupt;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// NVM pages of the largest set of attributes that an inode can have.
const MOST_ATTRIBUTE_PAGES: u64 = (MOST_ATTRIBUTES as u64).div_ceil(crate::blob::ROOM as u64);
/// Most NVM pages that are kept from data.
const MOST_KEPT: u64 = (64 << 20) / PAGE;

/// The numbers of one area.
struct Ids {
    /// Bit set: taken.
    taken: Vec<u64>,
    count: u64,
    free: u64,
    /// No number below is free and nobody's.
    from: u64,
    grants: Grants,
}

impl Ids {
    /// All of `0..count` are free; number 0 only where `has_zero`.
    fn new(count: u64, has_zero: bool) -> Ids {
        let mut ids = Ids {
            taken: vec![0; count.div_ceil(64) as usize],
            count,
            free: count,
            from: 0,
            grants: Grants::default(),
        };
        if !has_zero && count > 0 {
            ids.mark(0);
        }
        ids
    }

    fn mark(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if number >= self.count || self.taken[word] & bit != 0 {
            return false;
        }
        self.taken[word] |= bit;
        self.free -= 1;
        true
    }

    /// The lowest free number of a range.
    fn lowest(&self, range: Range<u64>) -> Option<u64> {
        let end = range.end.min(self.count);
        let mut at = range.start;
        while at < end {
            let free = !self.taken[(at / 64) as usize] >> (at % 64);
            if free != 0 {
                let number = at + u64::from(free.trailing_zeros());
                return (number < end).then_some(number);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Takes the lowest free number that a process was granted.
    fn take(&mut self, process: u32) -> Option<u64> {
        let number = self.grants.of(process).find_map(|range| self.lowest(range));
        if let Some(number) = number {
            self.mark(number);
        }
        self.grants.looked(process, number.map_or(self.count, |number| number + 1));
        number
    }

    /// Grants a process a range from the lowest number that is free and nobody's. It has an eighth of what is
    /// free at most, so that others find some, too.
    fn grant(&mut self, process: u32, most: u64) -> bool {
        let most = most.min(self.free / 8).max(1);
        let mut at = self.from;
        while let Some(number) = self.lowest(at..self.count) {
            if let Some((range, _)) = self.grants.around(number) {
                at = range.end;
                continue;
            }
            let end = self.grants.next_after(number).unwrap_or(self.count).min(number + most);
            self.grants.add(process, number..end);
            self.from = end;
            return true;
        }
        self.from = self.count;
        false
    }

    /// Free numbers that a process was granted.
    fn unused(&self, process: u32) -> u64 {
        let bits = |range: Range<u64>| {
            let mut count = 0;
            let mut at = range.start;
            while at < range.end {
                let here = (at / 64 + 1) * 64;
                let end = here.min(range.end);
                let free = !self.taken[(at / 64) as usize] >> (at % 64);
                let mask = if end - at == 64 { u64::MAX } else { (1 << (end - at)) - 1 };
                count += u64::from((free & mask).count_ones());
                at = end;
            }
            count
        };
        self.grants.of(process).map(bits).sum()
    }

    fn give(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if number >= self.count || self.taken[word] & bit == 0 {
            return false;
        }
        self.taken[word] &= !bit;
        self.free += 1;
        self.from = self.from.min(number);
        self.grants.freed(number);
        true
    }
}

/// See the module.
pub struct Pools {
    ids: [Mutex<Ids>; 6],
    counts: [u64; 6],
    /// Counts numbers that went into use.
    clock: AtomicU64,
}

impl Pools {
    /// All is free.
    pub fn new(layout: &Layout) -> Pools {
        let counts = Area::ALL.map(|area| layout.count(area));
        Pools {
            ids: Area::ALL.map(|area| Mutex::new(Ids::new(layout.count(area), area == Area::Block))),
            counts,
            clock: AtomicU64::new(0),
        }
    }

    /// An instant: how many numbers have gone into use.
    pub fn clock(&self) -> u64 {
        self.clock.load(Relaxed)
    }

    fn of(&self, area: Area) -> &Mutex<Ids> {
        &self.ids[area as usize]
    }

    /// How many NVM pages stay free for stronger claims than this one. Data leave a 64th part of all pages,
    /// up to 64 MiB, for names and attributes. These leave the pages of the largest set of attributes for
    /// changes that take some away. A 64th part is a choice: large enough for thousands of names, too small
    /// to be missed by data.
    pub fn kept_from(&self, claim: Claim) -> u64 {
        let all = self.all(Area::Page);
        let removals = MOST_ATTRIBUTE_PAGES.min(all / 16);
        match claim {
            Claim::Removal => 0,
            Claim::Metadata => removals,
            Claim::Data => removals + (all / 64).min(MOST_KEPT),
        }
    }

    /// Whether what is free of an area is kept from this claim.
    pub fn is_kept(&self, area: Area, claim: Claim) -> bool {
        area == Area::Page && self.free(area) <= self.kept_from(claim)
    }

    /// Grants a process some more numbers: whether there are any that are free and nobody's.
    pub fn grant(&self, area: Area, process: u32) -> bool {
        self.of(area).lock().grant(process, area.grant())
    }

    /// Another process that was granted numbers which it has not taken: the one with the most of them.
    pub fn richest(&self, area: Area, but: u32) -> Option<u32> {
        let ids = self.of(area).lock();
        let others = ids.grants.holders().into_iter().filter(|process| *process != but);
        let unused = others.map(|process| (ids.unused(process), std::cmp::Reverse(process)));
        unused.max().filter(|(unused, _)| *unused > 0).map(|(_, process)| process.0)
    }

    /// A process's grants are nobody's again. Numbers that it has taken stay taken.
    pub fn take_back(&self, area: Area, process: u32) {
        let mut ids = self.of(area).lock();
        ids.grants.take_back(process);
        ids.from = 0;
    }

    /// The process that a number is granted to.
    #[cfg(test)]
    pub fn grant_of(&self, area: Area, number: u64) -> Option<u32> {
        self.of(area).lock().grants.around(number).map(|(_, process)| process)
    }

    /// Processes with grants.
    #[cfg(test)]
    pub fn holders(&self, area: Area) -> Vec<u32> {
        self.of(area).lock().grants.holders()
    }

    /// A process has ended: nothing of any area is granted to it.
    pub fn ended(&self, process: u32) {
        Area::ALL.into_iter().for_each(|area| self.take_back(area, process));
    }

    /// The journals of these processes are digested up to a group that was appended at this instant.
    pub fn digested(&self, of: &dyn Fn(u32) -> bool, until: u64) {
        self.ids.iter().for_each(|ids| ids.lock().grants.digested(of, until));
    }

    /// The process, if not this one, that has taken a number since its journal was digested.
    pub fn fresh_of_other(&self, area: Area, process: u32, number: u64) -> Option<u32> {
        self.of(area).lock().grants.fresh_of_other(process, number)
    }

    /// Takes the first run of free numbers within `among`, `most` of them at most.
    pub fn take_run(&self, area: Area, among: Range<u64>, most: u64) -> Option<Range<u64>> {
        let mut ids = self.of(area).lock();
        let is_free = |ids: &Ids, n: u64| ids.taken[(n / 64) as usize] >> (n % 64) & 1 == 0;
        let first = among.clone().find(|n| is_free(&ids, *n))?;
        let end = (first..among.end.min(first + most)).find(|n| !is_free(&ids, *n));
        let run = first..end.unwrap_or(among.end.min(first + most));
        for number in run.clone() {
            ids.mark(number);
        }
        Some(run)
    }

    /// Gives one back.
    ///
    /// # Errors
    /// `Corrupt` where it is free.
    pub fn give(&self, area: Area, number: u64) -> Result<()> {
        match self.of(area).lock().give(number) {
            true => Ok(()),
            false => Err(corrupt(format!("{} {number} is freed twice", area.name()))),
        }
    }

    /// Marks one that mount finds in use.
    ///
    /// # Errors
    /// `Corrupt` where another has it, or there is none of this number.
    pub fn mark(&self, area: Area, number: u64) -> Result<()> {
        match self.of(area).lock().mark(number) {
            true => Ok(()),
            false => Err(corrupt(format!("{} {number} is used twice, or there is none", area.name()))),
        }
    }

    /// How many are free.
    pub fn free(&self, area: Area) -> u64 {
        self.of(area).lock().free
    }

    /// How many there can be in use.
    pub fn all(&self, area: Area) -> u64 {
        self.counts[area as usize] - u64::from(area != Area::Block)
    }

    /// Numbers that only one of the two has taken, the first thousand of them.
    pub fn differences(&self, other: &Pools, area: Area) -> Vec<u64> {
        let (a, b) = (self.of(area).lock(), other.of(area).lock());
        let words = a.taken.iter().zip(&b.taken).enumerate().filter(|(_, (x, y))| x != y);
        let bits = words.flat_map(|(i, (x, y))| {
            (0..64).filter(move |bit| (x ^ y) >> bit & 1 == 1).map(move |bit| i as u64 * 64 + bit)
        });
        bits.take(1000).collect()
    }

    /// Whether one is taken.
    pub fn is_taken(&self, area: Area, number: u64) -> bool {
        let ids = self.of(area).lock();
        number < ids.count && ids.taken[(number / 64) as usize] >> (number % 64) & 1 == 1
    }
}

/// Purpose for which numbers are taken: it decides about the last NVM pages ([`Pools::kept_from`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Content of files. The SSD has room for it where the NVM has none.
    Data,
    /// Names, targets, attributes. They are on the NVM only.
    Metadata,
    /// A change that takes something away, and needs room for the rest.
    Removal,
}

/// Numbers that an operation of a process has taken; those that it does not keep go back.
pub struct Taken<'a> {
    pools: &'a Pools,
    process: u32,
    claim: Claim,
    ids: Vec<(Area, u64)>,
}

impl<'a> Taken<'a> {
    /// None yet.
    pub fn new(pools: &'a Pools, process: u32, claim: Claim) -> Taken<'a> {
        Taken { pools, process, claim, ids: Vec::new() }
    }

    /// Purpose of the numbers.
    pub fn claim(&self) -> Claim {
        self.claim
    }

    /// Process that has taken them.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Takes the lowest of those that were granted; `None`: they are used up.
    pub fn take(&mut self, area: Area) -> Option<u64> {
        let number = self.pools.of(area).lock().take(self.process)?;
        self.ids.push((area, number));
        Some(number)
    }

    /// Gives those back that were taken after there were `count`.
    pub fn back_to(&mut self, count: usize) {
        for (area, number) in self.ids.drain(count..) {
            // It was taken above, so it can be given.
            let _ = self.pools.give(area, number);
        }
    }

    /// Whether this one was taken here.
    pub fn has(&self, area: Area, number: u64) -> bool {
        self.ids.contains(&(area, number))
    }

    /// They are in use from now on.
    pub fn keep(&mut self) {
        self.keep_but(Area::Index, &[]);
    }

    /// All but these go into use; they go back when the operation ends.
    pub fn keep_but(&mut self, unused_area: Area, unused: &[u64]) {
        let (pools, process) = (self.pools, self.process);
        self.ids.retain(|(area, number)| {
            let waits = *area == unused_area && unused.contains(number);
            if !waits {
                let when = pools.clock.fetch_add(1, Relaxed) + 1;
                pools.of(*area).lock().grants.used(process, *number, when);
            }
            waits
        });
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.back_to(0);
    }
}

#[cfg(test)]
mod tests;
