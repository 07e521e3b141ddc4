//! [`BenchError`]: why a device could not be made or measured. Every message ends with what to try next.

use granary_trace::TraceError;
use granary_trace::fio::Mistakes;

/// Why a bench of a device could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An argument that means nothing, or more than this machine has.
    #[error("{0}")]
    Usage(String),
    /// A drive job that cannot be run.
    #[error("job {job}: {message}")]
    BadJob {
        /// Its name.
        job: String,
        /// The mistake and the remedy.
        message: String,
    },
    /// A job file with mistakes.
    #[error("{0}")]
    BadJobFile(Mistakes),
    /// A trace that cannot be read or written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Figures that no device can have.
    #[error("testbed {testbed}: {message}")]
    BadDevice {
        /// The testbed with these figures.
        testbed: String,
        /// The mistake.
        message: String,
    },
    /// A phase of the run failed.
    #[error("{device}, {phase}: {message}")]
    Run {
        /// The device.
        device: String,
        /// Phase: bench, measure and so on.
        phase: &'static str,
        /// The error.
        message: String,
    },
}

impl BenchError {
    /// A failed phase.
    pub fn run(device: &str, phase: &'static str, why: impl std::fmt::Display) -> BenchError {
        BenchError::Run { device: device.to_owned(), phase, message: why.to_string() }
    }
}
