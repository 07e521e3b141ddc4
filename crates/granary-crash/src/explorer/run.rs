//! One run, many crash images: each is recovered, checked and verified; some go on, and are crashed again.
//!
//! ```text
//!   run (seed) ──────────o──────o────o───o──────────> unmount, mount, verify: the run itself must be right
//!                        |      |    |   |                      |  images: film.rs
//!                        draw 0, 1, .. of what the devices keep
//!                        recovery ──o── check ── verify ── (one in GOES_ON) load ──o────o──> unmount, mount, verify
//!                                   |                                              |
//!                                   an image of its own: path l812+.0/r3-.1        path l812+.0/l90+.0
//! ```
//!
//! Everything is a function of seed and path, so a failure is replayed by these two.

use super::film::{Film, Image, Places, Wanted};
use super::life::{Life, Machine, Mission, Outcome};
use super::minimise::Short;
use super::place::{Path, Phase, Place};
use super::{Explorer, Failure, Report};
use crate::oracle::Promises;
use crate::recorded::Tape;
use granary_device::Devices;
use granary_sim::rng::Stream;
use granary_units::Nanos;
use std::sync::Arc;

/// How much of a run is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Images at places that are drawn from the whole run.
    pub anywhere: u32,
    /// Images in rare steps, at most.
    pub in_steps: u32,
    /// Images before and after every command.
    pub linear: bool,
    /// States that the devices may be left in which are looked at, of each image. With `exhaustive` all of them, up to this number,
    /// each once; else drawn.
    pub draws: u32,
    /// See `draws`.
    pub exhaustive: bool,
}

impl Default for Effort {
    /// 8 images anywhere, as many in rare steps, two states of each. More runs find more than more images of one.
    fn default() -> Effort {
        Effort { anywhere: 8, in_steps: 8, linear: false, draws: 2, exhaustive: false }
    }
}

/// One in so many recovered file systems goes on with its load; the others have been looked at and are left.
const GOES_ON: u64 = 8;
/// Of those that go on, one in so many is filled and emptied at its end: that takes as long as dozens of other points.
const EXERCISED: u64 = 32;
/// One in so many is unmounted and mounted again before anybody looks.
const SHUT_UNSEEN: u64 = 8;
/// So many recoveries, and mounts at the end of a run, are interrupted.
const INTERRUPTED: f64 = 0.3;
/// Images of a load that goes on.
const LATER: u32 = 4;
/// Writes of content fail in one run in so many.
const FAILING: u64 = 8;
/// One run in so many is long: logs wrap, tails move, drives collect garbage while clients go on.
const LONG: u64 = 4;

/// An image, and how it came about.
struct Crash {
    path: Path,
    round: u32,
    image: Image,
}

impl Crash {
    /// How many images were taken in the rarest step that was under way.
    fn rarity(&self, report: &Report) -> u64 {
        let taken = |step| report.steps.get(step).map_or(0, |(_, images)| *images);
        self.image.steps.iter().map(|step| taken(*step)).min().unwrap_or(u64::MAX)
    }
}

/// How it is chosen what the devices are left with.
enum Draws {
    Random(u32),
    /// The script of the next.
    Listed(Option<Vec<u64>>),
}

impl Explorer {
    /// Runs the load once and looks at the crash images of the run.
    pub fn run(&self, seed: u64, effort: &Effort) -> Report {
        self.run_until(seed, effort, &|| false)
    }

    /// The same, until `over` says that there is no time left: images that nobody has looked at by then are dropped.
    pub fn run_until(&self, seed: u64, effort: &Effort, over: &dyn Fn() -> bool) -> Report {
        let mut report = Report::default();
        let mut random = Stream::new(seed, "run");
        let rounds = self.rounds(seed);
        let wanted = if effort.linear {
            let all = Wanted { all: true, ..Wanted::default() };
            Places::from([(Phase::Load, all.clone()), (Phase::Remount, all)])
        } else {
            let load = self.anywhere(&mut random, effort.anywhere, rounds);
            Places::from([(Phase::Load, load), (Phase::Remount, mount(&mut random))])
        };
        let (outcome, images) = self.trunk(seed, wanted, effort.in_steps as usize, None, &mut report);
        if let Err(failure) = outcome {
            report.failures.push(failure);
        }
        let mut todo: Vec<Crash> = crashes(&Path::default(), rounds - 1, images);
        while !over() && !todo.is_empty() {
            // In any order: where time ends early, what was looked at is from everywhere, rather in rare steps.
            let pair = [0; 2].map(|_| random.below(todo.len() as u64) as usize);
            let next = if todo[pair[0]].rarity(&report) <= todo[pair[1]].rarity(&report) {
                pair[0]
            } else {
                pair[1]
            };
            let Crash { path, round, image } = todo.swap_remove(next);
            let mut draws =
                if effort.exhaustive { Draws::Listed(Some(Vec::new())) } else { Draws::Random(0) };
            for draw in 0..effort.draws {
                let place = Place { phase: image.phase, at: image.at, draw, listed: effort.exhaustive };
                let Some(devices) = image.devices.fork() else { break };
                let path = path.then(place);
                let more = lose_power(&devices, image.now, &mut draws, seed, &path);
                let round = round + u32::from(image.ran);
                let machine = Machine::of(devices, image.promises.fork(), image.now);
                report.points += 1;
                let wanted = self.wanted_behind(seed, &path);
                match self.branch(seed, &path, machine, round, wanted, &mut report) {
                    Ok(images) => todo.extend(crashes(&path, round, images)),
                    Err(failure) => {
                        report.failures.push(Failure { steps: image.steps.clone().into(), ..failure })
                    }
                }
                if !more {
                    break;
                }
            }
        }
        report
    }

    /// Does once more what failed at `path` of run `seed`.
    ///
    /// # Errors
    /// The failure. Also one that says that the place is not reached.
    pub fn replay(&self, seed: u64, path: &Path) -> Result<(), Failure> {
        self.replay_with(seed, path, &mut |_, _| ())
    }

    /// The same; `before` is told of each power failure: its image, and the promises of the life behind it.
    pub(super) fn replay_with(
        &self,
        seed: u64,
        path: &Path,
        before: &mut dyn FnMut(&Image, &Promises),
    ) -> Result<(), Failure> {
        match path.0[..] {
            [place] if place.phase == Phase::Making => return self.making_again(seed, place),
            [place, ..] if place.phase == Phase::Damaged => return self.damaged_again(seed, path),
            [place] if place.phase == Phase::Erring => return self.erring_again(seed, place),
            _ => {}
        }
        let first = path.0.first().map(|place| (place.phase, Wanted::one(place.at))).into_iter().collect();
        let tape = self.short.as_ref().map(Short::tape);
        let (outcome, images) = self.trunk(seed, first, 0, tape.as_ref(), &mut Report::default());
        if path.0.is_empty() { outcome } else { self.follow(seed, path, &images, before) }
    }

    /// What comes of the power failures of `path`; the first is one of `images`.
    ///
    /// # Errors
    /// See [`Explorer::replay`].
    pub(super) fn follow(
        &self,
        seed: u64,
        path: &Path,
        images: &[Image],
        before: &mut dyn FnMut(&Image, &Promises),
    ) -> Result<(), Failure> {
        let missing = |done: &Path| {
            self.failure(seed, "replay".into(), vec![format!("place '{path}': '{done}' is not reached")])
        };
        let (mut done, mut round) = (Path::default(), self.rounds(seed) - 1);
        let mut later: Vec<Image>;
        let mut images = images;
        for (i, place) in path.0.iter().enumerate() {
            done = done.then(*place);
            let image = images.iter().find(|image| (image.phase, image.at) == (place.phase, place.at));
            let image = image.ok_or_else(|| missing(&done))?;
            let devices = image.devices.fork().ok_or_else(|| missing(&done))?;
            lose_as(&devices, image.now, place, seed, &done);
            round += u32::from(image.ran);
            let machine = Machine::of(devices, image.promises.fork(), image.now);
            before(image, &machine.promises);
            let next = path.0.get(i + 1).map(|next| (next.phase, Wanted::one(next.at)));
            let wanted = next.into_iter().collect();
            let lived = self.branch(seed, &done, machine, round, wanted, &mut Report::default());
            later = lived.map_err(|failure| Failure { steps: image.steps.clone().into(), ..failure })?;
            images = &later;
        }
        Ok(())
    }

    /// The run itself, without a failure.
    pub(super) fn trunk(
        &self,
        seed: u64,
        wanted: Places,
        in_steps: usize,
        tape: Option<&Tape>,
        report: &mut Report,
    ) -> (Result<(), Failure>, Vec<Image>) {
        let Some(raw) = self.made.as_ref().and_then(Devices::fork) else {
            return (Err(self.no_copy(seed)), Vec::new());
        };
        let errors = self.errors(seed);
        let mut promises = Machine::promises(&*self.target);
        if errors.is_some() {
            promises = promises.with_writes_that_fail();
        }
        if self.tells {
            promises = promises.with_story();
        }
        let machine = Machine::of(raw, promises, self.made_at);
        let mut random = Stream::new(seed, "trunk");
        machine.devices.answer_late(self.late(seed));
        let jitter = jitter(&mut random);
        let unsynced = random.chance(0.5);
        let rounds = self.rounds(seed);
        let mission =
            Mission { jitter, rounds, unsynced, errors, seed: random.next_u64(), ..Mission::calm(0, false) };
        let film = Film::new(
            machine.raw.clone(),
            machine.promises.clone(),
            wanted,
            in_steps,
            Nanos(self.extent.span.0 * rounds as u64),
            random,
        );
        let (images, outcome) = self.filmed(machine, seed, mission, (&film, tape), report);
        let outcome = match outcome {
            Outcome::Wrong { stage, evidence } => Err(self.failure(seed, stage, evidence)),
            _ => Ok(()),
        };
        (outcome, images)
    }

    /// A life behind a power failure; `path` ends with that.
    fn branch(
        &self,
        seed: u64,
        path: &Path,
        machine: Machine,
        round: u32,
        wanted: Places,
        report: &mut Report,
    ) -> Result<Vec<Image>, Failure> {
        let mut random = Stream::new(seed, &format!("life behind {path}"));
        let mission = Mission {
            jitter: jitter(&mut random),
            shut_unseen: random.below(SHUT_UNSEEN) == 0,
            brief: random.below(GOES_ON) > 0,
            exercised: random.below(EXERCISED) == 0,
            unsynced: random.chance(0.5),
            seed: random.next_u64(),
            ..Mission::calm(round, true)
        };
        let in_steps = match (path.0.len() < self.deep as usize, mission.brief) {
            (false, _) => 0,
            (true, false) => LATER,
            // Steps of recovery, which each life has.
            (true, true) => u32::from(random.below(4) == 0),
        };
        let (raw, promises, span) = (machine.raw.clone(), machine.promises.clone(), self.extent.span);
        let film = Film::new(raw, promises, wanted, in_steps as usize, span, random);
        let (images, outcome) = self.filmed(machine, seed, mission, (&film, None), report);
        match outcome {
            Outcome::Wrong { stage, evidence } => {
                Err(Failure { path: path.clone(), ..self.failure(seed, stage, evidence) })
            }
            _ => Ok(images),
        }
    }

    fn filmed(
        &self,
        machine: Machine,
        seed: u64,
        mission: Mission,
        (film, tape): (&Arc<Film>, Option<&Tape>),
        report: &mut Report,
    ) -> (Vec<Image>, Outcome) {
        let (target, load) = (Arc::clone(&self.target), Arc::clone(&self.load));
        let (film_of_life, tape) = (Some(Arc::clone(film)), tape.cloned());
        let life = Life { target, load, root_seed: seed, mission, film: film_of_life, tape };
        let (_, outcome) = life.live(machine);
        let (images, seen) = film.develop();
        for image in &images {
            report.coverage.failures += 1;
            report.coverage.in_recovery += u64::from(image.phase == Phase::Recovery);
        }
        if let Outcome::Finished { seen, .. } = &outcome {
            report.coverage.add(seen);
        }
        report.add_steps(&seen);
        (images, outcome)
    }

    /// Rounds of the load in a run.
    fn rounds(&self, seed: u64) -> u32 {
        if self.one_in(LONG, seed, "long run") { self.load.rounds().max(1) } else { 1 }
    }

    /// Whether a run is one of so many: of each load another one, so that the first runs of all loads have some.
    pub(crate) fn one_in(&self, many: u64, seed: u64, what: &str) -> bool {
        let drawn = |what: &str, many| Stream::new(seed, what).below(many) == 0;
        drawn(what, 2 * many) || drawn(&format!("{what} of {}", self.load.name()), 2 * many)
    }

    /// One in so many writes fails in a run, if any does.
    fn errors(&self, seed: u64) -> Option<u64> {
        let fails = self.errors || self.one_in(FAILING, seed, "failing run");
        fails.then(|| 4 << Stream::new(seed, "errors").below(5))
    }

    /// Places all over the load.
    fn anywhere(&self, random: &mut Stream, count: u32, rounds: u32) -> Wanted {
        let mut wanted = Wanted::default();
        let rounds = rounds as u64;
        for _ in 0..count {
            if random.chance(0.25) {
                wanted.instants.insert(Nanos(random.below(self.extent.span.0 * rounds)));
            } else {
                let command = 1 + random.below(self.extent.commands * rounds);
                wanted.commands.insert((command, random.chance(0.5)));
            }
        }
        wanted
    }

    /// Where the life behind `path` is to be interrupted in its turn.
    fn wanted_behind(&self, seed: u64, path: &Path) -> Places {
        if path.0.len() >= self.deep as usize {
            return Places::new();
        }
        let mut random = Stream::new(seed, &format!("places behind {path}"));
        let recovery = mount(&mut random);
        Places::from([(Phase::Recovery, recovery), (Phase::Load, self.anywhere(&mut random, LATER, 1))])
    }
}

/// Where a mount is interrupted, if it is: one in so many.
fn mount(random: &mut Stream) -> Wanted {
    let mut wanted = Wanted::default();
    if random.chance(INTERRUPTED) {
        // A mount is short; how short is not known.
        let magnitude = random.below(10);
        wanted.commands.insert((1 + random.below(1 << magnitude), random.chance(0.5)));
    }
    wanted
}

fn jitter(random: &mut Stream) -> Nanos {
    if random.chance(0.5) { Nanos(1 + random.below(2_000)) } else { Nanos::ZERO }
}

fn crashes(path: &Path, round: u32, images: Vec<Image>) -> Vec<Crash> {
    images.into_iter().map(|image| Crash { path: path.clone(), round, image }).collect()
}

/// Cuts the power. Says whether there are more states that the devices may be left in.
fn lose_power(devices: &Devices, now: Nanos, draws: &mut Draws, seed: u64, path: &Path) -> bool {
    match draws {
        Draws::Random(n) => {
            *n += 1;
            let mut random = survival(seed, path);
            let before = random.clone();
            devices.power_fail(now, &mut random);
            // Where nothing was left to chance, there is no second state.
            random != before
        }
        Draws::Listed(script) => {
            let mut random = Stream::scripted(script.take().unwrap_or_default());
            devices.power_fail(now, &mut random);
            *script = random.next_script();
            script.is_some()
        }
    }
}

fn survival(seed: u64, path: &Path) -> Stream {
    Stream::new(seed, &format!("survival of {path}"))
}

/// The same power failure once more.
fn lose_as(devices: &Devices, now: Nanos, place: &Place, seed: u64, path: &Path) {
    if !place.listed {
        devices.power_fail(now, &mut survival(seed, path));
        return;
    }
    // The scripts before say which one this is.
    let mut script = Vec::new();
    for _ in 0..place.draw {
        let Some(copy) = devices.fork() else { break };
        let mut random = Stream::scripted(script);
        copy.power_fail(now, &mut random);
        script = random.next_script().unwrap_or_default();
    }
    devices.power_fail(now, &mut Stream::scripted(script));
}

impl Explorer {
    /// How late drives answer in this run or point: in half of them a share of the writes is late.
    pub(super) fn late(&self, seed: u64) -> Option<u64> {
        let late = !self.punctual && Stream::new(seed, "late drive").chance(0.5);
        late.then_some(seed)
    }
}
