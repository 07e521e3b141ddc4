//! [`Explorer::minimise`]: the fewest calls of a run that still lead to a failure of the same kind.
//!
//! ```text
//!   all calls before the power failed ── those that change something ── whole clients ── halves, quarters, ... single calls
//!                       each part: left out; does the run still fail near that place (probe.rs)? then it stays out
//! ```
//!
//! This is delta debugging. It ends where no single call can be left out, or where the time is over. The place moves with the calls, and so
//! does what the devices are left with; kind.rs says which failures count as the same. Later power failures of a path stay as they are.
//! It costs nothing where no failure is: only a failure that somebody asks for is minimised.

use super::film::Places;
use super::kind::same;
use super::probe::{Hit, Probe};
use super::{Explorer, Failure};
use crate::recorded::{Answers, Begun, Calls, Tape};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A failure of a run in which few calls are made.
#[derive(Clone, Debug)]
pub struct Minimal {
    /// The failure; it names the calls that alone are made.
    pub failure: Failure,
    /// Those calls, in words, in the order of their beginnings.
    pub calls: Vec<String>,
    /// Calls of the whole run before the power failed.
    pub of: usize,
}

/// A run in which some calls alone are made.
pub(super) struct Short {
    answers: Arc<Answers>,
    pub(super) calls: Arc<Calls>,
}

impl Short {
    pub(super) fn tape(&self) -> Tape {
        Tape::playing(&self.answers, Calls::clone(&self.calls))
    }
}

impl Explorer {
    /// From now on, of run `seed` the given calls alone are made, where it is replayed or told.
    pub fn only(mut self, seed: u64, calls: &Calls) -> Explorer {
        let tape = Tape::default();
        self.taped(seed, Places::new(), &tape);
        self.short = Some(Short { answers: Arc::new(tape.take()), calls: Arc::new(calls.clone()) });
        self
    }

    /// Looks for the fewest calls that lead to a failure of the same kind, until `over` says that there is no time left.
    ///
    /// # Errors
    /// Why the failure is not minimised, in a few words.
    pub fn minimise(&mut self, failure: &Failure, over: &dyn Fn() -> bool) -> Result<Minimal, String> {
        let (best, answers, of) = {
            let probe = Probe::new(self, failure)?;
            let Some(whole) = probe.fails(&probe.begun, &|| false) else {
                return Err("it does not come again".into());
            };
            let mut search = Search { probe: &probe, over, best: whole };
            search.run();
            (search.best, Arc::clone(&probe.answers), probe.begun.len())
        };
        let calls = Arc::new(best.begun.iter().map(|begun| begun.call).collect());
        let before = self.short.replace(Short { answers, calls: Arc::clone(&calls) });
        let found = Failure { only: Some(calls), ..best.failure };
        let tale = self.tale(&found);
        self.short = before;
        let tale =
            tale.filter(|tale| same(failure, &tale.again)).ok_or("the short run does not fail again")?;
        let mut calls: Vec<String> = best.begun.iter().map(|begun| tale.until.words(begun)).collect();
        calls.extend(tale.until.cuts().map(ToString::to_string));
        Ok(Minimal { failure: tale.again, calls, of })
    }
}

struct Search<'a> {
    probe: &'a Probe<'a>,
    over: &'a dyn Fn() -> bool,
    best: Hit,
}

impl Search<'_> {
    fn run(&mut self) {
        self.without(|_, begun| begun.looks());
        let clients: BTreeSet<u32> = self.best.begun.iter().map(|begun| begun.call.client).collect();
        // A long run has dozens of clients, most of them of rounds before.
        let clients: Vec<u32> = clients.into_iter().collect();
        let mut part = clients.len();
        while part > 1 {
            part = part.div_ceil(2);
            for part in clients.chunks(part) {
                self.without(|_, begun| part.contains(&begun.call.client));
            }
        }
        let mut part = self.best.begun.len().div_ceil(2);
        while part > 0 && !(self.over)() {
            let fewer = self.sweep(part);
            part = match part {
                1 if fewer => 1,
                1 => 0,
                _ => part.div_ceil(2).min(self.best.begun.len().div_ceil(2).max(1)),
            };
        }
    }

    /// Leaves out parts of this many calls, one after the other. Says whether any stays out.
    fn sweep(&mut self, part: usize) -> bool {
        let (mut from, mut fewer) = (0, false);
        while from < self.best.begun.len() && !(self.over)() {
            if self.without(|n, _| (from..from + part).contains(&n)) {
                fewer = true;
            } else {
                from += part;
            }
        }
        fewer
    }

    /// Leaves out the calls that `out` says, if the run still fails without.
    fn without(&mut self, out: impl Fn(usize, &Begun) -> bool) -> bool {
        let all = self.best.begun.iter().enumerate();
        let kept: Vec<Begun> = all.filter(|(n, begun)| !out(*n, begun)).map(|(_, begun)| *begun).collect();
        if kept.len() == self.best.begun.len() || (self.over)() {
            return false;
        }
        // A load that goes astray may make others in their place.
        let hit = self.probe.fails(&kept, self.over).filter(|hit| hit.begun.len() < self.best.begun.len());
        hit.map(|hit| self.best = hit).is_some()
    }
}
