//! [`Gate`]: waiting, in either world, for a condition that lives under some other short lock.
//!
//! ```text
//!   waiter: wait_while(|| condition)         changer: change the condition, then open()
//! ```
//!
//! The vfs keeps its tables under plain short locks that are never held across a wait; a task that must wait
//! for them to change waits here.

use granary_sim::sync::{Condvar, Mutex};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// See the module.
#[derive(Default)]
pub(crate) struct Gate {
    lock: Mutex<()>,
    changed: Condvar,
    waiters: AtomicU32,
}

impl Gate {
    /// Waits until `condition` is false. The task that makes it false calls [`Gate::open`] afterwards.
    pub(crate) fn wait_while(&self, mut condition: impl FnMut() -> bool) {
        self.waiters.fetch_add(1, SeqCst);
        let mut guard = self.lock.lock();
        while condition() {
            self.changed.wait(&mut guard);
        }
        drop(guard);
        self.waiters.fetch_sub(1, SeqCst);
    }

    /// The condition changed: lets every waiter look again. Cheap where nobody waits.
    pub(crate) fn open(&self) {
        if self.waiters.load(SeqCst) > 0 {
            // Taking the lock once makes sure that no waiter is between its look and its wait.
            drop(self.lock.lock());
            self.changed.notify_all();
        }
    }
}
