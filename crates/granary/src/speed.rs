//! [`Speed`]: how fast an experiment is simulated, in processor time of the thread that simulates it.
//!
//! It is for people, on stderr: records hold virtual time only.

use granary_lab::experiment::{OnProgress, Report};
use granary_workload::run::Phase;
use std::sync::{Arc, Mutex};

/// How far a phase was at some moment.
#[derive(Clone, Copy)]
struct Point {
    /// Entries of filesets, or operations, and system calls.
    steps: u64,
    calls: u64,
    /// Processor time in seconds.
    cpu: f64,
}

/// A phase at its first and its last report.
type Ends = Option<[Point; 2]>;

/// Watches the progress of one experiment.
#[derive(Clone, Default)]
pub struct Speed(Arc<Mutex<[Ends; 2]>>);

/// Seconds that this thread has been on a processor, where the system tells: a busy machine does not spoil
/// them.
pub fn on_cpu() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split(' ').next()?.parse().ok().map(|ns: f64| ns / 1e9)
}

impl Speed {
    /// Looks at each report and passes it on.
    pub fn watch(&self, next: Option<OnProgress>) -> OnProgress {
        let ends = Arc::clone(&self.0);
        Arc::new(move |report: Report| {
            if let Some(cpu) = on_cpu() {
                let here = Point { steps: report.progress.done, calls: report.calls, cpu };
                let which = (report.progress.phase == Phase::Measure) as usize;
                ends.lock().expect("no panic while held")[which].get_or_insert([here; 2])[1] = here;
            }
            if let Some(next) = &next {
                next(report);
            }
        })
    }

    /// The speeds seen, as the end of a sentence; nothing of phases too short to be seen twice.
    pub fn sentence(&self) -> String {
        let ends = *self.0.lock().expect("no panic while held");
        let rate = |ends: Ends, what: &str| {
            let [from, to] = ends?;
            let thousands = |n: u64| n as f64 / (to.cpu - from.cpu) / 1e3;
            let (steps, calls) = (thousands(to.steps - from.steps), thousands(to.calls - from.calls));
            steps
                .is_finite()
                .then(|| format!(", {steps:.0} thousand {what} ({calls:.0} thousand system calls)"))
        };
        let rates: String = [rate(ends[0], "entries set up"), rate(ends[1], "operations run")]
            .into_iter()
            .flatten()
            .collect();
        if rates.is_empty() { rates } else { rates + " per second of processor time" }
    }
}
