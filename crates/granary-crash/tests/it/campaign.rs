//! How a campaign shares its turns and points out.

use granary_crash::target::without_flushes;
use granary_crash::{Campaign, Effort, Explorer, Load, Report, Tally, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

fn targets(names: &[&str]) -> Vec<Arc<dyn Target>> {
    names.iter().map(|name| crate::targets::by_name(name).expect("a target")).collect()
}

fn loads(names: &[&str]) -> Vec<Arc<dyn Load>> {
    names.iter().map(|name| crate::targets::load(name).expect("a load")).collect()
}

fn campaign(points: u64) -> Campaign {
    Campaign {
        effort: Effort { anywhere: 2, in_steps: 0, draws: 1, ..Effort::default() },
        nested: 1,
        errors: false,
        media: false,
        seed: 1,
        points: Some(points),
        time: None,
        jobs: 1,
        stop: false,
        kept: usize::MAX,
        interrupted: Arc::default(),
    }
}

/// The explorations of so many turns.
fn after(turns: u64, targets: &[Arc<dyn Target>], loads: &[Arc<dyn Load>]) -> Vec<Tally> {
    let (flag, count) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let campaign = Campaign { interrupted: Arc::clone(&flag), ..campaign(100_000) };
    campaign.explore(targets, loads, &|_, _| {
        if count.fetch_add(1, Relaxed) + 1 == turns {
            flag.store(true, Relaxed);
        }
    })
}

#[test]
fn the_first_turns_go_over_all_file_systems_and_all_loads_and_then_over_all_pairs() {
    let (targets, loads) = (targets(&["pmfs", "ext4", "nova"]), loads(&["torture", "appended", "sparse"]));
    let names = |of: &dyn Fn(&Tally) -> String, tallies: &[Tally]| {
        let mut names: Vec<String> = tallies.iter().filter(|tally| tally.runs > 0).map(of).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    };
    let some = after(3, &targets, &loads);
    assert_eq!((names(&|t| t.fs.clone(), &some), names(&|t| t.load.clone(), &some)), (3, 3), "{some:?}");
    let all = after(9, &targets, &loads);
    assert!(all.iter().all(|tally| tally.runs == 1), "{all:?}");
}

/// A campaign also cuts mkfs, damages media, goes on behind recoveries, and fills and empties file systems.
#[test]
fn a_campaign_does_all_that_it_says() {
    let campaign = Campaign { effort: Effort::default(), nested: 3, ..campaign(900) };
    let loads = loads(&["sparse", "appended", "torture"]);
    let mut all = Report::default();
    for tally in campaign.explore(&targets(&["pmfs", "ext4"]), &loads, &|_, _| {}) {
        all.add(tally.report);
    }
    assert!(all.failures.is_empty(), "{all}");
    let seen = all.coverage;
    let times = [seen.in_mkfs, seen.went_on, seen.exercised, seen.damages.harmless + seen.damages.told];
    assert!(times.iter().all(|&times| times > 0), "{seen:?}");
}

#[test]
fn a_number_of_points_is_kept_to_and_shared_by_all_loads() {
    let points = |all| {
        let tallies = campaign(all).explore(&targets(&["pmfs"]), &loads(&["torture", "sparse"]), &|_, _| {});
        tallies.iter().map(|tally| tally.report.points).collect::<Vec<_>>()
    };
    assert_eq!(points(1), [1, 0]);
    assert_eq!(points(15), [8, 7]);
}

#[test]
fn a_campaign_that_stops_at_the_first_failure_has_one() {
    let target = without_flushes(targets(&["ext4@volatile"]).remove(0));
    let campaign =
        Campaign { jobs: 2, stop: true, effort: Effort::default(), nested: 3, ..campaign(1_000_000) };
    let tallies = campaign.explore(&[target], &loads(&["torture", "appended"]), &|_, _| {});
    let failures: Vec<_> = tallies.iter().flat_map(|tally| &tally.report.failures).collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
}

/// Points are the same where the devices of a new file system are made anew for each turn.
#[test]
fn pairs_that_keep_no_devices_do_what_others_do() {
    let points = |kept| {
        let campaign = Campaign { kept, ..campaign(12) };
        let tallies = campaign.explore(&targets(&["ext4"]), &loads(&["torture", "sparse"]), &|_, _| {});
        tallies.iter().map(|t| (t.runs, t.report.points, t.report.coverage)).collect::<Vec<_>>()
    };
    assert_eq!(points(0), points(usize::MAX));
}

#[test]
fn each_recovery_is_interrupted_as_deep_as_asked() {
    let (target, load) = (targets(&["ext4"]).remove(0), loads(&["torture"]).remove(0));
    let explorer = Explorer::new(target, load).expect("sound").deep(3);
    let effort = Effort { anywhere: 2, in_steps: 0, draws: 1, nested: true, ..Effort::default() };
    let report = explorer.run(1, &effort);
    assert!(report.failures.is_empty(), "{report}");
    let [first, second, third, fourth, ..] = report.coverage.depths;
    assert!(first >= 2 && (second, third, fourth) == (first, first, 0), "{:?}", report.coverage.depths);
    assert_eq!(report.points, 4 * first, "and the power failures in the load");
}

#[test]
fn a_failure_behind_interrupted_recoveries_is_found_again() {
    let target = without_flushes(targets(&["ext4@volatile"]).remove(0));
    let explorer = Explorer::new(target, loads(&["torture"]).remove(0)).expect("sound");
    let effort = Effort { draws: 2, nested: true, ..Effort::default() };
    let found = (0..200).flat_map(|seed| explorer.run(seed, &effort).failures);
    let failure = found.into_iter().find(|failure| failure.path.0.len() > 1).expect("a lie shows there");
    assert_eq!(explorer.replay(failure.seed, &failure.path), Err(failure));
}
