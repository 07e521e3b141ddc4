//! [`InFlight`]: commands that have been submitted but not yet acknowledged, where they are tracked.
//!
//! ```text
//!   submit ──> | page 4 | page 5 | trim 9 | commit 17 | ...      each with its completion instant
//!                  | instant passed: acknowledged                  | power fails before
//!                  v                                               v
//!             takes effect                              pages, trims: each on its own takes effect or not
//!                                                       commits: the first k of them do
//! ```
//!
//! While tracking is on, a command's effect on the drive's state waits here until its completion instant. So nothing
//! has ever to be undone: what power loss finds here either lands or is gone. Reads see through it, and a later access to
//! the same page lets it land first, so that a running drive behaves as if tracking were off.
//!
//! Source: docs/FAULT_MODEL.md.

use granary_sim::rng::Stream;
use granary_units::{Lpa, Nanos, Page, TxId};

/// What a command does to the drive's state.
#[derive(Clone, Debug)]
pub enum Effect {
    /// A page gets new content.
    Write(Lpa, Page),
    /// A page loses its content.
    Trim(Lpa),
    /// A transaction is committed.
    Commit(TxId),
}

impl Effect {
    fn lpa(&self) -> Option<Lpa> {
        match self {
            Effect::Write(lpa, _) | Effect::Trim(lpa) => Some(*lpa),
            Effect::Commit(_) => None,
        }
    }
}

/// Effects that wait for their completion instant, in order of submission.
#[derive(Default)]
pub struct InFlight(Vec<(Nanos, Effect)>);

impl InFlight {
    /// Adds an effect that is acknowledged at `done`.
    pub fn push(&mut self, done: Nanos, effect: Effect) {
        self.0.push((done, effect));
    }

    /// Whether nothing is in flight.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last completion instant.
    pub fn last(&self) -> Nanos {
        self.0.iter().map(|(done, _)| *done).max().unwrap_or(Nanos::ZERO)
    }

    /// Takes out what is acknowledged by `now`, in order of completion.
    pub fn acknowledged(&mut self, now: Nanos) -> Vec<(Nanos, Effect)> {
        let mut out: Vec<_> = self.0.extract_if(.., |(done, _)| *done <= now).collect();
        out.sort_by_key(|(done, _)| *done);
        out
    }

    /// Takes out everything that concerns a page.
    pub fn of_page(&mut self, lpa: Lpa) -> Vec<(Nanos, Effect)> {
        self.0.extract_if(.., |(_, e)| e.lpa() == Some(lpa)).collect()
    }

    /// What a read of the page sees, if something in flight concerns it.
    pub fn seen(&self, lpa: Lpa) -> Option<Page> {
        self.0.iter().rev().find(|(_, e)| e.lpa() == Some(lpa)).map(|(_, e)| match e {
            Effect::Write(_, page) => page.clone(),
            Effect::Trim(_) | Effect::Commit(_) => Page::ZERO,
        })
    }

    /// Power fails: takes everything out; returns what lands.
    pub fn torn(&mut self, random: &mut Stream) -> Vec<Effect> {
        let commits = self.0.iter().filter(|(_, e)| matches!(e, Effect::Commit(_))).count() as u64;
        let mut prefix = random.below(commits + 1);
        let mut landed = Vec::new();
        for (_, effect) in self.0.drain(..) {
            let lands = match effect {
                Effect::Commit(_) => {
                    let first = prefix > 0;
                    prefix = prefix.saturating_sub(1);
                    first
                }
                Effect::Write(..) | Effect::Trim(_) => random.chance(0.5),
            };
            if lands {
                landed.push(effect);
            }
        }
        landed
    }
}
