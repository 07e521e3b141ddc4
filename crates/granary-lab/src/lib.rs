//! Testbeds, experiments, result records, comparison and reports.
//!
//! ```text
//!   testbed (TOML + --set)  workload (.f)  file system (registry)  seed
//!            └───────────────┴──────┬───────┴───────────────────────┘
//!                              experiment  (one virtual world: setup, run, drain)
//!                                  v
//!                               Record ──> table, JSON lines
//! ```

pub mod record;
pub mod report;
