//! [`Replay`]: a trace on a drive, in virtual time.
//!
//! ```text
//!   Stamped     |--op--------|op----|             issued when the trace says, times a factor; however long
//!                                                 the drive takes
//!   Fast        |op|op|op|op|                     `depth` under way, the next one when one of them completes
//! ```
//!
//! The order is the trace's. A block trace whose time stamps are not quite in order is sorted within a
//! window. As fast as possible, what a CPU does itself (loads, stores, write-backs, verifies) still comes one
//! after the other.
//!
//! A record of a run holds all that its drive was asked from its making on, and marks where the measured run
//! begins and ends: replayed as stamped on an equal drive it gives the same counters, times and bytes.
//!
//! It does *not* model the program behind the trace: an open loop asks on time even where the program would
//! have waited.

mod carry;
mod order;

use crate::bench::JobResult;
use crate::error::BenchError;
use granary_device::{Drive, DriveCounters, DriveError};
use granary_trace::TraceError;
use granary_trace::drive::{Event, Op, Phase, Piece, Seen, Source};
use granary_units::{Nanos, PAGE_SIZE, Page};
use order::{FARTHEST, Ordered};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const PAGE: u64 = PAGE_SIZE as u64;
/// Events of a block trace that are sorted together: disorder in the MSR traces spans a few lines.
const WINDOW: usize = 4096;
/// Events between two reports of progress.
const REPORT_EVERY: u64 = 1 << 14;
/// Events between two looks at whether to stop.
const STOP_EVERY: u64 = 1 << 8;

/// When operations are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As stamped; intervals times this factor.
    Stamped(f64),
    /// As fast as possible, with so many under way.
    Fast(u32),
}

impl Pace {
    /// As the time stamps say.
    pub fn is_stamped(self) -> bool {
        matches!(self, Pace::Stamped(_))
    }
}

impl std::fmt::Display for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pace::Stamped(scale) => write!(f, "time stamps x {scale}"),
            Pace::Fast(depth) => write!(f, "as fast as possible, {depth} under way"),
        }
    }
}

/// A trace to be replayed.
pub struct Replay<'a> {
    /// The drive, idle.
    pub drive: &'a dyn Drive,
    /// The trace's name in errors.
    pub name: &'a str,
    /// When operations are issued.
    pub pace: Pace,
    /// Addresses beyond the drive's end are folded onto it.
    pub wrap: bool,
    /// Told when the measured run begins and ends.
    pub mark: &'a dyn Fn(Nanos, Phase),
    /// Asked now and then whether to end here.
    pub stop: &'a dyn Fn() -> bool,
}

/// Departures of a replay from the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bent {
    /// Operations whose pages were folded onto the drive.
    pub wrapped: u64,
    /// Operations stamped earlier than others issued before.
    pub late: u64,
}

/// Results of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// By kind of operation, of the measured run.
    pub ops: BTreeMap<&'static str, JobResult>,
    /// Length of the run.
    pub time: Nanos,
    /// Counters of the drive in the run.
    pub run: DriveCounters,
    /// In the drain after it.
    pub drain: DriveCounters,
    /// Length of the drain.
    pub drain_time: Nanos,
    /// Departures from the trace.
    pub bent: Bent,
    /// Notes of the reader.
    pub seen: Seen,
    /// It was stopped before the end of the trace.
    pub cut: bool,
    /// The trace has the end of its measured run: always, but for a record of a run that was stopped.
    pub whole: bool,
}

/// The state of a replay.
struct Run {
    now: Nanos,
    /// A record of calls, not a block trace.
    is_record: bool,
    /// First time stamp of a block trace; a record's instants count from the drive's making.
    base: Option<Nanos>,
    /// Completions of what is under way.
    under_way: BinaryHeap<Reverse<Nanos>>,
    /// Latest completion.
    end: Nanos,
    /// When the CPU has done its own last access.
    cpu: Nanos,
    start: Nanos,
    begun: bool,
    /// The drive has no power.
    off: bool,
    before: DriveCounters,
    /// Counters and instant of the end of the run.
    after: Option<(DriveCounters, Nanos)>,
    /// Counters and instant of the end of the drain.
    last: Option<(DriveCounters, Nanos)>,
    ops: BTreeMap<&'static str, JobResult>,
    bent: Bent,
    pages: Vec<Page>,
    bytes: Vec<u8>,
}

impl Replay<'_> {
    /// Replays all of `source`. `progress` is told how many bytes of it are done.
    ///
    /// # Errors
    /// A trace that cannot be read or does not fit the drive, drive errors.
    pub fn run(
        &self,
        source: &mut dyn Source,
        mut progress: impl FnMut(u64),
    ) -> Result<Replayed, BenchError> {
        let mut r = Run {
            now: Nanos::ZERO,
            is_record: source.is_record(),
            base: source.is_record().then_some(Nanos::ZERO),
            under_way: BinaryHeap::new(),
            end: Nanos::ZERO,
            cpu: Nanos::ZERO,
            start: Nanos::ZERO,
            begun: false,
            off: false,
            before: self.drive.counters_at(Nanos::ZERO),
            after: None,
            last: None,
            ops: BTreeMap::new(),
            bent: Bent::default(),
            pages: Vec::new(),
            bytes: Vec::new(),
        };
        let mut events = Ordered::new(source);
        let (mut n, mut cut) = (0u64, false);
        while let Some(event) = events.next()? {
            n += 1;
            if n.is_multiple_of(STOP_EVERY) && (self.stop)() {
                cut = true;
                break;
            }
            if n.is_multiple_of(REPORT_EVERY) {
                progress(events.source.seen().position);
            }
            let nth = event.nth;
            self.event(&mut r, event, n).map_err(|message| TraceError::BadTrace {
                file: self.name.to_owned(),
                line: nth,
                message,
            })?;
        }
        let seen = events.source.seen();
        if n == 0 {
            let message = events.source.nothing();
            return Err(TraceError::BadTrace { file: self.name.to_owned(), line: 1, message }.into());
        }
        self.finish(r, seen, cut)
    }

    fn finish(&self, mut r: Run, seen: Seen, cut: bool) -> Result<Replayed, BenchError> {
        let refused = |e: DriveError| BenchError::run("drive", "drain", e);
        let whole = !r.is_record || r.begun && r.after.is_some();
        let (after, end) = match r.after.take() {
            Some(after) => after,
            None => {
                let after = (self.drive.counters_at(r.end), r.end);
                (self.mark)(r.end, Phase::Drain);
                // A record may be cut off while the power was: there is nothing to settle then.
                if !r.off {
                    r.end = self.drive.settle(r.end).map_err(refused)?;
                }
                after
            }
        };
        let (last, drained) = r.last.unwrap_or_else(|| (self.drive.counters(), r.end));
        Ok(Replayed {
            ops: r.ops,
            time: end.saturating_sub(r.start),
            run: after.since(&r.before),
            drain: last.since(&after),
            drain_time: drained.saturating_sub(end),
            bent: r.bent,
            seen,
            cut,
            whole,
        })
    }

    /// When an operation is issued.
    fn issue(&self, r: &mut Run, event: &Event) -> Nanos {
        let base = *r.base.get_or_insert(event.at);
        match self.pace {
            Pace::Stamped(scale) => {
                let since = event.at.0.saturating_sub(base.0);
                let at = if scale == 1.0 { since } else { (since as f64 * scale).round() as u64 };
                if !r.is_record && at < r.now.0 {
                    r.bent.late += 1;
                    return r.now;
                }
                Nanos(at)
            }
            Pace::Fast(depth) => {
                let mut now = r.now;
                let access = event.op.name().is_some();
                // An operation that is no access waits for everything before it.
                while r.under_way.len() >= if access { depth as usize } else { 1 } {
                    let Some(Reverse(done)) = r.under_way.pop() else { break };
                    now = now.max(done);
                }
                if event.op.is_byte() || !access { now.max(r.cpu) } else { now }
            }
        }
    }

    fn event(&self, r: &mut Run, event: Event, n: u64) -> Result<(), String> {
        let now = self.issue(r, &event);
        if now > FARTHEST {
            return Err("more than 292 years after the first access: the time stamps are damaged, or count another unit than --format has"
                .to_owned());
        }
        r.now = now;
        if let Op::Mark(phase) = event.op {
            self.phase(r, phase, now);
            return Ok(());
        }
        if !r.begun && !r.is_record {
            self.phase(r, Phase::Run, now);
        }
        let (name, is_byte) = (event.op.name(), event.op.is_byte());
        let moved = moved(&event.op);
        let refused = event.refused;
        let done = match self.carry_out(r, event.op, now, n) {
            Err(_) if refused => return Ok(()),
            Err(Trouble::Drive(e)) => return Err(e.to_string()),
            Err(Trouble::Place(message)) => return Err(message),
            Ok(done) => done,
        };
        r.end = r.end.max(done);
        if is_byte {
            r.cpu = r.cpu.max(done);
        }
        if matches!(self.pace, Pace::Fast(_)) {
            r.under_way.push(Reverse(done));
        }
        let Some(name) = name else {
            r.now = r.now.max(if matches!(self.pace, Pace::Fast(_)) { done } else { now });
            return Ok(());
        };
        if r.after.is_none() {
            let result = r.ops.entry(name).or_default();
            result.accesses += 1;
            result.read_bytes += moved.0;
            result.write_bytes += moved.1;
            result.latency.record(done - now);
            result.time = result.time.max(Nanos(done.0.saturating_sub(r.start.0)));
        }
        Ok(())
    }

    /// The run begins or ends; a record without marks is a run as a whole.
    fn phase(&self, r: &mut Run, phase: Phase, now: Nanos) {
        match phase {
            Phase::Run => {
                (r.start, r.end, r.begun) = (now, now, true);
                r.before = self.drive.counters_at(now);
                r.ops.clear();
            }
            Phase::Drain => r.after = Some((self.drive.counters_at(now), now)),
            Phase::End => r.last = Some((self.drive.counters(), now)),
        }
        (self.mark)(now, phase);
    }
}

enum Trouble {
    Drive(DriveError),
    Place(String),
}

impl From<DriveError> for Trouble {
    fn from(e: DriveError) -> Trouble {
        Trouble::Drive(e)
    }
}

/// Bytes that an operation asks to be read and written.
fn moved(op: &Op) -> (u64, u64) {
    match op {
        Op::Read(_, pages, _) => (pages * PAGE, 0),
        Op::Load(_, len, _) | Op::LoadPages(_, len, ..) => (*len, 0),
        Op::Write(_, written, _) | Op::FsWrite(_, written, ..) => (0, written.count() * PAGE),
        Op::Store(_, _, bytes, ..) => (0, bytes.len() as u64),
        Op::Stream(_, _, piece, _) => (
            0,
            match piece {
                Piece::Page(_) => PAGE,
                Piece::Bytes(b) => b.len() as u64,
                Piece::Fill(_, len) => *len,
            },
        ),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests;
