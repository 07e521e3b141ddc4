//! [`Cores`]: the drive's processors.

use granary_flash::Timeline;
use granary_units::Nanos;

/// The drive's processors. Work that a host waits for is served in the order in which it is ready. Background
/// work takes time that nobody else has asked for, in pieces that are not interrupted.
#[derive(Clone)]
pub struct Cores(Vec<Timeline>);

impl Cores {
    /// `count` idle processors.
    pub fn new(count: usize) -> Cores {
        Cores(vec![Timeline::new(Nanos(1)); count])
    }

    /// Serves `len` of work that arrives at `ready` on the processor that is free first; returns when it is
    /// done.
    pub fn serve(&mut self, ready: Nanos, len: Nanos) -> Nanos {
        self.idlest().fill(ready, len).end
    }

    /// A piece of background work whose turn comes at `ready`, which is not later than the drive's present:
    /// it takes idle time. Work that comes while the piece is under way waits for its end. Returns when the
    /// piece is done.
    pub fn serve_idle(&mut self, ready: Nanos, len: Nanos) -> Nanos {
        self.serve(ready, len)
    }

    /// A piece of background work that lies ahead, since somebody waits for where it leads. It is counted and
    /// takes the time that is idle as far as one knows, but keeps nobody who comes meanwhile waiting: the
    /// host goes first. Returns when it is done.
    pub fn serve_ahead(&mut self, ready: Nanos, len: Nanos) -> Nanos {
        let core = self.idlest();
        core.charge(1, len);
        core.probe(ready, len) + len
    }

    fn idlest(&mut self) -> &mut Timeline {
        match &mut self.0[..] {
            [one] => one,
            many => many.iter_mut().min_by_key(|c| c.horizon()).expect("at least one processor"),
        }
    }

    /// From when on one of them has nothing to do.
    pub fn idle_from(&self) -> Nanos {
        self.0.iter().map(Timeline::horizon).min().expect("at least one processor")
    }

    /// Serves `count` pieces of work of `len`, which arrive from `ready` on at this distance, no sooner than
    /// one is done and some processor is idle.
    pub fn serve_each(&mut self, ready: Nanos, len: Nanos, distance: Nanos, count: usize) {
        match &mut self.0[..] {
            [one] => one.append_each(ready, len, distance, count as u64),
            _ => {
                for i in 0..count as u64 {
                    self.serve(ready + distance * i, len);
                }
            }
        }
    }

    /// Time has come to `now`.
    #[inline]
    pub fn pass(&mut self, now: Nanos) {
        self.0.iter_mut().for_each(|c| c.pass(now));
    }

    /// Time reserved so far, over all processors.
    pub fn busy(&self) -> Nanos {
        Nanos(self.0.iter().map(|c| c.busy().0).sum())
    }

    /// The part of it that lies after `now`.
    pub fn ahead(&self, now: Nanos) -> Nanos {
        Nanos(self.0.iter().map(|c| c.ahead(now).0).sum())
    }

    /// Forgets all work.
    pub fn reset(&mut self, at: Nanos) {
        self.0.iter_mut().for_each(|c| c.reset(at));
    }
}
