//! One run, many crash images: each is recovered, checked and verified; some go on, and are crashed again.
//!
//! ```text
//!   run (seed) ──────────o──────o────o───o──────────> unmount, mount, verify: the run itself must be right
//!                        |      |    |   |                      |  images: film.rs
//!                        draw 0, 1, .. of what the devices keep
//!                        recovery ──o── check ── verify ── (one in GOES_ON) load ──o────o──> unmount, mount,
//!                                   |                                              |         verify
//!                                   an image of its own: path l812+.0/r3-.1        path l812+.0/l90+.0
//! ```
//!
//! Everything is a function of seed and path, so a failure is replayed by these two.

use super::aim::{LATER, mount, one_in_recovery};
use super::film::{Film, Image, Places, Wanted};
use super::life::{Life, Machine};
use super::loss::Loss;
use super::minimise::Short;
use super::mission::{Mission, Outcome};
use super::place::{Path, Phase, Place};
use super::report::NO_PLACE;
use super::survival::{Draws, lose_as, lose_power, survival};
use super::{Bounds, Explorer, Failure, Report};
use crate::oracle::Promises;
use crate::recorded::Tape;
use granary_sim::rng::{Fate, Stream};
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
    /// States that the devices may be left in which are looked at, of each image. With `exhaustive` all of
    /// them, up to this number, each once; else drawn.
    pub draws: u32,
    /// See `draws`.
    pub exhaustive: bool,
    /// Behind each image of the run its recovery is interrupted, that recovery as well, and so on: as many as
    /// [`Explorer::deep`] says.
    pub nested: bool,
}

impl Effort {
    /// One image anywhere, one in rare steps, one state of each: for short runs of which there are many.
    pub const BRIEF: Effort =
        Effort { anywhere: 1, in_steps: 1, linear: false, draws: 1, exhaustive: false, nested: false };
}

impl Default for Effort {
    /// 8 images anywhere, as many in rare steps, two states of each. More runs find more than more images of
    /// one.
    fn default() -> Effort {
        Effort { anywhere: 8, in_steps: 8, linear: false, draws: 2, exhaustive: false, nested: false }
    }
}

/// One in so many recovered file systems goes on with its load; the others have been looked at and are left.
const GOES_ON: u64 = 8;
/// Of those that go on, one in so many is filled and emptied at its end: that takes as long as dozens of
/// other points.
const EXERCISED: u64 = 32;
/// One in so many is unmounted and mounted again before anybody looks.
const SHUT_UNSEEN: u64 = 8;
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

/// A power failure that is done once more.
pub(super) struct Cut<'a> {
    pub(super) image: &'a Image,
    /// Those of the life behind it.
    pub(super) promises: &'a Promises,
    /// Losses, thing by thing.
    pub(super) fates: &'a [Fate],
}

impl Explorer {
    /// Runs the load once and looks at the crash images of the run.
    pub fn run(&self, seed: u64, effort: &Effort) -> Report {
        self.run_until(seed, effort, &Bounds::NONE)
    }

    /// The same, within bounds: images that nobody has looked at by then are dropped.
    pub fn run_until(&self, seed: u64, effort: &Effort, bounds: &Bounds<'_>) -> Report {
        let mut report = Report::default();
        let mut random = Stream::new(seed, "run");
        if effort.linear {
            self.every_command(seed, effort, bounds, &mut report);
            return report;
        }
        let load = self.anywhere(&mut random, effort.anywhere, self.rounds(seed));
        let wanted = Places::from([(Phase::Load, load), (Phase::Remount, mount(&mut random))]);
        let (outcome, images) = self.trunk(seed, wanted, effort.in_steps as usize, None, &mut report);
        report.failures.extend(outcome.err());
        self.look(seed, images, effort, bounds, &mut random, &mut report);
        report
    }

    /// Looks at images of a run, and at those of the lives behind them.
    pub(super) fn look(
        &self,
        seed: u64,
        images: Vec<Image>,
        effort: &Effort,
        bounds: &Bounds<'_>,
        random: &mut Stream,
        report: &mut Report,
    ) {
        let mut todo: Vec<Crash> = crashes(&Path::default(), self.rounds(seed) - 1, images);
        while !bounds.are_met(report) && !todo.is_empty() {
            // In any order: where time ends early, what was looked at is from everywhere, rather in rare
            // steps.
            let pair = [0; 2].map(|_| random.below(todo.len() as u64) as usize);
            let rarer =
                if todo[pair[0]].rarity(report) <= todo[pair[1]].rarity(report) { pair[0] } else { pair[1] };
            // One after the other down to the last recovery: else few would come so deep.
            let deeper = todo.iter().rposition(|crash| effort.nested && !crash.path.0.is_empty());
            let next = deeper.unwrap_or(rarer);
            let Crash { path, round, image } = todo.swap_remove(next);
            let mut draws =
                if effort.exhaustive { Draws::Listed(Some(Vec::new())) } else { Draws::Random(0) };
            for draw in 0..effort.draws {
                if draw > 0 && bounds.are_met(report) {
                    break;
                }
                let place = Place { phase: image.phase, at: image.at, draw, listed: effort.exhaustive };
                let Some(devices) = image.devices.fork() else { break };
                let path = path.then(place);
                let more = lose_power(&devices, image.now, &mut draws, seed, &path);
                let round = round + u32::from(image.ran);
                let machine = Machine::of(devices, image.promises.fork(), image.now);
                report.points += 1;
                report.coverage.met(&path);
                let wanted = match effort.nested {
                    true => self.wanted_in_recovery(seed, &path),
                    false => self.wanted_behind(seed, &path),
                };
                match self.branch(seed, &path, machine, round, wanted, report) {
                    Ok(images) if effort.nested => {
                        todo.extend(crashes(&path, round, one_in_recovery(seed, &path, images)));
                    }
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
    }

    /// Does once more what failed at `path` of run `seed`.
    ///
    /// # Errors
    /// The failure. Also one that says that the place is not reached.
    pub fn replay(&self, seed: u64, path: &Path) -> Result<(), Failure> {
        self.replay_with(seed, path, &mut |_| ())
    }

    /// The same; `before` is told of each power failure: its image, and the promises of the life behind it.
    pub(super) fn replay_with(
        &self,
        seed: u64,
        path: &Path,
        before: &mut dyn FnMut(&Cut<'_>),
    ) -> Result<(), Failure> {
        match path.0[..] {
            [place] if place.phase == Phase::Making => {
                let images = self.images_of_making(seed, Wanted::one(place.at)).0;
                return self.cut_again(seed, path, &images, self.loss.as_ref(), before);
            }
            [place, ..] if place.phase == Phase::Damaged => return self.damaged_again(seed, path).1,
            [place] if place.phase == Phase::Erring => return self.erring_again(seed, place).ended.map(drop),
            _ => {}
        }
        let first = path.0.first().map(|place| (place.phase, Wanted::one(place.at))).into_iter().collect();
        let tape = self.short.as_ref().map(Short::tape);
        let (outcome, images) = self.trunk(seed, first, 0, tape.as_ref(), &mut Report::default());
        if let Some(what) = tape.filter(|_| self.kept.is_none()).and_then(|tape| tape.not_begun()) {
            return Err(self.failure(seed, NO_PLACE.into(), vec![what]));
        }
        if path.0.is_empty() {
            outcome
        } else {
            self.cut_again(seed, path, &images, self.loss.as_ref(), before)
        }
    }

    /// Outcome of the power failures of `path`. The last of them takes `loss`; the first is one of `images`.
    ///
    /// # Errors
    /// See [`Explorer::replay`].
    pub(super) fn cut_again(
        &self,
        seed: u64,
        path: &Path,
        images: &[Image],
        loss: Option<&Arc<Loss>>,
        before: &mut dyn FnMut(&Cut<'_>),
    ) -> Result<(), Failure> {
        match path.0[..] {
            [place] if place.phase == Phase::Making => self.making_again(seed, place, images, loss, before),
            _ => self.follow(seed, path, images, loss, before),
        }
    }

    fn follow(
        &self,
        seed: u64,
        path: &Path,
        images: &[Image],
        loss: Option<&Arc<Loss>>,
        before: &mut dyn FnMut(&Cut<'_>),
    ) -> Result<(), Failure> {
        let gone = |what: String| self.failure(seed, NO_PLACE.into(), vec![what]);
        let missing = |done: &Path| gone(format!("place '{path}': '{done}' is not reached"));
        let (mut done, mut round) = (Path::default(), self.rounds(seed) - 1);
        let mut later: Vec<Image>;
        let mut images = images;
        for (i, place) in path.0.iter().enumerate() {
            done = done.then(*place);
            let image = images.iter().find(|image| (image.phase, image.at) == (place.phase, place.at));
            let image = image.ok_or_else(|| missing(&done))?;
            let devices = self.second(&image.devices).ok_or_else(|| missing(&done))?;
            let loss = self.loss_of(i, path.0.len(), loss);
            let fates = lose_as(&devices, image.now, place, survival(seed, &done), loss);
            if let Some(what) = loss.and_then(|loss| loss.not_met(&fates)) {
                return Err(gone(what));
            }
            round += u32::from(image.ran);
            let machine = Machine::of(devices, image.promises.fork(), image.now);
            if self.tells {
                machine.faults.note_writes();
            }
            before(&Cut { image, promises: &machine.promises, fates: &fates });
            if self.kept.is_some() && i + 1 == path.0.len() {
                break;
            }
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
        let Some(raw) = self.devices_of_run() else {
            return (Err(self.no_copy(seed)), Vec::new());
        };
        let _watched = self.watched("a life", seed, &Path::default());
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
        if self.tells {
            machine.faults.note_writes();
        }
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
        let _watched = self.watched("a life", seed, path);
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
        if path.0.len() < self.deep as usize {
            film.knows(report.steps.iter().map(|(step, (_, images))| (*step, *images)).collect());
        }
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
        if self.kept.is_some() {
            film.ends_with_the_first();
        }
        let (target, load) = (Arc::clone(&self.target), Arc::clone(&self.load));
        let (film_of_life, tape) = (Some(Arc::clone(film)), tape.cloned());
        let until = self.until.clone();
        let life = Life { target, load, root_seed: seed, mission, film: film_of_life, tape, until };
        let (_, outcome) = life.live(machine);
        let (images, seen) = film.develop();
        if let Outcome::Finished { seen, .. } = &outcome {
            report.coverage.add(seen);
        }
        report.add_steps(&seen);
        (images, outcome)
    }

    /// Rounds of the load in a run.
    pub(super) fn rounds(&self, seed: u64) -> u32 {
        if self.one_in(LONG, seed, "long run") { self.load.rounds().max(1) } else { 1 }
    }

    /// Whether a run is one of so many: of each load another one, so that the first runs of all loads have
    /// some.
    pub(crate) fn one_in(&self, many: u64, seed: u64, what: &str) -> bool {
        let drawn = |what: &str, many| Stream::new(seed, what).below(many) == 0;
        drawn(what, 2 * many) || drawn(&format!("{what} of {}", self.load.name()), 2 * many)
    }

    /// One in so many writes fails in a run, if any does.
    fn errors(&self, seed: u64) -> Option<u64> {
        let fails = self.errors || self.one_in(FAILING, seed, "failing run");
        fails.then(|| 4 << Stream::new(seed, "errors").below(5))
    }
}

fn jitter(random: &mut Stream) -> Nanos {
    if random.chance(0.5) { Nanos(1 + random.below(2_000)) } else { Nanos::ZERO }
}

fn crashes(path: &Path, round: u32, images: Vec<Image>) -> Vec<Crash> {
    images.into_iter().map(|image| Crash { path: path.clone(), round, image }).collect()
}
