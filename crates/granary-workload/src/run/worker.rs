//! [`Worker`]: one thread of the workload, passing over its flowops until the run is over.
//!
//! ```text
//!   pass:  flowop 1 x iters ──► flowop 2 x iters ──► ... ──► again
//!             │
//!             ├── file operations  (files)     slots[fd]: the descriptor, and the file that it has or had
//!                                              open
//!             ├── data             (io)
//!             └── limits, waits    (control)
//! ```
//!
//! Invariants: between two flowops (and two iterations of one) it looks whether the run is over. An operation
//! that ends after the run is not counted, but the bytes of those of its calls that ended in time are. A pass
//! takes at least 1 us. So threads that do nothing (or run on a file system without costs) cannot hold up the
//! world.
//!
//! Source: Filebench 1.5-alpha3, the worker loop.

mod control;
mod files;
mod io;

use super::aio::Aio;
use super::draw::Draws;
use super::error::RunError;
use super::fileset::Fileset;
use super::halt::Finish;
use super::ledger::Class;
use super::plan::{Kind, Node, ThreadPlan, io_of};
use super::semaphore::Semaphore;
use super::tree::PathBuffer;
use super::{Phase, Progress, Shared};
use crate::spec::{Op, QuitMode};
use granary_fs::FsError;
use granary_sim::now;
use granary_sim::rng::Stream;
use granary_units::Nanos;
use granary_vfs::{Fd, Posix};
use std::sync::Arc;

/// The least time of a pass.
const MIN_PASS: Nanos = Nanos::from_micros(1);
/// Operations between two progress reports (a power of two).
const REPORT: u64 = 4096;

/// Why a thread stops.
pub(crate) enum Exit {
    /// The run is over.
    Over,
    /// A finish flowop.
    Finished(Finish),
    /// There is no such entry in the fileset.
    Nothing {
        flowop: String,
        wanted: &'static str,
        fileset: String,
        instead: String,
    },
    Failed(Box<RunError>),
}

pub(crate) type Step<T = ()> = Result<T, Exit>;

/// An entry of a thread's descriptor table.
#[derive(Clone, Copy)]
struct Slot {
    fd: Option<Fd>,
    /// Fileset and file that it has, or last had, open; until that is deleted through it.
    file: Option<(u32, u32)>,
    /// The size that the file was given.
    size: u64,
    /// Counts openings.
    serial: u32,
    /// An asynchronous writer may have it open too.
    aio: bool,
}

/// State of one flowop in a thread.
#[derive(Clone, Copy, Default)]
struct Local {
    /// Executions and bytes, for targets.
    count: u64,
    bytes: u64,
    /// Bytes that may be used at the start of each file; 0: all.
    working_set: u64,
    /// Limits: the total when they looked last, and how far they may go on (negative: too far).
    seen: u64,
    credit: i64,
}

/// See the [module](self).
pub(crate) struct Worker<P> {
    name: String,
    /// Its number in the plan.
    number: usize,
    client: P,
    aio_clients: Vec<P>,
    aio: Option<Aio>,
    shared: Arc<Shared>,
    kind: Arc<Kind>,
    process: usize,
    locals: Vec<Local>,
    slots: Vec<Slot>,
    /// By fileset: entry after the one that this thread picked last, and slots handed out, for `opennext`.
    rotors: Vec<(u32, u32)>,
    semaphores: Vec<Arc<Semaphore>>,
    stream: Stream,
    draws: Draws,
    path: PathBuffer,
}

impl<P: Posix + Send + 'static> Worker<P> {
    pub(crate) fn new(
        number: usize,
        plan: &ThreadPlan,
        client: P,
        shared: Arc<Shared>,
        semaphores: Vec<Arc<Semaphore>>,
        aio_clients: Vec<P>,
        seed: u64,
    ) -> Worker<P> {
        let kind = Arc::clone(&plan.kind);
        let empty = Slot { fd: None, file: None, size: 0, serial: 0, aio: false };
        let mut worker = Worker {
            name: plan.name.clone(),
            number,
            client,
            aio_clients,
            aio: None,
            process: plan.process,
            locals: vec![Local::default(); kind.locals],
            slots: vec![empty; kind.slots],
            rotors: vec![(0, 0); shared.sets.len()],
            semaphores,
            stream: Stream::new(seed, &format!("workload thread {}", plan.name)),
            draws: Draws::new(&shared.randoms, seed, &plan.name),
            path: PathBuffer::new(),
            shared,
            kind: Arc::clone(&kind),
        };
        worker.draw_working_sets(&kind.nodes);
        worker
    }

    /// Filebench draws the working set once per flowop instance.
    fn draw_working_sets(&mut self, nodes: &[Node]) {
        for node in nodes {
            if let Some(io) = io_of(&node.op) {
                self.locals[node.local].working_set = self.draws.int(io.working_set);
            }
            self.draw_working_sets(&node.inner);
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs to the end. Returns when it ended and, where it ran out of files, the flowop that did.
    pub(crate) fn run(mut self) -> (Nanos, Option<String>) {
        let clients = std::mem::take(&mut self.aio_clients);
        if !clients.is_empty() {
            self.aio = Some(Aio::start(clients, &self.name, &self.shared));
        }
        let exit = self.passes();
        let ended = now();
        let mut nothing_for = None;
        let halt = &self.shared.halt;
        match exit {
            Exit::Over => halt.heed(),
            Exit::Finished(finish) => halt.stop(Ok(finish)),
            Exit::Failed(error) => halt.stop(Err(error)),
            Exit::Nothing { flowop, wanted, fileset, instead } => match self.shared.mode {
                QuitMode::AllDone => nothing_for = Some(flowop),
                QuitMode::FirstDone => halt.stop(Ok(Finish::FirstDone(flowop))),
                QuitMode::Timeout => {
                    let thread = self.name.clone();
                    halt.stop(Err(Box::new(RunError::NothingToPick {
                        flowop,
                        thread,
                        wanted,
                        fileset,
                        instead,
                    })));
                }
            },
        }
        self.shared.leave(self.number);
        if let Some(aio) = self.aio.take() {
            aio.finish();
        }
        for slot in &mut self.slots {
            if let Some(fd) = slot.fd.take() {
                // The kernel closes what a dying process has open and tells nobody of failures.
                let _ = self.client.close(fd);
            }
        }
        (ended, nothing_for)
    }

    fn passes(&mut self) -> Exit {
        let kind = Arc::clone(&self.kind);
        loop {
            let start = now();
            for node in &kind.nodes {
                if let Err(exit) = self.flowop(node) {
                    return exit;
                }
            }
            if now() == start {
                granary_sim::sleep(MIN_PASS);
            }
        }
    }

    /// A flowop, as often as it says.
    fn flowop(&mut self, node: &Node) -> Step {
        for _ in 0..self.draws.int(node.iters) {
            if self.shared.halt.over() {
                return Err(Exit::Over);
            }
            self.once(node)?;
        }
        Ok(())
    }

    fn once(&mut self, node: &Node) -> Step {
        match &node.op {
            Op::Create(file) => self.create(node, file),
            Op::Open(file) => self.open(node, file),
            Op::Close(file) => self.close(node, file),
            Op::Delete(file) => self.delete(node, file),
            Op::Stat(file) => self.stat(node, file),
            Op::Fsync(file) => self.fsync(node, file),
            Op::FsyncSet(set) => self.fsync_set(node, set.0),
            Op::MakeDir { fileset, index } => self.make_dir(node, fileset.0, *index),
            Op::RemoveDir { fileset, index } => self.remove_dir(node, fileset.0, *index),
            Op::ListDir(set) => self.list_dir(node, set.0),
            Op::ReadWhole(file, io) => self.read_whole(node, file, io),
            Op::WriteWhole { file, io, size_from } => self.write_whole(node, file, io, *size_from),
            Op::Read(file, io) => self.read(node, file, io),
            Op::Write(file, io) => self.write(node, file, io),
            Op::Append(file, io) => self.append(node, file, io, false),
            Op::AppendRandom(file, io) => self.append(node, file, io, true),
            Op::AioWrite(file, io) => self.aio_write(node, file, io),
            Op::AioWait => self.aio_wait(node),
            Op::Composite(_) => node.inner.iter().try_for_each(|inner| self.flowop(inner)),
            _ => self.control(node),
        }
    }

    /// Counts an execution that began at `start`, unless the run is over.
    #[inline]
    fn done(&mut self, node: &Node, start: Nanos, bytes: u64) {
        let at = now();
        if !self.shared.halt.in_time() {
            return;
        }
        let local = &mut self.locals[node.local];
        local.count += 1;
        local.bytes += bytes;
        let total = self.shared.ledger.record(self.process, node.stat, node.class, at - start, bytes);
        if node.class != Class::Control
            && total & (REPORT - 1) == 0
            && let Some(report) = &self.shared.progress
        {
            let total_ops = self.shared.finish_count;
            report(Progress { phase: Phase::Measure, done: total, total: total_ops, virtual_now: at });
        }
    }

    /// Counts what a call read, unless the run is over.
    #[inline]
    fn read_bytes(&self, bytes: usize) {
        if self.shared.halt.in_time() {
            self.shared.ledger.read(bytes as u64);
        }
    }

    /// Counts what a call wrote, unless the run is over.
    #[inline]
    fn wrote_bytes(&self, bytes: usize) {
        if self.shared.halt.in_time() {
            self.shared.ledger.wrote(bytes as u64);
        }
    }

    fn set(&self, set: usize) -> &Arc<Fileset> {
        &self.shared.sets[set]
    }

    fn misuse(&self, node: &Node, reason: impl Into<String>) -> Exit {
        let (flowop, thread) = (node.name.clone(), self.name.clone());
        Exit::Failed(Box::new(RunError::Misuse { flowop, thread, reason: reason.into() }))
    }

    /// An error of a call on `path`.
    fn failed(&self, node: &Node, call: &'static str, path: &[u8], source: FsError) -> Exit {
        Exit::Failed(Box::new(RunError::Call {
            flowop: node.name.clone(),
            thread: self.name.clone(),
            call,
            path: String::from_utf8_lossy(path).into_owned(),
            source,
        }))
    }

    /// An error of a call on the file of a slot.
    fn failed_on(&mut self, node: &Node, call: &'static str, slot: usize, source: FsError) -> Exit {
        let path = match self.slots[slot].file {
            Some((set, file)) => self.path.file(&self.shared.sets[set as usize].tree, file).to_vec(),
            None => b"(deleted)".to_vec(),
        };
        self.failed(node, call, &path, source)
    }

    /// There is no entry to work on: one that exists, or (`absent`) one that does not.
    fn nothing(&self, node: &Node, wanted: &'static str, absent: bool, set: usize) -> Exit {
        let set = self.set(set);
        let (flowop, fileset) = (node.name.clone(), set.name.clone());
        Exit::Nothing { flowop, wanted, fileset, instead: instead(set, absent) }
    }
}

/// The advice where no entry of a fileset exists, or all of them do (`absent` is what was wanted).
fn instead(set: &Fileset, absent: bool) -> String {
    let Fileset { name, single_file, prealloc_percent: percent, .. } = set;
    let define = if *single_file { "define file" } else { "define fileset" };
    let wait = "run for a shorter time, or use `set mode quit alldone` (or firstdone)";
    match (absent, *percent) {
        (false, 0) if *single_file => format!(
            "nothing has made the file: add `prealloc` to `{define} name={name}`, or a createfile flowop before this one"
        ),
        (false, 0) => format!(
            "none exists before the run: add `prealloc` to `{define} name={name}`, or a createfile flowop before this one; or {wait}"
        ),
        (false, 1..100) => format!(
            "{percent} of 100 exist before the run: raise `prealloc` of `{define} name={name}`, give it more entries, {wait}"
        ),
        (true, 100) => format!(
            "all exist before the run: give `{define} name={name}` a lower `prealloc` (80, for example) or more entries, or delete \
             some first"
        ),
        _ => format!("give the fileset more entries, {wait}"),
    }
}
