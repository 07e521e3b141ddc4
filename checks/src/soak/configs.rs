//! Drive configurations: whole drives of random shape and policy, each in its steady state.
//!
//! The drives themselves are those of the tests of `granary-mssd` (`tests/configs`), by the thousand.

use super::Job;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

#[path = "../../../crates/granary-mssd/tests/it/configs/steady.rs"]
mod steady;

#[derive(Default)]
struct Drives {
    seen: Mutex<steady::Seen>,
}

/// The one job.
pub(super) fn jobs() -> Vec<Box<dyn Job>> {
    vec![Box::new(Drives::default())]
}

impl Job for Drives {
    fn name(&self) -> &str {
        "drive-configs"
    }

    fn explore(&self, seeds: Range<u64>) -> Vec<String> {
        let broken = |seed| {
            let e = match catch_unwind(AssertUnwindSafe(|| steady::steady(seed))) {
                Ok(seen) => {
                    self.seen.lock().expect("no holder panics").add(&seen);
                    return None;
                }
                Err(e) => e,
            };
            let text = e
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| e.downcast_ref::<&str>().map(|s| s.to_string()));
            let what = text.unwrap_or_else(|| "a panic".to_owned());
            let replay = format!("cargo xtask soak --kind drive-configs --from {seed} --points 1");
            Some(format!("seed {seed}: {what}\n  {:?}\n  replay: {replay}", steady::config(seed)))
        };
        seeds.filter_map(broken).collect()
    }

    fn summary(&self) -> String {
        self.seen.lock().expect("no holder panics").to_string()
    }
}
