//! [`Film`]: crash images of one run, taken while it goes on.
//!
//! ```text
//!   the run   command ── command ── [step: the log's tail moves  command ── command ] ── command ── ...
//!                 |                     |          |          |                             |
//!   images      wanted                 steps: as many in rare steps as elsewhere          wanted
//!               = a copy of all devices as they are, with what is under way, and of the promises
//! ```
//!
//! The power fails in the copies ([`Drive::fork`](granary_device::Drive::fork)), so that one run gives many
//! crash images: each costs its recovery and its check, not the load before it. Taking one takes no virtual
//! time and changes nothing in the run.

use super::place::{At, Phase};
use crate::faulty::{DevicePage, Faults, Given, Observer};
use crate::oracle::Promises;
use granary_device::{Devices, Structure};
use granary_sim::rng::Stream;
use granary_sim::{Watcher, now, sleep_until};
use granary_units::Nanos;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// All devices at one instant, and what was promised by then.
pub(super) struct Image {
    pub(super) devices: Devices,
    pub(super) promises: Promises,
    pub(super) now: Nanos,
    pub(super) phase: Phase,
    pub(super) at: At,
    /// The number of the last command, in this phase.
    pub(super) last: u64,
    /// The load had begun to run in this round.
    pub(super) ran: bool,
    /// Steps under way.
    pub(super) steps: Vec<&'static str>,
    /// The last command that was given.
    pub(super) given: Option<Given>,
    /// Pages that could not be read then.
    pub(super) unreadable: BTreeSet<DevicePage>,
    /// Structures that the written pages held, where they are asked for.
    pub(super) written: BTreeMap<DevicePage, Structure>,
}

/// The places of one phase that are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) commands: BTreeSet<(u64, bool)>,
    pub(super) instants: BTreeSet<Nanos>,
    /// Each of these commands, before and after.
    pub(super) every: Range<u64>,
}

impl Wanted {
    pub(super) fn one(at: At) -> Wanted {
        let mut wanted = Wanted::default();
        match at {
            At::Before(n) => drop(wanted.commands.insert((n, false))),
            At::After(n) => drop(wanted.commands.insert((n, true))),
            At::Instant(after) => drop(wanted.instants.insert(after)),
        }
        wanted
    }
}

/// The places that are wanted, by phase.
pub(super) type Places = BTreeMap<Phase, Wanted>;

/// How often steps were entered, and crashed in.
pub(super) type Seen = BTreeMap<&'static str, (u64, u64)>;

struct Reel {
    phase: Phase,
    ran: bool,
    /// Commands at the beginning of the phase.
    base: u64,
    /// Commands since then.
    last: u64,
    wanted: Wanted,
    /// Of the phases that have not begun.
    later: Places,
    /// A step has images beside those that are counted the first times it is met.
    for_firsts: bool,
    /// Images that steps may still have the first times they are met.
    for_new: usize,
    /// Images that steps may still have later.
    for_steps: usize,
    /// Commands of this phase that steps want.
    in_steps: BTreeSet<(u64, bool)>,
    /// Fences of this phase so far.
    fences: u64,
    /// Fences before which steps want one.
    at_fences: BTreeSet<u64>,
    /// Steps behind whose end one is wanted.
    behind: BTreeSet<&'static str>,
    /// The images that steps had in other lives of the run, in one behind a power failure.
    before: Option<BTreeMap<&'static str, u64>>,
    open: Vec<&'static str>,
    /// A drive has a command in hand.
    in_command: bool,
    /// The last command.
    given: Option<Given>,
    faults: Option<Arc<Faults>>,
    /// Steps of the drive that began and ended within the last command.
    within: Vec<&'static str>,
    seen: Seen,
    images: Vec<Image>,
    random: Stream,
    over: bool,
    /// The power fails with the first image: there is no copy of the devices.
    ends: bool,
}

/// See the module.
pub(super) struct Film {
    /// All instants that may be wanted come before.
    span: Nanos,
    devices: Devices,
    promises: Promises,
    reel: Mutex<Reel>,
}

/// Images are taken at one of so many commands from the beginning of a step on; a long step is met by those
/// that are drawn, too.
const INSIDE: u64 = 6;
/// A step that was met so often in one run has had its images.
const ENOUGH: u64 = 3;
/// So often a step has an image beside those that are counted.
const FIRSTS: u64 = 2;
/// One in so many of these times there is one more, before one of so many fences behind the step's end: what
/// a step gave away too early shows once another has written there.
const SEQUELS: (u64, u64) = (4, 4);
/// Until it had so many in a run, a step has one in each life behind a power failure, beside those that are
/// counted. Else the steps that each recovery has would leave none to the others.
const SCARCE: u64 = 4;
/// Fewer images than this are for a life behind a power failure, of which a run has many.
const FEW: usize = 5;

impl Film {
    /// Of `devices` themselves, not their wrappers. `for_steps`: so many images at most are taken in steps
    /// that are met for the first times, and as many in others; where they are not few, the first two times
    /// of each are free.
    pub(super) fn new(
        devices: Devices,
        promises: Promises,
        later: Places,
        for_steps: usize,
        span: Nanos,
        random: Stream,
    ) -> Arc<Film> {
        let reel = Reel {
            phase: Phase::Load,
            ran: false,
            base: 0,
            last: 0,
            wanted: Wanted::default(),
            later,
            for_firsts: for_steps >= FEW,
            for_new: for_steps,
            for_steps,
            in_steps: BTreeSet::new(),
            fences: 0,
            at_fences: BTreeSet::new(),
            behind: BTreeSet::new(),
            before: None,
            open: Vec::new(),
            in_command: false,
            given: None,
            faults: None,
            within: Vec::new(),
            seen: Seen::new(),
            images: Vec::new(),
            random,
            over: false,
            ends: false,
        };
        Arc::new(Film { span, devices, promises, reel: Mutex::new(reel) })
    }

    /// Steps that had few images so far have more: `before` says how many each had.
    pub(super) fn knows(&self, before: BTreeMap<&'static str, u64>) {
        self.reel.lock().before = Some(before);
    }

    /// A phase begins: places are counted from here.
    pub(super) fn phase(self: &Arc<Film>, phase: Phase, faults: &Arc<Faults>) {
        let instants = {
            let mut reel = self.reel.lock();
            (reel.phase, reel.base, reel.last) = (phase, faults.commands(), 0);
            reel.in_steps.clear();
            reel.at_fences.clear();
            reel.behind.clear();
            reel.faults = Some(Arc::clone(faults));
            reel.wanted = reel.later.remove(&phase).unwrap_or_default();
            // Some steps are of mounts only.
            if phase == Phase::Remount && reel.for_firsts {
                reel.for_new = reel.for_new.max(FEW);
            }
            std::mem::take(&mut reel.wanted.instants)
        };
        // The same task for as long, also where there are none: a replay has one of them, and which core a
        // task is on depends on how many there are.
        let (film, began, span) = (Arc::clone(self), now(), self.span);
        granary_sim::spawn("power cuts", move || {
            for after in instants {
                sleep_until(began + after);
                let mut reel = film.reel.lock();
                if reel.phase == phase && !reel.over {
                    film.take(&mut reel, At::Instant(after));
                    end(reel);
                }
            }
            sleep_until(began + span);
        });
    }

    /// The load runs from here on.
    pub(super) fn runs(&self) {
        self.reel.lock().ran = true;
    }

    /// Nothing is taken any more.
    pub(super) fn ends(&self) {
        self.reel.lock().over = true;
    }

    /// Of devices that have no copies: the power fails at the first place that is wanted, and the image is of
    /// the devices themselves.
    pub(super) fn ends_with_the_first(&self) {
        let mut reel = self.reel.lock();
        (reel.ends, reel.for_firsts, reel.for_new, reel.for_steps) = (true, false, 0, 0);
        reel.before = None;
    }

    /// The images, and which steps were seen.
    pub(super) fn develop(&self) -> (Vec<Image>, Seen) {
        let mut reel = self.reel.lock();
        reel.over = true;
        (std::mem::take(&mut reel.images), std::mem::take(&mut reel.seen))
    }

    fn take(&self, reel: &mut Reel, at: At) {
        // Devices without a second copy are refused before the run.
        let devices = if reel.ends { Some(self.devices.clone()) } else { self.devices.fork() };
        let Some(devices) = devices else { return };
        let steps: Vec<&'static str> = reel.open.iter().chain(&reel.within).copied().collect();
        for step in &steps {
            reel.seen.entry(step).or_default().1 += 1;
        }
        reel.images.push(Image {
            devices,
            promises: self.promises.fork(),
            now: now(),
            phase: reel.phase,
            at,
            last: reel.last,
            ran: reel.ran,
            steps,
            given: reel.given,
            unreadable: reel.faults.as_ref().map(|faults| faults.unreadable()).unwrap_or_default(),
            written: reel.faults.as_ref().map(|faults| faults.noted()).unwrap_or_default(),
        });
    }
}

/// The power fails behind an image, where that is the last.
fn end(mut reel: MutexGuard<'_, Reel>) {
    if reel.ends {
        reel.over = true;
        drop(reel);
        granary_sim::power_fail()
    }
}

impl Observer for Film {
    fn command(&self, n: u64, after: bool, given: &Given) {
        let mut reel = self.reel.lock();
        if reel.over {
            return;
        }
        let n = n - reel.base;
        (reel.last, reel.in_command, reel.given) = (n, !after, Some(*given));
        if !after {
            reel.within.clear();
        }
        let mut by_step = reel.in_steps.remove(&(n, after));
        if given.fences && !after {
            reel.fences += 1;
            let fence = reel.fences;
            by_step |= reel.at_fences.remove(&fence);
        }
        if reel.wanted.every.contains(&n) || reel.wanted.commands.contains(&(n, after)) || by_step {
            let at = if after { At::After(n) } else { At::Before(n) };
            self.take(&mut reel, at);
            end(reel);
        }
    }
}

impl Watcher for Film {
    fn enters(&self, step: &'static str) {
        let mut reel = self.reel.lock();
        let reel = &mut *reel;
        if reel.over {
            return;
        }
        reel.open.push(step);
        let met = &mut reel.seen.entry(step).or_default().0;
        *met += 1;
        let is_scarce = |before: &BTreeMap<&str, u64>| before.get(step).is_none_or(|had| *had < SCARCE);
        let is_first = match &reel.before {
            Some(before) => *met == 1 && is_scarce(before),
            None => *met <= FIRSTS && reel.for_firsts,
        };
        let is_new = *met <= ENOUGH;
        // Common steps must not take the images of one that is met late in a long run.
        let left = if is_new { reel.for_new } else { reel.for_steps };
        let passes = match (is_first, is_new) {
            (true, _) => false,
            // Where there are few, the steps that come first do not have them all.
            (_, true) => left == 0 || left < FEW && reel.random.chance(0.5),
            _ => left == 0 || reel.random.below(*met) > 0,
        };
        if passes {
            return;
        }
        if is_first && reel.random.below(SEQUELS.0) == 0 {
            reel.behind.insert(step);
        }
        // A drive takes a step within a command, which is whole in virtual time: the image is taken behind
        // it. Short steps of file systems have one command, and where two fences are to be apart that is
        // early: of two places the earlier one.
        let behind = reel.random.below(INSIDE).min(reel.random.below(INSIDE));
        // Right before a fence all is under way that the fence before it did not cover.
        if !reel.in_command && reel.random.chance(0.5) {
            if reel.at_fences.insert(reel.fences + 1 + behind / 2) && !is_first {
                *if is_new { &mut reel.for_new } else { &mut reel.for_steps } -= 1;
            }
            return;
        }
        let place = match reel.in_command {
            true => (reel.last, true),
            false => (reel.last + 1 + behind, behind > 0 && reel.random.chance(0.5)),
        };
        if reel.in_steps.insert(place) && !is_first {
            *if is_new { &mut reel.for_new } else { &mut reel.for_steps } -= 1;
        }
    }

    fn leaves(&self, step: &'static str) {
        let mut reel = self.reel.lock();
        let reel = &mut *reel;
        if let Some(i) = reel.open.iter().rposition(|open| *open == step) {
            reel.open.remove(i);
        }
        if reel.in_command {
            reel.within.push(step);
        }
        if reel.behind.remove(step) {
            let fence = reel.fences + 1 + reel.random.below(SEQUELS.1);
            reel.at_fences.insert(fence);
        }
    }
}

#[cfg(test)]
mod tests;
