//! Power failures: every target under every load.

use super::Job;
use granary_crash::target::{by_name, names};
use granary_crash::{Coverage, Explorer, LOADS, load_by_name};
use granary_testbed::registry::FILE_SYSTEMS;
use std::ops::Range;
use std::sync::Mutex;

struct Power {
    name: String,
    explorer: Explorer,
    seen: Mutex<Coverage>,
}

/// The names asked for, or all; an unknown one is an error that lists them.
pub(super) fn choose(what: &str, asked: &[String], all: &[impl AsRef<str>]) -> Result<Vec<String>, String> {
    let all: Vec<&str> = all.iter().map(AsRef::as_ref).collect();
    if let Some(name) = asked.iter().find(|a| !all.contains(&a.as_str())) {
        return Err(format!("no {what} '{name}': choose from {}", all.join(", ")));
    }
    let chosen = if asked.is_empty() { all.iter().map(|&a| a.to_owned()).collect() } else { asked.to_vec() };
    Ok(chosen)
}

/// One job for each file system and load.
pub(super) fn jobs(fs: &[String], loads: &[String]) -> Result<Vec<Box<dyn Job>>, String> {
    let mut jobs: Vec<Box<dyn Job>> = Vec::new();
    for fs in choose("file system", fs, &names(FILE_SYSTEMS))? {
        for name in choose("load", loads, LOADS)? {
            let target = by_name(FILE_SYSTEMS, &fs).ok_or_else(|| format!("no file system '{fs}'"))?;
            let load = load_by_name(&name)?;
            let explorer =
                Explorer::new(target, load).map_err(|f| format!("fails without a power failure: {f}"))?;
            jobs.push(Box::new(Power {
                name: format!("power-{fs}-{name}"),
                explorer,
                seen: Mutex::default(),
            }));
        }
    }
    Ok(jobs)
}

impl Job for Power {
    fn name(&self) -> &str {
        &self.name
    }

    fn explore(&self, seeds: Range<u64>) -> Vec<String> {
        let report = self.explorer.explore(seeds);
        self.seen.lock().expect("no panics while locked").add(&report.coverage);
        report.failures.iter().map(ToString::to_string).collect()
    }

    fn summary(&self) -> String {
        self.seen.lock().expect("no panics while locked").to_string()
    }
}
