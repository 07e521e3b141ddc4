//! [`Flusher`]: tasks that want a FLUSH at the same time share one (`flush_merge`).
//!
//! ```text
//!   A: |---- flush 1 ----|---- flush 2 ----|
//!   B:    wants          ^ leads 2         ^ done
//!   C:          wants    ^ waits for B's   ^ done
//! ```
//!
//! A FLUSH that began before a task asked does not count for it.

use granary_device::{DriveError, Port};
use granary_sim::sync::{Condvar, Mutex};

#[derive(Default)]
struct State {
    started: u64,
    finished: u64,
    running: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Flusher {
    state: Mutex<State>,
    done: Condvar,
}

impl Flusher {
    /// Returns when a FLUSH that began after the call has completed; says whether the caller issued it.
    ///
    /// # Errors
    /// The drive's.
    pub fn flush(&self, port: &Port) -> Result<bool, DriveError> {
        let mut s = self.state.lock();
        let wanted = s.started + 1;
        while s.finished < wanted {
            if s.running {
                self.done.wait(&mut s);
                continue;
            }
            s.running = true;
            s.started += 1;
            let mine = s.started;
            drop(s);
            let result = port.flush();
            s = self.state.lock();
            s.running = false;
            if result.is_ok() {
                s.finished = mine;
            }
            self.done.notify_all();
            return result.map(|()| true);
        }
        Ok(false)
    }
}
