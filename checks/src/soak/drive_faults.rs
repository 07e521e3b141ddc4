//! Drives whose flash and power fail: the schedules of `granary-mssd`'s tests (`tests/model/faults.rs`), by
//! the thousand.

use super::Job;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

#[path = "../../../crates/granary-mssd/tests/it/model/faults.rs"]
mod faults;
#[path = "../../../crates/granary-mssd/tests/it/model/rig.rs"]
mod rig;

#[derive(Default)]
struct Schedules {
    done: Mutex<(u64, faults::Exercised)>,
}

/// One job: the seed chooses the drive.
pub(super) fn jobs() -> Vec<Box<dyn Job>> {
    vec![Box::new(Schedules::default())]
}

impl Job for Schedules {
    fn name(&self) -> &str {
        "drive-faults"
    }

    fn explore(&self, seeds: Range<u64>) -> Vec<String> {
        let broken = |seed| match catch_unwind(AssertUnwindSafe(|| faults::live(seed))) {
            Ok(exercised) => {
                let mut done = self.done.lock().expect("no panic while held");
                *done = (done.0 + 1, done.1.and(exercised));
                None
            }
            Err(e) => {
                let text = e
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| e.downcast_ref::<&str>().map(|s| s.to_string()));
                let what = text.unwrap_or_else(|| "a panic".to_owned());
                let replay = format!("cargo xtask soak --kind drive-faults --from {seed} --points 1");
                Some(format!("seed {seed}: {what}\n  replay: {replay}"))
            }
        };
        seeds.filter_map(broken).collect()
    }

    fn summary(&self) -> String {
        let (schedules, e) = *self.done.lock().expect("no panic while held");
        format!(
            "{schedules} schedules ({} with write_ack = program), {} power failures ({} during RECOVER, {} during power-up), {} blocks lost, {} \
             unreadable reads, {} drives at the end of their life, {} pages moved by gc, {} log cleanings, {} blocks noted by \
             BAM, {} pages remapped",
            e.ack_program,
            e.crashes,
            e.in_recover,
            e.in_power_up,
            e.lost_blocks,
            e.unreadable,
            e.dead,
            e.gc,
            e.cleanings,
            e.bam[0],
            e.bam[1]
        )
    }
}
