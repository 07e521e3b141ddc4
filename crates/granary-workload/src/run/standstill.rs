//! [`Standstill`]: finds the instant from which no thread of a run can go on.
//!
//! ```text
//!   thread a:  semblock x ......................  waits for a post
//!   thread b:  ....... block y .................  waits for a wakeup
//!   thread c:  .................. end             was the only one that could post: nobody is left
//! ```
//!
//! `semblock`, a blocking `sempost` and `block` wait for another thread, possibly for ever. The world cannot
//! see that: the daemons of a file system keep its clock moving. So two sets of threads are counted here. The
//! first is the threads that are alive and can help: post, take, wake, or end the run. The second is those of
//! them that wait so. A run without a time limit ends with an error where the two sets are equal; the error
//! names the threads. (Threads that are left do the same again and again.) A run with a limit ends at its
//! time, as Filebench's does, with a warning.
//!
//! Invariant: the waker of a thread takes it off the list at that instant ([`Standstill::goes_on`]), not the
//! thread when it runs again. So nobody is on the list whose wait is over.
//!
//! It does *not* look at waits that end by themselves: delays, limits (the events come with time), calls,
//! asynchronous writes. A `semblock` gives up after 600 s; that does not save a run in which all wait.

use super::error::RunError;
use super::halt::Halt;
use super::plan::{Kind, Node, ThreadPlan};
use crate::spec::Op;
use granary_units::Nanos;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Threads of one flowop that a message names; the others are counted.
const NAMED: usize = 8;

/// See the [module](self).
pub(crate) struct Standstill {
    /// The workload's file.
    file: String,
    threads: Vec<(String, Arc<Kind>)>,
    /// By thread: whether it can wake another one or end the run.
    matter: Vec<bool>,
    state: Mutex<State>,
}

struct State {
    /// Threads that are alive and matter ([`Standstill::matter`]). All who wait do.
    alive: usize,
    waiting: usize,
    /// By thread: the flowop that it waits in ([`Node::local`]).
    at: Vec<Option<usize>>,
    /// The first standstill of a run with a time limit.
    first: Option<(Nanos, String)>,
    /// Waits for semaphores that were given up, and where first.
    given_up: u64,
    gave_up: Option<(usize, usize)>,
}

/// A flowop of a thread that can wait for other threads.
#[derive(Clone, Copy)]
pub(crate) struct Waiter<'a> {
    pub(crate) halt: &'a Halt,
    pub(crate) still: &'a Standstill,
    /// Number of the thread in the plan.
    pub(crate) thread: usize,
    /// [`Node::local`].
    pub(crate) local: usize,
}

impl Waiter<'_> {
    /// It is about to wait. True where nobody is left who could end that: then it gives back every lock and
    /// calls [`Waiter::stop`] instead.
    #[must_use]
    pub(crate) fn waits(&self) -> bool {
        let mut state = self.still.state.lock();
        if state.at[self.thread].replace(self.local).is_none() {
            state.waiting += 1;
        }
        self.still.is_one(&mut state, self.halt)
    }

    /// It goes on, woken or not.
    pub(crate) fn goes_on(&self) {
        self.still.goes_on(self.thread);
    }

    /// It goes on because its patience is at an end.
    pub(crate) fn gives_up(&self) {
        let mut state = self.still.state.lock();
        state.given_up += 1;
        state.gave_up.get_or_insert((self.thread, self.local));
    }

    /// Ends the run. No lock of a semaphore or gate may be held.
    pub(crate) fn stop(&self) {
        self.still.stop(self.halt);
    }
}

impl Standstill {
    /// All `threads` of the workload in `file`, on their way.
    pub(crate) fn new(file: &str, threads: &[ThreadPlan]) -> Standstill {
        let matter: Vec<bool> = threads.iter().map(|t| t.kind.nodes.iter().any(matters)).collect();
        let alive = matter.iter().filter(|matters| **matters).count();
        Standstill {
            file: file.to_owned(),
            threads: threads.iter().map(|t| (t.name.clone(), Arc::clone(&t.kind))).collect(),
            matter,
            state: Mutex::new(State {
                alive,
                waiting: 0,
                at: vec![None; threads.len()],
                first: None,
                given_up: 0,
                gave_up: None,
            }),
        }
    }

    /// The thread of this number was woken.
    pub(crate) fn goes_on(&self, thread: usize) {
        let mut state = self.state.lock();
        if state.at[thread].take().is_some() {
            state.waiting -= 1;
        }
    }

    /// This thread has come to its end; ends the run where nobody is left who could wake the others.
    pub(crate) fn thread_ended(&self, thread: usize, halt: &Halt) {
        let stuck = {
            let mut state = self.state.lock();
            state.alive -= usize::from(self.matter[thread]);
            self.is_one(&mut state, halt)
        };
        if stuck {
            self.stop(halt);
        }
    }

    /// Whether the run must end now. At the end of a run all who wait are about to leave.
    fn is_one(&self, state: &mut State, halt: &Halt) -> bool {
        if state.waiting < state.alive || state.waiting == 0 || halt.over() {
            return false;
        }
        if halt.deadline() == Nanos::MAX {
            return true;
        }
        if state.first.is_none() {
            state.first = Some((granary_sim::now(), self.waiters(state)));
        }
        false
    }

    fn stop(&self, halt: &Halt) {
        let waiters = self.waiters(&self.state.lock());
        halt.stop(Err(Box::new(RunError::Standstill { waiters })));
    }

    /// The waiting threads and their places, flowop by flowop.
    fn waiters(&self, state: &State) -> String {
        let mut by_flowop: BTreeMap<(u32, String), Vec<&str>> = BTreeMap::new();
        for (thread, local) in state.at.iter().enumerate() {
            let Some(node) = local.and_then(|local| self.node(thread, local)) else { continue };
            by_flowop.entry((node.line, self.wait(node))).or_default().push(&self.threads[thread].0);
        }
        let groups = by_flowop.into_iter().map(|((_, flowop), threads)| {
            let named = threads.len().min(NAMED);
            let more = match threads.len() - named {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{}{more} in {flowop}", threads[..named].join(", "))
        });
        groups.collect::<Vec<_>>().join("; ")
    }

    /// A flowop, where it stands and what it waits for.
    fn wait(&self, node: &Node) -> String {
        let what = match &node.op {
            Op::SemBlock { .. } => "a `sempost`",
            Op::SemPost { .. } => "its `semblock` to take what was posted",
            _ => "a `wakeup`",
        };
        format!("{} `{}` ({}:{}) for {what}", node.op.type_name(), node.name, self.file, node.line)
    }

    fn node(&self, thread: usize, local: usize) -> Option<&Node> {
        fn find(nodes: &[Node], local: usize) -> Option<&Node> {
            nodes.iter().find_map(|node| match node.local == local {
                true => Some(node),
                false => find(&node.inner, local),
            })
        }
        find(&self.threads[thread].1.nodes, local)
    }

    /// Warnings about the waits of a run that came to its end.
    pub(crate) fn warnings(&self, start: Nanos) -> Vec<String> {
        let state = self.state.lock();
        let first = state.first.as_ref().map(|(at, waiters)| {
            format!(
                "from {:.3} s after the start threads waited and none was left to wake them: {waiters}; only time ended that",
                at.saturating_sub(start).as_secs_f64()
            )
        });
        let given_up = state.gave_up.and_then(|(thread, local)| {
            let wait = self.wait(self.node(thread, local)?);
            let times = state.given_up;
            Some(format!("waits for semaphores were given up after 600 s ({times} times; first: {wait})"))
        });
        first.into_iter().chain(given_up).collect()
    }
}

/// Whether a thread that does this can end a wait or the run.
fn matters(node: &Node) -> bool {
    match node.op {
        Op::SemBlock { .. }
        | Op::SemPost { .. }
        | Op::Block
        | Op::Wakeup { .. }
        | Op::Create(_)
        | Op::Delete(_)
        | Op::MakeDir { .. }
        | Op::RemoveDir { .. }
        | Op::FinishOnCount { .. }
        | Op::FinishOnBytes { .. } => true,
        _ => node.inner.iter().any(matters),
    }
}
