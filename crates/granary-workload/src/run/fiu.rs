//! Replays a trace of FIU on files: each client makes the calls of the records, one after the other, as fast
//! as they return.
//!
//! ```text
//!   lay_out    every file that a record is of: its size, and content where the trace touches it; then the
//!              caches are dropped
//!   measure    a task for each client ── record ──> descriptor of its file ──> call, counted by its kind
//! ```
//!
//! The trace begins in the middle of a day, so it reads and closes files that it has not opened. The first
//! record of a file that is not open opens it, which counts as an `open` of its own. A `CLOSE` of a file that
//! is not open is left out. No client has more than [`MOST_OPEN`] descriptors. For a new one it closes those
//! that were opened first; these closes do not count.
//!
//! Invariant: a client's calls are a function of the trace alone.

use super::error::RunError;
use super::halt::Finish;
use super::ledger::{Class, OpStats};
use super::setup;
use super::whole::Whole;
use super::{Clients, Outcome, ProcessId, RunOptions};
use granary_fs::FsError;
use granary_sim::{now, spawn};
use granary_trace::fiu::{Call, Trace};
use granary_units::{Dest, Payload};
use granary_vfs::{Fd, OpenFlags, Posix};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Descriptors of a client. \[choice\] a quarter of the 1,024 that Linux gives a process (RLIMIT_NOFILE).
pub(super) const MOST_OPEN: usize = 256;
/// Bytes of a write that lays a file out.
const STEP: u64 = 1 << 20;

fn class(call: Call) -> Class {
    match call {
        Call::Read => Class::Read,
        Call::Write => Class::Write,
        _ => Class::Plain,
    }
}

/// Makes the files of all clients.
///
/// # Errors
/// The first call that failed; [`RunError::Interrupted`] where it was told to stop.
pub(super) fn lay_out<C: Clients>(trace: &Trace, clients: &C, options: &RunOptions) -> Result<(), RunError> {
    let mut p = clients.client(ProcessId::single("setup"), "setup");
    let touched = trace.touched();
    for client in 0..trace.clients {
        let directory = format!("/fiu/{client}");
        setup::make_path(&mut p, directory.as_bytes())
            .map_err(|(path, e)| setup::failed("mkdir", &path, e))?;
        for file in (0..trace.files.len()).filter(|file| touched[*file]) {
            if options.stop.as_ref().is_some_and(|stop| stop.load(Relaxed)) {
                return Err(RunError::Interrupted);
            }
            let path = trace.path(client, file as u32);
            make(&mut p, trace, file, &path).map_err(|(call, e)| setup::failed(call, path.as_bytes(), e))?;
        }
    }
    clients.drop_caches().map_err(|e| setup::failed("drop_caches", b"", e))
}

fn make<P: Posix>(p: &mut P, trace: &Trace, file: usize, path: &str) -> Result<(), (&'static str, FsError)> {
    let flags = OpenFlags::CREAT | OpenFlags::WRONLY | OpenFlags::TRUNC;
    let fd = p.open(path, flags, 0o644).map_err(|e| ("open", e))?;
    let of = &trace.files[file];
    if of.size > 0 {
        p.ftruncate(fd, of.size).map_err(|e| ("ftruncate", e))?;
    }
    for &(from, to) in &of.pieces {
        for at in (from..to).step_by(STEP as usize) {
            write(p, fd, file as u64 + 1, at, STEP.min(to - at)).map_err(|e| ("write", e))?;
        }
    }
    p.close(fd).map_err(|e| ("close", e))
}

/// Writes all of these bytes: a repeated word.
fn write<P: Posix>(p: &mut P, fd: Fd, word: u64, pos: u64, len: u64) -> Result<(), FsError> {
    let mut done = 0;
    while done < len {
        let left = (len - done) as usize;
        done += p.pwrite(fd, Payload::Fill { word, len: left }, pos + done)? as u64;
    }
    Ok(())
}

/// Replays the trace.
///
/// # Errors
/// The first call that failed.
pub(super) fn measure<C: Clients>(
    trace: &Trace,
    clients: &C,
    options: &RunOptions,
    at_end: impl FnOnce(),
) -> Result<Outcome, RunError> {
    let stats = Call::ALL.into_iter().map(|call| OpStats::new(call.name(), true)).collect();
    let total = trace.count.saturating_mul(u64::from(trace.clients));
    let whole = Arc::new(Whole::new(stats, trace.clients as usize, options, Some(total)));
    let (start, shared) = (now(), Arc::new(trace.clone()));
    let tasks: Vec<_> = (0..trace.clients)
        .map(|client| {
            let name = format!("fiu-{client}");
            let process = ProcessId { name: "fiu", instance: u64::from(client) + 1 };
            let mut replay = Replay {
                p: clients.client(process, &name),
                trace: Arc::clone(&shared),
                client,
                whole: Arc::clone(&whole),
                open: BTreeMap::new(),
                order: VecDeque::new(),
                left_out: 0,
            };
            spawn(&name, move || {
                if let Err(e) = replay.run() {
                    replay.whole.fail(e);
                }
                replay.left_out
            })
        })
        .collect();
    let left_out: u64 = tasks.into_iter().map(granary_sim::JoinHandle::join).sum();
    let elapsed = now().saturating_sub(start);
    at_end();
    let names = Call::ALL.into_iter().map(|call| call.name().to_owned()).collect();
    let mut outcome = whole.outcome(names, elapsed, Finish::TraceDone)?;
    if left_out > 0 {
        outcome.warnings.push(format!(
            "{left_out} records close what the trace has not opened before: they were left out"
        ));
    }
    Ok(outcome)
}

/// A client.
struct Replay<P> {
    p: P,
    trace: Arc<Trace>,
    client: u32,
    whole: Arc<Whole>,
    /// Descriptors of each file, the newest last.
    open: BTreeMap<u32, Vec<Fd>>,
    /// All descriptors with their files, the oldest first; some may be closed.
    order: VecDeque<(u32, Fd)>,
    /// Closes of what is not open.
    left_out: u64,
}

impl<P: Posix> Replay<P> {
    fn run(&mut self) -> Result<(), Box<RunError>> {
        for nth in 0..self.trace.count {
            if self.whole.is_over() {
                break;
            }
            self.record(nth).map_err(|(call, file, source)| {
                let (trace, path) = (self.trace.name.clone(), self.trace.path(self.client, file));
                Box::new(RunError::Record { trace, record: nth + 1, call, path, source })
            })?;
        }
        // The end of a program closes its descriptors.
        let left: Vec<Fd> = std::mem::take(&mut self.open).into_values().flatten().collect();
        left.into_iter().for_each(|fd| drop(self.p.close(fd)));
        Ok(())
    }

    fn record(&mut self, nth: u64) -> Result<(), (&'static str, u32, FsError)> {
        let record = self.trace.records[(nth % self.trace.records.len() as u64) as usize];
        let (call, file) = (record.call, record.file);
        let failed = |call: Call| move |e| (call.name(), file, e);
        let fd = match call {
            Call::Open => return self.open(file).map(drop).map_err(failed(call)),
            Call::Close => {
                let Some(fd) = self.open.get_mut(&file).and_then(Vec::pop) else {
                    self.left_out += 1;
                    return Ok(());
                };
                let begun = now();
                self.p.close(fd).map_err(failed(call))?;
                self.count(call, begun, 0);
                return Ok(());
            }
            _ => match self.open.get(&file).and_then(|fds| fds.last()) {
                Some(fd) => *fd,
                None => self.open(file).map_err(failed(Call::Open))?,
            },
        };
        let (begun, len) = (now(), u64::from(record.len));
        let bytes = match call {
            Call::Read => {
                let dest = Dest::Discard(record.len as usize);
                self.p.pread(fd, dest, record.offset).map_err(failed(call))? as u64
            }
            Call::Write => {
                // Each write brings something else than what is there.
                let word = (nth + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                write(&mut self.p, fd, word, record.offset, len).map_err(failed(call))?;
                len
            }
            Call::Fdatasync => self.p.fdatasync(fd).map(|()| 0).map_err(failed(call))?,
            _ => self.p.fsync(fd).map(|()| 0).map_err(failed(call))?,
        };
        self.count(call, begun, bytes);
        Ok(())
    }

    fn open(&mut self, file: u32) -> Result<Fd, FsError> {
        while self.open.values().map(Vec::len).sum::<usize>() >= MOST_OPEN {
            let Some((oldest, fd)) = self.order.pop_front() else { break };
            let fds = self.open.entry(oldest).or_default();
            if let Some(at) = fds.iter().position(|open| *open == fd) {
                fds.remove(at);
                self.p.close(fd)?;
            }
            if self.open.get(&oldest).is_some_and(Vec::is_empty) {
                self.open.remove(&oldest);
            }
        }
        let mut flags = OpenFlags::CREAT | OpenFlags::RDWR;
        flags.set(OpenFlags::DSYNC, self.trace.durable);
        let begun = now();
        let fd = self.p.open(self.trace.path(self.client, file), flags, 0o644)?;
        self.count(Call::Open, begun, 0);
        self.open.entry(file).or_default().push(fd);
        self.order.push_back((file, fd));
        Ok(fd)
    }

    fn count(&self, call: Call, begun: granary_units::Nanos, bytes: u64) {
        match call {
            Call::Read => self.whole.ledger.read(bytes),
            Call::Write => self.whole.ledger.wrote(bytes),
            _ => {}
        }
        let process = self.client as usize;
        self.whole.ledger.record(process, call as usize, class(call), now() - begun, bytes);
    }
}
