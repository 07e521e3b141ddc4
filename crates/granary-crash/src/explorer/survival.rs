//! A power failure: what the devices are left with is drawn from the seed and the path, listed, or named.

use super::Explorer;
use super::loss::Loss;
use super::place::{Path, Place};
use granary_device::Devices;
use granary_sim::rng::{Fate, Stream};
use granary_units::Nanos;
use std::sync::Arc;

/// How it is chosen what the devices are left with.
pub(super) enum Draws {
    Random(u32),
    /// The script of the next.
    Listed(Option<Vec<u64>>),
}

/// Cuts the power. Says whether there are more states that the devices may be left in.
pub(super) fn lose_power(devices: &Devices, now: Nanos, draws: &mut Draws, seed: u64, path: &Path) -> bool {
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

pub(super) fn survival(seed: u64, path: &Path) -> Stream {
    Stream::new(seed, &format!("survival of {path}"))
}

/// The same power failure once more, or one that takes `loss`. `random` is what it was drawn from.
pub(super) fn lose_as(
    devices: &Devices,
    now: Nanos,
    place: &Place,
    random: Stream,
    loss: Option<&Arc<Loss>>,
) -> Vec<Fate> {
    // Where it is named what is lost, nothing is drawn; and devices that are kept have no copies for a list.
    let listed = place.listed && loss.is_none();
    let mut random = if listed { Stream::scripted(script(devices, now, place.draw)) } else { random }
        .with_fates(loss.map(|loss| loss.0.clone()));
    devices.power_fail(now, &mut random);
    random.fates()
}

/// The script of the n-th state in the list of all: those before say which it is.
fn script(devices: &Devices, now: Nanos, n: u32) -> Vec<u64> {
    let mut script = Vec::new();
    for _ in 0..n {
        let Some(copy) = devices.fork() else { break };
        let mut random = Stream::scripted(script);
        copy.power_fail(now, &mut random);
        script = random.next_script().unwrap_or_default();
    }
    script
}

impl Explorer {
    /// How late drives answer in this run or point: in half of them a share of the writes is late.
    pub(super) fn late(&self, seed: u64) -> Option<u64> {
        let late = !self.punctual && Stream::new(seed, "late drive").chance(0.5);
        late.then_some(seed)
    }
}
