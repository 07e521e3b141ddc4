//! [`InFlight`]: commands that have been submitted but not yet acknowledged, where they are tracked.
//!
//! ```text
//!   submit ──> | page 4 | page 5 | trim 9 | commit 17 | ...      each with its completion instant
//!                  | instant passed: acknowledged                  | power fails before
//!                  v                                               v
//!             takes effect                              pages, trims: each on its own takes effect or not
//!                                                       commits: the first k of them do; a companion's: each
//!                                                       as a whole
//! ```
//!
//! While tracking is on, a command's effect on the drive's state waits here until its completion instant. So
//! nothing has ever to be undone: effects that power loss finds here either land or are gone. Reads see
//! through it, and a later access to the same page lets it land first, so that a running drive behaves as if
//! tracking were off.
//!
//! Source: docs/FAULT_MODEL.md.

use crate::companion::{Pending, Reach, Seen};
use granary_sim::rng::{Stream, Thing};
use granary_units::{Lpa, Nanos, Page, TxId};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// Which lines of a page have got to the medium, where it tears: some of its sectors of 512 B and not all.
/// `None`: all of it has. Nothing is drawn where pages are whole.
pub fn torn(random: &mut Stream, tears: bool) -> Option<u64> {
    if !tears || random.chance(0.5) {
        return None;
    }
    const SECTORS: u64 = 8;
    let sectors = 1 + random.below((1 << SECTORS) - 2);
    Some((0..SECTORS).filter(|n| sectors >> n & 1 == 1).map(|n| 0xff << (n * 8)).sum())
}

/// Effects of commands on the drive's state.
#[derive(Clone, Debug)]
pub enum Effect {
    /// A page gets new content.
    Write(Lpa, Page),
    /// A page loses its content.
    Trim(Lpa),
    /// A transaction is committed.
    Commit(TxId),
    /// The effect of a companion's command.
    Own(Box<dyn Pending>),
}

impl Effect {
    /// The thing whose fate is drawn at a power failure.
    fn thing(&self) -> Thing {
        match self {
            Effect::Write(lpa, _) => Thing::Page("write", lpa.0),
            Effect::Trim(lpa) => Thing::Page("trim", lpa.0),
            Effect::Commit(_) => Thing::Other("commit"),
            Effect::Own(pending) => pending.thing(),
        }
    }

    fn concerns(&self, page: Lpa) -> bool {
        match self {
            Effect::Write(lpa, _) | Effect::Trim(lpa) => *lpa == page,
            Effect::Commit(_) => false,
            Effect::Own(pending) => pending.concerns(page),
        }
    }

    fn seen(&self, page: Lpa) -> Seen {
        match self {
            Effect::Write(_, page) => Seen::Content(page.clone()),
            Effect::Own(pending) => pending.seen(page),
            Effect::Trim(_) | Effect::Commit(_) => Seen::Content(Page::ZERO),
        }
    }

    fn reach(&self) -> Reach {
        match self {
            Effect::Write(lpa, _) | Effect::Trim(lpa) => Reach::Page(*lpa),
            Effect::Commit(_) => Reach::Nothing,
            Effect::Own(pending) => pending.reach(),
        }
    }

    /// Whether it changes a companion's tables, so that its place among others matters.
    fn is_own(&self) -> bool {
        matches!(self, Effect::Own(_))
    }
}

/// Of so many write commands one is late, where some are to be.
const LATE: u64 = 4;
/// How late at most: several times what a program of a page and whatever else waits for that takes.
const LATEST: Nanos = Nanos::from_micros(300);

/// Effects that wait for their completion instant, in order of submission.
#[derive(Clone, Default)]
pub struct InFlight {
    effects: Vec<(Nanos, Effect)>,
    /// How many effects concern a page alone: a trim of a drive has one for each page, and each asks whether
    /// there are others.
    on_page: FxHashMap<u64, u32>,
    /// Effects that concern ranges of pages.
    of_ranges: usize,
    /// Draws which writes are late.
    late: Option<Stream>,
}

impl InFlight {
    /// See [`granary_device::Drive::answer_late`].
    pub fn answer_late(&mut self, seed: Option<u64>) {
        self.late = seed.map(|seed| Stream::new(seed, "late writes"));
    }

    /// How late the next write command is, beyond the time that it takes.
    pub fn lateness(&mut self) -> Nanos {
        let Some(late) = &mut self.late else { return Nanos::ZERO };
        if late.below(LATE) == 0 { Nanos(late.below(LATEST.0)) } else { Nanos::ZERO }
    }

    /// Adds an effect that is acknowledged at `done`.
    pub fn push(&mut self, done: Nanos, effect: Effect) {
        match effect.reach() {
            Reach::Page(lpa) => *self.on_page.entry(lpa.0).or_default() += 1,
            Reach::Pages => self.of_ranges += 1,
            Reach::Nothing => {}
        }
        self.effects.push((done, effect));
    }

    /// Whether an effect concerns this page.
    #[inline]
    fn concerns(&self, lpa: Lpa) -> bool {
        self.of_ranges > 0 || self.on_page.contains_key(&lpa.0)
    }

    /// Takes out the effects that are wanted.
    fn take(&mut self, wanted: impl FnMut(&mut (Nanos, Effect)) -> bool) -> Vec<(Nanos, Effect)> {
        let out: Vec<_> = self.effects.extract_if(.., wanted).collect();
        for (_, effect) in &out {
            let reach = effect.reach();
            self.of_ranges -= usize::from(reach == Reach::Pages);
            if let Reach::Page(lpa) = reach
                && let Entry::Occupied(mut count) = self.on_page.entry(lpa.0)
            {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        out
    }

    /// Whether nothing is in flight.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// The last completion instant.
    pub fn last(&self) -> Nanos {
        self.effects.iter().map(|(done, _)| *done).max().unwrap_or(Nanos::ZERO)
    }

    /// Takes out what is acknowledged by `now`, in order of completion; what changes a companion's tables in
    /// order of submission, with all that was submitted before.
    pub fn acknowledged(&mut self, now: Nanos) -> Vec<(Nanos, Effect)> {
        let last_own = self.effects.iter().rposition(|(done, e)| *done <= now && e.is_own());
        let mut position = 0;
        let taken = |(done, e): &mut (Nanos, Effect)| {
            position += 1;
            *done <= now || (e.is_own() && last_own.is_some_and(|last| position <= last))
        };
        let mut out = self.take(taken);
        let mut last = Nanos::ZERO;
        for (done, _) in out.iter_mut().filter(|(_, e)| e.is_own()) {
            last = last.max((*done).min(now));
            *done = last;
        }
        out.sort_by_key(|(done, _)| *done);
        out
    }

    /// Takes out everything that concerns a page or one of its other names.
    pub fn of_pages(&mut self, lpa: Lpa, names: &[Lpa]) -> Vec<(Nanos, Effect)> {
        if !self.concerns(lpa) && !names.iter().any(|&name| self.concerns(name)) {
            return Vec::new();
        }
        self.take(|(_, e)| e.concerns(lpa) || names.iter().any(|&name| e.concerns(name)))
    }

    /// Whether something in flight changes a companion's tables and concerns a page.
    pub fn is_own(&self, lpa: Lpa) -> bool {
        self.concerns(lpa) && self.effects.iter().any(|(_, e)| e.is_own() && e.concerns(lpa))
    }

    /// Pages of block writes that are on their way.
    pub fn pages(&self) -> usize {
        let brings_page = |e: &Effect| match e {
            Effect::Write(..) => true,
            Effect::Own(pending) => pending.brings_page(),
            Effect::Trim(_) | Effect::Commit(_) => false,
        };
        self.effects.iter().filter(|(_, e)| brings_page(e)).count()
    }

    /// The effects of companions' commands, in order of submission.
    pub fn own(&self) -> impl Iterator<Item = &dyn Pending> {
        self.effects.iter().filter_map(|(_, e)| match e {
            Effect::Own(pending) => Some(&**pending),
            _ => None,
        })
    }

    /// Takes out everything that changes a companion's tables, trims included.
    pub fn take_own(&mut self) -> Vec<(Nanos, Effect)> {
        self.take(|(_, e)| e.is_own() || matches!(e, Effect::Trim(_)))
    }

    /// Content that a read of the page sees, if something in flight concerns it.
    #[inline]
    pub fn seen(&self, lpa: Lpa) -> Option<Seen> {
        if !self.concerns(lpa) {
            return None;
        }
        self.effects.iter().rev().find(|(_, e)| e.concerns(lpa)).map(|(_, e)| e.seen(lpa))
    }

    /// Power fails: takes everything out; returns what lands.
    pub fn torn(&mut self, random: &mut Stream) -> Vec<Effect> {
        let commits = self.effects.iter().filter(|(_, e)| matches!(e, Effect::Commit(_))).count() as u64;
        let mut prefix =
            random.fate(Thing::Other("commits"), commits, |random| random.below(commits + 1)).min(commits);
        let mut landed = Vec::new();
        (self.on_page, self.of_ranges) = Default::default();
        for (_, effect) in self.effects.drain(..) {
            let lands = match effect {
                Effect::Commit(_) => {
                    let first = prefix > 0;
                    prefix = prefix.saturating_sub(1);
                    first
                }
                _ => random.survives(effect.thing()),
            };
            if lands {
                landed.push(effect);
            }
        }
        landed
    }
}
