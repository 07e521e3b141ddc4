//! Stamps: when each change began and ended in logical time, and whether it must survive.
//!
//! ```text
//!   v  |--------|                 w supersedes v: w began after v ended, and w is in force
//!   w              |-----|        (durable, or ended before the instant asked about)
//!   u       |--------|            u and v overlap: either may have been the later one
//! ```
//!
//! Invariants: a stamp in flight at the power failure never ends; durable stamps have ended. Ticks have nothing to do
//! with virtual time: each beginning and each end gets its own.

/// A logical instant.
pub(crate) type Tick = u64;

/// Names a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StampId(u32);

impl StampId {
    /// Before everything, and durable: the state that the oracle starts from.
    pub(crate) const ORIGIN: StampId = StampId(0);

    /// The stamp of the times that this change moves.
    pub(crate) fn times(self) -> StampId {
        StampId(self.0 + 1)
    }
}

#[derive(Clone, Copy, Debug)]
struct Stamp {
    start: Tick,
    end: Tick,
    durable: bool,
}

/// All stamps of one oracle.
#[derive(Clone, Debug)]
pub(crate) struct Stamps {
    clock: Tick,
    all: Vec<Stamp>,
}

impl Stamps {
    pub(crate) fn new() -> Stamps {
        Stamps { clock: 0, all: vec![Stamp { start: 0, end: 0, durable: true }] }
    }

    /// A new instant, after all others.
    pub(crate) fn tick(&mut self) -> Tick {
        self.clock += 1;
        self.clock
    }

    /// A change begins.
    pub(crate) fn begin(&mut self) -> StampId {
        let start = self.tick();
        self.all.push(Stamp { start, end: Tick::MAX, durable: false });
        StampId((self.all.len() - 1) as u32)
    }

    /// A change begins that moves times, too. They have a stamp of their own ([`StampId::times`]): what makes the change
    /// durable (an `fdatasync`, the `fsync` of a directory) need not make them so.
    pub(crate) fn begin_timed(&mut self) -> StampId {
        let id = self.begin();
        let times = self.begin();
        debug_assert_eq!(times, id.times());
        id
    }

    /// A change and its times have ended.
    pub(crate) fn end_timed(&mut self, id: StampId) {
        self.end(id);
        self.end(id.times());
    }

    /// It has ended.
    pub(crate) fn end(&mut self, id: StampId) {
        let end = self.tick();
        self.all[id.0 as usize].end = end;
    }

    /// When the change began.
    pub(crate) fn start(&self, id: StampId) -> Tick {
        self.all[id.0 as usize].start
    }

    /// Makes the change durable if it had ended by `horizon`. Returns whether it is durable now.
    pub(crate) fn keep(&mut self, id: StampId, horizon: Tick) -> bool {
        let stamp = &mut self.all[id.0 as usize];
        stamp.durable |= stamp.end <= horizon;
        stamp.durable
    }

    /// Makes every change durable that had ended by `horizon`.
    pub(crate) fn keep_all(&mut self, horizon: Tick) {
        for stamp in self.all.iter_mut().filter(|s| s.end <= horizon) {
            stamp.durable = true;
        }
    }

    pub(crate) fn durable(&self, id: StampId) -> bool {
        self.all[id.0 as usize].durable
    }

    /// Whether `a` ended before `b` began.
    pub(crate) fn before(&self, a: StampId, b: StampId) -> bool {
        self.all[a.0 as usize].end <= self.all[b.0 as usize].start
    }

    /// Whether the change is certainly there at `horizon`.
    pub(crate) fn in_force(&self, id: StampId, horizon: Tick) -> bool {
        let stamp = self.all[id.0 as usize];
        stamp.durable || stamp.end <= horizon
    }

    /// Whether `w` certainly hides `v` at `horizon`.
    pub(crate) fn supersedes(&self, w: StampId, v: StampId, horizon: Tick) -> bool {
        w != v && self.in_force(w, horizon) && self.before(v, w)
    }
}
