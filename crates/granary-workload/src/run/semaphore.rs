//! [`Semaphore`] (`semblock`, `sempost`) and [`Gate`] (`block`, `wakeup`).
//!
//! ```text
//!             post(v)                              take(v)
//!   blocking: wait until high >= v, high -= v      high += v          (lets v more posts in)
//!             low += v                             wait until low >= v, low -= v
//!
//!   high starts at the high-water mark: that many posts can be pending beyond what a taker waits for
//! ```
//!
//! Each thread's `semblock` has a semaphore of its own; a `sempost` posts to those of all threads, one after the
//! other. A wait gives up after 600 s and goes on as if nothing had happened, as Filebench's `semtimedop` does.
//!
//! A `wakeup` wakes who waits in `block` at that instant and is otherwise lost.
//!
//! Source: Filebench 1.5-alpha3 with System V semaphores.

use super::halt::{Halt, Monitor, Waited, Wake};
use granary_sim::now;
use granary_sim::sync::{Condvar, Mutex};
use granary_units::Nanos;

/// How long a semaphore operation waits (Filebench's `semtimedop` timeout).
const PATIENCE: Nanos = Nanos::from_secs(600);

/// The semaphore of one `semblock` in one thread.
pub(crate) struct Semaphore {
    state: Mutex<Counts>,
    posted: Condvar,
    room: Condvar,
}

struct Counts {
    low: u64,
    high: u64,
    /// What the taker waits for; 0 while there is none.
    wanted: u64,
}

impl Semaphore {
    pub(crate) fn new(highwater: u64) -> Semaphore {
        Semaphore {
            state: Mutex::new(Counts { low: 0, high: highwater, wanted: 0 }),
            posted: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// `semblock`: takes `value` posts; false where the run ended first.
    pub(crate) fn take(&self, halt: &Halt, value: u64) -> bool {
        let mut state = self.state.lock();
        state.high += value;
        self.room.notify_all();
        state.wanted = value;
        let limit = (now() + PATIENCE).min(halt.deadline());
        while state.low < value {
            if halt.over() || now() >= limit {
                state.wanted = 0;
                return !halt.over();
            }
            self.posted.wait_until(&mut state, limit);
        }
        state.low -= value;
        state.wanted = 0;
        true
    }

    /// `sempost`: gives `value` posts; false where the run ended first.
    pub(crate) fn post(&self, halt: &Halt, value: u64, blocking: bool) -> bool {
        let mut state = self.state.lock();
        if blocking {
            let limit = (now() + PATIENCE).min(halt.deadline());
            while state.high < value {
                if halt.over() || now() >= limit {
                    return !halt.over();
                }
                self.room.wait_until(&mut state, limit);
            }
            state.high -= value;
        }
        state.low += value;
        if state.wanted > 0 && state.low >= state.wanted {
            self.posted.notify_all();
        }
        true
    }
}

impl Wake for Semaphore {
    fn wake(&self) {
        let _state = self.state.lock();
        self.posted.notify_all();
        self.room.notify_all();
    }
}

/// Where the `block` flowops of one name wait.
#[derive(Default)]
pub(crate) struct Gate(Monitor<u64>);

impl Gate {
    /// `block`: waits for the next wake-up; false where the run ended first.
    pub(crate) fn pass(&self, halt: &Halt) -> bool {
        let mut wakeups = self.0.lock();
        let seen = *wakeups;
        self.0.wait_until(&mut wakeups, halt, Nanos::MAX, |wakeups| *wakeups != seen) == Waited::Ready
    }

    /// `wakeup`: lets all pass who wait.
    pub(crate) fn open(&self) {
        *self.0.lock() += 1;
        self.0.notify_all();
    }
}

impl Wake for Gate {
    fn wake(&self) {
        self.0.wake();
    }
}
