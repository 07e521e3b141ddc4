//! Damage of media: flipped bits, lost, stale, torn and misdirected pages, pages that cannot be read.
//!
//! ```text
//!   load ── unmount: devices at rest ── one damage in a copy ──┬── mount ── check() ── verify ── load
//!                                                              │   ── unmount ── mount ── check()
//!                                                              └── repair, where the file system has one
//!                                                                  ── mount ── check()
//! ```
//!
//! 1. No damage leads to a panic or a deadlock, in no call.
//! 2. Damage of content shows in the files that it hit, or somebody tells.
//! 3. Damage of metadata does not pass for the truth: mount, check() or a call tells of it, or all is as
//!    promised. Of which structures a file system promises that, for flipped bits and unreadable pages, is in
//!    its crash case ([`crate::Target::checks`]).
//! 4. A repair that left nothing makes a file system that mounts, and that check() is content with; an
//!    interrupted repair, done again, too.

use super::film::{Film, Image, Places, Wanted};
use super::kind::same;
use super::life::{self, Life, Machine};
use super::minimise::{Minimal, fewest_calls};
use super::mission::{Mission, Outcome};
use super::place::{At, Path, Phase, Place};
use super::probe::Hit;
use super::report::NO_PLACE;
use super::{Bounds, Damages, Explorer, Failure, Report};
use crate::damage::{Damage, Media};
use crate::faulty::DevicePage;
use crate::load::Clients;
use crate::oracle::{Promises, Story};
use crate::recorded::{Begun, Calls, Tape};
use granary_device::{Devices, Structure};
use granary_fs::{Call, Caller, Cred};
use granary_sim::Stop;
use granary_sim::rng::Stream;
use granary_units::Nanos;
use granary_vfs::{Process, Vfs};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Damages of one run.
const DAMAGES: u64 = 24;
/// The damaged file system is worked with in one of so many.
const WORKED_WITH: u64 = 4;

/// Devices with an unmounted file system.
struct AtRest {
    devices: Devices,
    promises: Promises,
    now: Nanos,
    /// At an instant in the load.
    between: Devices,
    written: BTreeMap<DevicePage, Structure>,
}

/// A look at a damaged file system.
struct Sight {
    /// It told of damage.
    told: bool,
    violations: Vec<String>,
    /// Of these: wrong bytes, or errors.
    of_content: u64,
}

/// A damage, and whether the damaged file system is worked with.
type Drawn = (Damage, bool);

/// The `n`-th damage of a run, and whether the damaged file system is worked with.
fn draw(seed: u64, rest: &AtRest, n: u64) -> Option<Drawn> {
    let mut random = Stream::new(seed, &format!("damage {n}"));
    let damage = Damage::draw(&mut random, &rest.written)?;
    Some((damage, random.below(WORKED_WITH) == 0))
}

impl Explorer {
    /// Runs the load, unmounts, and looks at up to 24 damages, each in a copy.
    pub fn media(&self, seed: u64) -> Report {
        self.media_until(seed, &Bounds::NONE)
    }

    /// The same, within bounds.
    pub fn media_until(&self, seed: u64, bounds: &Bounds<'_>) -> Report {
        let mut report = Report::default();
        match self.at_rest(seed, None) {
            Ok(rest) => {
                for n in 0..DAMAGES {
                    if bounds.are_met(&report) {
                        break;
                    }
                    report.add(self.damaged(seed, &rest, n));
                }
            }
            Err(failure) => report.failures.push(failure),
        }
        report
    }

    /// Does once more what failed at `path` of run `seed`: a damage, or a power failure in its repair. The
    /// story, where one is kept, ends with the damage.
    pub(super) fn damaged_again(&self, seed: u64, path: &Path) -> (Option<Story>, Result<(), Failure>) {
        let missing = |what: &str| Err(self.failure(seed, NO_PLACE.into(), vec![format!("'{path}' {what}")]));
        let At::Before(n) = path.0[0].at else { return (None, missing("is no damage: d0- is one")) };
        let sick = match self.sick(seed, n) {
            Ok(sick) if n < DAMAGES => sick,
            Ok(_) => None,
            Err(failure) => return (None, Err(failure)),
        };
        let Some((rest, drawn)) = sick else {
            return (None, missing("is not reached: that run has no such damage"));
        };
        let report = self.damaged_by(seed, &rest, n, drawn);
        let reached = report.points > 0 && path.0.len() == 1;
        let done = match report.failures.into_iter().find(|failure| failure.path == *path) {
            Some(failure) => Err(failure),
            None if reached => Ok(()),
            None => missing("is not reached: that run has no such damage"),
        };
        let mut story = rest.promises.story();
        story
            .iter_mut()
            .for_each(|story| story.cut(format!("the file system is unmounted, then media: {}", drawn.0)));
        (story, done)
    }

    /// The devices of a run at rest, and its `n`-th damage. Where calls are left out the damage is that of
    /// the whole run, in the page that holds the same there.
    fn sick(&self, seed: u64, n: u64) -> Result<Option<(AtRest, Drawn)>, Failure> {
        let tape = Tape::default();
        let whole = self.at_rest(seed, Some(&tape))?;
        let Some((damage, works)) = draw(seed, &whole, n) else { return Ok(None) };
        let Some(short) = &self.short else { return Ok(Some((whole, (damage, works)))) };
        let tape = Tape::playing(&Arc::new(tape.take()), Calls::clone(&short.calls));
        let rest = self.at_rest(seed, Some(&tape))?;
        Ok(damage.moved(&rest.written).map(|damage| (rest, (damage, works))))
    }

    /// The fewest calls of the load that still lead to a failure of the same kind, with the same damage to
    /// the same structure.
    pub(super) fn minimise_damage(
        &mut self,
        failure: &Failure,
        over: &dyn Fn() -> bool,
    ) -> Result<Minimal, String> {
        let (seed, At::Before(n)) = (failure.seed, failure.path.0[0].at) else {
            return Err("no damage".into());
        };
        let (best, answers, of) = {
            let tape = Tape::default();
            let whole = self.at_rest(seed, Some(&tape)).map_err(|failure| failure.to_string())?;
            let (damage, works) = draw(seed, &whole, n).ok_or("it does not come again")?;
            let (begun, answers) = (tape.begun(), Arc::new(tape.take()));
            let stage = |failure: &Failure| failure.stage.split(", ").next().map(str::to_owned);
            let fails = |kept: &[Begun], _: &dyn Fn() -> bool| {
                let calls: Calls = kept.iter().map(|begun| begun.call).collect();
                let tape = Tape::playing(&answers, calls);
                let rest = self.at_rest(seed, Some(&tape)).ok()?;
                let report = self.damaged_by(seed, &rest, n, (damage.moved(&rest.written)?, works));
                let alike = |other: &Failure| stage(failure) == stage(other) && same(failure, other);
                let found = report.failures.into_iter().find(alike)?;
                Some(Hit { failure: found, begun: tape.begun() })
            };
            let best = fewest_calls(&begun, &fails, over)?;
            (best, answers, begun.len())
        };
        self.minimal(failure, best, answers, of)
    }

    fn at_rest(&self, seed: u64, tape: Option<&Tape>) -> Result<AtRest, Failure> {
        let Some(raw) = self.made.as_ref().and_then(Devices::fork) else {
            return Err(self.no_copy(seed));
        };
        let _watched = self.watched("a life", seed, &Path::default());
        let mut promises = Machine::promises(&*self.target);
        if self.tells {
            promises = promises.with_story();
        }
        let machine = Machine::of(raw, promises, self.made_at);
        machine.faults.note_writes();
        let mut random = Stream::new(seed, "media");
        let at = At::Instant(Nanos(1 + random.below(self.extent.span.0)));
        let wanted = Places::from([(Phase::Load, Wanted::one(at))]);
        let (devices, promises) = (machine.raw.clone(), machine.promises.clone());
        let film = Film::new(devices, promises, wanted, 0, self.extent.span, random);
        let life = Life {
            target: Arc::clone(&self.target),
            load: Arc::clone(&self.load),
            root_seed: seed,
            mission: Mission::calm(0, false),
            film: Some(Arc::clone(&film)),
            tape: tape.cloned(),
            until: self.until.clone(),
        };
        let (machine, outcome) = life.live(machine);
        if let Outcome::Wrong { stage, evidence } = outcome {
            return Err(self.failure(seed, stage, evidence));
        }
        let between = film.develop().0.pop().map(|Image { devices, .. }| devices);
        let between = between.or_else(|| machine.raw.fork()).ok_or_else(|| self.no_copy(seed))?;
        let Machine { raw, faults, promises, now, .. } = machine;
        Ok(AtRest { devices: raw, promises, now, between, written: faults.written() })
    }

    /// Looks at one damage; no point, where nothing is changed by it.
    fn damaged(&self, seed: u64, rest: &AtRest, n: u64) -> Report {
        draw(seed, rest, n).map_or_else(Report::default, |drawn| self.damaged_by(seed, rest, n, drawn))
    }

    /// The same, for a damage that was drawn. `works`: the damaged file system is worked with.
    fn damaged_by(&self, seed: u64, rest: &AtRest, n: u64, (damage, works): Drawn) -> Report {
        let mut report = Report::default();
        let (Some(before), Some(devices)) = (&self.made, rest.devices.fork()) else {
            report.failures.push(self.no_copy(seed));
            return report;
        };
        let mut machine = Machine::of(devices, rest.promises.fork(), rest.now);
        let (raw, between) = (machine.raw.clone(), &rest.between);
        let media = Media { devices: &raw, faults: &machine.faults, before, between, now: rest.now };
        let path =
            Path::default().then(Place { phase: Phase::Damaged, at: At::Before(n), draw: 0, listed: false });
        let _watched = self.watched("a life", seed, &path);
        let fail = |stage: &str, evidence: Vec<String>| {
            let failure = self.failure(seed, format!("{stage}, {damage}"), evidence);
            Failure { path: path.clone(), ..failure }
        };
        machine.now = match damage.apply(&media) {
            Ok(Some(at)) => at,
            Ok(None) => return report,
            Err(e) => {
                report.failures.push(fail("damage", vec![e.to_string()]));
                return report;
            }
        };
        report.points += 1;
        let unreadable = machine.faults.unreadable();
        let copy = raw.fork().map(|devices| Machine::damaged(devices, unreadable, &machine));
        match self.look_at_damage(&machine, seed, works) {
            Ok(sight) => {
                let judged = self.judge(&damage, sight, &mut report.coverage.damages);
                report.failures.extend(judged.err().map(|(stage, evidence)| fail(stage, evidence)));
            }
            Err(evidence) => report.failures.push(fail("work with damaged media", evidence)),
        }
        if let Some(copy) = copy {
            report.add(self.mended(copy, seed, &path, &fail));
        }
        report
    }

    /// Whether a damaged file system showed what it may.
    fn judge(
        &self,
        damage: &Damage,
        sight: Sight,
        seen: &mut Damages,
    ) -> Result<(), (&'static str, Vec<String>)> {
        let Sight { told, violations, of_content } = sight;
        // A page holds content of one file; a misdirected write hits two.
        let elsewhere = violations.len() as u64 > of_content.min(2);
        let kind = match (told, violations.is_empty(), damage.is_of_content() && !elsewhere) {
            (true, ..) => &mut seen.told,
            (false, true, _) => &mut seen.harmless,
            (false, false, true) => &mut seen.content,
            (false, false, false) => &mut seen.silent,
        };
        *kind += 1;
        // Content that is moved by a cleaner may be a directory's; then the file system tells.
        if damage.is_of_content() && elsewhere && !told {
            return Err(("damage of content shows elsewhere", violations));
        }
        let promised = self.target.checks(damage.what) && damage.breaks_checksums();
        if promised && !told && !violations.is_empty() {
            return Err(("damage of metadata passes for the truth", violations));
        }
        Ok(())
    }

    /// Mounts, checks, compares; with `works` it works with it, and mounts once more. The evidence of an
    /// error is a panic or a deadlock.
    fn look_at_damage(&self, machine: &Machine, seed: u64, works: bool) -> Result<Sight, Vec<String>> {
        let (devices, promises) = (machine.devices.clone(), machine.promises.fork());
        let (target, load) = (Arc::clone(&self.target), Arc::clone(&self.load));
        let mission = Mission { seed, ..Mission::calm(1, true) };
        let until = self.until.clone();
        let silence = || Sight { told: true, violations: Vec::new(), of_content: 0 };
        let (seen, _) = life::in_world(machine, &self.target, &mission, None, move || {
            let Ok(fs) = target.mount(&devices) else { return silence() };
            let told = !fs.check(&Call::offline()).is_ok_and(|wrong| wrong.is_empty());
            let Ok(vfs) = Vfs::mount(fs, target.vfs()) else { return silence() };
            let mut process = Process::new(Arc::clone(&vfs), Cred::ROOT);
            let verdict = promises.verify(&mut process);
            process.exit();
            let told = told || verdict.errors > 0;
            let of_content = verdict.wrong_files + verdict.errors;
            let sight = Sight { told, violations: verdict.violations.clone(), of_content };
            if works {
                promises.go_on_from(verdict);
                let clients = Clients::new(Arc::clone(&vfs), promises).with_room(&devices).until(&until);
                // Errors are no fault here, nor is what it finds wrong.
                let _ = load.run(&clients, 1, &mut Stream::new(seed, load.name()));
                let _ = vfs.sync(&Caller::KERNEL);
            }
            if vfs.unmount().is_ok()
                && works
                && let Ok(fs) = target.mount(&devices)
            {
                let _ = fs.check(&Call::offline());
                let _ = fs.unmount(&Call::offline());
            }
            sight
        });
        match seen {
            // The deadline came in the load: no more can be said.
            Ok(Err(Stop::PowerFail(_))) => Ok(silence()),
            seen => life::settled(seen, Ok),
        }
    }

    /// Such devices cannot be explored.
    pub(super) fn no_copy(&self, seed: u64) -> Failure {
        let what = "its devices have no second copy: give the drive `Drive::fork`".to_owned();
        self.failure(seed, "run".into(), vec![what])
    }
}
