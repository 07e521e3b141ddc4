//! [`Experiment`]: one workload on one file system on one testbed, in one virtual world.
//!
//! ```text
//!   drive, mkfs, mount | setup: filesets, sync, settle | measured run | drain: sync, settle | check, unmount
//!                      ^ counters taken                ^              ^                     ^
//!                                                      where asked for:  | idle | cleaning
//! ```
//!
//! The run's counters are taken at the instant at which it ends. Calls that are still under way then belong
//! to the drain.
//!
//! The counters of the three phases are kept apart so that neither hides another (an issue of every benchmark
//! that stops its counters before the caches are written back). After the run the drive's and the file
//! system's own consistency checks must be clean: a number from a broken run is worth nothing.

use crate::error::LabError;
use crate::phase::Snapshot;
use crate::record::{Cleaning, Period, Processors, Record};
use granary_bench::memory;
use granary_device::Role;
use granary_fs::{CachePolicy, Caller, Cred, Entrance, FsError};
use granary_mssd::DriveConfig;
use granary_sim::{World, WorldConfig, now, sleep_until};
use granary_testbed::Testbed;
use granary_testbed::registry::{self, FsEntry};
use granary_trace::drive::Phase;
use granary_units::Nanos;
use granary_vfs::{Process, Vfs};
use granary_workload::Workload;
use granary_workload::run::{Clients, Outcome, ProcessId, Progress, ProgressFn, Run, RunError, RunOptions};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod cleaning;
mod record;
mod room;

/// Called with the progress of a run; from the thread that runs it.
pub type OnProgress = Arc<dyn Fn(Report) + Send + Sync>;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// As the workload sees it.
    pub progress: Progress,
    /// System calls made so far ([`Vfs::calls`]).
    pub calls: u64,
}

/// Parameters of a run.
#[derive(Clone)]
pub struct Experiment {
    /// The workload, scaled already.
    pub workload: Workload,
    /// Its scale, for the record.
    pub scale: f64,
    /// File system, a name of the registry.
    pub fs: String,
    /// Host and drive.
    pub testbed: Testbed,
    /// The `--set`s that made the testbed, for the record.
    pub set: Vec<String>,
    /// Where workload and testbed come from, for the record.
    pub origin: Origin,
    /// Root seed.
    pub seed: u64,
    /// The commit this program was built from, for the record.
    pub commit: String,
    /// Where to record what the drive is asked, from mkfs to unmount, or to the end of `then_overwrite`.
    pub record: Option<PathBuf>,
    /// Share of the lines that a random write changes, 0 to 1 ([`RunOptions::changed_lines`]).
    pub changed_lines: f64,
    /// After the drain the file system is idle for this long, then cleans whatever is not younger.
    pub then_clean: Option<Nanos>,
    /// After that and the unmount the SSD is written once, from its first page to its last. Only where it is
    /// cleaned.
    pub then_overwrite: bool,
}

/// Where workload and testbed come from, beside their names: what it takes to run the same again.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Of a workload file, [`granary_testbed::hash`] of its text.
    pub workload_hash: Option<String>,
    /// Variables of the workload file that were set, `NAME=VALUE` in order.
    pub vars: Vec<String>,
    /// The testbed's path, where it is a file.
    pub testbed_file: Option<String>,
    /// Notes about the workload and the testbed for the user; they go to the warnings.
    pub notes: Vec<String>,
}

/// The programs of a run: processes of root on one file system, whose caches the prologue can drop. Threads
/// of one process have its number and its user, and descriptors of their own.
pub struct Processes {
    vfs: Arc<Vfs>,
    /// By name and instance: those that have begun.
    begun: Mutex<BTreeMap<(String, u64), Caller>>,
}

impl Processes {
    /// None has begun.
    pub fn new(vfs: Arc<Vfs>) -> Processes {
        Processes { vfs, begun: Mutex::default() }
    }
}

impl Clients for Processes {
    type Client = Process;

    fn client(&self, process: ProcessId<'_>, _thread: &str) -> Process {
        let mut begun = self.begun.lock();
        let caller = begun
            .entry((process.name.to_owned(), process.instance))
            .or_insert_with(|| self.vfs.caller(Cred::ROOT));
        Process::of(Arc::clone(&self.vfs), caller.clone())
    }

    fn drop_caches(&self) -> Result<(), FsError> {
        self.vfs.drop_caches();
        Ok(())
    }
}

/// Everything a finished virtual run hands out.
struct Finished {
    outcome: Outcome,
    snapshots: [Snapshot; 4],
    cache_policy: CachePolicy,
    /// Pages in the page cache when the run ended, and the most duplicates of pages until then.
    cache: (u64, u64),
    cleaning: Option<Cleaning>,
    /// Processors inside the drive that worked for it: how many, and for how long.
    inside: Option<Processors>,
    /// Memory of the file system when the run ended.
    memory: Vec<(&'static str, u64)>,
}

impl Experiment {
    /// Runs the experiment.
    ///
    /// # Errors
    /// Where a phase fails or a consistency check finds something.
    pub fn run(&self, progress: Option<OnProgress>) -> Result<Record, LabError> {
        self.run_until(progress, None)
    }

    /// The same; `stop`, set from another thread, ends it: what was measured until then is the record.
    ///
    /// # Errors
    /// The same, and where nothing had been measured.
    pub fn run_until(
        &self,
        progress: Option<OnProgress>,
        stop: Option<Arc<AtomicBool>>,
    ) -> Result<Record, LabError> {
        let fs = registry::find(&self.fs)?;
        self.testbed.roles_for(fs)?;
        room::must_fit(&self.workload, fs, &self.testbed)?;
        let config = WorldConfig {
            host_cores: self.testbed.host.cores,
            costs: self.testbed.host.costs,
            seed: self.seed,
            ..WorldConfig::default()
        };
        let me = self.clone();
        let finished = World::new(config)
            .run(move || me.in_virtual_time(fs, progress, stop))
            .map_err(|stop| LabError::run(&self.fs, "run", stop))??;
        Ok(self.record(fs, finished))
    }

    /// A failed phase of the workload; where there was no room, with where more is to be had.
    fn failed(&self, fs: &FsEntry, phase: &'static str, e: &RunError) -> LabError {
        if *e == RunError::Interrupted {
            return LabError::Interrupted(format!("{} on {}", self.workload.name, self.fs));
        }
        let more = match e.is_no_space() {
            true => format!("; {}", room::more(&self.workload, fs, &self.testbed)),
            false => String::new(),
        };
        LabError::run(&self.fs, phase, format!("{e}{more}"))
    }

    fn in_virtual_time(
        &self,
        fs: &'static FsEntry,
        progress: Option<OnProgress>,
        stop: Option<Arc<AtomicBool>>,
    ) -> Result<Finished, LabError> {
        let name = fs.name;
        let mut recorded = None;
        let devices = self.testbed.devices_with(fs, |config| {
            let bare = Arc::new(memory::ssd(&self.testbed.name, config, memory::Use::NEW)?);
            recorded = self.recorded(config, &bare)?;
            Ok(match &recorded {
                Some(recorded) => recorded.clone(),
                None => bare,
            })
        })?;
        if self.record.is_some() && recorded.is_none() {
            return Err(LabError::Usage(format!(
                "--record records an SSD, and {name} uses none on testbed {}",
                self.testbed.name
            )));
        }
        let mark = {
            let recorded = recorded.clone();
            move |phase| {
                if let Some(recorded) = &recorded {
                    recorded.mark(now(), phase);
                }
            }
        };
        registry::mkfs(fs, &devices).map_err(LabError::fs(name, "mkfs"))?;
        let mounted =
            registry::mount(fs, &devices, &self.testbed, false).map_err(LabError::fs(name, "mount"))?;
        let vfs = Vfs::mount(mounted, self.testbed.host.vfs).map_err(LabError::fs(name, "mount"))?;
        let clients = Processes::new(Arc::clone(&vfs));
        let progress = progress.map(|on| {
            let vfs = Arc::clone(&vfs);
            Arc::new(move |progress| on(Report { progress, calls: vfs.calls() })) as ProgressFn
        });
        let options = RunOptions {
            seed: self.seed,
            progress,
            stop,
            changed_lines: self.changed_lines,
            ..RunOptions::default()
        };
        let mut run = Run::new(&self.workload, clients, options);
        let start = Snapshot::take(&devices);
        run.setup().map_err(|e| self.failed(fs, "setup", &e))?;
        // Idle before the run, so that what run and drain write is the run's own and not the setup's
        // leftovers.
        vfs.sync(&Caller::KERNEL).map_err(LabError::fs(name, "setup"))?;
        sleep_until(devices.settle(now()).map_err(|e| LabError::run(name, "setup", e))?);
        let ready = Snapshot::take(&devices);
        let inside = match vfs.fs().features().entrance {
            Entrance::Device(cores) | Entrance::Ioctl(cores) => Some((cores, cores.busy())),
            Entrance::Kernel | Entrance::Direct => None,
        };
        mark(Phase::Run);
        let done = Arc::new(Mutex::new(None));
        let at_end = {
            let (mark, done, devices) = (mark.clone(), Arc::clone(&done), devices.clone());
            move || {
                mark(Phase::Drain);
                let busy = inside.map(|(cores, before)| cores.busy() - before);
                *done.lock() = Some((Snapshot::take(&devices), busy));
            }
        };
        let outcome = run.measure_then(at_end).map_err(|e| self.failed(fs, "run", &e))?;
        let (done, busy) = done.lock().take().expect("a run that came to its end has told of it");
        let count = self.testbed.inside.as_ref().map_or(0, |inside| inside.cores as u64);
        let inside = busy.map(|busy| Processors { count, busy_s: busy.as_secs_f64() });
        drop(run);
        let stats = vfs.cache_stats();
        let cache = (stats.pages, stats.most_duplicates);
        let memory = vfs.fs().memory();
        vfs.sync(&Caller::KERNEL).map_err(LabError::fs(name, "drain"))?;
        let idle = devices.settle(now()).map_err(|e| LabError::run(name, "drain", e))?;
        sleep_until(idle);
        let drained = Snapshot::take(&devices);
        let mut cleaning = match self.then_clean {
            Some(protection) => {
                Some(cleaning::clean(&vfs, &devices, protection).map_err(|e| cleaning::failed(name, e))?)
            }
            None => None,
        };
        mark(Phase::End);

        self.verify(&vfs, &devices)?;
        if let Some(cleaning) = cleaning.as_mut().filter(|_| self.then_overwrite) {
            let written = cleaning::overwrite(&devices).map_err(LabError::fs(name, "overwrite"))?;
            devices.check().map_err(|found| LabError::run(name, "check", found.join("; ")))?;
            cleaning.overwrite = Some(written);
        }
        if let Some(recorded) = &recorded {
            recorded.finish()?;
        }
        let cache_policy = vfs.fs().features().cache;
        Ok(Finished {
            outcome,
            snapshots: [start, ready, done, drained],
            cache_policy,
            cache,
            cleaning,
            inside,
            memory,
        })
    }

    /// One line for a record of the drive's calls.
    fn what(&self) -> String {
        let mut what = format!("run {} on {} at scale {}", self.workload.name, self.fs, self.scale);
        what += &format!(", {} threads", self.workload.threads());
        for var in &self.origin.vars {
            what += &format!(", {var}");
        }
        if let Some(hash) = &self.origin.workload_hash {
            what += &format!(" ({hash})");
        }
        what
    }

    /// The SSD, where the file system uses one.
    fn ssd_of(&self, fs: &FsEntry) -> Option<DriveConfig> {
        let roles = self.testbed.roles_for(fs).ok()?;
        roles.contains(&Role::Ssd).then(|| self.testbed.ssd_for(Some(fs)).ok())?
    }
}

fn period(of: &granary_workload::run::Period) -> Period {
    let (end_s, ops) = (of.end.as_secs_f64(), of.ops);
    Period { end_s, ops, read_bytes: of.read, write_bytes: of.written }
}

#[cfg(test)]
mod tests;
