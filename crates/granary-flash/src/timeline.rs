//! [`Timeline`]: the reservations of one plane or one channel bus, with the idle gaps between them.
//!
//! ```text
//!        |#### read ####|      gap      |### program ###|   gap   |## erase ##|
//!   -----+--------------+---------------+---------------+---------+-----------+------> time
//!                       fill: first gap that the work fits into               ^ horizon: append
//! ```
//!
//! A page's read occupies its plane first and its bus afterwards, so the bus is reserved for a later instant
//! than the call's. With plain first-come-first-served reservations (`granary_sim::Server`) the bus would
//! idle until then, and the reads of one channel would finish in the order of their issue, whatever their
//! planes do. A flash controller serves whoever is ready: `fill` gives idle time away that earlier
//! reservations left.
//!
//! Work that is *urgent* (a host's read) goes before what has not begun, where the timeline keeps what it has
//! reserved ([`Timeline::with_queue`], timeline/queue.rs).
//!
//! Invariants: reservations never overlap; only urgent work moves others, and only to later; gaps are sorted,
//! disjoint and end before the horizon. Nothing is forgotten that lies after the instant of
//! [`Timeline::pass`], up to [`MOST`] gaps. It does *not* interrupt: work that has begun stays where it is.

mod gaps;
mod queue;

use gaps::Gaps;
use granary_sim::Span;
use granary_units::Nanos;
use queue::Queue;

/// Gaps, and reservations of a queue, at which those that have passed are forgotten.
const FEW: usize = 32;
/// Gaps, and reservations of a queue, that are remembered: pages of 16 MiB, a whole write buffer, on a single
/// bus. Only who reserves very far ahead, or without saying what has passed, has more; then the older half is
/// forgotten.
const MOST: usize = 4096;

/// The reserved time of a resource that does one thing at a time.
#[derive(Clone, Debug)]
pub struct Timeline {
    horizon: u64,
    /// Gaps shorter than the shortest work are not worth remembering.
    shortest: u64,
    busy: u64,
    served: u64,
    gaps: Gaps,
    /// Gaps at which to look for those that have passed.
    many: usize,
    queue: Option<Box<Queue>>,
    /// Nothing will be asked for before.
    now: u64,
}

impl Timeline {
    /// An idle resource whose shortest piece of work lasts `shortest`.
    pub fn new(shortest: Nanos) -> Timeline {
        let (gaps, shortest) = (Gaps::default(), shortest.0.max(1));
        Timeline { horizon: 0, shortest, busy: 0, served: 0, gaps, many: FEW, queue: None, now: 0 }
    }

    /// The same; reservations are kept, so that urgent work can go before them.
    pub fn with_queue(shortest: Nanos) -> Timeline {
        Timeline { queue: Some(Box::default()), ..Timeline::new(shortest) }
    }

    /// Nothing will be asked for before `now`: reservations that ended by then may be forgotten.
    #[inline]
    pub fn pass(&mut self, now: Nanos) {
        self.now = now.0;
    }

    /// Reserves `len` from `ready` on, after everything reserved so far.
    #[inline]
    pub fn append(&mut self, ready: Nanos, len: Nanos) -> Span {
        self.append_as(ready, len, false)
    }

    /// [`Timeline::append`] of `count` pieces of work of `len`, the first at `ready`, each `distance` after
    /// the one before, which is done by then, as is everything else; of all but the last that time has
    /// passed.
    pub fn append_each(&mut self, ready: Nanos, len: Nanos, distance: Nanos, count: u64) {
        debug_assert!(self.horizon <= ready.0 && len <= distance && self.queue.is_none());
        let Some(others) = count.checked_sub(1) else { return };
        self.busy += len.0 * others;
        self.served += others;
        if others > 0 {
            self.horizon = ready.0 + distance.0 * (others - 1) + len.0;
        }
        self.append(ready + distance * others, len);
    }

    #[inline(always)]
    fn append_as(&mut self, ready: Nanos, len: Nanos, urgent: bool) -> Span {
        let start = ready.0.max(self.horizon);
        if start - self.horizon >= self.shortest {
            self.remember((self.horizon, start));
        }
        self.horizon = start + len.0;
        self.account(start, len.0, urgent)
    }

    /// Reserves `len` as early as possible from `ready` on: in the first remembered gap that has room, else
    /// at the end.
    #[inline]
    pub fn fill(&mut self, ready: Nanos, len: Nanos) -> Span {
        self.fill_as(ready, len, false)
    }

    #[inline]
    fn fill_as(&mut self, ready: Nanos, len: Nanos, urgent: bool) -> Span {
        // Most often the newest gap has passed already, and with it all others.
        if ready.0 < self.horizon && self.gaps.last().is_some_and(|(_, end)| end >= ready.0 + len.0) {
            self.gaps.seek(ready.0 + len.0);
            if let Some(start) = self.cut_on(ready.0, len.0) {
                return self.account(start, len.0, urgent);
            }
        }
        self.append_as(ready, len, urgent)
    }

    /// Reserves `len` from `ready` on for urgent work: before everything that has not begun by then and is
    /// not urgent. That work moves to later, as far as the idle time between does not take it up. The
    /// instants that its callers were told stay as they were: they are wrong by the urgent work that has
    /// passed. Without a queue it is [`Timeline::fill`].
    #[inline]
    pub fn urgent(&mut self, ready: Nanos, len: Nanos) -> Span {
        if ready.0 < self.horizon
            && let Some(queue) = &self.queue
            && let Some((i, turn)) = queue.turn(ready.0)
        {
            let gap = self.gap_for(ready.0, len.0);
            if gap.is_none_or(|i| self.gaps[i].0.max(ready.0) > turn) {
                return self.overtake(i, turn, len.0);
            }
        }
        self.fill_as(ready, len, true)
    }

    /// Puts urgent work before the `i`-th reservation of the queue, at `start`.
    #[cold]
    fn overtake(&mut self, i: usize, start: u64, len: u64) -> Span {
        let queue = self.queue.as_mut().expect("who overtakes has a queue");
        let (end, last) = queue.insert(i, start, len);
        if last {
            self.horizon = end;
        }
        // From `start` to `end` there is no idle time any more.
        let from = self.gaps.partition_point(|gap| gap.1 <= start);
        let to = self.gaps.partition_point(|gap| gap.0 < end);
        let left = (from..to).flat_map(|i| {
            let (a, b) = self.gaps[i];
            [(a, b.min(start)), (a.max(end), b)]
        });
        let left: Vec<_> = left.filter(|(a, b)| b.saturating_sub(*a) >= self.shortest).collect();
        self.gaps.remove_range(from..to);
        left.into_iter().rev().for_each(|gap| self.gaps.insert(from, gap));
        self.count(start, len)
    }

    /// When [`Timeline::fill`] would begin the work, without reserving anything.
    pub fn probe(&self, ready: Nanos, len: Nanos) -> Nanos {
        let gap = (ready.0 < self.horizon).then(|| self.gap_for(ready.0, len.0)).flatten();
        Nanos(ready.0.max(gap.map_or(self.horizon, |i| self.gaps[i].0)))
    }

    /// Begins a sequence ([`Timeline::fill_on`]) whose first work is ready at `ready` and lasts `len`.
    #[inline]
    pub(crate) fn begin(&mut self, ready: Nanos, len: Nanos) {
        self.gaps.seek(ready.0 + len.0);
    }

    /// The same reservation as [`Timeline::fill`] for work of a sequence: all of one length, each ready no
    /// earlier than the one before, and no other reservation since [`Timeline::begin`]. The search goes on
    /// where it ended.
    #[inline(always)]
    pub(crate) fn fill_on(&mut self, ready: Nanos, len: Nanos) -> Span {
        if let Some(start) = self.cut_on(ready.0, len.0) {
            return self.account(start, len.0, false);
        }
        // The remembered gaps end where this work begins: too early for the next.
        self.append(ready, len)
    }

    /// Takes the first `len` from `ready` on out of the first gap that has room, from where the last search
    /// ended; returns when they begin.
    #[inline(always)]
    fn cut_on(&mut self, ready: u64, len: u64) -> Option<u64> {
        while let Some((gap_start, gap_end)) = self.gaps.next(ready + len) {
            let start = gap_start.max(ready);
            if start + len <= gap_end {
                self.gaps.cut_next(start, start + len, self.shortest);
                return Some(start);
            }
            self.gaps.pass();
        }
        None
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

    /// The part of [`Timeline::busy`] that lies after `now`. Idle time shorter than the shortest work counts
    /// as reserved, and so does what [`Timeline::hold`] keeps free.
    pub fn ahead(&self, now: Nanos) -> Nanos {
        if self.horizon <= now.0 {
            return Nanos::ZERO;
        }
        let after = |(start, end): (u64, u64)| end - start.max(now.0);
        Nanos(match &self.queue {
            Some(queue) => queue.after(now.0).map(after).sum(),
            None => {
                let gaps = self.gaps.rev().take_while(|gap| gap.1 > now.0);
                self.horizon - now.0 - gaps.map(after).sum::<u64>()
            }
        })
    }

    /// Reservations made so far.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Forgets all reservations: idle from `at` on (power failure).
    pub fn reset(&mut self, at: Nanos) {
        self.horizon = at.0;
        self.gaps.clear();
        if let Some(queue) = &mut self.queue {
            queue.reset(at.0);
        }
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

    /// Takes the reservations of `earlier`, a copy of this one, in place of its own; counts stay.
    pub fn rewind(&mut self, earlier: &Timeline) {
        self.horizon = earlier.horizon;
        self.gaps.clone_from(&earlier.gaps);
        self.queue.clone_from(&earlier.queue);
    }

    /// Work that begins at `start` has been reserved.
    #[inline]
    fn account(&mut self, start: u64, len: u64, urgent: bool) -> Span {
        if let Some(queue) = &mut self.queue {
            queue.book(start, len, urgent, self.now);
        }
        self.count(start, len)
    }

    #[inline]
    fn count(&mut self, start: u64, len: u64) -> Span {
        self.busy += len;
        self.served += 1;
        Span { start: Nanos(start), end: Nanos(start + len) }
    }

    #[inline]
    fn remember(&mut self, gap: (u64, u64)) {
        // As a rule there is one, which has passed.
        if self.gaps.last().is_none_or(|last| last.1 <= self.now) {
            return self.gaps.only(gap);
        }
        self.remember_more(gap);
    }

    fn remember_more(&mut self, gap: (u64, u64)) {
        if self.gaps.len() >= self.many {
            self.forget_gaps();
        }
        self.gaps.push(gap);
    }

    #[cold]
    fn forget_gaps(&mut self) {
        let passed = self.gaps.partition_point(|gap| gap.1 <= self.now);
        self.gaps.forget(if passed == 0 && self.gaps.len() >= MOST { MOST / 2 } else { passed });
        // Twice as many as are left: looking costs each of them little.
        self.many = (2 * self.gaps.len()).clamp(FEW, MOST);
    }

    /// The earliest gap that has room from `ready` on.
    fn gap_for(&self, ready: u64, len: u64) -> Option<usize> {
        // Gaps are sorted, so those that end too early are a prefix; the first of the others that fits is the
        // earliest.
        let late_enough = self.gaps.partition_point(|&(_, end)| end < ready + len);
        (late_enough..self.gaps.len()).find(|&i| self.gaps[i].0.max(ready) + len <= self.gaps[i].1)
    }
}

#[cfg(test)]
mod tests;
