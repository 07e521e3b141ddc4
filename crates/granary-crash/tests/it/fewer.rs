//! Fewer power failures, and what damaged media and power failures in mkfs come down to.

use crate::planted::{Bug, Planted};
use granary_crash::{Effort, Explorer, Failure, Target};
use granary_device::Structure;
use std::sync::Arc;

fn explorer(target: impl Target + 'static, load: &str) -> Explorer {
    Explorer::new(Arc::new(target), crate::targets::load(load).expect("a load")).expect("sound")
}

fn hidden() -> Planted {
    let inner = crate::targets::by_name("ext4@volatile").expect("a target");
    Planted { inner, bug: Bug::HiddenCache, told: Arc::default() }
}

#[test]
fn a_power_failure_that_is_not_needed_is_left_out_of_a_path() {
    let mut explorer = explorer(hidden(), "torture");
    let effort = Effort { anywhere: 16, in_steps: 16, ..Effort::default() };
    let failures = (1..40).flat_map(|seed| explorer.run(seed, &effort).failures);
    let nested: Vec<Failure> = failures.filter(|f| f.path.0.len() > 1).take(16).collect();
    // Minimised to no call and no draw but the path: the time is over behind that.
    let is_shorter = |failure: &Failure| {
        let looks = std::cell::Cell::new(0);
        let over = || {
            looks.set(looks.get() + 1);
            looks.get() > 60
        };
        let minimal = explorer.minimise(failure, &over).unwrap_or_else(|why| panic!("{why}: {failure}"));
        println!("{} comes down to {}", failure.path, minimal.failure.path);
        minimal.failure.path.0.len() < failure.path.0.len()
    };
    assert!(nested.iter().any(is_shorter), "none of {} becomes shorter", nested.len());
}

#[test]
fn a_power_failure_in_mkfs_is_told_with_its_command_and_what_is_lost() {
    let mut explorer = explorer(hidden(), "creat(/A/foo) fsync");
    let failure = (0..20).find_map(|seed| explorer.making(seed).failures.into_iter().next());
    let failure = failure.expect("mkfs relies on FLUSH");
    let story = explorer.tell(&failure).join("\n");
    assert!(
        story.contains("-- the power fails in mkfs, ") && story.contains(" on the ssd"),
        "{failure}\n{story}"
    );
    let minimal = explorer.minimise(&failure, &|| false).expect("it comes again");
    assert!(
        minimal.of == 0 && minimal.calls.len() == 1 && minimal.calls[0].contains("in mkfs"),
        "{minimal:?}"
    );
    let lost = explorer.fewest_lost(&failure, &|| false).expect("something is lost");
    println!("{failure}\n{story}\n{lost}: {:#?}", lost.things);
    assert!((1..=4).contains(&lost.things.len()) && lost.of > lost.things.len(), "{lost}: {:?}", lost.things);
    let loss = lost.failure.loss.clone().expect("it is named");
    let again = explorer.losing(&loss).replay(failure.seed, &failure.path);
    assert_eq!(again, Err(lost.failure), "{loss}");
}

/// A file system that says of all its structures that they have checksums.
struct Boasting(Arc<dyn Target>);

impl Target for Boasting {
    granary_crash::forward_target!(0: name, mkfs, mount, renames_are_whole, times_are_durable, vfs, costs, devices, repair);

    fn checks(&self, _: Structure) -> bool {
        true
    }
}

#[test]
fn damage_of_media_comes_down_to_the_calls_that_made_what_it_hit() {
    let boasting = || explorer(Boasting(crate::targets::by_name("devfs").expect("a target")), "torture");
    let mut explorer = boasting();
    let failure = (0..40).find_map(|seed| explorer.media(seed).failures.into_iter().next());
    let failure = failure.expect("it has no checksums");
    let story = explorer.tell(&failure).join("\n");
    assert!(story.contains("-- the file system is unmounted, then media: "), "{failure}\n{story}");
    let minimal = explorer.minimise(&failure, &|| false).unwrap_or_else(|why| panic!("{why}: {failure}"));
    println!(
        "{failure}\n{story}\n{} of {}: {:#?}\n{}",
        minimal.calls.len(),
        minimal.of,
        minimal.calls,
        minimal.failure
    );
    assert!(minimal.of > 60 && minimal.calls.len() <= 12, "{} of {}", minimal.calls.len(), minimal.of);
    let structure = |failure: &Failure| failure.stage.rsplit_once('(').map(|(_, what)| what.to_owned());
    assert_eq!(structure(&minimal.failure), structure(&failure), "the same structure is damaged");
    let calls = minimal.failure.only.clone().expect("calls are named");
    let again = boasting().only(failure.seed, &calls).replay(failure.seed, &minimal.failure.path);
    assert_eq!(again, Err(minimal.failure), "the line finds it");
    assert_eq!(explorer.replay(failure.seed, &failure.path), Err(failure), "the whole run is what it was");
}
