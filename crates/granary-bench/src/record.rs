//! [`DriveRecord`], [`ReplayRecord`]: the result of a drive bench and of a replay, as JSON. Documented in
//! docs/RESULTS.md.
//!
//! ```text
//!   DriveRecord   Origin  jobs[]: what, Rates   ┐
//!   ReplayRecord  Origin  trace  ops[]: Rates   ┴ Moved: utilization, host, flash, drain   warnings
//! ```
//!
//! Invariant: no wall-clock time; equal seeds give equal bytes.

mod make;

use crate::bench::Measured;
use crate::job::Job;
use crate::replay::{Bent, Pace, Replayed};
use crate::traffic::{Flash, Host, host};
use granary_device::DriveCounters;
use granary_mssd::DriveConfig;
use granary_trace::drive::Seen;
use granary_units::Nanos;
pub(crate) use make::job_record;
use make::{Work, common_warnings, flash, rates, utilization};
use serde::Serialize;

/// Version of the records' format.
pub const DRIVE_RECORD_VERSION: u32 = 2;
/// The warning about a run that was stopped.
pub(super) const CUT_SHORT: &str = "cut short by an interrupt: the figures are of what was done until then";

/// Where the numbers come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Origin {
    /// Granary's version.
    pub granary: String,
    /// The commit it was built from, or "unknown".
    pub commit: String,
    /// Testbed.
    pub testbed: String,
    /// Changes to it.
    pub set: Vec<String>,
    /// Root seed.
    pub seed: u64,
    /// Content of the drive before.
    pub precondition: String,
    /// Every line that byte jobs touch was stored before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub warm: bool,
    /// The flash kept no content.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_data: bool,
}

/// Jobs on a drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveRecord {
    /// Format version.
    pub v: u32,
    /// Where the numbers come from.
    #[serde(flatten)]
    pub origin: Origin,
    /// An interrupt ended it: the jobs did less than they were asked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut_short: bool,
    /// By job.
    pub jobs: Vec<JobRecord>,
    /// Traffic in the drive.
    #[serde(flatten)]
    pub moved: Moved,
    /// Warnings that limit the trust in the numbers.
    pub warnings: Vec<String>,
}

/// A replayed trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayRecord {
    /// Format version.
    pub v: u32,
    /// Where the numbers come from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The trace and how it was replayed.
    pub trace: TraceRecord,
    /// An interrupt ended it before the end of the trace.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut_short: bool,
    /// By kind of operation.
    pub ops: Vec<OpRecord>,
    /// Traffic in the drive.
    #[serde(flatten)]
    pub moved: Moved,
    /// Warnings that limit the trust in the numbers.
    pub warnings: Vec<String>,
}

/// A trace and how it was replayed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceRecord {
    /// Path.
    pub file: String,
    /// Name of its format: `msr`, `blkparse`, `granary` and so on.
    pub format: String,
    /// Time stamps and their factor, or as fast as possible and the depth.
    pub pace: String,
    /// Operations whose pages were folded onto the drive.
    pub wrapped: u64,
    /// Operations stamped earlier than others issued before.
    pub late: u64,
    /// Accesses that did not begin and end at pages of 4 KiB.
    pub unaligned: u64,
    /// Trims that covered no whole page and so did nothing.
    pub small_trims: u64,
    /// Lines that are no access of the chosen device and event.
    pub skipped: u64,
    /// Commands that passed the block layer by (SCSI, ATA, NVMe) and were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub passed_through: u64,
}

/// Traffic in a drive, and how busy its parts were.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moved {
    /// Firmware mode: `log` or `cache`.
    pub firmware: String,
    /// Length of the run in virtual seconds.
    pub virtual_s: f64,
    /// Share of the run that each kind of resource was at work, 0 to 1, mean over its units. Of planes that
    /// wait for each other (`plane_mode` other than `independent`) what lies ahead is known for a die as a
    /// whole only: a short run may show more than 1.
    pub utilization: Utilization,
    /// Host-link traffic of the run.
    pub host: Host,
    /// Flash traffic of the run.
    pub flash: Flash,
    /// Flash traffic of the drain after it: log cleaning, cache write-back.
    pub drain: Flash,
    /// Flash programs of run and drain for each page that the host wrote; 0 where it wrote nothing.
    pub write_amplification: f64,
    /// Flash programs for each page that the firmware gave to the FTL; 1 without gc.
    pub waf: f64,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobRecord {
    /// Name.
    pub name: String,
    /// `randread` and so on.
    pub rw: String,
    /// Bytes of one access; of the smallest, where there are several sizes.
    pub bs: u64,
    /// Of the largest, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bs_max: Option<u64>,
    /// In flight per client.
    pub iodepth: u32,
    /// Clients.
    pub numjobs: u32,
    /// Where the part of the drive begins that it touches, bytes.
    pub offset: u64,
    /// Size of that part, bytes.
    pub size: u64,
    /// Share of reads in percent, where it reads and writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rwmixread: Option<u32>,
    /// Random blocks are drawn anew each time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub norandommap: bool,
    /// A time that may end it before its blocks or accesses do, virtual ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_ns: Option<u64>,
    /// Accesses asked of each client; absent: one of each block, or as many as the time allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses_each: Option<u64>,
    /// Its other settings, as a job file says them: `rate=1048576 (writes)`, `stonewall`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// When it began to be counted, virtual ns after the run began: behind a stonewall, a delay or a lead-in.
    #[serde(skip_serializing_if = "is_zero")]
    pub begin_ns: u64,
    /// How many, how fast.
    #[serde(flatten)]
    pub rates: Rates,
    /// Where it reads and writes: the same of its reads alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Rates>,
    /// And of its writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Rates>,
    /// Where it flushes: its flushes, which are not among the accesses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flushes: Option<Rates>,
}

/// One kind of operation of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpRecord {
    /// `read`, `write`, `flush`, `trim`, `load`, `store` and so on.
    pub name: String,
    /// How many, how fast.
    #[serde(flatten)]
    pub rates: Rates,
}

/// How many accesses, how fast.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Accesses.
    pub accesses: u64,
    /// Accesses per virtual second.
    pub per_s: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes trimmed.
    #[serde(skip_serializing_if = "is_zero")]
    pub trim_bytes: u64,
    /// Bytes of all per virtual second.
    pub bytes_per_s: f64,
    /// Latency in ns.
    pub latency: Latency,
}

/// Latency in ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Mean.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

/// Shares of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Utilization {
    /// Host link, drive to host.
    pub link_to_host: f64,
    /// Host link, host to drive.
    pub link_to_drive: f64,
    /// Firmware processors.
    pub cores: f64,
    /// Channel buses.
    pub channels: f64,
    /// Flash planes.
    pub planes: f64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl DriveRecord {
    /// The record of a run.
    pub fn new(origin: Origin, drive: &DriveConfig, jobs: &[Job], m: &Measured) -> DriveRecord {
        let mut warnings = Vec::new();
        warnings.extend(m.cut.then(|| CUT_SHORT.to_owned()));
        let (reads, writes) =
            (jobs.iter().any(|j| j.pattern.first.reads()), jobs.iter().any(|j| j.pattern.second.writes()));
        if reads && origin.precondition == "none" && !origin.warm {
            warnings.push(
                "reads of pages that were never written do not reach the flash: use --precondition fill"
                    .to_owned(),
            );
        }
        common_warnings(
            &origin,
            drive,
            writes,
            &Work { time: m.time, run: &m.run, drain_time: m.drain_time, drain: &m.drain },
            &mut warnings,
        );
        DriveRecord {
            v: DRIVE_RECORD_VERSION,
            cut_short: m.cut,
            jobs: jobs
                .iter()
                .zip(&m.jobs)
                .zip(&m.parts)
                .map(|((j, r), part)| job_record(j, r, *part))
                .collect(),
            moved: Moved::new(drive, m.time, &m.run, &m.drain),
            warnings,
            origin,
        }
    }
}

impl ReplayRecord {
    /// The record of a replay.
    pub fn new(
        origin: Origin,
        drive: &DriveConfig,
        file: &str,
        format: &str,
        pace: Pace,
        m: &Replayed,
    ) -> ReplayRecord {
        let Bent { wrapped, late } = m.bent;
        let Seen { unaligned, small_trims, skipped, passed_through, untimed, .. } = m.seen;
        let mut warnings = Vec::new();
        warnings.extend(m.cut.then(|| CUT_SHORT.to_owned()));
        for (n, what) in [
            (
                wrapped,
                "operations lay beyond the drive's end and were folded onto it: neighbours in the trace may be strangers here",
            ),
            (unaligned, "accesses did not begin and end at 4 KiB and moved all pages that they touch"),
            (
                late,
                "operations were stamped earlier than others before them in the trace and were issued late",
            ),
            (
                passed_through,
                "commands passed the block layer by (SCSI, ATA, NVMe: no sectors are known of them) and were left out",
            ),
        ] {
            if n > 0 {
                warnings.push(format!("{n} {what}"));
            }
        }
        if untimed && pace.is_stamped() {
            warnings.push(
                "the trace says no time, so all of it was issued at once: --as-fast-as-possible --depth N keeps N operations \
                 under way"
                    .to_owned(),
            );
        }
        let writes = m.ops.values().any(|r| r.write_bytes > 0);
        common_warnings(
            &origin,
            drive,
            writes,
            &Work { time: m.time, run: &m.run, drain_time: m.drain_time, drain: &m.drain },
            &mut warnings,
        );
        let (file, format, pace) = (file.to_owned(), format.to_owned(), pace.to_string());
        ReplayRecord {
            v: DRIVE_RECORD_VERSION,
            cut_short: m.cut,
            trace: TraceRecord {
                file,
                format,
                pace,
                wrapped,
                late,
                unaligned,
                small_trims,
                skipped,
                passed_through,
            },
            ops: m
                .ops
                .iter()
                .map(|(name, r)| OpRecord { name: (*name).to_owned(), rates: rates(r, m.time) })
                .collect(),
            moved: Moved::new(drive, m.time, &m.run, &m.drain),
            warnings,
            origin,
        }
    }
}

impl Moved {
    fn new(drive: &DriveConfig, time: Nanos, run: &DriveCounters, drain: &DriveCounters) -> Moved {
        let both = run.plus(drain);
        let host_pages = both.link.written() as f64 / granary_units::PAGE_SIZE as f64;
        let programs = both.flash.total_programs() as f64;
        Moved {
            firmware: drive.firmware.mode.name().to_owned(),
            virtual_s: time.as_secs_f64(),
            utilization: utilization(drive, run, time),
            host: host(&run.link),
            flash: flash(run),
            drain: flash(drain),
            write_amplification: if host_pages > 0.0 { programs / host_pages } else { 0.0 },
            waf: both.flash.waf(),
        }
    }
}

/// Says so where nothing was erased. Gc that finds only stale pages copies none, so its programs do not tell.
pub fn gc_never_ran(erases: u64) -> Option<&'static str> {
    (erases == 0).then_some("garbage collection never ran")
}

#[cfg(test)]
mod tests;
