//! [`Recorded`]: a drive that writes down the calls that it gets.
//!
//! ```text
//!   Port, bench ── Recorded ── Mssd
//!                     └── file: every call, its instant, its content, whether it was refused
//! ```
//!
//! A middleware: it changes no time, no counter and no content, with one exception: a power failure draws
//! from a stream of its own, whose seed is in the record, so that a replay loses the same lines.
//!
//! Code that stops a process ends its records first ([`end_all`]): the part recorded so far can be replayed
//! then.
//!
//! Invariant: the order in the file is the order in which the drive got the calls, also with several threads.

use granary_device::vendor::pebble::{BamNames, BamRead, BamReset, FsWrite, Remap, RemapKeep};
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{Chain, Command, Drive, DriveError, Streamed, Structure, Vendor, load_one_by_one};
use granary_sim::rng::Stream;
use granary_trace::TraceError;
use granary_trace::drive::native::{Header, OpRef, Writer};
use granary_trace::drive::{FileBlock, Op, Phase};
use granary_units::{ByteAddr, Lpa, Nanos, Page, TxId};
use parking_lot::Mutex;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Stream of power failures, here and in a replay.
pub(crate) const POWER: &str = "recorded power failure";

/// The records in files of this process that may not have ended.
static OPEN: Mutex<Vec<(PathBuf, Weak<Mutex<Log>>)>> = Mutex::new(Vec::new());

/// Ends all records in files of this process: of each that had not ended its path, and the number of
/// operations in it or why it could not be written. For a process that is about to stop: its calls go on, and
/// are not recorded any more.
pub fn end_all() -> Vec<(PathBuf, Result<u64, TraceError>)> {
    let open = std::mem::take(&mut *OPEN.lock());
    let ended = open.into_iter().filter_map(|(path, log)| {
        let ended = log.upgrade()?.lock().end(&path)?;
        Some((path, ended))
    });
    ended.collect()
}

struct Log {
    writer: Option<Writer<Box<dyn Write + Send>>>,
    /// The first error of the file: nothing is written after it.
    failed: Option<std::io::Error>,
}

impl Log {
    fn begin(&mut self, at: Nanos, op: &OpRef<'_>) {
        if let Some(w) = &mut self.writer {
            w.begin_op(at, op);
        }
    }

    fn finish(&mut self, refused: bool) {
        if let Some(w) = &mut self.writer
            && let Err(e) = w.finish_op(refused)
        {
            self.failed = Some(e);
            self.writer = None;
        }
    }

    /// Ends the record; nothing where it has ended already.
    fn end(&mut self, path: &Path) -> Option<Result<u64, TraceError>> {
        let io = |source| TraceError::Io { what: format!("writing {}", path.display()), source };
        if let Some(e) = self.failed.take() {
            return Some(Err(io(e)));
        }
        Some(self.writer.take()?.end().map_err(io))
    }
}

impl Drop for Log {
    /// A run that fails leaves a record of what it did, which can be replayed.
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            let _ = writer.end();
        }
    }
}

/// A drive whose calls are recorded.
pub struct Recorded<D: ?Sized + Drive = dyn Drive> {
    path: PathBuf,
    log: Arc<Mutex<Log>>,
    inner: Arc<D>,
}

impl<D: Drive + ?Sized> Recorded<D> {
    /// Records the calls of `inner` into the file at `path`, which is made or replaced.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, header: &Header, inner: Arc<D>) -> Result<Recorded<D>, TraceError> {
        let io = |source| TraceError::Io { what: format!("writing {}", path.display()), source };
        let file = File::create(path).map_err(io)?;
        let out: Box<dyn Write + Send> = Box::new(BufWriter::with_capacity(1 << 18, file));
        let recorded = Recorded::over(path, out, header, inner).map_err(io)?;
        let mut open = OPEN.lock();
        open.retain(|(_, log)| log.strong_count() > 0);
        open.push((path.to_owned(), Arc::downgrade(&recorded.log)));
        Ok(recorded)
    }

    /// Records into `out`; `path` is its name in errors.
    ///
    /// # Errors
    /// The output's.
    pub fn over(
        path: &Path,
        out: Box<dyn Write + Send>,
        header: &Header,
        inner: Arc<D>,
    ) -> std::io::Result<Recorded<D>> {
        let log = Log { writer: Some(Writer::new(out, header)?), failed: None };
        Ok(Recorded { path: path.to_owned(), log: Arc::new(Mutex::new(log)), inner })
    }

    /// A phase begins at `now`.
    pub fn mark(&self, now: Nanos, phase: Phase) {
        self.note(now, Op::Mark(phase));
    }

    /// Number of operations in the record so far; 0 when it has ended.
    pub fn count(&self) -> u64 {
        self.log.lock().writer.as_ref().map_or(0, Writer::count)
    }

    /// Ends the record; returns the number of operations in it. Calls after this are not recorded.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn finish(&self) -> Result<u64, TraceError> {
        self.log.lock().end(&self.path).unwrap_or(Ok(0))
    }

    /// Writes down `op`, then carries it out, so that no other call comes between.
    fn call<T>(
        &self,
        now: Nanos,
        op: OpRef<'_>,
        call: impl FnOnce(&D) -> Result<T, DriveError>,
    ) -> Result<T, DriveError> {
        let mut log = self.log.lock();
        log.begin(now, &op);
        let result = call(&*self.inner);
        log.finish(result.is_err());
        result
    }

    fn note(&self, now: Nanos, op: Op) {
        let mut log = self.log.lock();
        log.begin(now, &OpRef::Plain(op));
        log.finish(false);
    }
}

impl<D: Drive + ?Sized> Drive for Recorded<D> {
    granary_device::forward_drive!(inner: info, identify, look_ahead, look_ahead_lines, wants_attention, traffic, counters, counters_at, check);

    fn load(&self, now: Nanos, at: ByteAddr, out: &mut [u8], what: Structure) -> Result<Nanos, DriveError> {
        let op = OpRef::Plain(Op::Load(at, out.len() as u64, what));
        self.call(now, op, |d| d.load(now, at, out, what))
    }

    fn store_from(
        &self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        let op = OpRef::Store(core, at, data, tx, what);
        self.call(now, op, |d| d.store_from(core, now, at, data, tx, what))
    }

    fn flush_lines(&self, now: Nanos, at: ByteAddr, len: usize) -> Result<Nanos, DriveError> {
        self.call(now, OpRef::Plain(Op::FlushLines(at, len as u64)), |d| d.flush_lines(now, at, len))
    }

    fn stream(
        &self,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.call(now, OpRef::Stream(lpa, from, data, what), |d| d.stream(now, lpa, from, data, what))
    }

    fn load_pages(
        &self,
        now: Nanos,
        at: ByteAddr,
        len: usize,
        out: &mut [Page],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        let op = OpRef::Plain(Op::LoadPages(at, len as u64, out.len() as u64, what));
        self.call(now, op, |d| d.load_pages(now, at, len, out, what))
    }

    // Each load of a chain is a line of the record.
    fn load_known(
        &self,
        now: Nanos,
        runs: &[(Lpa, usize)],
        until: Nanos,
        known: &[Page],
        fresh: &mut [Page],
        what: Structure,
    ) -> Chain {
        load_one_by_one(self, now, runs, until, known, fresh, what)
    }

    fn verify(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.call(now, OpRef::Plain(Op::Verify), |d| d.verify(now))
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        let mut written = Vec::new();
        let op = match &command {
            Command::Read { lpa, out, what } => OpRef::Read(*lpa, out.len() as u64, *what),
            Command::Write { lpa, pages, what } => OpRef::Write(*lpa, pages, *what),
            Command::Flush => OpRef::Plain(Op::Flush),
            Command::Trim { lpa, count } => OpRef::Plain(Op::Trim(*lpa, *count)),
            // The command goes on with its pages: these are noted.
            Command::Vendor(own) => vendor(&**own, &mut written)?,
        };
        self.call(now, op, |d| d.submit(now, command))
    }

    fn settle(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.call(now, OpRef::Plain(Op::Settle), |d| d.settle(now))
    }

    fn power_fail(&self, now: Nanos, random: &mut Stream) {
        let seed = random.next_u64();
        self.note(now, Op::PowerFail(seed));
        self.inner.power_fail(now, &mut Stream::new(seed, POWER));
    }

    fn power_on(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.call(now, OpRef::Plain(Op::PowerOn), |d| d.power_on(now))
    }

    fn track_in_flight(&self, on: bool) {
        // No instant belongs to it; the one of the call before it is as good as any.
        let mut log = self.log.lock();
        let at = log.writer.as_ref().map_or(Nanos::ZERO, Writer::last);
        log.begin(at, &OpRef::Plain(Op::Track(on)));
        log.finish(false);
        self.inner.track_in_flight(on);
    }
}

/// The word of a trace for a vendor command; `written` is room for the pages that it writes.
fn vendor<'p>(own: &dyn Vendor, written: &'p mut Vec<Page>) -> Result<OpRef<'p>, DriveError> {
    if let Some(FsWrite { lpa, pages, ino, offset, end, what }) = own.get() {
        let block = FileBlock { ino: *ino, offset: *offset, end: *end };
        written.clone_from(pages);
        return Ok(OpRef::FsWrite(*lpa, written, block, *what));
    }
    let plain = if let Some(Commit { tx }) = own.get() {
        Op::Commit(*tx)
    } else if own.get::<Recover>().is_some() {
        Op::Recover
    } else if let Some(Remap { src, dst, count }) = own.get() {
        Op::Remap(*src, *dst, *count)
    } else if let Some(RemapKeep { ranges }) = own.get() {
        Op::RemapKeep(ranges.clone())
    } else if own.get::<BamNames>().is_some() {
        Op::BamNames
    } else if own.get::<BamReset>().is_some() {
        Op::BamReset
    } else if let Some(BamRead { ino, .. }) = own.get() {
        Op::BamRead(*ino)
    } else {
        let why =
            format!("traces have no word for {}: record nothing, or teach the trace format", own.name());
        return Err(DriveError::Failed(why));
    };
    Ok(OpRef::Plain(plain))
}
