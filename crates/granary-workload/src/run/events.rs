//! [`Events`]: the event generator that `eventlimit`, `opslimit`, `iopslimit` and `bwlimit` consume.
//!
//! ```text
//!   rate r: every max(10 / r s, 1 us) a tick adds the events of that span; at most about 5 s worth are kept
//!   consumer: takes what it needs, or what there is and the rest at later ticks
//! ```
//!
//! There is no generator task: the queue is brought up to date by who looks at it.
//!
//! Difference: Filebench's consumer waits until *all* events that it needs are there, and so waits for ever
//! where it needs more than 5 s worth; here it takes them as they come, which gives the same rate.
//!
//! Source: Filebench 1.5-alpha3, event generator.

use super::halt::{Halt, Monitor, Waited};
use granary_units::Nanos;

pub(crate) struct Events {
    rate: u64,
    start: Nanos,
    period: Nanos,
    queue: parking_lot::Mutex<Queue>,
    sleepers: std::sync::Arc<Monitor<()>>,
}

struct Queue {
    available: u64,
    /// Ticks that have been added.
    ticks: u64,
}

impl Events {
    /// A generator of `rate` events per second that starts now with none; `sleepers` is where waiting threads
    /// wait.
    pub(crate) fn new(rate: u64, sleepers: std::sync::Arc<Monitor<()>>) -> Events {
        let period = Nanos((10_000_000_000 / rate.max(1)).max(1_000));
        Events {
            rate,
            start: granary_sim::now(),
            period,
            queue: parking_lot::Mutex::new(Queue { available: 0, ticks: 0 }),
            sleepers,
        }
    }

    /// Whether there is a limit.
    pub(crate) fn enabled(&self) -> bool {
        self.rate > 0
    }

    /// Takes `n` events, waiting for them; false where the run ended first.
    pub(crate) fn take(&self, halt: &Halt, mut n: u64) -> bool {
        loop {
            let next_tick = {
                let mut queue = self.queue.lock();
                self.refill(&mut queue);
                let taken = queue.available.min(n);
                queue.available -= taken;
                n -= taken;
                self.start + self.period * (queue.ticks + 1)
            };
            if n == 0 || halt.over() {
                return n == 0;
            }
            sleep_until(&self.sleepers, halt, next_tick);
        }
    }

    fn refill(&self, queue: &mut Queue) {
        let ticks = (granary_sim::now() - self.start).0 / self.period.0;
        // Events up to a tick, so that no fraction is ever lost.
        let events =
            |tick: u64| u128::from(tick) * u128::from(self.period.0) * u128::from(self.rate) / 1_000_000_000;
        let new = (events(ticks) - events(queue.ticks)) as u64;
        queue.ticks = ticks;
        let most = self.rate.saturating_mul(5).saturating_add(events(1) as u64);
        queue.available = queue.available.max((queue.available.saturating_add(new)).min(most));
    }
}

/// Sleeps until `t`, or until the run is over; whether `t` has come.
pub(crate) fn sleep_until(sleepers: &Monitor<()>, halt: &Halt, t: Nanos) -> bool {
    let mut guard = sleepers.lock();
    sleepers.wait_until(&mut guard, halt, t, |()| granary_sim::now() >= t) == Waited::Ready
}
