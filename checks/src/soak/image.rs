//! Images: lives of a drive on an image in memory, each ended by the death of the process or a crash of the
//! machine.
//!
//! The lives themselves are those of the tests of `granary-image` (`tests/it/crash.rs`), by the thousand.

use super::Job;
use granary_image::Durability;
use granary_mssd::Mode;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[path = "../../../crates/granary-image/tests/it/crash.rs"]
mod crash;
#[path = "../../../crates/granary-image/tests/it/rig.rs"]
mod rig;

struct Lives {
    name: String,
    /// The firmware's, under random commands; `None`: blocks that go round as fast as they can.
    mode: Option<Mode>,
    durability: Durability,
    done: AtomicU64,
}

/// One job for each kind of commands and each kind of durability.
pub(super) fn jobs() -> Vec<Box<dyn Job>> {
    let mut jobs: Vec<Box<dyn Job>> = Vec::new();
    for (kind, mode) in [("log", Some(Mode::Log)), ("cache", Some(Mode::Cache)), ("dense", None)] {
        for durability in [Durability::Process, Durability::Machine] {
            let name = format!("image-{kind}-{durability:?}").to_lowercase();
            jobs.push(Box::new(Lives { name, mode, durability, done: AtomicU64::new(0) }));
        }
    }
    jobs
}

impl Job for Lives {
    fn name(&self) -> &str {
        &self.name
    }

    fn explore(&self, seeds: Range<u64>) -> Vec<String> {
        let broken = |seed| {
            self.done.fetch_add(1, Relaxed);
            let lived = catch_unwind(AssertUnwindSafe(|| match self.mode {
                Some(mode) => crash::lives(seed, mode, self.durability),
                None => crash::dense(seed, self.durability),
            }));
            let e = lived.err()?;
            let text = e
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| e.downcast_ref::<&str>().map(|s| s.to_string()));
            let what = text.unwrap_or_else(|| "a panic".to_owned());
            let replay = format!("cargo xtask soak --kind image --from {seed} --points 1");
            Some(format!("seed {seed}, {}: {what}\n  replay: {replay}", self.name))
        };
        seeds.filter_map(broken).collect()
    }

    fn summary(&self) -> String {
        format!("{} images, three or four lives each", self.done.load(Relaxed))
    }
}
