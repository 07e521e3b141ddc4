//! `granary crash --kernel ext4`: the kernel's own file systems, on a drive that is recorded.
//!
//! ```text
//!   Recording: a load on a mount, every request of the drive below, promises by place
//!        v       (recording, tape, log, load, client)
//!   states: everything that a flush covered, any subset of the rest
//!        v       (states)
//!   Bench: state ─> image ─> mount ─> oracle ─> unmount ─> checker
//!                (trial, image, mounted, kind)
//! ```
//!
//! A recording is some hundred states' worth. The kernel's own threads and clock are in it, so no second one
//! is the same; all that is drawn from a recording is a function of the seed.

mod client;
mod image;
mod kind;
mod load;
mod log;
mod mounted;
mod recording;
mod states;
mod tape;
mod trial;

use super::room;
use crate::cli::crash::{CrashArgs, Lie};
use crate::failure::Failure;
use crate::progress::Fraction;
use granary_bench::memory::{Limits, Need, Use};
use granary_sim::wall::{Pacing, set_pacing};
use granary_trace::suggest::meant;
use kind::{KINDS, Kind};
use load::Load;
use parking_lot::Mutex;
use recording::Recording;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use trial::{Bench, Complaint, Tally};

/// States that are drawn of a recording.
const STATES: u64 = 300;
/// The time of a campaign where neither points nor time are given.
const USUAL_TIME: Duration = Duration::from_secs(60);

/// Runs the command.
pub fn run(args: &CrashArgs, name: &str) -> Result<ExitCode, Failure> {
    let kind = Kind::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        let meant = meant(name, names.iter().copied());
        Failure::usage(format!(
            "no file system '{name}' of the kernel: {meant}choose from {}",
            names.join(", ")
        ))
    })?;
    let load = args.load.as_slice();
    let load = match load {
        [] => Load::Both,
        [one] => Load::parse(one).map_err(Failure::usage)?,
        _ => return Err(Failure::usage("--kernel takes one --load: torture, programs, or a program")),
    };
    let replay = args.replay.as_deref().map(place).transpose()?;
    kind.check_machine()?;
    mounted::private_mounts();
    set_pacing(Pacing::Off);
    // The kernel writes back through us when memory is short: we must not wait for it then. Root's privilege.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::io("watching for signals", e))?;
    }
    let work = Arc::new(Work::new(args, kind, load, replay, stop));
    let config = recording::drive_config().map_err(Failure::usage)?;
    room::must_fit(Need::of_ssd(&config, Use::NEW).times(2), work.jobs, &Limits::here()?)?;
    let all = work.explore()?;
    if all.tally.states == 0 {
        return Err(Failure::usage("not one state was tried: give it more time with --time"));
    }
    if args.json {
        outln!("{}", all.json(name))
    } else {
        all.print(name)
    }
    Ok(if all.complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A run and a state of it.
fn place(text: &str) -> Result<(u64, u64), Failure> {
    let parts =
        text.split_once(':').and_then(|(seed, state)| Some((seed.parse().ok()?, state.parse().ok()?)));
    parts.ok_or_else(|| {
        Failure::usage(format!("'{text}' is no state: a report writes RUN:STATE, for example 4:117"))
    })
}

/// The state that all workers share.
struct Work {
    kind: &'static Kind,
    load: Load,
    replay: Option<(u64, u64)>,
    stop: Arc<AtomicBool>,
    stop_at_first: bool,
    keep: Option<PathBuf>,
    ignored: usize,
    jobs: u64,
    points: u64,
    time: Option<Duration>,
    first_seed: u64,
    began: Instant,
    next: AtomicU64,
    taken: AtomicU64,
    bar: Fraction,
    found: Mutex<Found>,
}

/// The findings of all workers.
#[derive(Default)]
struct Found {
    recordings: u64,
    requests: u64,
    tally: Tally,
    complaints: Vec<Complaint>,
    spent: Duration,
}

impl Work {
    #[allow(clippy::disallowed_methods, reason = "how long it takes is the machine's time")]
    fn new(
        args: &CrashArgs,
        kind: &'static Kind,
        load: Load,
        replay: Option<(u64, u64)>,
        stop: Arc<AtomicBool>,
    ) -> Work {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let jobs = if replay.is_some() { 1 } else { args.jobs.map_or(cores, u64::from) };
        let time = args.time.map(|time| Duration::from_nanos(time.0));
        Work {
            kind,
            load,
            replay,
            stop,
            stop_at_first: args.stop,
            keep: args.keep_image.clone(),
            ignored: match args.lie {
                None => 0,
                Some(Lie::LastFlush) => 1,
                Some(Lie::Flushes) => usize::MAX,
            },
            jobs,
            points: args.points.unwrap_or(u64::MAX),
            time: time.or(args.points.is_none().then_some(USUAL_TIME)),
            first_seed: args.seed,
            began: Instant::now(),
            next: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            bar: Fraction::new(),
            found: Mutex::default(),
        }
    }

    fn explore(self: &Arc<Work>) -> Result<Found, Failure> {
        let place = Place::new()?;
        let tasks: Vec<_> = (0..self.jobs)
            .map(|job| {
                let (work, dir) = (Arc::clone(self), place.0.join(job.to_string()));
                granary_sim::spawn("states", move || work.work(&dir))
            })
            .collect();
        let ended: Vec<Result<(), String>> = tasks.into_iter().map(granary_sim::JoinHandle::join).collect();
        self.bar.finish();
        let mut found = std::mem::take(&mut *self.found.lock());
        found.spent = self.began.elapsed();
        found.complaints.sort_by_key(|c| (c.seed, c.number));
        ended.into_iter().collect::<Result<Vec<()>, String>>().map_err(Failure::found)?;
        Ok(found)
    }

    fn is_over(&self) -> bool {
        let late = self.time.is_some_and(|time| self.began.elapsed() >= time);
        late || self.stop.load(Relaxed) || self.taken.load(Relaxed) >= self.points
    }

    /// Takes one of the states that are left; false: there is none.
    fn claim(&self) -> bool {
        let more = |taken| (taken < self.points).then_some(taken + 1);
        self.taken.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn work(&self, dir: &Path) -> Result<(), String> {
        for part in ["drive", "mnt", "state"] {
            std::fs::create_dir_all(dir.join(part)).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        let mut done = false;
        while !done && !self.is_over() {
            let number = self.next.fetch_add(1, Relaxed);
            let seed = self.replay.map_or(self.first_seed + number, |(seed, _)| seed);
            let tape = Recording::make(self.kind, &self.load, seed, dir)?;
            self.try_states(&tape, dir)?;
            self.kind.forget();
            done = self.replay.is_some();
        }
        Ok(())
    }

    fn try_states(&self, tape: &Recording, dir: &Path) -> Result<(), String> {
        let load = self.load.name(tape.seed);
        let mut bench = Bench::new(self.kind, dir)?;
        bench.ignored = self.ignored;
        bench.keep.clone_from(&self.keep);
        let numbers = self.replay.map_or(0..STATES, |(_, state)| state..state + 1);
        for number in numbers {
            // Taken before it is tried: two workers do not try the last one.
            if self.is_over() || !self.claim() {
                break;
            }
            let before = bench.tally.states;
            let complaint = bench.attempt(tape, &load, number)?;
            if bench.tally.states == before {
                // It was tried before.
                self.taken.fetch_sub(1, Relaxed);
            }
            let taken = self.taken.load(Relaxed);
            if let Some(complaint) = complaint {
                self.found.lock().complaints.push(complaint);
                self.stop.fetch_or(self.stop_at_first, Relaxed);
            }
            let by_time =
                self.time.map_or(0.0, |time| self.began.elapsed().as_secs_f64() / time.as_secs_f64());
            let part = (taken as f64 / self.points as f64).max(by_time).min(1.0);
            self.bar.set(&format!("{taken} states, {} complaints", self.found.lock().complaints.len()), part);
        }
        let mut found = self.found.lock();
        found.recordings += 1;
        found.requests += tape.entries.len() as u64;
        let (all, these) = (&mut found.tally, &bench.tally);
        all.states += these.states;
        all.again += these.again;
        all.files += these.files;
        all.checked += these.checked;
        all.loose += these.loose;
        Ok(())
    }
}

/// A directory in memory, with what the workers need; dropped, it is gone.
struct Place(PathBuf);

impl Place {
    fn new() -> Result<Place, Failure> {
        let memory = Path::new("/dev/shm");
        let above = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = above.join(format!("granary-crash-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(|e| Failure::io(dir.display(), e))?;
        Ok(Place(dir))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Found {
    fn per_second(&self) -> f64 {
        self.tally.states as f64 / self.spent.as_secs_f64().max(1e-9)
    }

    fn print(&self, name: &str) {
        let (mut told, mut same) = (BTreeSet::new(), 0);
        for c in &self.complaints {
            // One fault shows in many states of a run.
            if !told.insert((c.seed, c.wrong.first())) {
                same += 1;
                continue;
            }
            outln!("run {}, state {}, the kernel's {name} under {}:", c.seed, c.number, c.load);
            outln!("  {}", c.state);
            c.wrong.iter().for_each(|wrong| outln!("  {}", wrong.replace('\n', "\n    ")));
            if let Some(promised) = &c.promised {
                outln!("  promised by: {promised}");
            }
            outln!("  calls before, by request of the drive (the last had begun):");
            c.calls.iter().for_each(|call| outln!("    {call}"));
            match &c.image {
                Some(image) => outln!("  as the power failure left it: {}", image.display()),
                None => outln!("  --keep-image DIR keeps the image as the power failure left it"),
            }
            let load =
                if c.load == "torture" || c.load == "programs" { &c.load } else { &format!("'{}'", c.load) };
            outln!("  once more: `--kernel {name} --load {load} --replay {}:{}`\n", c.seed, c.number);
        }
        if same > 0 {
            outln!("{same} more states of these runs have the same first line; --json tells all\n");
        }
        let t = &self.tally;
        outln!(
            "{name}: {} states of {} recordings ({} requests), {:.1} states/s; {} files compared, {} states checked by its own \
             checker, {:.1} writes uncovered per state; {} complaints",
            t.states,
            self.recordings,
            self.requests,
            self.per_second(),
            t.files,
            t.checked,
            t.loose as f64 / t.states.max(1) as f64,
            self.complaints.len()
        );
    }

    fn json(&self, name: &str) -> serde_json::Value {
        let complaint = |c: &Complaint| {
            serde_json::json!({
                "run": c.seed, "state": c.number, "load": c.load, "told": c.state, "wrong": c.wrong, "promised": c.promised,
                "calls": c.calls, "image": c.image,
            })
        };
        serde_json::json!({
            "kernel": name, "states": self.tally.states, "again": self.tally.again, "recordings": self.recordings,
            "requests": self.requests, "seconds": self.spent.as_secs_f64(), "files": self.tally.files,
            "checked": self.tally.checked, "complaints": self.complaints.iter().map(complaint).collect::<Vec<_>>(),
        })
    }
}
