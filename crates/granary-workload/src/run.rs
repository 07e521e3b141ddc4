//! Executes a [`Workload`] against a file system, in virtual time, with Filebench's semantics.
//!
//! ```text
//!   Run::new ──► setup(): prologue              ──► measure(): one task per thread, joined ──► Outcome
//!                │  create filesets, sleep, ...     │
//!                │                                  │  thread: pass over its flowops, again and again
//!                │                                  │
//!                └── Clients::client(setup,         └── Clients::client(filereader 1,
//!                                    "setup")                           "filereader-1/thread-3")
//!
//!   tree       directories and files as numbers         pool      which exist, which is picked next
//!   plan       flowops as numbers                       worker    executes them
//!   halt       how it ends, interruptible waits         ledger    what is counted
//!   standstill whether anybody is left to go on
//! ```
//!
//! The runner has two more kinds of work: `fio` runs the jobs of a fio job file, and `fiu` replays a trace.
//! Both take the place of the threads of flowops, with the same input and output.
//!
//! It runs on anything that implements [`Posix`]. The source of the clients ([`Clients`]) decides what is
//! below: a file system, a recorder, a model.
//!
//! Invariants: the same seed gives the same operations (and, below a deterministic file system, the same
//! instants). The draws of a thread do not depend on other threads. A file's content is a function of its
//! identity ([`content_word`]). An error of a call ends the run.
//!
//! It does *not* start a world (the caller is in one), sync on its own, or read back what it wrote.
//!
//! Source: Filebench 1.5-alpha3. `docs/WORKLOADS.md` describes each flowop: its actions, its counts, and its
//! differences from Filebench.

mod aio;
mod content;
mod draw;
mod error;
mod events;
mod fileset;
mod fio;
mod fiu;
mod halt;
mod index_set;
mod ledger;
mod periods;
mod plan;
mod pool;
mod semaphore;
mod setup;
mod shared;
mod standstill;
#[cfg(test)]
mod tests;
mod tree;
mod whole;
mod worker;

pub use error::RunError;
pub use fileset::content_word;
pub use halt::Finish;
pub use ledger::OpStats;
pub use periods::Period;
use shared::Shared;

use crate::spec::{FilesetId, QuitMode, RandomVar, Step, Workload};
use fileset::Fileset;
use granary_fs::FsError;
use granary_sim::now;
use granary_units::Nanos;
use granary_vfs::Posix;
use halt::AtEnd;
use plan::Plan;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use worker::Worker;

/// A process of a workload: the n-th instance (from 1) of a `process` of this name; or of the runner itself,
/// where nothing is measured: `setup`, `prologue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId<'a> {
    /// Its name.
    pub name: &'a str,
    /// Which of those of its name.
    pub instance: u64,
}

impl ProcessId<'_> {
    /// The only process of a name.
    pub const fn single(name: &str) -> ProcessId<'_> {
        ProcessId { name, instance: 1 }
    }
}

/// Hands out one client of the file system per thread. Implemented by every `Fn(&str) -> impl Posix`, which
/// is told of threads only: each is a process then.
pub trait Clients {
    /// The maker of the calls.
    type Client: Posix + Send + 'static;

    /// A client for this thread of this process; the thread's name is for reports. Called before the threads
    /// start.
    fn client(&self, process: ProcessId<'_>, thread: &str) -> Self::Client;

    /// Forgets clean pages, inodes and dentries (`drop_caches` in the prologue). Does nothing unless
    /// overridden.
    ///
    /// # Errors
    /// The file system's error.
    fn drop_caches(&self) -> Result<(), FsError> {
        Ok(())
    }
}

impl<P: Posix + Send + 'static, F: Fn(&str) -> P> Clients for F {
    type Client = P;
    fn client(&self, _process: ProcessId<'_>, thread: &str) -> P {
        self(thread)
    }
}

/// Is told of the progress every few thousand steps.
pub type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The part of the run that is under way.
    pub phase: Phase,
    /// Steps done: entries of filesets in the setup, operations in the measured phase.
    pub done: u64,
    /// Steps in all, where that is known.
    pub total: Option<u64>,
    /// The present instant of the world.
    pub virtual_now: Nanos,
}

/// The two parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Making the filesets.
    Setup,
    /// Running the threads.
    Measure,
}

/// How to run.
#[derive(Clone)]
pub struct RunOptions {
    /// Root of all random streams of the run.
    pub seed: u64,
    /// Is told of the progress.
    pub progress: Option<ProgressFn>,
    /// CPU time of one store of `hog`, in picoseconds.
    pub hog_store_ps: u64,
    /// Share of the 64-byte lines that a random write changes in what is there: 0 to 1.
    pub changed_lines: f64,
    /// Set from another thread, it ends the run as soon as that can be: what was done until then is the
    /// outcome.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for RunOptions {
    /// Seed 1, no progress reports, and 370 ps per store of `hog`. The loop of `hog` stores through a pointer
    /// that it must load again each time (a `char` store may alias it). That takes about one turn per cycle,
    /// at the 2.7 GHz base frequency of the ByteFS paper's hosts (section 5.1). Rewriting changes nothing, as
    /// in Filebench (`content.rs`).
    fn default() -> RunOptions {
        RunOptions { seed: 1, progress: None, hog_store_ps: 370, changed_lines: 0.0, stop: None }
    }
}

/// Results of a measured phase.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the start of the threads to the end of the run: its time, the instant of the cause, or (all done)
    /// the end of the last thread.
    pub elapsed: Nanos,
    /// Statistics of each flowop, by name; flowops of one name and type are one.
    pub ops: BTreeMap<String, OpStats>,
    /// Operations, as Filebench's "IO Summary" counts them: all executions of flowops that do I/O
    /// ([`OpStats::counted`]).
    pub total_ops: u64,
    /// Bytes of file data that system calls read; those of an operation that the end cut short count too.
    pub app_read: u64,
    /// Bytes of file data that system calls wrote, likewise.
    pub app_write: u64,
    /// The cause of its end.
    pub finished_because: Finish,
    /// The first 100 lines that `print` flowops said, and then how many more there were.
    pub messages: Vec<String>,
    /// The parts that `psrun` reports, in order; empty without it.
    pub periods: Vec<Period>,
    /// Requests of the workload that this run did not follow.
    pub warnings: Vec<String>,
}

/// A workload on its way; see the [module](self).
pub struct Run<C> {
    workload: Workload,
    clients: C,
    options: RunOptions,
    randoms: Arc<[RandomVar]>,
    sets: Option<Vec<Arc<Fileset>>>,
    /// Measured phases so far.
    rounds: u32,
}

impl<C: Clients> Run<C> {
    /// A run of `workload`. Nothing is done yet.
    pub fn new(workload: &Workload, clients: C, options: RunOptions) -> Run<C> {
        let randoms = workload.randoms.clone().into();
        Run { workload: workload.clone(), clients, options, randoms, sets: None, rounds: 0 }
    }

    /// Does the prologue: makes the filesets below their paths, and what else the workload says comes first.
    ///
    /// # Errors
    /// [`RunError::Setup`] for a call that failed, [`RunError::Fileset`] for a fileset that cannot be,
    /// [`RunError::Interrupted`] where it was told to stop.
    pub fn setup(&mut self) -> Result<(), RunError> {
        fio::lay_out(&self.workload.fio, &self.clients)?;
        if let Some(trace) = &self.workload.fiu {
            fiu::lay_out(trace, &self.clients, &self.options)?;
        }
        let steps = self.workload.prologue.clone();
        for step in &steps {
            match *step {
                Step::CreateFilesets => self.create_filesets()?,
                Step::Sleep { seconds } => granary_sim::sleep(Nanos::from_secs(seconds)),
                Step::Sync => {
                    let mut client = self.clients.client(ProcessId::single("prologue"), "prologue");
                    client.sync().map_err(|e| setup::failed("sync", b"", e))?;
                }
                Step::DropCaches => {
                    self.clients.drop_caches().map_err(|e| setup::failed("drop_caches", b"", e))?;
                }
            }
        }
        if self.sets.is_none() {
            self.create_filesets()?;
        }
        Ok(())
    }

    fn create_filesets(&mut self) -> Result<(), RunError> {
        let specs = &self.workload.filesets;
        let mut trees = fileset::trees(specs, &self.randoms, self.options.seed)?;
        let counter =
            Arc::new(setup::Counter::new(self.options.progress.clone(), self.options.stop.clone(), &trees));
        let mut sets = Vec::new();
        for (i, spec) in specs.iter().enumerate().rev() {
            let tree = trees.pop().expect("one tree per fileset");
            let id = FilesetId(i);
            let set = setup::create(&self.clients, spec, id, tree, self.options.seed, &counter)?;
            sets.push(Arc::new(set));
        }
        sets.reverse();
        self.sets = Some(sets);
        Ok(())
    }

    /// Runs the threads until the workload says that it ends. Can be called again: the files are as the phase
    /// before left them, the numbers drawn are others.
    ///
    /// # Errors
    /// The first error of a thread, or [`RunError::Endless`] for a run that nothing would end.
    pub fn measure(&mut self) -> Result<Outcome, RunError> {
        self.measure_for(self.workload.run.seconds.map(Nanos::from_secs))
    }

    /// Like [`Run::measure`], for who counts what happens below the threads: `at_end` is called at the
    /// instant at which the run ends, when the threads may still be in their last calls.
    ///
    /// # Errors
    /// As [`Run::measure`].
    pub fn measure_then(&mut self, at_end: impl FnOnce() + Send + 'static) -> Result<Outcome, RunError> {
        self.phase(self.workload.run.seconds.map(Nanos::from_secs), Box::new(at_end))
    }

    /// Like [`Run::measure`] with another time limit (`None`: none), for warming up.
    ///
    /// # Errors
    /// As [`Run::measure`].
    pub fn measure_for(&mut self, time: Option<Nanos>) -> Result<Outcome, RunError> {
        self.phase(time, Box::new(|| ()))
    }

    fn phase(&mut self, time: Option<Nanos>, at_end: AtEnd) -> Result<Outcome, RunError> {
        let Some(sets) = &self.sets else { return Err(RunError::NotSetUp) };
        if !self.workload.fio.is_empty() {
            self.rounds += 1;
            return fio::measure(&self.workload.fio, &self.clients, &self.options, self.rounds, at_end);
        }
        if let Some(trace) = &self.workload.fiu {
            self.rounds += 1;
            return fiu::measure(trace, &self.clients, &self.options, at_end);
        }
        let files: Vec<usize> = sets.iter().map(|set| set.tree.files()).collect();
        let mut plan = Plan::new(&self.workload, &files);
        if time.is_none() && !plan.can_finish() {
            return Err(RunError::Endless);
        }
        let start = now();
        let deadline = time.map_or(Nanos::MAX, |t| start.saturating_add(t));
        let shared = Arc::new(Shared::new(self, &mut plan, sets.clone(), deadline));
        shared.halt.call_at_end(at_end);
        self.rounds += 1;
        let workers = self.workers(&plan, &shared);
        let tasks: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                let name = worker.name().to_owned();
                granary_sim::spawn(&name, move || worker.run())
            })
            .collect();
        let every = self.workload.run.period.map(Nanos::from_secs);
        let periods = every.map(|every| periods::Periods::watch(&shared, every));
        shared.wait_for_the_end();
        // Each says when it ended, and the flowop that found nothing where that ended it.
        let ends: Vec<(Nanos, Option<String>)> =
            tasks.into_iter().map(granary_sim::JoinHandle::join).collect();
        sets.iter().for_each(|set| set.settle());

        let (finish, at) = match shared.halt.end() {
            Some((Err(error), _)) => return Err(*error),
            Some((Ok(finish), at)) => (finish, at),
            None if ends.iter().any(|(_, nothing_for)| nothing_for.is_none()) => (Finish::Time, deadline),
            None => {
                let last = ends.into_iter().max_by_key(|(at, _)| *at);
                last.map_or((Finish::Time, start), |(at, flowop)| {
                    (Finish::AllDone(flowop.unwrap_or_default()), at)
                })
            }
        };
        let books = shared.ledger.take();
        let (app_read, app_write) = shared.ledger.moved();
        let periods = periods.map_or(Vec::new(), |p| p.ended(at, books.total_ops, (app_read, app_write)));
        Ok(Outcome {
            elapsed: at.saturating_sub(start),
            ops: plan.names.into_iter().zip(books.stats).collect(),
            total_ops: books.total_ops,
            app_read,
            app_write,
            messages: shared.messages.lock().take(),
            periods,
            warnings: self
                .warnings(&finish)
                .into_iter()
                .chain(shared.still.warnings(start))
                .chain(shared.aio.warning())
                .collect(),
            finished_because: finish,
        })
    }

    /// The threads, in the order of the workload, with what belongs to one thread only.
    fn workers(&self, plan: &Plan, shared: &Arc<Shared>) -> Vec<Worker<C::Client>> {
        let mut next_semaphore = vec![0; plan.groups];
        plan.threads
            .iter()
            .enumerate()
            .map(|(number, thread)| {
                let semaphores = thread
                    .kind
                    .semblocks
                    .iter()
                    .map(|&(group, _)| {
                        next_semaphore[group] += 1;
                        Arc::clone(&shared.groups[group][next_semaphore[group] - 1])
                    })
                    .collect();
                let process = ProcessId { name: &thread.program, instance: thread.instance };
                let client = self.clients.client(process, &thread.name);
                let aio = (1..=thread.kind.aio_writers)
                    .map(|n| self.clients.client(process, &format!("{}/aio-{n}", thread.name)))
                    .collect();
                let seed = self.options.seed.wrapping_add(u64::from(self.rounds - 1) << 32);
                Worker::new(number, thread, client, Arc::clone(shared), semaphores, aio, seed)
            })
            .collect()
    }

    /// Time ended a run that something else was to end.
    fn cut_short(&self, finish: &Finish) -> Option<String> {
        fn end(flowop: &crate::spec::FlowopSpec) -> Option<String> {
            use crate::spec::Op;
            match &flowop.op {
                Op::Composite(inner) => inner.iter().find_map(end),
                Op::FinishOnCount { .. } | Op::FinishOnBytes { .. } => {
                    Some(format!("{} `{}` (line {})", flowop.op.type_name(), flowop.name, flowop.line))
                }
                _ => None,
            }
        }
        if *finish != Finish::Time {
            return None;
        }
        let flowops = self.workload.processes.iter().flat_map(|p| &p.threads).flat_map(|t| &t.flowops);
        let other = flowops.into_iter().find_map(end);
        let other = other.or_else(|| match self.workload.mode {
            QuitMode::Timeout => None,
            QuitMode::AllDone => Some("`quit alldone`".to_owned()),
            QuitMode::FirstDone => Some("`quit firstdone`".to_owned()),
        })?;
        Some(format!("time ended the run before {other} did"))
    }

    fn warnings(&self, finish: &Finish) -> Vec<String> {
        let mut warnings = Vec::new();
        warnings.extend(self.cut_short(finish));
        fn no_readahead(flowop: &crate::spec::FlowopSpec) -> bool {
            use crate::spec::Op;
            match &flowop.op {
                Op::Composite(inner) => inner.iter().any(no_readahead),
                Op::Open(f) | Op::Create(f) | Op::Read(f, _) | Op::ReadWhole(f, _) => f.flags.no_readahead,
                _ => false,
            }
        }
        let flowops = self.workload.processes.iter().flat_map(|p| &p.threads).flat_map(|t| &t.flowops);
        if flowops.into_iter().any(no_readahead) {
            warnings.push("`noreadahead` has no effect: there is no such hint here".into());
        }
        warnings
    }
}
