//! [`Budget`]: how many calls a run of somebody else's program may make.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Calls that all clients of a run may make together. With the last one the run is asked to stop.
#[derive(Clone, Debug)]
pub struct Budget {
    left: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Budget {
    /// So many calls, at least one.
    pub fn new(calls: u64) -> Budget {
        Budget { left: Arc::new(AtomicU64::new(calls.max(1))), stop: Arc::default() }
    }

    /// Set when the budget is spent.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// One call is made.
    pub(super) fn spend(&self) {
        let before = self.left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(1)));
        if before.is_ok_and(|left| left <= 1) {
            self.stop.store(true, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_of_a_budget_asks_to_stop_and_none_before() {
        let budget = Budget::new(3);
        for last in [false, false, true, true] {
            budget.spend();
            assert_eq!(budget.stop().load(Relaxed), last);
        }
    }
}
