//! The commit task, and the flusher.

use super::{Journal, checkpoint};
use granary_fs::FsError;
use granary_sim::{costs, cpu, now};
use granary_units::Nanos;

impl Journal {
    /// The commit task: commits transactions that were asked for, or are older than the interval.
    pub fn commit_loop(&self) {
        loop {
            let mut s = self.state.lock();
            loop {
                if s.stop || s.aborted.is_some() {
                    return;
                }
                let Some(r) = &s.running else {
                    self.wake.wait(&mut s);
                    continue;
                };
                let due = r.started.saturating_add(self.config.commit_interval);
                if s.requested >= r.tid || now() >= due {
                    break;
                }
                self.wake.wait_until(&mut s, due);
            }
            drop(s);
            cpu(costs().context_switch);
            if let Err(e) = self.commit() {
                self.abort(e);
            }
        }
    }

    /// The flusher: writes blocks home that have waited long enough.
    pub fn flush_loop(&self) {
        loop {
            let mut s = self.state.lock();
            loop {
                if s.stop || s.aborted.is_some() {
                    return;
                }
                let Some(since) = s.dirty_since else {
                    self.dirtied.wait(&mut s);
                    continue;
                };
                // The flusher looks every `wake` and takes what has expired by then.
                let wake = self.config.wake.0.max(1);
                let due = Nanos(since.saturating_add(self.config.expire).0.div_ceil(wake) * wake);
                if now() >= due {
                    break;
                }
                self.dirtied.wait_until(&mut s, due);
            }
            drop(s);
            cpu(costs().context_switch);
            if let Err(e) = self.write_home(checkpoint::Which::All) {
                self.abort(e);
            }
        }
    }

    /// Ends both tasks' loops.
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.wake.notify_all();
        self.dirtied.notify_all();
    }

    /// The drive failed: every further change is refused with its error.
    pub(super) fn abort(&self, error: FsError) {
        let mut s = self.state.lock();
        s.aborted.get_or_insert(error);
        drop(s);
        for c in [&self.wake, &self.done, &self.unlocked, &self.drained, &self.dirtied] {
            c.notify_all();
        }
    }
}
