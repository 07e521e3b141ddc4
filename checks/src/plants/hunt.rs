//! One bug, one process: until something is found, or the processor time is used up.

use super::tree::Built;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The report that showed a bug.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub target: String,
    pub load: String,
    /// The first line of the report, and what it says next.
    pub report: String,
}

/// The outcome of a hunt for one bug.
#[derive(Clone, Debug, Default)]
pub(super) struct Hunt {
    pub found: Option<Found>,
    /// Points explored until then.
    pub points: u64,
    /// Processor time, user and system, in seconds.
    pub seconds: f64,
    /// The wrong code was run at least once.
    pub ran: bool,
    /// Why it was ended early: it took too much memory, or too long without computing; or it could not be
    /// run.
    pub ended: Option<String>,
}

/// The command that explores these targets under all loads until it finds something, and says how far it is
/// (look.rs).
fn explorer(built: &Built, targets: &[String]) -> Command {
    let mut command = Command::new(built.explorer());
    command.args(["plants", "--look"]).arg(targets.join(","));
    command
}

/// Reads the explorer's lines: its finding, and the number of points that it has explored.
#[derive(Default)]
struct Reading {
    points: u64,
    found: Option<Found>,
    /// The report is whole.
    is_whole: bool,
}

impl Reading {
    fn line(&mut self, line: &str) {
        if let Some(found) = &mut self.found {
            if !self.is_whole {
                found.report = format!("{} {}", found.report, line.trim());
                self.is_whole = true;
            }
            return;
        }
        if let Some(points) = line.strip_prefix("points ") {
            self.points = points.parse().unwrap_or(self.points);
            return;
        }
        // seed 5, FS under LOAD, STAGE:
        let Some(rest) = line.strip_prefix("seed ") else { return };
        let Some((place, stage)) = rest.split_once(", ").and_then(|(_, rest)| rest.rsplit_once(", ")) else {
            return;
        };
        let Some((target, load)) = place.split_once(" under ") else { return };
        self.found =
            Some(Found { target: target.to_owned(), load: load.to_owned(), report: stage.to_owned() });
    }
}

/// Explores these targets with the bug switched on, if one is given.
///
/// # Errors
/// Where the explorer cannot be run.
pub(super) fn explore(
    built: &Built,
    plant: Option<&str>,
    targets: &[String],
    budget: f64,
) -> Result<Hunt, String> {
    let mut reading = Reading::default();
    let command = explorer(built, targets);
    let run = watch(built, command, plant, Some(budget), &mut |line| {
        reading.line(line);
        reading.is_whole
    })?;
    let mut hunt = Hunt { points: reading.points, found: reading.found, ..run.hunt };
    // Bugs that it cannot run with end it otherwise; this one is of the command, and the others are looked
    // for all the same.
    if hunt.found.is_none() && run.code == Some(2) && hunt.ended.is_none() {
        hunt.ended = Some(run.last);
        return Ok(hunt);
    }
    // It never ends by itself.
    if hunt.found.is_none() && run.by_itself {
        let target = targets.join(", ");
        hunt.found = Some(Found { target, load: String::new(), report: format!("ended: {}", run.last) });
    }
    Ok(hunt)
}

/// Runs a test with the bug switched on: it is found where the test fails.
///
/// # Errors
/// Where cargo cannot be run.
pub(super) fn test(built: &Built, plant: &str, args: &[String]) -> Result<Hunt, String> {
    let mut command = built.cargo();
    command.args(["test", "--quiet"]).args(args);
    let mut first = None;
    let run = watch(built, command, Some(plant), None, &mut |line| {
        if line.contains("panicked at") && first.is_none() {
            first = Some(line.trim().to_owned());
        }
        false
    })?;
    let report = first.unwrap_or(run.last);
    let found = Found { target: format!("cargo test {}", args.join(" ")), load: String::new(), report };
    Ok(Hunt { found: (run.code != Some(0)).then_some(found), ..run.hunt })
}

/// How a process ended.
struct Run {
    hunt: Hunt,
    code: Option<i32>,
    /// It was not ended from here.
    by_itself: bool,
    /// The last line that it said.
    last: String,
}

/// The most memory that a process may take, in pages of 4 KiB: 4 GiB.
const MOST_PAGES: u64 = 1 << 20;

/// Runs a command until `enough` has seen a line that is enough, or `budget` is used up.
fn watch(
    built: &Built,
    mut command: Command,
    plant: Option<&str>,
    budget: Option<f64>,
    enough: &mut dyn FnMut(&str) -> bool,
) -> Result<Run, String> {
    let mark: Option<PathBuf> = plant.map(|name| built.target.join(format!("ran-{name}")));
    if let (Some(mark), Some(name)) = (&mark, plant) {
        let _ = std::fs::remove_file(mark);
        command.env("GRANARY_PLANT", name).env("GRANARY_PLANT_RAN", mark);
    } else {
        command.env_remove("GRANARY_PLANT");
    }
    command.current_dir(&built.tree).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    let (tell, lines) = channel();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (hunt, by_itself, last) = std::thread::scope(|scope| {
        let other = tell.clone();
        scope.spawn(move || out.map(|out| read(out, &tell)));
        scope.spawn(move || err.map(|err| read(err, &other)));
        let seen = attend(&child, &lines, budget, enough);
        drop(lines);
        if !seen.1 {
            let _ = child.kill();
        }
        seen
    });
    let status = child.wait().map_err(|e| format!("waiting for the explorer: {e}"))?;
    let ran = mark.is_some_and(|mark| std::fs::remove_file(mark).is_ok());
    Ok(Run { hunt: Hunt { ran, ..hunt }, code: status.code(), by_itself, last })
}

fn read(from: impl Read, tell: &Sender<String>) {
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        if tell.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
            return;
        }
    }
}

/// Follows a process: its processor time, whether it ended by itself, its last line.
#[allow(clippy::disallowed_methods, reason = "a tool bounded in real time; nothing found depends on it")]
fn attend(
    child: &Child,
    lines: &Receiver<String>,
    budget: Option<f64>,
    enough: &mut dyn FnMut(&str) -> bool,
) -> (Hunt, bool, String) {
    let (mut hunt, mut last) = (Hunt::default(), String::new());
    // A process that waits for ever uses no processor time.
    let (begin, longest) = (Instant::now(), Duration::from_secs_f64(budget.unwrap_or(600.0) * 20.0 + 60.0));
    loop {
        let line = lines.recv_timeout(Duration::from_millis(50));
        let took = used(child.id());
        hunt.seconds = took.map_or(hunt.seconds, |(seconds, _)| seconds.max(hunt.seconds));
        match line {
            Ok(line) => {
                if enough(&line) {
                    return (hunt, false, last);
                }
                if !line.trim().is_empty() {
                    last = line;
                }
            }
            // Both ends are closed: it has ended, and is still there to be asked.
            Err(RecvTimeoutError::Disconnected) => return (hunt, true, last),
            Err(RecvTimeoutError::Timeout) => {}
        }
        hunt.ended = match took {
            Some((_, pages)) if pages > MOST_PAGES => Some("more than 4 GiB of memory".to_owned()),
            _ if begin.elapsed() > longest => Some("no end".to_owned()),
            _ => None,
        };
        if hunt.ended.is_some() || budget.is_some_and(|budget| hunt.seconds >= budget) {
            return (hunt, false, last);
        }
    }
}

/// Processor time of a process and of its children that have ended, in seconds, and its memory in pages:
/// /proc/PID/stat, in whose clock ticks a second has 100 on every machine (USER_HZ).
fn used(pid: u32) -> Option<(f64, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    let ticks = number(14)? + number(15)? + number(16)? + number(17)?;
    Some((ticks as f64 / 100.0, number(24)?))
}
