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
pub mod phase;
pub mod record;
pub mod registry;
pub mod report;
pub mod reproduce;
pub mod testbed;
mod warnings;

pub use error::LabError;
