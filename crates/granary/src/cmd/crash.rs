//! `granary crash`: power failures by the thousand; which promises were broken, where, and how to see it again.
//!
//! Exit codes: 0 nothing found, 1 a promise was broken (or a file system went wrong without a power failure), 2 usage, 128 + signal
//! where SIGINT or SIGTERM ended it before anything was found.

mod keep;
mod kernel;
mod room;
mod tables;
mod told;
mod watch;

use crate::cli::crash::{CrashArgs, Mode, Replay};
use crate::cmd::interrupt::Stop;
use crate::failure::Failure;
use crate::progress::Fraction;
use granary_bench::drives::DRIVES;
use granary_crash::target::{by_name, by_name_on, names, names_on};
use granary_crash::{Campaign, ENDING, Explorer, LOADS, Load, Tally, Target, load_by_name};
use granary_testbed::registry::FILE_SYSTEMS;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use told::Told;

/// The time of a campaign where neither points nor time are given.
const USUAL_TIME: Duration = Duration::from_secs(60);

/// Runs the command.
pub fn run(args: &CrashArgs) -> Result<ExitCode, Failure> {
    if let Some(kernel) = &args.kernel {
        return kernel::run(args, kernel);
    }
    if args.lie.is_some() {
        return Err(Failure::usage("--lie is for the kernel's file systems: it goes with --kernel"));
    }
    if args.list {
        outln!("file systems:\n  {}", all_names().join("\n  "));
        outln!("loads:\n  {}", LOADS.join("\n  "));
        outln!("loads with an end, each of whose programs has one run:");
        for name in ENDING {
            let runs = load_by_name(name).ok().and_then(|load| load.runs()).unwrap_or_default();
            outln!("  {name} ({runs} runs)");
        }
        return Ok(ExitCode::SUCCESS);
    }
    watch::watch(args);
    let targets = targets(&args.fs)?;
    room::must_fit(room::largest(&targets), jobs(args))?;
    let loads = loads(&args.load)?;
    if let Some(path) = &args.keep_image {
        keep::is_possible(path, &targets)?;
    }
    if let Some(replay) = &args.replay {
        let replay: Replay = replay.parse().map_err(Failure::usage)?;
        if replay.path.0.is_empty() {
            return Err(Failure::usage("--replay needs a place in the run: write for example 17:l812+.0"));
        }
        let ([target], [load]) = (&targets[..], &loads[..]) else {
            return Err(Failure::usage(
                "--replay needs --fs and --load with one name each, as the report names them",
            ));
        };
        return again(args, target, load, &replay, &Stop::watch()?);
    }
    if !targets.iter().any(|target| loads.iter().any(|load| target.grows() || !load.leaves_room())) {
        return Err(Failure::usage(
            "none of these file systems grows: the load grow is for those that do, bytefs for one",
        ));
    }
    let known = args.failures.as_deref().map(read).transpose()?.unwrap_or_default();
    // Before the work, not behind it.
    if let Some(file) = &args.failures {
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
        opened.map_err(|e| Failure::io(format!("opening {}", file.display()), e))?;
    }
    let stop = Stop::watch()?;
    stop.measuring();
    let (mut still, mut found) = (Vec::new(), 0);
    for line in &known {
        if stop.is_asked() {
            // Nobody has looked: it may still fail.
            still.push(line.clone());
            continue;
        }
        let failure = one_known(args, line)?;
        if let Some(text) = failure {
            say!("still fails: {text}");
            still.push(line.clone());
            found += 1;
        } else {
            say!("passes now: {line}");
        }
    }
    let tallies = explore(args, &targets, &loads, &stop);
    let failures = || tallies.iter().flat_map(|t| &t.report.failures);
    found += failures().count();
    if found == 0 && !stop.is_asked() {
        some_point(&tallies)?;
    }
    if let Some(file) = &args.failures {
        let new = failures().filter_map(granary_crash::Failure::replay_line);
        let mut all: Vec<String> = still;
        new.for_each(|line| {
            if !all.contains(&line) {
                all.push(line);
            }
        });
        let text = all.iter().fold(String::new(), |text, line| text + line + "\n");
        std::fs::write(file, text).map_err(|e| Failure::io(format!("writing {}", file.display()), e))?;
    }
    let tell = || told::told(args, &stop, &targets, &loads, failures());
    if args.json {
        outln!("{}", tables::json(&tallies, &tell()));
    } else {
        // The report first: minimising takes a while.
        tables::print(&tallies);
        told::print(&tell());
    }
    if let Some(path) = &args.keep_image {
        keep::first(args, &targets, &loads, failures(), path);
    }
    match stop.signal() {
        None => Ok(if found == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }),
        Some(signal) => {
            let stopped = Failure::stopped(signal);
            // A failure that was found is one, however little was looked at.
            Err(if found == 0 { stopped } else { Failure::found(stopped.to_string()) })
        }
    }
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

/// The crash cases of all file systems, on the usual devices and on each drive of the registry.
fn all_names() -> Vec<String> {
    let mut all = names(FILE_SYSTEMS);
    all.extend(names_on(FILE_SYSTEMS, DRIVES));
    all
}

fn targets(asked: &[String]) -> Result<Vec<Arc<dyn Target>>, Failure> {
    let all = all_names();
    let chosen = if asked.is_empty() { all.clone() } else { asked.to_vec() };
    let target = |name: &String| {
        by_name(FILE_SYSTEMS, name)
            .or_else(|| by_name_on(FILE_SYSTEMS, DRIVES, name))
            .ok_or_else(|| Failure::usage(format!("no file system '{name}': choose from {}", all.join(", "))))
    };
    chosen.iter().map(target).collect()
}

fn loads(asked: &[String]) -> Result<Vec<Arc<dyn Load>>, Failure> {
    let usual: Vec<String> = LOADS.iter().map(|&name| name.to_owned()).collect();
    let chosen = if asked.is_empty() { &usual[..] } else { asked };
    let load = |name: &str| load_by_name(name).map_err(Failure::usage);
    let mut out = Vec::new();
    for text in chosen {
        // A program has commas in it, and so may have a path.
        if text.contains('(') || Path::new(text).is_file() {
            out.push(load(text)?);
        } else {
            out.extend(text.split(',').map(load).collect::<Result<Vec<_>, _>>()?);
        }
    }
    Ok(out)
}

fn explorer(args: &CrashArgs, target: &Arc<dyn Target>, load: &Arc<dyn Load>) -> Result<Explorer, String> {
    let made = Explorer::new(Arc::clone(target), Arc::clone(load));
    made.map(|explorer| explorer.deep(args.nested)).map_err(|failure| failure.to_string())
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

fn again(
    args: &CrashArgs,
    target: &Arc<dyn Target>,
    load: &Arc<dyn Load>,
    replay: &Replay,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let failed = |text: &str, story: &[String]| {
        outln!("{text}");
        story.iter().for_each(|line| outln!("  {line}"));
        Ok(ExitCode::from(1))
    };
    let mut explorer = match explorer(args, target, load) {
        Ok(explorer) => shortened(explorer, replay),
        Err(text) => return failed(&text, &[]),
    };
    let Err(failure) = explorer.replay(replay.seed, &replay.path) else {
        outln!("nothing is wrong there");
        return Ok(ExitCode::SUCCESS);
    };
    if failure.is_of_no_place() {
        let what = failure.evidence.join("; ");
        return Err(Failure::usage(format!(
            "{what}: take the line as the report gives it, for the same code"
        )));
    }
    let story = Told::of(args, &mut explorer, &failure, stop).lines();
    let code = failed(&failure.to_string(), &story);
    if let Some(path) = &args.keep_image {
        let kept = keep::keep(&mut explorer, &**target, &failure, path);
        kept.unwrap_or_else(|e| say!("granary: {e}"));
    }
    code
}

/// The lines of a file of failures: file system, load, run and place.
fn read(file: &Path) -> Result<Vec<String>, Failure> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(Failure::io(format!("reading {}", file.display()), e)),
    }
}

/// The report of a known failure, if it still is one.
fn one_known(args: &CrashArgs, line: &str) -> Result<Option<String>, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "'{line}' is no failure: a line is file system, load, run:place, with tabs between them"
        ))
    };
    let mut words = line.split('\t');
    let (fs, load, place) = (words.next(), words.next(), words.next());
    let (Some(fs), Some(load), Some(place)) = (fs, load, place) else { return Err(wrong()) };
    let replay: Replay = place.parse().map_err(Failure::usage)?;
    let (targets, loads) = (targets(&[fs.to_owned()])?, loads(&[load.to_owned()])?);
    let done = explorer(args, &targets[0], &loads[0]).and_then(|explorer| {
        shortened(explorer, &replay).replay(replay.seed, &replay.path).map_err(|failure| failure.to_string())
    });
    Ok(done.err())
}

#[allow(clippy::disallowed_methods, reason = "a bar shows how much of the time of this machine is over")]
fn explore(
    args: &CrashArgs,
    targets: &[Arc<dyn Target>],
    loads: &[Arc<dyn Load>],
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
        jobs: jobs(args) as usize,
        stop: args.stop,
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
