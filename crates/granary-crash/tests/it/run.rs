//! Runs and their crash images: the same each time, found again by their place, and as a run that stopped
//! there.

use granary_crash::{Campaign, Clients, Effort, Explorer, Load, Path, Target, Torture};
use granary_sim::rng::Stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

fn explorer(fs: &str, load: &str) -> Explorer {
    let target = crate::targets::by_name(fs).expect("a target");
    Explorer::new(target, crate::targets::load(load).expect("a load")).expect("sound without a power failure")
}

fn little() -> Effort {
    Effort { anywhere: 4, in_steps: 4, ..Effort::default() }
}

#[test]
fn images_of_runs_keep_every_promise() {
    for fs in [
        "bytefs",
        "ext4",
        "f2fs-pebble",
        "nilfs2",
        "nova@nvm",
        "pmfs",
        "orchfs",
        "devfs",
        "spfs+ext4",
        "f2fs@volatile",
    ] {
        let report = explorer(fs, "torture").run(3, &little());
        assert!(report.failures.is_empty(), "{fs}: {report}");
        assert!(report.points >= 8, "{fs}: {report}");
    }
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let (a, b) = (explorer("ext4", "torture"), explorer("ext4", "torture"));
    let (one, other) = (a.run(5, &little()), b.run(5, &little()));
    assert_eq!((one.points, one.coverage, one.steps), (other.points, other.coverage, other.steps));
}

#[test]
fn a_linear_run_has_an_image_before_and_after_every_command() {
    let target = crate::targets::by_name("pmfs").expect("a target");
    let short = Torture { clients: 1, ops: 4, name: "short", ..Torture::default() };
    let explorer = Explorer::new(target, Arc::new(short)).expect("sound");
    let look = |effort: Effort| explorer.run(1, &effort);
    let few = look(Effort { anywhere: 2, in_steps: 0, draws: 1, ..Effort::default() });
    let all = look(Effort { anywhere: 0, in_steps: 0, linear: true, draws: 1, ..Effort::default() });
    assert!(few.failures.is_empty() && all.failures.is_empty(), "{all}");
    assert!(all.points > 40 && all.points > 5 * few.points, "{few}\n{all}");
}

/// Does nothing but count its rounds.
struct Rounds(Arc<AtomicU32>);

impl Load for Rounds {
    fn name(&self) -> &str {
        "rounds"
    }

    fn run(&self, _: &Clients, round: u32, _: &mut Stream) -> Result<(), String> {
        self.0.fetch_max(round, Relaxed);
        Ok(())
    }
}

#[test]
fn some_runs_have_several_rounds_and_most_have_one() {
    let last = Arc::new(AtomicU32::new(0));
    let target = crate::targets::by_name("pmfs").expect("a target");
    let explorer = Explorer::new(target, Arc::new(Rounds(last.clone()))).expect("sound");
    let effort = Effort { anywhere: 0, in_steps: 0, draws: 0, ..Effort::default() };
    let long = |seed| {
        last.store(0, Relaxed);
        assert!(explorer.run(seed, &effort).failures.is_empty());
        last.load(Relaxed) == 5
    };
    let count = (0..40).filter(|seed| long(*seed)).count();
    assert!((3..20).contains(&count), "{count} of 40");
}

#[test]
fn every_state_of_an_image_is_looked_at_once() {
    let effort = Effort { anywhere: 2, in_steps: 0, draws: 16, exhaustive: true, ..Effort::default() };
    let report = explorer("ext4", "torture").run(2, &effort);
    assert!(report.failures.is_empty(), "{report}");
    assert!(report.points > 2, "{report}");
}

#[test]
fn a_place_that_is_not_reached_is_said_to_be_so() {
    let path: Path = "l99999999+.0".parse().expect("a path");
    let failure = explorer("ext4", "torture").replay(1, &path).expect_err("no such command");
    assert!(failure.to_string().contains("is not reached"), "{failure}");
}

#[test]
fn a_campaign_looks_at_the_same_points_with_one_worker_and_with_two() {
    let targets: Vec<Arc<dyn Target>> =
        ["ext4", "pmfs"].map(|n| crate::targets::by_name(n).expect("a target")).into();
    let loads = ["torture", "appended"].map(|n| crate::targets::load(n).expect("a load"));
    let look = |jobs| {
        let effort = Effort { anywhere: 2, in_steps: 2, ..Effort::default() };
        let campaign = Campaign {
            effort,
            nested: 2,
            seed: 1,
            points: Some(12),
            time: None,
            jobs,
            stop: false,
            kept: usize::MAX,
            errors: false,
            media: false,
            interrupted: Arc::default(),
        };
        let tallies = campaign.explore(&targets, &loads, &|_, _| {});
        tallies
            .into_iter()
            .map(|t| (t.fs, t.load, t.runs, t.report.points, t.report.coverage))
            .collect::<Vec<_>>()
    };
    let alone = look(1);
    assert_eq!(alone, look(2));
    assert!(alone.iter().all(|t| t.3 >= 6), "{alone:?}");
}

/// Places that runs failed at once. NILFS2's fsync did not wait for the FLUSH of another. F2FS's marked node
/// overtook its data. SPFS counted a run that two power failures had kept from opening. SPFS looked for a
/// file below that its own recovery had just removed.
#[test]
fn places_that_failed_before_are_sound() {
    for (fs, load, errors, seed, path) in [
        ("nilfs2@volatile", "torture", false, 0, "l57+.0/l61+.0/l45-.0"),
        ("f2fs@volatile", "torture", false, 7, "l647+.1/l287-.0"),
        ("spfs+ext4", "appended", false, 101, "l94-.0/r32-.0/r23-.0"),
        ("spfs+ext4-alone", "appended", true, 0, "l1701+.0/r1-.0/l2948-.0"),
    ] {
        let path: Path = path.parse().expect("a path");
        assert_eq!(explorer(fs, load).write_errors(errors).replay(seed, &path), Ok(()), "{fs}");
    }
}
