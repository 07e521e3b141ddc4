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
//! Each thread's `semblock` has a semaphore of its own; a `sempost` posts to those of all threads, one after
//! the other. A wait gives up after 600 s and goes on as if nothing had happened, as Filebench's `semtimedop`
//! does.
//!
//! A `wakeup` wakes who waits in `block` at that instant and is otherwise lost.
//!
//! Source: Filebench 1.5-alpha3 with System V semaphores.

use super::halt::{Monitor, Waited, Wake};
use super::standstill::{Standstill, Waiter};
use granary_sim::now;
use granary_sim::sync::{Condvar, Mutex};
use granary_units::Nanos;

/// How long a semaphore operation waits (Filebench's `semtimedop` timeout).
const PATIENCE: Nanos = Nanos::from_secs(600);

/// The semaphore of one `semblock` in one thread.
pub(crate) struct Semaphore {
    /// The number of that thread.
    taker: usize,
    state: Mutex<Counts>,
    posted: Condvar,
    room: Condvar,
}

struct Counts {
    low: u64,
    high: u64,
    /// The count that the taker waits for; 0 while there is none.
    wanted: u64,
    /// The threads that wait for room.
    posters: Vec<usize>,
}

impl Semaphore {
    pub(crate) fn new(taker: usize, highwater: u64) -> Semaphore {
        Semaphore {
            taker,
            state: Mutex::new(Counts { low: 0, high: highwater, wanted: 0, posters: Vec::new() }),
            posted: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// `semblock`: takes `value` posts; false where the run ended first.
    pub(crate) fn take(&self, waiter: Waiter<'_>, value: u64) -> bool {
        let halt = waiter.halt;
        let mut state = self.state.lock();
        state.high += value;
        for poster in state.posters.drain(..) {
            // They look again, and say so where they wait on.
            waiter.still.goes_on(poster);
        }
        self.room.notify_all();
        state.wanted = value;
        let patience = now() + PATIENCE;
        while state.low < value {
            if halt.over() || now() >= patience {
                state.wanted = 0;
                return self.leaves(waiter);
            }
            if waiter.waits() {
                drop(state);
                waiter.stop();
                return false;
            }
            self.posted.wait_until(&mut state, patience.min(halt.deadline()));
            waiter.goes_on();
        }
        state.low -= value;
        state.wanted = 0;
        true
    }

    /// `sempost`: gives `value` posts; false where the run ended first.
    pub(crate) fn post(&self, waiter: Waiter<'_>, value: u64, blocking: bool) -> bool {
        let halt = waiter.halt;
        let mut state = self.state.lock();
        if blocking {
            let patience = now() + PATIENCE;
            while state.high < value {
                if halt.over() || now() >= patience {
                    return self.leaves(waiter);
                }
                if waiter.waits() {
                    drop(state);
                    waiter.stop();
                    return false;
                }
                state.posters.push(waiter.thread);
                self.room.wait_until(&mut state, patience.min(halt.deadline()));
                state.posters.retain(|&poster| poster != waiter.thread);
                waiter.goes_on();
            }
            state.high -= value;
        }
        state.low += value;
        if state.wanted > 0 && state.low >= state.wanted {
            waiter.still.goes_on(self.taker);
            self.posted.notify_all();
        }
        true
    }

    /// The end of a wait that was not granted: whether the run goes on.
    fn leaves(&self, waiter: Waiter<'_>) -> bool {
        let over = waiter.halt.over();
        if !over {
            waiter.gives_up();
        }
        !over
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
pub(crate) struct Gate(Monitor<Wakeups>);

#[derive(Default)]
struct Wakeups {
    count: u64,
    /// The threads that wait.
    waiting: Vec<usize>,
}

impl Gate {
    /// `block`: waits for the next wake-up; false where the run ended first.
    pub(crate) fn pass(&self, waiter: Waiter<'_>) -> bool {
        let mut wakeups = self.0.lock();
        if !waiter.halt.over() && waiter.waits() {
            drop(wakeups);
            waiter.stop();
            return false;
        }
        wakeups.waiting.push(waiter.thread);
        let seen = wakeups.count;
        let passed =
            self.0.wait_until(&mut wakeups, waiter.halt, Nanos::MAX, |wakeups| wakeups.count != seen);
        waiter.goes_on();
        passed == Waited::Ready
    }

    /// `wakeup`: lets all pass who wait.
    pub(crate) fn open(&self, still: &Standstill) {
        let mut wakeups = self.0.lock();
        wakeups.count += 1;
        wakeups.waiting.drain(..).for_each(|thread| still.goes_on(thread));
        drop(wakeups);
        self.0.notify_all();
    }
}

impl Wake for Gate {
    fn wake(&self) {
        self.0.wake();
    }
}
