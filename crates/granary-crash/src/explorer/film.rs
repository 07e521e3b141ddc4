//! [`Film`]: crash images of one run, taken while it goes on.
//!
//! ```text
//!   the run   command ── command ── [step: the log's tail moves  command ── command ] ── command ── ...
//!                 |                     |          |          |                             |
//!   images      wanted                 steps: as many in rare steps as elsewhere          wanted
//!               = a copy of all devices as they are, with what is under way, and of the promises
//! ```
//!
//! The power fails in the copies ([`Drive::fork`](granary_device::Drive::fork)), so that one run gives many crash images: each costs
//! its recovery and its check, not the load before it. Taking one takes no virtual time and changes nothing in the run.

use super::place::{At, Phase};
use crate::faulty::{Faults, Observer};
use crate::oracle::Promises;
use granary_device::Devices;
use granary_sim::rng::Stream;
use granary_sim::{Watcher, now, sleep_until};
use granary_units::Nanos;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All devices at one instant, and what was promised by then.
pub(super) struct Image {
    pub(super) devices: Devices,
    pub(super) promises: Promises,
    pub(super) now: Nanos,
    pub(super) phase: Phase,
    pub(super) at: At,
    /// The load had begun to run in this round.
    pub(super) ran: bool,
    /// Steps under way.
    pub(super) steps: Vec<&'static str>,
}

/// The places of one phase that are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) commands: BTreeSet<(u64, bool)>,
    pub(super) instants: BTreeSet<Nanos>,
    /// Every command, before and after.
    pub(super) all: bool,
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
    recovery: Wanted,
    load: Wanted,
    /// Images that steps may still have the first times they are met.
    for_new: usize,
    /// Images that steps may still have later.
    for_steps: usize,
    /// Commands of this phase that steps want.
    in_steps: BTreeSet<(u64, bool)>,
    open: Vec<&'static str>,
    /// A drive has a command in hand.
    in_command: bool,
    /// Steps of the drive that began and ended within the last command.
    within: Vec<&'static str>,
    seen: Seen,
    images: Vec<Image>,
    random: Stream,
    over: bool,
}

/// See the module.
pub(super) struct Film {
    /// All instants that may be wanted come before.
    span: Nanos,
    devices: Devices,
    promises: Promises,
    reel: Mutex<Reel>,
}

/// Images are taken at one of so many commands from the beginning of a step on; a long step is met by those that are drawn, too.
const INSIDE: u64 = 6;
/// A step that was met so often in one run has had its images.
const ENOUGH: u64 = 3;

impl Film {
    /// Of `devices` themselves, not their wrappers. `for_steps`: so many images at most are taken in steps that are met for the
    /// first times, and as many in others.
    pub(super) fn new(
        devices: Devices,
        promises: Promises,
        (recovery, load): (Wanted, Wanted),
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
            recovery,
            load,
            for_new: for_steps,
            for_steps,
            in_steps: BTreeSet::new(),
            open: Vec::new(),
            in_command: false,
            within: Vec::new(),
            seen: Seen::new(),
            images: Vec::new(),
            random,
            over: false,
        };
        Arc::new(Film { span, devices, promises, reel: Mutex::new(reel) })
    }

    /// A phase begins: places are counted from here.
    pub(super) fn phase(self: &Arc<Film>, phase: Phase, faults: &Faults) {
        let instants = {
            let mut reel = self.reel.lock();
            (reel.phase, reel.base, reel.last) = (phase, faults.commands(), 0);
            reel.in_steps.clear();
            reel.wanted = std::mem::take(match phase {
                Phase::Recovery => &mut reel.recovery,
                _ => &mut reel.load,
            });
            std::mem::take(&mut reel.wanted.instants)
        };
        // The same task for as long, also where there are none: a replay has one of them, and which core a task is on depends on how
        // many there are.
        let (film, began, span) = (Arc::clone(self), now(), self.span);
        granary_sim::spawn("power cuts", move || {
            for after in instants {
                sleep_until(began + after);
                let mut reel = film.reel.lock();
                if reel.phase == phase && !reel.over {
                    film.take(&mut reel, At::Instant(after));
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

    /// The images, and which steps were seen.
    pub(super) fn develop(&self) -> (Vec<Image>, Seen) {
        let mut reel = self.reel.lock();
        reel.over = true;
        (std::mem::take(&mut reel.images), std::mem::take(&mut reel.seen))
    }

    fn take(&self, reel: &mut Reel, at: At) {
        // Devices without a second copy are refused before the run.
        let Some(devices) = self.devices.fork() else { return };
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
            ran: reel.ran,
            steps,
        });
    }
}

impl Observer for Film {
    fn command(&self, n: u64, after: bool) {
        let mut reel = self.reel.lock();
        if reel.over {
            return;
        }
        let n = n - reel.base;
        (reel.last, reel.in_command) = (n, !after);
        if !after {
            reel.within.clear();
        }
        let by_step = reel.in_steps.remove(&(n, after));
        if reel.wanted.all || reel.wanted.commands.contains(&(n, after)) || by_step {
            let at = if after { At::After(n) } else { At::Before(n) };
            self.take(&mut reel, at);
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
        let is_new = *met <= ENOUGH;
        // Common steps must not take the images of one that is met late in a long run.
        let left = if is_new { reel.for_new } else { reel.for_steps };
        if left == 0 || (!is_new && reel.random.below(*met) > 0) {
            return;
        }
        // A drive takes a step within a command, which is whole in virtual time: the image is taken behind it. Short steps of file
        // systems have one command; half of their images are taken before the first.
        let behind = if reel.random.chance(0.5) { 0 } else { reel.random.below(INSIDE) };
        let place = match reel.in_command {
            true => (reel.last, true),
            false => (reel.last + 1 + behind, behind > 0 && reel.random.chance(0.5)),
        };
        if reel.in_steps.insert(place) {
            *if is_new { &mut reel.for_new } else { &mut reel.for_steps } -= 1;
        }
    }

    fn leaves(&self, step: &'static str) {
        let mut reel = self.reel.lock();
        if let Some(i) = reel.open.iter().rposition(|open| *open == step) {
            reel.open.remove(i);
        }
        if reel.in_command {
            reel.within.push(step);
        }
    }
}
