//! [`TestbedError`]: why a testbed or a file system of the registry cannot be had. Every message ends with
//! what to try next.

use granary_bench::BenchError;

/// Why there is no such testbed, device or file system.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// No testbed of that name, and no such file.
    #[error("no testbed '{name}': {meant}the built-in ones are {known}; or give the path of a .toml file")]
    UnknownTestbed {
        /// The name that was asked for.
        name: String,
        /// Names that may have been meant, as a question.
        meant: String,
        /// The built-in names.
        known: String,
    },
    /// A testbed file cannot be read as one.
    #[error("testbed {file}: {message}")]
    BadTestbed {
        /// Path or built-in name.
        file: String,
        /// The mistake, with line and column where there is one.
        message: String,
    },
    /// A `--set` that does not fit.
    #[error("--set {set}: {message}")]
    BadSet {
        /// As given.
        set: String,
        /// The mistake and the remedy.
        message: String,
    },
    /// No file system of that name.
    #[error("no file system '{name}': {meant}there are {known}")]
    UnknownFs {
        /// The name that was asked for.
        name: String,
        /// Names that may have been meant, as a question.
        meant: String,
        /// The registered names.
        known: String,
    },
    /// The testbed lacks a device.
    #[error("{0}")]
    Lacks(String),
    /// A device cannot be made or measured.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// A file could not be read.
    #[error("{what}: {source}")]
    Io {
        /// The file and what was done with it.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Settings or file systems that do not go together.
    #[error("{what}: {why}")]
    Call {
        /// The action.
        what: String,
        /// The reason.
        why: String,
    },
}

impl TestbedError {
    /// The error of an action and its reason.
    pub(crate) fn call(what: impl Into<String>, why: impl std::fmt::Display) -> TestbedError {
        TestbedError::Call { what: what.into(), why: why.to_string() }
    }
}
