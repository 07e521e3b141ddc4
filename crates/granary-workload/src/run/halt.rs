//! [`Halt`]: how a run ends, and waiting that ends with it.
//!
//! ```text
//!   thread: finish count reached ──► Halt::stop ──► wakes every Monitor that was enrolled
//!                                        │
//!   threads in semblock, delay, ...  ◄───┘   they see `over()` and leave; so does everybody after its
//!                                            present call
//! ```
//!
//! Invariants: the first cause wins. After `over()` is true nothing is counted any more. A callback of
//! another count over the run (`at_end`) is called at that very instant, once. Every wait of the runner goes
//! through [`Monitor::wait_until`] and so ends when the run does.
//!
//! It does *not* interrupt a file-system call: calls under way are completed, as a process's calls are.

use super::error::RunError;
use granary_sim::sync::{Condvar, Mutex, MutexGuard};
use granary_units::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Causes of the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Its time was up.
    Time,
    /// This `finishoncount` flowop.
    Count(String),
    /// This `finishonbytes` flowop.
    Bytes(String),
    /// All threads ended because this flowop (of the last of them) found nothing to work on (`quit alldone`).
    AllDone(String),
    /// This flowop found nothing to work on (`quit firstdone`).
    FirstDone(String),
    /// All jobs of a fio job file came to their end.
    JobsDone,
    /// All records of a trace were replayed.
    TraceDone,
    /// Somebody outside asked for it ([`super::RunOptions::stop`]).
    Interrupt,
}

impl std::fmt::Display for Finish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Finish::Time => write!(f, "time"),
            Finish::Count(flowop) => write!(f, "finishoncount `{flowop}`"),
            Finish::Bytes(flowop) => write!(f, "finishonbytes `{flowop}`"),
            Finish::AllDone(flowop) => write!(f, "nothing left for `{flowop}` in the last thread"),
            Finish::FirstDone(flowop) => write!(f, "nothing left for `{flowop}` in one thread"),
            Finish::JobsDone => write!(f, "the jobs' own end"),
            Finish::TraceDone => write!(f, "the end of the trace"),
            Finish::Interrupt => write!(f, "an interrupt"),
        }
    }
}

/// The end of a run: its cause and its instant.
pub(crate) type End = (Result<Finish, Box<RunError>>, Nanos);

/// Wakes all who wait; implemented by [`Monitor`].
pub(crate) trait Wake: Send + Sync {
    fn wake(&self);
}

/// The end of the run as its threads see it.
pub(crate) struct Halt {
    stopped: AtomicBool,
    /// Set from outside the world: end here.
    asked: Option<Arc<AtomicBool>>,
    deadline: Nanos,
    end: parking_lot::Mutex<Option<End>>,
    enrolled: parking_lot::Mutex<Vec<Arc<dyn Wake>>>,
    at_end: parking_lot::Mutex<Option<AtEnd>>,
}

/// Is called once, at the instant at which a run ends.
pub(crate) type AtEnd = Box<dyn FnOnce() + Send>;

impl Halt {
    /// A run that ends at `deadline` at the latest ([`Nanos::MAX`]: no time limit), or when `asked` is set.
    pub(crate) fn new(deadline: Nanos, asked: Option<Arc<AtomicBool>>) -> Halt {
        Halt {
            stopped: AtomicBool::new(false),
            asked,
            deadline,
            end: parking_lot::Mutex::new(None),
            enrolled: parking_lot::Mutex::new(Vec::new()),
            at_end: parking_lot::Mutex::default(),
        }
    }

    /// Has this called when the run ends.
    pub(crate) fn call_at_end(&self, at_end: AtEnd) {
        *self.at_end.lock() = Some(at_end);
    }

    /// The run ends now, for whatever reason. Called again it does nothing.
    pub(crate) fn ended(&self) {
        let at_end = self.at_end.lock().take();
        if let Some(at_end) = at_end {
            at_end();
        }
    }

    /// Has `waiters` woken when the run is stopped.
    pub(crate) fn enrol(&self, waiters: Arc<dyn Wake>) {
        self.enrolled.lock().push(waiters);
    }

    #[inline]
    pub(crate) fn over(&self) -> bool {
        self.stopped.load(Relaxed)
            || (self.deadline != Nanos::MAX && granary_sim::now() >= self.deadline)
            || self.is_asked()
    }

    #[inline]
    fn is_asked(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.load(Relaxed))
    }

    /// Ends the run where that was asked for; who calls it holds no lock of the run. (`over` may be asked
    /// under one, so that it only tells.)
    pub(crate) fn heed(&self) {
        if self.is_asked() {
            self.stop(Ok(Finish::Interrupt));
        }
    }

    /// Whether what ended now was in time: before the end, or exactly at the deadline.
    #[inline]
    pub(crate) fn in_time(&self) -> bool {
        !self.over() || granary_sim::now() == self.deadline && !self.is_asked()
    }

    pub(crate) fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// Ends the run, unless it has ended.
    pub(crate) fn stop(&self, why: Result<Finish, Box<RunError>>) {
        {
            let mut end = self.end.lock();
            // A call that was under way at a regular end can still fail; that must not go unheard.
            let replaced = matches!(&*end, Some((Ok(_), _))) && why.is_err();
            if end.is_none() || replaced {
                *end = Some((why, granary_sim::now()));
            }
        }
        self.stopped.store(true, Relaxed);
        self.ended();
        let enrolled = std::mem::take(&mut *self.enrolled.lock());
        for waiters in enrolled {
            waiters.wake();
        }
    }

    /// The end that [`Halt::stop`] has set.
    pub(crate) fn end(&self) -> Option<End> {
        self.end.lock().clone()
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Ready,
    TimedOut,
    /// The run is over.
    Over,
}

/// State that threads wait on.
#[derive(Default)]
pub(crate) struct Monitor<T> {
    state: Mutex<T>,
    changed: Condvar,
}

impl<T> Monitor<T> {
    pub(crate) fn new(state: T) -> Monitor<T> {
        Monitor { state: Mutex::new(state), changed: Condvar::new() }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock()
    }

    pub(crate) fn notify_all(&self) {
        self.changed.notify_all();
    }

    /// Waits for the next notification, whether the run is over or not.
    pub(crate) fn wait(&self, guard: &mut MutexGuard<'_, T>) {
        self.changed.wait(guard);
    }

    /// Waits until `ready` says so, `limit` has come or the run is over, whichever is first.
    pub(crate) fn wait_until(
        &self,
        guard: &mut MutexGuard<'_, T>,
        halt: &Halt,
        limit: Nanos,
        mut ready: impl FnMut(&mut T) -> bool,
    ) -> Waited {
        loop {
            if ready(guard) {
                return Waited::Ready;
            }
            if halt.over() {
                return Waited::Over;
            }
            let until = limit.min(halt.deadline());
            if until == Nanos::MAX {
                self.changed.wait(guard);
            } else if granary_sim::now() < until {
                self.changed.wait_until(guard, until);
            } else {
                return Waited::TimedOut;
            }
        }
    }
}

impl<T: Send> Wake for Monitor<T> {
    fn wake(&self) {
        // Under the lock: a waiter has either seen the end, or is waiting by now.
        let _guard = self.state.lock();
        self.changed.notify_all();
    }
}
