//! [`Precondition`]: what a drive holds before it is measured.
//!
//! ```text
//!   none         new: reads do not touch the flash
//!   fill         every page written once, in order; page n holds the word n
//!   random:N     and then N times the capacity in random pages: towards gc's steady state
//! ```
//!
//! No simulated time passes: the flash is brought into the state that these writes leave ([`Mssd::fill`],
//! [`Mssd::scatter`]).

use granary_device::DriveError;
use granary_mssd::Mssd;
use granary_sim::rng::Stream;
use granary_units::{Lpa, Page};

/// Random writes between two reports of progress.
const REPORT_EVERY: u64 = 1 << 18;

/// Content of the drive before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// A new drive.
    None,
    /// Every page written once, in order.
    Fill,
    /// That, and then this many times the capacity in random pages.
    Random(u32),
}

impl Precondition {
    /// From `none`, `fill`, `random N` or `random:N`.
    ///
    /// # Errors
    /// A message with the forms that are allowed.
    pub fn parse(text: &str) -> Result<Precondition, String> {
        let bad = || format!("'{text}': write none, fill, or random:N for N times the drive's capacity");
        match text.split_once([':', ' ', '=']) {
            None if text == "none" => Ok(Precondition::None),
            None if text == "fill" => Ok(Precondition::Fill),
            Some(("random", n)) => {
                n.trim().parse().ok().filter(|&n| n > 0).map(Precondition::Random).ok_or_else(bad)
            }
            _ => Err(bad()),
        }
    }

    /// Brings a new drive into this state. `progress` is told how much is done, 0 to 1.
    ///
    /// # Errors
    /// A drive that has served commands; drive errors.
    pub fn apply(self, drive: &Mssd, seed: u64, mut progress: impl FnMut(f64)) -> Result<(), DriveError> {
        let pages = drive.config().pages();
        let rounds = match self {
            Precondition::None => return Ok(()),
            Precondition::Fill => 0,
            Precondition::Random(n) => n as u64,
        };
        progress(0.0);
        drive.fill(Lpa(0), pages, |lpa| Page::word(lpa.0))?;
        let mut random = Stream::new(seed, "drive bench: precondition");
        let all = pages * rounds;
        for begun in (0..all).step_by(REPORT_EVERY as usize) {
            progress((pages + begun) as f64 / (pages + all) as f64);
            let some = begun..all.min(begun + REPORT_EVERY);
            drive.scatter(some.map(|n| (Lpa(random.below(pages)), Page::word(n))))?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Precondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Precondition::None => f.write_str("none"),
            Precondition::Fill => f.write_str("fill"),
            Precondition::Random(n) => write!(f, "random:{n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{job, small};
    use crate::{Bench, Job};
    use granary_device::{Command, Drive, Structure};
    use granary_mssd::Mode;
    use granary_units::Nanos;

    #[test]
    fn preconditions_are_parsed() {
        assert_eq!(Precondition::parse("random 2"), Ok(Precondition::Random(2)));
        assert_eq!(Precondition::parse("random:3"), Ok(Precondition::Random(3)));
        assert_eq!(Precondition::parse("fill"), Ok(Precondition::Fill));
        assert!(Precondition::parse("random").is_err() && Precondition::parse("random:0").is_err());
    }

    /// A drive that was filled at once holds the same and measures the same as one to which every page was
    /// really written. (Log mode: the baselines' cache would hold what was written last.)
    #[test]
    fn filling_at_once_equals_really_writing() {
        let config = small().with_mode(Mode::Log);
        let filled = Mssd::new(&config).expect("valid");
        Precondition::Fill.apply(&filled, 1, |_| {}).expect("fills");
        let written = Mssd::new(&config).expect("valid");
        let (pages, most) = (config.pages(), config.link.nvme.max_transfer as u64);
        let mut now = Nanos::ZERO;
        for lpa in (0..pages).step_by(most as usize) {
            let content: Vec<Page> = (lpa..pages.min(lpa + most)).map(Page::word).collect();
            let command = Command::Write { lpa: Lpa(lpa), pages: &content, what: Structure::Data };
            now = written.submit(now, command).expect("writes");
        }
        let start = written.settle(now).expect("settles");
        for lpa in 0..pages {
            assert_eq!(
                filled.peek(Lpa(lpa)).expect("reads").as_word(),
                Some((lpa, 4096)).filter(|_| lpa > 0).or(Some((0, 0)))
            );
            assert_eq!(
                written.peek(Lpa(lpa)).expect("reads").as_word(),
                filled.peek(Lpa(lpa)).expect("reads").as_word()
            );
        }
        let jobs: [Job; 2] = [job("randwrite", 4096, 8, 120_000), job("randread", 4096, 8, 5_000)];
        let run = |drive: &Mssd| {
            let m = Bench { start, ..Bench::of(drive, &jobs) }.run(|_, _| {}).expect("runs");
            drive.check().expect("consistent");
            let latency: Vec<_> = m.jobs.iter().map(|j| (j.latency.mean(), j.latency.max())).collect();
            (m.time, latency, m.run.flash, m.drain.flash)
        };
        let (a, b) = (run(&filled), run(&written));
        assert_eq!(a, b);
        assert!(a.2.programs(granary_flash::Cause::Gc) > 0, "gc was at work");
    }
}
