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
pub mod drive;
mod error;
pub mod experiment;
pub mod image;
pub mod memory;
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

/// The known name that `name` may have been meant for, as a question with a blank behind it; nothing where none is near.
pub fn meant<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    granary_workload::nearest(name, known).map_or(String::new(), |near| format!("did you mean `{near}`? "))
}
