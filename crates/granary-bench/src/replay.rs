//! [`Replay`]: a trace on a drive, in virtual time.
//!
//! ```text
//!   Stamped     |--op--------|op----|             issued when the trace says, times a factor; however long the drive takes
//!   Fast        |op|op|op|op|                     `depth` under way, the next one when one of them completes
//! ```
//!
//! The order is the trace's. A block trace whose time stamps are not quite in order is sorted within a window. As fast as
//! possible, what a CPU does itself (loads, stores, write-backs, verifies) still comes one after the other.
//!
//! A record of a run holds all that its drive was asked from its making on, and marks where the measured run begins and
//! ends: replayed as stamped on an equal drive it gives the same counters, times and bytes.
//!
//! It does *not* model the program behind the trace: an open loop asks on time even where the program would have waited.

use crate::bench::JobResult;
use crate::error::BenchError;
use crate::recorded::POWER;
use granary_device::vendor::pebble::{BamNames, BamRead, BamReset, FsWrite, Remap, RemapKeep};
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Command, Drive, DriveCounters, DriveError, RemapRange, Streamed, Structure};
use granary_sim::rng::Stream;
use granary_trace::TraceError;
use granary_trace::drive::{Event, FileBlock, Op, Phase, Piece, Seen, Source, Written};
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, Payload};
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

/// What a replay could not do as the trace has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bent {
    /// Operations whose pages were folded onto the drive.
    pub wrapped: u64,
    /// Operations stamped earlier than others issued before.
    pub late: u64,
}

/// What a replay measured.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// By kind of operation, of the measured run.
    pub ops: BTreeMap<&'static str, JobResult>,
    /// Length of the run.
    pub time: Nanos,
    /// What the drive counted in the run.
    pub run: DriveCounters,
    /// In the drain after it.
    pub drain: DriveCounters,
    /// Length of the drain.
    pub drain_time: Nanos,
    /// What was bent.
    pub bent: Bent,
    /// What the reader saw.
    pub seen: Seen,
    /// It was stopped before the end of the trace.
    pub cut: bool,
    /// The trace has the end of its measured run: always, but for a record of a run that was stopped.
    pub whole: bool,
}

/// Nothing is issued later: half of what the virtual clock holds, so that what is under way can end.
const FARTHEST: Nanos = Nanos(u64::MAX / 2);

/// An event with its order, to be sorted by time.
struct Sorted(Event);

impl PartialEq for Sorted {
    fn eq(&self, other: &Sorted) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Sorted {}

impl PartialOrd for Sorted {
    fn partial_cmp(&self, other: &Sorted) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sorted {
    fn cmp(&self, other: &Sorted) -> std::cmp::Ordering {
        // Of one line of a trace the flush comes before its write.
        let key = |s: &Sorted| (s.0.at, s.0.nth, !matches!(s.0.op, Op::Flush));
        key(self).cmp(&key(other))
    }
}

/// The events of a source, those of a block trace in the order of time.
struct Ordered<'a> {
    source: &'a mut dyn Source,
    window: BinaryHeap<Reverse<Sorted>>,
    size: usize,
}

impl<'a> Ordered<'a> {
    fn new(source: &'a mut dyn Source) -> Ordered<'a> {
        let size = if source.is_record() { 0 } else { WINDOW };
        Ordered { source, window: BinaryHeap::new(), size }
    }

    fn next(&mut self) -> Result<Option<Event>, TraceError> {
        if self.size == 0 {
            return self.source.next_event();
        }
        while self.window.len() < self.size {
            match self.source.next_event()? {
                Some(event) => self.window.push(Reverse(Sorted(event))),
                None => break,
            }
        }
        Ok(self.window.pop().map(|Reverse(Sorted(event))| event))
    }
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
                // What is no access waits for everything before it.
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

    fn carry_out(&self, r: &mut Run, op: Op, now: Nanos, n: u64) -> Result<Nanos, Trouble> {
        let d = self.drive;
        Ok(match op {
            Op::Read(lpa, pages, what) => self.read(r, now, lpa, pages, what)?,
            Op::Write(lpa, written, what) => self.write(r, now, lpa, &written, (None, what), n)?,
            Op::FsWrite(lpa, written, block, what) => {
                self.write(r, now, lpa, &written, (Some(block), what), n)?
            }
            Op::Remap(src, dst, count) => {
                let [src, dst] = [self.whole(r, src, count)?, self.whole(r, dst, count)?];
                d.submit(now, Command::Vendor(&mut Remap { src, dst, count }))?
            }
            Op::RemapKeep(ranges) => {
                let mut placed = Vec::with_capacity(ranges.len());
                for RemapRange { src, dst, count } in ranges {
                    let [src, dst] = [self.whole(r, src, count)?, self.whole(r, dst, count)?];
                    placed.push(RemapRange { src, dst, count });
                }
                d.submit(now, Command::Vendor(&mut RemapKeep { ranges: placed.to_vec() }))?
            }
            Op::BamNames => d.submit(now, Command::Vendor(&mut BamNames::default()))?,
            Op::BamReset => d.submit(now, Command::Vendor(&mut BamReset))?,
            Op::BamRead(ino) => d.submit(now, Command::Vendor(&mut BamRead { ino, out: Vec::new() }))?,
            Op::Flush => d.submit(now, Command::Flush)?,
            Op::Trim(lpa, pages) => {
                let mut done = now;
                for (lpa, count) in self.place(r, lpa, pages)?.into_iter().flatten() {
                    done = done.max(d.submit(now, Command::Trim { lpa, count })?);
                }
                done
            }
            Op::Commit(tx) => d.submit(now, Command::Vendor(&mut Commit { tx }))?,
            Op::Recover => d.submit(now, Command::Vendor(&mut Recover))?,
            Op::Load(at, len, what) => {
                let at = self.bytes_at(r, at, len)?;
                r.bytes.resize(len as usize, 0);
                d.load(now, at, &mut r.bytes, what)?
            }
            Op::LoadPages(at, len, pages, what) => {
                let at = self.bytes_at(r, at, len)?;
                r.pages.clear();
                r.pages.resize(pages as usize, Page::ZERO);
                d.load_pages(now, at, len as usize, &mut r.pages, what)?
            }
            Op::Store(core, at, bytes, tx, what) => {
                let at = self.bytes_at(r, at, bytes.len() as u64)?;
                d.store_from(core, now, at, &bytes, tx, what)?
            }
            Op::FlushLines(at, len) => {
                let at = self.bytes_at(r, at, len)?;
                d.flush_lines(now, at, len as usize)?
            }
            Op::Stream(lpa, from, piece, what) => {
                let at = self.bytes_at(r, lpa.byte(), PAGE)?;
                let (lpa, from) = (at.lpa(), from as usize);
                let part = |p| Streamed::Part(p);
                match &piece {
                    Piece::Page(page) => d.stream(now, lpa, from, Streamed::Page(&page.0), what)?,
                    Piece::Bytes(b) => d.stream(now, lpa, from, part(Payload::Bytes(b)), what)?,
                    Piece::Fill(word, len) => {
                        let fill = Payload::Fill { word: *word, len: *len as usize };
                        d.stream(now, lpa, from, part(fill), what)?
                    }
                }
            }
            Op::Verify => d.verify(now)?,
            Op::Settle => d.settle(now)?,
            Op::Track(on) => {
                d.track_in_flight(on);
                now
            }
            Op::PowerFail(seed) => {
                d.power_fail(now, &mut Stream::new(seed, POWER));
                r.off = true;
                now
            }
            Op::PowerOn => {
                let on = d.power_on(now)?;
                r.off = false;
                on
            }
            Op::Mark(_) => now,
        })
    }

    fn read(&self, r: &mut Run, now: Nanos, lpa: Lpa, pages: u64, what: Structure) -> Result<Nanos, Trouble> {
        let most = self.drive.info().max_transfer as u64;
        let mut done = now;
        for (lpa, count) in self.place(r, lpa, pages)?.into_iter().flatten() {
            for from in (0..count).step_by(most as usize) {
                r.pages.clear();
                r.pages.resize(most.min(count - from) as usize, Page::ZERO);
                let command = Command::Read { lpa: lpa.offset(from), out: &mut r.pages, what };
                done = done.max(self.drive.submit(now, command)?);
            }
        }
        Ok(done)
    }

    fn write(
        &self,
        r: &mut Run,
        now: Nanos,
        lpa: Lpa,
        written: &Written,
        (file, what): (Option<FileBlock>, Structure),
        n: u64,
    ) -> Result<Nanos, Trouble> {
        let most = self.drive.info().max_transfer as u64;
        let (mut done, mut nth) = (now, 0);
        for (lpa, count) in self.place(r, lpa, written.count())?.into_iter().flatten() {
            for from in (0..count).step_by(most as usize) {
                let some = nth..nth + most.min(count - from);
                nth = some.end;
                r.pages.clear();
                match written {
                    Written::Pages(all) => {
                        let all = &all[some.start as usize..some.end as usize];
                        r.pages.extend(all.iter().map(|c| c.0.clone()));
                    }
                    Written::Unknown(_) => r.pages.extend(some.map(|i| Page::word(n << 8 | i))),
                }
                let (lpa, pages) = (lpa.offset(from), &r.pages[..]);
                let taken = match file {
                    None => self.drive.submit(now, Command::Write { lpa, pages, what })?,
                    Some(FileBlock { ino, offset, end }) => {
                        let offset = offset.saturating_add((nth - pages.len() as u64) as u32);
                        let end = end.of_page(nth as usize - 1, written.count() as usize);
                        let command = &mut FsWrite { lpa, pages: pages.to_vec(), ino, offset, end, what };
                        self.drive.submit(now, Command::Vendor(command))?
                    }
                };
                done = done.max(taken);
            }
        }
        Ok(done)
    }

    /// The pages of the drive for those of the trace: themselves, or where they are folded to, in up to two parts.
    fn place(&self, r: &mut Run, lpa: Lpa, pages: u64) -> Result<[Option<(Lpa, u64)>; 2], Trouble> {
        let all = self.drive.info().pages;
        if lpa.0 < all && pages <= all - lpa.0 {
            return Ok([Some((lpa, pages)), None]);
        }
        if !self.wrap || pages > all {
            return Err(Trouble::Place(format!(
                "{pages} pages from page {} on lie beyond the drive's end ({all} pages of 4 KiB): --wrap folds them onto the \
                 drive, or take a larger one (--testbed, --set blocks_per_plane=N)",
                lpa.0
            )));
        }
        r.bent.wrapped += 1;
        let first = lpa.0 % all;
        let head = pages.min(all - first);
        Ok([Some((Lpa(first), head)), (pages > head).then_some((Lpa(0), pages - head))])
    }

    /// The same for the byte window: folded as a whole.
    fn bytes_at(&self, r: &mut Run, at: ByteAddr, len: u64) -> Result<ByteAddr, Trouble> {
        let all = self.drive.info().pages * PAGE;
        if at.0 <= all && len <= all - at.0 {
            return Ok(at);
        }
        let pages = (at.in_page() as u64 + len).div_ceil(PAGE);
        Ok(self.whole(r, at.lpa(), pages)?.byte().offset(at.in_page() as u64))
    }

    /// The same for pages that must stay together: to the drive's beginning where they would come apart.
    fn whole(&self, r: &mut Run, lpa: Lpa, pages: u64) -> Result<Lpa, Trouble> {
        Ok(match self.place(r, lpa, pages)? {
            [Some((lpa, n)), _] if n == pages => lpa,
            _ => Lpa(0),
        })
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
