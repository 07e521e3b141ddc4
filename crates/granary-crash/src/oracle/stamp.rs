//! Stamps: when each change began and ended in logical time, and whether it must survive.
//!
//! ```text
//!   v  |--------|                 w supersedes v: w began after v ended, and w is in force
//!   w              |-----|        (durable, or ended before the instant asked about)
//!   u       |--------|            u and v overlap: either may have been the later one
//! ```
//!
//! Invariants: a stamp in flight at the power failure never ends; durable stamps have ended. Ticks have
//! nothing to do with virtual time: each beginning and each end gets its own.

use std::sync::Arc;

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

    /// The stamp of the times of the first or second directory whose names this change moves
    /// ([`Stamps::begin_named`]).
    pub(crate) fn directory(self, nth: u32) -> StampId {
        debug_assert!(nth < DIRECTORIES);
        StampId(self.0 + 2 + nth)
    }
}

/// Directories whose names one change moves, at most.
const DIRECTORIES: u32 = 2;

#[derive(Clone, Copy, Debug)]
struct Stamp {
    start: Tick,
    end: Tick,
    durable: bool,
}

/// Stamps in one piece that forks share.
const CHUNK: usize = 64;

/// All stamps of one oracle.
#[derive(Clone, Debug)]
pub(crate) struct Stamps {
    clock: Tick,
    /// Full but for the last; each shared with forks until either changes it.
    chunks: Vec<Arc<Vec<Stamp>>>,
}

impl Stamps {
    pub(crate) fn new() -> Stamps {
        let origin = Stamp { start: 0, end: 0, durable: true };
        Stamps { clock: 0, chunks: vec![Arc::new(vec![origin])] }
    }

    fn of(&self, id: StampId) -> Stamp {
        self.chunks[id.0 as usize / CHUNK][id.0 as usize % CHUNK]
    }

    fn of_mut(&mut self, id: StampId) -> &mut Stamp {
        &mut Arc::make_mut(&mut self.chunks[id.0 as usize / CHUNK])[id.0 as usize % CHUNK]
    }

    /// A new instant, after all others.
    pub(crate) fn tick(&mut self) -> Tick {
        self.clock += 1;
        self.clock
    }

    /// A change begins.
    pub(crate) fn begin(&mut self) -> StampId {
        let start = self.tick();
        let last = self.chunks.len() - 1;
        if self.chunks[last].len() == CHUNK {
            self.chunks.push(Arc::new(Vec::with_capacity(CHUNK)));
        }
        let last = self.chunks.len() - 1;
        let chunk = Arc::make_mut(&mut self.chunks[last]);
        chunk.push(Stamp { start, end: Tick::MAX, durable: false });
        StampId((last * CHUNK + chunk.len() - 1) as u32)
    }

    /// A change begins that moves times, too. They have a stamp of their own ([`StampId::times`]): what makes
    /// the change durable (an `fdatasync`, the `fsync` of a directory) need not make them so.
    pub(crate) fn begin_timed(&mut self) -> StampId {
        let id = self.begin();
        let times = self.begin();
        debug_assert_eq!(times, id.times());
        id
    }

    /// A change of names begins. Beside the times of what has the name, those of its directories have stamps
    /// of their own ([`StampId::directory`]): an `fsync` of a file promises its name, and says nothing of
    /// when the directory was changed.
    pub(crate) fn begin_named(&mut self) -> StampId {
        let id = self.begin_timed();
        for nth in 0..DIRECTORIES {
            let directory = self.begin();
            debug_assert_eq!(directory, id.directory(nth));
        }
        id
    }

    /// A change of names has ended, with all times.
    pub(crate) fn end_named(&mut self, id: StampId) {
        self.end_timed(id);
        (0..DIRECTORIES).for_each(|nth| self.end(id.directory(nth)));
    }

    /// A change of names that ended by `horizon` is durable, with all times.
    pub(crate) fn keep_named(&mut self, id: StampId, horizon: Tick) {
        self.keep(id, horizon);
        self.keep(id.times(), horizon);
        for nth in 0..DIRECTORIES {
            self.keep(id.directory(nth), horizon);
        }
    }

    /// A change and its times have ended.
    pub(crate) fn end_timed(&mut self, id: StampId) {
        self.end(id);
        self.end(id.times());
    }

    /// It has ended.
    pub(crate) fn end(&mut self, id: StampId) {
        let end = self.tick();
        self.of_mut(id).end = end;
    }

    /// When the change began.
    pub(crate) fn start(&self, id: StampId) -> Tick {
        self.of(id).start
    }

    /// Makes the change durable if it had ended by `horizon`. Returns whether it is durable now.
    pub(crate) fn keep(&mut self, id: StampId, horizon: Tick) -> bool {
        let stamp = self.of(id);
        if !stamp.durable && stamp.end <= horizon {
            self.of_mut(id).durable = true;
        }
        stamp.durable || stamp.end <= horizon
    }

    /// Makes every change durable that had ended by `horizon`.
    pub(crate) fn keep_all(&mut self, horizon: Tick) {
        let waits = |s: &Stamp| !s.durable && s.end <= horizon;
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.iter().any(waits)) {
            Arc::make_mut(chunk).iter_mut().filter(|s| waits(s)).for_each(|s| s.durable = true);
        }
    }

    pub(crate) fn durable(&self, id: StampId) -> bool {
        self.of(id).durable
    }

    /// Whether `a` ended before `b` began.
    pub(crate) fn before(&self, a: StampId, b: StampId) -> bool {
        self.of(a).end <= self.of(b).start
    }

    /// Whether the change is certainly there at `horizon`.
    pub(crate) fn in_force(&self, id: StampId, horizon: Tick) -> bool {
        let stamp = self.of(id);
        stamp.durable || stamp.end <= horizon
    }

    /// Whether `w` certainly hides `v` at `horizon`.
    pub(crate) fn supersedes(&self, w: StampId, v: StampId, horizon: Tick) -> bool {
        w != v && self.in_force(w, horizon) && self.before(v, w)
    }
}
