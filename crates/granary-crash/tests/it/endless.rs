//! A recovery or an mkfs that never ends is told of.

use granary_crash::{Effort, Explorer, Failure, Target, longest_life};
use granary_device::{Devices, Role, Structure};
use granary_fs::{FileSystem, FsError};
use granary_units::{Lpa, Page};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// A file system that from some mount on reads one page again and again, or asks for nothing.
struct Endless {
    name: &'static str,
    honest: Arc<dyn Target>,
    reads: bool,
    /// Lets go of what would never end.
    free: AtomicBool,
    mounts: AtomicU64,
    /// This one does not end.
    last: AtomicU64,
    /// How often it may still be made; the next mkfs does not end.
    makes: AtomicU64,
}

impl Endless {
    /// A loop that asks for nothing.
    fn wait(&self) -> FsError {
        while !self.free.load(Relaxed) {
            std::hint::spin_loop();
        }
        FsError::Invalid
    }
}

impl Target for Endless {
    granary_crash::forward_target!(honest: devices, vfs, costs);

    fn name(&self) -> &str {
        self.name
    }

    fn renames_are_whole(&self) -> bool {
        true
    }

    fn times_are_durable(&self) -> bool {
        false
    }

    fn mkfs(&self, devices: &Devices) -> Result<(), FsError> {
        match self.makes.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => self.honest.mkfs(devices),
            Err(_) => Err(self.wait()),
        }
    }

    fn mount(&self, devices: &Devices) -> Result<Arc<dyn FileSystem>, FsError> {
        if self.mounts.fetch_add(1, Relaxed) == self.last.load(Relaxed) {
            if !self.reads {
                return Err(self.wait());
            }
            let port = devices.get(Role::Ssd).expect("an SSD");
            loop {
                port.read(Lpa(0), &mut [Page::ZERO], Structure::Superblock)?;
            }
        }
        self.honest.mount(devices)
    }
}

/// One that ends so far.
fn calm(name: &'static str, reads: bool) -> Arc<Endless> {
    let honest = crate::targets::by_name("ext4").expect("a target");
    let (mounts, last, makes) = (AtomicU64::new(0), AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX));
    Arc::new(Endless { name, honest, reads, free: AtomicBool::new(false), mounts, last, makes })
}

fn explorer(endless: &Arc<Endless>) -> Result<Explorer, Failure> {
    let load = crate::targets::load("torture").expect("a load");
    Explorer::new(Arc::clone(endless) as Arc<dyn Target>, load)
}

/// One whose first recovery does not end, and what explores it.
fn endless(reads: bool) -> (Arc<Endless>, Explorer) {
    let endless = calm("without an end", reads);
    let explorer = explorer(&endless).expect("sound");
    // The run mounts twice; the next is a recovery.
    endless.mounts.store(0, Relaxed);
    endless.last.store(2, Relaxed);
    (endless, explorer)
}

const FEW: Effort =
    Effort { anywhere: 2, in_steps: 0, linear: false, draws: 1, exhaustive: false, nested: false };

/// Does something on a thread of this machine.
#[allow(clippy::disallowed_methods, reason = "what does not end stands outside virtual time")]
fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    std::thread::spawn(work)
}

/// The words that somebody with a clock is told; then it ends.
#[allow(
    clippy::disallowed_methods,
    reason = "the loop stands outside virtual time, and so does who looks at it"
)]
fn told_of(endless: &Endless, is: impl Fn(&Failure) -> bool) -> Failure {
    loop {
        // Lives of other tests may be long, too.
        match longest_life(Duration::from_secs(2)) {
            Some(failure) if &*failure.fs == endless.name && is(&failure) => {
                endless.free.store(true, Relaxed);
                return failure;
            }
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Told of with its place.
#[test]
fn a_recovery_that_asks_for_nothing_is_the_longest_life() {
    let (endless, explorer) = endless(false);
    let run = beside(move || explorer.run(0, &FEW));
    let failure = told_of(&endless, |failure| !failure.path.0.is_empty());
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

/// The first one, one that is interrupted, and one behind a power failure in it.
#[test]
fn an_mkfs_that_asks_for_nothing_is_told_of() {
    let first = calm("mkfs without an end", false);
    first.makes.store(0, Relaxed);
    let run = {
        let endless = Arc::clone(&first);
        beside(move || explorer(&endless).err())
    };
    let failure = told_of(&first, |failure| &*failure.stage == "mkfs");
    assert!(failure.evidence[0].contains("it has not ended"), "{failure}");
    assert!(run.join().expect("an end").is_some_and(|failure| &*failure.stage == "mkfs"));
    for (left, stage) in [(0, "mkfs"), (1, "what a power failure in mkfs left")] {
        let endless = calm("mkfs without an end", false);
        let explorer = explorer(&endless).expect("sound");
        endless.makes.store(left, Relaxed);
        let run = beside(move || explorer.making(0));
        let failure = told_of(&endless, |failure| &*failure.stage == stage);
        assert_eq!(failure.path.0.len() as u64, left, "{failure}");
        assert!(!run.join().expect("a report").failures.is_empty());
    }
}
