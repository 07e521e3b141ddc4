//! File systems with `data = "journal"`: after a power failure a prefix of the calls is there.

use super::Job;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[allow(dead_code, reason = "shared with the test, which uses more of it")]
#[path = "../../../crates/granary-crash/tests/it/journal/prefix.rs"]
mod life;

#[derive(Default)]
struct Prefix {
    lives: AtomicU64,
    lost: AtomicU64,
}

/// One job over all targets.
pub(super) fn jobs() -> Vec<Box<dyn Job>> {
    vec![Box::new(Prefix::default())]
}

impl Job for Prefix {
    fn name(&self) -> &str {
        "prefix"
    }

    fn explore(&self, seeds: Range<u64>) -> Vec<String> {
        let mut failures = Vec::new();
        for seed in seeds {
            for (target, kept, aim) in life::ALL {
                self.lives.fetch_add(1, Relaxed);
                match catch_unwind(AssertUnwindSafe(|| life::point(target, seed, kept, aim))) {
                    Ok(lost) => drop(self.lost.fetch_add(lost as u64, Relaxed)),
                    Err(_) => failures.push(format!(
                        "seed {seed}, {target}: see above\n  replay: cargo xtask soak --kind prefix --from {seed} --points 1"
                    )),
                }
            }
        }
        failures
    }

    fn summary(&self) -> String {
        let (lives, lost) = (self.lives.load(Relaxed), self.lost.load(Relaxed));
        format!("{lives} lives, {lost} calls that nobody had synced were lost")
    }
}
