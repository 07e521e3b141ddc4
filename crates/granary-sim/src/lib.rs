//! Time and tasks: one code, two clocks.
//!
//! ```text
//!   file systems, workloads: ordinary synchronous Rust
//!        |  now  sleep_until  cpu  spawn  daemon  sync::{Mutex, RwLock, Condvar}
//!   +----v--------------------------+   +---------------------------------+
//!   | virtual world  (virt)         |   | wall-clock world  (wall)        |
//!   | coroutines on one OS thread,  |   | OS threads, parking_lot locks,  |
//!   | event queue, exact, same seed |   | pacing off: full speed          |
//!   | = same run                    |   | pacing on: the modelled drive   |
//!   +-------------------------------+   +---------------------------------+
//! ```
//!
//! A task that runs inside [`World::run`] is in virtual time; any other OS thread is on the wall clock. Every
//! type here looks at that and does the right thing, so a file system is written once (design section 3).
//!
//! Invariants: integer nanoseconds only; in virtual time the order of everything is a function of the seed.
//! It does *not* know what is simulated: drives and files live above.

mod cores;
mod cost;
mod daemon;
mod hist;
pub mod rng;
mod server;
mod step;
mod task;
pub mod sync {
    //! Locks that wait in whichever world the caller is in; the API of `parking_lot`.
    mod condvar;
    pub(crate) mod home;
    mod mutex;
    mod rwlock;
    pub use condvar::Condvar;
    pub use mutex::{ArcMutexGuard, Mutex, MutexGuard, RawMutex};
    pub use rwlock::{
        ArcRwLockReadGuard, ArcRwLockWriteGuard, RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };
}
mod virt;
pub mod wall;

pub use cores::Cores;
pub use cost::HostCosts;
pub use daemon::{Daemon, Kicker, Signal, Stopper};
pub use hist::Histogram;
pub use server::{Server, Span};
pub use step::{Step, Watcher, step, watch};
pub use task::{
    JoinHandle, OnBehalf, core, costs, cpu, cpu_busy, cpu_id, hold, in_virtual_time, now, on_behalf,
    power_fail, preempt, quiet_until, sleep, sleep_until, spawn, task_name, yield_now,
};
pub use virt::{Deadlock, Stop, World, WorldConfig, WorldStats};
