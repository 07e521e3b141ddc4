//! `cargo xtask plants`: whether the crash explorer finds the bugs that are planted for it.
//!
//! ```text
//!   tracked files ── copy ── all patches ── built once: target/plants/tree, target/plants/target
//!   first without a bug, each target for some seconds: nothing may be found
//!   then each bug: a process of its own, GRANARY_PLANT=NAME, until it is found or out of processor time
//! ```
//!
//! The list and the patches are in `crates/granary-crash/plants`. The tree itself has none of them.

mod hunt;
mod look;
#[path = "../../crates/granary-crash/tests/it/plants/patches.rs"]
mod patches;
mod table;
mod tree;

use crate::soak::target_dir;
use clap::Args as ClapArgs;
use hunt::{Found, Hunt};
use patches::{By, PLACE, Plant};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Arguments of `plants`.
#[derive(ClapArgs)]
pub struct Args {
    /// Lists the bugs.
    #[arg(long)]
    list: bool,
    /// Checks that all patches apply, and that the list has each of them.
    #[arg(long, conflicts_with = "list")]
    check: bool,
    /// Processor time for each bug, in seconds.
    #[arg(long, default_value_t = 60.0)]
    budget: f64,
    /// Processor time for each target without a bug, in seconds.
    #[arg(long, default_value_t = 10.0)]
    calm: f64,
    /// Looks for this bug only; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Bugs that are looked for at the same time; as many as there are cores where left out.
    #[arg(long)]
    jobs: Option<usize>,
    /// Explores these targets until something is found, and says how many points that took. A hunt runs this
    /// in the copy.
    #[arg(long, value_name = "TARGET", value_delimiter = ',', conflicts_with_all = ["list", "check"])]
    look: Vec<String>,
    /// Writes the table to a file, as Markdown.
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
}

/// The least share of the bugs that the explorer must find, in percent.
const SHARE: usize = 95;

/// Returns how many bugs too few were found; findings without a bug count, too.
///
/// # Errors
/// Patches that do not apply, a tree that cannot be built.
pub fn run(args: &Args) -> Result<u64, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let place = root.join(PLACE);
    if args.check {
        return check(&root, &place);
    }
    if !args.look.is_empty() {
        return look::run(&args.look);
    }
    let plants = chosen(patches::list(&place)?, &args.only)?;
    if args.list {
        plants.iter().for_each(|plant| outln!("{}", table::entry(plant)));
        return Ok(0);
    }
    let home = target_dir().join("plants");
    let built = tree::build(&root, &place, &home, &plants)?;
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok().map(|n| n.get())).unwrap_or(1);
    let alarms = calm(&built, &plants, args.calm, jobs)?;
    let rows = at_once(&plants, jobs, |plant| {
        let hunt = match &plant.by {
            By::Crash => hunt::explore(&built, Some(&plant.name), &plant.targets, args.budget),
            By::Test { args, .. } => hunt::test(&built, &plant.name, args),
        };
        hunt.inspect(|hunt| say!("{}", table::line(plant, hunt)))
    })?;
    let table = table::markdown(&plants, &rows, &alarms, args.budget);
    outln!("{table}");
    if let Some(path) = &args.out {
        std::fs::write(path, format!("{table}\n")).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let explored: Vec<bool> = plants
        .iter()
        .zip(&rows)
        .filter_map(|(plant, hunt)| (plant.by == By::Crash).then_some(hunt.found.is_some()))
        .collect();
    let found = explored.iter().filter(|found| **found).count();
    let least = (explored.len() * SHARE).div_ceil(100);
    Ok((least.saturating_sub(found) + alarms.len()) as u64)
}

fn check(root: &Path, place: &Path) -> Result<u64, String> {
    let scratch = target_dir().join(format!("plants/check-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    let checked = patches::check(root, place, &scratch);
    let _ = std::fs::remove_dir_all(&scratch);
    match checked {
        Ok(count) => outln!("{count} planted bugs: every patch applies"),
        Err(e) => {
            outln!("{e}");
            return Ok(1);
        }
    }
    Ok(0)
}

fn chosen(plants: Vec<Plant>, only: &[String]) -> Result<Vec<Plant>, String> {
    if let Some(name) = only.iter().find(|name| !plants.iter().any(|plant| plant.name == **name)) {
        return Err(format!("no planted bug '{name}': `cargo xtask plants --list` has them"));
    }
    Ok(plants.into_iter().filter(|plant| only.is_empty() || only.contains(&plant.name)).collect())
}

/// Failures on the targets of these bugs while none of them is switched on.
fn calm(built: &tree::Built, plants: &[Plant], budget: f64, jobs: usize) -> Result<Vec<Found>, String> {
    let targets: BTreeSet<&String> = plants.iter().flat_map(|plant| &plant.targets).collect();
    let targets: Vec<String> = targets.into_iter().cloned().collect();
    let hunts = at_once(&targets, jobs, |target| {
        let hunt = hunt::explore(built, None, std::slice::from_ref(target), budget);
        hunt.inspect(|hunt| say!("{target} without a bug: {}", table::outcome(hunt)))
    })?;
    Ok(hunts.into_iter().filter_map(|hunt| hunt.found).collect())
}

/// Does the work for each of these, some at once; results in their order.
fn at_once<T: Sync>(
    all: &[T],
    jobs: usize,
    work: impl Fn(&T) -> Result<Hunt, String> + Sync,
) -> Result<Vec<Hunt>, String> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Hunt, String>)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, all.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Relaxed);
                    let Some(one) = all.get(n) else { return };
                    let hunt = work(one);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((n, hunt));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, hunt)| hunt).collect()
}
