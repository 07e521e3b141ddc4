//! Errors of metadata: its writes, its reads and FLUSH fail, while the power stays on.
//!
//! ```text
//!   mount ── load ──e──e───── load once more, sync ──┬── unmount ────────────┬── power off, the drive is well again
//!                                                    ├── well again, unmount ┤        `── mount ── check ── verify ── load ...
//!                                                    └───────────────────────┘
//! ```
//!
//! 1. No call panics, and none waits for ever.
//! 2. A call that has failed, or behind which the file system became read-only, promises nothing. Any other keeps its promise: what was
//!    durable before the error stays so, and what an fsync says after it is true.
//! 3. On a drive that is well the file system mounts, `check()` is content, and a load works on.
//!
//! Each try is a run of its own, with a stream of its own: the runs of other modes stay as they are.

use super::life::{self, Machine};
use super::mission::{Mission, Outcome};
use super::place::{At, Path, Phase, Place};
use super::{Explorer, Failure, Report};
use crate::faulty::MetadataErrors;
use crate::load::Clients;
use crate::watch::Watched;
use granary_device::Devices;
use granary_fs::Caller;
use granary_sim::rng::Stream;
use granary_vfs::Vfs;
use std::sync::Arc;

/// Tries of one run.
const TRIES: u64 = 12;
/// Rounds of the load behind the first error, too: what a file system does that has met one.
const ROUNDS: u32 = 2;
/// One in so many recovered file systems goes on with its load.
const GOES_ON: u64 = 4;

/// How a try ends.
#[derive(Clone, Copy)]
enum End {
    Unmount,
    /// The drive is well before.
    Well,
    PowerOff,
}

impl Explorer {
    /// Runs the load up to twelve times, each with other errors of metadata.
    pub fn erring(&self, seed: u64) -> Report {
        self.erring_until(seed, &|| false)
    }

    /// The same, until `over` says that there is no time left.
    pub fn erring_until(&self, seed: u64, over: &dyn Fn() -> bool) -> Report {
        let mut report = Report::default();
        for n in (0..TRIES).take_while(|_| !over()) {
            report.points += 1;
            match self.try_errors(seed, n) {
                Ok(met) => report.coverage.errors += met,
                Err(failure) => report.failures.push(failure),
            }
        }
        report
    }

    /// Does a try of run `seed` once more.
    pub(super) fn erring_again(&self, seed: u64, place: Place) -> Result<(), Failure> {
        match place.at {
            At::Before(n) if n < TRIES => self.try_errors(seed, n).map(drop),
            _ => {
                let what = format!("'{place}' is no try: i0- to i{}- are", TRIES - 1);
                Err(self.failure(seed, "replay".into(), vec![what]))
            }
        }
    }

    /// One try. Says how many commands failed.
    fn try_errors(&self, seed: u64, n: u64) -> Result<u64, Failure> {
        let path =
            Path::default().then(Place { phase: Phase::Erring, at: At::Before(n), draw: 0, listed: false });
        let fail = |stage: &str, evidence: Vec<String>| {
            let failure = self.failure(seed, format!("{stage} with errors of metadata"), evidence);
            Failure { path: path.clone(), errors: false, ..failure }
        };
        let _watched = Watched::over(fail("a life", Vec::new()));
        let Some(raw) = self.made.as_ref().and_then(Devices::fork) else {
            return Err(self.no_copy(seed));
        };
        let mut random = Stream::new(seed, &format!("errors of metadata {n}"));
        let errors = self.errors_of_metadata(&mut random);
        let allowed = errors.left;
        let end = [End::Unmount, End::Well, End::PowerOff][random.below(3) as usize];
        let promises = Machine::promises(&*self.target).with_writes_that_fail();
        let mut machine = Machine::of(raw, promises, self.made_at);
        machine.devices.answer_late(self.late(seed));
        let mission = Mission { seed: random.next_u64(), ..Mission::calm(0, false) };
        let (target, load) = (Arc::clone(&self.target), Arc::clone(&self.load));
        let (devices, faults, promises) =
            (machine.devices.clone(), Arc::clone(&machine.faults), machine.promises.clone());
        let (done, at) = life::in_world(&machine, &self.target, &mission, None, move || {
            let fs = target.mount(&devices).map_err(|e| vec![format!("mount: {e}")])?;
            let vfs = Vfs::mount(fs, target.vfs()).map_err(|e| vec![format!("vfs mount: {e}")])?;
            let clients = Clients::new(Arc::clone(&vfs), promises).with_room(&devices);
            faults.fail_metadata(Some(errors));
            for round in 0..ROUNDS {
                let mut random = Stream::new(seed.wrapping_add(round as u64), load.name());
                // Errors of calls are no fault here.
                let _ = load.run(&clients, round, &mut random);
                let _ = vfs.sync(&Caller::KERNEL);
            }
            drop(clients);
            let healed = if let End::Well = end { Some(faults.fail_metadata(None)) } else { None };
            if !matches!(end, End::PowerOff) {
                let _ = vfs.unmount();
            }
            Ok(allowed - healed.unwrap_or_else(|| faults.fail_metadata(None)))
        });
        let met = life::settled(done, |met| met).map_err(|evidence| fail("a run", evidence))?;
        machine.now = at;
        machine.devices.power_fail(at, &mut random);
        let mission = Mission {
            brief: random.below(GOES_ON) > 0,
            seed: random.next_u64(),
            ..Mission::calm(ROUNDS, true)
        };
        match self.live(machine, seed, mission).1 {
            Outcome::Wrong { stage, evidence } => Err(fail(&format!("{stage} behind a run"), evidence)),
            _ => Ok(met),
        }
    }

    /// Draws which commands fail: one alone, a few or all from an instant on, in the load or soon.
    fn errors_of_metadata(&self, random: &mut Stream) -> MetadataErrors {
        let kinds = random.below(3);
        let many = self.extent.commands * u64::from(ROUNDS);
        let magnitude = random.below(u64::from(many.ilog2()) + 1);
        MetadataErrors {
            writes: kinds != 1,
            reads: kinds != 0,
            spared: random.below(1 << magnitude),
            one_in: 1 << random.below(5),
            left: [1, 1, 4, u64::MAX][random.below(4) as usize],
            random: Stream::new(random.next_u64(), "errors of metadata"),
        }
    }
}
