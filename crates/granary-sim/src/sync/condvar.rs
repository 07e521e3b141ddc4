//! Waiting to be notified, in both worlds.
//!
//! As everywhere, a wake-up can be spurious (on the wall clock): wait in a loop that checks the condition. In
//! virtual time waiters are woken in the order in which they came.
#![allow(unsafe_code)] // unlocking through a guard that stays alive

use super::mutex::MutexGuard;
use crate::virt::{Mode, NOBODY, current};
use crate::wall;
use granary_units::Nanos;
use lock_api::RawMutex as _;

/// A condition variable for [`crate::sync::Mutex`].
#[derive(Default)]
pub struct Condvar {
    /// Wall clock: the number of notifications so far; a waiter leaves when it changes.
    seen: parking_lot::Mutex<u64>,
    wall: parking_lot::Condvar,
}

impl Condvar {
    /// Nobody waits.
    pub const fn new() -> Condvar {
        Condvar { seen: parking_lot::Mutex::new(0), wall: parking_lot::Condvar::new() }
    }

    /// Unlocks, waits for a notification, locks again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_deadline(guard, None);
    }

    /// Like [`Condvar::wait`], until `deadline` at the latest. Returns whether the deadline passed.
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Nanos) -> bool {
        self.wait_deadline(guard, Some(deadline))
    }

    fn wait_deadline<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Nanos>) -> bool {
        // SAFETY: the raw lock is used only to unlock and lock again; the guard is borrowed mutably for the
        // whole call, so nobody reaches the data through it while the lock is free.
        let raw = unsafe { MutexGuard::mutex(guard).raw() };
        if let Some(w) = current() {
            // SAFETY: the guard proves that the caller holds the lock.
            unsafe { raw.unlock() };
            let woken = w.park(self.key(), NOBODY, Mode::Condvar, deadline);
            raw.lock();
            return !woken;
        }
        let mut seen = self.seen.lock();
        let before = *seen;
        // SAFETY: as above. `seen` is held, so a notification cannot slip in between.
        unsafe { raw.unlock() };
        let mut late = false;
        while *seen == before && !late {
            match deadline {
                None => self.wall.wait(&mut seen),
                Some(t) => {
                    let left = t.saturating_sub(wall::now());
                    late = left == Nanos::ZERO || self.wall.wait_for(&mut seen, wall::real(left)).timed_out();
                }
            }
        }
        let timed_out = *seen == before;
        drop(seen);
        raw.lock();
        timed_out
    }

    /// Wakes the first waiter.
    pub fn notify_one(&self) {
        if let Some(w) = current() {
            w.unpark(self.key(), |_| true);
        } else {
            *self.seen.lock() += 1;
            self.wall.notify_one();
        }
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        if let Some(w) = current() {
            while w.unpark(self.key(), |_| true).is_some() {}
        } else {
            *self.seen.lock() += 1;
            self.wall.notify_all();
        }
    }

    fn key(&self) -> usize {
        self as *const Condvar as usize
    }
}
