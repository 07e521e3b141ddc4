//! [`Bench`]: runs jobs on a drive in virtual time.
//!
//! ```text
//!   (warm up) ──> run: each client keeps `iodepth` accesses in flight ──> drain (settle)
//!                  event (instant, slot) ──> access ──> next event at its completion
//!   stonewall     jobs ──> all of them end ──> the jobs from there on ──> ...
//! ```
//!
//! A closed loop: an access that completes is followed by the next one at that instant, unless a rate, a
//! pause or a flush holds it back (client.rs). Block accesses larger than the drive's largest command go out
//! as several commands at once and complete with the last. A store is three steps (store, write-back,
//! verify), each at its own instant, because calls to a drive come in time order. A write-back at the instant
//! of its store follows it at once: each client is a CPU with write-combining buffers of its own, and its
//! stores do not mix with what others store then.
//!
//! A job's lead-in (`ramp_time`) is run and not counted; the run begins where the first job's is over.
//!
//! Equal seeds give equal results.

mod io;
mod result;

pub use result::JobResult;

use crate::error::BenchError;
use crate::job::{Access, Job, Part, check_all};
use granary_device::{Command, Drive, DriveCounters, DriveError, Structure};
use granary_sim::rng::Stream;
use granary_trace::drive::Phase;
use granary_trace::fio::{Client, Drawn, Next};
use granary_units::{ByteAddr, LINE_SIZE, Nanos, PAGE_SIZE, TxId};
use io::Buffers;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

const WHAT: Structure = Structure::Data;
const PAGE: u64 = PAGE_SIZE as u64;
/// Calls between two reports of progress.
const REPORT_EVERY: u64 = 1 << 14;
/// Accesses between two looks at whether to stop.
const STOP_EVERY: u64 = 1 << 10;

/// Results of a bench.
#[derive(Clone, Debug)]
pub struct Measured {
    /// By job.
    pub jobs: Vec<JobResult>,
    /// The part of the drive that each touched.
    pub parts: Vec<Part>,
    /// Length of the run.
    pub time: Nanos,
    /// Counters of the drive in the run.
    pub run: DriveCounters,
    /// In the drain after it.
    pub drain: DriveCounters,
    /// Length of the drain.
    pub drain_time: Nanos,
    /// It was stopped before its end.
    pub cut: bool,
}

/// Jobs to run: at the same time, but for those with a stonewall.
pub struct Bench<'a> {
    /// The drive, idle.
    pub drive: &'a dyn Drive,
    /// The jobs.
    pub jobs: &'a [Job],
    /// The present instant.
    pub start: Nanos,
    /// Every line that byte jobs touch is stored before the run, so that log or cache hold it as far as they
    /// can.
    pub warm: bool,
    /// Root seed.
    pub seed: u64,
    /// Told when the measured run begins and when it ends.
    pub mark: &'a dyn Fn(Nanos, Phase),
    /// Asked now and then whether to end here.
    pub stop: &'a dyn Fn() -> bool,
}

/// Where an access is. A store is three calls.
#[derive(Clone, Copy)]
enum Step {
    /// Nothing is under way.
    Idle,
    /// To be issued now.
    Due,
    /// Stored, to be written back.
    WriteBack,
    /// Written back, to be verified.
    Verify,
    /// Completes.
    Done,
    /// A flush completes.
    Flushed,
}

/// An access that a client has under way.
#[derive(Clone, Copy)]
struct Slot {
    client: u32,
    step: Step,
    begun: Nanos,
    drawn: Drawn,
}

/// Bits of an event that name the slot; those above count the events, so that equal instants are first come,
/// first served.
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

/// The state of a run.
struct Run<'a, 'b> {
    io: Buffers<'a>,
    results: Vec<JobResult>,
    /// When each job began to be counted.
    begins: Vec<Nanos>,
    done: u64,
    /// Completion of the last access.
    end: Nanos,
    /// The instant from which on the run counts, and the counters then.
    begin: Nanos,
    before: Option<DriveCounters>,
    cut: bool,
    progress: &'b mut dyn FnMut(&str, f64),
}

impl<'a> Bench<'a> {
    /// These jobs, on a drive to which nothing has been done, with seed 1.
    pub fn of(drive: &'a dyn Drive, jobs: &'a [Job]) -> Bench<'a> {
        Bench { drive, jobs, start: Nanos::ZERO, warm: false, seed: 1, mark: &|_, _| {}, stop: &|| false }
    }

    /// Runs everything. `progress` is told the phase and how much of it is done, 0 to 1.
    ///
    /// # Errors
    /// A job that does not fit the drive, drive errors.
    pub fn run(&self, mut progress: impl FnMut(&str, f64)) -> Result<Measured, BenchError> {
        let parts = check_all(self.jobs, self.drive.info().pages * PAGE)?;
        let slots: u64 = self.jobs.iter().map(|j| u64::from(j.in_flight()) * u64::from(j.clients)).sum();
        if slots > MOST_SLOTS {
            return Err(BenchError::Usage(format!(
                "{slots} accesses under way at once (iodepth x numjobs of all jobs): at most {MOST_SLOTS}"
            )));
        }
        let mut start = self.start;
        if self.warm {
            start = self.warm_up(&parts, &mut progress).map_err(refused("warm"))?;
        }
        let mut run = Run {
            io: Buffers::new(self.drive),
            results: self.jobs.iter().map(JobResult::of).collect(),
            begins: vec![Nanos::MAX; self.jobs.len()],
            done: 0,
            end: start,
            begin: start,
            before: None,
            cut: false,
            progress: &mut progress,
        };
        for (n, jobs) in self.phases().into_iter().enumerate() {
            if !run.cut {
                self.phase(&mut run, jobs, &parts, n == 0).map_err(refused("run"))?;
            }
        }
        self.opened(&mut run, Nanos::MAX);
        let before = run.before.take().expect("the run has begun");
        let (begin, end) = (run.begin, run.end.max(run.begin));
        for (result, job_begin) in run.results.iter_mut().zip(&run.begins) {
            result.begin =
                if *job_begin == Nanos::MAX { Nanos::ZERO } else { job_begin.saturating_sub(begin) };
        }
        (self.mark)(end, Phase::Drain);
        let after = self.drive.counters_at(end);
        let drained = self.drive.settle(end).map_err(refused("drain"))?;
        let last = self.drive.counters();
        Ok(Measured {
            jobs: run.results,
            parts,
            time: end - begin,
            run: after.since(&before),
            drain: last.since(&after),
            drain_time: drained - end,
            cut: run.cut,
        })
    }

    /// The jobs that run together, in turn.
    fn phases(&self) -> Vec<Range<usize>> {
        let walls = (1..self.jobs.len()).filter(|&n| self.jobs[n].stonewall);
        let begins: Vec<usize> = [0].into_iter().chain(walls).collect();
        let ends = begins.iter().skip(1).copied().chain([self.jobs.len()]);
        begins.iter().copied().zip(ends).map(|(begin, end)| begin..end).collect()
    }

    /// Stores every line of the byte jobs' parts.
    fn warm_up(&self, parts: &[Part], progress: &mut impl FnMut(&str, f64)) -> Result<Nanos, DriveError> {
        let (mut now, line) = (self.start, [1; LINE_SIZE]);
        for (job, part) in self.jobs.iter().zip(parts).filter(|(j, _)| j.pattern.first.is_byte()) {
            let first = part.offset / LINE_SIZE as u64 * LINE_SIZE as u64;
            let end = part.offset + part.increment * u64::from(job.clients - 1) + part.size;
            for (n, at) in (first..end).step_by(LINE_SIZE).enumerate() {
                let len = LINE_SIZE.min((end - at) as usize);
                now = self.drive.store(now, ByteAddr(at), &line[..len], TxId::NONE, WHAT)?;
                now = self.drive.flush_lines(now, ByteAddr(at), len)?;
                if (n as u64).is_multiple_of(REPORT_EVERY) {
                    progress("warm", (at - first) as f64 / (end - first) as f64);
                }
            }
            now = self.drive.verify(now)?;
        }
        Ok(now)
    }

    fn clients(&self, jobs: Range<usize>, parts: &[Part], start: Nanos) -> Vec<Client<&Job>> {
        let mut clients = Vec::new();
        for job in jobs {
            let spec = &self.jobs[job];
            for n in 0..spec.clients {
                let random = Stream::new(self.seed, &format!("drive bench: {} {job} {n}", spec.name));
                clients.push(Client::new((job, spec), parts[job], n, start, random));
            }
        }
        clients
    }

    /// The run counts from `run.begin` on; notes it when `now` is not before it.
    #[inline]
    fn opened(&self, run: &mut Run<'_, '_>, now: Nanos) {
        if run.before.is_none() && now >= run.begin {
            run.before = Some(self.drive.counters_at(run.begin));
            (self.mark)(run.begin, Phase::Run);
        }
    }

    /// Runs these jobs from the end of those before them on.
    fn phase(
        &self,
        run: &mut Run<'_, '_>,
        jobs: Range<usize>,
        parts: &[Part],
        is_first: bool,
    ) -> Result<(), DriveError> {
        let mut clients = self.clients(jobs, parts, run.end);
        for c in &clients {
            run.begins[c.job] = run.begins[c.job].min(c.counted);
        }
        if is_first {
            run.begin = clients.iter().map(|c| c.counted).min().unwrap_or(run.end);
        }
        let planned: u64 = run.done + clients.iter().map(|c| c.left.min(1 << 40)).sum::<u64>();
        let mut slots = Vec::new();
        // The earliest on top.
        let mut events: BinaryHeap<Reverse<Event>> = BinaryHeap::new();
        for (client, c) in clients.iter().enumerate() {
            for _ in 0..c.spec.in_flight() {
                let n = slots.len() as u64;
                events.push(Reverse(Event::new(c.begin, n, n)));
                let drawn = Drawn { access: Access::Read, at: 0, len: 0 };
                slots.push(Slot { client: client as u32, step: Step::Idle, begun: c.begin, drawn });
            }
        }
        let mut order = slots.len() as u64;
        let mut woken = Vec::<(Nanos, u64)>::new();
        loop {
            for (at, slot) in woken.drain(..) {
                events.push(Reverse(Event::new(at, order, slot)));
                order += 1;
            }
            let Some(mut top) = events.peek_mut() else { return Ok(()) };
            let (now, number) = (top.0.at(), top.0.slot());
            self.opened(run, now);
            let slot = &mut slots[number as usize];
            let c = &mut clients[slot.client as usize];
            let next = match slot.step {
                Step::Due => self.issue(run, slot, now)?,
                Step::WriteBack => self.write_back(now, slot)?,
                Step::Verify => {
                    slot.step = Step::Done;
                    self.drive.verify(now)?
                }
                Step::Idle | Step::Done | Step::Flushed => {
                    match slot.step {
                        Step::Done => {
                            if now > c.counted || c.counted == c.begin {
                                let Drawn { access, len, .. } = slot.drawn;
                                run.results[c.job].done(access, len, slot.begun, now, run.begins[c.job]);
                            }
                            run.end = now;
                            run.done += 1;
                            c.done(now, &mut woken);
                            if run.done.is_multiple_of(STOP_EVERY) && (self.stop)() {
                                run.cut = true;
                                return Ok(());
                            }
                            if run.done.is_multiple_of(REPORT_EVERY) {
                                let by_time = c
                                    .spec
                                    .runtime
                                    .map_or(0.0, |t| now.saturating_sub(c.counted).0 as f64 / t.0 as f64);
                                (run.progress)("run", by_time.max(run.done as f64 / planned as f64).min(1.0));
                            }
                        }
                        Step::Flushed => {
                            if now > c.counted || c.counted == c.begin {
                                run.results[c.job].flushed(slot.begun, now, run.begins[c.job]);
                            }
                            run.end = now;
                            c.flushed(now, &mut woken);
                        }
                        _ => {}
                    }
                    slot.step = Step::Idle;
                    match c.next(now, |ahead| run.io.look_ahead(ahead)) {
                        Next::Access(drawn) => {
                            slot.drawn = drawn;
                            self.issue(run, slot, now)?
                        }
                        Next::Due(drawn, at) => {
                            (slot.drawn, slot.step) = (drawn, Step::Due);
                            at
                        }
                        Next::Flush => {
                            (slot.begun, slot.step) = (now, Step::Flushed);
                            self.drive.submit(now, Command::Flush)?
                        }
                        Next::At(at) => at,
                        Next::Park => {
                            c.park(number);
                            PeekMut::pop(top);
                            continue;
                        }
                        Next::End => {
                            PeekMut::pop(top);
                            continue;
                        }
                    }
                }
            };
            *top = Reverse(Event::new(next, order, number));
            order += 1;
        }
    }

    /// Issues a slot's access; returns when the slot goes on.
    #[inline]
    fn issue(&self, run: &mut Run<'_, '_>, slot: &mut Slot, now: Nanos) -> Result<Nanos, DriveError> {
        slot.begun = now;
        slot.step = match slot.drawn.access {
            Access::Store | Access::Persist => Step::WriteBack,
            _ => Step::Done,
        };
        let then = run.io.access(now, slot.client, slot.drawn, run.done)?;
        match slot.step {
            Step::WriteBack if then == now => self.write_back(now, slot),
            _ => Ok(then),
        }
    }

    /// Writes the lines of a slot's store back at `now`; returns when the CPU can go on.
    fn write_back(&self, now: Nanos, slot: &mut Slot) -> Result<Nanos, DriveError> {
        slot.step = match slot.drawn.access {
            Access::Persist => Step::Verify,
            _ => Step::Done,
        };
        self.drive.flush_lines(now, ByteAddr(slot.drawn.at), slot.drawn.len as usize)
    }
}

fn refused(phase: &'static str) -> impl Fn(DriveError) -> BenchError {
    move |e| BenchError::run("drive", phase, e)
}

#[cfg(test)]
pub(super) mod tests;
