//! The record of a run.

use super::{Experiment, Finished, period};
use crate::error::LabError;
use crate::phase::phase;
use crate::record::{Amplification, Bytes2, OpType, Ops, PageCache, Processors, RECORD_VERSION, Record};
use crate::warnings;
use granary_bench::{BenchError, Precondition, Recorded};
use granary_device::Devices;
use granary_mssd::{DriveConfig, Mssd};
use granary_testbed::figures;
use granary_testbed::registry::FsEntry;
use granary_trace::drive::native::Header;
use granary_units::PAGE_SIZE;
use granary_vfs::Vfs;
use granary_workload::run::Finish;
use std::sync::Arc;

impl Experiment {
    pub(super) fn recorded(
        &self,
        config: &DriveConfig,
        drive: &Arc<Mssd>,
    ) -> Result<Option<Arc<Recorded<Mssd>>>, BenchError> {
        let Some(path) = &self.record else { return Ok(None) };
        let header = Header {
            granary: env!("CARGO_PKG_VERSION").to_owned(),
            source: self.what(),
            testbed: self.testbed.name.clone(),
            set: self.set.clone(),
            seed: self.seed,
            precondition: Precondition::None.to_string(),
            drive: config.clone(),
        };
        Ok(Some(Arc::new(Recorded::create(path, &header, drive.clone())?)))
    }

    /// A clean end, and clean checks: of the file system while mounted, and of the drive.
    pub(super) fn verify(&self, vfs: &Arc<Vfs>, devices: &Devices) -> Result<(), LabError> {
        let name = &self.fs;
        let found = vfs.check().map_err(LabError::fs(name, "check"))?;
        if let Some(first) = found.first() {
            return Err(LabError::run(name, "check", format!("{} violations; first: {first}", found.len())));
        }
        vfs.unmount().map_err(LabError::fs(name, "check"))?;
        devices
            .check()
            .map_err(|found| LabError::run(name, "check", format!("devices: {}", found.join("; "))))
    }

    pub(super) fn record(&self, fs: &'static FsEntry, finished: Finished) -> Record {
        let Finished {
            outcome,
            snapshots: [start, ready, done, drained],
            cache_policy,
            cache,
            cleaning,
            inside,
            memory,
        } = finished;
        let run = phase(&ready, &done);
        let app = Bytes2 { read_bytes: outcome.app_read, write_bytes: outcome.app_write };
        let virtual_s = outcome.elapsed.as_secs_f64();
        let host_cores = Processors {
            count: self.testbed.host.cores as u64,
            busy_s: done.cpu_since(&ready).as_secs_f64(),
        };
        let by_type = outcome
            .ops
            .iter()
            .map(|(name, op)| {
                let h = &op.latency;
                let stats = OpType {
                    kind: op.kind.to_owned(),
                    counted: op.counted,
                    count: op.count,
                    mean_ns: h.mean().0,
                    p50_ns: h.quantile(0.5).0,
                    p95_ns: h.quantile(0.95).0,
                    p99_ns: h.quantile(0.99).0,
                    max_ns: h.max().0,
                    histogram: if self.workload.latency_histogram {
                        h.by_powers_of_two().into_iter().map(<[u64; 2]>::from).collect()
                    } else {
                        Vec::new()
                    },
                };
                (name.clone(), stats)
            })
            .collect();
        let mut record = Record {
            v: RECORD_VERSION,
            granary: env!("CARGO_PKG_VERSION").to_owned(),
            commit: self.commit.clone(),
            workload: self.workload.name.clone(),
            workload_hash: self.origin.workload_hash.clone(),
            vars: self.origin.vars.clone(),
            scale: self.scale,
            fs: self.fs.clone(),
            testbed: self.testbed.name.clone(),
            testbed_file: self.origin.testbed_file.clone(),
            testbed_hash: self.testbed.hash(),
            set: self.set.clone(),
            seed: self.seed,
            threads: self.workload.threads(),
            virtual_s,
            ended_by: outcome.finished_because.to_string(),
            cut_short: outcome.finished_because == Finish::Interrupt,
            ops: Ops {
                total: outcome.total_ops,
                per_s: if virtual_s > 0.0 { outcome.total_ops as f64 / virtual_s } else { 0.0 },
                by_type,
            },
            amplification: Amplification::of(&run.host, &app),
            app,
            host: run.host,
            flash: run.flash,
            firmware: done.firmware_since(&ready),
            devices: done.devices_since(&ready),
            processors: [("host", Some(host_cores)), ("device", inside)]
                .into_iter()
                .filter_map(|(name, cores)| Some((name.to_owned(), cores?)))
                .collect(),
            memory: memory
                .into_iter()
                .chain([("host.page_cache", cache.0 * PAGE_SIZE as u64)])
                .map(|(name, bytes)| (name.to_owned(), bytes))
                .collect(),
            setup: phase(&start, &ready),
            drain: phase(&done, &drained),
            cleaning,
            changed_lines: self.changed_lines,
            page_cache: PageCache { pages: cache.0, most_duplicates: cache.1 },
            periods: outcome.periods.iter().map(period).collect(),
            messages: outcome.messages.clone(),
            warnings: Vec::new(),
        };
        let judge =
            warnings::Run { fs, cache: cache_policy, testbed: &self.testbed, workload: &self.workload };
        record.warnings = self.origin.notes.clone();
        if record.cut_short {
            let so_far = "cut short by an interrupt: the figures are of what was done until then, another run ends elsewhere";
            record.warnings.insert(0, so_far.to_owned());
        }
        record.warnings.extend(figures::of_run(&self.ssd_of(fs), Some(&self.testbed.host)));
        record.warnings.extend(judge.warnings(&record, &outcome.warnings));
        record
    }
}
