//! [`Campaign`]: many runs of many loads on many file systems, on all cores, until a number of crash points or a time is reached.
//!
//! ```text
//!   pairs   ext4 x torture    ext4 x sparse    nova x torture ...
//!              |  the pair that has had the least goes next
//!   workers    run(seed) ──> Report ──> tally of the pair     a failure: the others go on, unless `stop`
//! ```
//!
//! With a number of points the same campaign looks at the same points, whatever the number of workers. With a time it depends on
//! the machine how far it gets.

use crate::deadline::{Deadline, on_the_wall};
use crate::explorer::{Effort, Explorer, Failure, Report};
use crate::load::Load;
use crate::target::Target;
use parking_lot::Mutex;
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How much is looked at.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Of each run.
    pub effort: Effort,
    /// At most so many power failures one after the other.
    pub nested: u32,
    /// Block writes fail in each run ([`Explorer::write_errors`]), and so do commands for metadata
    /// ([`Explorer::erring`]).
    pub errors: bool,
    /// Each run damages media ([`Explorer::media`]), and the power does not fail; else one run in four does that behind its power failures.
    pub media: bool,
    /// The first run of each pair.
    pub seed: u64,
    /// Crash points of each file system, at least, over all its loads.
    pub points: Option<u64>,
    /// Time for all, on the clock of the wall. Without points and time, all loads must have an end
    /// ([`Load::runs`]).
    pub time: Option<Duration>,
    /// Workers.
    pub jobs: usize,
    /// Nothing new begins after the first failure.
    pub stop: bool,
    /// Once it is set, all ends after the points at hand: what was found so far is told.
    pub interrupted: Arc<AtomicBool>,
}

/// The outcome of one load on one file system.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The file system.
    pub fs: String,
    /// The load.
    pub load: String,
    /// Its points and failures.
    pub report: Report,
    /// Runs.
    pub runs: u64,
    /// Time that workers spent on it.
    pub spent: Duration,
}

/// The images of one run are looked at for so long at most where there is a time for all.
const LONGEST: Duration = Duration::from_secs(1);

/// One run in so many damages media, where not each does.
const DAMAGING: u64 = 4;

/// In one run in so many commands for metadata fail, where they do not in each.
const ERRING: u64 = 8;

/// When all ends, and how long the images of one run are looked at.
#[derive(Clone)]
struct Clock {
    end: Deadline,
    /// `None`: there is no time for all.
    slice: Option<Duration>,
}

impl Clock {
    /// Says whether a run is to end. Its slice begins when that is first asked: behind its load, which may be long.
    fn over(&self) -> impl Fn() -> bool {
        let (clock, end) = (self.clone(), OnceCell::new());
        move || {
            let slice = || clock.slice.map_or_else(|| clock.end.clone(), |slice| clock.end.sooner(slice));
            clock.end.is_over() || end.get_or_init(slice).is_over()
        }
    }
}

struct Pair {
    target: Arc<dyn Target>,
    load: Arc<dyn Load>,
    explorer: Option<Arc<Explorer>>,
    /// A worker makes the explorer.
    busy: bool,
    broken: bool,
    /// mkfs is looked at, too: with the first load of each file system, as it is the same for all.
    makes: bool,
    tally: Tally,
    next: u64,
}

impl Campaign {
    /// Power failures one after the other where nobody asks for another number.
    pub const NESTED: u32 = 3;

    /// Explores each load on each file system. `progress` is told the points so far, and the failures, after each run.
    pub fn explore(
        &self,
        targets: &[Arc<dyn Target>],
        loads: &[Arc<dyn Load>],
        progress: &(dyn Fn(u64, usize) + Sync),
    ) -> Vec<Tally> {
        let pairs = targets.iter().flat_map(|target| {
            let fitting = loads.iter().filter(|load| target.grows() || !load.leaves_room());
            fitting.enumerate().map(move |(n, load)| self.pair(target, load, n == 0))
        });
        let pairs: Mutex<Vec<Pair>> = Mutex::new(pairs.collect());
        let count = pairs.lock().len().max(1) as u32;
        let slice = |time: Duration| LONGEST.min(time.saturating_mul(self.jobs.max(1) as u32) / count);
        let end = self.time.map_or_else(Deadline::default, Deadline::within).or_asked(&self.interrupted);
        let clock = Clock { end, slice: self.time.map(slice) };
        let share = self.points.map(|points| points.div_ceil(loads.len().max(1) as u64));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    while !clock.end.is_over() {
                        let Some(n) = self.pick(&mut pairs.lock(), share) else { return };
                        self.work(&pairs, n, &clock, progress);
                    }
                });
            }
        });
        pairs.into_inner().into_iter().map(|pair| pair.tally).collect()
    }

    fn pair(&self, target: &Arc<dyn Target>, load: &Arc<dyn Load>, makes: bool) -> Pair {
        let tally = Tally {
            fs: target.name().to_owned(),
            load: load.name().to_owned(),
            report: Report::default(),
            runs: 0,
            spent: Duration::ZERO,
        };
        let (target, load) = (Arc::clone(target), Arc::clone(load));
        Pair { target, load, explorer: None, busy: false, broken: false, makes, tally, next: self.seed }
    }

    /// The pair that has had the least and still wants some.
    fn pick(&self, pairs: &mut [Pair], share: Option<u64>) -> Option<usize> {
        if self.stop && pairs.iter().any(|pair| !pair.tally.report.failures.is_empty()) {
            return None;
        }
        let wants = |pair: &&(usize, &Pair)| {
            let ended = pair.1.load.runs().is_some_and(|runs| pair.1.next.wrapping_sub(self.seed) >= runs);
            let has_enough = share.is_some_and(|share| pair.1.tally.report.points >= share);
            !(pair.1.busy || pair.1.broken || ended || has_enough)
        };
        let by_spent = |pair: &(usize, &Pair)| (pair.1.tally.spent, pair.0);
        let all: Vec<(usize, &Pair)> = pairs.iter().enumerate().collect();
        let n = all.iter().filter(wants).min_by_key(|pair| by_spent(pair))?.0;
        pairs[n].busy = true;
        Some(n)
    }

    /// One run of a pair, the first with what it takes to begin.
    fn work(
        &self,
        pairs: &Mutex<Vec<Pair>>,
        n: usize,
        clock: &Clock,
        progress: &(dyn Fn(u64, usize) + Sync),
    ) {
        let (target, load, explorer, makes, seed) = {
            let pair = &mut pairs.lock()[n];
            pair.next = pair.next.wrapping_add(1);
            (
                pair.target.clone(),
                pair.load.clone(),
                pair.explorer.clone(),
                pair.makes,
                pair.next.wrapping_sub(1),
            )
        };
        let (began, ends) = (on_the_wall(), load.runs().is_some());
        let makes = makes && explorer.is_none();
        let explorer = explorer.map_or_else(
            || {
                let made = Explorer::new_until(target, load, clock.end.clone());
                made.map(|e| Arc::new(e.deep(self.nested).write_errors(self.errors)))
            },
            Ok,
        );
        let ran = !clock.end.is_over();
        let (explorer, report) = match explorer {
            // What the time did not suffice for is no run.
            Ok(explorer) if !ran => (Some(explorer), Report::default()),
            Ok(explorer) => {
                // Every pair is to be looked at within the time; a run may give more images than there is time for.
                let effort =
                    if ends && self.effort == Effort::default() { Effort::BRIEF } else { self.effort };
                let mut report = match self.media {
                    true => explorer.media_until(seed, &clock.over()),
                    false => explorer.run_until(seed, &effort, &clock.over()),
                };
                if !self.media && !ends && explorer.one_in(DAMAGING, seed, "damaging run") {
                    report.add(explorer.media_until(seed, &clock.over()));
                }
                if self.errors || !ends && explorer.one_in(ERRING, seed, "erring run") {
                    report.add(explorer.erring_until(seed, &clock.over()));
                }
                if makes {
                    report.add(explorer.making_until(seed, &|| clock.end.is_over()));
                }
                (Some(explorer), report)
            }
            Err(failure) => (None, broken(failure)),
        };
        let mut pairs = pairs.lock();
        let pair = &mut pairs[n];
        // Also where nothing can be looked at: it would be tried for ever.
        pair.broken = explorer.is_none() || (report.points == 0 && !report.failures.is_empty());
        pair.explorer = explorer;
        pair.busy = false;
        pair.tally.report.add(report);
        pair.tally.runs += u64::from(ran || pair.broken);
        pair.tally.spent += began.elapsed();
        let points = pairs.iter().map(|pair| pair.tally.report.points).sum();
        let failures = pairs.iter().map(|pair| pair.tally.report.failures.len()).sum();
        drop(pairs);
        progress(points, failures);
    }
}

fn broken(failure: Failure) -> Report {
    Report { failures: vec![failure], ..Report::default() }
}
