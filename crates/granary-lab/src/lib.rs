//! Experiments, result records, comparison and reports; images with file systems, and stacks over directories
//! of the host.
//!
//! ```text
//!   testbed (TOML + --set)  workload (.f)  file system (registry)  seed
//!            └───────────────┴──────┬───────┴───────────────────────┘
//!                              experiment  (one virtual world: setup, run, drain)
//!                                  v
//!                               Record ──> table, JSON lines
//! ```

mod error;
pub mod experiment;
pub mod image;
pub mod kept;
pub mod phase;
pub mod record;
pub mod report;
pub mod stack;
mod warnings;

pub use error::LabError;
pub use granary_testbed::registry;
