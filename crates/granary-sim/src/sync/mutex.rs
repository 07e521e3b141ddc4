//! Mutual exclusion in both worlds.
//!
//! ```text
//!   owner (virtual):  0 = free | task + 1, bit 31 = others wait
//! ```
//!
//! In virtual time a contended lock is handed to the first waiter at the instant of the unlock. On the wall clock it
//! is `parking_lot`'s lock. A lock is used in one world at a time: whatever a world locked, it has unlocked when it
//! ends.
#![allow(unsafe_code)] // the raw-lock trait of lock_api is unsafe to implement

use crate::virt::{Mode, Sched, current};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const WAITERS: u32 = 1 << 31;

/// The lock behind [`Mutex`].
pub struct RawMutex {
    wall: parking_lot::RawMutex,
    owner: AtomicU32,
}

/// A mutual exclusion lock that waits in the caller's world.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// Holds a [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// Holds a [`Mutex`] that lives in an `Arc`.
pub type ArcMutexGuard<T> = lock_api::ArcMutexGuard<RawMutex, T>;

impl RawMutex {
    fn key(&self) -> usize {
        self as *const RawMutex as usize
    }

    #[cold]
    fn wait(&self, w: &Sched, owner: u32) {
        let holder = (owner & !WAITERS) - 1;
        if let Some(cycle) = w.find_cycle(self.key(), holder) {
            panic!("deadlock: {cycle}");
        }
        self.owner.store(owner | WAITERS, Relaxed);
        w.park(self.key(), holder, Mode::Exclusive, None);
        debug_assert_eq!(
            self.owner.load(Relaxed) & !WAITERS,
            w.task_id() + 1,
            "the unlocker hands the lock over"
        );
    }

    #[cold]
    fn hand_over(&self, w: &Sched) {
        match w.unpark(self.key(), |_| true) {
            Some((next, more)) => self.owner.store((next.task + 1) | if more { WAITERS } else { 0 }, Relaxed),
            None => self.owner.store(0, Relaxed),
        }
    }
}

// SAFETY: on the wall clock everything is delegated to parking_lot's lock. In virtual time all tasks of a world run
// on one OS thread and switch only while they wait, and `owner` is non-zero from `lock` to `unlock`, so two tasks
// never hold the lock together. While a world is dying, the only code that runs is destructors of unwound tasks, one
// task after the other; a destructor that locks what an unwound task held sees memory that nobody else uses.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)] // how lock_api wants the initial state
    const INIT: RawMutex = RawMutex { wall: parking_lot::RawMutex::INIT, owner: AtomicU32::new(0) };
    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        let Some(w) = current() else { return self.wall.lock() };
        w.jitter();
        let owner = self.owner.load(Relaxed);
        if owner == 0 || w.is_dying() {
            self.owner.store(w.task_id() + 1, Relaxed);
        } else {
            self.wait(w, owner);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let Some(w) = current() else { return self.wall.try_lock() };
        let free = self.owner.load(Relaxed) == 0;
        if free {
            self.owner.store(w.task_id() + 1, Relaxed);
        }
        free
    }

    #[inline]
    unsafe fn unlock(&self) {
        let Some(w) = current() else {
            // SAFETY: the caller holds the lock, as this function demands.
            return unsafe { self.wall.unlock() };
        };
        if self.owner.load(Relaxed) & WAITERS == 0 {
            self.owner.store(0, Relaxed);
        } else {
            self.hand_over(w);
        }
    }

    fn is_locked(&self) -> bool {
        if current().is_some() { self.owner.load(Relaxed) != 0 } else { self.wall.is_locked() }
    }
}
