//! [`JobResult`]: what one job did.

use crate::job::{Access, Job};
use granary_sim::Histogram;
use granary_units::Nanos;

/// Results of one job.
#[derive(Clone, Debug)]
pub struct JobResult {
    /// Accesses.
    pub accesses: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes that they wrote.
    pub write_bytes: u64,
    /// Bytes that they trimmed.
    pub trim_bytes: u64,
    /// From its beginning, or the end of its lead-in, to the completion of the last access.
    pub time: Nanos,
    /// From issue to completion.
    pub latency: Histogram,
    /// Of a job that reads and writes: its reads alone and its writes alone.
    pub split: Option<Box<[JobResult; 2]>>,
    /// Of a job that flushes: its flushes, which are not among the accesses.
    pub flushes: Option<Box<JobResult>>,
    /// When it began to be counted, since the run did.
    pub begin: Nanos,
}

impl JobResult {
    /// Nothing done yet.
    pub fn new() -> JobResult {
        JobResult {
            accesses: 0,
            read_bytes: 0,
            write_bytes: 0,
            trim_bytes: 0,
            time: Nanos::ZERO,
            latency: Histogram::new(),
            split: None,
            flushes: None,
            begin: Nanos::ZERO,
        }
    }

    /// Of this job.
    pub(super) fn of(job: &Job) -> JobResult {
        let split = job.pattern.is_mixed().then(Box::<[JobResult; 2]>::default);
        let flushes = (job.flush_every > 0).then(Box::<JobResult>::default);
        JobResult { split, flushes, ..JobResult::new() }
    }

    /// An access of `bytes` that was begun at `begun` has come to its end; the job began at `start`.
    #[inline]
    pub(super) fn done(&mut self, access: Access, bytes: u64, begun: Nanos, now: Nanos, start: Nanos) {
        self.accesses += 1;
        *match access.direction() {
            0 => &mut self.read_bytes,
            1 => &mut self.write_bytes,
            _ => &mut self.trim_bytes,
        } += bytes;
        self.latency.record(now - begun);
        self.time = now - start;
        if let Some(split) = &mut self.split {
            split[usize::from(access.writes())].done(access, bytes, begun, now, start);
        }
    }

    /// A flush that was begun at `begun` has come to its end.
    pub(super) fn flushed(&mut self, begun: Nanos, now: Nanos, start: Nanos) {
        if let Some(flushes) = &mut self.flushes {
            flushes.accesses += 1;
            flushes.latency.record(now - begun);
            flushes.time = now - start;
        }
    }
}

impl Default for JobResult {
    fn default() -> JobResult {
        JobResult::new()
    }
}
