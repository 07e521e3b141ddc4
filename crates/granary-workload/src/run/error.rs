//! Why a run could not be set up or went wrong, with the flowop, the thread, the path and the cause.
//!
//! It does *not* hold errors of workload files; those are [`crate::Error`].

use granary_fs::FsError;

/// Why a run failed. The file system may hold part of the work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A call failed while the filesets were made or the prologue ran.
    #[error("setup failed: {call} {path}: {source}")]
    Setup {
        /// The system call.
        call: &'static str,
        /// Its path.
        path: String,
        /// Why it failed.
        source: FsError,
    },
    /// A call of a flowop failed.
    #[error("flowop `{flowop}` of {thread} failed: {call} {path}: {source}")]
    Call {
        /// Name of the flowop.
        flowop: String,
        /// Process and thread that executed it.
        thread: String,
        /// The system call.
        call: &'static str,
        /// The file or directory.
        path: String,
        /// Why it failed.
        source: FsError,
    },
    /// A call of a job of a fio job file failed.
    #[error("job `{job}` failed: {call} {path}: {source}")]
    Job {
        /// Its name.
        job: String,
        /// The system call.
        call: &'static str,
        /// The file.
        path: String,
        /// Why it failed.
        source: FsError,
    },
    /// A call of a record of a trace failed.
    #[error("trace `{trace}`, record {record}, failed: {call} {path}: {source}")]
    Record {
        /// The trace.
        trace: String,
        /// Which of its records, from 1.
        record: u64,
        /// The system call.
        call: &'static str,
        /// The file.
        path: String,
        /// Why it failed.
        source: FsError,
    },
    /// A job with `verify` has read something else than was written.
    #[error("job `{job}`: {path} has not what was written there at byte {at}")]
    NotWhatWasWritten {
        /// Its name.
        job: String,
        /// The file.
        path: String,
        /// The first byte that is wrong, or the end of the file.
        at: u64,
    },
    /// A flowop found no file or directory to work on, and the run was meant to end by time.
    #[error("flowop `{flowop}` of {thread} found no {wanted} in fileset `{fileset}`; {instead}")]
    NothingToPick {
        /// Name of the flowop.
        flowop: String,
        /// Process and thread that executed it.
        thread: String,
        /// The kind of entry that it looked for, such as "file that exists".
        wanted: &'static str,
        /// The fileset that it searched.
        fileset: String,
        /// The remedy.
        instead: String,
    },
    /// A flowop was used in a way that cannot work.
    #[error("flowop `{flowop}` of {thread}: {reason}")]
    Misuse {
        /// Name of the flowop.
        flowop: String,
        /// Process and thread that executed it.
        thread: String,
        /// The mistake, and the remedy.
        reason: String,
    },
    /// A fileset that cannot be held.
    #[error("fileset `{fileset}`: {reason}")]
    Fileset {
        /// Its name.
        fileset: String,
        /// The reason.
        reason: String,
    },
    /// Neither time, nor a count of what is done, nor a lack of files can end the run.
    #[error(
        "nothing would end this run: give `run` a number of seconds, or add a finishoncount (finishonbytes) flowop to a process that does operations (moves bytes)"
    )]
    Endless,
    /// Threads wait in semaphores and blocks, no other one can wake them or end the run, and no time does.
    #[error(
        "threads wait and none is left to wake them: {waiters}; let another thread post or wake them, or give `run` a number of \
         seconds"
    )]
    Standstill {
        /// The threads, the flowops that they wait in with file and line, and what for.
        waiters: String,
    },
    /// It was told to stop before the measured phase began.
    #[error("interrupted before the run began: nothing was measured")]
    Interrupted,
    /// [`super::Run::measure`] before [`super::Run::setup`].
    #[error("the filesets of the run are not set up")]
    NotSetUp,
}

impl RunError {
    /// Whether the file system had no room.
    pub fn is_no_space(&self) -> bool {
        matches!(
            self,
            RunError::Setup { source: FsError::NoSpace, .. }
                | RunError::Call { source: FsError::NoSpace, .. }
                | RunError::Job { source: FsError::NoSpace, .. }
                | RunError::Record { source: FsError::NoSpace, .. }
        )
    }
}
