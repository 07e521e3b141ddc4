//! A recovery that never ends is told of, and the tester goes on.

use granary_crash::{Effort, Explorer, Target, longest_life};
use granary_device::{Devices, Role, Structure};
use granary_fs::{FileSystem, FsError};
use granary_sim::HostCosts;
use granary_units::{Lpa, Page};
use granary_vfs::VfsConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A file system that from some mount on reads one page again and again, or asks for nothing.
struct Endless {
    honest: Arc<dyn Target>,
    reads: bool,
    /// Lets go of what would never end.
    free: AtomicBool,
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
            if !self.reads {
                while !self.free.load(Relaxed) {
                    std::hint::spin_loop();
                }
                return Err(FsError::Invalid);
            }
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

/// One whose first recovery does not end, and what explores it.
fn endless(reads: bool) -> (Arc<Endless>, Explorer) {
    let honest = crate::targets::by_name("ext4").expect("a target");
    let (mounts, last, free) = (AtomicU64::new(0), AtomicU64::new(u64::MAX), AtomicBool::new(false));
    let endless = Arc::new(Endless { honest, reads, free, mounts, last });
    let load = crate::targets::load("torture").expect("a load");
    let explorer = Explorer::new(Arc::clone(&endless) as Arc<dyn Target>, load).expect("sound");
    // The run mounts twice; the next is a recovery.
    endless.mounts.store(0, Relaxed);
    endless.last.store(2, Relaxed);
    (endless, explorer)
}

const FEW: Effort = Effort { anywhere: 2, in_steps: 0, linear: false, draws: 1, exhaustive: false };

/// Somebody with a clock is told of it, with its place.
#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the loop stands outside virtual time, and so does who looks at it"
)]
fn a_recovery_that_asks_for_nothing_is_the_longest_life() {
    let (endless, explorer) = endless(false);
    let run = std::thread::spawn(move || explorer.run(0, &FEW));
    let failure = loop {
        // Lives of other tests may be long, too.
        match longest_life(Duration::from_secs(2)) {
            Some(failure) if &*failure.fs == "endless" => break failure,
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    endless.free.store(true, Relaxed);
    assert!(failure.evidence[0].contains("it has not ended"), "{failure}");
    let told = run.join().expect("a report");
    assert!(told.failures.iter().any(|f| f.path == failure.path), "{told} {failure}");
}

#[test]
fn a_recovery_that_reads_for_ever_is_told_of_with_its_place() {
    let (_, explorer) = endless(true);
    let report = explorer.run(0, &FEW);
    let failure = report.failures.first().expect("a recovery that does not end");
    assert!(failure.evidence[0].contains("it does not end"), "{failure}");
    assert!(failure.replay_line().is_some(), "{failure}");
}
