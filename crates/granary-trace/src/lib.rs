//! Formats that come from outside, and Granary's own record of the calls of a drive. Nothing here runs
//! anything.
//!
//! ```text
//!   drive.rs   traces of calls of a drive: MSR, blkparse, fio's iolog, ...,      ──> Event { at, op }
//!              Granary's record
//!   fiu.rs     traces of calls on files                                          ──> Trace
//!   fio.rs     fio's job files                                                   ──> Job
//!   suggest.rs the word that was meant, for all who read names from people
//! ```
//!
//! No file system is used here: crates above replay a trace on a drive or run a job on files.

pub mod drive;
mod error;
pub mod fio;
pub mod fiu;
pub mod suggest;

pub use error::TraceError;
