//! [`Gaps`]: the idle times of a timeline, in order; made for changes that lie near each other.
//!
//! ```text
//!   place   | passed | gap gap gap |   hole   | gap gap gap gap |
//!           0        from          a          b                 len
//! ```
//!
//! A gap buffer, as in text editors (its hole is not one of our gaps). Cleaning a block books some ten
//! transfers one shortly after the other, each in the middle of a hundred gaps and more. Each makes two gaps
//! of one or takes one away. The hole is where the last change was, so only the gaps between two changes
//! move. The search for the next place moves the gaps before it over the hole ([`Gaps::seek`],
//! [`Gaps::next`], [`Gaps::cut_next`]).
//!
//! Invariant: `from <= a <= b <= places.len()`; places before `from` and in the hole have no meaning.

use std::ops::{Index, Range};

/// An idle time: from, until.
pub(super) type Gap = (u64, u64);

/// Places that a new hole has at least.
const HOLE: usize = 32;
/// Gaps that are looked at one after the other, before the search begins in the middle.
const NEAR: usize = 4;

/// See the module.
#[derive(Clone, Default)]
pub(super) struct Gaps {
    places: Vec<Gap>,
    from: usize,
    a: usize,
    b: usize,
}

impl Gaps {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.from - (self.b - self.a)
    }

    #[inline]
    fn place(&self, i: usize) -> usize {
        let place = self.from + i;
        if place < self.a { place } else { place + (self.b - self.a) }
    }

    #[inline(always)]
    pub(super) fn last(&self) -> Option<Gap> {
        match self.places.get(self.b..) {
            Some([.., last]) => Some(*last),
            _ => self.places[self.from..self.a].last().copied(),
        }
    }

    /// Forgets all gaps but this new one.
    #[inline]
    pub(super) fn only(&mut self, gap: Gap) {
        (self.from, self.a, self.b) = (0, 0, 0);
        match self.places.first_mut() {
            Some(first) => {
                *first = gap;
                self.places.truncate(1);
            }
            None => self.places.push(gap),
        }
    }

    /// The gaps, the last one first.
    pub(super) fn rev(&self) -> impl Iterator<Item = Gap> + '_ {
        self.places[self.b..].iter().rev().chain(self.places[self.from..self.a].iter().rev()).copied()
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        (self.from, self.a, self.b) = (0, 0, 0);
    }

    pub(super) fn push(&mut self, gap: Gap) {
        if self.places.len() == self.places.capacity() && self.len() <= self.places.len() / 2 {
            // Half of it is passed or hole.
            self.lay_out(self.len());
        }
        if self.b == self.places.len() && self.a < self.b {
            self.places[self.a] = gap;
            self.a += 1;
            return;
        }
        self.places.push(gap);
    }

    /// Puts `gap` before the `i`-th.
    pub(super) fn insert(&mut self, i: usize, gap: Gap) {
        if self.a == self.b {
            self.lay_out(i);
        }
        self.seek_to(i);
        self.places[self.a] = gap;
        self.a += 1;
    }

    pub(super) fn remove_range(&mut self, range: Range<usize>) {
        self.seek_to(range.start);
        self.b += range.len();
    }

    /// Forgets the first `n`.
    pub(super) fn forget(&mut self, n: usize) {
        let before = self.a - self.from;
        self.from += n.min(before);
        self.b += n.saturating_sub(before);
    }

    /// The index of the first gap for which `before` does not hold; it holds for all in front of that.
    pub(super) fn partition_point(&self, before: impl Fn(&Gap) -> bool) -> usize {
        let (first, second) = (&self.places[self.from..self.a], &self.places[self.b..]);
        match second.first() {
            Some(gap) if before(gap) => first.len() + second.partition_point(before),
            _ => first.partition_point(before),
        }
    }

    /// Puts the hole before the first gap that does not end before `end`.
    #[inline]
    pub(super) fn seek(&mut self, end: u64) {
        if self.places[self.from..self.a].last().is_some_and(|gap| gap.1 >= end) {
            self.seek_to(self.places[self.from..self.a].partition_point(|gap| gap.1 < end));
        } else {
            self.next(end);
        }
    }

    /// The first gap behind the hole that does not end before `end`; the hole is before it then.
    #[inline(always)]
    pub(super) fn next(&mut self, end: u64) -> Option<Gap> {
        // As a rule it is near.
        for _ in 0..NEAR {
            match self.places.get(self.b) {
                Some(gap) if gap.1 < end => self.pass(),
                near => return near.copied(),
            }
        }
        self.far(end)
    }

    /// [`Gaps::next`], by a search.
    fn far(&mut self, end: u64) -> Option<Gap> {
        let n = self.places[self.b..].partition_point(|gap| gap.1 < end);
        self.seek_to(self.a - self.from + n);
        self.places.get(self.b).copied()
    }

    /// Moves the gap behind the hole before it.
    #[inline]
    pub(super) fn pass(&mut self) {
        self.places[self.a] = self.places[self.b];
        (self.a, self.b) = (self.a + 1, self.b + 1);
    }

    /// Leaves of the gap behind the hole what is before `start` and what is from `end` on, where that is
    /// `shortest` or longer. The hole is between the two.
    #[inline(always)]
    pub(super) fn cut_next(&mut self, start: u64, end: u64, shortest: u64) {
        if self.a == self.b {
            self.lay_out(self.a - self.from);
        }
        // Both are written, and count or not: which of them stay is as good as random, and a branch for each
        // would be guessed wrong.
        let (from, until) = self.places[self.b];
        self.places[self.a] = (from, start);
        self.places[self.b] = (end, until);
        self.a += usize::from(start - from >= shortest);
        self.b += usize::from(until - end < shortest);
    }

    /// Puts the hole before the `i`-th gap.
    #[inline]
    pub(super) fn seek_to(&mut self, i: usize) {
        let to = self.from + i;
        if to < self.a {
            let n = self.a - to;
            self.places.copy_within(to..self.a, self.b - n);
            (self.a, self.b) = (to, self.b - n);
        } else if to > self.a {
            let n = to - self.a;
            self.places.copy_within(self.b..self.b + n, self.a);
            (self.a, self.b) = (to, self.b + n);
        }
    }

    /// Lays the gaps out anew, with a hole before the `i`-th and nothing passed.
    #[cold]
    fn lay_out(&mut self, i: usize) {
        let all: Vec<Gap> =
            self.places[self.from..self.a].iter().chain(&self.places[self.b..]).copied().collect();
        let hole = HOLE.max(all.len() / 2);
        self.places.clear();
        self.places.extend_from_slice(&all[..i]);
        self.places.resize(i + hole, (0, 0));
        self.places.extend_from_slice(&all[i..]);
        (self.from, self.a, self.b) = (0, i, i + hole);
    }
}

impl Index<usize> for Gaps {
    type Output = Gap;

    #[inline]
    fn index(&self, i: usize) -> &Gap {
        &self.places[self.place(i)]
    }
}

impl std::fmt::Debug for Gaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.places[self.from..self.a].iter().chain(&self.places[self.b..])).finish()
    }
}

impl PartialEq for Gaps {
    fn eq(&self, other: &Gaps) -> bool {
        self.rev().eq(other.rev())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    /// After any operations it holds the same gaps as a plain vector.
    #[test]
    fn a_gap_buffer_holds_what_a_vector_holds() {
        let (mut gaps, mut model, mut s) = (Gaps::default(), Vec::<Gap>::new(), Stream::new(1, "gaps"));
        let mut time = 0;
        for n in 0..200_000 {
            let i = |s: &mut Stream, model: &Vec<Gap>| s.below(model.len() as u64) as usize;
            match s.below(10) {
                0..3 => {
                    time += 10;
                    gaps.push((time, time + 5));
                    model.push((time, time + 5));
                }
                3..6 if !model.is_empty() => {
                    // In the middle of one that is there.
                    let i = i(&mut s, &model);
                    let (from, until) = model[i];
                    let start = from + s.below(until - from + 1);
                    let end = start + s.below(until - start + 1);
                    gaps.seek_to(i);
                    gaps.cut_next(start, end, 2);
                    model.splice(i..=i, [(from, start), (end, until)].into_iter().filter(|g| g.1 - g.0 >= 2));
                }
                6 | 7 if !model.is_empty() => {
                    let i = i(&mut s, &model);
                    let gap = (model[i].0, model[i].0);
                    gaps.insert(i, gap);
                    model.insert(i, gap);
                }
                8 if s.below(30) == 0 => {
                    let n = s.below(model.len() as u64 + 1) as usize;
                    gaps.forget(n);
                    model.drain(..n);
                }
                8 if s.below(30) == 0 => {
                    let (x, y) = (s.below(model.len() as u64 + 1), s.below(model.len() as u64 + 1));
                    let range = x.min(y) as usize..x.max(y) as usize;
                    gaps.remove_range(range.clone());
                    model.drain(range);
                }
                9 if s.below(3000) == 0 => {
                    gaps.clear();
                    model.clear();
                }
                _ => {}
            }
            assert_eq!((gaps.len(), gaps.last()), (model.len(), model.last().copied()));
            if let Some(i) = model.len().checked_sub(1).map(|last| s.below(last as u64 + 1) as usize) {
                assert_eq!(gaps[i], model[i]);
                let end = model[i].1 + s.below(3);
                let first = gaps.partition_point(|gap| gap.1 < end);
                assert_eq!(first, model.partition_point(|gap| gap.1 < end));
                gaps.seek(end);
                assert_eq!(gaps.next(end), model.get(first).copied());
                let later = end + s.below(30);
                let next = model[first..].iter().position(|gap| gap.1 >= later).map(|n| first + n);
                assert_eq!(gaps.next(later), next.map(|n| model[n]));
            }
            if n % 64 == 0 {
                assert!(gaps.rev().eq(model.iter().rev().copied()));
            }
        }
    }
}
