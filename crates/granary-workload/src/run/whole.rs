//! [`Whole`]: what the tasks of fio's jobs, or those that replay a trace, share: the books, and whether it is
//! over.
//!
//! Invariant: the first error, or the first request to stop, ends the run; everybody sees it before the next
//! access.

use super::error::RunError;
use super::halt::Finish;
use super::ledger::{Ledger, OpStats};
use super::{Outcome, Phase, Progress, RunOptions};
use granary_sim::now;
use granary_units::Nanos;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Accesses between two looks at whether to stop, and two reports of progress.
const EVERY: u64 = 1 << 10;

/// See the module.
pub(super) struct Whole {
    pub(super) ledger: Ledger,
    pub(super) options: RunOptions,
    accesses: AtomicU64,
    total: Option<u64>,
    /// The first error, or that somebody asked to stop.
    end: parking_lot::Mutex<Option<Result<Finish, Box<RunError>>>>,
}

impl Whole {
    /// Of `processes` processes, with these books; `total`: accesses in all, where that is known.
    pub(super) fn new(
        stats: Vec<OpStats>,
        processes: usize,
        options: &RunOptions,
        total: Option<u64>,
    ) -> Whole {
        Whole {
            ledger: Ledger::new(stats, processes),
            options: options.clone(),
            accesses: AtomicU64::new(0),
            total,
            end: parking_lot::Mutex::default(),
        }
    }

    /// Whether no access is to be begun any more; asked before each.
    pub(super) fn is_over(&self) -> bool {
        let n = self.accesses.fetch_add(1, Relaxed);
        if n.is_multiple_of(EVERY) {
            if self.options.stop.as_ref().is_some_and(|stop| stop.load(Relaxed)) {
                self.end.lock().get_or_insert(Ok(Finish::Interrupt));
            }
            if let Some(progress) = &self.options.progress {
                let total = self.total;
                progress(Progress { phase: Phase::Measure, done: n, total, virtual_now: now() });
            }
        }
        self.has_ended()
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.end.lock().is_some()
    }

    /// A call has failed.
    pub(super) fn fail(&self, error: Box<RunError>) {
        self.end.lock().get_or_insert(Err(error));
    }

    /// The outcome. `names`: of the books. `own`: the cause of the end where no other was set.
    ///
    /// # Errors
    /// The first call that failed.
    pub(super) fn outcome(
        &self,
        names: Vec<String>,
        elapsed: Nanos,
        own: Finish,
    ) -> Result<Outcome, RunError> {
        let finished_because = match self.end.lock().take() {
            Some(Err(error)) => return Err(*error),
            Some(Ok(finish)) => finish,
            None => own,
        };
        let books = self.ledger.take();
        let (app_read, app_write) = self.ledger.moved();
        let mut ops = BTreeMap::<String, OpStats>::new();
        for (name, stat) in names.into_iter().zip(books.stats).filter(|(_, stat)| stat.count > 0) {
            // Jobs of one name are one.
            match ops.get_mut(&name) {
                Some(all) => {
                    (all.count, all.bytes) = (all.count + stat.count, all.bytes + stat.bytes);
                    all.latency.merge(&stat.latency);
                }
                None => drop(ops.insert(name, stat)),
            }
        }
        Ok(Outcome {
            elapsed,
            ops,
            total_ops: books.total_ops,
            app_read,
            app_write,
            finished_because,
            messages: Vec::new(),
            periods: Vec::new(),
            warnings: Vec::new(),
        })
    }
}
