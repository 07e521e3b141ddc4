//! [`Effects`]: in which order calls took effect, for the search of `granary-suite`'s `check_history`.
//!
//! Off unless a test asks. A number per change, drawn while the change's locks are held; each task can ask
//! for the number of its last one. A hint only: the search does not believe it, it tries it first.

use granary_sim::cpu_id;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// See the module.
#[derive(Default)]
pub(super) struct Effects {
    on: AtomicBool,
    next: AtomicU64,
    last: Mutex<BTreeMap<usize, u64>>,
}

impl Effects {
    /// From now on changes are numbered.
    pub(super) fn watch(&self) {
        self.on.store(true, Relaxed);
    }

    /// The caller changed something.
    #[inline]
    pub(super) fn mark(&self) {
        if self.on.load(Relaxed) {
            self.last.lock().insert(cpu_id(usize::MAX), self.next.fetch_add(1, Relaxed));
        }
    }

    /// The number of the caller's last change since it asked last.
    pub(super) fn take(&self) -> Option<u64> {
        self.last.lock().remove(&cpu_id(usize::MAX))
    }
}
