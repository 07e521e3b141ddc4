//! Where the power is to fail: places that are drawn from the whole load, and from a recovery.

use super::Explorer;
use super::film::{Places, Wanted};
use super::place::{Path, Phase};
use granary_sim::rng::Stream;
use granary_units::Nanos;

/// So many recoveries, and mounts at the end of a run, are interrupted.
const INTERRUPTED: f64 = 0.3;
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

/// Where a mount is interrupted, if it is: one in so many.
pub(super) fn mount(random: &mut Stream) -> Wanted {
    let mut wanted = Wanted::default();
    if random.chance(INTERRUPTED) {
        // A mount is short; how short is not known.
        let magnitude = random.below(10);
        wanted.commands.insert((1 + random.below(1 << magnitude), random.chance(0.5)));
    }
    wanted
}
