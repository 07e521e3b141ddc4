//! [`Speed`]: how fast an experiment is simulated, in processor time of the thread that simulates it.
//!
//! It is for people, on stderr: records hold virtual time only.

use granary_lab::experiment::OnProgress;
use granary_workload::run::{Phase, Progress};
use std::sync::{Arc, Mutex};

/// Steps done and processor time, at the first and the last report of a phase.
type Ends = Option<[(u64, f64); 2]>;

/// Watches the progress of one experiment.
#[derive(Clone, Default)]
pub struct Speed(Arc<Mutex<[Ends; 2]>>);

/// Seconds that this thread has been on a processor, where the system tells: a busy machine does not spoil them.
pub fn on_cpu() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split(' ').next()?.parse().ok().map(|ns: f64| ns / 1e9)
}

impl Speed {
    /// Looks at each report and passes it on.
    pub fn watch(&self, next: Option<OnProgress>) -> OnProgress {
        let ends = Arc::clone(&self.0);
        Arc::new(move |p: Progress| {
            if let Some(cpu) = on_cpu() {
                let (here, which) = ((p.done, cpu), (p.phase == Phase::Measure) as usize);
                ends.lock().expect("no panic while held")[which].get_or_insert([here; 2])[1] = here;
            }
            if let Some(next) = &next {
                next(p);
            }
        })
    }

    /// What was seen, as the end of a sentence; nothing of phases too short to be seen twice.
    pub fn sentence(&self) -> String {
        let ends = *self.0.lock().expect("no panic while held");
        let rate = |ends: Ends, what: &str| {
            let [(done, from), (end, to)] = ends?;
            let rate = (end - done) as f64 / (to - from);
            rate.is_finite()
                .then(|| format!(", {:.0} thousand {what} per second of processor time", rate / 1e3))
        };
        [rate(ends[0], "entries set up"), rate(ends[1], "operations run")].into_iter().flatten().collect()
    }
}
