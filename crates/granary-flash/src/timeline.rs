//! [`Timeline`]: the reservations of one plane or one channel bus, with the idle gaps between them.
//!
//! ```text
//!        |#### read ####|      gap      |### program ###|   gap   |## erase ##|
//!   -----+--------------+---------------+---------------+---------+-----------+------> time
//!                       fill: first gap that the work fits into               ^ horizon: append
//! ```
//!
//! A page's read occupies its plane first and its bus afterwards, so the bus is reserved for a later instant than the
//! call's. With plain first-come-first-served reservations (`granary_sim::Server`) the bus would idle until then, and
//! the reads of one channel would finish in the order of their issue, whatever their planes do. A flash controller
//! serves whoever is ready: `fill` gives idle time away that earlier reservations left.
//!
//! Invariants: reservations never overlap and never move; gaps are sorted, disjoint and end before the horizon.
//! The newest 32 gaps are remembered: older ones lie in the past of any realistic queue.
//! It does *not* preempt: work that has been reserved stays where it is.

use granary_sim::Span;
use granary_units::Nanos;

/// Gaps remembered; 32 transfers ahead on one bus is more than a queue of 256 commands leaves on 8 channels.
const GAPS: usize = 32;

/// Where a sequence of fills has come to ([`Timeline::cursor`], [`Timeline::fill_on`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor(usize);

impl Cursor {
    /// Before every gap.
    pub(crate) const START: Cursor = Cursor(0);
}

/// The reserved time of a resource that does one thing at a time.
#[derive(Clone, Debug)]
pub struct Timeline {
    horizon: u64,
    /// Gaps shorter than the shortest work are not worth remembering.
    shortest: u64,
    busy: u64,
    served: u64,
    gaps: Vec<(u64, u64)>,
}

impl Timeline {
    /// An idle resource whose shortest piece of work lasts `shortest`.
    pub fn new(shortest: Nanos) -> Timeline {
        Timeline {
            horizon: 0,
            shortest: shortest.0.max(1),
            busy: 0,
            served: 0,
            gaps: Vec::with_capacity(GAPS),
        }
    }

    /// Reserves `len` from `ready` on, after everything reserved so far.
    #[inline]
    pub fn append(&mut self, ready: Nanos, len: Nanos) -> Span {
        let start = ready.0.max(self.horizon);
        if start - self.horizon >= self.shortest {
            self.remember((self.horizon, start));
        }
        self.horizon = start + len.0;
        self.account(start, len.0)
    }

    /// Reserves `len` as early as possible from `ready` on: in the first remembered gap that has room, else at the
    /// end.
    #[inline]
    pub fn fill(&mut self, ready: Nanos, len: Nanos) -> Span {
        // Most often the newest gap has passed already, and with it all others.
        if ready.0 < self.horizon
            && self.gaps.last().is_some_and(|&(_, end)| end >= ready.0 + len.0)
            && let Some(start) = self.take_gap(ready.0, len.0)
        {
            return self.account(start, len.0);
        }
        self.append(ready, len)
    }

    /// Where a sequence begins whose first work is ready at `ready` and lasts `len`.
    #[inline]
    pub(crate) fn cursor(&self, ready: Nanos, len: Nanos) -> Cursor {
        let end = ready.0 + len.0;
        // Most often the newest gap has passed already, and with it all others.
        if self.gaps.last().is_none_or(|gap| gap.1 < end) {
            return Cursor(self.gaps.len());
        }
        Cursor(self.gaps.partition_point(|gap| gap.1 < end))
    }

    /// The same reservation as [`Timeline::fill`] for work of a sequence: all of one length, each ready no earlier than the one
    /// before, and no other reservation in between. The search goes on where it ended, over gaps that have not been passed.
    #[inline]
    pub(crate) fn fill_on(&mut self, cursor: &mut Cursor, ready: Nanos, len: Nanos) -> Span {
        let end = ready.0 + len.0;
        while let Some(&(gap_start, gap_end)) = self.gaps.get(cursor.0) {
            if gap_end >= end && gap_start.max(ready.0) + len.0 <= gap_end {
                let start = self.take(cursor.0, ready.0, len.0);
                return self.account(start, len.0);
            }
            cursor.0 += 1;
        }
        let span = self.append(ready, len);
        // What was remembered now ends where this work begins: too early for the next.
        cursor.0 = self.gaps.len();
        span
    }

    /// Instant after which nothing is reserved.
    #[inline]
    pub fn horizon(&self) -> Nanos {
        Nanos(self.horizon)
    }

    /// Time reserved so far, for utilisation.
    pub fn busy(&self) -> Nanos {
        Nanos(self.busy)
    }

    /// Reservations made so far.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Forgets all reservations: idle from `at` on (power failure).
    pub fn reset(&mut self, at: Nanos) {
        self.horizon = at.0;
        self.gaps.clear();
    }

    /// Counts `n` pieces of work of `len` each without reserving time for them.
    pub fn charge(&mut self, n: u64, len: Nanos) {
        self.busy += len.0 * n;
        self.served += n;
    }

    /// Nothing begins before `until`: the resource waits, which is no work.
    pub fn hold(&mut self, until: Nanos) {
        self.horizon = self.horizon.max(until.0);
    }

    /// Takes the reservations of `earlier`, a copy of this one, in place of its own; what was counted stays.
    pub fn rewind(&mut self, earlier: &Timeline) {
        self.horizon = earlier.horizon;
        self.gaps.clone_from(&earlier.gaps);
    }

    #[inline]
    fn account(&mut self, start: u64, len: u64) -> Span {
        self.busy += len;
        self.served += 1;
        Span { start: Nanos(start), end: Nanos(start + len) }
    }

    fn remember(&mut self, gap: (u64, u64)) {
        if self.gaps.len() == GAPS {
            // Half at a time: the cost of moving the rest is shared by many calls.
            self.gaps.drain(..GAPS / 2);
        }
        self.gaps.push(gap);
    }

    fn take_gap(&mut self, ready: u64, len: u64) -> Option<u64> {
        // Gaps are sorted, so those that end too early are a prefix; the first of the others that fits is the
        // earliest.
        let late_enough = self.gaps.partition_point(|&(_, end)| end < ready + len);
        let fits = |&(start, end): &(u64, u64)| start.max(ready) + len <= end;
        let i = late_enough + self.gaps[late_enough..].iter().position(fits)?;
        Some(self.take(i, ready, len))
    }

    /// Takes the first `len` from `ready` on out of a gap, where they fit; returns when they begin.
    #[inline]
    fn take(&mut self, i: usize, ready: u64, len: u64) -> u64 {
        let (gap_start, gap_end) = self.gaps[i];
        let start = gap_start.max(ready);
        let before = start - gap_start >= self.shortest;
        let after = gap_end - (start + len) >= self.shortest;
        match (before, after) {
            (false, false) => {
                self.gaps.remove(i);
            }
            (true, false) => self.gaps[i].1 = start,
            (false, true) => self.gaps[i].0 = start + len,
            (true, true) => {
                self.gaps[i].1 = start;
                if self.gaps.len() < GAPS {
                    self.gaps.insert(i + 1, (start + len, gap_end));
                } else {
                    // No room to remember both halves: keep the later one.
                    self.gaps[i] = (start + len, gap_end);
                }
            }
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    fn span(start: u64, end: u64) -> Span {
        Span { start: Nanos(start), end: Nanos(end) }
    }

    #[test]
    fn work_that_is_ready_goes_before_work_that_is_reserved_for_later() {
        let mut t = Timeline::new(Nanos(5));
        assert_eq!(t.fill(Nanos(100), Nanos(10)), span(100, 110));
        assert_eq!(t.fill(Nanos(40), Nanos(10)), span(40, 50));
        assert_eq!(t.fill(Nanos(40), Nanos(10)), span(50, 60));
        assert_eq!(t.fill(Nanos(95), Nanos(10)), span(110, 120), "does not fit before 100");
        assert_eq!(t.append(Nanos(0), Nanos(10)), span(120, 130), "append never goes back");
        assert_eq!((t.busy(), t.served()), (Nanos(50), 5));
    }

    /// No two reservations overlap and none starts before it is ready, whatever the order of calls.
    #[test]
    fn reservations_never_overlap() {
        let mut t = Timeline::new(Nanos(3));
        let mut rng = Stream::new(1, "timeline");
        let mut all = Vec::new();
        let mut now = 0;
        for _ in 0..20_000 {
            now += rng.below(12);
            let (ready, len) = (now + rng.below(200), 3 + rng.below(15));
            let s = if rng.chance(0.8) {
                t.fill(Nanos(ready), Nanos(len))
            } else {
                t.append(Nanos(ready), Nanos(len))
            };
            assert!(s.start.0 >= ready && s.end.0 == s.start.0 + len);
            all.push((s.start.0, s.end.0));
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|w| w[0].1 <= w[1].0));
    }

    /// A sequence that goes on where it was is served exactly as one that searches anew each time.
    #[test]
    fn a_sequence_is_served_as_if_each_were_searched_for() {
        let mut rng = Stream::new(2, "timeline");
        let mut t = Timeline::new(Nanos(5));
        let (mut now, mut filled) = (0, 0);
        for _ in 0..5_000 {
            now += rng.below(60);
            // Reservations far ahead leave gaps.
            for _ in 0..rng.below(4) {
                t.append(Nanos(now + rng.below(400)), Nanos(5 + rng.below(20)));
            }
            let mut plain = t.clone();
            let (mut cursor, mut ready) = (t.cursor(Nanos(now), Nanos(10)), now);
            for _ in 0..rng.below(20) {
                ready += [0, rng.below(8), rng.below(80)][rng.below(3) as usize];
                let span = t.fill_on(&mut cursor, Nanos(ready), Nanos(10));
                assert_eq!(span, plain.fill(Nanos(ready), Nanos(10)));
                filled += (span.end < t.horizon()) as u32;
            }
            assert_eq!((&t.gaps, t.horizon(), t.busy()), (&plain.gaps, plain.horizon(), plain.busy()));
            if rng.chance(0.02) {
                now = t.horizon().0;
            }
        }
        assert!(filled > 1_000, "{filled} in gaps");
    }
}
