//! What the ByteFS paper states, beside what comes out here.
//!
//! ```text
//!   figures ── plan ──> runs: (setting, workload, file system) ──> records ─┐
//!          └──────────> recovery of a full log (drive alone) ──────────────┴─> Results ── claims ──> paper | ours | ratio | why
//! ```
//!
//! A *setting* is the testbed as one figure has it: `main` for most, other flash for Figure 13, other logs for Figure 14.
//! Figures share runs: each is made once.
//!
//! Per experiment as the artifact has it (docs/BENCHMARKS.md, "Reproducing the ByteFS paper"):
//! caches are dropped before `delete` and
//! `rmdir`; `oltp` keeps its 1,600 files and its memories, and only its time is scaled; everywhere else page cache, drive cache
//! and log region are scaled with the files. Table 2 is of the measured run alone, since the authors read their counters without
//! a sync; bytes of Figures 1, 8 and 9 and pages of Figures 10 and 11 are with those of the drain, since a short run leaves in
//! caches what a long one writes.
//!
//! Source: ByteFS (ASPLOS'25), sections 3.1, 4.3, 4.6, 5.2 to 5.6.

mod claims;
mod export;
mod plan;
mod recovery;
mod table;
mod verdict;

pub use claims::claims;
pub use export::{claims_csv, claims_json, claims_page};
pub use plan::{FIGURES, Plan, Planned, sensitivity};
pub use recovery::{Recovery, recovery};
pub use table::{claims_table, matrix_table, sensitivity_table, warnings_text};
pub use verdict::{Judged, Paper};

use crate::record::Record;

/// The paper's workloads, in the order of its figures.
pub const WORKLOADS: [&str; 9] =
    ["create", "delete", "mkdir", "rmdir", "varmail", "fileserver", "webproxy", "webserver", "oltp"];
/// Those of them without file data to speak of.
pub const MICRO: [&str; 4] = ["create", "delete", "mkdir", "rmdir"];
/// The others.
pub const MACRO: [&str; 5] = ["varmail", "fileserver", "webproxy", "webserver", "oltp"];
/// The paper's file systems, ours first.
pub const FILE_SYSTEMS: [&str; 5] = ["bytefs", "ext4", "f2fs", "nova", "pmfs"];

/// The setting of most figures.
pub const MAIN: &str = "main";

/// What the planned runs gave.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Each with its setting.
    pub runs: Vec<(String, Record)>,
    /// A recovery from a power failure, where one was made.
    pub recovery: Option<Recovery>,
}

impl Results {
    /// The run of this workload on this file system in a setting.
    pub fn find(&self, setting: &str, workload: &str, fs: &str) -> Option<&Record> {
        let named = |r: &Record| r.workload == workload && r.fs == fs;
        self.runs.iter().find(|(s, r)| s == setting && named(r)).map(|(_, r)| r)
    }

    /// Of the main setting.
    pub fn main(&self, workload: &str, fs: &str) -> Option<&Record> {
        self.find(MAIN, workload, fs)
    }

    /// The records alone.
    pub fn records(&self) -> Vec<Record> {
        self.runs.iter().map(|(_, record)| record.clone()).collect()
    }
}
