//! Fewer power failures: a path from which places are left out while the failure stays.
//!
//! ```text
//!   l812+.0/r3-.1/l9+.0     each place is left out in turn, the last first
//!   l812+.0/r3-.0           the others stay; the last one takes what it took, or one of some draws
//! ```
//!
//! Places are numbers of commands, so an earlier power failure can be left out only where the run fails at
//! the same numbers without it.

use super::film::{Places, Wanted};
use super::kind::same;
use super::place::{Path, Phase, Place};
use super::{Explorer, Failure, Report};

/// States that are tried where a power failure is left out, beside the one that was.
const DRAWS: u32 = 12;

impl Explorer {
    /// The failure with as few power failures as still lead to one of its kind.
    pub(super) fn fewer_cuts(&self, failure: &Failure, over: &dyn Fn() -> bool) -> Failure {
        let mut best = failure.clone();
        while let Some(path) = (0..best.path.0.len()).rev().find_map(|n| self.without(&best, n, over)) {
            best.path = path;
        }
        best
    }

    /// The path without its `n`-th place, if that fails in the same way.
    fn without(&self, failure: &Failure, n: usize, over: &dyn Fn() -> bool) -> Option<Path> {
        let mut places: Vec<Place> = failure.path.0.to_vec();
        places.remove(n);
        let first = *places.first()?;
        // A run begins with a new file system, which recovers nothing.
        if !matches!(first.phase, Phase::Load | Phase::Remount) || over() {
            return None;
        }
        let wanted = Places::from([(first.phase, Wanted::one(first.at))]);
        let images = self.trunk(failure.seed, wanted, 0, None, &mut Report::default()).1;
        let last = places.pop()?;
        let drawn = (0..DRAWS).map(|draw| Place { draw, listed: false, ..last });
        let tried = std::iter::once(last).chain(drawn.filter(|place| *place != last));
        let mut paths = tried.map(|last| Path(places.iter().copied().chain([last]).collect()));
        paths.find(|path| {
            let failed = || self.cut_again(failure.seed, path, &images, None, &mut |_| ()).err();
            !over() && failed().is_some_and(|other| same(failure, &other))
        })
    }
}
