//! Mutual exclusion in both worlds.
//!
//! ```text
//!   owner (virtual):  0 = free | task + 1, bit 31 = others wait
//! ```
//!
//! In virtual time a contended lock is handed to the first waiter at the instant of the unlock. On the wall
//! clock it is `parking_lot`'s lock. A lock is used in one world at a time, which is checked (home.rs). A use
//! in a second one, and a guard that crosses from one to the other, are a panic that says so.
#![allow(unsafe_code)] // the raw-lock trait of lock_api is unsafe to implement

use super::home::{Home, WALL, crossed, held_on_the_wall_clock};
use crate::virt::{Mode, Sched, current};
use lock_api::RawMutex as _;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const WAITERS: u32 = 1 << 31;

/// The lock behind [`Mutex`].
pub struct RawMutex {
    wall: parking_lot::RawMutex,
    owner: AtomicU32,
    home: Home,
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

    fn is_owned(&self) -> bool {
        self.owner.load(Relaxed) != 0
    }

    /// The first use in this world. Says whether it has come here: on the wall clock somebody may have it.
    #[cold]
    fn come(&self, w: &Sched) -> bool {
        if !self.wall.try_lock() {
            return false;
        }
        let come = self.home.move_to(w.world(), || self.is_owned());
        // SAFETY: locked above.
        unsafe { self.wall.unlock() };
        come.unwrap_or_else(|why| panic!("{why}"));
        true
    }

    /// On the wall clock, with its lock.
    #[cold]
    fn come_to_wall(&self) {
        if let Err(why) = self.home.move_to(WALL, || self.is_owned()) {
            // SAFETY: the caller has just locked it.
            unsafe { self.wall.unlock() };
            panic!("{why}");
        }
    }

    #[cold]
    fn hand_over(&self, w: &Sched) {
        if w.is_dying() {
            // Tasks that wait are being unwound, and do not take it.
            return self.owner.store(0, Relaxed);
        }
        match w.unpark(self.key(), |_| true) {
            Some((next, more)) => self.owner.store((next.task + 1) | if more { WAITERS } else { 0 }, Relaxed),
            None => self.owner.store(0, Relaxed),
        }
    }
}

// SAFETY: a lock has one home, and only there it is taken. On the wall clock everything is delegated to
// parking_lot's lock, and the home is looked at under it. In virtual time the home changes only when its
// world has ended. All tasks of a world run on one OS thread and switch only while they wait. `owner` is
// non-zero from `lock` to `unlock`, so two tasks never hold the lock together. While a world is dying, the
// only code that runs is destructors of unwound tasks, one task after the other; a destructor that takes an
// unwound task's lock sees memory that nobody else uses.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)] // how lock_api wants the initial state
    const INIT: RawMutex =
        RawMutex { wall: parking_lot::RawMutex::INIT, owner: AtomicU32::new(0), home: Home::new() };
    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        let Some(w) = current() else {
            self.wall.lock();
            if !self.home.is(WALL) {
                self.come_to_wall();
            }
            return;
        };
        w.jitter();
        if !self.home.is(w.world()) && !self.come(w) {
            held_on_the_wall_clock();
        }
        let owner = self.owner.load(Relaxed);
        if owner == 0 || w.is_dying() {
            self.owner.store(w.task_id() + 1, Relaxed);
        } else {
            self.wait(w, owner);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let Some(w) = current() else {
            let locked = self.wall.try_lock();
            if locked && !self.home.is(WALL) {
                self.come_to_wall();
            }
            return locked;
        };
        if !self.home.is(w.world()) && !self.come(w) {
            return false;
        }
        let free = self.owner.load(Relaxed) == 0;
        if free {
            self.owner.store(w.task_id() + 1, Relaxed);
        }
        free
    }

    #[inline]
    unsafe fn unlock(&self) {
        let Some(w) = current() else {
            if !self.home.is(WALL) {
                crossed();
            }
            // SAFETY: the caller holds the lock, as this function demands.
            return unsafe { self.wall.unlock() };
        };
        if !self.home.is(w.world()) {
            crossed();
        }
        if self.owner.load(Relaxed) & WAITERS == 0 {
            self.owner.store(0, Relaxed);
        } else {
            self.hand_over(w);
        }
    }

    fn is_locked(&self) -> bool {
        match current() {
            Some(w) if self.home.is(w.world()) => self.is_owned(),
            _ => self.wall.is_locked(),
        }
    }
}
