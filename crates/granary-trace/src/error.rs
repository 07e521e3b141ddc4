//! [`TraceError`]: why a trace cannot be read. Every message ends with what to try next.

/// Why a trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line of a trace that cannot be replayed.
    #[error("{file}:{line}: {message}")]
    BadTrace {
        /// Path.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The error and the remedy.
        message: String,
    },
    /// A record of drive calls that cannot be replayed.
    #[error("{file}: {message}")]
    BadRecord {
        /// Path.
        file: String,
        /// The error, its place, and the remedy.
        message: String,
    },
    /// A file could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// The file and what was done with it.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
}
