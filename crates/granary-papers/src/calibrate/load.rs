//! [`Load`]: what both sides do: one thread, one stream of calls.

use granary_fs::{Allocate, FsError};
use granary_lab::LabError;
use granary_sim::rng::Stream;
use granary_units::{Nanos, Payload};
use granary_vfs::{Fd, OpenFlags, Posix};
use granary_workload::Workload;
use granary_workload::run::{Clients, ProcessId, Run, RunOptions};

/// Names of the loads.
pub const LOADS: [&str; 5] = ["varmail", "fileserver", "create", "overwrite", "wal"];

/// Pages of the file that `overwrite` works on: 10 MiB, a file of the paper's OLTP.
const PAGES: u64 = 2560;
const PAGE: usize = 4096;
/// Bytes that `wal` reserves at a time: a segment of PostgreSQL's log.
const SEGMENT: u64 = 16 << 20;
/// Longer than the model's tick (4 ms, HZ=250): within one, time stamps do not move, and how many overwrites
/// fall into one tick depends on the speed of the machine. The kernel's side waits for its own clock besides.
const PAUSE: Nanos = Nanos::from_millis(5);

/// An edge of the measured run; the file system is synced at both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// It begins.
    Start,
    /// It is over.
    End,
}

/// One of [`LOADS`].
#[derive(Clone)]
pub struct Load {
    /// The name.
    pub name: &'static str,
    workload: Option<Workload>,
    transactions: u64,
}

impl Load {
    /// The load of this name at a scale (1: the paper's size), by one thread.
    ///
    /// # Errors
    /// No such load, no such scale.
    pub fn new(name: &str, scale: f64) -> Result<Load, LabError> {
        let Some(name) = LOADS.into_iter().find(|n| *n == name) else {
            return Err(LabError::Usage(format!("no load '{name}': there are {}", LOADS.join(", "))));
        };
        if matches!(name, "overwrite" | "wal") {
            return Ok(Load { name, workload: None, transactions: (100_000.0 * scale).max(1.0) as u64 });
        }
        let mut workload = Workload::from_builtin(name, &[])?;
        workload.scale(scale)?;
        workload.set_threads(1)?;
        Ok(Load { name, workload: Some(workload), transactions: 0 })
    }

    /// Does it. `pause` lets time pass, so that time stamps move; `edge` is called at both ends of the
    /// measured run.
    ///
    /// # Errors
    /// Of the calls, and of `edge`.
    pub fn run<C: Clients>(
        &self,
        clients: C,
        seed: u64,
        pause: &dyn Fn(Nanos),
        edge: &mut dyn FnMut(Edge) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let failed = |stage: &'static str| move |e: FsError| LabError::run("calibrate", stage, e);
        let mut client = clients.client(ProcessId::single("sync"), "sync");
        let Some(workload) = &self.workload else {
            let (mut rng, mut log) = (Stream::new(seed, self.name), Log::default());
            let wal = self.name == "wal";
            let setup = if wal { wal_setup } else { overwrite_setup };
            let fd = setup(&mut client).map_err(failed("setup"))?;
            client.sync().map_err(failed("setup"))?;
            edge(Edge::Start)?;
            for n in 1..=self.transactions {
                let done = match wal {
                    true => log.append(&mut client, fd, n, 1 + rng.below(3)),
                    false => overwrite(&mut client, fd, n, &mut rng),
                };
                done.map_err(failed("run"))?;
                pause(PAUSE);
            }
            client.sync().map_err(failed("run"))?;
            return edge(Edge::End);
        };
        let mut run = Run::new(workload, clients, RunOptions { seed, ..RunOptions::default() });
        run.setup().map_err(|e| LabError::run("calibrate", "setup", e))?;
        client.sync().map_err(failed("setup"))?;
        edge(Edge::Start)?;
        run.measure().map_err(|e| LabError::run("calibrate", "run", e))?;
        client.sync().map_err(failed("run"))?;
        edge(Edge::End)
    }
}

/// One to three pages of the file, anywhere, and an fsync.
fn overwrite(client: &mut impl Posix, fd: Fd, n: u64, rng: &mut Stream) -> granary_fs::Result<()> {
    for _ in 0..=rng.below(3) {
        let data = Payload::Fill { word: n, len: PAGE };
        client.pwrite(fd, data, rng.below(PAGES) * PAGE as u64)?;
    }
    client.fsync(fd)
}

/// A database's log: space is reserved a segment at a time, records are appended in it, each made durable by
/// fdatasync.
#[derive(Default)]
struct Log {
    end: u64,
    reserved: u64,
}

impl Log {
    /// Appends a record of `pages` pages.
    fn append(&mut self, client: &mut impl Posix, fd: Fd, n: u64, pages: u64) -> granary_fs::Result<()> {
        let len = pages * PAGE as u64;
        while self.end + len > self.reserved {
            client.fallocate(fd, Allocate::Reserve { keep_size: false }, self.reserved, SEGMENT)?;
            client.fsync(fd)?;
            self.reserved += SEGMENT;
        }
        client.pwrite(fd, Payload::Fill { word: n, len: len as usize }, self.end)?;
        self.end += len;
        client.fdatasync(fd)
    }
}

fn wal_setup(client: &mut impl Posix) -> granary_fs::Result<Fd> {
    client.mkdir("/log", 0o755)?;
    client.open("/log/wal", OpenFlags::CREAT | OpenFlags::RDWR, 0o644)
}

fn overwrite_setup(client: &mut impl Posix) -> granary_fs::Result<Fd> {
    client.mkdir("/data", 0o755)?;
    let fd = client.open("/data/base", OpenFlags::CREAT | OpenFlags::RDWR, 0o644)?;
    for page in 0..PAGES {
        client.pwrite(fd, Payload::Fill { word: page + 1, len: PAGE }, page * PAGE as u64)?;
    }
    Ok(fd)
}
