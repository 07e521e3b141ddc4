//! `granary crash`: power failures by the thousand; which promises were broken, where, and how to see it
//! again.
//!
//! Exit codes: 0 nothing found, 1 a promise was broken (or a file system went wrong without a power failure),
//! 2 usage, 128 + signal where SIGINT or SIGTERM ended it before anything was found.

mod again;
mod keep;
mod kernel;
mod known;
mod names;
mod room;
mod tables;
mod told;
mod watch;

use crate::cli::crash::{CrashArgs, Mode, Replay};
use crate::cmd::interrupt::Stop;
use crate::failure::Failure;
use crate::progress::Fraction;
use granary_crash::{Campaign, Explorer, Load, Tally, Target};
use known::Known;
use room::Room;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time of a campaign where neither points nor time are given.
const USUAL_TIME: Duration = Duration::from_secs(60);

/// Runs the command.
pub fn run(args: &CrashArgs) -> Result<ExitCode, Failure> {
    if let Some(kernel) = &args.kernel {
        return kernel::run(args, kernel);
    }
    if args.list {
        names::list();
        return Ok(ExitCode::SUCCESS);
    }
    watch::watch(args);
    let targets = match &args.replay {
        Some(_) => names::targets(&args.fs)?,
        None => names::explored(&args.fs)?,
    };
    let targets = if args.lie.is_some() { names::lying(targets) } else { targets };
    let loads = names::loads(&args.load)?;
    let room = room::room(&targets, &loads, args.mode, jobs(args))?;
    if let Some(path) = &args.keep_image {
        keep::is_possible(path, &targets)?;
    }
    if let Some(replay) = &args.replay {
        return again::again(args, replay, &targets, &loads, &Stop::watch()?);
    }
    if !targets.iter().any(|target| loads.iter().any(|load| target.serves(&**load))) {
        return Err(Failure::usage(
            "none of these loads runs on these file systems: grow is for those that grow (bytefs), snapshots for those that keep some (nilfs2)",
        ));
    }
    let stop = Stop::watch()?;
    stop.measuring();
    let known = match &args.failures {
        Some(file) => known::look(args, file, &stop)?,
        None => Known::default(),
    };
    let enough = args.stop && known.failing > 0;
    let mut tallies = if enough { Vec::new() } else { explore(args, &targets, &loads, &room, &stop) };
    let faulty = loads_at_fault(&mut tallies);
    let failures = || tallies.iter().flat_map(|t| &t.report.failures);
    let found = known.failing + failures().count();
    if found == 0 && faulty.is_empty() && !stop.is_asked() {
        some_point(&tallies)?;
    }
    // The report first: a file may not be written, and minimising takes a while.
    let lines = || failures().filter_map(granary_crash::Failure::replay_line);
    let keep = |known: Known| args.failures.as_ref().map_or(Ok(()), |file| known.write(file, lines()));
    let tell = || told::told(args, &stop, &targets, &loads, failures());
    let written = if args.json {
        outln!("{}", tables::json(&tallies, &tell(), &room));
        keep(known)
    } else {
        tables::print(&tallies);
        let written = keep(known);
        told::print(&tell());
        written
    };
    if let Some(path) = &args.keep_image {
        keep::first(args, &targets, &loads, failures(), path);
    }
    let ended = match stop.signal() {
        None => written.and(if faulty.is_empty() { Ok(()) } else { Err(Failure::usage(faulty.join("\n"))) }),
        Some(signal) => written.and(Err(Failure::stopped(signal))),
    };
    match ended {
        Ok(()) => Ok(if found == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }),
        // A failure that was found is one, however little was looked at.
        Err(why) => Err(if found == 0 { why } else { Failure::found(why.to_string()) }),
    }
}

/// Faults of the loads themselves: no file system has failed there.
fn loads_at_fault(tallies: &mut [Tally]) -> Vec<String> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for tally in tallies {
        tally.report.failures.retain(|failure| {
            let at_fault = failure.is_of_the_load();
            if at_fault {
                all.entry(failure.evidence.join("; ")).or_default().push(failure.fs.to_string());
            }
            !at_fault
        });
    }
    all.into_iter().map(|(what, on)| format!("{what} (on {})", on.join(", "))).collect()
}

/// Runs at a time.
fn jobs(args: &CrashArgs) -> u64 {
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    match &args.replay {
        Some(_) => 1,
        None => args.jobs.map_or_else(cores, u64::from),
    }
}

/// Refuses to say that nothing is wrong where nobody looked.
fn some_point(tallies: &[Tally]) -> Result<(), Failure> {
    if tallies.iter().all(|tally| tally.runs == 0) {
        return Err(Failure::usage("not one run began within this time: give it more with --time"));
    }
    if tallies.iter().all(|tally| tally.report.points == 0) {
        return Err(Failure::usage(
            "the time was over before one crash point was looked at: give it more with --time, or take a shorter load",
        ));
    }
    Ok(())
}

fn explorer(
    args: &CrashArgs,
    target: &Arc<dyn Target>,
    load: &Arc<dyn Load>,
) -> Result<Explorer, granary_crash::Failure> {
    Ok(Explorer::new(Arc::clone(target), Arc::clone(load))?.deep(args.nested))
}

/// For the run of a replay: with writes that fail, with some of its calls alone, with what is lost.
fn shortened(explorer: Explorer, replay: &Replay) -> Explorer {
    let explorer = explorer.write_errors(replay.errors);
    let explorer = match &replay.loss {
        Some(loss) => explorer.losing(loss),
        None => explorer,
    };
    match &replay.only {
        Some(calls) => explorer.only(replay.seed, calls),
        None => explorer,
    }
}

#[allow(clippy::disallowed_methods, reason = "a bar shows how much of the time of this machine is over")]
fn explore(
    args: &CrashArgs,
    targets: &[Arc<dyn Target>],
    loads: &[Arc<dyn Load>],
    room: &Room,
    stop: &Stop,
) -> Vec<Tally> {
    let time = args.time.map(|time| Duration::from_nanos(time.0));
    let campaign = Campaign {
        effort: args.mode.effort(),
        errors: args.mode == Mode::Errors,
        media: args.mode == Mode::Media,
        nested: args.nested,
        seed: args.seed,
        points: args.points,
        time: time
            .or((args.points.is_none() && !loads.iter().all(|load| load.runs().is_some()))
                .then_some(USUAL_TIME)),
        jobs: room.jobs as usize,
        stop: args.stop,
        kept: room.kept,
        interrupted: stop.flag(),
    };
    let (bar, began) = (Fraction::new(), Instant::now());
    let all = args.points.map(|points| points * targets.len() as u64);
    let progress = |points: u64, failures: usize| {
        let by_points = all.map(|all| points as f64 / all as f64);
        let by_time = campaign.time.map(|time| began.elapsed().as_secs_f64() / time.as_secs_f64());
        let part = by_points.unwrap_or(0.0).max(by_time.unwrap_or(0.0)).min(1.0);
        bar.set(&format!("{points} points, {failures} failures"), part);
    };
    let tallies = campaign.explore(targets, loads, &progress);
    bar.finish();
    tallies
}
