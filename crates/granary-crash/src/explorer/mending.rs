//! Repairs of damaged media, and power failures in them.
//!
//! ```text
//!   damaged ── repair ──o────o── mount ── check()           where the repair has left nothing wrong
//!                       |    an image ── repair ── mount ── check()
//! ```

use super::film::{Film, Image, Places, Wanted};
use super::life::{self, Machine};
use super::mission::Mission;
use super::place::{Path, Phase, Place};
use super::{Explorer, Failure, Report};
use crate::faulty::{DevicePage, Observer};
use granary_device::Devices;
use granary_fs::Call;
use granary_sim::rng::Stream;
use granary_sim::{now, sleep_until};
use granary_units::Nanos;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Commands of a repair before or after which the power fails.
const PLACES: u64 = 2;

/// The answer of a repair.
enum Said {
    /// Nothing is left.
    Done,
    /// Something is, or it cannot be repaired.
    Left,
}

impl Machine {
    /// With a copy of another's devices, of which these pages cannot be read.
    pub(super) fn damaged(devices: Devices, unreadable: BTreeSet<DevicePage>, like: &Machine) -> Machine {
        let machine = Machine::of(devices, like.promises.fork(), like.now);
        machine.faults.make_unreadable(unreadable);
        machine
    }
}

impl Explorer {
    /// Repairs what is damaged, and again from some images of that.
    pub(super) fn mended(
        &self,
        machine: Machine,
        seed: u64,
        path: &Path,
        fail: &dyn Fn(&str, Vec<String>) -> Failure,
    ) -> Report {
        let mut report = Report::default();
        let mut random = Stream::new(seed, &format!("repair behind {path}"));
        let mut wanted = Wanted::default();
        for _ in 0..PLACES {
            let magnitude = random.below(7);
            wanted.commands.insert((1 + random.below(1 << magnitude), random.chance(0.5)));
        }
        let (raw, promises) = (machine.raw.clone(), machine.promises.clone());
        let film = Film::new(raw, promises, Places::from([(Phase::Repair, wanted)]), 0, Nanos(1), random);
        machine.faults.observe(Some(Arc::clone(&film) as Arc<dyn Observer>));
        let said = self.repair(&machine, seed, Some(&film));
        machine.faults.observe(None);
        let done = match said {
            Ok(None | Some(Said::Left)) => return report,
            Ok(Some(Said::Done)) => true,
            Err(evidence) => {
                report.failures.push(fail("repair", evidence));
                false
            }
        };
        report.coverage.damages.repaired += u64::from(done);
        for image in film.develop().0 {
            let Image { phase, at, .. } = image;
            let path = path.then(Place { phase, at, draw: 0, listed: false });
            image.devices.power_fail(image.now, &mut Stream::new(seed, &format!("survival of {path}")));
            let again = Machine::damaged(image.devices, image.unreadable, &machine);
            let again = Machine { now: image.now, ..again };
            report.points += 1;
            report.coverage.failures += 1;
            let evidence = match self.repair(&again, seed, None) {
                Ok(Some(Said::Left)) if done => vec!["leaves something that it could mend before".to_owned()],
                Ok(_) => {
                    report.coverage.damages.repaired += 1;
                    continue;
                }
                Err(evidence) => evidence,
            };
            report
                .failures
                .push(Failure { path, ..fail("repair behind a power failure in a repair", evidence) });
        }
        report
    }

    /// Repairs, and looks at what that has made; `None`: the file system has no repair.
    fn repair(
        &self,
        machine: &Machine,
        seed: u64,
        film: Option<&Arc<Film>>,
    ) -> Result<Option<Said>, Vec<String>> {
        let (devices, target, faults) =
            (machine.devices.clone(), Arc::clone(&self.target), Arc::clone(&machine.faults));
        let filming = film.cloned();
        let mission = Mission { seed, ..Mission::calm(0, true) };
        let (result, _) = life::in_world(machine, &self.target, &mission, film, move || {
            let ready = devices.power_on(now()).map_err(|e| vec![format!("power on: {e}")])?;
            sleep_until(ready);
            filming.iter().for_each(|film| film.phase(Phase::Repair, &faults));
            let Some(repaired) = target.repair(&devices) else { return Ok(None) };
            filming.iter().for_each(|film| film.ends());
            if !repaired.is_ok_and(|repaired| repaired.left.is_empty()) {
                return Ok(Some(Said::Left));
            }
            let fs = target.mount(&devices).map_err(|e| vec![format!("mount behind a repair: {e}")])?;
            match fs.check(&Call::offline()) {
                Ok(wrong) if wrong.is_empty() => {}
                Ok(wrong) => {
                    return Err(wrong.into_iter().map(|w| format!("check behind a repair: {w}")).collect());
                }
                Err(e) => return Err(vec![format!("check behind a repair failed: {e}")]),
            }
            fs.unmount(&Call::offline()).map_err(|e| vec![format!("unmount behind a repair: {e}")])?;
            Ok(Some(Said::Done))
        });
        life::settled(result, |said| said)
    }
}
