//! The drive on its own: raw jobs without a file system, and how busy each part of the drive was.
//!
//! ```text
//!   fio job file (fio.rs) ─┐
//!   command line ──────────┴─> Job (job.rs) ──> Bench (bench.rs): clients with `iodepth` accesses in flight
//!                                                  v
//!                                              DriveRecord (record.rs) ──> table, JSON
//! ```
//!
//! No host software is modelled here: latencies are the drive's own, from the doorbell or the store instruction to the
//! completion entry or the CPU going on. Data is written and read back by the emulator as always.

pub mod bench;
pub mod fio;
pub mod job;
pub mod moves;
pub mod record;
mod shuffle;
mod table;

pub use bench::{Bench, Precondition};
pub use job::{Access, Job};
pub use record::DriveRecord;
pub use table::table;
