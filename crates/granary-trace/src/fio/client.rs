//! [`Client`]: one of those that run a job; what it accesses next, and when.
//!
//! ```text
//!   draw (Order) ──> rate: not before its time ──> gate: flushes and pauses ──> issue
//! ```
//!
//! A **rate** lets the n-th byte go at n / rate after the beginning, so that what was late is made up for, as
//! in fio (`rate`, linear). The **gate** stands before everything that a client issues: after `fsync` writes
//! a flush goes first and the others wait for it; after `thinktime_blocks` accesses all that are under way
//! are waited for, and then the pause.

use super::job::{Access, Job, Part};
use super::order::Order;
use granary_sim::rng::Stream;
use granary_units::Nanos;
use std::ops::Deref;

/// Accesses drawn together, so that the drive can look ahead.
const AHEAD: usize = 32;
/// Nothing is issued from here on, 292 years: half of what the virtual clock holds, so that what is under way
/// can end.
const FARTHEST: Nanos = Nanos(u64::MAX / 2);

/// An access to make.
#[derive(Clone, Copy)]
pub struct Drawn {
    /// How.
    pub access: Access,
    /// Where it begins, bytes.
    pub at: u64,
    /// How many bytes.
    pub len: u64,
}

/// The next step of a place in flight.
pub enum Next {
    /// This, now.
    Access(Drawn),
    /// This, later.
    Due(Drawn, Nanos),
    /// A flush, now.
    Flush,
    /// It asks again then.
    At(Nanos),
    /// It is woken.
    Park,
    /// Nothing any more.
    End,
}

/// A client.
pub struct Client<J> {
    /// The number of its job.
    pub job: usize,
    /// Its job.
    pub spec: J,
    /// When it begins.
    pub begin: Nanos,
    /// From when on it is counted.
    pub counted: Nanos,
    /// Accesses not yet drawn.
    pub left: u64,
    random: Stream,
    order: Order,
    offset: u64,
    /// Bytes not yet drawn, where accesses have several sizes.
    bytes_left: u64,
    /// Bytes of an access, where all have one size.
    len: u64,
    end: Nanos,
    /// Accesses drawn ahead, the next one last.
    ahead: Vec<Drawn>,
    rate: Option<Rate>,
    gate: Option<Gate>,
}

impl<J: Deref<Target = Job>> Client<J> {
    /// The `nth` client of a job that begins at `start` on `part` of the drive.
    pub fn new((job, spec): (usize, J), part: Part, nth: u32, start: Nanos, mut random: Stream) -> Client<J> {
        let order = Order::new(&spec, part, &mut random);
        let (from, to) = spec.start_delay;
        // Nothing is drawn where there is nothing to choose from.
        let delay = if from == to { from } else { from + Nanos(random.below((to - from).0 + 1)) };
        let begin = start.saturating_add(delay);
        let counted = begin.saturating_add(spec.ramp);
        let bytes = spec.io_size.map_or(part.size, |s| s.of(part.size)).saturating_mul(spec.loops);
        let all = |n: u64| if spec.time_based { u64::MAX } else { n };
        let by_bytes = match (order.blocks(), spec.io_size) {
            (Some(blocks), None) => blocks.saturating_mul(spec.loops),
            (Some(_), Some(_)) => bytes.div_ceil(spec.most().max(1)),
            (None, _) => u64::MAX,
        };
        let number = spec.number_ios.map_or(u64::MAX, |n| n.saturating_mul(spec.loops));
        let left = spec.accesses.unwrap_or(all(by_bytes)).min(number);
        let bytes_left = if spec.accesses.is_some() { u64::MAX } else { all(bytes) };
        let len = if order.blocks().is_some() { spec.most() } else { 0 };
        let end = spec.runtime.map_or(FARTHEST, |t| counted.saturating_add(t).min(FARTHEST));
        let (rate, gate) = (Rate::of(&spec, begin), Gate::of(&spec));
        let offset = part.offset + part.increment * u64::from(nth);
        let ahead = Vec::with_capacity(AHEAD);
        Client {
            job,
            spec,
            begin,
            counted,
            left,
            random,
            order,
            offset,
            bytes_left,
            len,
            end,
            ahead,
            rate,
            gate,
        }
    }

    /// The next step at `now`; random accesses that are drawn together are told to `look_ahead` first.
    #[inline]
    pub fn next(&mut self, now: Nanos, look_ahead: impl FnOnce(&[Drawn])) -> Next {
        if now >= self.end || self.left == 0 && self.ahead.is_empty() {
            return Next::End;
        }
        if let Some(gate) = &mut self.gate
            && let Some(instead) = gate.holds(now)
        {
            return instead;
        }
        if self.ahead.is_empty() {
            self.draw(now, look_ahead);
        }
        let Some(drawn) = self.ahead.pop() else { return Next::End };
        let mut due = now;
        if let Some(rate) = &mut self.rate {
            due = rate.take(drawn).max(now);
            if due >= self.end {
                return Next::End;
            }
        }
        if let Some(gate) = &mut self.gate {
            gate.issued(drawn.access);
        }
        if due > now { Next::Due(drawn, due) } else { Next::Access(drawn) }
    }

    /// An access has come to its end; who is woken goes to `woken`.
    #[inline]
    pub fn done(&mut self, now: Nanos, woken: &mut Vec<(Nanos, u64)>) {
        if let Some(gate) = &mut self.gate {
            gate.done(now, woken);
        }
    }

    /// A flush has come to its end.
    pub fn flushed(&mut self, now: Nanos, woken: &mut Vec<(Nanos, u64)>) {
        if let Some(gate) = &mut self.gate {
            gate.flushing = false;
            woken.extend(gate.parked.drain(..).map(|slot| (now, slot)));
        }
    }

    /// The place `slot` waits to be woken.
    pub fn park(&mut self, slot: u64) {
        if let Some(gate) = &mut self.gate {
            gate.parked.push(slot);
        }
    }

    fn draw(&mut self, now: Nanos, look_ahead: impl FnOnce(&[Drawn])) {
        let p = self.spec.pattern;
        // With a rate, each access is drawn at its time.
        let together = if self.rate.is_some() { 1 } else { AHEAD as u64 };
        for _ in 0..self.left.min(together) {
            if self.bytes_left == 0 {
                self.left = self.ahead.len() as u64;
                break;
            }
            // The place is drawn before the access where that tells nothing of its size.
            let (mut place, mut access) = ((0, 0), p.first);
            let one_size = self.len > 0;
            if one_size {
                place = self.order.next(&self.spec, access, &mut self.random);
            }
            if p.first != p.second && self.random.below(100) >= u64::from(self.spec.read_percent) {
                access = p.second;
            }
            if let Some(rate) = &self.rate
                && p.is_mixed()
            {
                access = rate.sooner(access, if access == p.first { p.second } else { p.first }, now);
            }
            if !one_size {
                place = self.order.next(&self.spec, access, &mut self.random);
                self.bytes_left = self.bytes_left.saturating_sub(place.1);
            }
            let len = if one_size { self.len } else { place.1 };
            self.ahead.push(Drawn { access, at: self.offset + place.0, len });
        }
        self.left -= self.ahead.len() as u64;
        self.ahead.reverse();
        if p.random {
            look_ahead(&self.ahead);
        }
    }
}

/// At most so many bytes a second, by direction.
struct Rate {
    begin: Nanos,
    per_s: [Option<u64>; 3],
    taken: [u64; 3],
}

impl Rate {
    fn of(job: &Job, begin: Nanos) -> Option<Rate> {
        let mut per_s = [None; 3];
        for access in job.pattern.accesses() {
            per_s[access.direction()] = job.bytes_per_s(access);
        }
        per_s.iter().any(Option::is_some).then_some(Rate { begin, per_s, taken: [0; 3] })
    }

    /// When the next access of this direction may go.
    fn due(&self, access: Access) -> Nanos {
        let d = access.direction();
        self.per_s[d].map_or(Nanos::ZERO, |per_s| {
            let since = u128::from(self.taken[d]) * 1_000_000_000 / u128::from(per_s);
            self.begin.saturating_add(Nanos(u64::try_from(since).unwrap_or(u64::MAX)))
        })
    }

    /// Of two accesses the one that was drawn, unless it is limited and has to wait longer than the other.
    fn sooner(&self, drawn: Access, other: Access, now: Nanos) -> Access {
        let limited = self.per_s[drawn.direction()].is_some() && self.per_s[other.direction()].is_some();
        if limited && self.due(drawn) > now && self.due(other) < self.due(drawn) { other } else { drawn }
    }

    fn take(&mut self, drawn: Drawn) -> Nanos {
        let due = self.due(drawn.access);
        self.taken[drawn.access.direction()] += drawn.len;
        due
    }
}

/// Flushes and pauses.
struct Gate {
    think: Nanos,
    think_blocks: u64,
    flush_every: u64,
    /// Accesses that may still go before the pause.
    until_pause: u64,
    /// Writes that may still go before the flush.
    until_flush: u64,
    under_way: u64,
    flushing: bool,
    /// The end of the pause.
    resume: Nanos,
    parked: Vec<u64>,
}

impl Gate {
    fn of(job: &Job) -> Option<Gate> {
        (job.think > Nanos::ZERO || job.flush_every > 0).then(|| Gate {
            think: job.think,
            think_blocks: job.think_blocks,
            flush_every: job.flush_every,
            until_pause: job.think_blocks,
            until_flush: job.flush_every,
            under_way: 0,
            flushing: false,
            resume: Nanos::ZERO,
            parked: Vec::new(),
        })
    }

    /// The step at `now` that comes before an access, if there is one.
    fn holds(&mut self, now: Nanos) -> Option<Next> {
        if self.flushing {
            return Some(Next::Park);
        }
        if now < self.resume {
            return Some(Next::At(self.resume));
        }
        if self.flush_every > 0 && self.until_flush == 0 {
            self.until_flush = self.flush_every;
            self.flushing = true;
            return Some(Next::Flush);
        }
        (self.think > Nanos::ZERO && self.until_pause == 0).then_some(Next::Park)
    }

    fn issued(&mut self, access: Access) {
        self.under_way += 1;
        self.until_pause = self.until_pause.saturating_sub(1);
        if access.writes() {
            self.until_flush = self.until_flush.saturating_sub(1);
        }
    }

    fn done(&mut self, now: Nanos, woken: &mut Vec<(Nanos, u64)>) {
        self.under_way -= 1;
        if self.think > Nanos::ZERO && self.until_pause == 0 && self.under_way == 0 {
            self.until_pause = self.think_blocks;
            self.resume = now.saturating_add(self.think);
            woken.extend(self.parked.drain(..).map(|slot| (self.resume, slot)));
        }
    }
}
