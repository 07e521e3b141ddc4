//! [`Bench`]: runs jobs on a drive in virtual time.
//!
//! ```text
//!   (warm up) ──> run: each client keeps `iodepth` accesses in flight ──> drain (settle)
//!                  event (instant, slot) ──> access ──> next event at its completion
//! ```
//!
//! A closed loop: an access that completes is followed by the next one at that instant. Block accesses larger than the
//! drive's largest command go out as several commands at once and complete with the last. A store is three steps (store,
//! write-back, verify), each at its own instant, because calls to a drive come in time order. A write-back at the instant of
//! its store follows it at once: each client is a CPU with write-combining buffers of its own, and its stores do not mix with
//! what others store then.
//!
//! Equal seeds give equal results.

use super::job::{Access, Job};
use super::shuffle::Shuffle;
use super::trace::Phase;
use crate::error::LabError;
use granary_mssd::{Command, Drive, DriveCounters, DriveError, Structure};
use granary_sim::Histogram;
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

const WHAT: Structure = Structure::Data;
const PAGE: u64 = PAGE_SIZE as u64;
/// Calls between two reports of progress.
const REPORT_EVERY: u64 = 1 << 14;

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
    /// Of a job that reads and writes: its reads alone and its writes alone.
    pub split: Option<Box<[JobResult; 2]>>,
}

impl JobResult {
    /// Nothing done yet.
    pub fn new() -> JobResult {
        let (time, latency) = (Nanos::ZERO, Histogram::new());
        JobResult { accesses: 0, read_bytes: 0, write_bytes: 0, time, latency, split: None }
    }

    /// Of this job.
    fn of(job: &Job) -> JobResult {
        let split = job.pattern.is_mixed().then(Box::<[JobResult; 2]>::default);
        JobResult { split, ..JobResult::new() }
    }

    /// An access of `bytes` that was begun at `begun`, counted from the start of the run as the others, has come to its end.
    #[inline]
    fn done(&mut self, writes: bool, bytes: u64, begun: Nanos, now: Nanos, start: Nanos) {
        self.accesses += 1;
        *if writes { &mut self.write_bytes } else { &mut self.read_bytes } += bytes;
        self.latency.record(now - begun);
        self.time = now - start;
        if let Some(split) = &mut self.split {
            split[usize::from(writes)].done(writes, bytes, begun, now, start);
        }
    }
}

impl Default for JobResult {
    fn default() -> JobResult {
        JobResult::new()
    }
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
    /// The present instant.
    pub start: Nanos,
    /// Every line that byte jobs touch is stored before the run, so that log or cache hold it as far as they can.
    pub warm: bool,
    /// Root seed.
    pub seed: u64,
    /// Told when the measured run begins and when it ends.
    pub mark: &'a dyn Fn(Nanos, Phase),
}

/// Where an access is. A store is three calls.
#[derive(Clone, Copy)]
enum Step {
    /// Nothing is under way.
    Idle,
    /// Stored, to be written back.
    WriteBack,
    /// Written back, to be verified.
    Verify,
    /// Completes.
    Done,
}

/// An access that a client has under way.
#[derive(Clone, Copy)]
struct Slot {
    client: u32,
    step: Step,
    at: u64,
    begun: Nanos,
    writes: bool,
}

/// Bits of an event that name the slot; those above count the events, so that equal instants are first come, first
/// served.
const SLOT_BITS: u32 = 24;

/// When which slot goes on: one number, so that a comparison is no branch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event(u128);

impl Event {
    fn new(at: Nanos, order: u64, slot: u64) -> Event {
        Event((at.0 as u128) << 64 | (order << SLOT_BITS | slot) as u128)
    }

    fn at(self) -> Nanos {
        Nanos((self.0 >> 64) as u64)
    }

    fn slot(self) -> u64 {
        self.0 as u64 & ((1 << SLOT_BITS) - 1)
    }
}

/// Accesses under way in all.
const MOST_SLOTS: u64 = 1 << 20;

struct Client<'a> {
    job: usize,
    spec: &'a Job,
    random: Stream,
    /// The order of this pass over the blocks, where each is visited once in random order.
    map: Option<Shuffle>,
    blocks: u64,
    stride: u64,
    /// Next block in order; `blocks` where the pass is over.
    nth: u64,
    /// Accesses not yet drawn.
    left: u64,
    end: Nanos,
    /// Accesses drawn ahead, the next one last.
    ahead: Vec<(Access, u64)>,
}

/// Accesses drawn together, so that the drive can look ahead.
const AHEAD: usize = 32;

impl Client<'_> {
    /// The next access, unless the client has done its part.
    #[inline]
    fn next(&mut self, now: Nanos, io: &mut Buffers<'_>) -> Option<(Access, u64)> {
        if now >= self.end {
            return None;
        }
        if self.ahead.is_empty() {
            self.draw(io);
        }
        self.ahead.pop()
    }

    fn draw(&mut self, io: &mut Buffers<'_>) {
        let p = self.spec.pattern;
        for _ in 0..self.left.min(AHEAD as u64) {
            if self.nth == self.blocks {
                self.nth = 0;
                // As in fio, whose map of visited blocks is emptied while its generator goes on: were each pass in the order of
                // the last, gc would find whole blocks stale and an LRU cache nothing.
                if let Some(map) = &mut self.map {
                    *map = Shuffle::new(self.blocks, &mut self.random);
                }
            }
            let nth = self.nth;
            self.nth += 1;
            let block = match &self.map {
                Some(map) => map.at(nth),
                None if p.random => self.random.below(self.blocks),
                None => nth,
            };
            let first = p.first == p.second || self.random.below(100) < self.spec.read_percent as u64;
            self.ahead
                .push((if first { p.first } else { p.second }, self.spec.offset.0 + block * self.stride));
        }
        self.left -= self.ahead.len() as u64;
        self.ahead.reverse();
        if p.random {
            io.look_ahead(&self.ahead);
        }
    }
}

impl<'a> Bench<'a> {
    /// These jobs, on a drive to which nothing has been done, with seed 1.
    pub fn of(drive: &'a dyn Drive, jobs: &'a [Job]) -> Bench<'a> {
        Bench { drive, jobs, start: Nanos::ZERO, warm: false, seed: 1, mark: &|_, _| {} }
    }

    /// Runs everything. `progress` is told the phase and how much of it is done, 0 to 1.
    ///
    /// # Errors
    /// A job that does not fit the drive, drive errors.
    pub fn run(&self, mut progress: impl FnMut(&str, f64)) -> Result<Measured, LabError> {
        let capacity = self.drive.info().pages * PAGE;
        let sizes: Vec<u64> = self.jobs.iter().map(|j| j.check(capacity)).collect::<Result<_, _>>()?;
        let slots: u64 = self.jobs.iter().map(|j| j.depth as u64 * j.clients as u64).sum();
        if slots > MOST_SLOTS {
            return Err(LabError::Usage(format!(
                "{slots} accesses under way at once (iodepth x numjobs of all jobs): at most {MOST_SLOTS}"
            )));
        }
        let mut start = self.start;
        if self.warm {
            start = self.warm_up(&sizes, &mut progress).map_err(refused("warm"))?;
        }
        let before = self.drive.counters_at(start);
        (self.mark)(start, Phase::Run);
        let (jobs, end) = self.measure(start, &sizes, &mut progress).map_err(refused("run"))?;
        (self.mark)(end, Phase::Drain);
        let after = self.drive.counters_at(end);
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

    /// Stores every line of the byte jobs' parts.
    fn warm_up(&self, sizes: &[u64], progress: &mut impl FnMut(&str, f64)) -> Result<Nanos, DriveError> {
        let (mut now, line) = (self.start, [1; LINE_SIZE]);
        for (job, size) in self.jobs.iter().zip(sizes).filter(|(j, _)| j.pattern.first.is_byte()) {
            let first = job.offset.0 / LINE_SIZE as u64 * LINE_SIZE as u64;
            let end = job.offset.0 + size;
            for (n, at) in (first..end).step_by(LINE_SIZE).enumerate() {
                let len = LINE_SIZE.min((end - at) as usize);
                now = self.drive.store(now, ByteAddr(at), &line[..len], TxId::NONE, WHAT)?;
                now = self.drive.flush_lines(now, ByteAddr(at), len)?;
                if (n as u64).is_multiple_of(REPORT_EVERY) {
                    progress("warm", (at - first) as f64 / *size as f64);
                }
            }
            now = self.drive.verify(now)?;
        }
        Ok(now)
    }

    fn clients(&self, sizes: &[u64], start: Nanos) -> Vec<Client<'_>> {
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
                    stride: spec.stride(),
                    nth: 0,
                    left: spec.accesses.unwrap_or(if spec.time_based { u64::MAX } else { blocks }),
                    end: spec.runtime.map_or(Nanos::MAX, |t| start + t),
                    ahead: Vec::with_capacity(AHEAD),
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
        let mut clients = self.clients(sizes, start);
        let mut results: Vec<JobResult> = self.jobs.iter().map(JobResult::of).collect();
        let planned: u64 = clients.iter().map(|c| c.left.min(1 << 40)).sum();
        let mut slots = Vec::new();
        // The earliest on top.
        let mut events: BinaryHeap<Reverse<Event>> = BinaryHeap::new();
        for (client, c) in clients.iter().enumerate() {
            for _ in 0..c.spec.depth {
                let n = slots.len() as u64;
                events.push(Reverse(Event::new(start, n, n)));
                let (client, step) = (client as u32, Step::Idle);
                slots.push(Slot { client, step, at: 0, begun: start, writes: false });
            }
        }
        let (mut order, mut done, mut end) = (slots.len() as u64, 0u64, start);
        let mut io = Buffers::new(self.drive);
        while let Some(mut top) = events.peek_mut() {
            let (now, number) = (top.0.at(), top.0.slot());
            let slot = &mut slots[number as usize];
            let c = &mut clients[slot.client as usize];
            let bs = c.spec.block_size.0;
            let next = match slot.step {
                Step::Idle | Step::Done => {
                    if matches!(slot.step, Step::Done) {
                        results[c.job].done(slot.writes, bs, slot.begun, now, start);
                        end = now;
                        done += 1;
                        if done.is_multiple_of(REPORT_EVERY) {
                            let by_time = c.spec.runtime.map_or(0.0, |t| (now - start).0 as f64 / t.0 as f64);
                            progress("run", by_time.max(done as f64 / planned as f64));
                        }
                    }
                    let Some((access, at)) = c.next(now, &mut io) else {
                        PeekMut::pop(top);
                        continue;
                    };
                    (slot.at, slot.begun, slot.writes) = (at, now, access.writes());
                    slot.step = match access {
                        Access::Store | Access::Persist => Step::WriteBack,
                        _ => Step::Done,
                    };
                    let then = io.access(now, access, at, bs, done)?;
                    match slot.step {
                        Step::WriteBack if then == now => self.write_back(now, slot, c.spec)?,
                        _ => then,
                    }
                }
                Step::WriteBack => self.write_back(now, slot, c.spec)?,
                Step::Verify => {
                    slot.step = Step::Done;
                    self.drive.verify(now)?
                }
            };
            *top = Reverse(Event::new(next, order, number));
            order += 1;
        }
        Ok((results, end))
    }
}

impl Bench<'_> {
    /// Writes the lines of a slot's store back at `now`; returns when the CPU can go on.
    fn write_back(&self, now: Nanos, slot: &mut Slot, job: &Job) -> Result<Nanos, DriveError> {
        slot.step = match job.pattern.first {
            Access::Persist => Step::Verify,
            _ => Step::Done,
        };
        self.drive.flush_lines(now, ByteAddr(slot.at), job.block_size.0 as usize)
    }
}

fn refused(phase: &'static str) -> impl Fn(DriveError) -> LabError {
    move |e| LabError::run("drive", phase, e)
}

/// The drive, and working memory of accesses.
struct Buffers<'a> {
    drive: &'a dyn Drive,
    /// Pages of the largest command.
    most: usize,
    pages: Vec<Page>,
    bytes: Vec<u8>,
    lpas: Vec<Lpa>,
    places: Vec<ByteAddr>,
}

impl Buffers<'_> {
    fn new(drive: &dyn Drive) -> Buffers<'_> {
        let most = drive.info().max_transfer;
        Buffers { drive, most, pages: Vec::new(), bytes: Vec::new(), lpas: Vec::new(), places: Vec::new() }
    }

    fn look_ahead(&mut self, accesses: &[(Access, u64)]) {
        // The accesses of a job are all of bytes or all of blocks.
        if accesses.first().is_some_and(|(access, _)| access.is_byte()) {
            self.places.clear();
            self.places.extend(accesses.iter().rev().map(|(_, at)| ByteAddr(*at)));
            self.drive.look_ahead_lines(&self.places);
        } else {
            self.lpas.clear();
            self.lpas.extend(accesses.iter().map(|(_, at)| ByteAddr(*at).lpa()));
            self.drive.look_ahead(&self.lpas);
        }
    }

    /// Begins an access at `now`; returns when it completes (a store: when its lines may be written back).
    #[inline]
    fn access(
        &mut self,
        now: Nanos,
        access: Access,
        at: u64,
        len: u64,
        nth: u64,
    ) -> Result<Nanos, DriveError> {
        if access.is_byte() {
            self.bytes.resize(len as usize, 0);
            if access == Access::Load {
                return self.drive.load(now, ByteAddr(at), &mut self.bytes, WHAT);
            }
            self.bytes.fill(nth as u8 | 1);
            return self.drive.store(now, ByteAddr(at), &self.bytes, TxId::NONE, WHAT);
        }
        let (pages, lpa) = ((len / PAGE) as usize, at / PAGE);
        let (mut from, mut done) = (0, now);
        while from < pages {
            let n = self.most.min(pages - from);
            let lpa = Lpa(lpa + from as u64);
            self.pages.clear();
            let command = if access == Access::Read {
                self.pages.resize(n, Page::ZERO);
                Command::Read { lpa, out: &mut self.pages, what: WHAT }
            } else {
                self.pages.extend((0..n as u64).map(|i| Page::word(nth << 8 | i)));
                Command::Write { lpa, pages: &self.pages, what: WHAT }
            };
            done = done.max(self.drive.submit(now, command)?);
            from += n;
        }
        Ok(done)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::job::Pattern;
    use super::super::precondition::Precondition;
    use super::*;
    use granary_mssd::{DriveConfig, Mode, Mssd};
    use granary_units::Bytes;

    pub(in crate::drive) fn job(rw: &str, bs: u64, depth: u32, accesses: u64) -> Job {
        let pattern = Pattern::named(rw).expect("known");
        let (block_size, accesses) = (Bytes(bs), Some(accesses));
        Job { name: rw.to_owned(), pattern, block_size, depth, accesses, ..Job::default() }
    }

    fn run_on(config: &DriveConfig, jobs: &[Job], precondition: Precondition) -> Measured {
        let drive = Mssd::new(config).expect("valid");
        precondition.apply(&drive, 1, |part| assert!((0.0..=1.0).contains(&part))).expect("fills");
        let measured =
            Bench::of(&drive, jobs).run(|_, part| assert!((0.0..=1.01).contains(&part))).expect("runs");
        drive.check().expect("consistent");
        measured
    }

    pub(in crate::drive) fn small() -> DriveConfig {
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

    /// Clients that begin together store to the same lines at one instant: each posts its own.
    #[test]
    fn the_bytes_that_clients_store_are_those_that_the_drive_gets() {
        for (rw, bs, clients) in
            [("persist", 64, 3), ("store", 64, 8), ("persist", 1024, 3), ("store", 4096, 2)]
        {
            let jobs = [Job { clients, ..job(rw, bs, 1, 1000) }, job("randstore", 128, 1, 1000)];
            let m = run_on(&small(), &jobs, Precondition::None);
            let written: u64 = m.jobs.iter().map(|j| j.write_bytes).sum();
            assert_eq!(m.jobs[0].write_bytes, clients as u64 * 1000 * bs);
            assert_eq!(m.run.link.byte_write.iter().sum::<u64>(), written, "{rw} {bs}");
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
        let [reads, writes] = &**a.jobs[0].split.as_ref().expect("it reads and writes");
        assert_eq!((reads.read_bytes, reads.write_bytes), (a.jobs[0].read_bytes, 0));
        assert_eq!((writes.read_bytes, writes.write_bytes), (0, a.jobs[0].write_bytes));
        assert_eq!(reads.latency.count() + writes.latency.count(), a.jobs[0].latency.count());
        assert!(
            reads.latency.mean().0 > 2 * writes.latency.mean().0,
            "reads wait for flash, writes for the buffer"
        );
        assert!(a.jobs[1].split.is_none());
        let (read, written) = (a.run.link.block_read, a.run.link.block_write);
        assert_eq!(read.iter().sum::<u64>(), a.jobs[0].read_bytes);
        assert_eq!(written.iter().sum::<u64>(), a.jobs[0].write_bytes);
        assert_eq!((a.time, a.run, a.drain), (b.time, b.run, b.drain));
    }

    /// What a client of `job` accesses in as many passes over its blocks as this.
    fn passes(job: Job, passes: usize) -> Vec<Vec<u64>> {
        let drive = Mssd::without_data(&small()).expect("valid");
        let jobs = [job];
        let bench = Bench::of(&drive, &jobs);
        let mut clients = bench.clients(&[jobs[0].size.expect("given").0], Nanos::ZERO);
        let (c, mut io) = (&mut clients[0], Buffers::new(&drive));
        let blocks = c.blocks as usize;
        (0..passes)
            .map(|_| (0..blocks).map(|_| c.next(Nanos::ZERO, &mut io).expect("more").1).collect())
            .collect()
    }

    #[test]
    fn each_pass_visits_every_block_once_in_an_order_of_its_own() {
        let of = || Job { size: Some(Bytes(1000 * 4096)), ..job("randwrite", 4096, 1, 4000) };
        let orders = passes(of(), 4);
        for (n, order) in orders.iter().enumerate() {
            assert!(!orders[..n].contains(order), "pass {n} repeats an earlier one");
            let mut seen = order.clone();
            seen.sort_unstable();
            assert_eq!(seen, (0..1000).map(|block| block * 4096).collect::<Vec<_>>());
        }
        assert_eq!(orders, passes(of(), 4), "equal seeds, equal orders");
        let in_order = passes(Job { size: Some(Bytes(100 * 4096)), ..job("write", 4096, 1, 300) }, 3);
        assert_eq!(in_order[2], (0..100).map(|block| block * 4096).collect::<Vec<_>>());
    }

    /// Passes in one order would leave whole blocks stale behind them, so that gc would have nothing to copy.
    #[test]
    fn gc_works_as_hard_under_passes_as_under_independent_draws() {
        // So little spare that gc copies several pages for each that is written.
        let mut config = DriveConfig::bytefs_emulator();
        let g = &mut config.flash.geometry;
        (g.channels, g.ways, g.blocks_per_plane) = (2, 2, 64);
        let accesses = 10 * config.flash.capacity_pages();
        let waf = |random_map| {
            let drive = Mssd::without_data(&config).expect("valid");
            Precondition::Random(2).apply(&drive, 1, |_| {}).expect("fills");
            let jobs = [Job { random_map, ..job("randwrite", 4096, 32, accesses) }];
            Bench::of(&drive, &jobs).run(|_, _| {}).expect("runs").run.flash.waf()
        };
        // Near, not equal: that each block is written once in a pass evens out how old data is (0.74; passes in one order: 0.26).
        let (passes, independent) = (waf(true), waf(false));
        assert!((0.6..1.0).contains(&(passes / independent)), "WAF {passes} beside {independent}");
    }

    #[test]
    fn a_runtime_ends_a_job_whose_blocks_come_round_again_only_where_it_goes_by_time() {
        let of = |time_based, size| {
            let (size, runtime) = (Some(size), Some(Nanos::from_millis(20)));
            let job = Job { runtime, time_based, size, accesses: None, ..job("randread", 4096, 8, 0) };
            let m = run_on(&small(), &[job], Precondition::Fill);
            (m.jobs[0].accesses, m.time)
        };
        let about = Nanos::from_millis(20)..Nanos::from_millis(21);
        let (round, time) = of(true, Bytes::kib(64));
        assert!(round > 16 && about.contains(&time), "{round} accesses of 16 blocks in {time}");
        let (once, time) = of(false, Bytes::kib(64));
        assert!(once == 16 && time < Nanos::from_millis(1), "{once} accesses in {time}");
        let (cut, time) = of(false, Bytes::mib(200));
        assert!(cut < 200 << 8 && about.contains(&time), "{cut} accesses in {time}");
    }

    /// Loads of lines that were stored before come from the drive's DRAM.
    #[test]
    fn warm_loads_do_not_touch_the_flash() {
        for mode in [Mode::Log, Mode::Cache] {
            let config = small().with_mode(mode);
            let drive = Mssd::new(&config).expect("valid");
            Precondition::Fill.apply(&drive, 1, |_| {}).expect("fills");
            let jobs = [Job { size: Some(Bytes::mib(1)), ..job("randload", 64, 1, 5000) }];
            let m = Bench { warm: true, ..Bench::of(&drive, &jobs) }.run(|_, _| {}).expect("runs");
            assert_eq!(m.time, config.link.line_read * 5000, "{mode:?}");
            assert_eq!(m.run.flash.total_reads(), 0);
        }
    }

    /// Reads and writes saturate at the slowest of link, channels and planes.
    #[test]
    fn bandwidth_is_that_of_the_slowest_stage() {
        let limited = |change: fn(&mut DriveConfig)| {
            let mut c = small().with_mode(Mode::Log);
            change(&mut c);
            c.flash = c.flash.with_capacity(Bytes::mib(256));
            c
        };
        let channels = limited(|c| c.flash.timing.channel_bandwidth = Bytes(100_000_000));
        let planes = limited(|c| {
            (c.flash.geometry.ways, c.flash.timing.read, c.flash.timing.program) =
                (1, Nanos(80_000), Nanos(400_000))
        });
        let page = 4096.0 * 1e9;
        for (what, config, read, write) in [
            ("channels", &channels, 8.0 * 1e8, 8.0 * 1e8),
            ("planes", &planes, 8.0 * page / 80_000.0, 8.0 * page / 400_000.0),
        ] {
            for (rw, bandwidth) in [("read", read), ("write", write)] {
                let held = if rw == "read" { Precondition::Fill } else { Precondition::None };
                let m = run_on(config, &[job(rw, 64 << 10, 64, 4000)], held);
                let rate = (4000u64 << 16) as f64
                    / (m.time + if rw == "write" { m.drain_time } else { Nanos::ZERO }).as_secs_f64();
                assert!((rate / bandwidth - 1.0).abs() < 0.03, "{what}, {rw}: {rate} B/s of {bandwidth}");
            }
        }
    }

    /// Buffered programs and gc are reserved far beyond the end of a short run; they are not work of the run.
    #[test]
    fn nothing_is_busier_than_the_run_is_long() {
        let mut gc = small();
        gc.flash = gc.flash.with_capacity(Bytes::mib(64));
        let mut slow = small();
        slow.flash.timing.program = Nanos(50_000_000);
        for (config, held, accesses) in [
            (&gc, Precondition::Random(1), 100),
            (&gc, Precondition::Random(1), 5_000),
            (&slow, Precondition::None, 300),
        ] {
            let m = run_on(config, &[job("randwrite", 4096, 32, accesses)], held);
            let g = &config.flash.geometry;
            let share = |busy: Nanos, units: u64| busy.0 as f64 / (m.time.0 * units) as f64;
            let b = m.run.busy;
            let (planes, channels) = (g.plane_count() as u64, g.channels as u64);
            for part in [share(b.planes, planes), share(b.channels, channels), share(b.link_to_drive, 1)] {
                assert!(part <= 1.0, "{accesses} accesses: {part}");
            }
            let all = m.run.busy.planes + m.drain.busy.planes;
            let least = config.flash.timing.program.0 * accesses;
            assert!(all.0 >= least, "run and drain hold all programs: {all:?} of {least}");
        }
    }

    #[test]
    fn too_much_under_way_is_refused() {
        let drive = Mssd::new(&small()).expect("valid");
        let jobs = [Job { clients: 1 << 12, ..job("randread", 4096, 1 << 12, 1) }];
        let said = Bench::of(&drive, &jobs).run(|_, _| {}).expect_err("too many").to_string();
        assert!(said.contains("iodepth x numjobs"), "{said}");
    }
}
