//! A device on its own, mostly the SSD: raw jobs without a file system, and how busy each part of the drive
//! was.
//!
//! ```text
//!   fio job file (fio.rs) ─┐
//!   command line ──────────┴─> Job (job.rs) ──> Bench (bench.rs): clients with `iodepth` accesses in flight
//!   trace (granary-trace) ─────────────────────> Replay (replay.rs)
//!                          precondition.rs ──>     v
//!                                              DriveRecord, ReplayRecord (record.rs) ──> table, JSON
//! ```
//!
//! No host software is modelled here: latencies are the drive's own, from the doorbell or the store
//! instruction to the completion entry or the CPU going on. Data is written and read back by the emulator as
//! always, unless it is left out (`--no-data`), which the record says.

pub mod bench;
pub mod columns;
pub mod drives;
mod error;
pub mod figures;
pub mod fio;
pub mod job;
pub mod memory;
pub mod moves;
pub mod nvm;
pub mod precondition;
pub mod record;
pub mod recorded;
pub mod replay;
mod table;
pub mod traffic;

pub use bench::Bench;
pub use error::BenchError;
pub use job::{Access, Job};
pub use nvm::NvmRecord;
pub use precondition::Precondition;
pub use record::{DriveRecord, ReplayRecord};
pub use recorded::Recorded;
pub use replay::{Pace, Replay};
pub use table::{nvm_table, replay_table, table};
