//! A recovery that never ends is told of, and the tester goes on.

use granary_crash::{Effort, Explorer, Target};
use granary_device::{Devices, Role, Structure};
use granary_sim::HostCosts;
use granary_units::{Lpa, Page};
use granary_vfs::{FileSystem, FsError, VfsConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A file system that reads one page again and again from some mount on.
struct Endless {
    honest: Arc<dyn Target>,
    mounts: AtomicU64,
    /// This one does not end.
    last: AtomicU64,
}

impl Target for Endless {
    fn name(&self) -> &str {
        "endless"
    }

    fn devices(&self, seed: u64) -> Devices {
        self.honest.devices(seed)
    }

    fn renames_are_whole(&self) -> bool {
        true
    }

    fn times_are_durable(&self) -> bool {
        false
    }

    fn mkfs(&self, devices: &Devices) -> Result<(), FsError> {
        self.honest.mkfs(devices)
    }

    fn mount(&self, devices: &Devices) -> Result<Arc<dyn FileSystem>, FsError> {
        if self.mounts.fetch_add(1, Relaxed) == self.last.load(Relaxed) {
            let port = devices.get(Role::Ssd).expect("an SSD");
            loop {
                port.read(Lpa(0), &mut [Page::ZERO], Structure::Superblock)?;
            }
        }
        self.honest.mount(devices)
    }

    fn vfs(&self) -> VfsConfig {
        self.honest.vfs()
    }

    fn costs(&self) -> HostCosts {
        self.honest.costs()
    }
}

#[test]
fn a_recovery_that_reads_for_ever_is_told_of_with_its_place() {
    let honest = crate::targets::by_name("ext4").expect("a target");
    let (mounts, last) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let endless = Arc::new(Endless { honest, mounts, last });
    let load = crate::targets::load("torture").expect("a load");
    let explorer = Explorer::new(Arc::clone(&endless) as Arc<dyn Target>, load).expect("sound");
    // The run mounts twice; the next is a recovery.
    endless.mounts.store(0, Relaxed);
    endless.last.store(2, Relaxed);
    let effort = Effort { anywhere: 2, in_steps: 0, draws: 1, ..Effort::default() };
    let report = explorer.run(0, &effort);
    let failure = report.failures.first().expect("a recovery that does not end");
    assert!(failure.evidence[0].contains("it does not end"), "{failure}");
    assert!(failure.replay_line().is_some(), "{failure}");
}
