//! Exploring targets as `granary crash` does, until something is found. Its lines are read by `hunt`.

use granary_crash::target::by_name;
use granary_crash::{Campaign, Effort, LOADS, load_by_name};
use granary_testbed::registry::FILE_SYSTEMS;
use std::time::Duration;

/// Longer than any budget: the observer ends the process.
const FOR_EVER: Duration = Duration::from_secs(1 << 20);

/// Explores under all loads, one run after the other. Returns 1: it ends only where something was found.
///
/// # Errors
/// An unknown target.
pub(super) fn run(targets: &[String]) -> Result<u64, String> {
    let find = |name: &String| by_name(FILE_SYSTEMS, name).ok_or_else(|| format!("no file system '{name}'"));
    let targets = targets.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let loads = LOADS.iter().map(|name| load_by_name(name)).collect::<Result<Vec<_>, _>>()?;
    let campaign = Campaign {
        effort: Effort::default(),
        errors: false,
        media: false,
        nested: Campaign::NESTED,
        seed: 1,
        points: None,
        time: Some(FOR_EVER),
        jobs: 1,
        stop: true,
        kept: usize::MAX,
        interrupted: Default::default(),
    };
    let tallies = campaign.explore(&targets, &loads, &|points, _| outln!("points {points}"));
    let failure = tallies.iter().find_map(|tally| tally.report.failures.first());
    failure.into_iter().for_each(|failure| outln!("{failure}"));
    Ok(1)
}
