//! [`Explorer`]: one load on one file system, and power failures in it.
//!
//! [`Explorer::run`] (run.rs) takes many crash images of one run. [`Explorer::point`] is the older way: one
//! seed, one schedule of loads and power failures, one verdict.
//!
//! ```text
//!   life 0   mkfs, mount ── load, round 0 ─────────X              X  power fails: at a random instant of the
//!                                                                    run, or
//!   life 1   power on ── mount (recovery) ──X                        at the n-th drive command, before or
//!                                                                    after it
//!   life 2   power on ── mount ── check ── verify ── load, round 1 ─────────X
//!   ...
//!   last     power on ── mount ── check ── verify ── load ── unmount ── mount ── check ── verify
//! ```
//!
//! Each life is a virtual world of its own; time goes on from one to the next. Only the drive (what the power
//! failure left of it) and the promises outlive a life; the recovered state is certain once it was verified.
//!
//! In half of the points drives answer a share of the writes late ([`granary_device::Drive::answer_late`]):
//! what was not waited for is overtaken.
//!
//! Invariants: everything is a function of the seed. Every point ends with a clean life, so what survived is
//! not only readable but usable. A panic, a deadlock, an unexpected error of the load and a violation of
//! `check()` are failures like a broken promise. A failure is minimised where somebody asks: the fewest power
//! failures and calls of the load that still lead to it ([`Explorer::minimise`]), and the fewest things that
//! the devices lose ([`Explorer::fewest_lost`]). The devices can be kept as the power failure leaves them
//! ([`Explorer::keep`]).

mod aim;
mod bounds;
mod erring;
mod fewer;
mod fewer_errors;
mod film;
mod kept;
mod kind;
mod life;
mod linear;
mod loss;
mod making;
mod media;
mod mending;
mod minimise;
mod mission;
mod place;
mod probe;
mod report;
mod run;
mod snapshots;
mod survival;
mod tell;

pub use bounds::Bounds;
pub use life::panic_text;
pub use loss::{Loss, Lost};
pub use minimise::Minimal;
pub use place::{At, Path, Phase, Place};
pub use report::{Coverage, Damages, Errors, Failure, Report};
pub use run::Effort;

use crate::deadline::Deadline;
use crate::load::Load;
use crate::target::Target;
use crate::watch::Watched;
use granary_device::Devices;
use granary_sim::rng::Stream;
use granary_units::Nanos;
use kept::Kept;
use life::{Life, Machine};
use minimise::Short;
use mission::{Cut, Mission, Outcome};
use std::ops::Range;
use std::sync::Arc;

/// How long a life without a failure is: what failures are drawn from.
#[derive(Clone, Copy, Debug)]
struct Extent {
    span: Nanos,
    commands: u64,
}

/// Explores one load on one file system.
pub struct Explorer {
    target: Arc<dyn Target>,
    load: Arc<dyn Load>,
    deep: u32,
    /// No drive answers late.
    punctual: bool,
    /// Block writes of content fail in every run.
    errors: bool,
    /// Clients keep a story of their calls.
    tells: bool,
    /// When the calls of a load end.
    until: Deadline,
    /// The run that is done again has only some of its calls.
    short: Option<Short>,
    /// Things that its last power failure takes, where they are given.
    loss: Option<Arc<Loss>>,
    /// The devices are kept: they have no copies, and a run ends where the power fails.
    kept: Option<Kept>,
    extent: Extent,
    /// The devices with the new file system, and when it was made; `None` where they have no second copy.
    made: Option<Devices>,
    made_at: Nanos,
    /// Commands of mkfs.
    made_by: u64,
}

impl Explorer {
    /// Runs the load once without a failure, to learn how long it takes.
    ///
    /// # Errors
    /// Where already that goes wrong; the seed told is 0.
    pub fn new(target: Arc<dyn Target>, load: Arc<dyn Load>) -> Result<Explorer, Failure> {
        Explorer::new_until(target, load, Deadline::default())
    }

    /// The same, until a deadline: the calls of each load end there. Work behind it is no exploration.
    ///
    /// # Errors
    /// See [`Explorer::new`].
    pub(crate) fn new_until(
        target: Arc<dyn Target>,
        load: Arc<dyn Load>,
        until: Deadline,
    ) -> Result<Explorer, Failure> {
        let mut explorer = Explorer {
            target,
            load,
            deep: 3,
            punctual: false,
            errors: false,
            tells: false,
            until,
            short: None,
            loss: None,
            kept: None,
            extent: Extent { span: Nanos(1), commands: 1 },
            made: None,
            made_at: Nanos::ZERO,
            made_by: 0,
        };
        let mut machine = explorer.machine(0);
        explorer.format(&mut machine, 0)?;
        (explorer.made, explorer.made_at, explorer.made_by) =
            (machine.raw.fork(), machine.now, machine.commands());
        let before = (machine.now, machine.commands());
        let (_, outcome) = explorer.live(machine, 0, Mission::calm(0, false));
        match outcome {
            Outcome::Finished { load_end: (now, commands), .. } => {
                let span = Nanos(now.saturating_sub(before.0).0.max(1));
                let commands = (commands - before.1).max(1);
                explorer.extent = Extent { span, commands };
                Ok(explorer)
            }
            // The deadline came in the load.
            Outcome::PowerFailed { .. } => Ok(explorer),
            Outcome::Wrong { stage, evidence } => Err(explorer.failure(0, stage, evidence)),
        }
    }

    /// At most `deep` power failures in each point (default 3, at least 1).
    pub fn deep(mut self, deep: u32) -> Explorer {
        self.deep = deep.max(1);
        self
    }

    /// Drives answer in their own time in all points: for seeds that found something when they always did.
    pub fn punctual(mut self) -> Explorer {
        self.punctual = true;
        self
    }

    /// Block writes of content fail in every run; else in one run in eight.
    pub fn write_errors(mut self, errors: bool) -> Explorer {
        self.errors = errors;
        self
    }

    /// Whether the runs of its load have an end ([`Load::runs`]).
    pub(crate) fn ends(&self) -> bool {
        self.load.runs().is_some()
    }

    /// Virtual time that the load takes without failure, the mount included.
    pub fn span(&self) -> Nanos {
        self.extent.span
    }

    /// Explores all seeds; the work of a range is the sum of its parts' work, so it can be cut and resumed
    /// anywhere.
    pub fn explore(&self, seeds: Range<u64>) -> Report {
        let mut report = Report::default();
        for seed in seeds {
            report.points += 1;
            match self.point(seed) {
                Ok(coverage) => report.coverage.add(&coverage),
                Err(failure) => report.failures.push(failure),
            }
        }
        report
    }

    /// Explores one point.
    ///
    /// # Errors
    /// The failure, with the evidence.
    pub fn point(&self, seed: u64) -> Result<Coverage, Failure> {
        let mut random = Stream::new(seed, "crash point");
        let mut coverage = Coverage::default();
        let mut machine = self.machine(seed);
        self.format(&mut machine, seed)?;
        // A drive that answers nearly in order hides every wait that is missing. Half of the points are
        // without: there what overtakes what is a matter of the drive's own time.
        machine.devices.answer_late(self.late(seed));
        let failures = 1 + random.below(self.deep as u64) as u32;
        let mut round = 0;
        for life in 0..=failures {
            let mission = self.plan(&mut random, life, failures, round);
            let (after, outcome) = self.live(machine, seed, mission);
            machine = after;
            match outcome {
                Outcome::Wrong { stage, evidence } => return Err(self.failure(seed, stage, evidence)),
                Outcome::Finished { seen, .. } => {
                    coverage.add(&seen);
                    break;
                }
                Outcome::PowerFailed { seen, ran } => {
                    coverage.add(&seen);
                    round += u32::from(ran);
                    machine.devices.power_fail(machine.now, &mut random);
                }
            }
        }
        coverage.points = 1;
        Ok(coverage)
    }

    /// Draws what happens in a life.
    fn plan(&self, random: &mut Stream, life: u32, failures: u32, round: u32) -> Mission {
        let shut_unseen = life > 0 && random.chance(0.25);
        let calm = Mission { shut_unseen, ..Mission::calm(round, life > 0) };
        let jitter = if random.chance(0.5) { Nanos(1 + random.below(2_000)) } else { Nanos::ZERO };
        if life == failures {
            return Mission { jitter, ..calm };
        }
        let seed = random.next_u64();
        let after = random.chance(0.5);
        // A recovery is short: what is drawn must be likely to fall into it, and may fall into the load
        // behind it.
        if life > 0 && random.chance(0.5) {
            let magnitude = random.below(10);
            let cut = Cut::command(1 + random.below(1 << magnitude), after);
            return Mission { jitter, seed, in_recovery: Some(cut), in_load: Some(self.cut(random)), ..calm };
        }
        Mission { jitter, seed, in_load: Some(self.cut(random)), ..calm }
    }

    fn cut(&self, random: &mut Stream) -> Cut {
        if random.chance(0.5) {
            Cut::Instant(Nanos(random.below(self.extent.span.0)))
        } else {
            let n = 1 + random.below(self.extent.commands);
            Cut::command(n, random.chance(0.5))
        }
    }

    fn machine(&self, seed: u64) -> Machine {
        Machine::new(&*self.target, seed)
    }

    fn format(&self, machine: &mut Machine, seed: u64) -> Result<(), Failure> {
        let _watched = self.watched("mkfs", seed, &Path::default());
        machine.faults.show_less(self.load.leaves_room());
        let made = life::format(machine, &self.target);
        machine.faults.show_less(false);
        made.map_err(|evidence| self.failure(seed, "mkfs".into(), evidence))
    }

    fn live(&self, machine: Machine, seed: u64, mission: Mission) -> (Machine, Outcome) {
        let _watched = self.watched("a life", seed, &Path::default());
        let life = Life {
            target: Arc::clone(&self.target),
            load: Arc::clone(&self.load),
            root_seed: seed,
            mission,
            film: None,
            tape: None,
            until: self.until.clone(),
        };
        life.live(machine)
    }

    /// A life at `path` begins, or mkfs: it is told of should it not end.
    fn watched(&self, what: &str, seed: u64, path: &Path) -> Watched {
        let failure = self.failure(seed, what.to_owned(), Vec::new());
        Watched::over(Failure { path: path.clone(), ..failure })
    }

    fn failure(&self, seed: u64, stage: String, evidence: Vec<String>) -> Failure {
        let (fs, load) = (self.target.name().into(), self.load.name().into());
        Failure {
            seed,
            errors: self.errors,
            path: Path::default(),
            fs,
            load,
            steps: Arc::default(),
            stage: stage.into(),
            evidence: evidence.into(),
            only: self.short.as_ref().map(|short| Arc::clone(&short.calls)),
            loss: self.loss.clone(),
        }
    }
}
