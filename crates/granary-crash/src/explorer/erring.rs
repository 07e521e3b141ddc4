//! Errors of metadata: its writes, its reads and FLUSH fail, while the power stays on.
//!
//! ```text
//!   mount ── load ──e──e── load once more, sync ──┬── unmount ────────────┬── power off, the drive is well
//!                                                 ├── well again, unmount ┤   again
//!                                                 └───────────────────────┘   `── mount ── check ── verify
//!                                                                                 ── load ...
//! ```
//!
//! 1. No call panics, and none waits for ever.
//! 2. A call that has failed, or behind which the file system became read-only, promises nothing. Any other
//!    keeps its promise: what was durable before the error stays so, and what an fsync says after it is true.
//! 3. On a drive that is well the file system mounts, `check()` is content, and a load works on.
//!
//! Each try is a run of its own, with a stream of its own: the runs of other modes stay as they are.

use super::life::{self, Machine};
use super::mission::{Mission, Outcome};
use super::place::{At, Path, Phase, Place};
use super::report::NO_PLACE;
use super::{Bounds, Errors, Explorer, Failure, Report};
use crate::faulty::{Choice, Given, MetadataErrors, Nth};
use crate::load::Clients;
use crate::oracle::Story;
use crate::recorded::{Calls, Tape};
use crate::watch::Watched;
use granary_device::Devices;
use granary_fs::Caller;
use granary_sim::rng::Stream;
use granary_vfs::Vfs;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Tries of one run.
const TRIES: u64 = 12;
/// Rounds of the load behind the first error, too: what a file system does that has met one.
const ROUNDS: u32 = 2;
/// One in so many recovered file systems goes on with its load.
const GOES_ON: u64 = 4;

/// How a try ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    Unmount,
    /// The drive is well before.
    Well,
    PowerOff,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Unmount => "the file system is unmounted, then the drive is well",
            End::Well => "the drive is well, then the file system is unmounted",
            End::PowerOff => "the power fails, then the drive is well",
        })
    }
}

/// Which try of a run. It stands in the place of a replay line, so the line draws the same whatever a run of
/// its load has become.
#[derive(Clone, Copy)]
pub(super) struct Try {
    n: u64,
    /// Fewer than two to the power of this many commands are spared before the first that fails.
    magnitudes: u32,
}

/// A try that was made.
pub(super) struct Tried {
    pub(super) end: End,
    /// Commands that failed.
    pub(super) failed: Vec<(Nth, Given)>,
    /// Where somebody wants to hear it.
    pub(super) story: Option<Story>,
    pub(super) ended: Result<Errors, Failure>,
}

impl Tried {
    fn ended(ended: Result<Errors, Failure>) -> Tried {
        Tried { end: End::PowerOff, failed: Vec::new(), story: None, ended }
    }
}

impl Explorer {
    /// Runs the load up to twelve times, each with other errors of metadata.
    pub fn erring(&self, seed: u64) -> Report {
        self.erring_until(seed, &Bounds::NONE)
    }

    /// The same, within bounds.
    pub fn erring_until(&self, seed: u64, bounds: &Bounds<'_>) -> Report {
        let mut report = Report::default();
        for n in 0..TRIES {
            if bounds.are_met(&report) {
                break;
            }
            report.points += 1;
            match self.attempt(seed, self.new_try(n), None, None).ended {
                Ok(met) => report.coverage.errors.add(&met),
                Err(failure) => {
                    report.coverage.errors.tries += 1;
                    report.failures.push(failure);
                }
            }
        }
        report
    }

    /// Does a try of run `seed` once more; where calls are named, with these alone and the commands that fail
    /// behind them.
    pub(super) fn erring_again(&self, seed: u64, place: Place) -> Tried {
        let n = match self.try_at(seed, place) {
            Ok(n) => n,
            Err(failure) => return Tried::ended(Err(failure)),
        };
        let Some(short) = &self.short else { return self.attempt(seed, n, None, None) };
        let calls = &short.calls;
        let whole = Tape::default();
        self.attempt(seed, n, Some(&whole), Some(calls.failing()));
        let tape = Tape::playing(&Arc::new(whole.take()), Calls::clone(calls));
        let tried = self.attempt(seed, n, Some(&tape), Some(calls.failing()));
        match tape.not_begun() {
            Some(what) => Tried::ended(Err(self.failure(seed, NO_PLACE.into(), vec![what]))),
            None => tried,
        }
    }

    /// The `n`-th try of a run of this load, which is as long as it is with the code of today.
    fn new_try(&self, n: u64) -> Try {
        let many = self.extent.commands * u64::from(ROUNDS);
        Try { n, magnitudes: many.ilog2() + 1 }
    }

    /// The try at a place.
    pub(super) fn try_at(&self, seed: u64, place: Place) -> Result<Try, Failure> {
        match place.at {
            // Lines of earlier times do not say how long the run was.
            At::Before(n) if n < TRIES && place.draw == 0 => Ok(self.new_try(n)),
            At::Before(n) if n < TRIES && place.draw <= u64::BITS => Ok(Try { n, magnitudes: place.draw }),
            _ => {
                let what = format!("'{place}' is no try: i0-.0 to i{}-.{} are", TRIES - 1, u64::BITS);
                Err(self.failure(seed, NO_PLACE.into(), vec![what]))
            }
        }
    }

    /// One try, of which calls are recorded or left out; `failing`: the commands that fail, where not those
    /// that were drawn.
    pub(super) fn attempt(
        &self,
        seed: u64,
        which: Try,
        tape: Option<&Tape>,
        failing: Option<&BTreeSet<Nth>>,
    ) -> Tried {
        let Try { n, magnitudes } = which;
        let (phase, at) = (Phase::Erring, At::Before(n));
        let path = Path::default().then(Place { phase, at, draw: magnitudes, listed: false });
        let fail = |stage: &str, evidence: Vec<String>| {
            let failure = self.failure(seed, format!("{stage} with errors of metadata"), evidence);
            Failure { path: path.clone(), errors: false, ..failure }
        };
        let _watched = Watched::over(fail("a life", Vec::new()));
        let Some(raw) = self.made.as_ref().and_then(Devices::fork) else {
            return Tried::ended(Err(self.no_copy(seed)));
        };
        let mut random = Stream::new(seed, &format!("errors of metadata {n}"));
        let mut errors = errors_of_metadata(&mut random, magnitudes);
        if let Some(failing) = failing {
            errors.choice = Choice::These(failing.clone());
        }
        let end = [End::Unmount, End::Well, End::PowerOff][random.below(3) as usize];
        let mut promises = Machine::promises(&*self.target).with_writes_that_fail();
        if self.tells {
            promises = promises.with_story();
        }
        let mut machine = Machine::of(raw, promises, self.made_at);
        machine.devices.answer_late(self.late(seed));
        let mission = Mission { seed: random.next_u64(), ..Mission::calm(0, false) };
        let (target, load, tape) = (Arc::clone(&self.target), Arc::clone(&self.load), tape.cloned());
        let (devices, faults, promises) =
            (machine.devices.clone(), Arc::clone(&machine.faults), machine.promises.clone());
        let (done, at) = life::in_world(&machine, &self.target, &mission, None, move || {
            let fs = target.mount(&devices).map_err(|e| vec![format!("mount: {e}")])?;
            let vfs = Vfs::mount(fs, target.vfs()).map_err(|e| vec![format!("vfs mount: {e}")])?;
            tape.iter().for_each(|tape| tape.counts(&faults));
            let clients = Clients::new(Arc::clone(&vfs), promises).with_room(&devices).on_tape(tape);
            faults.fail_metadata(Some(errors));
            for round in 0..ROUNDS {
                let mut random = Stream::new(seed.wrapping_add(round as u64), load.name());
                // Errors of calls are no fault here.
                let _ = load.run(&clients, round, &mut random);
                let _ = vfs.sync(&Caller::KERNEL);
            }
            drop(clients);
            if let End::Well = end {
                faults.heal();
            }
            if !matches!(end, End::PowerOff) {
                let _ = vfs.unmount();
            }
            Ok(())
        });
        let failed = machine.faults.fail_metadata(None);
        let mut tried = Tried { end, failed, story: machine.promises.story(), ended: Ok(Errors::default()) };
        if let Err(evidence) = life::settled(done, |done: Result<(), Vec<String>>| done) {
            tried.ended = Err(fail("a run", evidence));
            return tried;
        }
        let (commands, not_compared) = (tried.failed.len() as u64, u64::from(machine.promises.is_astray()));
        tried.ended = Ok(Errors { tries: 1, commands, not_compared });
        machine.now = at;
        machine.devices.power_fail(at, &mut random);
        let mission = Mission {
            brief: random.below(GOES_ON) > 0,
            seed: random.next_u64(),
            ..Mission::calm(ROUNDS, true)
        };
        if let Outcome::Wrong { stage, evidence } = self.live(machine, seed, mission).1 {
            tried.ended = Err(fail(&format!("{stage} behind a run"), evidence));
        }
        tried
    }
}

/// Draws which commands fail: one alone, a few or all from an instant on, in the load or soon.
fn errors_of_metadata(random: &mut Stream, magnitudes: u32) -> MetadataErrors {
    let kinds = random.below(3);
    let magnitude = random.below(u64::from(magnitudes));
    let choice = Choice::Drawn {
        spared: random.below(1 << magnitude),
        one_in: 1 << random.below(5),
        left: [1, 1, 4, u64::MAX][random.below(4) as usize],
        random: Stream::new(random.next_u64(), "errors of metadata"),
    };
    MetadataErrors::new(kinds != 1, kinds != 0, choice)
}
