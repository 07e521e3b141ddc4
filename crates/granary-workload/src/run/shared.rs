//! Data that the threads of a run share.

use super::aio;
use super::{ProgressFn, Run};
use crate::run::events::Events;
use crate::run::fileset::Fileset;
use crate::run::halt::{Halt, Monitor};
use crate::run::ledger::Ledger;
use crate::run::plan::{Plan, ThreadPlan};
use crate::run::semaphore::{Gate, Semaphore};
use crate::run::standstill::Standstill;
use crate::spec::{QuitMode, RandomVar};
use granary_units::Nanos;
use std::sync::Arc;

/// Lines of `print` flowops.
#[derive(Default)]
pub(super) struct Said {
    pub(super) lines: Vec<String>,
    /// Those beyond [`MAX_MESSAGES`].
    pub(super) more: u64,
}

impl Said {
    pub(super) fn take(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.lines);
        if self.more > 0 {
            lines.push(format!("({} more lines)", self.more));
        }
        lines
    }
}

/// Data that all threads of a measured phase share.
pub(super) struct Shared {
    pub(super) sets: Vec<Arc<Fileset>>,
    pub(super) halt: Halt,
    /// Threads that have not come to their end.
    pub(super) running: Arc<Monitor<usize>>,
    pub(super) ledger: Ledger,
    pub(super) events: Events,
    /// Where threads sleep.
    pub(super) sleepers: Arc<Monitor<()>>,
    pub(super) still: Standstill,
    pub(super) groups: Vec<Vec<Arc<Semaphore>>>,
    pub(super) gates: Vec<Arc<Gate>>,
    pub(super) randoms: Arc<[RandomVar]>,
    pub(super) mode: QuitMode,
    pub(super) hog_store_ps: u64,
    pub(super) changed_lines: f64,
    pub(super) progress: Option<ProgressFn>,
    pub(super) finish_count: Option<u64>,
    pub(super) aio: aio::Totals,
    pub(super) messages: parking_lot::Mutex<Said>,
}

impl Shared {
    pub(super) fn new<C>(run: &Run<C>, plan: &mut Plan, sets: Vec<Arc<Fileset>>, deadline: Nanos) -> Shared {
        let halt = Halt::new(deadline, run.options.stop.clone());
        let sleepers = Arc::new(Monitor::new(()));
        halt.enrol(Arc::clone(&sleepers) as _);
        let running = Arc::new(Monitor::new(plan.threads.len()));
        halt.enrol(Arc::clone(&running) as _);
        for set in &sets {
            halt.enrol(Arc::clone(set) as _);
        }
        let mut groups: Vec<Vec<Arc<Semaphore>>> = vec![Vec::new(); plan.groups];
        for (thread, ThreadPlan { kind, .. }) in plan.threads.iter().enumerate() {
            for &(group, highwater) in &kind.semblocks {
                let semaphore = Arc::new(Semaphore::new(thread, highwater));
                halt.enrol(Arc::clone(&semaphore) as _);
                groups[group].push(semaphore);
            }
        }
        let gates: Vec<Arc<Gate>> = (0..plan.gates).map(|_| Arc::default()).collect();
        for gate in &gates {
            halt.enrol(Arc::clone(gate) as _);
        }
        Shared {
            sets,
            halt,
            running,
            ledger: Ledger::new(std::mem::take(&mut plan.stats), plan.processes),
            events: Events::new(run.workload.event_rate, Arc::clone(&sleepers)),
            sleepers,
            still: Standstill::new(&run.workload.name, &plan.threads),
            groups,
            gates,
            randoms: Arc::clone(&run.randoms),
            mode: run.workload.mode,
            hog_store_ps: run.options.hog_store_ps,
            changed_lines: run.options.changed_lines,
            progress: run.options.progress.clone(),
            finish_count: plan.finish_count,
            aio: aio::Totals::default(),
            messages: parking_lot::Mutex::default(),
        }
    }

    /// The thread of this number has come to its end; the last one ends the run.
    pub(super) fn leave(&self, thread: usize) {
        self.still.thread_ended(thread, &self.halt);
        let last = {
            let mut running = self.running.lock();
            *running -= 1;
            *running == 0
        };
        if last {
            self.halt.ended();
            self.running.notify_all();
        }
    }

    /// Waits until the run is over, and tells of it where no thread did: at the deadline.
    pub(super) fn wait_for_the_end(&self) {
        let mut running = self.running.lock();
        self.running.wait_until(&mut running, &self.halt, Nanos::MAX, |running| *running == 0);
        drop(running);
        self.halt.ended();
    }

    pub(super) fn say(&self, message: &str) {
        let mut messages = self.messages.lock();
        if messages.lines.len() < MAX_MESSAGES {
            messages.lines.push(message.to_owned());
        } else {
            messages.more += 1;
        }
    }
}

/// Lines of `print` that are kept.
pub(super) const MAX_MESSAGES: usize = 100;
