//! [`Explorer::keep`]: the power failure of a failure once more, on devices that outlive the process: what it
//! leaves can be looked at before its recovery.
//!
//! ```text
//!   in memory   mkfs ── run ──o────>            copies of the devices; what each power failure took is
//!                                               written down
//!                             `─ recovery ──o─>
//!   to keep     mkfs ── run ──X recovery ──X    no copies: the run ends at each place, and the power failure
//!                                               takes the same
//! ```
//!
//! Invariant: both power failures meet the same things at the same instants, or nothing is said to be kept.

use super::kind::same;
use super::life::Machine;
use super::loss::Loss;
use super::minimise::Short;
use super::place::{Path, Phase};
use super::run::Cut;
use super::{Explorer, Failure};
use granary_device::Devices;
use granary_sim::rng::Fate;
use granary_units::Nanos;
use std::sync::Arc;

/// Devices without copies, and what the power failures of a path take from them.
pub(super) struct Kept {
    devices: Devices,
    losses: Vec<Arc<Loss>>,
}

/// A power failure: when it was, and what it took.
type Taken = (Nanos, Vec<Fate>);

impl Explorer {
    /// Does once more what led to a failure, on these new devices, and leaves them as the last power failure
    /// of its path did.
    ///
    /// # Errors
    /// Why they are not what that has left: it has no power failure, does not come again, or these devices do
    /// otherwise.
    pub fn keep(&mut self, failure: &Failure, devices: &Devices) -> Result<(), String> {
        match failure.path.0.first().map(|place| place.phase) {
            None => return Err("no power failure led to it: its load alone goes wrong".into()),
            Some(Phase::Damaged | Phase::Repair) => {
                return Err("damaged media led to it, and only what a power failure left can be kept".into());
            }
            Some(Phase::Erring) => {
                return Err(
                    "failed commands led to it, and only what a power failure left can be kept".into()
                );
            }
            Some(_) => {}
        }
        let before = (self.short.take(), self.loss.take());
        if let Some(calls) = &failure.only {
            self.short = Some(Short::new(self, failure.seed, calls));
        }
        self.loss.clone_from(&failure.loss);
        let kept = self.keep_on(failure, devices);
        (self.short, self.loss) = before;
        self.kept = None;
        kept
    }

    /// A replay of this explorer behind which all was well: [`Explorer::keep`] takes it like a failure.
    pub fn passed(&self, seed: u64, path: &Path) -> Failure {
        Failure { path: path.clone(), ..self.failure(seed, String::new(), Vec::new()) }
    }

    fn keep_on(&mut self, failure: &Failure, devices: &Devices) -> Result<(), String> {
        let (taken, again) = self.cuts(failure);
        let comes_again = match again {
            Ok(()) => failure.evidence.is_empty(),
            Err(again) => same(failure, &again),
        };
        if !comes_again {
            return Err("it does not come again".into());
        }
        if failure.path.0.iter().all(|place| place.phase != Phase::Making) {
            self.make_on(devices)?;
        }
        let losses = taken.iter().map(|(_, fates)| Arc::new(Loss::exactly(fates))).collect();
        self.kept = Some(Kept { devices: devices.clone(), losses });
        let (same_taken, left) = self.cuts(failure);
        left.map_err(|failure| failure.to_string())?;
        if same_taken == taken { Ok(()) } else { Err(OTHERWISE.into()) }
    }

    /// The power failures of a failure, done once more.
    fn cuts(&self, failure: &Failure) -> (Vec<Taken>, Result<(), Failure>) {
        let mut taken = Vec::new();
        let done = self.replay_with(failure.seed, &failure.path, &mut |cut: &Cut<'_>| {
            taken.push((cut.image.now, cut.fates.to_vec()));
        });
        (taken, done)
    }

    /// Makes the file system as it was made in memory.
    fn make_on(&self, devices: &Devices) -> Result<(), String> {
        let mut machine = Machine::of(devices.clone(), Machine::promises(&*self.target), Nanos::ZERO);
        self.format(&mut machine, 0).map_err(|failure| failure.to_string())?;
        if machine.now == self.made_at { Ok(()) } else { Err(OTHERWISE.into()) }
    }

    /// The devices of a new run: copies, but where they are kept.
    pub(super) fn devices_of_run(&self) -> Option<Devices> {
        self.kept_devices().or_else(|| self.made.as_ref().and_then(Devices::fork))
    }

    /// The devices of a run that are kept.
    pub(super) fn kept_devices(&self) -> Option<Devices> {
        self.kept.as_ref().map(|kept| kept.devices.clone())
    }

    /// The devices of an image, to be used up.
    pub(super) fn second(&self, devices: &Devices) -> Option<Devices> {
        if self.kept.is_some() { Some(devices.clone()) } else { devices.fork() }
    }

    /// The losses of the `n`-th power failure of a path of `many`, where somebody says.
    pub(super) fn loss_of<'a>(
        &'a self,
        n: usize,
        many: usize,
        last: Option<&'a Arc<Loss>>,
    ) -> Option<&'a Arc<Loss>> {
        match &self.kept {
            Some(kept) => kept.losses.get(n),
            None => last.filter(|_| n + 1 == many),
        }
    }
}

/// Why nothing is kept.
const OTHERWISE: &str = "on an image the same run does something else: this is a fault of Granary";
