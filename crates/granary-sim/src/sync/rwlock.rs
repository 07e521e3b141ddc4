//! Many readers or one writer, in both worlds.
//!
//! ```text
//!   state (virtual):  bit 31 = others wait | bit 30 = writer | bits 0-29 = readers, or the writer's task
//! ```
//!
//! Fair in virtual time: a task that comes while others wait, waits behind them; an unlock admits the first
//! waiter and, where that is a reader, all readers next to it in the queue. A task that reads must not ask to
//! read again (it could wait behind a writer that waits for it).
#![allow(unsafe_code)] // the raw-lock trait of lock_api is unsafe to implement

use super::home::{Home, WALL, crossed, held_on_the_wall_clock};
use crate::virt::{Mode, NOBODY, Sched, current};
use lock_api::RawRwLock as _;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const WAITERS: u32 = 1 << 31;
const WRITER: u32 = 1 << 30;
const COUNT: u32 = WRITER - 1;

/// The lock behind [`RwLock`].
pub struct RawRwLock {
    wall: parking_lot::RawRwLock,
    state: AtomicU32,
    home: Home,
}

/// A reader-writer lock that waits in the caller's world.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// Holds a [`RwLock`] for reading.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// Holds a [`RwLock`] for writing.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
/// Holds a [`RwLock`] that lives in an `Arc`, for reading.
pub type ArcRwLockReadGuard<T> = lock_api::ArcRwLockReadGuard<RawRwLock, T>;
/// Holds a [`RwLock`] that lives in an `Arc`, for writing.
pub type ArcRwLockWriteGuard<T> = lock_api::ArcRwLockWriteGuard<RawRwLock, T>;

impl RawRwLock {
    fn key(&self) -> usize {
        self as *const RawRwLock as usize
    }

    #[cold]
    fn wait(&self, w: &Sched, shared: bool) {
        let state = self.state.load(Relaxed);
        let holder = if state & WRITER != 0 { state & COUNT } else { NOBODY };
        if holder != NOBODY
            && let Some(cycle) = w.find_cycle(self.key(), holder)
        {
            panic!("deadlock: {cycle}");
        }
        self.state.store(state | WAITERS, Relaxed);
        let mode = if shared { Mode::Shared } else { Mode::Exclusive };
        w.park(self.key(), holder, mode, None);
    }

    fn is_taken(&self) -> bool {
        self.state.load(Relaxed) & !WAITERS != 0
    }

    /// The first use in this world. Says whether it has come here: on the wall clock somebody may have it.
    #[cold]
    fn come(&self, w: &Sched) -> bool {
        if !self.wall.try_lock_exclusive() {
            return false;
        }
        let come = self.home.move_to(w.world(), || self.is_taken());
        // SAFETY: locked above.
        unsafe { self.wall.unlock_exclusive() };
        come.unwrap_or_else(|why| panic!("{why}"));
        true
    }

    #[inline]
    fn be_here(&self, w: &Sched) {
        if !self.home.is(w.world()) && !self.come(w) {
            held_on_the_wall_clock();
        }
    }

    /// On the wall clock, with its lock, for reading or for writing; another reader who does the same does no
    /// harm.
    #[inline]
    fn be_on_wall(&self, shared: bool) {
        if self.home.is(WALL) {
            return;
        }
        if let Err(why) = self.home.move_to(WALL, || self.is_taken()) {
            // SAFETY: the caller has just locked it so.
            unsafe { if shared { self.wall.unlock_shared() } else { self.wall.unlock_exclusive() } };
            panic!("{why}");
        }
    }

    #[inline]
    fn stays(&self, world: u16) {
        if !self.home.is(world) {
            crossed();
        }
    }

    /// The lock is free and somebody waits: admits whoever is first.
    #[cold]
    fn admit(&self, w: &Sched) {
        let Some((first, mut more)) = w.unpark(self.key(), |_| true) else {
            return self.state.store(0, Relaxed);
        };
        let mut state = match first.mode {
            Mode::Shared => 1,
            _ => WRITER | first.task,
        };
        while state & WRITER == 0 && more {
            match w.unpark(self.key(), |next| next.mode == Mode::Shared) {
                Some((_, others)) => {
                    state += 1;
                    more = others;
                }
                None => break,
            }
        }
        self.state.store(state | if more { WAITERS } else { 0 }, Relaxed);
    }
}

// SAFETY: as for `RawMutex`: one home; parking_lot on the wall clock; in virtual time one OS thread, tasks
// switch only while they wait, and `state` admits either readers or one writer.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const)] // how lock_api wants the initial state
    const INIT: RawRwLock =
        RawRwLock { wall: parking_lot::RawRwLock::INIT, state: AtomicU32::new(0), home: Home::new() };
    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock_shared(&self) {
        let Some(w) = current() else {
            self.wall.lock_shared();
            return self.be_on_wall(true);
        };
        w.jitter();
        self.be_here(w);
        let state = self.state.load(Relaxed);
        if state & (WRITER | WAITERS) == 0 || w.is_dying() {
            self.state.store(state + 1, Relaxed);
        } else {
            self.wait(w, true);
        }
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        let Some(w) = current() else {
            let locked = self.wall.try_lock_shared();
            if locked {
                self.be_on_wall(true);
            }
            return locked;
        };
        if !self.home.is(w.world()) && !self.come(w) {
            return false;
        }
        let state = self.state.load(Relaxed);
        let free = state & (WRITER | WAITERS) == 0;
        if free {
            self.state.store(state + 1, Relaxed);
        }
        free
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        let Some(w) = current() else {
            self.stays(WALL);
            // SAFETY: the caller holds the lock for reading, as this function demands.
            return unsafe { self.wall.unlock_shared() };
        };
        self.stays(w.world());
        let state = self.state.load(Relaxed);
        if w.is_dying() {
            return self.state.store(0, Relaxed);
        }
        debug_assert!(state & WRITER == 0 && state & COUNT > 0);
        if state == (WAITERS | 1) {
            self.admit(w);
        } else {
            self.state.store(state - 1, Relaxed);
        }
    }

    #[inline]
    fn lock_exclusive(&self) {
        let Some(w) = current() else {
            self.wall.lock_exclusive();
            return self.be_on_wall(false);
        };
        w.jitter();
        self.be_here(w);
        if self.state.load(Relaxed) == 0 || w.is_dying() {
            self.state.store(WRITER | w.task_id(), Relaxed);
        } else {
            self.wait(w, false);
        }
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        let Some(w) = current() else {
            let locked = self.wall.try_lock_exclusive();
            if locked {
                self.be_on_wall(false);
            }
            return locked;
        };
        if !self.home.is(w.world()) && !self.come(w) {
            return false;
        }
        let free = self.state.load(Relaxed) == 0;
        if free {
            self.state.store(WRITER | w.task_id(), Relaxed);
        }
        free
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        let Some(w) = current() else {
            self.stays(WALL);
            // SAFETY: the caller holds the lock for writing, as this function demands.
            return unsafe { self.wall.unlock_exclusive() };
        };
        self.stays(w.world());
        if self.state.load(Relaxed) & WAITERS == 0 || w.is_dying() {
            self.state.store(0, Relaxed);
        } else {
            self.admit(w);
        }
    }

    fn is_locked(&self) -> bool {
        match current() {
            Some(w) if self.home.is(w.world()) => self.is_taken(),
            _ => self.wall.is_locked(),
        }
    }
}
