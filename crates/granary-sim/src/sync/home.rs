//! [`Home`]: the world that a lock is used in.
//!
//! ```text
//!   WALL ── first use in virtual time, nobody holds it ──> world n
//!            └─ held on the wall clock: panic
//!   world n ── used elsewhere after world n has ended ──> WALL, or world m
//!            └─ while world n is alive: panic
//! ```
//!
//! A world's tasks run on one OS thread, so within its home a lock needs no atomic exchange. A task that
//! finds the home to be its world knows that nobody outside of it has the lock: the home moves only when that
//! world has ended. It moves under the wall clock's own lock, which every user on the wall clock holds while
//! it looks. A guard that is dropped in another world than its own is a panic, too.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// The wall clock's.
pub(crate) const WALL: u16 = 0;

/// Virtual worlds that run, and the number that was given last. A number comes round when 65,535 worlds have
/// ended; such a world may go on with what the one before it of that number had, since it begins after that
/// one's end.
static ALIVE: parking_lot::Mutex<(BTreeSet<u16>, u16)> = parking_lot::Mutex::new((BTreeSet::new(), WALL));

/// A virtual world that runs, until it is dropped.
pub(crate) struct Alive(pub(crate) u16);

impl Alive {
    pub(crate) fn new() -> Alive {
        let mut alive = ALIVE.lock();
        let (worlds, last) = &mut *alive;
        assert!(worlds.len() < usize::from(u16::MAX), "65,535 virtual worlds run");
        loop {
            *last = last.wrapping_add(1);
            if *last != WALL && worlds.insert(*last) {
                return Alive(*last);
            }
        }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.lock().0.remove(&self.0);
    }
}

/// See the module.
pub(super) struct Home(AtomicU16);

impl Home {
    pub(super) const fn new() -> Home {
        Home(AtomicU16::new(WALL))
    }

    #[inline]
    pub(super) fn is(&self, world: u16) -> bool {
        self.0.load(Relaxed) == world
    }

    /// Moves it to a world, whose caller holds the wall clock's lock. `held`: whether its last world left it
    /// locked. An error says why it stays.
    #[cold]
    pub(super) fn move_to(&self, world: u16, held: impl FnOnce() -> bool) -> Result<(), &'static str> {
        let home = self.0.load(Relaxed);
        if home != WALL && home != world {
            // A caller that finds a world ended sees all that this world has done.
            if ALIVE.lock().0.contains(&home) {
                return Err(
                    "a lock is used in two worlds: another virtual world that has used it still runs",
                );
            }
            if held() {
                return Err(
                    "a lock is used in two worlds: a guard of a virtual world that has ended still holds it",
                );
            }
        }
        self.0.store(world, Relaxed);
        Ok(())
    }
}

/// A virtual world finds that the wall clock has the lock.
#[cold]
pub(super) fn held_on_the_wall_clock() -> ! {
    panic!("a lock is used in two worlds: it is held on the wall clock, where a virtual world does not wait")
}

/// A guard is dropped in a world that is not its own.
#[cold]
pub(super) fn crossed() -> ! {
    panic!("a guard has crossed worlds: a lock is let go of where it was taken")
}

#[cfg(test)]
mod tests {
    use crate::sync::{ArcMutexGuard, Mutex, RwLock};
    use crate::{World, WorldConfig, sleep};
    use granary_units::Nanos;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Arc, mpsc};

    fn run<T: 'static>(main: impl FnOnce() -> T + 'static) -> T {
        World::new(WorldConfig::default()).run(main).expect("it ends")
    }

    /// The text of a panic.
    fn says(f: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it is refused");
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
    }

    #[test]
    fn worlds_have_a_lock_one_after_the_other_and_the_wall_clock_in_between() {
        let (m, l) = (Arc::new(Mutex::new(0)), Arc::new(RwLock::new(0)));
        for round in 0..4 {
            let (its, other) = (Arc::clone(&m), Arc::clone(&l));
            run(move || {
                *its.lock() += 1;
                *other.write() += 1;
                assert_eq!(*other.read(), 2 * round + 1);
            });
            *m.lock() += 1;
            assert!(m.try_lock().is_some() && l.try_read().is_some() && l.try_write().is_some());
            *l.write() += 1;
        }
        assert_eq!((*m.lock(), *l.read()), (8, 8));
    }

    /// Somebody uses it in a world that still runs.
    fn while_a_world_has(
        use_it: fn(&Mutex<u8>, &RwLock<u8>),
        then: impl FnOnce(&Arc<(Mutex<u8>, RwLock<u8>)>),
    ) {
        let locks = Arc::new((Mutex::new(0), RwLock::new(0)));
        let (ready, is_ready) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let its = Arc::clone(&locks);
        #[allow(clippy::disallowed_methods)] // a thread whose own world begins
        let world = std::thread::spawn(move || {
            run(move || {
                use_it(&its.0, &its.1);
                sleep(Nanos(1));
                ready.send(()).expect("somebody waits");
                let _ = ends.recv();
            });
        });
        is_ready.recv().expect("it begins");
        then(&locks);
        drop(end);
        world.join().expect("it is not hurt");
        *locks.0.lock() += 1;
        *locks.1.write() += 1;
    }

    #[test]
    fn a_second_world_is_told_at_its_first_use() {
        let used = |m: &Mutex<u8>, l: &RwLock<u8>| drop((m.lock(), l.read()));
        while_a_world_has(used, |locks| {
            for said in [
                says(|| drop(locks.0.lock())),
                says(|| drop(locks.0.try_lock())),
                says(|| drop(locks.1.read())),
                says(|| drop(locks.1.write())),
            ] {
                assert!(said.contains("another virtual world that has used it still runs"), "{said}");
            }
            let its = Arc::clone(locks);
            let said = says(|| run(move || drop(its.0.lock())));
            assert!(said.contains("still runs"), "{said}");
        });
    }

    #[test]
    fn a_world_does_not_take_what_the_wall_clock_has() {
        let m = Arc::new(Mutex::new(0));
        let held = m.lock();
        let its = Arc::clone(&m);
        assert!(run(move || its.try_lock().is_none()));
        let its = Arc::clone(&m);
        assert!(says(|| run(move || drop(its.lock()))).contains("held on the wall clock"));
        drop(held);
        assert_eq!(*m.lock(), 0);
    }

    #[test]
    fn a_guard_does_not_leave_its_world() {
        let m = Arc::new(Mutex::new(0));
        let its = Arc::clone(&m);
        let guard: ArcMutexGuard<i32> = run(move || its.lock_arc());
        assert!(says(|| drop(m.lock())).contains("has ended still holds it"));
        assert!(says(|| drop(guard)).contains("crossed worlds"));
        let other = Arc::new(Mutex::new(0));
        let guard = other.lock_arc();
        assert!(says(|| run(move || drop(guard))).contains("crossed worlds"));
        assert!(other.is_locked(), "nobody has it but who cannot let go");
    }
}
