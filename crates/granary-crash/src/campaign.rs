//! [`Campaign`]: many runs of many loads on many file systems, on all cores, until a number of crash points
//! or a time is reached.
//!
//! ```text
//!   pairs   ext4 x torture    ext4 x sparse    nova x torture ...
//!              |  the pair that has had the least time goes next, at first one of each file system
//!   workers    turn: run(seed) [media] [errors] [mkfs] ──> Report ──> tally of the pair
//!                                                 a failure: the others go on, unless `stop`
//! ```
//!
//! A pair's turn is short where there is a time for all, so all pairs go round; its parts have a slice each.
//! With a number of points the same campaign looks at the same points, whatever the number of workers. With a
//! time it depends on the machine how far it gets.

use crate::deadline::{Deadline, on_the_wall};
use crate::explorer::{Bounds, Effort, Explorer, Failure, Report};
use crate::load::Load;
use crate::target::Target;
use parking_lot::Mutex;
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
    /// Each run damages media ([`Explorer::media`]), and the power does not fail; else one run in four does
    /// that behind its power failures.
    pub media: bool,
    /// The first run of each pair.
    pub seed: u64,
    /// Crash points of each file system, over all its loads. A damage of media and the power failures in its
    /// repair are looked at together: so it may be a few more.
    pub points: Option<u64>,
    /// Time for all, on the clock of the wall. Without points and time, all loads must have an end
    /// ([`Load::runs`]).
    pub time: Option<Duration>,
    /// Workers.
    pub jobs: usize,
    /// All ends with the first failure, and that alone is told.
    pub stop: bool,
    /// So many pairs keep the devices that their runs begin with; the others make them anew for each turn.
    pub kept: usize,
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
    /// A failure ended all.
    stopped: Arc<AtomicBool>,
}

impl Clock {
    /// Says whether a run is to end. Its slice begins when that is first asked: behind its load, which may be
    /// long.
    fn over(&self) -> impl Fn() -> bool {
        let (clock, end) = (self.clone(), OnceCell::new());
        move || {
            let slice = || clock.slice.map_or_else(|| clock.end.clone(), |slice| clock.end.sooner(slice));
            clock.is_over() || end.get_or_init(slice).is_over()
        }
    }

    fn is_over(&self) -> bool {
        self.stopped.load(Relaxed) || self.end.is_over()
    }
}

/// The parts of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Run,
    Media,
    Errors,
    Making,
}

struct Pair {
    target: Arc<dyn Target>,
    load: Arc<dyn Load>,
    explorer: Option<Arc<Explorer>>,
    /// A worker makes the explorer.
    busy: bool,
    broken: bool,
    /// Before any pair has had time, those with the least go first: so all file systems and loads come early.
    turn: usize,
    /// mkfs is still to be looked at, too: with one load of each file system, as it is the same for all.
    makes: bool,
    /// Crash points at most.
    points: Option<u64>,
    tally: Tally,
    next: u64,
}

impl Pair {
    /// Crash points that are left.
    fn left(&self) -> u64 {
        self.points.map_or(u64::MAX, |points| points.saturating_sub(self.tally.report.points))
    }
}

/// The work of one turn.
struct Done {
    report: Report,
    /// Power failures in mkfs were looked at, all that there are.
    made: bool,
}

impl Campaign {
    /// Power failures one after the other where nobody asks for another number.
    pub const NESTED: u32 = 3;

    /// Explores each load on each file system. `progress` is told the points so far, and the failures, after
    /// each run.
    pub fn explore(
        &self,
        targets: &[Arc<dyn Target>],
        loads: &[Arc<dyn Load>],
        progress: &(dyn Fn(u64, usize) + Sync),
    ) -> Vec<Tally> {
        let pairs = targets.iter().enumerate().flat_map(|(first, target)| {
            let fitting: Vec<_> = loads.iter().filter(|load| target.serves(&***load)).collect();
            let many = fitting.len();
            // The first turns go along a diagonal of file systems and loads.
            let turn = move |n: usize| (n + many - first % many) % many;
            let points = |turn: usize| self.points.map(|all| share(all, many, turn));
            let pair = |(n, load)| self.pair(target, load, turn(n), points(turn(n)));
            fitting.into_iter().enumerate().map(pair).collect::<Vec<_>>()
        });
        let pairs: Mutex<Vec<Pair>> = Mutex::new(pairs.collect());
        let count = pairs.lock().len().max(1) as u32;
        let slice = |time: Duration| LONGEST.min(time.saturating_mul(self.jobs.max(1) as u32) / count);
        let end = self.time.map_or_else(Deadline::default, Deadline::within).or_asked(&self.interrupted);
        let clock = Clock { end, slice: self.time.map(slice), stopped: Arc::default() };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    while !clock.is_over() {
                        let Some(n) = self.pick(&mut pairs.lock()) else { return };
                        self.work(&pairs, n, &clock, progress);
                    }
                });
            }
        });
        pairs.into_inner().into_iter().map(|pair| pair.tally).collect()
    }

    fn pair(&self, target: &Arc<dyn Target>, load: &Arc<dyn Load>, turn: usize, points: Option<u64>) -> Pair {
        let tally = Tally {
            fs: target.name().to_owned(),
            load: load.name().to_owned(),
            report: Report::default(),
            runs: 0,
            spent: Duration::ZERO,
        };
        let (target, load) = (Arc::clone(target), Arc::clone(load));
        let (explorer, busy, broken, makes) = (None, false, false, turn == 0);
        Pair { target, load, explorer, busy, broken, turn, makes, points, tally, next: self.seed }
    }

    /// The pair that has had the least and still wants some.
    fn pick(&self, pairs: &mut [Pair]) -> Option<usize> {
        let wants = |pair: &&(usize, &Pair)| {
            let ended = pair.1.load.runs().is_some_and(|runs| pair.1.next.wrapping_sub(self.seed) >= runs);
            !(pair.1.busy || pair.1.broken || ended || pair.1.left() == 0)
        };
        let by_spent = |pair: &(usize, &Pair)| (pair.1.tally.spent, pair.1.turn, pair.0);
        let all: Vec<(usize, &Pair)> = pairs.iter().enumerate().collect();
        let n = all.iter().filter(wants).min_by_key(|pair| by_spent(pair))?.0;
        pairs[n].busy = true;
        Some(n)
    }

    /// One turn of a pair, with what it takes to begin.
    fn work(
        &self,
        pairs: &Mutex<Vec<Pair>>,
        n: usize,
        clock: &Clock,
        progress: &(dyn Fn(u64, usize) + Sync),
    ) {
        let (target, load, explorer, makes, left, seed) = {
            let pair = &mut pairs.lock()[n];
            let seed = pair.next;
            pair.next = seed.wrapping_add(1);
            (pair.target.clone(), pair.load.clone(), pair.explorer.take(), pair.makes, pair.left(), seed)
        };
        let began = on_the_wall();
        let explorer = explorer.map_or_else(
            || {
                let made = Explorer::new_until(target, load, clock.end.clone());
                made.map(|e| Arc::new(e.deep(self.nested).write_errors(self.errors)))
            },
            Ok,
        );
        let ran = !clock.is_over();
        let (explorer, done) = match explorer {
            // The time was too short for a run: there is nothing to report.
            Ok(explorer) if !ran => (Some(explorer), Done { report: Report::default(), made: false }),
            Ok(explorer) => {
                let done = self.turn(&explorer, seed, &self.parts(&explorer, seed, makes), left, clock);
                (Some(explorer), done)
            }
            Err(failure) => (None, Done { report: broken(failure), made: false }),
        };
        let Done { mut report, made } = done;
        let mut pairs = pairs.lock();
        if self.stop {
            // The first one alone is told.
            let found = clock.stopped.load(Relaxed);
            report.failures.truncate(usize::from(!found));
            clock.stopped.store(found || !report.failures.is_empty(), Relaxed);
        }
        let kept = pairs.iter().filter(|pair| pair.explorer.is_some()).count();
        let pair = &mut pairs[n];
        // Also where nothing can be looked at: it would be tried for ever.
        pair.broken = explorer.is_none() || (report.points == 0 && !report.failures.is_empty());
        // The next turn of this pair is the last of all: the devices that others keep are needed sooner.
        pair.explorer = explorer.filter(|_| kept < self.kept);
        pair.busy = false;
        pair.makes &= !made;
        pair.tally.report.add(report);
        pair.tally.runs += u64::from(ran || pair.broken);
        pair.tally.spent += began.elapsed();
        let points = pairs.iter().map(|pair| pair.tally.report.points).sum();
        let failures = pairs.iter().map(|pair| pair.tally.report.failures.len()).sum();
        drop(pairs);
        progress(points, failures);
    }

    /// The parts of the turn that is run `seed`.
    fn parts(&self, explorer: &Explorer, seed: u64, makes: bool) -> Vec<Part> {
        let also = |many, what| !explorer.ends() && explorer.one_in(many, seed, what);
        let parts = [
            (Part::Run, !self.media),
            (Part::Media, self.media || also(DAMAGING, "damaging run")),
            (Part::Errors, self.errors || also(ERRING, "erring run")),
            (Part::Making, makes),
        ];
        parts.into_iter().filter(|(_, wanted)| *wanted).map(|(part, _)| part).collect()
    }

    /// Does these parts, which share the points that are left.
    fn turn(&self, explorer: &Explorer, seed: u64, parts: &[Part], left: u64, clock: &Clock) -> Done {
        let mut done = Done { report: Report::default(), made: false };
        let ends = explorer.ends();
        for (n, part) in parts.iter().enumerate() {
            let report = &mut done.report;
            let points = left.saturating_sub(report.points).div_ceil((parts.len() - n) as u64);
            if points == 0 || clock.is_over() || (self.stop && !report.failures.is_empty()) {
                break;
            }
            // Every pair is to be looked at within the time; a run may give more images than there is time
            // for.
            let over = clock.over();
            let bounds = Bounds::until(&over).points(points).to_the_first(self.stop);
            let effort = if ends && self.effort == Effort::default() { Effort::BRIEF } else { self.effort };
            let more = match part {
                Part::Run => explorer.run_until(seed, &effort, &bounds),
                Part::Media => explorer.media_until(seed, &bounds),
                Part::Errors => explorer.erring_until(seed, &bounds),
                Part::Making => explorer.making_until(seed, &bounds),
            };
            done.made |= *part == Part::Making && !bounds.are_met(&more);
            done.report.add(more);
        }
        done
    }
}

/// The share of the `n`-th of `many`, where all together have exactly `all`.
fn share(all: u64, many: usize, n: usize) -> u64 {
    let (many, n) = (many as u64, n as u64);
    all / many + u64::from(n < all % many)
}

fn broken(failure: Failure) -> Report {
    Report { failures: vec![failure], ..Report::default() }
}
