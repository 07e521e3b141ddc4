//! Commands for metadata fail: no file system panics or hangs, and what is promised behind the errors is
//! there on a drive that is well.

use crate::liar::{Liar, Lie};
use granary_crash::{Clients, Explorer, Load, Path, Target};
use granary_device::Devices;
use granary_fs::{FileSystem, FsError};
use granary_sim::rng::Stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn explorer(target: Arc<dyn Target>, load: &str) -> Explorer {
    Explorer::new(target, crate::targets::load(load).expect("a load")).expect("sound")
}

fn by_name(fs: &str) -> Arc<dyn Target> {
    crate::targets::by_name(fs).expect("a target")
}

fn again(fs: &str, load: &str, seed: u64, path: &str) {
    let path: Path = path.parse().expect("a path");
    if let Err(failure) = explorer(by_name(fs), load).replay(seed, &path) {
        panic!("{failure}");
    }
}

#[test]
fn what_was_promised_is_there_although_metadata_fail() {
    for fs in ["bytefs", "ext4", "f2fs", "nilfs2", "nova@nvm", "pmfs@nvm", "devfs", "orchfs", "spfs+ext4"] {
        let report = explorer(by_name(fs), "torture").erring(1);
        assert!(report.failures.is_empty(), "{fs}: {report}");
        assert!(report.coverage.errors.commands > 0, "{fs}: nothing failed");
    }
}

#[test]
fn f2fs_writes_no_checkpoint_behind_a_node_that_is_missing() {
    again("f2fs", "resize", 1, "i3-.9");
    again("f2fs", "access", 4, "i11-.9");
}

#[test]
fn pmfs_finishes_a_removal_that_the_drive_stopped() {
    again("pmfs@nvm", "torture", 0, "i8-.13");
}

#[test]
fn pmfs_writes_nothing_that_a_half_done_cut_would_take_away() {
    again("pmfs@nvm", "resize", 1, "i2-.13");
    again("devfs", "resize", 2, "i3-.13");
}

/// A log that could not be copied had failed the call that was done, and had kept the new pages.
#[test]
fn nova_leaves_a_log_as_it_is_whose_pages_cannot_be_read() {
    again("nova-in-place", "churn", 7013, "i1-.14");
    again("nova-in-place", "churn", 7025, "i2-.14");
}

#[test]
fn spfs_stores_nothing_behind_a_change_that_ended_half_way() {
    again("spfs+ext4", "resize", 0, "i4-.13");
}

/// No fault of DevFS: a client whose rename was under way met one of the next round at the same name.
#[test]
fn all_clients_of_a_round_have_ended_where_one_has_failed() {
    again("devfs", "appended", 0, "i9-.12");
}

/// A file system whose promises are lies.
struct Lying {
    honest: Arc<dyn Target>,
    lie: Lie,
}

impl Target for Lying {
    granary_crash::forward_target!(honest: devices, renames_are_whole, mkfs, vfs, costs);

    fn name(&self) -> &str {
        "lying"
    }

    fn times_are_durable(&self) -> bool {
        false
    }

    fn mount(&self, devices: &Devices) -> Result<Arc<dyn FileSystem>, FsError> {
        Ok(Arc::new(Liar { inner: self.honest.mount(devices)?, lie: self.lie }))
    }
}

fn lying(lie: Lie) -> Explorer {
    explorer(Arc::new(Lying { honest: by_name("ext4"), lie }), "torture")
}

#[test]
fn an_fsync_that_does_nothing_is_found_beside_errors() {
    let explorer = lying(Lie::Fsync);
    let report = explorer.erring(1);
    let failure = report.failures.first().expect("a promise that was broken");
    assert!(failure.stage.contains("errors of metadata"), "{failure}");
    let again = explorer.replay(1, &failure.path).expect_err("it comes again");
    assert_eq!(again.evidence, failure.evidence);
}

/// A load whose first run, by which an explorer learns how long the load is, does nothing.
struct Unlike {
    load: Arc<dyn Load>,
    has_run: AtomicBool,
}

impl Load for Unlike {
    fn name(&self) -> &str {
        self.load.name()
    }

    fn run(&self, clients: &Clients, round: u32, random: &mut Stream) -> Result<(), String> {
        match self.has_run.swap(true, Relaxed) {
            true => self.load.run(clients, round, random),
            false => Ok(()),
        }
    }
}

/// The code that finds a failure and that which replays it may differ in the number of commands of a load.
#[test]
fn a_try_fails_the_same_commands_however_long_the_load_is_said_to_be() {
    let failure = lying(Lie::Fsync).erring(1).failures.into_iter().next().expect("a broken promise");
    let load = crate::targets::load("torture").expect("a load");
    let (load, honest) = (Unlike { load, has_run: false.into() }, by_name("ext4"));
    let other = Explorer::new(Arc::new(Lying { honest, lie: Lie::Fsync }), Arc::new(load)).expect("sound");
    assert_eq!(other.replay(1, &failure.path), Err(failure));
}

/// Delta debugging: of dozens of commands that fail and hundreds of calls, those that are needed. The line
/// finds the failure again.
#[test]
fn a_try_comes_down_to_the_commands_that_fail_and_the_calls_before_them() {
    let mut explorer = lying(Lie::Swallow);
    let failure = (0..40).find_map(|seed| explorer.erring(seed).failures.into_iter().next());
    let failure = failure.expect("it promises what a failed command has lost");
    let looks = std::cell::Cell::new(0);
    let over = || {
        looks.set(looks.get() + 1);
        looks.get() > 1_500
    };
    let minimal = explorer.minimise(&failure, &over).unwrap_or_else(|why| panic!("{why}: {failure}"));
    println!("{failure}\n{} of {}: {:#?}", minimal.calls.len(), minimal.of, minimal.calls);
    let failed = minimal.calls.iter().filter(|line| line.starts_with("-- this fails: ")).count();
    assert!((1..=3).contains(&failed), "{:#?}", minimal.calls);
    let calls = minimal.failure.only.clone().expect("calls are named");
    assert!(minimal.of > 400 && calls.len() <= 60, "{} of {}", calls.len(), minimal.of);
    assert!(minimal.failure.replay_line().is_some_and(|line| line.contains('!')), "{}", minimal.failure);
    assert!(!explorer.tell(&failure).is_empty(), "it has a story");
    let again = lying(Lie::Swallow).only(failure.seed, &calls).replay(failure.seed, &failure.path);
    assert_eq!(again, Err(minimal.failure), "{calls}");
    assert_eq!(explorer.replay(failure.seed, &failure.path), Err(failure), "the whole try is what it was");
}
