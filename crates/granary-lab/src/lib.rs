//! Testbeds, experiments, result records, comparison and reports.
//!
//! ```text
//!   testbed (TOML + --set)  workload (.f)  file system (registry)  seed
//!            └───────────────┴──────┬───────┴───────────────────────┘
//!                              experiment  (one virtual world: setup, run, drain)
//!                                  v
//!                               Record ──> table, JSON lines
//! ```

pub mod calibrate;
mod error;
pub mod experiment;
pub mod image;
pub mod phase;
pub mod record;
pub mod registry;
pub mod report;
pub mod reproduce;
pub mod stack;
pub mod testbed;
mod warnings;

pub use error::LabError;

/// A short name of a content, to tell files of one name apart: `crc32c:` and 8 hexadecimal digits. Not for those who would forge it.
pub fn hash(content: &[u8]) -> String {
    format!("crc32c:{:08x}", crc32c::crc32c(content))
}
