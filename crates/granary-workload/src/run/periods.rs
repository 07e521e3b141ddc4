//! [`Period`]s: what `psrun` reports while the run goes on.
//!
//! ```text
//!   start ──── every ────┬──── every ────┬─── rest ──┐ end of the run
//!                     period 1        period 2    period 3
//! ```
//!
//! Each holds what was done within it. Filebench prints its figures at those instants, since the start
//! (`psrun 10`) or since the last report (`psrun -10`): both follow from these.
//!
//! Invariant: the periods add up to the run.
//!
//! It does *not* reset anything: the outcome of the run is that of all its periods.

use super::Shared;
use super::halt::Waited;
use granary_sim::{JoinHandle, now};
use granary_units::Nanos;
use parking_lot::Mutex;
use std::sync::Arc;

/// Periods that are told apart; what comes after them is one.
const MOST: usize = 10_000;

/// A part of a run that `psrun` reports on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Its end, counted from the start of the run; it begins where the one before it ends.
    pub end: Nanos,
    /// Operations in it.
    pub ops: u64,
    /// Bytes that system calls read in it.
    pub read: u64,
    /// Bytes that they wrote.
    pub written: u64,
}

/// Collects the periods of a run.
pub(crate) struct Periods {
    start: Nanos,
    /// Totals at the end of each period.
    totals: Arc<Mutex<Vec<Period>>>,
    task: JoinHandle<()>,
}

impl Periods {
    /// Looks at the totals after each `every`, until the run is over.
    pub(crate) fn watch(shared: &Arc<Shared>, every: Nanos) -> Periods {
        let (start, totals) = (now(), Arc::new(Mutex::new(Vec::new())));
        let task = {
            let (shared, totals) = (Arc::clone(shared), Arc::clone(&totals));
            granary_sim::spawn("psrun", move || look(&shared, start, every, &totals))
        };
        Periods { start, totals, task }
    }

    /// The periods of a run that has come to its end at `end`, with these totals.
    pub(crate) fn ended(self, end: Nanos, ops: u64, (read, written): (u64, u64)) -> Vec<Period> {
        self.task.join();
        let mut totals = std::mem::take(&mut *self.totals.lock());
        let end = end.saturating_sub(self.start);
        if totals.last().is_none_or(|last| last.end < end) {
            totals.push(Period { end, ops, read, written });
        }
        let mut before = Period::default();
        for period in &mut totals {
            let here = *period;
            period.ops -= before.ops;
            period.read -= before.read;
            period.written -= before.written;
            before = here;
        }
        totals
    }
}

fn look(shared: &Shared, start: Nanos, every: Nanos, totals: &Mutex<Vec<Period>>) {
    let mut end = Nanos::ZERO;
    for _ in 0..MOST {
        end = end.saturating_add(every);
        let mut running = shared.running.lock();
        let until = start.saturating_add(end);
        let waited = shared.running.wait_until(&mut running, &shared.halt, until, |running| *running == 0);
        drop(running);
        if waited != Waited::TimedOut {
            return;
        }
        let (read, written) = shared.ledger.moved();
        totals.lock().push(Period { end, ops: shared.ledger.operations(), read, written });
    }
}
