//! Failures are minimised to the calls that matter.

use crate::liar::Lie;
use crate::planted::{Bug, Planted};
use granary_crash::{Effort, Explorer, Failure, Minimal};
use std::cell::Cell;
use std::sync::Arc;

fn explorer(fs: &str, load: &str, bug: Bug) -> Explorer {
    let inner = crate::targets::by_name(fs).expect("a target");
    let target = Planted { inner, bug, told: Arc::default() };
    Explorer::new(Arc::new(target), crate::targets::load(load).expect("a load")).expect("sound")
}

/// The first failure of an image.
fn found(explorer: &Explorer) -> Failure {
    let failures = (1..40).flat_map(|seed| explorer.run(seed, &Effort::default()).failures);
    failures.into_iter().find(|f| !f.path.0.is_empty()).expect("found in an image")
}

/// Images that are looked at, at most.
const LOOKS: u32 = 6_000;

/// Minimises the first failure. Returns it, and what it comes to.
fn minimised(fs: &str, load: &str, bug: Bug) -> (Failure, Minimal) {
    let mut explorer = explorer(fs, load, bug);
    let failure = found(&explorer);
    let looks = Cell::new(0);
    let over = || {
        looks.set(looks.get() + 1);
        looks.get() > LOOKS
    };
    let minimal = explorer.minimise(&failure, &over).unwrap_or_else(|why| panic!("{why}: {failure}"));
    println!("{failure}\n{} of {}:\n{}", minimal.calls.len(), minimal.of, minimal.calls.join("\n"));
    println!("{} looks, {}", looks.get(), minimal.failure);
    (failure, minimal)
}

/// The failure that a line finds, where it is typed.
fn typed(explorer: Explorer, line: &str) -> Result<(), Failure> {
    let place = line.split_whitespace().last().expect("a place").trim_matches('`');
    let [seed, path, calls] = place.split(':').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let seed = seed.parse().expect("a run");
    let explorer = explorer.only(seed, &calls.parse().expect("calls"));
    explorer.replay(seed, &path.parse().expect("a path"))
}

#[test]
fn an_fsync_that_does_nothing_comes_down_to_few_calls() {
    let (_, minimal) = minimised("ext4", "torture", Bug::In(Lie::Fsync));
    assert!(minimal.of > 100, "{}", minimal.of);
    // A file is made, perhaps in a directory, and synced; behind them is where the power fails.
    assert!((3..=6).contains(&minimal.calls.len()), "{:?}", minimal.calls);
    assert!(minimal.calls.iter().any(|call| call.contains(": fsync /")), "{:?}", minimal.calls);
    assert!(minimal.calls.last().is_some_and(|last| last.contains("the power fails in the load")));
}

#[test]
fn what_a_drive_loses_comes_down_to_few_calls_of_some_clients() {
    let (_, minimal) = minimised("ext4@volatile", "torture", Bug::HiddenCache);
    assert!(minimal.of > 100 && minimal.calls.len() <= 16, "{}: {:?}", minimal.of, minimal.calls);
}

#[test]
fn the_line_of_a_minimised_failure_finds_it_where_it_is_typed() {
    for (fs, load, bug) in [
        ("ext4", "varmail", Bug::In(Lie::Fsync)),
        ("ext4@volatile", "torture", Bug::HiddenCache),
        // No call at all: mkfs left it so.
        ("f2fs@volatile", "torture", Bug::HiddenCache),
    ] {
        let (failure, minimal) = minimised(fs, load, bug);
        let line = minimal.failure.replay_command().expect("it has a place");
        assert_eq!(typed(explorer(fs, load, bug), &line), Err(minimal.failure.clone()), "{line}");
        assert_eq!(typed(explorer(fs, load, Bug::None), &line), Ok(()), "{line}");
        let all = explorer(fs, load, bug).replay(failure.seed, &failure.path);
        assert_eq!(all, Err(failure), "the whole run is what it was");
    }
}

#[test]
fn a_failure_that_does_not_come_again_is_told_as_it_is() {
    let failure = found(&explorer("ext4", "varmail", Bug::In(Lie::Fsync)));
    let why = explorer("ext4", "varmail", Bug::None).minimise(&failure, &|| false).expect_err("no bug");
    assert_eq!(why, "it does not come again");
    let of_mkfs = Failure { path: "m3+.1".parse().expect("a path"), ..failure };
    let why = explorer("ext4", "varmail", Bug::None).minimise(&of_mkfs, &|| false).expect_err("no load");
    assert_eq!(why, "no call of a load led to it");
}

#[test]
fn where_the_time_is_over_at_once_all_calls_before_the_power_failure_are_kept() {
    let mut explorer = explorer("ext4", "varmail", Bug::In(Lie::Fsync));
    let failure = found(&explorer);
    let minimal = explorer.minimise(&failure, &|| true).expect("it comes again");
    assert_eq!(minimal.failure.only.expect("calls are named").len(), minimal.of);
    assert_eq!(minimal.failure.evidence, failure.evidence);
}
