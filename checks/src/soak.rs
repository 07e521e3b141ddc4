//! `cargo xtask soak`: seeds by the thousand, resumable, bounded in points or minutes.
//!
//! ```text
//!   jobs: kind x fs x load, each with its own state file target/soak/KIND-FS-LOAD (the next seed)
//!   turns of some seeds for each job, spread over the threads, until points or minutes are used up
//! ```
//!
//! A state file counts seeds that are done, with or without findings: failures are printed with their replay
//! command.

mod calls;
mod configs;
mod drive_faults;
mod fsx;
mod image;
mod mounted;
mod power;
mod prefix;
mod schedules;
mod state;

use clap::{Args as ClapArgs, ValueEnum};
use state::State;
pub use state::target_dir;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Kinds of exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Power failures against the crash oracle.
    Power,
    /// Schedules of concurrent calls against the reference.
    Schedules,
    /// Crashes of drive images.
    Image,
    /// Whole drives of random configurations in their steady state.
    DriveConfigs,
    /// Drives whose flash fails and whose power goes away.
    DriveFaults,
    /// The crate fsx on mounted images.
    Fsx,
    /// File systems with a data journal, of which a power failure leaves a prefix of the calls.
    Prefix,
    /// Calls of every kind, direct ones included, on mounted images.
    Calls,
}

/// Arguments of `soak`.
#[derive(ClapArgs)]
pub struct Args {
    /// The kind of exploration.
    #[arg(long, value_enum, default_value = "power")]
    kind: Kind,
    /// File systems; all where left out.
    #[arg(long, value_delimiter = ',')]
    fs: Vec<String>,
    /// Loads (power only); all where left out.
    #[arg(long, value_delimiter = ',')]
    load: Vec<String>,
    /// Seeds for each file system and load.
    #[arg(long, default_value_t = 1000)]
    points: u64,
    /// First seed; where left out, goes on after the last one of the state file.
    #[arg(long)]
    from: Option<u64>,
    /// Stops after this many minutes.
    #[arg(long)]
    minutes: Option<f64>,
    /// Threads; as many as there are cores where left out.
    #[arg(long)]
    jobs: Option<usize>,
}

/// Something that can be explored seed by seed, from several threads.
trait Job: Sync {
    /// KIND-FS-LOAD.
    fn name(&self) -> &str;

    /// Explores the seeds; one text for each failure.
    fn explore(&self, seeds: Range<u64>) -> Vec<String>;

    /// The work so far, in one line.
    fn summary(&self) -> String;
}

/// Seeds that a thread takes at once.
const TURN: u64 = 16;

/// Explores; returns the number of failures.
pub fn run(args: &Args) -> Result<u64, String> {
    let jobs = match args.kind {
        Kind::Power => power::jobs(&args.fs, &args.load)?,
        Kind::Schedules => schedules::jobs(&args.fs)?,
        Kind::Image => image::jobs(),
        Kind::DriveConfigs => configs::jobs(),
        Kind::DriveFaults => drive_faults::jobs(),
        Kind::Prefix => prefix::jobs(),
        Kind::Fsx => mounted::jobs(fsx::Fsx, &args.fs)?,
        Kind::Calls => mounted::jobs(calls::Calls, &args.fs)?,
    };
    let threads = match args.jobs {
        Some(n) => n.max(1),
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
    };
    #[allow(clippy::disallowed_methods)] // a tool bounded in real time; nothing found depends on it
    let begin = Instant::now();
    let limit = args.minutes.map(|m| Duration::from_secs_f64(m.max(0.0) * 60.0));
    let mut turns = Vec::new();
    for job in &jobs {
        let state = State::open(job.name())?;
        let first = args.from.unwrap_or(state.next);
        // A replay from a given seed does not move the state.
        turns.push(Turns {
            job: &**job,
            state: args.from.is_none().then_some(state),
            left: first..first + args.points,
        });
    }
    let (mut found, mut done) = (0, 0);
    // Without a reader of what is found there is no point in going on.
    while crate::out::is_open()
        && turns.iter().any(|t| !t.left.is_empty())
        && limit.is_none_or(|limit| begin.elapsed() < limit)
    {
        for turn in turns.iter_mut().filter(|t| !t.left.is_empty()) {
            let end = (turn.left.start + TURN * threads as u64).min(turn.left.end);
            for failure in spread(turn.job, turn.left.start..end, threads) {
                found += 1;
                outln!("{failure}");
            }
            done += end - turn.left.start;
            turn.left.start = end;
            if let Some(state) = &mut turn.state {
                state.advance(end)?;
            }
            let rate = done as f64 / begin.elapsed().as_secs_f64().max(1e-9);
            say!("{}: next seed {end}, {found} failures, {rate:.1} points/s", turn.job.name());
        }
    }
    for job in &jobs {
        outln!("{}: {}", job.name(), job.summary());
    }
    outln!("{done} points, {found} failures");
    Ok(found)
}

struct Turns<'a> {
    job: &'a dyn Job,
    state: Option<State>,
    left: Range<u64>,
}

/// Explores the seeds on several threads; failures in the order of the seeds.
fn spread(job: &dyn Job, seeds: Range<u64>, threads: usize) -> Vec<String> {
    let share = (seeds.end - seeds.start).div_ceil(threads as u64).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = (seeds.start..seeds.end)
            .step_by(share as usize)
            .map(|first| scope.spawn(move || job.explore(first..(first + share).min(seeds.end))))
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("a job catches panics")).collect()
    })
}
