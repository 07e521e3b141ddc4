//! Power failures while a file system is made.
//!
//! ```text
//!   mkfs   o──o──o──o──o       images before and after commands of mkfs
//!             |  power on ── mount: an error, or an empty file system whose check() is content
//!             |  mkfs again ── mount ── load ── unmount ── mount ── verify: nothing of the first attempt is
//!             |                                                     in the way
//! ```
//!
//! mkfs promises nothing before it returns. But its leftovers must not be taken for a file system that they
//! are not, and it must be possible to begin again.

use super::film::{Film, Image, Places, Wanted};
use super::life::{self, Life, Machine};
use super::loss::Loss;
use super::mission::{Mission, Outcome};
use super::place::{Path, Phase, Place};
use super::report::NO_PLACE;
use super::run::Cut;
use super::survival::{lose_as, survival};
use super::{Bounds, Explorer, Failure, Report};
use crate::faulty::Observer;
use granary_sim::rng::Stream;
use granary_units::Nanos;
use std::sync::Arc;

/// Commands of mkfs that are looked at, at most, each before and after.
const PLACES: u64 = 12;
/// States of each image.
const DRAWS: u32 = 2;

impl Explorer {
    /// Cuts the power while the file system is made, at up to 24 places that are drawn from the seed.
    pub fn making(&self, seed: u64) -> Report {
        self.making_until(seed, &Bounds::NONE)
    }

    /// The same, within bounds.
    pub fn making_until(&self, seed: u64, bounds: &Bounds<'_>) -> Report {
        let mut report = Report::default();
        let (images, made) = self.images_of_making(seed, self.places_of_making(seed));
        report.failures.extend(made.err());
        for image in images {
            for draw in 0..DRAWS {
                if bounds.are_met(&report) {
                    return report;
                }
                report.points += 1;
                report.coverage.failures += 1;
                report.coverage.in_mkfs += 1;
                let place = Place { phase: image.phase, at: image.at, draw, listed: false };
                report.failures.extend(self.made_again(seed, &image, place, None, &mut |_| ()).err());
            }
        }
        report
    }

    /// Does once more what failed at `place`.
    pub(super) fn making_again(
        &self,
        seed: u64,
        place: Place,
        images: &[Image],
        loss: Option<&Arc<Loss>>,
        before: &mut dyn FnMut(&Cut<'_>),
    ) -> Result<(), Failure> {
        match images.iter().find(|image| image.at == place.at) {
            Some(image) => self.made_again(seed, image, place, loss, before),
            None => Err(self.failure(seed, NO_PLACE.into(), vec![format!("'{place}' is not reached")])),
        }
    }

    fn places_of_making(&self, seed: u64) -> Wanted {
        let mut random = Stream::new(seed, "making");
        let mut wanted = Wanted::default();
        for _ in 0..PLACES {
            let command = 1 + random.below(self.made_by.max(1));
            wanted.commands.extend([(command, false), (command, true)]);
        }
        wanted
    }

    /// Makes the file system once; the images of that, and what went wrong although the power stayed on.
    pub(super) fn images_of_making(&self, seed: u64, wanted: Wanted) -> (Vec<Image>, Result<(), Failure>) {
        let _watched = self.watched("mkfs", seed, &Path::default());
        let new = || self.target.devices(seed);
        let devices = self.kept_devices().unwrap_or_else(new);
        let machine = Machine::of(devices, Machine::promises(&*self.target), Nanos::ZERO);
        machine.devices.track_in_flight(true);
        if self.tells {
            machine.faults.note_writes();
        }
        machine.devices.answer_late(self.late(seed));
        let (raw, promises) = (machine.raw.clone(), machine.promises.clone());
        let film = Film::new(
            raw,
            promises,
            Places::from([(Phase::Making, wanted)]),
            0,
            Nanos(1),
            Stream::new(seed, "making"),
        );
        if self.kept.is_some() {
            film.ends_with_the_first();
        }
        machine.faults.observe(Some(Arc::clone(&film) as Arc<dyn Observer>));
        let (devices, fs, faults) =
            (machine.devices.clone(), Arc::clone(&self.target), Arc::clone(&machine.faults));
        let filming = Arc::clone(&film);
        let mission = Mission { seed, ..Mission::calm(0, false) };
        let (made, _) = life::in_world(&machine, &self.target, &mission, Some(&film), move || {
            filming.phase(Phase::Making, &faults);
            fs.mkfs(&devices)
        });
        machine.faults.observe(None);
        let made = life::settled(made, |made| made.map_err(|e| vec![e.to_string()]));
        (film.develop().0, made.map_err(|evidence| self.failure(seed, "mkfs".into(), evidence)))
    }

    fn made_again(
        &self,
        seed: u64,
        image: &Image,
        place: Place,
        loss: Option<&Arc<Loss>>,
        before: &mut dyn FnMut(&Cut<'_>),
    ) -> Result<(), Failure> {
        let path = Path::default().then(place);
        let _watched = self.watched("what a power failure in mkfs left", seed, &path);
        let Some(devices) = self.second(&image.devices) else { return Ok(()) };
        let loss = self.loss_of(0, 1, loss);
        let fates = lose_as(&devices, image.now, &place, survival(seed, &path), loss);
        if let Some(what) = loss.and_then(|loss| loss.not_met(&fates)) {
            return Err(self.failure(seed, NO_PLACE.into(), vec![what]));
        }
        let mut promises = Machine::promises(&*self.target);
        if self.tells {
            promises = promises.with_story();
        }
        before(&Cut { image, promises: &promises, fates: &fates });
        if self.kept.is_some() {
            return Ok(());
        }
        let mut machine = Machine::of(devices, promises, image.now);
        let fail = |what: &str, evidence| {
            let failure = self.failure(seed, format!("{what} behind a power failure in mkfs"), evidence);
            Err(Failure { path: path.clone(), ..failure })
        };
        if let Err(evidence) = life::look(&mut machine, &self.target) {
            return fail("mount", evidence);
        }
        // This one is not interrupted; each of the thousands of pages that it trims would be looked for among
        // those in flight.
        machine.devices.track_in_flight(false);
        if let Err(evidence) = life::format(&mut machine, &self.target) {
            return fail("mkfs", evidence);
        }
        let life = Life {
            target: Arc::clone(&self.target),
            load: Arc::clone(&self.load),
            root_seed: seed,
            mission: Mission::calm(0, false),
            film: None,
            tape: None,
            until: self.until.clone(),
        };
        match life.live(machine).1 {
            Outcome::Wrong { stage, evidence } => fail(&stage, evidence),
            _ => Ok(()),
        }
    }
}
