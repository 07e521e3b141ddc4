//! The file systems and loads that were asked for.

use crate::failure::Failure;
use granary_bench::drives::DRIVES;
use granary_crash::target::{by_name, by_name_on, names, names_on, without_flushes};
use granary_crash::{ENDING, LOADS, Load, Target, load_by_name};
use granary_testbed::registry::FILE_SYSTEMS;
use granary_trace::suggest::meant;
use std::path::Path;
use std::sync::Arc;

/// Behind a name: the same on an SSD whose cache a power failure loses.
const VOLATILE: &str = "@volatile";
/// Behind a name: on its usual devices alone.
const USUAL: &str = "@usual";

/// Prints the names of all.
pub(super) fn list() {
    outln!("file systems:\n  {}", all_names().join("\n  "));
    outln!("loads:\n  {}", LOADS.join("\n  "));
    outln!("loads with an end, each of whose programs has one run:");
    for name in ENDING {
        let runs = load_by_name(name).ok().and_then(|load| load.runs()).unwrap_or_default();
        outln!("  {name} ({runs} runs)");
    }
}

/// The crash cases of all file systems, on the usual devices and on each drive of the registry.
fn all_names() -> Vec<String> {
    let mut all = names(FILE_SYSTEMS);
    all.extend(names_on(FILE_SYSTEMS, DRIVES));
    all
}

/// A file system that is named without devices is explored on its usual ones and, where it runs on an SSD,
/// with a cache that is lost: a FLUSH that is left out shows there alone.
pub(super) fn explored(asked: &[String]) -> Result<Vec<Arc<dyn Target>>, Failure> {
    let all = all_names();
    let mut chosen: Vec<String> = Vec::new();
    for name in if asked.is_empty() { &all } else { asked } {
        let volatile = Some(format!("{name}{VOLATILE}")).filter(|more| all.contains(more));
        for name in [Some(name.clone()), volatile].into_iter().flatten() {
            if !chosen.contains(&name) {
                chosen.push(name);
            }
        }
    }
    chosen.iter().map(|name| target(name)).collect()
}

/// These file systems, each as it is named.
pub(super) fn targets(asked: &[String]) -> Result<Vec<Arc<dyn Target>>, Failure> {
    asked.iter().map(|name| target(name)).collect()
}

/// The same on drives that do nothing when they are told to flush.
pub(super) fn lying(targets: Vec<Arc<dyn Target>>) -> Vec<Arc<dyn Target>> {
    targets.into_iter().map(without_flushes).collect()
}

/// The file system with this name.
fn target(name: &str) -> Result<Arc<dyn Target>, Failure> {
    let plain = name.strip_suffix(USUAL).unwrap_or(name);
    by_name(FILE_SYSTEMS, plain).or_else(|| by_name_on(FILE_SYSTEMS, DRIVES, plain)).ok_or_else(|| {
        let all = all_names();
        let meant = meant(name, all.iter().map(String::as_str));
        Failure::usage(match meant.is_empty() {
            true => format!("no file system '{name}': choose from {}", all.join(", ")),
            false => format!("no file system '{name}': {meant}`granary crash --list` names all"),
        })
    })
}

/// The loads with these names; all named ones where there is none.
pub(super) fn loads(asked: &[String]) -> Result<Vec<Arc<dyn Load>>, Failure> {
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
