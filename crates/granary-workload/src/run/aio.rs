//! [`Aio`]: the asynchronous writes of one thread.
//!
//! ```text
//!   aiowrite ──► queue of writer (slot % writers) ──► writer task: pwrite on a descriptor of its own
//!   aiowait  ◄── outstanding -= 1 ◄───────────────────────┘
//! ```
//!
//! As in glibc, up to 20 writers serve the requests of a thread, and those of one file are done one after the
//! other. A writer is a client of its own, so it opens each file once more (by path, not counted as an
//! operation); where the file has been deleted by then, the write is dropped.
//!
//! A write's bytes count when its `pwrite` returns. Writes that still wait when the run ends are dropped,
//! with a warning.
//!
//! Differences: glibc gives a request to any idle writer; here a descriptor belongs to one. glibc's queue
//! ends with the memory; here a thread with [`MOST`] writes on their way waits before it starts another.

use super::Shared;
use super::content::Content;
use super::error::RunError;
use super::halt::{Monitor, Waited};
use super::tree::PathBuffer;
use granary_fs::FsError;
use granary_sim::{JoinHandle, now};
use granary_units::Nanos;
use granary_vfs::{Fd, OpenFlags, Posix};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Requests of a thread to a writer.
#[derive(Clone, Copy)]
pub(crate) enum Request {
    Write(Write),
    /// Close the descriptor of this slot.
    Close(u32),
    /// End.
    Quit,
}

/// A write, on the file that the thread has open in `slot` since opening number `serial`.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
    pub(crate) set: u32,
    pub(crate) file: u32,
    pub(crate) flags: OpenFlags,
    pub(crate) len: usize,
    pub(crate) offset: u64,
}

/// Writes of one thread on their way at most: Linux's default limit of asynchronous requests
/// (`fs.aio-max-nr`, Documentation/admin-guide/sysctl/fs.rst; there for the whole system).
const MOST: u64 = 65_536;

type Queue = Monitor<VecDeque<Request>>;

/// Asynchronous writes of all threads.
#[derive(Default)]
pub(crate) struct Totals {
    /// Handed to a writer.
    started: AtomicU64,
    /// Not begun when the run ended.
    dropped: AtomicU64,
}

impl Totals {
    /// A warning about the writes that the end of the run dropped, if there are any.
    pub(crate) fn warning(&self) -> Option<String> {
        let (started, dropped) = (self.started.load(Relaxed), self.dropped.load(Relaxed));
        (dropped > 0).then(|| {
            format!(
                "{dropped} of {started} asynchronous writes waited when the run ended and were dropped: they count as \
                 operations, not as bytes"
            )
        })
    }
}

/// The writers of a thread.
pub(crate) struct Aio {
    queues: Vec<Arc<Queue>>,
    outstanding: Arc<Monitor<u64>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Aio {
    /// Starts one writer per client, for the thread of this name.
    pub(crate) fn start<P: Posix + Send + 'static>(
        clients: Vec<P>,
        thread: &str,
        shared: &Arc<Shared>,
    ) -> Aio {
        let outstanding = Arc::new(Monitor::new(0));
        shared.halt.enrol(Arc::clone(&outstanding) as _);
        let mut aio = Aio { queues: Vec::new(), outstanding, tasks: Vec::new() };
        for (n, client) in clients.into_iter().enumerate() {
            let queue = Arc::new(Queue::default());
            let name = format!("{thread}/aio-{}", n + 1);
            let writer = Writer {
                client,
                thread: thread.to_owned(),
                shared: Arc::clone(shared),
                queue: Arc::clone(&queue),
                outstanding: Arc::clone(&aio.outstanding),
                open: FxHashMap::default(),
                path: PathBuffer::new(),
            };
            aio.tasks.push(granary_sim::spawn(&name, move || writer.run()));
            aio.queues.push(queue);
        }
        aio
    }

    /// Starts a write, when there is room for it; false where the run ended first.
    pub(crate) fn write(&self, shared: &Shared, write: Write) -> bool {
        {
            let mut outstanding = self.outstanding.lock();
            let room = |ahead: &mut u64| *ahead < MOST;
            if self.outstanding.wait_until(&mut outstanding, &shared.halt, Nanos::MAX, room) != Waited::Ready
            {
                return false;
            }
            *outstanding += 1;
        }
        shared.aio.started.fetch_add(1, Relaxed);
        self.send(write.slot, Request::Write(write));
        true
    }

    /// The thread closes this slot.
    pub(crate) fn close(&self, slot: u32) {
        self.send(slot, Request::Close(slot));
    }

    fn send(&self, slot: u32, request: Request) {
        let queue = &self.queues[slot as usize % self.queues.len()];
        queue.lock().push_back(request);
        queue.notify_all();
    }

    /// Waits until half of what is outstanding is done, at least one; false where the run ended first.
    pub(crate) fn wait(&self, shared: &Shared) -> bool {
        let mut outstanding = self.outstanding.lock();
        let before = *outstanding;
        let goal = before - (before / 2).max(1).min(before);
        let done = |left: &mut u64| *left <= goal;
        self.outstanding.wait_until(&mut outstanding, &shared.halt, Nanos::MAX, done) == Waited::Ready
    }

    /// Ends the writers and waits for them. Where the run was stopped they drop what they have not begun.
    pub(crate) fn finish(self) {
        for queue in &self.queues {
            queue.lock().push_back(Request::Quit);
            queue.notify_all();
        }
        self.tasks.into_iter().for_each(JoinHandle::join);
    }
}

struct Writer<P> {
    client: P,
    thread: String,
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    outstanding: Arc<Monitor<u64>>,
    /// By slot: the thread's opening that it is of, and the descriptor (none: the file was gone).
    open: FxHashMap<u32, (u32, Option<Fd>)>,
    path: PathBuffer,
}

impl<P: Posix> Writer<P> {
    fn run(mut self) {
        loop {
            match self.next() {
                Request::Quit => break,
                Request::Close(slot) => self.forget(slot),
                Request::Write(write) => {
                    if self.shared.halt.over() {
                        self.shared.aio.dropped.fetch_add(1, Relaxed);
                    } else if let Err((call, source)) = self.write(&write) {
                        let path = self.path.file(&self.shared.sets[write.set as usize].tree, write.file);
                        self.shared.halt.stop(Err(Box::new(RunError::Call {
                            flowop: "aiowrite".into(),
                            thread: self.thread.clone(),
                            call,
                            path: String::from_utf8_lossy(path).into_owned(),
                            source,
                        })));
                    }
                    *self.outstanding.lock() -= 1;
                    self.outstanding.notify_all();
                }
            }
        }
        let mut slots: Vec<u32> = self.open.keys().copied().collect();
        slots.sort_unstable();
        slots.into_iter().for_each(|slot| self.forget(slot));
    }

    /// The next request. Not bounded by the end of the run: the thread always sends `Quit`.
    fn next(&self) -> Request {
        let mut queue = self.queue.lock();
        loop {
            match queue.pop_front() {
                Some(request) => return request,
                None => self.queue.wait(&mut queue),
            }
        }
    }

    fn write(&mut self, write: &Write) -> Result<(), (&'static str, FsError)> {
        if self.open.get(&write.slot).is_none_or(|(serial, _)| *serial != write.serial) {
            self.forget(write.slot);
            let path = self.path.file(&self.shared.sets[write.set as usize].tree, write.file);
            let fd = match self.client.open(path, write.flags, 0) {
                Ok(fd) => Some(fd),
                Err(FsError::NoEntry) => None,
                Err(e) => return Err(("open", e)),
            };
            self.open.insert(write.slot, (write.serial, fd));
        }
        if let Some(&(_, Some(fd))) = self.open.get(&write.slot) {
            let word = self.shared.sets[write.set as usize].word(write.file);
            let data = Content::new(word, write.len, write.offset, self.shared.changed_lines, now());
            let written = self.client.pwrite(fd, data.payload(), write.offset).map_err(|e| ("pwrite", e))?;
            if self.shared.halt.in_time() {
                self.shared.ledger.wrote(written as u64);
            }
        }
        Ok(())
    }

    fn forget(&mut self, slot: u32) {
        if let Some((_, Some(fd))) = self.open.remove(&slot) {
            // A failing close has no one to tell: the thread has long gone on, as a program's would.
            let _ = self.client.close(fd);
        }
    }
}
