//! Concurrent calls: is there a serial order that explains what everybody saw?
//!
//! ```text
//!   task 0   |--mkdir /d: done--|      |--stat /d/a: failed--|
//!   task 1        |--open /d/a: Fd(0)--|        |--rename /d /e: done--|
//!
//!   an order of all calls in which each comes after those that had ended when it began, and in which the
//!   reference gives every call the outcome that was seen, and the same tree in the end (linearizability)
//! ```
//!
//! The search for the next call goes depth-first and remembers the states that it has been in. It first tries
//! the order in which the vfs says that the calls took effect, but does not rely on it. A call that changed
//! nothing and fits can never be better placed later, so there it does not branch. Calls that change nothing
//! have no place in that order. They are tried where they ended: an open may have waited for a rename in its
//! directory. After some steps without success the search starts again, with them before all changes. From
//! then on it tries the calls earlier that could not be placed any more.
//!
//! These calls are checked as atomic: create, remove and rename by name, and every read, write and truncate
//! of an open file, whatever its length, because the vfs holds the inode for the whole call. Other calls are
//! not atomic, as in Linux, and so must not be put into histories:
//! - [`Op::List`] of a directory that others change (several calls);
//! - walks through directories that others rename, and through symbolic links (each component is looked up on
//!   its own);
//! - calls that look a name up and then use the inode ([`Op::Link`]'s old name, [`Op::Chmod`],
//!   [`Op::Stat`]...) on names that others change. On names that stay they are atomic, and so is
//!   [`Op::Access`] with nothing wanted.

use super::tree::difference;
use super::{Op, Outcome, Snapshot, apply, is_unsupported, snapshot};
use crate::reference::{Limits, RefFs, RefProcess, RefState};
use granary_fs::Cred;
use granary_sim::{now, spawn};
use granary_units::Nanos;
use granary_vfs::Process;
use granary_vfs::Vfs;
use parking_lot::Mutex;
use rustc_hash::{FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A call that a task made.
#[derive(Clone, Debug)]
pub struct Event {
    /// The call.
    pub op: Op,
    /// Its outcome.
    pub outcome: Outcome,
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// Where its last change stands in the order of all changes: what the search tries first.
    pub hint: Option<u64>,
}

/// The calls of every task, and the tree that was left.
pub struct History {
    /// Calls made one after the other before the tasks started.
    pub setup: Vec<Op>,
    /// The calls of each task.
    pub tasks: Vec<Vec<Event>>,
    /// The tree in the end.
    pub tree: Snapshot,
}

/// Applies `setup` in one process, then `tasks` in one process each, at the same time; to be called in
/// virtual time. All processes are root's.
///
/// # Errors
/// Where the final tree could not be taken.
pub fn run_concurrently(vfs: &Arc<Vfs>, setup: Vec<Op>, tasks: Vec<Vec<Op>>) -> Result<History, String> {
    let mut first = Process::new(Arc::clone(vfs), Cred::ROOT);
    for op in &setup {
        apply(&mut first, op);
    }
    first.exit();
    vfs.watch_changes();
    let running: Vec<_> = tasks
        .into_iter()
        .enumerate()
        .map(|(n, ops)| {
            let vfs = Arc::clone(vfs);
            spawn(&format!("task {n}"), move || {
                let mut p = Process::new(Arc::clone(&vfs), Cred::ROOT);
                let mut events = Vec::new();
                for op in ops {
                    let start = now();
                    let outcome = apply(&mut p, &op);
                    if is_unsupported(&op, &outcome) {
                        continue;
                    }
                    events.push(Event { op, outcome, start, end: now(), hint: vfs.take_change() });
                }
                p.exit();
                events
            })
        })
        .collect();
    let tasks = running.into_iter().map(|t| t.join()).collect();
    let mut last = Process::new(Arc::clone(vfs), Cred::ROOT);
    let tree = snapshot(&mut last).map_err(|e| format!("cannot take the tree: {e}"))?;
    last.exit();
    Ok(History { setup, tasks, tree })
}

/// Looks for a serial order that explains the history.
///
/// # Errors
/// There is none; or none was found within `steps` calls of the reference, behind a first try of 20,000
/// (200,000 is plenty for 64 tasks of one call or 12 of three). The text says which of the two, and lists the
/// history.
pub fn check_history(history: &History, limits: Limits, steps: usize) -> Result<(), String> {
    let fs = Arc::new(Mutex::new(RefFs::new(limits)));
    let mut first = RefProcess::new(Arc::clone(&fs), Cred::ROOT);
    for op in &history.setup {
        apply(&mut first, op);
    }
    let fs = fs.lock().clone();
    let start = Position {
        fs,
        states: history.tasks.iter().map(|_| RefState::new(Cred::ROOT)).collect(),
        done: vec![0; history.tasks.len()],
    };
    let mut search = Search {
        history,
        steps: 0,
        seen: FxHashSet::default(),
        stuck: None,
        weights: history.tasks.iter().map(|t| vec![0; t.len()]).collect(),
        effects: effects(history),
        by_time: false,
    };
    let rounds = steps.div_ceil(ROUND).max(1);
    for round in 0..=rounds {
        search.steps = ROUND;
        search.by_time = round == 0;
        search.seen.clear();
        search.stuck = None;
        match search.explore(start.clone()) {
            Verdict::Explained => return Ok(()),
            Verdict::Impossible => return Err(search.report("no serial order explains this history")),
            Verdict::Undecided if search.by_time => {}
            Verdict::Undecided => search.learn(),
        }
    }
    Err(search.report("no serial order was found for this history"))
}

/// Calls of the reference before the search starts again: several dives, of up to 64 x 64 calls each.
const ROUND: usize = 20_000;

enum Verdict {
    Explained,
    Impossible,
    Undecided,
}

#[derive(Clone)]
struct Position {
    fs: RefFs,
    states: Vec<RefState>,
    /// Calls of each task that are behind us.
    done: Vec<usize>,
}

struct Search<'a> {
    history: &'a History,
    steps: usize,
    seen: FxHashSet<u64>,
    /// The most calls that could be explained, where that was, and why it did not go on.
    stuck: Option<(usize, Vec<usize>, String)>,
    /// How often each call could not be placed: the heavier come first.
    weights: Vec<Vec<u32>>,
    /// When each call took effect at the latest.
    effects: Vec<Vec<Nanos>>,
    /// Calls are tried in the order of `effects`.
    by_time: bool,
}

/// When each call took effect at the latest: when it ended, and a change before all that came after it in the
/// order of changes.
fn effects(history: &History) -> Vec<Vec<Nanos>> {
    let all = history.tasks.iter().flatten();
    let mut changes: Vec<(u64, Nanos)> = all.filter_map(|e| Some((e.hint?, e.end))).collect();
    changes.sort_unstable();
    for i in (1..changes.len()).rev() {
        changes[i - 1].1 = changes[i - 1].1.min(changes[i].1);
    }
    let latest = |e: &Event| match e.hint {
        Some(hint) => changes[changes.partition_point(|(other, _)| *other < hint)].1,
        None => e.end,
    };
    history.tasks.iter().map(|t| t.iter().map(latest).collect()).collect()
}

impl Search<'_> {
    /// Tasks whose next call may come next: it began before every call still to come had ended.
    fn enabled(&self, at: &Position) -> Vec<usize> {
        let next = |t: usize| self.history.tasks[t].get(at.done[t]);
        let tasks = 0..self.history.tasks.len();
        let first_end = tasks.clone().filter_map(|t| next(t).map(|e| e.end)).min().unwrap_or(Nanos::MAX);
        let mut able: Vec<_> = tasks.filter(|&t| next(t).is_some_and(|e| e.start <= first_end)).collect();
        able.sort_by_key(|&t| {
            let weight = std::cmp::Reverse(self.weights[t][at.done[t]]);
            let effect = if self.by_time { self.effects[t][at.done[t]] } else { Nanos::ZERO };
            (weight, effect, next(t).map(|e| (e.hint, e.end)))
        });
        able
    }

    /// The position after the next call of `task`, if the reference gives it the outcome that was seen; and
    /// whether it matters when the call comes.
    fn step(&mut self, at: &Position, task: usize) -> Option<(Position, bool)> {
        self.steps = self.steps.checked_sub(1)?;
        let event = &self.history.tasks[task][at.done[task]];
        let fs = Arc::new(Mutex::new(at.fs.clone()));
        let mut p = RefProcess::resume(Arc::clone(&fs), at.states[task].clone());
        let outcome = apply(&mut p, &event.op);
        if outcome != event.outcome {
            return None;
        }
        let changed = !fs.lock().is_same(&at.fs);
        if changed && event.hint.is_none() {
            // The outcome does not show it, but the vfs knows that it changed nothing.
            return None;
        }
        let last = at.done[task] + 1 == self.history.tasks[task].len();
        // A call that did change something may be of use to others later, even if it would change nothing
        // here.
        let changed = event.hint.is_some() || (!last && chooses(&event.op, &outcome));
        let mut to = Position { fs: fs.lock().clone(), states: at.states.clone(), done: at.done.clone() };
        to.states[task] = p.state();
        to.done[task] += 1;
        Some((to, changed))
    }

    fn explore(&mut self, start: Position) -> Verdict {
        let mut stack = vec![start];
        while let Some(at) = stack.pop() {
            if self.steps == 0 {
                return Verdict::Undecided;
            }
            let able = self.enabled(&at);
            if able.is_empty() {
                let tree = tree_of(&at.fs);
                match difference(&self.history.tree, &tree) {
                    None => return Verdict::Explained,
                    Some(d) => self.note(&at, format!("the final tree differs: {d}")),
                }
                continue;
            }
            let mut branches = Vec::new();
            let mut settled = None;
            for &task in &able {
                match self.step(&at, task) {
                    Some((to, false)) => {
                        settled = Some(to);
                        break;
                    }
                    Some((to, true)) => branches.push(to),
                    None => {}
                }
            }
            if let Some(to) = settled {
                stack.push(to);
                continue;
            }
            if branches.is_empty() {
                let stuck: Vec<_> =
                    able.iter().map(|&t| line(t, &self.history.tasks[t][at.done[t]])).collect();
                self.note(&at, format!("none of these could come next:\n{}", stuck.join("\n")));
            }
            // The last one pushed is explored first: the call that ended first.
            for to in branches.into_iter().rev() {
                if self.seen.insert(fingerprint(&to)) {
                    stack.push(to);
                }
            }
        }
        // Without steps left the last calls were not even tried.
        if self.steps == 0 { Verdict::Undecided } else { Verdict::Impossible }
    }

    /// Calls that could not be placed at the deepest point come earlier next time.
    fn learn(&mut self) {
        let Some((_, done, _)) = &self.stuck else { return };
        for (weights, &done) in self.weights.iter_mut().zip(done) {
            if let Some(w) = weights.get_mut(done) {
                *w += 1;
                // Earlier calls of its task have to come earlier, too.
                weights[..done].iter_mut().for_each(|w| *w += 1);
            }
        }
    }

    fn note(&mut self, at: &Position, why: String) {
        let done = at.done.iter().sum();
        if self.stuck.as_ref().is_none_or(|(best, ..)| done > *best) {
            self.stuck = Some((done, at.done.clone(), why));
        }
    }

    fn report(&self, verdict: &str) -> String {
        let mut all: Vec<_> =
            self.history.tasks.iter().enumerate().flat_map(|(t, e)| e.iter().map(move |e| (t, e))).collect();
        all.sort_by_key(|(_, e)| e.start);
        let lines: Vec<_> = all.iter().map(|(t, e)| line(*t, e)).collect();
        let (done, _, why) = self.stuck.clone().unwrap_or((0, Vec::new(), "ran out of steps".to_owned()));
        format!("{verdict}:\n{}\nafter {done} calls: {why}", lines.join("\n"))
    }
}

fn line(task: usize, e: &Event) -> String {
    format!(
        "{:>8}-{:<8} #{:<4} task {task}: {:?} -> {}",
        e.start.0,
        e.end.0,
        e.hint.map_or(-1, |h| h as i64),
        e.op,
        super::brief(&e.outcome)
    )
}

/// Whether a call chose an inode for later calls, which its outcome does not show.
fn chooses(op: &Op, outcome: &Outcome) -> bool {
    matches!(op, Op::Open { .. } | Op::Chdir(_)) && !matches!(outcome, Outcome::Failed(_))
}

fn tree_of(fs: &RefFs) -> Snapshot {
    let mut p = RefProcess::new(Arc::new(Mutex::new(fs.clone())), Cred::ROOT);
    snapshot(&mut p).expect("the reference does not fail root")
}

fn fingerprint(at: &Position) -> u64 {
    let mut h = FxHasher::default();
    at.done.hash(&mut h);
    at.states.iter().for_each(|s| s.digest(&mut h));
    for (path, entry) in tree_of(&at.fs) {
        path.hash(&mut h);
        entry.content.hash(&mut h);
        entry.first.hash(&mut h);
        entry.xattrs.hash(&mut h);
        (entry.shown.mode, entry.shown.uid, entry.shown.gid, entry.shown.nlink).hash(&mut h);
    }
    h.finish()
}
