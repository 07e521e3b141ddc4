//! A workload with every variable resolved: what a runner executes.
//!
//! ```text
//!   Workload
//!   ├── randoms    [0] filesize  [1] iosize ...      one random stream each, shared by all who name it
//!   ├── filesets   [0] bigfileset  [1] logfiles      named by FilesetId
//!   ├── prologue   create filesets, sleep 5, ...     before the measured phase, in order
//!   ├── processes  filereader x1
//!   │   └── threads  filereaderthread x12            each runs its flowops in a loop
//!   │       └── flowops  open, read, close, finish   (a composite flowop nests a loop of its own)
//!   └── run, mode, event_rate                        when it ends
//! ```
//!
//! Invariants: every [`FilesetId`] and [`RandomId`] indexes its table. Every target exists. There is at least
//! one thread (or one job of fio, or a trace, instead of processes). A thread has at least one flowop. Counts
//! are at least 1 where zero would mean nothing to do.
//!
//! It does *not* execute anything and does *not* draw random numbers.
//!
//! Source: Filebench 1.5-alpha3's workload model language (Tarasov et al., ;login: 41(1), 2016).

use crate::on_files::{OnFiles, on_files};
use granary_trace::fio::{self, Mistakes};
use granary_trace::fiu::Trace;
use serde::Serialize;
use std::fmt;

mod flowop;
mod scale;
mod value;

pub use flowop::{Direction, FileRef, FlowopSpec, Io, Op, OpenFlags};
pub use scale::MAX_THREADS;
pub use value::{Distribution, RandomId, RandomVar, TableRow, Value};

/// A complete workload; see the [module](self) for its shape.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Workload {
    /// The file (or built-in) that it came from; for reports.
    pub name: String,
    /// The random variables, indexed by [`RandomId`]; their names are unique, so they can name random
    /// streams.
    pub randoms: Vec<RandomVar>,
    /// The file trees, indexed by [`FilesetId`].
    pub filesets: Vec<FilesetSpec>,
    /// The processes, in the order of the file.
    pub processes: Vec<ProcessSpec>,
    /// The jobs of a fio job file, which run instead of processes; of a Filebench file none.
    #[serde(skip)]
    pub fio: Vec<OnFiles>,
    /// A trace that is replayed instead of processes.
    #[serde(skip)]
    pub fiu: Option<Trace>,
    /// The steps before the measured phase, in order. A run creates the filesets first if no step did.
    pub prologue: Vec<Step>,
    /// How long it runs.
    pub run: RunSpec,
    /// Conditions that end it besides time.
    pub mode: QuitMode,
    /// Events per second that `eventlimit`, `opslimit`, `iopslimit` and `bwlimit` consume; 0 means no limit.
    pub event_rate: u64,
    /// `enable lathist`: the user wants latency histograms.
    pub latency_histogram: bool,
    /// The file's `echo` lines, variables filled in.
    pub messages: Vec<String>,
    /// Parts of the file that have no effect here.
    pub warnings: Vec<Warning>,
}

/// The index of a fileset in [`Workload::filesets`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FilesetId(pub usize);

/// A tree of files and leaf directories (`define fileset`), or one file (`define file`).
///
/// The tree is Filebench's: a directory's width and depth are gamma distributed around
/// [`dirwidth`](Self::dirwidth) and [`mean_depth`](Self::mean_depth) with shape
/// [`dir_gamma`](Self::dir_gamma), or exact where that is 0; the deepest directories hold the files. A width
/// at or above the number of entries gives one flat directory where the shape is 0, a few huge ones
/// otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FilesetSpec {
    /// The name; also the directory below [`path`](Self::path) that holds the tree.
    pub name: String,
    /// The directory that holds it; it may have to be made first.
    pub path: String,
    /// `define file`: one entry, no tree.
    pub single_file: bool,
    /// Files that can exist.
    pub entries: u64,
    /// Empty directories that can exist (for `makedir` and `removedir`).
    pub leafdirs: u64,
    /// Bytes of a file when it is preallocated or written whole; drawn once per entry.
    pub size: Value,
    /// Entries per directory: the mean, or a random variable that is drawn per directory. Below 2, every
    /// entry has a directory of its own.
    pub dirwidth: Value,
    /// Shape of the gamma distribution of width and depth (1.5 unless the file says otherwise); 0 means
    /// exact.
    pub dir_gamma: f64,
    /// Random depth (`dirdepthrv`); its mean is replaced by the tree's mean depth.
    pub depth: Option<RandomId>,
    /// Share of the entries and leaf directories that exist before the run, in percent, 0 to 100.
    pub prealloc_percent: u8,
    /// Preallocate with many threads at once.
    pub parallel_prealloc: bool,
    /// Keep a tree that is already there, resizing its files, instead of making it anew.
    pub reuse: bool,
    /// Keep a tree that is already there without looking at it.
    pub trust_tree: bool,
    /// Open files read-only.
    pub readonly: bool,
    /// Open files write-only.
    pub writeonly: bool,
}

impl FilesetSpec {
    /// Mean depth of the tree: `ln(entries + leafdirs) / ln(mean dirwidth)`, or 1 if the width is below 2.
    pub fn mean_depth(&self, randoms: &[RandomVar]) -> f64 {
        let width = self.dirwidth.mean(randoms);
        if width < 2.0 { 1.0 } else { libm::log((self.entries + self.leafdirs) as f64) / libm::log(width) }
    }

    /// Bytes that preallocation is expected to write.
    pub fn expected_bytes(&self, randoms: &[RandomVar]) -> f64 {
        self.size.mean(randoms) * self.entries as f64 * f64::from(self.prealloc_percent) / 100.0
    }
}

/// A process: threads that share one operation count (`finishoncount` counts within a process).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessSpec {
    /// The name, for reports.
    pub name: String,
    /// How many copies run.
    pub instances: u32,
    /// The kinds of thread in each copy.
    pub threads: Vec<ThreadSpec>,
}

/// A kind of thread: it executes its flowops in order, again and again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadSpec {
    /// The name, for reports.
    pub name: String,
    /// How many copies each process runs.
    pub instances: u32,
    /// Bytes of the private buffer that I/O goes through.
    pub memsize: u64,
    /// The loop body; never empty.
    pub flowops: Vec<FlowopSpec>,
}

/// When the measured phase ends by time, and how often it reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RunSpec {
    /// Seconds of (virtual) time, or `None` to run until a flowop or the [`QuitMode`] ends it.
    pub seconds: Option<u64>,
    /// `psrun`: seconds between two reports.
    pub period: Option<u64>,
    /// `psrun -N`: counters restart with each report.
    pub reset_each_period: bool,
}

/// Consequences of a thread's finding no file or directory to work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum QuitMode {
    /// It is an error: the run was meant to end by time (the default).
    #[default]
    Timeout,
    /// That thread ends; the run ends with its last thread.
    AllDone,
    /// The whole run ends.
    FirstDone,
}

/// One action before the measured phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Step {
    /// `create files`: make and preallocate all filesets.
    CreateFilesets,
    /// `sleep N`: let this many seconds of (virtual) time pass.
    Sleep {
        /// The seconds.
        seconds: u64,
    },
    /// `system "sync"`: write everything back and wait.
    Sync,
    /// `system "echo 3 > /proc/sys/vm/drop_caches"`: forget clean pages, inodes and dentries.
    DropCaches,
}

/// Something in a workload file that was read and then ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Line in the file, from 1; 0: of no line in particular.
    pub line: u32,
    /// Column in the line in characters, from 1; 0: of none.
    pub column: u32,
    /// The part without effect, and the reason.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.message)
    }
}

impl Workload {
    /// The jobs of a fio job file, on files.
    ///
    /// # Errors
    /// All that is wrong with it, and what there is not on files, with the lines.
    pub fn from_fio(file: &str, text: &str) -> Result<Workload, Mistakes> {
        let read = fio::parse(file, text)?;
        let (jobs, idle) = on_files(&read)?;
        let mut warnings = Vec::new();
        if !idle.is_empty() {
            let (names, s) = (idle.join(", "), if idle.len() == 1 { "s" } else { "" });
            warnings.push(Warning { line: 0, column: 0, message: format!("{names} change{s} nothing here") });
        }
        for on in jobs.iter().filter(|on| on.job.synchronous && on.job.depth > 1) {
            let message = format!(
                "job {}: its engine has one access under way, as in fio, whatever its iodepth of {} says",
                on.job.name, on.job.depth
            );
            warnings.push(Warning { line: 0, column: 0, message });
        }
        Ok(Workload { fio: jobs, warnings, ..Workload::empty(file) })
    }

    /// The replay of a trace of FIU.
    ///
    /// # Errors
    /// The first line that is no record of its format, or that there is none.
    pub fn from_fiu(file: &str, bytes: &[u8]) -> Result<Workload, Mistakes> {
        Ok(Workload { fiu: Some(Trace::parse(file, bytes)?), ..Workload::empty(file) })
    }

    /// A workload that does nothing.
    pub(crate) fn empty(name: &str) -> Workload {
        Workload {
            name: name.to_owned(),
            randoms: Vec::new(),
            filesets: Vec::new(),
            processes: Vec::new(),
            fio: Vec::new(),
            fiu: None,
            prologue: Vec::new(),
            run: RunSpec { seconds: None, period: None, reset_each_period: false },
            mode: QuitMode::default(),
            event_rate: 0,
            latency_histogram: false,
            messages: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The fileset that `id` names.
    ///
    /// # Panics
    ///
    /// If `id` comes from another workload.
    pub fn fileset(&self, id: FilesetId) -> &FilesetSpec {
        &self.filesets[id.0]
    }

    /// Bytes that preallocating all filesets is expected to write; for choosing a drive and for progress
    /// bars.
    pub fn expected_bytes(&self) -> f64 {
        let of_jobs: f64 = self.fio.iter().map(OnFiles::expected_bytes).sum();
        let of_trace = self.fiu.as_ref().map_or(0.0, Trace::expected_bytes);
        self.filesets.iter().map(|set| set.expected_bytes(&self.randoms)).sum::<f64>() + of_jobs + of_trace
    }

    /// Threads that run at once: the sum over processes and threads of their instances.
    pub fn threads(&self) -> u64 {
        let per_process = |p: &ProcessSpec| p.threads.iter().map(|t| u64::from(t.instances)).sum::<u64>();
        let of_jobs: u64 = self.fio.iter().map(|on| u64::from(on.job.clients)).sum();
        let of_trace = self.fiu.as_ref().map_or(0, |trace| u64::from(trace.clients));
        self.processes.iter().map(|p| u64::from(p.instances) * per_process(p)).sum::<u64>()
            + of_jobs
            + of_trace
    }
}
