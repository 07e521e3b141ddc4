//! ByteFS (ASPLOS'25): its figures as runs, its statements beside ours.
//!
//! Per experiment as the artifact has it (docs/BENCHMARKS.md, "Reproducing the ByteFS paper"). Caches are
//! dropped before `delete` and `rmdir`. `oltp` keeps its 1,600 files and its memories, and only its time is
//! scaled. Everywhere else page cache, drive cache and log region are scaled with the files. Table 2 is of
//! the measured run alone, since the authors read their counters without a sync. Bytes of Figures 1, 8 and 9
//! and pages of Figures 10 and 11 are with those of the drain: a short run leaves in caches the data that a
//! long one writes. Figure 13 runs on other flash, Figure 14 with other logs.
//!
//! Source: ByteFS (ASPLOS'25), sections 3.1, 4.3, 4.6, 5.2 to 5.6.

mod claims;
mod plan;
mod recovery;

use super::plan::Plan;
use super::study::{Alone, Study};
use granary_lab::LabError;
use std::collections::BTreeMap;

pub use recovery::{Recovery, recovery};

/// The paper's workloads, in the order of its figures.
pub const WORKLOADS: [&str; 9] =
    ["create", "delete", "mkdir", "rmdir", "varmail", "fileserver", "webproxy", "webserver", "oltp"];
/// Those of them without file data to speak of.
pub const MICRO: [&str; 4] = ["create", "delete", "mkdir", "rmdir"];
/// The others.
pub const MACRO: [&str; 5] = ["varmail", "fileserver", "webproxy", "webserver", "oltp"];
/// The paper's file systems, ours first.
pub const FILE_SYSTEMS: [&str; 5] = ["bytefs", "ext4", "f2fs", "nova", "pmfs"];

/// The study.
pub const STUDY: Study = Study {
    name: "bytefs",
    title: "ByteFS (ASPLOS'25)",
    figures: &plan::FIGURES,
    workloads: &WORKLOADS,
    testbed: "bytefs-reproduction",
    scale: 0.02,
    plan: plan::runs,
    alone,
    claims: claims::claims,
    belongs,
    choices: &plan::CHOICES,
};

/// The recovery of a full log, where its figures were asked for.
fn alone(plan: &Plan<'_>, figures: &[String]) -> Result<Alone, LabError> {
    if !figures.iter().any(|figure| figure == "recovery" || figure == "4.3") {
        return Ok(BTreeMap::new());
    }
    let r = recovery(&plan.whole()?, plan.seed)?;
    Ok(BTreeMap::from([
        ("recovery, s", r.total.as_secs_f64()),
        ("recovery: loading, s", r.load.as_secs_f64()),
        ("recovery: scan, s", r.scan.as_secs_f64()),
        ("recovery: flush, s", r.flush.as_secs_f64()),
        ("index, bytes", r.index_bytes as f64),
        ("log entries", r.entries as f64),
    ]))
}

/// Whether a statement belongs to a figure that was asked for.
fn belongs(figure: &str, asked: &[String]) -> bool {
    let has = |f: &str| asked.iter().any(|a| a == f);
    match figure {
        // The figures for all workloads are two.
        "10" | "11" => has("10") || has("11"),
        "7" => has("6"),
        figure => has(figure),
    }
}
