//! [`LabError`]: why an experiment could not be set up or did not finish. Every message ends with what to try
//! next.

use granary_fs::FsError;

/// Why the lab could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// An argument that means nothing.
    #[error("{0}")]
    Usage(String),
    /// A job file with mistakes, or a trace of calls on files.
    #[error("{0}")]
    BadJobFile(granary_trace::fio::Mistakes),
    /// A file could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// The file and what was done with it.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A trace cannot be read or written.
    #[error(transparent)]
    Trace(#[from] granary_trace::TraceError),
    /// A device cannot be made or measured.
    #[error(transparent)]
    Bench(#[from] granary_bench::BenchError),
    /// There is no such testbed, device or file system.
    #[error(transparent)]
    Testbed(#[from] granary_testbed::TestbedError),
    /// An image cannot be made, opened or closed.
    #[error(transparent)]
    Image(#[from] granary_image::ImageError),
    /// A file system in an image, or the host, refuses a call.
    #[error("{what}: {why}")]
    Call {
        /// The file and what was done with it.
        what: String,
        /// The reason.
        why: String,
    },
    /// The workload file is wrong.
    #[error(transparent)]
    Workload(#[from] granary_workload::Error),
    /// The workload does not fit onto the drive.
    #[error("{0}")]
    DoesNotFit(String),
    /// Somebody stopped it before there was anything to show.
    #[error("{0}: interrupted before anything was measured")]
    Interrupted(String),
    /// A phase of the run failed.
    #[error("{fs}, {phase}: {message}")]
    Run {
        /// File system.
        fs: String,
        /// Phase: mkfs, mount, setup, run, drain, check.
        phase: &'static str,
        /// The error.
        message: String,
    },
}

impl LabError {
    /// A call on a file that failed.
    pub fn call(what: impl Into<String>, why: impl std::fmt::Display) -> LabError {
        LabError::Call { what: what.into(), why: why.to_string() }
    }

    /// Whether it is what a consistency check found after the work was done, not something that could not be
    /// done.
    pub fn is_finding(&self) -> bool {
        matches!(self, LabError::Run { phase: "check", .. })
    }

    /// A failed phase.
    pub fn run(fs: &str, phase: &'static str, why: impl std::fmt::Display) -> LabError {
        LabError::Run { fs: fs.to_owned(), phase, message: why.to_string() }
    }

    /// A file-system call of a phase that failed.
    pub fn fs(fs: &str, phase: &'static str) -> impl FnOnce(FsError) -> LabError {
        move |e| LabError::run(fs, phase, e)
    }
}
