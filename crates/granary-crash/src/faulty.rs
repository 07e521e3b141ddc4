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
//! Random instants seldom hit the few nanoseconds between two commands of one protocol step; counting
//! commands does. Commands can be made to fail, too (errors.rs): the host gets an error, the drive nothing.
//! Pages can be made unreadable until they are written again. And the pages that a host writes can be noted,
//! so that damage of media meets what is in use.
//!
//! The middleware only stops the world ([`granary_sim::power_fail`]): what survives is drawn by the wrapped
//! drive's own [`Drive::power_fail`], which the explorer calls.

mod errors;
mod given;

pub(crate) use errors::{Choice, MetadataErrors, Nth, WriteErrors, is_made};
pub(crate) use given::Given;

use granary_device::{Chain, Command, Devices, Drive, DriveError, DriveInfo, Role, Streamed, Structure};
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
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
    /// The `n`-th command since the devices were wrapped is about to reach its drive; `after`: the drive has
    /// it.
    fn command(&self, n: u64, after: bool, given: &Given);
}

/// The observer, and the number of the command.
type Told = (Arc<dyn Observer>, u64);

/// A page of one of the devices.
pub(crate) type DevicePage = (Role, u64);

/// Commands, reads and loads in one life of the machine: a life that needs more does not end. Forty times
/// those of the longest that was seen: some 100,000, in `granary crash --load full --load long --load
/// near-full --load fileserver --load crowd --time 240`.
const MOST: u64 = 4_000_000;

#[derive(Default)]
struct State {
    commands: u64,
    /// Commands, reads and loads so far: see [`MOST`].
    spent: u64,
    errors: Option<WriteErrors>,
    metadata_errors: Option<MetadataErrors>,
    /// Pages that were written and not trimmed since, with what they hold; `None`: nobody wants to know.
    written: Option<BTreeMap<DevicePage, Structure>>,
    unreadable: BTreeSet<DevicePage>,
    /// Of each drive only three quarters are there, for now.
    small: bool,
    trip: Option<Trip>,
    observer: Option<Arc<dyn Observer>>,
}

impl State {
    /// # Panics
    /// Where the life has had its commands: the panic is what is found.
    fn spend(&mut self) {
        self.spent += 1;
        assert!(
            self.spent <= MOST,
            "it does not end: the drives had {MOST} commands and loads since power-on"
        );
    }
}

/// The count of commands over all devices of a host, and at which of them the power fails.
#[derive(Default)]
pub struct Faults {
    state: Mutex<State>,
}

/// A [`Drive`] that cuts the power at a chosen command.
struct Faulty {
    role: Role,
    inner: Arc<dyn Drive>,
    faults: Arc<Faults>,
}

impl Faults {
    /// Wraps devices; not armed.
    pub fn around(devices: &Devices) -> (Devices, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        let wrapped = devices.map(|role, inner| Arc::new(Faulty { role, inner, faults: faults.clone() }));
        (wrapped, faults)
    }

    /// Lets the power fail at `trip`, counted from now; `None` disarms.
    pub fn arm(&self, trip: Option<Trip>) {
        self.state.lock().trip = trip;
    }

    /// From now on, three quarters of each drive are told of, or again all of it.
    pub(crate) fn show_less(&self, less: bool) {
        self.state.lock().small = less;
    }

    /// Notes from now on which pages are written.
    pub(crate) fn note_writes(&self) {
        self.state.lock().written = Some(BTreeMap::new());
    }

    /// The pages noted so far; none, where nobody wants to know.
    pub(crate) fn noted(&self) -> BTreeMap<DevicePage, Structure> {
        self.state.lock().written.clone().unwrap_or_default()
    }

    /// The pages noted.
    pub(crate) fn written(&self) -> BTreeMap<DevicePage, Structure> {
        self.state.lock().written.take().unwrap_or_default()
    }

    /// Reads of these pages fail from now on, until they are written.
    pub(crate) fn make_unreadable(&self, pages: impl IntoIterator<Item = DevicePage>) {
        self.state.lock().unreadable.extend(pages);
    }

    /// Pages that cannot be read.
    pub(crate) fn unreadable(&self) -> BTreeSet<DevicePage> {
        self.state.lock().unreadable.clone()
    }

    /// `whole`: of what was in these pages before, nothing is left.
    fn writes(&self, role: Role, pages: Range<u64>, what: Structure, whole: bool) {
        let mut state = self.state.lock();
        if let Some(written) = &mut state.written {
            for page in pages.clone() {
                let holds = written.entry((role, page)).or_insert(what);
                if whole || !holds.is_metadata() {
                    *holds = what;
                }
            }
        }
        // A store to a part of it does not make a page readable.
        if whole && !state.unreadable.is_empty() {
            state.unreadable.retain(|(of, page)| *of != role || !pages.contains(page));
        }
    }

    fn trims(&self, role: Role, pages: Range<u64>) {
        let mut state = self.state.lock();
        if let Some(written) = &mut state.written {
            written.retain(|(of, page), _| *of != role || !pages.contains(page));
        }
        state.unreadable.retain(|(of, page)| *of != role || !pages.contains(page));
    }

    /// Whether all these pages can be read.
    ///
    /// # Errors
    /// The first that cannot.
    fn reads(&self, role: Role, pages: Range<u64>) -> Result<(), DriveError> {
        let mut state = self.state.lock();
        state.spend();
        if state.unreadable.is_empty() {
            return Ok(());
        }
        match state.unreadable.range((role, pages.start)..(role, pages.end)).next() {
            Some((_, page)) => Err(DriveError::Unreadable(*page)),
            None => Ok(()),
        }
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
        state.spend();
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
    fn given(&self, name: &'static str) -> Given {
        Given { name, role: self.role, pages: None, what: None, fences: false }
    }

    fn given_bytes(&self, name: &'static str, at: ByteAddr, len: usize) -> Given {
        let pages = pages_of(at, len);
        Given { pages: Some((pages.start, pages.end - pages.start)), ..self.given(name) }
    }

    fn loads(&self, at: ByteAddr, len: usize, what: Structure) -> Given {
        Given { what: Some(what), ..self.given_bytes("load", at, len) }
    }

    fn command(&self, command: &Command<'_>) -> Given {
        let given = self.given(name_of(command));
        match command {
            Command::Vendor(own) => {
                let writes = own.writes();
                let pages = writes.map(|(lpa, count, _)| (lpa.0, count));
                Given { pages, what: writes.map(|(.., what)| what), ..given }
            }
            Command::Write { lpa, pages, what } => {
                Given { pages: Some((lpa.0, pages.len() as u64)), what: Some(*what), ..given }
            }
            Command::Read { lpa, out, what } => {
                Given { pages: Some((lpa.0, out.len() as u64)), what: Some(*what), ..given }
            }
            Command::Trim { lpa, count } => Given { pages: Some((lpa.0, *count)), ..given },
            Command::Flush => Given { fences: true, ..given },
        }
    }

    fn pass<T>(&self, given: Given, call: impl FnOnce(&dyn Drive) -> T) -> T {
        let (fails, observer) = self.faults.count();
        if let Some((observer, n)) = &observer {
            observer.command(*n, false, &given);
        }
        let result = call(&*self.inner);
        if let Some((observer, n)) = &observer {
            observer.command(*n, true, &given);
        }
        if fails {
            granary_sim::power_fail()
        }
        result
    }
}

impl Drive for Faulty {
    granary_device::forward_drive!(inner: identify, look_ahead, look_ahead_lines, wants_attention, settle, power_fail, power_on, track_in_flight, traffic, counters, counters_at, check);

    fn info(&self) -> DriveInfo {
        let info = self.inner.info();
        let less = self.faults.state.lock().small;
        DriveInfo { pages: if less { info.pages / 4 * 3 } else { info.pages }, ..info }
    }

    fn load(&self, now: Nanos, at: ByteAddr, out: &mut [u8], what: Structure) -> Result<Nanos, DriveError> {
        self.faults.read_fails(what, || self.loads(at, out.len(), what))?;
        self.faults.reads(self.role, pages_of(at, out.len()))?;
        self.inner.load(now, at, out, what)
    }

    fn load_pages(
        &self,
        now: Nanos,
        at: ByteAddr,
        len: usize,
        out: &mut [Page],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.faults.read_fails(what, || self.loads(at, len, what))?;
        self.faults.reads(self.role, pages_of(at, len))?;
        self.inner.load_pages(now, at, len, out, what)
    }

    fn load_known(
        &self,
        now: Nanos,
        runs: &[(Lpa, usize)],
        until: Nanos,
        known: &[Page],
        fresh: &mut [Page],
        what: Structure,
    ) -> Chain {
        let unreadable = |(lpa, count): &(Lpa, usize)| {
            let given = || self.loads(ByteAddr(lpa.0 * PAGE_SIZE as u64), count * PAGE_SIZE, what);
            let readable = self.faults.read_fails(what, given);
            readable.and_then(|()| self.faults.reads(self.role, lpa.0..lpa.0 + *count as u64)).err()
        };
        // Runs before the first that cannot be read are as ever.
        let Some((n, e)) = runs.iter().enumerate().find_map(|(n, run)| Some((n, unreadable(run)?))) else {
            return self.inner.load_known(now, runs, until, known, fresh, what);
        };
        let mut chain = self.inner.load_known(now, &runs[..n], until, known, fresh, what);
        if chain.runs == n && chain.goes_on(until) {
            chain.failed = Some(e);
        }
        chain
    }

    fn store_from(
        &self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.faults.writes(self.role, pages_of(at, data.len()), what, false);
        let given = Given { what: Some(what), ..self.given_bytes("store", at, data.len()) };
        self.pass(given, |d| d.store_from(core, now, at, data, tx, what))
    }

    fn flush_lines(&self, now: Nanos, at: ByteAddr, len: usize) -> Result<Nanos, DriveError> {
        self.pass(self.given_bytes("write back", at, len), |d| d.flush_lines(now, at, len))
    }

    // The drive's own ways of these, which are not what they are by default: what a power failure tears is
    // theirs.
    fn stream(
        &self,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.faults.writes(self.role, lpa.0..lpa.0 + 1, what, false);
        let given = Given { pages: Some((lpa.0, 1)), what: Some(what), ..self.given("stream") };
        self.pass(given, |d| d.stream(now, lpa, from, data, what))
    }

    fn verify(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.pass(Given { fences: true, ..self.given("fence") }, |d| d.verify(now))
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        let given = self.command(&command);
        let pages = given.pages.map_or(0..0, |(first, count)| first..first + count);
        let fails = self.faults.change_fails(&command, given);
        let writes = match &command {
            Command::Write { what, .. } => Some(*what),
            Command::Vendor(own) => own.writes().map(|(.., what)| what),
            _ => None,
        };
        if let Some(what) = writes.filter(|_| !fails) {
            self.faults.writes(self.role, pages.clone(), what, true);
        }
        match &command {
            Command::Read { what, .. } => {
                self.faults.read_fails(*what, || given)?;
                self.faults.reads(self.role, pages)?;
            }
            Command::Trim { .. } => self.faults.trims(self.role, pages),
            _ => {}
        }
        self.pass(given, |d| if fails { Err(errors::made()) } else { d.submit(now, command) })
    }
}

fn name_of(command: &Command<'_>) -> &'static str {
    match command {
        Command::Read { .. } => "READ",
        Command::Write { .. } => "WRITE",
        Command::Flush => "FLUSH",
        Command::Trim { .. } => "TRIM",
        Command::Vendor(own) => own.name(),
    }
}

/// The pages that hold these bytes.
fn pages_of(at: ByteAddr, len: usize) -> Range<u64> {
    let page = PAGE_SIZE as u64;
    at.0 / page..(at.0 + len as u64).div_ceil(page)
}
