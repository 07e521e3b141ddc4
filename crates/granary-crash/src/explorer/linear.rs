//! Images before and after every command of a run, a part of them at a time: all together they would not fit
//! into memory.
//!
//! ```text
//!   commands   0 ........ 64 ........ 128 ........ 192 ....    each part is a run of its own, the same one
//!                          `- the first part is drawn: where the time ends early, others are missing each
//!                             time
//! ```

use super::film::{Places, Wanted};
use super::place::Phase;
use super::{Bounds, Effort, Explorer, Report};
use granary_sim::rng::Stream;

/// Commands of a part.
const PART: u64 = 64;

impl Explorer {
    /// Looks at all of them, within bounds.
    pub(super) fn every_command(&self, seed: u64, effort: &Effort, bounds: &Bounds<'_>, report: &mut Report) {
        let mut random = Stream::new(seed, "every command");
        let expected = (self.extent.commands * u64::from(self.rounds(seed))).div_ceil(PART);
        let first = random.below(expected);
        let mut is_first_run = true;
        // Nobody knows before which part is the last.
        for parts in [first..u64::MAX, 0..first] {
            for part in parts {
                // The time of a turn begins behind the first run.
                if !is_first_run && bounds.are_met(report) {
                    return;
                }
                let every = Wanted { every: part * PART..(part + 1) * PART, ..Wanted::default() };
                let wanted = Places::from([(Phase::Load, every.clone()), (Phase::Remount, every)]);
                let mut again = Report::default();
                let counted = if is_first_run { &mut *report } else { &mut again };
                let (outcome, images) = self.trunk(seed, wanted, 0, None, counted);
                if is_first_run {
                    report.failures.extend(outcome.err());
                }
                is_first_run = false;
                if images.is_empty() {
                    break;
                }
                self.look(seed, images, effort, bounds, &mut random, report);
            }
        }
    }
}
