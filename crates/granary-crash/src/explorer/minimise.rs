//! [`Explorer::minimise`]: the fewest calls of a run that still lead to a failure of the same kind.
//!
//! ```text
//!   all calls before the power failed ── those that change something ── whole clients
//!                                     ── halves, quarters, ... single calls
//!                       each part: left out; does the run still fail near that place (probe.rs)? then it
//!                       stays out
//! ```
//!
//! This is delta debugging. It ends where no single call can be left out, or where the time is over. The
//! place and the final state of the devices change with the calls; kind.rs says which failures count as the
//! same. Power failures of a path are left out before (fewer.rs); those that stay are where they were.
//! Damages of media and errors of metadata have searches of their own (media.rs, fewer_errors.rs). A run
//! without a failure costs nothing more: only a failure that somebody asks for is minimised.

use super::film::Places;
use super::kind::same;
use super::place::Phase;
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
    /// Of run `seed`, which is done once for its answers.
    pub(super) fn new(explorer: &Explorer, seed: u64, calls: &Arc<Calls>) -> Short {
        let tape = Tape::default();
        explorer.taped(seed, Places::new(), &tape);
        Short { answers: Arc::new(tape.take()), calls: Arc::clone(calls) }
    }

    pub(super) fn tape(&self) -> Tape {
        Tape::playing(&self.answers, Calls::clone(&self.calls))
    }
}

impl Explorer {
    /// From now on, of run `seed` the given calls alone are made, where it is replayed or told.
    pub fn only(mut self, seed: u64, calls: &Calls) -> Explorer {
        self.short = Some(Short::new(&self, seed, &Arc::new(calls.clone())));
        self
    }

    /// Looks for the fewest power failures, then for the fewest calls that lead to a failure of the same
    /// kind, until `over` says that there is no time left.
    ///
    /// # Errors
    /// Why the failure is not minimised, in a few words.
    pub fn minimise(&mut self, failure: &Failure, over: &dyn Fn() -> bool) -> Result<Minimal, String> {
        if failure.only.is_some() {
            return Err("calls are left out already".into());
        }
        match failure.path.0.first().ok_or("no power failure led to it")?.phase {
            // There is no call: the command is told.
            Phase::Making => self.in_words(failure, failure.clone(), &[], 0),
            Phase::Damaged => self.minimise_damage(failure, over),
            Phase::Erring => self.minimise_errors(failure, over),
            _ => self.minimise_run(&self.fewer_cuts(failure, over), over),
        }
    }

    fn minimise_run(&mut self, failure: &Failure, over: &dyn Fn() -> bool) -> Result<Minimal, String> {
        let (best, answers, of) = {
            let probe = Probe::new(self, failure)?;
            let fails = |kept: &[Begun], over: &dyn Fn() -> bool| probe.fails(kept, over);
            let best = fewest_calls(&probe.begun, &fails, over)?;
            (best, Arc::clone(&probe.answers), probe.begun.len())
        };
        self.minimal(failure, best, answers, of)
    }

    /// Result of a search; it is done once more, with a story.
    pub(super) fn minimal(
        &mut self,
        failure: &Failure,
        best: Hit,
        answers: Arc<Answers>,
        of: usize,
    ) -> Result<Minimal, String> {
        let calls = Arc::new(best.begun.iter().map(|begun| begun.call).collect());
        let before = self.short.replace(Short { answers, calls: Arc::clone(&calls) });
        let found = Failure { only: Some(calls), ..best.failure };
        let minimal = self.in_words(failure, found, &best.begun, of);
        self.short = before;
        minimal
    }

    fn in_words(
        &mut self,
        failure: &Failure,
        found: Failure,
        begun: &[Begun],
        of: usize,
    ) -> Result<Minimal, String> {
        let tale = self.tale(&found).filter(|tale| same(failure, &tale.again));
        let tale = tale.ok_or(if of == 0 { AGAIN } else { "the short run does not fail again" })?;
        let mut calls: Vec<String> = begun.iter().map(|begun| tale.until.words(begun)).collect();
        calls.extend(tale.until.cuts().map(ToString::to_string));
        Ok(Minimal { failure: tale.again, calls, of })
    }
}

/// Why a failure is not minimised.
pub(super) const AGAIN: &str = "it does not come again";

/// Whether the run fails in which these calls alone are made.
type Fails<'a> = dyn Fn(&[Begun], &dyn Fn() -> bool) -> Option<Hit> + 'a;

/// The fewest of these calls with which the run fails.
///
/// # Errors
/// With all of them it does not.
pub(super) fn fewest_calls(
    begun: &[Begun],
    fails: &Fails<'_>,
    over: &dyn Fn() -> bool,
) -> Result<Hit, &'static str> {
    let best = fails(begun, &|| false).ok_or(AGAIN)?;
    let mut search = Search { fails, over, best };
    search.run();
    Ok(search.best)
}

struct Search<'a> {
    fails: &'a Fails<'a>,
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
        let hit = (self.fails)(&kept, self.over).filter(|hit| hit.begun.len() < self.best.begun.len());
        hit.map(|hit| self.best = hit).is_some()
    }
}
