//! DevFS (FAST'18): its figures as runs, its statements beside ours.
//!
//! ```text
//!   6      random writes and reads of one file, 1, 4, 16 KiB at a time
//!   7      1 to 16 processes append to ten files each: of their own (7a), or to the same ten (7b)
//!   8      files created, written with 16 KiB, closed: the drive's memory by step
//!   9      the same by time, and files that are opened again right after they were closed
//!   10     Snappy: files read, compressed, written, fsynced; the drive's clock from 2.6 to 1.4 GHz
//!   sizes  sections 3 to 5: objects, platform
//! ```
//!
//! Compression is processor time of the host, measured of the real compressor ([`plan`]). "+cap" comes by a
//! system call, "+direct" does not; steps of section 3.4 are options.
//!
//! Source: DevFS (FAST'18), sections 3.4, 4.4, 4.6, 5.1 to 5.4.

mod claims;
mod plan;

use super::plan::Plan;
use super::study::{Alone, Study};
use granary_lab::LabError;
use std::collections::BTreeMap;

/// The study.
pub const STUDY: Study = Study {
    name: "devfs",
    title: "DevFS (FAST'18)",
    figures: &["sizes", "6", "7", "8", "9", "10"],
    workloads: &plan::WORKLOADS,
    testbed: "devfs",
    scale: 0.01,
    plan: plan::runs,
    alone,
    claims: claims::claims,
    belongs: |figure, asked| asked.iter().any(|a| a == figure),
    choices: &plan::CHOICES,
};

/// Figures from the testbed.
fn alone(plan: &Plan<'_>, figures: &[String]) -> Result<Alone, LabError> {
    let mut out = BTreeMap::new();
    if figures.iter().any(|f| f == "sizes") {
        let t = plan.whole()?;
        out.insert("host processors", t.host.cores as f64);
        out.insert("storage, GB", t.nvm()?.pages() as f64 * 4096.0 / (1u64 << 30) as f64);
        if let Some(inside) = &t.inside {
            out.insert("drive's processors", inside.cores as f64);
            out.insert("drive's clock, GHz", f64::from(inside.clock_mhz) / 1e3);
            out.insert("drive's memory, GB", inside.memory.0 as f64 / (1u64 << 30) as f64);
        }
    }
    Ok(out)
}
