//! [`Plan`]: a workload's processes and threads with every name turned into a number, so that no operation
//! looks anything up by name.
//!
//! ```text
//!   Plan ── threads: filereader-1/filereaderthread-1 .. -12        (one per instance)
//!            └── kind ── nodes: the flowops; a composite's node has inner nodes
//!                          stat   number in the ledger, by name: shared by all threads
//!                          local  number in the thread: counts for targets
//!                          link   semblock: its semaphore; sempost: its group; block, wakeup: the gate
//! ```

use super::ledger::{Class, OpStats};
use crate::spec::Direction;
use crate::spec::{FileRef, FlowopSpec, Io, Op, ThreadSpec, Value, Workload};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Writers that `aiowrite` uses at most per thread (glibc's default number of AIO threads).
const AIO_WRITERS: usize = 20;

pub(crate) struct Plan {
    pub(crate) threads: Vec<ThreadPlan>,
    /// Names of flowops; the empty statistics of each.
    pub(crate) names: Vec<String>,
    pub(crate) stats: Vec<OpStats>,
    /// Number of groups of semaphores and of gates.
    pub(crate) groups: usize,
    pub(crate) gates: usize,
    /// Process instances.
    pub(crate) processes: usize,
    /// Operations after which the run ends, where exactly one process instance counts them.
    pub(crate) finish_count: Option<u64>,
}

/// One thread to run.
pub(crate) struct ThreadPlan {
    /// Such as `filereader-1/filereaderthread-3`.
    pub(crate) name: String,
    /// Its process: the number in the plan; the name, and which instance of that.
    pub(crate) process: usize,
    pub(crate) program: Arc<str>,
    pub(crate) instance: u64,
    pub(crate) kind: Arc<Kind>,
}

/// Data that all instances of a thread share.
pub(crate) struct Kind {
    pub(crate) nodes: Vec<Node>,
    /// Nodes, inner ones included.
    pub(crate) locals: usize,
    /// For each top-level flowop, which nodes are it and what is inside it.
    pub(crate) top: Vec<Range<usize>>,
    pub(crate) memsize: u64,
    /// Each `semblock`: group and high-water mark.
    pub(crate) semblocks: Vec<(usize, u64)>,
    /// Descriptor slots; those from `rotate[fileset]` on are for `opennext`.
    pub(crate) slots: usize,
    pub(crate) rotate: Vec<Option<u32>>,
    pub(crate) aio_writers: usize,
}

/// A flowop.
pub(crate) struct Node {
    pub(crate) name: String,
    /// Line of the workload's file.
    pub(crate) line: u32,
    pub(crate) op: Op,
    pub(crate) iters: Value,
    pub(crate) class: Class,
    pub(crate) stat: usize,
    pub(crate) local: usize,
    pub(crate) link: usize,
    pub(crate) inner: Vec<Node>,
}

impl Plan {
    /// The plan of `workload`, whose filesets have these numbers of files.
    pub(crate) fn new(workload: &Workload, files: &[usize]) -> Plan {
        let mut names = Names::default();
        let mut threads = Vec::new();
        let mut processes = 0;
        let mut next_process: BTreeMap<&str, u64> = BTreeMap::new();
        let mut finish = Vec::new();
        for process in &workload.processes {
            let kinds: Vec<_> =
                process.threads.iter().map(|thread| (thread, Arc::new(names.kind(thread, files)))).collect();
            for _ in 0..process.instances {
                // Definitions of one name are numbered on: threads draw from streams named after them.
                let instance = next(&mut next_process, &process.name);
                let program: Arc<str> = process.name.as_str().into();
                let mut next_thread = BTreeMap::new();
                for (thread, kind) in &kinds {
                    kind.nodes.iter().for_each(|node| finish_counts(node, processes, &mut finish));
                    threads.extend((0..thread.instances).map(|_| ThreadPlan {
                        name: format!(
                            "{}-{instance}/{}-{}",
                            process.name,
                            thread.name,
                            next(&mut next_thread, &thread.name)
                        ),
                        process: processes,
                        program: Arc::clone(&program),
                        instance,
                        kind: Arc::clone(kind),
                    }));
                }
                processes += 1;
            }
        }
        let one_process = finish.iter().all(|&(p, _)| p == finish[0].0);
        let finish_count = finish.iter().map(|&(_, count)| count).min().filter(|_| one_process);
        Plan {
            threads,
            names: names.stat_names,
            stats: names.stats,
            groups: names.groups.len(),
            gates: names.gates.len(),
            processes,
            finish_count,
        }
    }

    /// Whether anything but time can end the run: a flowop that uses up files or directories, or a finish
    /// flowop whose process (or target) has something that it counts.
    pub(crate) fn can_finish(&self) -> bool {
        self.threads.iter().any(|thread| any(&thread.kind.nodes, &|node| self.finishes(thread, node)))
    }

    fn finishes(&self, thread: &ThreadPlan, node: &Node) -> bool {
        let in_process = |counts: &dyn Fn(&Node) -> bool| {
            self.threads.iter().any(|t| t.process == thread.process && any(&t.kind.nodes, counts))
        };
        match node.op {
            Op::Create(_) | Op::Delete(_) | Op::MakeDir { .. } | Op::RemoveDir { .. } => true,
            // Of a target each execution counts, and only what moves bytes can be the target of a count of
            // bytes.
            Op::FinishOnCount { value: 0, .. }
            | Op::FinishOnCount { target: Some(_), .. }
            | Op::FinishOnBytes { target: Some(_), .. } => true,
            Op::FinishOnCount { target: None, .. } => in_process(&|node| node.op.counts()),
            Op::FinishOnBytes { target: None, .. } => in_process(&|node| node.op.direction().is_some()),
            _ => false,
        }
    }
}

/// The next number of this name, from 1.
fn next<'a>(numbers: &mut BTreeMap<&'a str, u64>, name: &'a str) -> u64 {
    let number = numbers.entry(name).or_insert(0);
    *number += 1;
    *number
}

/// Whether one of them, or one inside of them, is so.
fn any(nodes: &[Node], is: &dyn Fn(&Node) -> bool) -> bool {
    nodes.iter().any(|node| is(node) || any(&node.inner, is))
}

fn finish_counts(node: &Node, process: usize, out: &mut Vec<(usize, u64)>) {
    if let Op::FinishOnCount { value, target: None } = node.op {
        out.push((process, value));
    }
    node.inner.iter().for_each(|node| finish_counts(node, process, out));
}

#[derive(Default)]
struct Names {
    numbers: BTreeMap<(String, &'static str), usize>,
    stat_names: Vec<String>,
    stats: Vec<OpStats>,
    groups: BTreeMap<String, usize>,
    gates: BTreeMap<String, usize>,
}

impl Names {
    fn kind(&mut self, spec: &ThreadSpec, files: &[usize]) -> Kind {
        let mut kind = Kind {
            nodes: Vec::new(),
            locals: 0,
            top: Vec::new(),
            memsize: spec.memsize,
            semblocks: Vec::new(),
            slots: 1,
            rotate: vec![None; files.len()],
            aio_writers: 0,
        };
        for flowop in &spec.flowops {
            let first = kind.locals;
            let node = self.node(flowop, &mut kind);
            kind.nodes.push(node);
            kind.top.push(first..kind.locals);
        }
        for node in &kind.nodes {
            each_file(node, &mut |file, _| kind.slots = kind.slots.max(usize::from(file.fd) + 1));
        }
        let mut aio_slots = 0;
        for node in &kind.nodes {
            each_file(node, &mut |file, aio| {
                let rotated = file.fileset.filter(|_| file.rotate);
                if let Some(set) = rotated
                    && kind.rotate[set.0].is_none()
                {
                    kind.rotate[set.0] = Some(kind.slots as u32);
                    kind.slots += files[set.0];
                }
                if aio {
                    aio_slots += rotated.map_or(1, |set| files[set.0]);
                }
            });
        }
        kind.aio_writers = aio_slots.min(AIO_WRITERS);
        kind
    }

    fn node(&mut self, spec: &FlowopSpec, kind: &mut Kind) -> Node {
        let op = match &spec.op {
            Op::Composite(_) => Op::Composite(Vec::new()),
            op => op.clone(),
        };
        let class = match (op.counts(), op.direction()) {
            (false, _) => Class::Control,
            (true, None) => Class::Plain,
            (true, Some(Direction::Read)) => Class::Read,
            (true, Some(Direction::Write)) => Class::Write,
        };
        let local = kind.locals;
        kind.locals += 1;
        let link = match &op {
            Op::SemBlock { highwater, .. } => {
                let group = number(&mut self.groups, &spec.name);
                kind.semblocks.push((group, *highwater));
                kind.semblocks.len() - 1
            }
            Op::SemPost { target, .. } => number(&mut self.groups, target),
            Op::Block => number(&mut self.gates, &spec.name),
            Op::Wakeup { target } => number(&mut self.gates, target),
            _ => 0,
        };
        let inner = match &spec.op {
            Op::Composite(flowops) => flowops.iter().map(|flowop| self.node(flowop, kind)).collect(),
            _ => Vec::new(),
        };
        let stat = self.stat(&spec.name, &op);
        Node {
            name: spec.name.clone(),
            line: spec.line,
            op,
            iters: spec.iters,
            class,
            stat,
            local,
            link,
            inner,
        }
    }

    /// The number of a flowop's statistics. Two flowops of one name share them unless their types differ.
    fn stat(&mut self, name: &str, op: &Op) -> usize {
        let kind = op.type_name();
        *self.numbers.entry((name.to_owned(), kind)).or_insert_with(|| {
            let taken = self.stat_names.iter().any(|n| n == name);
            self.stat_names.push(if taken { format!("{name} ({kind})") } else { name.to_owned() });
            self.stats.push(OpStats::new(kind, op.counts()));
            self.stats.len() - 1
        })
    }
}

fn number(names: &mut BTreeMap<String, usize>, name: &str) -> usize {
    let next = names.len();
    *names.entry(name.to_owned()).or_insert(next)
}

/// Calls `visit` with each file reference, and whether it is an `aiowrite`'s.
fn each_file(node: &Node, visit: &mut impl FnMut(&FileRef, bool)) {
    match &node.op {
        Op::Create(file)
        | Op::Open(file)
        | Op::Close(file)
        | Op::Delete(file)
        | Op::Stat(file)
        | Op::Fsync(file)
        | Op::ReadWhole(file, _)
        | Op::WriteWhole { file, .. }
        | Op::Read(file, _)
        | Op::Write(file, _)
        | Op::Append(file, _)
        | Op::AppendRandom(file, _) => visit(file, false),
        Op::AioWrite(file, _) => visit(file, true),
        _ => {}
    }
    if let Op::WriteWhole { size_from, file, .. } = &node.op {
        visit(&FileRef { fd: *size_from, rotate: false, ..*file }, false);
    }
    node.inner.iter().for_each(|node| each_file(node, visit));
}

/// The I/O of a flowop that has one.
pub(crate) fn io_of(op: &Op) -> Option<&Io> {
    match op {
        Op::ReadWhole(_, io)
        | Op::WriteWhole { io, .. }
        | Op::Read(_, io)
        | Op::Write(_, io)
        | Op::Append(_, io)
        | Op::AppendRandom(_, io)
        | Op::AioWrite(_, io) => Some(io),
        _ => None,
    }
}
