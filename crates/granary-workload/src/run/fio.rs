//! Runs the jobs of a fio job file on files, as fio's threads do.
//!
//! ```text
//!   lay_out     files that are read or overwritten get content; the others space
//!   Group       the jobs up to the next stonewall: all at the same time
//!     Shared    a client: what comes next (fio::Client), by `iodepth` tasks where the engine queues, else by
//!               one
//! ```
//!
//! Invariants: a client draws from a stream of its own. An access counts when it begins after the job's ramp.
//! A job with `verify` compares all that it has read and, at its end, all that it has written (`do_verify`).
//! Those reads are a row of their own, and their time is not part of the run's.
//!
//! Source: fio's HOWTO; filesetup.c (`extend_file`) for the laying out.

use super::error::RunError;
use super::halt::Finish;
use super::ledger::{Class, OpStats};
use super::whole::Whole;
use super::{Clients, Outcome, ProcessId, RunOptions};
use crate::on_files::{OnFiles, Preallocate};
use granary_fs::{Allocate, FsError};
use granary_sim::sync::{Condvar, Mutex};
use granary_sim::{now, sleep_until, spawn};
use granary_trace::fio::{self, Access, Client, Content, Drawn, Next, Part};
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{Fd, OpenFlags, Posix};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a write that lays a file out.
const PIECE: u64 = 1 << 20;
/// Rows of a job's statistics: kind, and whether it is an operation.
const KINDS: [(&str, Class); 4] =
    [("read", Class::Read), ("write", Class::Write), ("fsync", Class::Plain), ("verify", Class::Control)];
/// The reads of a verification in the end: told apart, and no operations.
const VERIFY: usize = 3;

/// A call on `path` that failed.
fn failed<'a>(job: &'a OnFiles, call: &'static str, path: &'a str) -> impl Fn(FsError) -> Box<RunError> + 'a {
    move |source| Box::new(RunError::Job { job: job.job.name.clone(), call, path: path.to_owned(), source })
}

/// Makes the files of all jobs.
///
/// # Errors
/// The first call that failed.
pub(super) fn lay_out<C: Clients>(jobs: &[OnFiles], clients: &C) -> Result<(), RunError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let mut p = clients.client(ProcessId::single("setup"), "setup");
    let mut made = BTreeMap::<String, (&OnFiles, u64, bool)>::new();
    for job in jobs {
        for (client, file) in files(job) {
            let entry = made.entry(job.path(client, file)).or_insert((job, 0, false));
            (entry.1, entry.2) = (entry.1.max(job.file_size), entry.2 | job.lays_out());
        }
    }
    for (path, (job, size, whole)) in &made {
        make(&mut p, path, job, *size, *whole).map_err(|e| *e)?;
    }
    if jobs.iter().any(|job| job.invalidate) {
        clients.drop_caches().map_err(|e| super::setup::failed("drop_caches", b"", e))?;
    }
    Ok(())
}

/// Clients and files of a job; files that all have in common once.
fn files(job: &OnFiles) -> impl Iterator<Item = (u64, u64)> {
    let clients = if job.names.is_some() { 1 } else { u64::from(job.job.clients) };
    let files = job.files;
    (0..clients).flat_map(move |client| (0..files).map(move |file| (client, file)))
}

fn make<P: Posix>(p: &mut P, path: &str, job: &OnFiles, size: u64, whole: bool) -> Result<(), Box<RunError>> {
    for (at, _) in path.match_indices('/').skip(1) {
        match p.mkdir(&path[..at], 0o755) {
            Ok(()) | Err(FsError::Exists) => {}
            Err(e) => return Err(failed(job, "mkdir", path)(e)),
        }
    }
    let flags = OpenFlags::CREAT | OpenFlags::WRONLY | OpenFlags::TRUNC;
    let fd = p.open(path, flags, 0o644).map_err(failed(job, "open", path))?;
    if whole {
        let content = job.verify.then(|| Content::of(path));
        let mut at = 0;
        while at < size {
            let n = PIECE.min(size - at);
            write(p, fd, content, at, n, at).map_err(failed(job, "write", path))?;
            at += n;
        }
        if job.create_fsync {
            p.fsync(fd).map_err(failed(job, "fsync", path))?;
        }
    } else {
        let space = |p: &mut P, how| match p.fallocate(fd, how, 0, size) {
            Ok(()) | Err(FsError::NotSupported) => Ok(()),
            Err(e) => Err(failed(job, "fallocate", path)(e)),
        };
        match job.preallocate {
            Preallocate::Nothing => {}
            Preallocate::Space => space(p, Allocate::Reserve { keep_size: false })?,
            Preallocate::KeepSize => space(p, Allocate::Reserve { keep_size: true })?,
            Preallocate::Size => p.ftruncate(fd, size).map_err(failed(job, "ftruncate", path))?,
        }
    }
    p.close(fd).map_err(failed(job, "close", path))
}

/// Writes `len` bytes at `pos`: what belongs there, or this word.
fn write<P: Posix>(
    p: &mut P,
    fd: Fd,
    content: Option<Content>,
    pos: u64,
    len: u64,
    word: u64,
) -> Result<(), FsError> {
    let mut bytes = Vec::new();
    if let Some(content) = content {
        bytes.resize(len as usize, 0);
        content.fill(pos, &mut bytes);
    }
    let mut done = 0;
    while done < len {
        let left = (len - done) as usize;
        let payload = match content {
            Some(_) => Payload::Bytes(&bytes[done as usize..]),
            None => Payload::Fill { word, len: left },
        };
        done += p.pwrite(fd, payload, pos + done)? as u64;
    }
    Ok(())
}

/// A client's tasks, together.
struct Shared {
    on: Arc<OnFiles>,
    nth: u64,
    /// The first of its three statistics.
    stat: usize,
    client: Mutex<Client<Arc<fio::Job>>>,
    woken: Condvar,
    run: Arc<Whole>,
    /// Writes to be verified: file, place, bytes.
    written: parking_lot::Mutex<Vec<(u64, u64, u64)>>,
}

/// Runs the jobs, group after group.
///
/// # Errors
/// The first call that failed, and what was read and is not what was written.
pub(super) fn measure<C: Clients>(
    jobs: &[OnFiles],
    clients: &C,
    options: &RunOptions,
    round: u32,
    at_end: impl FnOnce(),
) -> Result<Outcome, RunError> {
    let names: Vec<String> = jobs
        .iter()
        .flat_map(|on| KINDS.iter().map(move |(kind, _)| format!("{}.{kind}", on.job.name)))
        .collect();
    let kinds = |_| KINDS.iter().map(|(kind, class)| OpStats::new(kind, *class != Class::Control));
    let stats = jobs.iter().flat_map(kinds).collect();
    let whole = Arc::new(Whole::new(stats, jobs.len(), options, None));
    let start = now().saturating_add(jobs.iter().map(|on| on.job.ramp).min().unwrap_or_default());
    let (mut from, mut timed, mut verified) = (0, false, Nanos::ZERO);
    while from < jobs.len() && !whole.has_ended() {
        let next =
            jobs[from + 1..].iter().position(|on| on.job.stonewall).map_or(jobs.len(), |n| from + 1 + n);
        let (over, working) = group(jobs, from..next, clients, &whole, round);
        timed |= over;
        // The jobs' own time: when all have done their work, some may go on and verify.
        verified = verified.saturating_add(now().saturating_sub(working));
        from = next;
    }
    let end = now().saturating_sub(verified);
    at_end();
    let own = if timed { Finish::Time } else { Finish::JobsDone };
    whole.outcome(names, end.saturating_sub(start), own)
}

/// Runs the jobs of one group. Whether it came to its end, and time alone ended one of them; when the last
/// one had done its work, and only verified from then on.
fn group<C: Clients>(
    jobs: &[OnFiles],
    range: std::ops::Range<usize>,
    clients: &C,
    whole: &Arc<Whole>,
    round: u32,
) -> (bool, Nanos) {
    let mut tasks = Vec::new();
    let timed = jobs[range.clone()].iter().any(|on| on.job.time_based);
    for n in range {
        let on = Arc::new(jobs[n].clone());
        let job = Arc::new(on.job.clone());
        for nth in 0..on.job.clients {
            let part = Part { offset: 0, increment: 0, size: on.span * on.files };
            let name = format!("fio-{n}-{nth}-{round}");
            let random = granary_sim::rng::Stream::new(whole.options.seed, &name);
            let shared = Arc::new(Shared {
                client: Mutex::new(Client::new((n, job.clone()), part, 0, now(), random)),
                on: on.clone(),
                nth: nth.into(),
                stat: n * KINDS.len(),
                woken: Condvar::new(),
                run: whole.clone(),
                written: parking_lot::Mutex::default(),
            });
            let process = ProcessId { name: &on.job.name, instance: u64::from(nth) + 1 };
            let slots = on.job.in_flight();
            for slot in 0..slots {
                let mut p = clients.client(process, &format!("{}.{nth}.{slot}", on.job.name));
                let shared = shared.clone();
                tasks.push(spawn(&format!("{name}-{slot}"), move || {
                    let done = shared.slot(&mut p);
                    let worked = done.as_ref().ok().copied();
                    if let Err(e) = done {
                        shared.run.fail(e);
                    }
                    // Others that wait for what this one had under way see that the run is over.
                    shared.woken.notify_all();
                    worked
                }));
            }
        }
    }
    let all: Vec<Option<Nanos>> = tasks.into_iter().map(granary_sim::JoinHandle::join).collect();
    let working = all.iter().copied().collect::<Option<Vec<Nanos>>>();
    (working.is_some() && timed, working.and_then(|all| all.into_iter().max()).unwrap_or_else(now))
}

impl Shared {
    /// One of those who keep an access in flight; says when its own work was done.
    fn slot<P: Posix>(&self, p: &mut P) -> Result<Nanos, Box<RunError>> {
        let on = &*self.on;
        let begin = self.client.lock().begin;
        sleep_until(begin);
        let paths: Vec<String> = (0..on.files).map(|file| on.path(self.nth, file)).collect();
        let access = match (on.job.pattern.accesses().any(Access::reads), on.verify) {
            (false, false) => OpenFlags::WRONLY,
            _ if !on.job.pattern.accesses().any(Access::writes) => OpenFlags::RDONLY,
            _ => OpenFlags::RDWR,
        };
        let mut fds = Vec::new();
        for path in &paths {
            let fd = p.open(path, access | on.open, 0o644).map_err(failed(on, "open", path))?;
            // As fio does whenever a job opens a file (ioengines.c, td_io_open_file).
            if on.invalidate {
                p.let_go(fd).map_err(failed(on, "posix_fadvise", path))?;
            }
            fds.push(fd);
        }
        while !self.run.is_over() {
            let mut client = self.client.lock();
            let next = client.next(now(), |_| ());
            match next {
                Next::Access(drawn) => {
                    drop(client);
                    self.access(p, &fds, &paths, drawn)?;
                }
                Next::Due(drawn, at) => {
                    drop(client);
                    sleep_until(at);
                    self.access(p, &fds, &paths, drawn)?;
                }
                Next::Flush => {
                    drop(client);
                    for (fd, path) in fds.iter().zip(&paths) {
                        self.flush(p, *fd, path, on.job.flush_data_only)?;
                    }
                    self.wake(|client, woken| client.flushed(now(), woken));
                }
                Next::At(at) => {
                    drop(client);
                    sleep_until(at);
                }
                Next::Park => {
                    client.park(0);
                    self.woken.wait(&mut client);
                }
                Next::End => break,
            }
        }
        for (fd, path) in fds.iter().zip(&paths) {
            if on.end_fsync && on.job.pattern.accesses().any(Access::writes) {
                self.flush(p, *fd, path, false)?;
            }
        }
        let worked = now();
        let written = std::mem::take(&mut *self.written.lock());
        for (file, pos, len) in written {
            let begun = now();
            self.compare(p, fds[file as usize], &paths[file as usize], pos, len)?;
            self.count(VERIFY, begun, len);
        }
        for (fd, path) in fds.iter().zip(&paths) {
            p.close(*fd).map_err(failed(on, "close", path))?;
            if on.unlink {
                match p.unlink(path) {
                    Ok(()) | Err(FsError::NoEntry) => {}
                    Err(e) => return Err(failed(on, "unlink", path)(e)),
                }
            }
        }
        Ok(worked)
    }

    /// Something has ended: others may go on.
    fn wake(&self, ended: impl FnOnce(&mut Client<Arc<fio::Job>>, &mut Vec<(Nanos, u64)>)) {
        let mut woken = Vec::new();
        ended(&mut self.client.lock(), &mut woken);
        if !woken.is_empty() {
            self.woken.notify_all();
        }
    }

    fn access<P: Posix>(
        &self,
        p: &mut P,
        fds: &[Fd],
        paths: &[String],
        drawn: Drawn,
    ) -> Result<(), Box<RunError>> {
        let on = &*self.on;
        let (file, pos) = on.of(self.nth, drawn.at);
        let (fd, path) = (fds[file as usize], &paths[file as usize]);
        let begun = now();
        let (kind, len) = if drawn.access.reads() {
            let n = match on.verify {
                true => self.compare(p, fd, path, pos, drawn.len)?,
                false => p
                    .pread(fd, Dest::Discard(drawn.len as usize), pos)
                    .map_err(failed(on, "read", path))? as u64,
            };
            (0, n)
        } else {
            let content = on.verify.then(|| Content::of(path));
            write(p, fd, content, pos, drawn.len, begun.0 | 1).map_err(failed(on, "write", path))?;
            if on.verify && on.verify_phase {
                self.written.lock().push((file, pos, drawn.len));
            }
            (1, drawn.len)
        };
        self.count(kind, begun, len);
        self.wake(|client, woken| client.done(now(), woken));
        Ok(())
    }

    fn flush<P: Posix>(&self, p: &mut P, fd: Fd, path: &str, data_only: bool) -> Result<(), Box<RunError>> {
        let begun = now();
        let done = if data_only { p.fdatasync(fd) } else { p.fsync(fd) };
        done.map_err(failed(&self.on, "fsync", path))?;
        self.count(2, begun, 0);
        Ok(())
    }

    fn count(&self, kind: usize, begun: Nanos, bytes: u64) {
        let (job, counted) = {
            let client = self.client.lock();
            (client.job, client.counted)
        };
        if begun >= counted {
            match kind {
                0 | VERIFY => self.run.ledger.read(bytes),
                _ => self.run.ledger.wrote(bytes),
            }
            self.run.ledger.record(job, self.stat + kind, KINDS[kind].1, now() - begun, bytes);
        }
    }

    /// Reads and compares with what belongs there.
    fn compare<P: Posix>(
        &self,
        p: &mut P,
        fd: Fd,
        path: &str,
        pos: u64,
        len: u64,
    ) -> Result<u64, Box<RunError>> {
        let mut bytes = vec![0; len as usize];
        let n = p.pread(fd, Dest::Bytes(&mut bytes), pos).map_err(failed(&self.on, "read", path))?;
        let wrong = Content::of(path).wrong(pos, &bytes[..n]);
        match wrong.or((n as u64 != len).then_some(pos + n as u64)) {
            None => Ok(len),
            Some(at) => {
                let job = self.on.job.name.clone();
                Err(Box::new(RunError::NotWhatWasWritten { job, path: path.to_owned(), at }))
            }
        }
    }
}
