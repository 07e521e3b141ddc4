//! Where the power is to fail: places that are drawn from the whole load, and from a recovery.

use super::Explorer;
use super::film::{Image, Places, Wanted};
use super::place::{Path, Phase};
use granary_sim::rng::Stream;
use granary_units::Nanos;

/// So many recoveries, and mounts at the end of a run, are interrupted.
const INTERRUPTED: f64 = 0.3;
/// Of a recovery fewer than two to the power of this many commands are looked at.
const MAGNITUDES: u64 = 10;
/// Images of a load that goes on.
pub(super) const LATER: u32 = 4;

impl Explorer {
    /// Places all over the load.
    pub(super) fn anywhere(&self, random: &mut Stream, count: u32, rounds: u32) -> Wanted {
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
    pub(super) fn wanted_behind(&self, seed: u64, path: &Path) -> Places {
        if path.0.len() >= self.deep as usize {
            return Places::new();
        }
        let mut random = Stream::new(seed, &format!("places behind {path}"));
        let recovery = mount(&mut random);
        Places::from([(Phase::Recovery, recovery), (Phase::Load, self.anywhere(&mut random, LATER, 1))])
    }
}

impl Explorer {
    /// Where the recovery behind `path` is to be interrupted, in a mode in which each is: at its first
    /// command, and near and far.
    pub(super) fn wanted_in_recovery(&self, seed: u64, path: &Path) -> Places {
        if recoveries(path) >= self.deep as usize {
            return Places::new();
        }
        let mut random = Stream::new(seed, &format!("recovery behind {path}"));
        let mut wanted = Wanted::default();
        wanted.commands.insert((1, false));
        for magnitude in 0..MAGNITUDES {
            let command = (1 << magnitude) + random.below(1 << magnitude);
            wanted.commands.insert((command, random.chance(0.5)));
        }
        Places::from([(Phase::Recovery, wanted)])
    }
}

/// Recoveries at the end of a path that were interrupted.
pub(super) fn recoveries(path: &Path) -> usize {
    path.0.iter().rev().take_while(|place| place.phase == Phase::Recovery).count()
}

/// One of the images of the recovery behind `path`; none where it had none.
pub(super) fn one_in_recovery(seed: u64, path: &Path, mut images: Vec<Image>) -> Vec<Image> {
    images.retain(|image| image.phase == Phase::Recovery);
    let drawn = Stream::new(seed, &format!("deeper behind {path}")).below(images.len().max(1) as u64);
    images.into_iter().skip(drawn as usize).take(1).collect()
}

/// Where a mount is interrupted, if it is: one in so many.
pub(super) fn mount(random: &mut Stream) -> Wanted {
    let mut wanted = Wanted::default();
    if random.chance(INTERRUPTED) {
        // A mount is short; how short is not known.
        let magnitude = random.below(MAGNITUDES);
        wanted.commands.insert((1 + random.below(1 << magnitude), random.chance(0.5)));
    }
    wanted
}
