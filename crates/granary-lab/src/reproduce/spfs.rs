//! SPFS (FAST'23): what its slides state, beside ours.
//!
//! ```text
//!   sync      small synchronous writes, over and within a file, with and without SPFS
//!   profiler  where small and large, synchronous and other writes go
//!   hashing   pointers and probes of extents
//!   machines  the two servers
//!   mapping, stacking, trace    figures whose bars are pictures: nothing to hold ours against
//! ```
//!
//! Source: the slides of the talk. The only figure of theirs that is a number is the headline, 9.9 times.

mod claims;
mod plan;

use super::{Alone, Plan, Study};
use crate::error::LabError;
use std::collections::BTreeMap;

/// The study.
pub const STUDY: Study = Study {
    name: "spfs",
    title: "SPFS (FAST'23)",
    figures: &["sync", "profiler", "hashing", "machines", "mapping", "stacking", "trace"],
    workloads: &plan::WORKLOADS,
    testbed: "spfs",
    scale: 0.05,
    plan: plan::runs,
    alone,
    claims: claims::claims,
    belongs: |figure, asked| asked.iter().any(|a| a == figure),
};

/// What the testbeds say, and what extent hashing counts.
fn alone(plan: &Plan<'_>, figures: &[String]) -> Result<Alone, LabError> {
    let asked = |figure: &str| figures.iter().any(|f| f == figure);
    let mut out = BTreeMap::new();
    if asked("machines") {
        let optane = plan.whole()?;
        let small = crate::testbed::Testbed::load("spfs-nvdimm", &[])?;
        let gb = |pages: u64| pages as f64 * 4096.0 / 1e9;
        out.insert("DCPMM: processors", optane.host.cores as f64);
        out.insert("DCPMM: PM, GB", gb(optane.nvm()?.pages()));
        out.insert("DCPMM: SSD, TB", gb(optane.ssd()?.pages()) / 1e3);
        out.insert("NVDIMM-N: processors", small.host.cores as f64);
        out.insert("NVDIMM-N: PM, GB", gb(small.nvm()?.pages()) * 1e9 / f64::from(1u32 << 30));
        out.insert("NVDIMM-N: SSD, GB", gb(small.ssd()?.pages()));
    }
    if asked("hashing") {
        out.extend(claims::hashing());
    }
    Ok(out)
}
