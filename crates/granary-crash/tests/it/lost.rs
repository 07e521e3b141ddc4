//! The losses of the devices are minimised, too: the fewest pages or lines that still lead to the failure.

use crate::planted::{Bug, Planted};
use granary_crash::{Effort, Explorer, Failure, Lost};
use std::sync::Arc;

fn explorer(fs: &str, bug: Bug) -> Explorer {
    let inner = crate::targets::by_name(fs).expect("a target");
    let target = Planted { inner, bug, told: Arc::default() };
    Explorer::new(Arc::new(target), crate::targets::load("torture").expect("a load")).expect("sound")
}

/// The failure that a line finds, where it is typed.
fn typed(explorer: Explorer, line: &str) -> Result<(), Failure> {
    let place = line.split_whitespace().last().expect("a place").trim_matches('`');
    let [seed, path, loss] = place.split(':').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let explorer = explorer.losing(&loss.parse().expect("a loss"));
    explorer.replay(seed.parse().expect("a run"), &path.parse().expect("a path"))
}

/// The first failure of one power failure, and the fewest things that it must take.
fn fewest(fs: &str, bug: Bug) -> (Failure, Lost) {
    let mut explorer = explorer(fs, bug);
    let effort = Effort { anywhere: 16, in_steps: 16, ..Effort::default() };
    let failures = (1..40).flat_map(|seed| explorer.run(seed, &effort).failures);
    let failure = failures.into_iter().find(|f| f.path.0.len() == 1).expect("found in an image");
    let lost = explorer.fewest_lost(&failure, &|| false).expect("something is lost");
    println!("{failure}\n{lost}: {:#?}\n{}", lost.things, lost.failure);
    assert_eq!(explorer.replay(failure.seed, &failure.path), Err(failure.clone()), "the draw is what it was");
    (failure, lost)
}

#[test]
fn a_hidden_cache_comes_down_to_few_pages_and_the_line_loses_just_these() {
    let (failure, lost) = fewest("ext4@volatile", Bug::HiddenCache);
    assert!(lost.of > 20 && (1..=4).contains(&lost.things.len()), "{lost}: {:?}", lost.things);
    assert!(lost.things.iter().all(|thing| thing.starts_with("ssd page ")), "{:?}", lost.things);
    // The report tells the content of the pages.
    assert!(lost.things.iter().any(|thing| thing.contains(": ")), "{:?}", lost.things);
    let line = lost.failure.replay_command().expect("it has a place");
    assert_eq!(
        typed(explorer("ext4@volatile", Bug::HiddenCache), &line),
        Err(lost.failure.clone()),
        "{line}"
    );
    let nothing = format!("{}:{}:lost=none", failure.seed, failure.path);
    assert_eq!(typed(explorer("ext4@volatile", Bug::HiddenCache), &nothing), Ok(()), "nothing is lost");
}

#[test]
fn a_fence_that_does_nothing_comes_down_to_few_lines() {
    let (_, lost) = fewest("pmfs@nvm", Bug::LostFence);
    assert!(lost.of > lost.things.len() && (1..=4).contains(&lost.things.len()), "{lost}: {:?}", lost.things);
    assert!(lost.things.iter().all(|thing| thing.starts_with("nvm line ")), "{:?}", lost.things);
    let line = lost.failure.replay_command().expect("it has a place");
    assert_eq!(typed(explorer("pmfs@nvm", Bug::LostFence), &line), Err(lost.failure.clone()), "{line}");
}
