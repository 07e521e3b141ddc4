//! What the ByteFS paper states, beside what comes out here: the nine workloads on the five file systems, and each number
//! of the paper that follows from them.
//!
//! ```text
//!   matrix(scale) ── 9 x 5 experiments ──> records ──> matrix table: throughput, host link, flash
//!                                                 └──> claims ──> paper | ours | ours/paper
//! ```
//!
//! Bytes and pages are those of the measured run and of the drain after it: a short run leaves much of what it wrote in
//! caches. `oltp` has a running time and no number of operations: scaling shortens that.
//!
//! Source: ByteFS (ASPLOS'25), sections 3.1, 5.2, 5.3, Table 2, Figures 6, 8 to 11.

mod claims;
mod table;

pub use claims::{Claim, Judged, claims};
pub use table::{claims_table, matrix_table, warnings_text};

use crate::error::LabError;
use crate::experiment::{Experiment, Origin};
use crate::record::Record;
use crate::testbed::Testbed;
use granary_workload::Workload;

/// The paper's workloads, in the order of its figures.
pub const WORKLOADS: [&str; 9] =
    ["create", "delete", "mkdir", "rmdir", "varmail", "fileserver", "webproxy", "webserver", "oltp"];
/// Those of them without file data to speak of.
pub const MICRO: [&str; 4] = ["create", "delete", "mkdir", "rmdir"];
/// The others.
pub const MACRO: [&str; 5] = ["varmail", "fileserver", "webproxy", "webserver", "oltp"];
/// The paper's file systems, ours first.
pub const FILE_SYSTEMS: [&str; 5] = ["bytefs", "ext4", "f2fs", "nova", "pmfs"];

/// The workload of this name as written, its run as much shorter as `scale` says, where it goes by time.
///
/// # Errors
/// No such workload, no such scale.
pub fn workload(name: &str, scale: f64) -> Result<Workload, LabError> {
    let mut workload = Workload::from_builtin(name, &[])?;
    workload.scale(scale)?;
    Ok(workload)
}

/// The experiments of a matrix, workload by workload; whoever knows the testbed's file says so in their `origin`.
///
/// # Errors
/// As [`workload`].
pub fn matrix(
    workloads: &[String],
    file_systems: &[String],
    testbed: &Testbed,
    set: &[String],
    scale: f64,
    seed: u64,
    commit: &str,
) -> Result<Vec<Experiment>, LabError> {
    let mut all = Vec::new();
    for name in workloads {
        let workload = workload(name, scale)?;
        for fs in file_systems {
            crate::registry::find(fs)?;
            all.push(Experiment {
                workload: workload.clone(),
                scale,
                fs: fs.clone(),
                testbed: testbed.clone(),
                set: set.to_vec(),
                origin: Origin::default(),
                seed,
                commit: commit.to_owned(),
                record: None,
            });
        }
    }
    Ok(all)
}

/// Sums over run and drain.
pub(crate) mod sum {
    use super::Record;

    /// Metadata bytes written and read.
    pub fn metadata(r: &Record) -> (u64, u64) {
        (
            r.host.metadata_written() + r.drain.host.metadata_written(),
            r.host.metadata_read() + r.drain.host.metadata_read(),
        )
    }

    /// Data bytes written and read.
    pub fn data(r: &Record) -> (u64, u64) {
        (r.host.data_written() + r.drain.host.data_written(), r.host.data_read() + r.drain.host.data_read())
    }

    /// Flash pages programmed and read.
    pub fn flash(r: &Record) -> (u64, u64) {
        (r.flash.programs() + r.drain.flash.programs(), r.flash.reads() + r.drain.flash.reads())
    }

    /// Host-link bytes over application bytes, written and read; `None` where the application moved none.
    pub fn amplification(r: &Record) -> (Option<f64>, Option<f64>) {
        let share = |host: u64, app: u64| (app > 0).then(|| host as f64 / app as f64);
        let ((mw, mr), (dw, dr)) = (metadata(r), data(r));
        (share(mw + dw, r.app.write_bytes), share(mr + dr, r.app.read_bytes))
    }
}
