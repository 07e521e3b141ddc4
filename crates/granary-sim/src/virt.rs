//! The virtual world: tasks as coroutines on one OS thread, driven by an event queue.
//!
//! ```text
//!   World::run ── pops the ready task with the smallest (time, order) ── resumes its coroutine
//!                      ^                                                     | sleeps, waits for a lock,
//!                      └──── (wake time, order, task) pushed  <──────────────┘ uses a core
//! ```
//!
//! Invariants: virtual time never goes back; tasks that become ready at one instant run in the order in which
//! they became ready, so nobody starves; between two waits a task runs alone, at one instant. A task that
//! waits for an instant before any other task's skips the queue: no switch.
//!
//! When the world stops (main task done, power failure, panic), the other coroutines are unwound so that
//! their memory is freed; destructors may unlock, but not wait.
//!
//! It does *not* preempt and knows nothing about devices.

mod cpu;
mod park;
mod queue;
mod sched;

pub(crate) use park::{Mode, NOBODY};
pub(crate) use sched::{Sched, current};

use crate::cost::HostCosts;
use granary_units::Nanos;
use std::fmt;

/// Configuration of a virtual world.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// Number of host cores that [`crate::cpu`] shares out.
    pub host_cores: usize,
    /// Costs of host software.
    pub costs: HostCosts,
    /// Schedule exploration: every lock acquisition first waits a random time below this; zero = off.
    /// Different seeds then give different interleavings of the same program.
    pub jitter: Nanos,
    /// Schedule exploration: one in four times that a task is about to ask a device for something, it first
    /// waits a random time below this ([`crate::preempt`]); zero = off. So a thread is set aside by a host's
    /// scheduler between what it looked up and what it does with it.
    pub preempt: Nanos,
    /// Seed of both.
    pub seed: u64,
    /// Stop with [`Stop::PowerFail`] at this instant, if it comes before the end.
    pub power_fail_at: Option<Nanos>,
    /// Stack of each task in bytes; only touched pages take memory.
    pub stack: usize,
}

impl Default for WorldConfig {
    /// 28 cores as in the ByteFS paper (section 5.1), no costs, no exploration of schedules.
    fn default() -> WorldConfig {
        WorldConfig {
            host_cores: 28,
            costs: HostCosts::ZERO,
            jitter: Nanos::ZERO,
            preempt: Nanos::ZERO,
            seed: 0,
            power_fail_at: None,
            stack: 256 << 10,
        }
    }
}

/// Why a world stopped before its main task ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The power failed at this instant.
    #[error("power failed at {0}")]
    PowerFail(Nanos),
    /// No task can ever run again.
    #[error("{0}")]
    Deadlock(Deadlock),
    /// The system had no memory for a task's stack.
    #[error(
        "there is no memory for the stack of thread {task} ({bytes} bytes): {cause}; use fewer threads, or raise the \
         limits (vm.max_map_count: two mappings for each thread; ulimit -v)"
    )]
    NoStack {
        /// Number of the task, counted from 1.
        task: usize,
        /// Size of a stack, [`WorldConfig::stack`].
        bytes: usize,
        /// The system's error.
        cause: String,
    },
}

/// The waits of all tasks when no task can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// When it was found.
    pub at: Nanos,
    /// One sentence for each waiting task.
    pub waits: Vec<String>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock at {}: {}", self.at, self.waits.join("; "))
    }
}

/// Counters of a finished world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorldStats {
    /// Context switches between tasks.
    pub switches: u64,
    /// The last instant.
    pub end: Nanos,
    /// CPU time given to tasks, over all cores.
    pub cpu_busy: Nanos,
}

/// A virtual world, ready to run.
#[derive(Clone, Debug, Default)]
pub struct World {
    config: WorldConfig,
}

impl World {
    /// A world of this make.
    pub fn new(config: WorldConfig) -> World {
        World { config }
    }

    /// Runs `main` as the first task, in virtual time from instant zero, until it ends.
    ///
    /// # Errors
    /// [`Stop::PowerFail`] when the power failed first, [`Stop::Deadlock`] when no task could run,
    /// [`Stop::NoStack`] when one could not be started.
    ///
    /// # Panics
    /// With a task's panic; and when called from inside a virtual world.
    pub fn run<T: 'static>(self, main: impl FnOnce() -> T + 'static) -> Result<T, Stop> {
        self.run_stats(main).0
    }

    /// Like [`World::run`], with the world's counters.
    pub fn run_stats<T: 'static>(self, main: impl FnOnce() -> T + 'static) -> (Result<T, Stop>, WorldStats) {
        Sched::run(self.config, main)
    }
}

#[cfg(test)]
mod tests;
