//! [`Bench`]: runs jobs on a drive in virtual time.
//!
//! ```text
//!   precondition ──settle──> run: each client keeps `iodepth` accesses in flight ──> drain (settle)
//!                             event (instant, client) ──> access ──> next event at its completion
//! ```
//!
//! A closed loop: an access that completes is followed by the next one at that instant. Block accesses larger than the
//! drive's largest command go out as several commands at once and complete with the last. A store is three steps at three
//! instants (store, write-back, verify), because calls to a drive come in time order.
//!
//! Equal seeds give equal results.

use super::job::{Access, Job};
use super::shuffle::Shuffle;
use crate::error::LabError;
use granary_mssd::{Command, Drive, DriveCounters, DriveError, Structure};
use granary_sim::Histogram;
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const WHAT: Structure = Structure::Data;
const PAGE: u64 = PAGE_SIZE as u64;
/// Pages of one command while the drive is filled.
const FILL: u64 = 64;
/// Calls between two reports of progress.
const REPORT_EVERY: u64 = 1 << 14;

/// What the drive holds before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// A new drive.
    None,
    /// Every page written once, in order.
    Fill,
    /// That, and then this many times the capacity in random pages: towards gc's steady state.
    Random(u32),
}

impl Precondition {
    /// From `none`, `fill`, `random N` or `random:N`.
    ///
    /// # Errors
    /// What may be written.
    pub fn parse(text: &str) -> Result<Precondition, String> {
        let bad = || format!("'{text}': write none, fill, or random:N for N times the drive's capacity");
        match text.split_once([':', ' ', '=']) {
            None if text == "none" => Ok(Precondition::None),
            None if text == "fill" => Ok(Precondition::Fill),
            Some(("random", n)) => {
                n.trim().parse().ok().filter(|&n| n > 0).map(Precondition::Random).ok_or_else(bad)
            }
            _ => Err(bad()),
        }
    }
}

impl std::fmt::Display for Precondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Precondition::None => f.write_str("none"),
            Precondition::Fill => f.write_str("fill"),
            Precondition::Random(n) => write!(f, "random:{n}"),
        }
    }
}

/// What one job did.
#[derive(Clone, Debug)]
pub struct JobResult {
    /// Accesses.
    pub accesses: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes that they wrote.
    pub write_bytes: u64,
    /// From the start of the run to the completion of the last access.
    pub time: Nanos,
    /// From issue to completion.
    pub latency: Histogram,
}

/// What a bench measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// By job.
    pub jobs: Vec<JobResult>,
    /// Length of the run.
    pub time: Nanos,
    /// What the drive counted in the run.
    pub run: DriveCounters,
    /// In the drain after it.
    pub drain: DriveCounters,
    /// Length of the drain.
    pub drain_time: Nanos,
}

/// Jobs to run at the same time.
pub struct Bench<'a> {
    /// The drive, idle.
    pub drive: &'a dyn Drive,
    /// The jobs.
    pub jobs: &'a [Job],
    /// What the drive holds before.
    pub precondition: Precondition,
    /// Root seed.
    pub seed: u64,
}

/// Where a store is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The slot is free.
    Issue,
    /// Stored at `at`, to be written back.
    WriteBack { at: u64, begun: Nanos },
    /// Written back, to be verified.
    Verify { begun: Nanos },
    /// Done.
    Done { begun: Nanos },
}

/// Order of events: by instant, then first come, first served.
type Event = Reverse<(Nanos, u64, usize, Step)>;

struct Client<'a> {
    job: usize,
    spec: &'a Job,
    random: Stream,
    map: Option<Shuffle>,
    blocks: u64,
    issued: u64,
    limit: u64,
}

impl Client<'_> {
    /// The next access, unless the client has done its part.
    fn next(&mut self, now: Nanos) -> Option<(Access, u64)> {
        if self.issued == self.limit || self.spec.runtime.is_some_and(|end| now >= end) {
            return None;
        }
        let nth = self.issued % self.blocks;
        self.issued += 1;
        let block = match &self.map {
            Some(map) => map.at(nth),
            None if self.spec.pattern.random => self.random.below(self.blocks),
            None => nth,
        };
        let p = self.spec.pattern;
        let mixed = p.first != p.second;
        let first = !mixed || self.random.below(100) < self.spec.read_percent as u64;
        Some((if first { p.first } else { p.second }, self.spec.offset.0 + block * self.spec.stride()))
    }
}

impl Bench<'_> {
    /// Runs everything. `progress` is told the phase and how much of it is done, 0 to 1.
    ///
    /// # Errors
    /// A job that does not fit the drive, drive errors.
    pub fn run(&self, mut progress: impl FnMut(&str, f64)) -> Result<Measured, LabError> {
        let info = self.drive.info();
        let capacity = info.pages * PAGE;
        let sizes: Vec<u64> = self.jobs.iter().map(|j| j.check(capacity)).collect::<Result<_, _>>()?;
        let start = self.precondition(info.pages, &mut progress).map_err(refused("precondition"))?;
        let before = self.drive.counters();
        let (jobs, end) = self.measure(start, &sizes, &mut progress).map_err(refused("run"))?;
        let after = self.drive.counters();
        let drained = self.drive.settle(end).map_err(refused("drain"))?;
        let last = self.drive.counters();
        Ok(Measured {
            jobs,
            time: end - start,
            run: after.since(&before),
            drain: last.since(&after),
            drain_time: drained - end,
        })
    }

    fn precondition(&self, pages: u64, progress: &mut impl FnMut(&str, f64)) -> Result<Nanos, DriveError> {
        let rounds = match self.precondition {
            Precondition::None => return Ok(Nanos::ZERO),
            Precondition::Fill => 0,
            Precondition::Random(n) => n as u64,
        };
        let total = pages * (1 + rounds);
        let mut now = Nanos::ZERO;
        let most = FILL.min(self.drive.info().max_transfer as u64);
        for lpa in (0..pages).step_by(most as usize) {
            let content: Vec<Page> = (lpa..pages.min(lpa + most)).map(Page::word).collect();
            now = self.drive.submit(now, Command::Write { lpa: Lpa(lpa), pages: &content, what: WHAT })?;
            if lpa % (REPORT_EVERY * 4) < most {
                progress("precondition", lpa as f64 / total as f64);
            }
        }
        let mut random = Stream::new(self.seed, "drive bench: precondition");
        for n in 0..pages * rounds {
            let lpa = Lpa(random.below(pages));
            now = self.drive.submit(now, Command::Write { lpa, pages: &[Page::word(n)], what: WHAT })?;
            if n % REPORT_EVERY == 0 {
                progress("precondition", (pages + n) as f64 / total as f64);
            }
        }
        self.drive.settle(now)
    }

    fn clients(&self, sizes: &[u64]) -> Vec<Client<'_>> {
        let mut clients = Vec::new();
        for (job, (spec, &size)) in self.jobs.iter().zip(sizes).enumerate() {
            for n in 0..spec.clients {
                let mut random = Stream::new(self.seed, &format!("drive bench: {} {job} {n}", spec.name));
                let blocks = (size / spec.stride()).max(1);
                let mapped = spec.pattern.random && spec.random_map;
                clients.push(Client {
                    job,
                    spec,
                    map: mapped.then(|| Shuffle::new(blocks, &mut random)),
                    random,
                    blocks,
                    issued: 0,
                    limit: spec.accesses.unwrap_or(match spec.runtime {
                        // Time ends it: the blocks come round again.
                        Some(_) => u64::MAX,
                        None => blocks,
                    }),
                });
            }
        }
        clients
    }

    fn measure(
        &self,
        start: Nanos,
        sizes: &[u64],
        progress: &mut impl FnMut(&str, f64),
    ) -> Result<(Vec<JobResult>, Nanos), DriveError> {
        let mut clients = self.clients(sizes);
        let mut results: Vec<JobResult> = self
            .jobs
            .iter()
            .map(|_| JobResult {
                accesses: 0,
                read_bytes: 0,
                write_bytes: 0,
                time: Nanos::ZERO,
                latency: Histogram::new(),
            })
            .collect();
        let planned: u64 = clients.iter().map(|c| c.limit.min(1 << 40)).sum();
        let mut events: BinaryHeap<Event> = BinaryHeap::new();
        let (mut order, mut done, mut end) = (0, 0u64, start);
        for (i, c) in clients.iter().enumerate() {
            for _ in 0..c.spec.depth {
                events.push(Reverse((start, order, i, Step::Issue)));
                order += 1;
            }
        }
        let mut io = Buffers::default();
        while let Some(Reverse((now, _, i, step))) = events.pop() {
            let c = &mut clients[i];
            if let Step::Done { begun } = step {
                let r = &mut results[c.job];
                r.latency.record(now - begun);
                r.time = now - start;
                end = now;
                done += 1;
                if done % REPORT_EVERY == 0 {
                    let by_time = c.spec.runtime.map_or(0.0, |t| (now - start).0 as f64 / t.0 as f64);
                    progress("run", by_time.max(done as f64 / planned as f64));
                }
            }
            let bs = c.spec.block_size.0;
            let (at, next) = match step {
                Step::Issue | Step::Done { .. } => {
                    let Some((access, at)) = c.next(now - start) else { continue };
                    let r = &mut results[c.job];
                    r.accesses += 1;
                    *if access.writes() { &mut r.write_bytes } else { &mut r.read_bytes } += bs;
                    let done = io.access(self.drive, now, access, at, bs, done)?;
                    let begun = now;
                    match access {
                        Access::Store | Access::Persist => (done, Step::WriteBack { at, begun }),
                        _ => (done, Step::Done { begun }),
                    }
                }
                Step::WriteBack { at, begun } => {
                    let t = self.drive.flush_lines(now, ByteAddr(at), bs as usize)?;
                    let verify = c.spec.pattern.first == Access::Persist;
                    (t, if verify { Step::Verify { begun } } else { Step::Done { begun } })
                }
                Step::Verify { begun } => (self.drive.verify(now)?, Step::Done { begun }),
            };
            events.push(Reverse((at, order, i, next)));
            order += 1;
        }
        Ok((results, end))
    }
}

fn refused(phase: &'static str) -> impl Fn(DriveError) -> LabError {
    move |e| LabError::run("drive", phase, e)
}

/// Working memory of accesses.
#[derive(Default)]
struct Buffers {
    pages: Vec<Page>,
    bytes: Vec<u8>,
}

impl Buffers {
    /// Begins an access at `now`; returns when it completes (a store: when its lines may be written back).
    fn access(
        &mut self,
        drive: &dyn Drive,
        now: Nanos,
        access: Access,
        at: u64,
        len: u64,
        nth: u64,
    ) -> Result<Nanos, DriveError> {
        if access.is_byte() {
            self.bytes.resize(len as usize, 0);
            if access == Access::Load {
                return drive.load(now, ByteAddr(at), &mut self.bytes, WHAT);
            }
            self.bytes.fill(nth as u8 | 1);
            return drive.store(now, ByteAddr(at), &self.bytes, TxId::NONE, WHAT);
        }
        let pages = (len / PAGE) as usize;
        let most = drive.info().max_transfer;
        let mut done = now;
        for from in (0..pages).step_by(most) {
            let n = most.min(pages - from);
            let lpa = Lpa(at / PAGE + from as u64);
            self.pages.clear();
            let command = if access == Access::Read {
                self.pages.resize(n, Page::ZERO);
                Command::Read { lpa, out: &mut self.pages, what: WHAT }
            } else {
                self.pages.extend((0..n as u64).map(|i| Page::word(nth << 8 | i)));
                Command::Write { lpa, pages: &self.pages, what: WHAT }
            };
            done = done.max(drive.submit(now, command)?);
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::Pattern;
    use super::*;
    use granary_mssd::{DriveConfig, Mode, Mssd};
    use granary_units::Bytes;

    fn job(rw: &str, bs: u64, depth: u32, accesses: u64) -> Job {
        let pattern = Pattern::named(rw).expect("known");
        let (block_size, accesses) = (Bytes(bs), Some(accesses));
        Job { name: rw.to_owned(), pattern, block_size, depth, accesses, ..Job::default() }
    }

    fn run_on(config: &DriveConfig, jobs: &[Job], precondition: Precondition) -> Measured {
        let drive = Mssd::new(config).expect("valid");
        let bench = Bench { drive: &drive, jobs, precondition, seed: 1 };
        let measured = bench.run(|_, part| assert!((0.0..=1.01).contains(&part))).expect("runs");
        drive.check().expect("consistent");
        measured
    }

    fn small() -> DriveConfig {
        let mut c = DriveConfig::bytefs_emulator();
        c.flash = c.flash.with_capacity(Bytes::mib(256));
        c
    }

    /// A lone read is the sum of its stages: nothing waits, nothing overlaps.
    #[test]
    fn a_lone_read_takes_exactly_the_sum_of_its_stages() {
        let c = small().with_mode(Mode::Log);
        let m = run_on(&c, &[job("randread", 4096, 1, 1000)], Precondition::Fill);
        let span = |bytes: u64, bandwidth: Bytes| Nanos((bytes * 1_000_000_000).div_ceil(bandwidth.0));
        let (l, n) = (&c.link, &c.link.nvme);
        let stages = n.fetch
            + c.firmware.command_cost
            + c.flash.timing.read
            + c.flash.timing.transfer(4096)
            + span(4096, l.read_bandwidth)
            + n.completion;
        assert_eq!(m.time, stages * 1000);
    }

    #[test]
    fn large_transfers_saturate_the_link() {
        for (rw, bandwidth) in
            [("write", small().link.write_bandwidth), ("read", small().link.read_bandwidth)]
        {
            let m = run_on(&small(), &[job(rw, 1 << 20, 16, 2000)], Precondition::Fill);
            let rate = (2000u64 << 20) as f64 / m.time.as_secs_f64();
            assert!((rate / bandwidth.0 as f64 - 1.0).abs() < 0.03, "{rw}: {rate} B/s");
        }
    }

    #[test]
    fn mixed_jobs_balance_and_repeat() {
        let jobs = [
            Job { read_percent: 70, clients: 3, ..job("randrw", 8192, 4, 500) },
            job("randpersist", 100, 1, 300),
            Job { random_map: false, ..job("randload", 64, 1, 300) },
        ];
        let (a, b) = (
            run_on(&small(), &jobs, Precondition::Random(1)),
            run_on(&small(), &jobs, Precondition::Random(1)),
        );
        assert_eq!(a.jobs[0].accesses, 1500);
        assert_eq!(a.jobs[0].read_bytes + a.jobs[0].write_bytes, 1500 * 8192);
        assert!((0.6..0.8).contains(&(a.jobs[0].read_bytes as f64 / (1500.0 * 8192.0))));
        let (read, written) = (a.run.link.block_read, a.run.link.block_write);
        assert_eq!(read.iter().sum::<u64>(), a.jobs[0].read_bytes);
        assert_eq!(written.iter().sum::<u64>(), a.jobs[0].write_bytes);
        assert_eq!((a.time, a.run, a.drain), (b.time, b.run, b.drain));
    }

    #[test]
    fn a_runtime_ends_a_job_and_its_blocks_come_round_again() {
        let job = Job {
            runtime: Some(Nanos::from_millis(20)),
            size: Some(Bytes::kib(64)),
            accesses: None,
            ..job("randread", 4096, 8, 0)
        };
        let m = run_on(&small(), &[job], Precondition::Fill);
        assert!(m.jobs[0].accesses > 16, "{} accesses of 16 blocks", m.jobs[0].accesses);
        assert!((Nanos::from_millis(20)..Nanos::from_millis(21)).contains(&m.time));
    }

    #[test]
    fn preconditions_are_parsed() {
        assert_eq!(Precondition::parse("random 2"), Ok(Precondition::Random(2)));
        assert_eq!(Precondition::parse("random:3"), Ok(Precondition::Random(3)));
        assert_eq!(Precondition::parse("fill"), Ok(Precondition::Fill));
        assert!(Precondition::parse("random").is_err() && Precondition::parse("random:0").is_err());
    }
}
