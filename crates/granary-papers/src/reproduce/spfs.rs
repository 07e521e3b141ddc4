//! SPFS (FAST'23): what its slides state, beside ours.
//!
//! ```text
//!   sync      small synchronous writes, over and within a file, with and without SPFS
//!   profiler  where small and large, synchronous and other writes go
//!   hashing   pointers and probes of extents
//!   machines  the two servers
//!   mapping   three ways to map clusters, on memory of DRAM speed
//!   nvlog     SPFS as NVLog's authors measured it, on their kind of SSD
//!   trace     generators of three of FIU's traces on the machine with little memory
//!   stacking  a file server of which some threads have direct I/O
//! ```
//!
//! Source: the slides of the talk. The only figure of theirs that is a number is the headline, 9.9 times.
//! NVLog (FAST'25): raw results in its public artifact.

mod claims;
mod plan;

use super::plan::Plan;
use super::study::{Alone, Study};
use granary_bench::memory;
use granary_device::Port;
use granary_lab::LabError;
use granary_sim::World;
use granary_spfs::exthash::Form;
use granary_spfs::mapping::{Structure, measure, size_for};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The study.
pub const STUDY: Study = Study {
    name: "spfs",
    title: "SPFS (FAST'23)",
    figures: &["sync", "profiler", "hashing", "machines", "mapping", "nvlog", "stacking", "trace"],
    workloads: &plan::WORKLOADS,
    testbed: "spfs",
    scale: 0.05,
    plan: plan::runs,
    alone,
    claims: claims::claims,
    belongs: |figure, asked| asked.iter().any(|a| a == figure),
    choices: &plan::CHOICES,
};

/// Figures from the testbeds, and counts of extent hashing.
fn alone(plan: &Plan<'_>, figures: &[String]) -> Result<Alone, LabError> {
    let asked = |figure: &str| figures.iter().any(|f| f == figure);
    let mut out = BTreeMap::new();
    if asked("machines") {
        let optane = plan.whole()?;
        let small = granary_testbed::Testbed::load("spfs-nvdimm", &[])?;
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
    if asked("mapping") {
        out.extend(mapping(plan)?);
    }
    Ok(out)
}

/// Each structure on memory of DRAM speed, with a tenth of the files that the scale says.
fn mapping(plan: &Plan<'_>) -> Result<Alone, LabError> {
    // 8,000 files (slides); BlockHash has 2 MiB of slots for each of them.
    let files = ((8_000.0 * plan.scale / 10.0) as u64).max(2);
    let failed = |e: &dyn std::fmt::Display| LabError::run("spfs", "measure", e);
    let small = granary_testbed::Testbed::load("spfs-nvdimm", &[])?;
    let config = small.nvm()?.clone().with_capacity(size_for(files));
    let mut out = BTreeMap::new();
    for (structure, [insert, lookup, memory]) in [
        (Structure::ExtentTree, ["tree: insert", "tree: lookup", "tree: memory"]),
        (Structure::ExtentHash(Form::Carved), ["extents: insert", "extents: lookup", "extents: memory"]),
        (Structure::BlockHash, ["blocks: insert", "blocks: lookup", "blocks: memory"]),
    ] {
        let dimm = memory::nvm(&small.name, &config)?;
        let port = Port::new(Arc::new(dimm));
        let measured =
            World::default().run(move || measure(&port, structure, files)).map_err(|e| failed(&e))?;
        let measured = measured.map_err(|e| failed(&e))?;
        out.extend([(insert, measured.insert), (lookup, measured.lookup), (memory, measured.memory)]);
    }
    Ok(out)
}
