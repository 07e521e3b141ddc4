//! [`Load`]: what the file system is busy with when the power fails.
//!
//! A load runs in a virtual world, starts tasks of its own ([`granary_sim::spawn`]) and ends; after a
//! recovery it is run again on what is left, as the next round. It must be a function of its random stream,
//! treat errors that its own randomness provokes (no such name, no space) as a matter of course, and return
//! the others.

mod access;
mod appended;
mod churn;
mod clean;
mod crowd;
mod filebench;
mod from_file;
mod full;
mod generated;
mod grow;
mod late;
mod ledger;
mod mapped;
mod near_full;
mod private;
mod programs;
mod resize;
mod snapshots;
mod sparse;
mod torture;
mod unnamed;

pub use access::Rights;
pub use appended::Appended;
pub use churn::Churn;
pub use clean::Clean;
pub use crowd::Crowd;
pub use filebench::Filebench;
pub use from_file::{FromFile, load_from_file};
pub use full::Full;
pub use generated::{Names, Sequence, Sequences};
pub use grow::Grow;
pub use late::Late;
pub use ledger::Ledger;
pub use mapped::Mapped;
pub use near_full::NearFull;
pub use private::Private;
pub use programs::{Every, Programs};
pub use resize::Resize;
pub use snapshots::Snapshots;
pub use sparse::Sparse;
pub use torture::Torture;
pub use unnamed::Unnamed;

use crate::deadline::Deadline;
use crate::oracle::Promises;
use crate::recorded::{Recorded, Tape};
use granary_device::{Devices, Role};
use granary_fs::{Cred, Result as FsResult};
use granary_sim::rng::Stream;
use granary_trace::suggest::meant;
use granary_vfs::{OpenFlags, Posix, Process, Vfs};
use std::path::Path;
use std::sync::Arc;

/// Makes recorded clients of one mounted file system.
#[derive(Clone)]
pub struct Clients {
    vfs: Arc<Vfs>,
    promises: Promises,
    room: u64,
    tape: Option<Tape>,
    until: Deadline,
}

impl Clients {
    /// Clients of `vfs`, recorded in `promises`.
    pub fn new(vfs: Arc<Vfs>, promises: Promises) -> Clients {
        Clients { vfs, promises, room: 0, tape: None, until: Deadline::default() }
    }

    /// On these devices, whose SSD the file system may grow to.
    pub fn with_room(self, devices: &Devices) -> Clients {
        let room = devices.get(Role::Ssd).map_or(0, |port| port.drive().info().pages);
        Clients { room, ..self }
    }

    /// Their calls are recorded, or left out.
    pub(crate) fn on_tape(self, tape: Option<Tape>) -> Clients {
        Clients { tape, ..self }
    }

    /// Where this has come, their next call ends the life, as a power failure would.
    pub(crate) fn until(self, until: &Deadline) -> Clients {
        Clients { until: until.clone(), ..self }
    }

    /// Pages of the SSD, 0 where there is none, or nobody said.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// A new client: a superuser's process whose filled writes get words of their own.
    pub fn client(&self) -> Recorded<Process> {
        Recorded::new(Process::new(Arc::clone(&self.vfs), Cred::ROOT), self.promises.clone())
            .with_unique_fills()
            .on_tape(self.tape.as_ref())
            .until(&self.until)
    }

    /// The file system that they run on.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.vfs
    }
}

/// A workload for the crash explorer.
pub trait Load: Send + Sync {
    /// The name, as `cargo xtask soak --load` takes it.
    fn name(&self) -> &str;

    /// Runs until it is done. `round` counts the runs on one file system: 0 on the empty one.
    ///
    /// # Errors
    /// An error that the load did not provoke, in one sentence.
    fn run(&self, clients: &Clients, round: u32, random: &mut Stream) -> Result<(), String>;

    /// Whether the file system is made on a part of the drive, so that it can grow
    /// ([`crate::Target::grows`]).
    fn leaves_room(&self) -> bool {
        false
    }

    /// Whether snapshots are taken in its rounds ([`crate::Target::keeps_snapshots`]).
    fn takes_snapshots(&self) -> bool {
        false
    }

    /// Rounds of a long run: one run in four has so many, one after the other.
    fn rounds(&self) -> u32 {
        6
    }

    /// The load of the run with this number, where each has another.
    fn of_run(&self, _run: u64) -> Option<Arc<dyn Load>> {
        None
    }

    /// Runs after which everything was done once; `None`: there is no end. Such runs are many and short: few
    /// images of each are looked at ([`crate::Effort::BRIEF`]), and none damages media unasked.
    fn runs(&self) -> Option<u64> {
        None
    }
}

/// Runs `n` clients at once, each a task with a stream of its own, and waits for all. `work` gives its client
/// back.
fn at_once<W>(
    name: &str,
    n: u32,
    clients: &Clients,
    random: &mut Stream,
    work: impl Fn(u32, Recorded<Process>, Stream) -> W,
) -> Result<(), String>
where
    W: FnOnce() -> Result<Recorded<Process>, String> + Send + 'static,
{
    let tasks: Vec<_> = (0..n)
        .map(|id| {
            let random = Stream::new(random.next_u64(), &format!("{name} client"));
            let work = work(id, clients.client(), random);
            granary_sim::spawn(&format!("{name} {id}"), move || {
                work()?.into_inner().exit();
                Ok(())
            })
        })
        .collect();
    // All of them, also where one has failed: a client that is left would race with those of the next round.
    let ended: Vec<Result<(), String>> = tasks.into_iter().map(granary_sim::JoinHandle::join).collect();
    ended.into_iter().collect()
}

/// Makes a directory for each of `n` clients; with `synced` they are durable.
fn directories(clients: &Clients, n: u32, dir: impl Fn(u32) -> String, synced: bool) -> Result<(), String> {
    let mut first = clients.client();
    (0..n).try_for_each(|id| torture::expected("mkdir", first.mkdir(dir(id), 0o755)).map(drop))?;
    if synced {
        torture::expected("sync", first.sync())?;
    }
    first.into_inner().exit();
    Ok(())
}

/// Opens a file that nobody writes, makes it durable, sometimes its data only, and closes it.
fn fsync(posix: &mut Recorded<Process>, random: &mut Stream, path: &str) -> FsResult<()> {
    let fd = posix.open(path, OpenFlags::RDONLY, 0)?;
    let done = if random.chance(0.4) { posix.fdatasync(fd) } else { posix.fsync(fd) };
    done.and(posix.close(fd))
}

/// Makes a directory durable.
fn fsync_dir(posix: &mut Recorded<Process>, path: &str) -> FsResult<()> {
    let fd = posix.open(path, OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0)?;
    let done = posix.fsync(fd);
    done.and(posix.close(fd))
}

/// Every load by name.
pub const LOADS: &[&str] = &[
    "torture",
    "sparse",
    "resize",
    "churn",
    "ledger",
    "appended",
    "clean",
    "mapped",
    "unnamed",
    "access",
    "private",
    "crowd",
    "near-full",
    "grow",
    "snapshots",
    "programs-2",
    "programs-3",
    "varmail",
    "fileserver",
    "oltp",
    "full",
    "long",
    "late",
];

/// How the error of a load begins that is at fault itself, whatever file system it runs on.
pub(crate) const OWN_FAULT: &str = "the load itself is at fault: ";

/// Loads that end when each of their programs was run once. They take long, so nobody runs them unasked.
pub const ENDING: &[&str] = &["every-1", "every-2", "every-3"];

/// Calls of a program from a file that a run makes at most.
const CALLS_OF_FILES: u64 = 400;

/// The load with this name, of some hundred operations; or a generated program ([`Sequence::parse`]), or the
/// program of a file at this path ([`load_from_file`]).
///
/// # Errors
/// There is none with this name; the text is no program, or the file holds none, for a reason.
pub fn by_name(name: &str) -> Result<Arc<dyn Load>, String> {
    Ok(match name {
        "torture" => Arc::new(Torture::default()),
        "long" => Arc::new(Torture::long()),
        "late" => Arc::new(Late::default()),
        "ledger" => Arc::new(Ledger::default()),
        "full" => Arc::new(Full::default()),
        "crowd" => Arc::new(Crowd::default()),
        "grow" => Arc::new(Grow::default()),
        "snapshots" => Arc::new(Snapshots::default()),
        "programs-2" => Arc::new(Programs::TWO),
        "programs-3" => Arc::new(Programs::THREE),
        "every-1" => Arc::new(Every::ONE),
        "every-2" => Arc::new(Every::TWO),
        "every-3" => Arc::new(Every::THREE),
        "clean" => Arc::new(Clean::default()),
        "appended" => Arc::new(Appended::default()),
        "sparse" => Arc::new(Sparse::default()),
        "mapped" => Arc::new(Mapped::default()),
        "unnamed" => Arc::new(Unnamed::default()),
        "access" => Arc::new(Rights::default()),
        "resize" => Arc::new(Resize::default()),
        "churn" => Arc::new(Churn::default()),
        "near-full" => Arc::new(NearFull::default()),
        "private" => Arc::new(Private::default()),
        "varmail" | "fileserver" | "oltp" => Arc::new(Filebench::new(name, 250)),
        program if program.contains('(') => Arc::new(Sequence::parse(program)?),
        path if Path::new(path).is_file() => Arc::new(load_from_file(Path::new(path), CALLS_OF_FILES)?),
        _ => {
            let meant = meant(name, LOADS.iter().chain(ENDING).copied());
            return Err(format!(
                "no load '{name}': {meant}choose from {}, {}, name a file (Filebench, fio, a trace), or write a program as reports do",
                LOADS.join(", "),
                ENDING.join(", ")
            ));
        }
    })
}
