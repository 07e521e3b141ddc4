//! [`Faults`]: devices whose power fails at the n-th command, counted over all of them.
//!
//! ```text
//!   store  flush_lines  stream  verify  submit     each counts as one command
//!     |  Trip::Before(n): the n-th never reaches the drive
//!     |  Trip::After(n):  the drive has it, the host never hears of its completion
//!     v
//!   the wrapped drive; one count for all drives of a host
//! ```
//!
//! Random instants seldom hit the few nanoseconds between two commands of one protocol step; counting commands does.
//! Block writes can be made to fail, too: the host gets an error, the drive nothing.
//!
//! The middleware only stops the world ([`granary_sim::power_fail`]): what survives is drawn by the wrapped drive's
//! own [`Drive::power_fail`], which the explorer calls.

use granary_device::{Command, Devices, Drive, DriveError, Streamed, Structure};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Lpa, Nanos, TxId};
use parking_lot::Mutex;
use std::sync::Arc;

/// When the power fails, counted in commands from arming on (1 = the next).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trip {
    /// Before the drive gets the n-th command.
    Before(u64),
    /// After the drive got it, before the host knows.
    After(u64),
}

/// Is told of every command, in the task that gives it. It must not wait.
pub(crate) trait Observer: Send + Sync {
    /// The `n`-th command since the devices were wrapped is about to reach its drive; `after`: the drive has it. `fences`: once it
    /// is answered what came before it is safe.
    fn command(&self, n: u64, after: bool, fences: bool);
}

/// The observer, and the number of the command.
type Told = (Arc<dyn Observer>, u64);

/// Which writes fail.
pub(crate) struct WriteErrors {
    /// One in so many of those that have content of files.
    pub(crate) one_in: u64,
    pub(crate) random: Stream,
}

/// The error of a write that was made to fail.
const MADE: &str = "a write was made to fail";

/// Whether this is the error of a write that was made to fail.
pub(crate) fn is_made(e: &DriveError) -> bool {
    matches!(e, DriveError::Failed(why) if why == MADE)
}

#[derive(Default)]
struct State {
    commands: u64,
    errors: Option<WriteErrors>,
    trip: Option<Trip>,
    observer: Option<Arc<dyn Observer>>,
}

/// The count of commands over all devices of a host, and at which of them the power fails.
#[derive(Default)]
pub struct Faults {
    state: Mutex<State>,
}

/// A [`Drive`] that cuts the power at a chosen command.
struct Faulty {
    inner: Arc<dyn Drive>,
    faults: Arc<Faults>,
}

impl Faults {
    /// Wraps devices; not armed.
    pub fn around(devices: &Devices) -> (Devices, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        let wrapped = devices.map(|_, inner| Arc::new(Faulty { inner, faults: faults.clone() }));
        (wrapped, faults)
    }

    /// Lets the power fail at `trip`, counted from now; `None` disarms.
    pub fn arm(&self, trip: Option<Trip>) {
        self.state.lock().trip = trip;
    }

    /// Lets block writes of content fail from now on: the drive has none of their pages.
    pub(crate) fn fail_writes(&self, errors: Option<WriteErrors>) {
        self.state.lock().errors = errors;
    }

    fn write_fails(&self, what: Structure) -> bool {
        let mut state = self.state.lock();
        let errors = state.errors.as_mut().filter(|_| !what.is_metadata());
        errors.is_some_and(|errors| errors.random.below(errors.one_in) == 0)
    }

    /// Commands since the devices were wrapped.
    pub fn commands(&self) -> u64 {
        self.state.lock().commands
    }

    /// Tells `observer` of each command from now on.
    pub(crate) fn observe(&self, observer: Option<Arc<dyn Observer>>) {
        self.state.lock().observer = observer;
    }

    /// Counts a command. True: the power fails once the drive has it. And who is to be told that it has.
    fn count(&self) -> (bool, Option<Told>) {
        let mut state = self.state.lock();
        state.commands += 1;
        let n = state.commands;
        let observer = state.observer.clone().map(|o| (o, n));
        (self.trips(state), observer)
    }

    fn trips(&self, mut state: parking_lot::MutexGuard<'_, State>) -> bool {
        match &mut state.trip {
            Some(Trip::Before(n)) if *n <= 1 => {
                state.trip = None;
                drop(state);
                granary_sim::power_fail()
            }
            Some(Trip::After(n)) if *n <= 1 => {
                state.trip = None;
                true
            }
            Some(Trip::Before(n) | Trip::After(n)) => {
                *n -= 1;
                false
            }
            None => false,
        }
    }
}

impl Faulty {
    fn pass<T>(&self, call: impl FnOnce(&dyn Drive) -> T) -> T {
        self.pass_as(false, call)
    }

    fn pass_as<T>(&self, fences: bool, call: impl FnOnce(&dyn Drive) -> T) -> T {
        let (fails, observer) = self.faults.count();
        if let Some((observer, n)) = &observer {
            observer.command(*n, false, fences);
        }
        let result = call(&*self.inner);
        if let Some((observer, n)) = &observer {
            observer.command(*n, true, fences);
        }
        if fails {
            granary_sim::power_fail()
        }
        result
    }
}

impl Drive for Faulty {
    granary_device::forward_drive!(inner: info, load, load_pages, load_known, look_ahead, look_ahead_lines, reset_wanted, settle, power_fail, power_on, track_in_flight, traffic, counters, counters_at, check);

    fn store_from(
        &self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.pass(|d| d.store_from(core, now, at, data, tx, what))
    }

    fn flush_lines(&self, now: Nanos, at: ByteAddr, len: usize) -> Result<Nanos, DriveError> {
        self.pass(|d| d.flush_lines(now, at, len))
    }

    // The drive's own ways of these, which are not what they are by default: what a power failure tears is theirs.
    fn stream(
        &self,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.pass(|d| d.stream(now, lpa, from, data, what))
    }

    fn verify(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.pass_as(true, |d| d.verify(now))
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        let fails = match &command {
            Command::Write { what, .. } | Command::FsWrite { what, .. } => self.faults.write_fails(*what),
            _ => false,
        };
        let fences = matches!(command, Command::Flush);
        self.pass_as(fences, |d| {
            if fails { Err(DriveError::Failed(MADE.to_owned())) } else { d.submit(now, command) }
        })
    }
}
