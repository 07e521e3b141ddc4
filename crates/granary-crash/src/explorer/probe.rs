//! [`Probe`]: whether a run with some of its calls left out still fails near the place where the whole run
//! failed.
//!
//! ```text
//!   whole run    ──[call 2.9 begins]── k commands ──X                   the power fails in call 2.9 or soon
//!                                                                       behind it
//!   fewer calls  ──[call 2.9 begins]── k commands ──X                   here the call begins at another
//!                                                                       command
//!                                       k-6 .. k+6                      before and after each of these, some
//!                                                                       draws
//! ```

use super::film::{Image, Places, Wanted};
use super::kind::same;
use super::place::{At, Path, Phase, Place};
use super::{Explorer, Failure, Report};
use crate::recorded::{Answers, Begun, CallId, Calls, Tape};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Commands around the place that are tried where the call that was under way last is still there.
const NEAR: i64 = 6;
/// The same, for a call of another client.
const NEARER: i64 = 2;
/// Where all calls begin within so many commands, each of these is tried behind the places that are near.
const SHORT: i64 = 48;
/// So many commands behind the last call.
const BEHIND: i64 = 16;
/// Calls that places are counted from, at most.
const ANCHORS: usize = 3;
/// States of each image, beside the one in which the whole run failed.
const DRAWS: u32 = 2;

/// A failure of a whole run.
pub(super) struct Probe<'a> {
    explorer: &'a Explorer,
    failure: &'a Failure,
    first: Place,
    pub(super) answers: Arc<Answers>,
    /// Calls that began before the power failed.
    pub(super) begun: Vec<Begun>,
    /// The last calls of clients, the very last one first, and how many commands behind their beginnings the
    /// power failed.
    anchors: Vec<(CallId, i64)>,
    /// The last command before the power failed.
    last: u64,
    /// How far from the place, in commands, the last failure was.
    lucky: Cell<i64>,
}

/// A failure of the same kind.
pub(super) struct Hit {
    pub(super) failure: Failure,
    /// Calls that were made before the power failed.
    pub(super) begun: Vec<Begun>,
}

impl Explorer {
    /// Does a run once more for its images, or for what is on the tape then. Whether it ends well is of no
    /// interest.
    pub(super) fn taped(&self, seed: u64, wanted: Places, tape: &Tape) -> Vec<Image> {
        self.trunk(seed, wanted, 0, Some(tape), &mut Report::default()).1
    }
}

impl<'a> Probe<'a> {
    /// Does the whole run once more. `Err` says why nothing can be left out.
    pub(super) fn new(explorer: &'a Explorer, failure: &'a Failure) -> Result<Probe<'a>, &'static str> {
        let first = *failure.path.0.first().ok_or("no power failure led to it")?;
        let tape = Tape::default();
        let wanted = Places::from([(first.phase, Wanted::one(first.at))]);
        let images = explorer.taped(failure.seed, wanted, &tape);
        let image = images.first().ok_or("it does not come again")?;
        let mut begun = tape.begun();
        if first.phase == Phase::Load {
            begun.retain(|begun| begun.commands < image.last.max(1));
        }
        let mut lasts: BTreeMap<u32, (usize, &Begun)> = BTreeMap::new();
        for (order, begun) in begun.iter().enumerate() {
            lasts.insert(begun.call.client, (order, begun));
        }
        let mut lasts: Vec<(usize, &Begun)> = lasts.into_values().collect();
        lasts.sort_by_key(|(order, _)| std::cmp::Reverse(*order));
        let behind = |begun: &Begun| image.last as i64 - begun.commands as i64;
        let anchors = lasts.iter().map(|(_, begun)| (begun.call, behind(begun))).collect();
        let (answers, last) = (Arc::new(tape.take()), image.last);
        Ok(Probe { explorer, failure, first, answers, begun, anchors, last, lucky: Cell::new(0) })
    }

    /// A failure of the same kind in the run in which `kept` alone are made.
    pub(super) fn fails(&self, kept: &[Begun], over: &dyn Fn() -> bool) -> Option<Hit> {
        let calls: Calls = kept.iter().map(|begun| begun.call).collect();
        let seed = self.failure.seed;
        let tape = Tape::playing(&self.answers, calls.clone());
        if self.first.phase == Phase::Load {
            self.explorer.taped(seed, Places::new(), &tape);
        }
        let begun = tape.begun();
        let places = self.places(&begun);
        let mut wanted = Wanted::default();
        for at in places.iter().map(|(at, _)| Wanted::one(*at)) {
            wanted.commands.extend(at.commands);
            wanted.instants.extend(at.instants);
        }
        let (tape, wanted) =
            (Tape::playing(&self.answers, calls), Places::from([(self.first.phase, wanted)]));
        let images = self.explorer.taped(seed, wanted, &tape);
        for (at, distance) in places {
            let Some(image) = images.iter().find(|image| image.at == at) else { continue };
            if over() {
                return None;
            }
            if let Some(failure) = self.fails_at(at, &images) {
                self.lucky.set(distance);
                let mut begun = tape.begun();
                if self.first.phase == Phase::Load {
                    begun.retain(|begun| begun.commands < image.last.max(1));
                }
                return Some(Hit { failure, begun });
            }
        }
        None
    }

    fn fails_at(&self, at: At, images: &[Image]) -> Option<Failure> {
        let own = Some((self.first.draw, self.first.listed));
        let drawn = (0..DRAWS).map(|draw| (draw, false)).filter(|drawn| Some(*drawn) != own);
        own.into_iter().chain(drawn).find_map(|(draw, listed)| {
            let place = Place { at, draw, listed, ..self.first };
            let path = Path([place].into_iter().chain(self.failure.path.0[1..].iter().copied()).collect());
            let failed = self.explorer.cut_again(self.failure.seed, &path, images, None, &mut |_| ());
            failed.err().filter(|failure| same(self.failure, failure))
        })
    }

    /// Places to look at, the likely ones first, each with its distance from where the whole run says.
    fn places(&self, begun: &[Begun]) -> Vec<(At, i64)> {
        let begins = |call| begun.iter().find(|begun| begun.call == call).map(|begun| begun.commands as i64);
        let mut ends: Vec<(i64, i64)> = match self.first.phase {
            Phase::Load => {
                let still = self.anchors.iter().filter_map(|(call, behind)| Some(begins(*call)? + behind));
                still.zip(std::iter::once(NEAR).chain(std::iter::repeat(NEARER))).take(ANCHORS).collect()
            }
            _ => vec![(self.last as i64, NEAR)],
        };
        if ends.is_empty() {
            ends.extend(begun.last().map(|last| (last.commands as i64 + NEAR, NEAR)));
        }
        let lucky = self.lucky.get();
        let mut places = vec![(self.first.at, 0)];
        for (end, near) in ends {
            let mut distances: Vec<i64> = (-near..=near).collect();
            distances.sort_by_key(|distance| ((distance - lucky).abs(), *distance));
            for distance in distances.into_iter().filter(|distance| end + distance > 0) {
                let n = (end + distance) as u64;
                places.extend([(At::Before(n), distance), (At::After(n), distance)]);
            }
        }
        if let (Phase::Load, [first, .., last]) = (self.first.phase, begun) {
            let (first, last) = (first.commands as i64, last.commands as i64 + BEHIND);
            let all = (first + 1..=last).take_while(|_| last - first <= SHORT + BEHIND);
            places
                .extend(all.flat_map(|n| [At::Before(n as u64), At::After(n as u64)].map(|at| (at, lucky))));
        }
        let mut seen = BTreeSet::new();
        places.retain(|(at, _)| seen.insert(*at));
        places
    }
}
