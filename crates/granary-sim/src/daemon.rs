//! Background tasks that pause, can be kicked awake, and stop when told: journal commit, write-back,
//! cleaning.

use crate::sync::{Condvar, Mutex};
use crate::task::{self, JoinHandle};
use granary_units::Nanos;
use std::sync::Arc;

/// Why a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The whole pause passed.
    Elapsed,
    /// Somebody called [`Daemon::kick`].
    Kicked,
    /// [`Daemon::stop`] was called: finish and return.
    Stop,
}

#[derive(Default)]
struct State {
    stop: bool,
    kicked: bool,
}

struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

/// The daemon's side: how it pauses and learns that it must stop.
pub struct Stopper(Arc<Control>);

impl Stopper {
    /// Pauses for `span`, or until kicked or stopped. A kick that came while the daemon was at work counts.
    pub fn pause(&self, span: Nanos) -> Signal {
        let deadline = task::now().saturating_add(span);
        let mut s = self.0.state.lock();
        loop {
            if s.stop {
                return Signal::Stop;
            }
            if std::mem::take(&mut s.kicked) {
                return Signal::Kicked;
            }
            if self.0.changed.wait_until(&mut s, deadline) {
                return if s.stop { Signal::Stop } else { Signal::Elapsed };
            }
        }
    }

    /// Whether the daemon was told to stop.
    pub fn stopped(&self) -> bool {
        self.0.state.lock().stop
    }
}

/// A running daemon. Dropping it tells the daemon to stop without waiting for it.
pub struct Daemon {
    control: Arc<Control>,
    handle: Option<JoinHandle<()>>,
}

/// Kicks a daemon from where its handle is not at hand.
pub struct Kicker(Arc<Control>);

impl Kicker {
    /// As [`Daemon::kick`]; nothing happens where the daemon is gone.
    pub fn kick(&self) {
        self.0.state.lock().kicked = true;
        self.0.changed.notify_all();
    }
}

impl Daemon {
    /// Starts `body` as a background task; it must return soon after [`Signal::Stop`].
    pub fn start(name: &str, body: impl FnOnce(&Stopper) + Send + 'static) -> Daemon {
        let control = Arc::new(Control { state: Mutex::new(State::default()), changed: Condvar::new() });
        let stopper = Stopper(Arc::clone(&control));
        let handle = task::start(name, true, move || body(&stopper));
        Daemon { control, handle: Some(handle) }
    }

    /// Ends the daemon's present or next pause early.
    pub fn kick(&self) {
        self.kicker().kick();
    }

    /// For whoever is to wake the daemon and does not own it.
    pub fn kicker(&self) -> Kicker {
        Kicker(Arc::clone(&self.control))
    }

    /// Tells the daemon to stop and waits until it has.
    pub fn stop(mut self) {
        self.tell();
        if let Some(h) = self.handle.take() {
            h.join();
        }
    }

    fn tell(&self) {
        self.control.state.lock().stop = true;
        self.control.changed.notify_all();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.handle.is_some() {
            self.tell();
        }
    }
}
