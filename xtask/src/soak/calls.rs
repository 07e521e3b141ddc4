//! Calls: random ones of every kind on a few files of a mount, each result compared with a model; 20,000 for each seed.
//!
//! ```text
//!   10,000 calls ── all closed, umount, mount, all compared ── 10,000 calls ── the same
//! ```
//!
//! The calls are those of the tests of `granary-mount` (`tests/mount/exerciser.rs`), direct and cached; and mappings, which those
//! tests cannot have.

use super::Job;
use super::mounted::{self, Mounted, Work};
use exerciser::Exercise;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[path = "../../../crates/granary-mount/tests/mount/content.rs"]
mod content;
#[path = "../../../crates/granary-mount/tests/mount/exerciser.rs"]
mod exerciser;
#[path = "calls/mapping.rs"]
mod mapping;
#[path = "../../../crates/granary-mount/tests/mount/model.rs"]
mod model;

/// Calls between two mounts.
const PART: u64 = 10_000;
/// Mounts of a seed.
const PARTS: u64 = 2;

struct Calls {
    name: String,
    fs: String,
    granary: PathBuf,
    done: AtomicU64,
}

/// One job for each file system.
pub(super) fn jobs(fs: &[String]) -> Result<Vec<Box<dyn Job>>, String> {
    let granary = mounted::granary()?;
    let chosen = super::power::choose("file system", fs, mounted::ALL)?;
    let job = |fs: String| -> Box<dyn Job> {
        Box::new(Calls { name: format!("calls-{fs}"), fs, granary: granary.clone(), done: AtomicU64::new(0) })
    };
    Ok(chosen.into_iter().map(job).collect())
}

impl Job for Calls {
    fn name(&self) -> &str {
        &self.name
    }

    fn explore(&self, seeds: Range<u64>) -> Vec<String> {
        mounted::explore(self, seeds)
    }

    fn summary(&self) -> String {
        format!("{} calls", self.done.load(Relaxed))
    }
}

impl Work for Calls {
    fn kind(&self) -> &str {
        "calls"
    }

    fn fs(&self) -> &str {
        &self.fs
    }

    fn granary(&self) -> &Path {
        &self.granary
    }

    fn seed(&self, mounted: &Mounted, seed: u64) -> Result<(), String> {
        let mut exercise = Exercise::new(&mounted.dir(), &self.fs, seed, Some(&mapping::Shared))?;
        for part in 1..=PARTS {
            mounted.bounded(|| {
                exercise.run(PART)?;
                exercise.compare_all().map_err(|e| format!("all, part {part}: {e}"))
            })?;
            self.done.fetch_add(PART, Relaxed);
            exercise.close();
            mounted.again()?;
            mounted
                .bounded(|| exercise.compare_all().map_err(|e| format!("mounted again, part {part}: {e}")))?;
        }
        Ok(())
    }
}
