//! Records of what was measured.

use super::{JobRecord, Latency, Origin, Rates, Utilization, gc_never_ran};
use crate::bench::JobResult;
use crate::figures;
use crate::job::{Job, Part, extras};
use crate::traffic::{Flash, by_cause};
use granary_device::DriveCounters;
use granary_mssd::DriveConfig;
use granary_units::Nanos;

pub(crate) fn job_record(job: &Job, r: &JobResult, part: Part) -> JobRecord {
    let Part { offset, size, .. } = part;
    let half = |n: usize| r.split.as_ref().map(|split| rates(&split[n], r.time));
    JobRecord {
        name: job.name.clone(),
        rw: job.pattern.name(),
        bs: job.least(),
        bs_max: Some(job.most()).filter(|most| *most != job.least()),
        iodepth: job.in_flight(),
        numjobs: job.clients,
        offset,
        size,
        rwmixread: job.pattern.is_mixed().then_some(job.read_percent),
        norandommap: job.pattern.random && !job.random_map,
        runtime_ns: job.runtime.map(|t| t.0),
        accesses_each: job.accesses,
        settings: extras(job),
        begin_ns: r.begin.0,
        rates: rates(r, r.time),
        read: half(0),
        write: half(1),
        flushes: r.flushes.as_ref().map(|f| rates(f, r.time)),
    }
}

pub(super) fn rates(r: &JobResult, time: Nanos) -> Rates {
    let seconds = time.as_secs_f64();
    let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
    let q = |q| r.latency.quantile(q).0;
    Rates {
        accesses: r.accesses,
        per_s: rate(r.accesses),
        read_bytes: r.read_bytes,
        write_bytes: r.write_bytes,
        trim_bytes: r.trim_bytes,
        bytes_per_s: rate(r.read_bytes + r.write_bytes + r.trim_bytes),
        latency: Latency {
            mean_ns: r.latency.mean().0,
            p50_ns: q(0.5),
            p95_ns: q(0.95),
            p99_ns: q(0.99),
            p999_ns: q(0.999),
            max_ns: r.latency.max().0,
        },
    }
}

pub(super) fn flash(c: &DriveCounters) -> Flash {
    Flash {
        read_pages: by_cause(&c.flash.read_pages),
        program_pages: by_cause(&c.flash.program_pages),
        erases: c.flash.erases,
    }
}

pub(super) fn utilization(drive: &DriveConfig, c: &DriveCounters, time: Nanos) -> Utilization {
    let share = |busy: Nanos, units: u64| {
        if time.0 == 0 { 0.0 } else { busy.0 as f64 / (time.0 as f64 * units as f64) }
    };
    let g = &drive.flash.geometry;
    Utilization {
        link_to_host: share(c.busy.link_to_host, 1),
        link_to_drive: share(c.busy.link_to_drive, 1),
        cores: share(c.busy.cores, drive.firmware.cores as u64),
        channels: share(c.busy.channels, g.channels as u64),
        planes: share(c.busy.planes, g.plane_count() as u64),
    }
}

/// Work of a drive, in the run and in the drain after it.
pub(super) struct Work<'a> {
    pub(super) time: Nanos,
    pub(super) run: &'a DriveCounters,
    pub(super) drain_time: Nanos,
    pub(super) drain: &'a DriveCounters,
}

impl Work<'_> {
    /// A warning where more than a tenth of the programs fell into the drain, without the pages that the host
    /// wrote only then. A short run measures how fast the drive's memory takes the writes, not how fast the
    /// flash does.
    fn still_buffered(&self) -> Option<String> {
        let late = self.drain.link.written().div_ceil(granary_units::PAGE_SIZE as u64);
        let run = self.run.flash.total_programs();
        let drain = self.drain.flash.total_programs().saturating_sub(late);
        if drain * 10 <= run + drain {
            return None;
        }
        let gb_per_s = |time: Nanos| self.run.link.written() as f64 / time.0.max(1) as f64;
        let all = self.time + self.drain_time;
        Some(format!(
            "{drain} of {} flash pages were programmed in the drain: the {:.3} GB/s written in the run are what the drive's memory \
             took; over run and drain ({all}) they are {:.3} GB/s",
            run + drain,
            gb_per_s(self.time),
            gb_per_s(all)
        ))
    }
}

pub(super) fn common_warnings(
    origin: &Origin,
    drive: &DriveConfig,
    writes: bool,
    work: &Work<'_>,
    out: &mut Vec<String>,
) {
    out.extend(figures::of_run(drive));
    if let (true, Some(why)) = (writes, gc_never_ran(work.run.plus(work.drain).flash.erases)) {
        out.push(format!(
            "{why}: flash writes are those of a fresh drive; --precondition random:2 comes near the steady state"
        ));
    }
    out.extend(writes.then(|| work.still_buffered()).flatten());
    if work.run.log.stalls > 0 {
        out.push(format!(
            "the write log was full {} times and stores waited for cleaning",
            work.run.log.stalls
        ));
    }
    if origin.no_data {
        out.push("host data was left out (--no-data): what was written cannot be read back".to_owned());
    }
}
