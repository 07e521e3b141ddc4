//! A task's requests to its world: the time, a wait, CPU time, another task.

use crate::cost::HostCosts;
use crate::sync::{Condvar, Mutex};
use crate::{virt, wall};
use granary_units::Nanos;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// The present instant of the caller's world.
#[inline]
pub fn now() -> Nanos {
    match virt::current() {
        Some(w) => w.now(),
        None => wall::now(),
    }
}

/// Whether the caller is a task of a virtual world.
pub fn in_virtual_time() -> bool {
    virt::current().is_some()
}

/// The instant before which a wait of the caller lets nobody else run: it may do its work of several instants
/// before this one in one go. Zero where time passes by itself.
#[inline]
pub fn quiet_until() -> Nanos {
    virt::current().map_or(Nanos::ZERO, |w| w.quiet_until())
}

/// Waits until a modelled instant, for example the completion of a drive command. On the wall clock this
/// returns at once unless pacing is on ([`wall::Pacing`]).
#[inline]
pub fn sleep_until(t: Nanos) {
    match virt::current() {
        Some(w) => w.sleep_until(t),
        None => wall::sleep_until(t),
    }
}

/// Waits for a span of modelled time, like [`sleep_until`].
pub fn sleep(span: Nanos) {
    sleep_until(now() + span);
}

/// Lets every other task that is ready at this instant run first.
pub fn yield_now() {
    match virt::current() {
        Some(w) => w.yield_now(),
        None => std::thread::yield_now(),
    }
}

/// Where a host's scheduler may set a thread aside, between what it looked up and what it does with it. Waits
/// only where a test's [`crate::WorldConfig::preempt`] asks for it; on the wall clock threads are set aside
/// anyway.
#[inline]
pub fn preempt() {
    if let Some(w) = virt::current() {
        w.preempt();
    }
}

/// Occupies one host core for `cost` of virtual time; free on the wall clock.
#[inline]
pub fn cpu(cost: Nanos) {
    if let Some(w) = virt::current() {
        w.cpu(cost);
    }
}

/// CPU time given to tasks so far, over all host cores; zero on the wall clock.
pub fn cpu_busy() -> Nanos {
    virt::current().map_or(Nanos::ZERO, |w| w.cpu_busy())
}

/// Does what stalls a processor: `op`, told the instant at which a host core is free for it, says what came
/// of it, and `end` until when the core waits for that. The core does nothing else meanwhile, unlike with
/// [`sleep_until`]: a load from a device stalls the core that executes it, a command that was submitted does
/// not. `op` must not wait. On the wall clock: [`sleep_until`].
#[inline]
pub fn hold<T>(op: impl FnOnce(Nanos) -> T, end: impl FnOnce(&T) -> Nanos) -> T {
    match virt::current() {
        Some(w) => w.hold(op, end),
        None => {
            let out = op(wall::now());
            wall::sleep_until(end(&out));
            out
        }
    }
}

/// Number of the host core that the caller is taken to be on, below 65,536. In virtual time tasks are dealt
/// to the host's cores in turn and stay there. On the wall clock each thread counts as a core, or, under
/// [`on_behalf`], the one that it works for.
#[inline]
pub fn core() -> u16 {
    match virt::current() {
        Some(w) => w.core() as u16,
        None => cpu_id(1 << 16) as u16,
    }
}

/// The host's cost table (all zero on the wall clock).
#[inline]
pub fn costs() -> &'static HostCosts {
    static ZERO: HostCosts = HostCosts::ZERO;
    match virt::current() {
        Some(w) => w.costs(),
        None => &ZERO,
    }
}

thread_local! {
    static BEHALF: Cell<Option<usize>> = const { Cell::new(None) };
}

/// While it lives, this thread works for somebody else. See [`on_behalf`].
#[must_use]
pub struct OnBehalf {
    before: Option<usize>,
    // It belongs to its thread.
    here: PhantomData<*const ()>,
}

/// On the wall clock: until the guard is dropped, [`cpu_id`] is that of `whom`, on any thread. For threads
/// that serve programs in turn: the work of one program stays together. Several threads may work for one at
/// the same time. In virtual time it changes nothing: a task works for itself.
pub fn on_behalf(whom: usize) -> OnBehalf {
    OnBehalf { before: BEHALF.replace(Some(whom)), here: PhantomData }
}

impl Drop for OnBehalf {
    fn drop(&mut self) {
        BEHALF.set(self.before);
    }
}

/// A small number that stands for the CPU the caller runs on, below `cpus`; constant for one task, and for
/// those that a thread works for ([`on_behalf`]). For per-CPU structures: it spreads tasks, it is never
/// needed for correctness.
pub fn cpu_id(cpus: usize) -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    let id = match virt::current() {
        Some(w) => w.task_id() as usize,
        None => BEHALF.get().unwrap_or_else(|| MINE.with(|m| *m)),
    };
    id % cpus.max(1)
}

/// The running task's name.
pub fn task_name() -> String {
    match virt::current() {
        Some(w) => w.task_name(),
        None => std::thread::current().name().unwrap_or("thread").to_owned(),
    }
}

/// Cuts the power: the virtual world stops at this instant, no task runs on, and [`crate::World::run`]
/// returns [`crate::Stop::PowerFail`].
///
/// # Panics
/// On the wall clock, where there is no power to cut.
pub fn power_fail() -> ! {
    match virt::current() {
        Some(w) => w.power_fail(),
        None => panic!("power_fail() outside virtual time"),
    }
}

struct Slot<T> {
    /// `Some(Err)` carries a panic of the task to the one that joins it (wall clock only).
    result: Mutex<Option<std::thread::Result<T>>>,
    done: Condvar,
}

/// A task that can be waited for.
pub struct JoinHandle<T>(Arc<Slot<T>>);

impl<T> JoinHandle<T> {
    /// Waits for the task to end and returns its result.
    ///
    /// # Panics
    /// With the task's own panic where it panicked.
    pub fn join(self) -> T {
        let mut slot = self.0.result.lock();
        loop {
            match slot.take() {
                Some(Ok(value)) => return value,
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                None => self.0.done.wait(&mut slot),
            }
        }
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.0.result.lock().is_some()
    }
}

/// Starts a task: a coroutine in virtual time, an OS thread on the wall clock. A virtual world ends when its
/// main task ends, even while others run: join them.
pub fn spawn<T: Send + 'static>(name: &str, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    start(name, false, f)
}

pub(crate) fn start<T: Send + 'static>(
    name: &str,
    daemon: bool,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let slot = Arc::new(Slot { result: Mutex::new(None), done: Condvar::new() });
    let mine = Arc::clone(&slot);
    match virt::current() {
        Some(w) => w.spawn(
            name,
            daemon,
            Box::new(move || {
                let value = f();
                *mine.result.lock() = Some(Ok(value));
                mine.done.notify_all();
            }),
        ),
        None => wall::spawn(name, move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
            *mine.result.lock() = Some(result);
            mine.done.notify_all();
        }),
    }
    JoinHandle(slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_work_for_one_are_one_cpu_and_are_themselves_again_afterwards() {
        let (inner, outer, here) = spawn("another", || {
            let own = cpu_id(usize::MAX);
            let seven = on_behalf(7);
            let inner = on_behalf(12);
            let twelve = cpu_id(5);
            drop(inner);
            let told = (twelve, cpu_id(5));
            drop(seven);
            (told.0, told.1, cpu_id(usize::MAX) == own)
        })
        .join();
        assert_eq!((inner, outer, here), (2, 2, true));
        let _seven = on_behalf(7);
        assert_eq!(cpu_id(4), 3);
    }

    #[test]
    fn a_task_of_virtual_time_works_for_itself() {
        let _seven = on_behalf(7);
        let run = crate::World::new(crate::WorldConfig::default()).run(|| {
            let before = cpu_id(100);
            let _nine = on_behalf(9);
            (before, cpu_id(100))
        });
        let (before, after) = run.expect("ends");
        assert_eq!(before, after);
    }
}
