//! Calls: random ones of every kind on a few files of a mount, each result compared with a model; 20,000 for
//! each seed.
//!
//! ```text
//!   10,000 calls ── all closed, umount, mount, all compared ── 10,000 calls ── the same
//! ```
//!
//! The calls are those of the tests of `granary-mount` (`tests/mount/exerciser.rs`), direct and cached; and
//! mappings, which those tests cannot have.

use super::mounted::{Mounted, Work};
use exerciser::Exercise;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[path = "../../../crates/granary-mount/tests/it/content.rs"]
mod content;
#[path = "../../../crates/granary-mount/tests/it/exerciser.rs"]
mod exerciser;
#[path = "calls/mapping.rs"]
mod mapping;
#[path = "../../../crates/granary-mount/tests/it/model.rs"]
mod model;

/// Calls between two mounts.
const PART: u64 = 10_000;
/// Mounts of a seed.
const PARTS: u64 = 2;

/// See the module.
#[derive(Clone, Copy)]
pub(super) struct Calls;

impl Work for Calls {
    const KIND: &'static str = "calls";
    const UNIT: &'static str = "calls";

    fn seed(self, mounted: &Mounted, fs: &str, seed: u64, done: &AtomicU64) -> Result<(), String> {
        let mut exercise = Exercise::new(&mounted.dir(), fs, seed, Some(&mapping::Shared))?;
        for part in 1..=PARTS {
            mounted.bounded(|| {
                exercise.run(PART)?;
                exercise.compare_all().map_err(|e| format!("all, part {part}: {e}"))
            })?;
            done.fetch_add(PART, Relaxed);
            exercise.close();
            mounted.again()?;
            mounted
                .bounded(|| exercise.compare_all().map_err(|e| format!("mounted again, part {part}: {e}")))?;
        }
        Ok(())
    }
}
