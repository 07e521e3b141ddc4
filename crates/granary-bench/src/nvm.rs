//! [`NvmRecord`]: the result of a bench of NVM DIMMs, as JSON. Documented in docs/RESULTS.md.
//!
//! ```text
//!   byte jobs ──> Bench: each client is a core of its own ──> Dimm ──> NvmRecord: jobs[], host traffic
//! ```
//!
//! Invariants: as of a drive's record. A DIMM has no firmware, no flash and no block interface, so its record
//! has none of them.

use crate::bench::{Bench, Measured};
use crate::error::BenchError;
use crate::job::Job;
use crate::record::{CUT_SHORT, DRIVE_RECORD_VERSION, JobRecord, Origin, job_record};
use crate::traffic::{Host, host};
use granary_device::Role;
use granary_pmem::{Dimm, DimmConfig};
use serde::Serialize;

/// Jobs on NVM DIMMs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NvmRecord {
    /// Format version.
    pub v: u32,
    /// Where the numbers come from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The device: a record without it is of an SSD.
    pub device: Role,
    /// An interrupt ended it: the jobs did less than they were asked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut_short: bool,
    /// By job.
    pub jobs: Vec<JobRecord>,
    /// Length of the run in virtual seconds.
    pub virtual_s: f64,
    /// Traffic of the run between host and DIMMs.
    pub host: Host,
    /// Warnings that limit the trust in the numbers.
    pub warnings: Vec<String>,
}

/// Refuses jobs that are not of bytes alone.
///
/// # Errors
/// The first of them.
pub fn check_bytes(jobs: &[Job]) -> Result<(), BenchError> {
    let blocks = |job: &&Job| !job.pattern.first.is_byte() || job.flush_every > 0;
    jobs.iter().find(blocks).map_or(Ok(()), |job| {
        Err(BenchError::Usage(format!(
            "job {} has block commands, and an NVM DIMM knows bytes only: --device nvm takes --rw load, store or persist, and \
             with \"rand\" before the name in random order",
            job.name
        )))
    })
}

/// New DIMMs of a testbed.
///
/// # Errors
/// Figures that no DIMM can have; too little memory.
pub fn dimm(testbed: &str, config: &DimmConfig) -> Result<Dimm, BenchError> {
    crate::memory::nvm(testbed, config)
}

impl NvmRecord {
    /// The record of a run.
    pub fn new(origin: Origin, jobs: &[Job], m: &Measured) -> NvmRecord {
        let records = jobs.iter().zip(&m.jobs).zip(&m.parts);
        NvmRecord {
            v: DRIVE_RECORD_VERSION,
            origin,
            device: Role::Nvm,
            cut_short: m.cut,
            jobs: records.map(|((job, result), part)| job_record(job, result, *part)).collect(),
            virtual_s: m.time.as_secs_f64(),
            host: host(&m.run.link),
            warnings: m.cut.then(|| CUT_SHORT.to_owned()).into_iter().collect(),
        }
    }
}

/// Runs byte jobs.
///
/// # Errors
/// [`check_bytes`]; those of [`Bench::run`].
pub fn run(bench: &Bench<'_>, progress: impl FnMut(&str, f64)) -> Result<Measured, BenchError> {
    check_bytes(bench.jobs)?;
    bench.run(progress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::job;
    use granary_units::Bytes;

    fn bench(jobs: &[Job]) -> Result<Measured, BenchError> {
        let dimm = dimm("test", &DimmConfig::optane_dcpmm().with_capacity(Bytes::mib(64)))?;
        run(&Bench::of(&dimm, jobs), |_, _| {})
    }

    #[test]
    fn what_is_of_blocks_is_refused() {
        let said =
            bench(&[job("load", 64, 1, 10), job("randread", 4096, 1, 10)]).expect_err("refused").to_string();
        assert!(said.contains("job randread has block commands") && said.contains("--rw load"), "{said}");
        let flushes = Job { flush_every: 4, ..job("persist", 64, 1, 10) };
        assert!(bench(&[flushes]).is_err());
    }

    #[test]
    fn clients_have_caches_of_their_own_and_runs_repeat() {
        let run = |clients| bench(&[Job { clients, ..job("randload", 64, 1, 2000) }]).expect("runs");
        let (one, four) = (run(1), run(4));
        assert_eq!(four.jobs[0].accesses, 4 * one.jobs[0].accesses);
        assert!(four.time.0 < 2 * one.time.0, "four cores in {}, one in {}", four.time.0, one.time.0);
        assert_eq!((four.time, four.run), (run(4).time, run(4).run));
        let persist = bench(&[job("persist", 64, 1, 100)]).expect("runs");
        assert_eq!(persist.jobs[0].write_bytes, 6400);
    }
}
