//! Snapshots show the same behind every power failure.

use granary_crash::{Effort, Explorer, Target, load_by_name};
use granary_device::Devices;
use granary_fs::{FileSystem, FsError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn nilfs2(name: &str) -> Arc<dyn Target> {
    crate::targets::by_name(name).expect("registered")
}

fn explorer(target: Arc<dyn Target>) -> Explorer {
    Explorer::new(target, load_by_name("snapshots").expect("there")).expect("runs without a failure")
}

#[test]
fn snapshots_of_nilfs2_stay() {
    for name in ["nilfs2", "nilfs2-pebble"] {
        let explorer = explorer(nilfs2(name));
        for seed in 0..4 {
            let report = explorer.run(seed, &Effort::default());
            assert!(report.failures.is_empty(), "{name}: {report}");
            assert!(report.points > 8, "{name}: {report}");
        }
    }
}

/// Shows the newest state for each snapshot, from a moment on.
struct Forgetful(Arc<dyn Target>, Arc<AtomicBool>);

impl Target for Forgetful {
    granary_crash::forward_target!(0: name, devices, renames_are_whole, times_are_durable, every_call_is_durable, inodes_may_change, checks, grows, keeps_snapshots, snapshot, repair, pages_are_whole, cuts_are_finished, configs, mkfs, mount, vfs, costs);

    fn mount_snapshot(&self, devices: &Devices, number: u64) -> Result<Arc<dyn FileSystem>, FsError> {
        match self.1.load(Relaxed) {
            true => self.0.mount(devices),
            false => self.0.mount_snapshot(devices, number),
        }
    }
}

#[test]
fn a_snapshot_that_changes_is_told_of_at_the_end_and_behind_a_recovery() {
    let forgets = Arc::new(AtomicBool::new(false));
    let forgetful = || Arc::new(Forgetful(nilfs2("nilfs2"), Arc::clone(&forgets)));
    let load = || load_by_name("snapshots").expect("there");
    let explorer = Explorer::new(forgetful(), load()).expect("it forgets nothing yet");
    forgets.store(true, Relaxed);
    let failure = Explorer::new(forgetful(), load()).err().expect("without a power failure");
    assert!(failure.to_string().contains(" has changed: /"), "{failure}");
    // Most lives behind a power failure end there.
    let report = explorer.run(0, &Effort::default());
    let behind = report.failures.iter().find(|f| !f.path.0.is_empty() && f.stage.starts_with("verify"));
    assert!(behind.is_some_and(|f| f.to_string().contains(" has changed: /")), "{report}");
}

#[test]
fn a_file_system_without_snapshots_does_not_serve_the_load() {
    let load = load_by_name("snapshots").expect("there");
    assert!(nilfs2("nilfs2").serves(&*load));
    assert!(!nilfs2("ext4").serves(&*load));
}
