//! A command that takes long is stopped.
//!
//! ```text
//!   first SIGINT or SIGTERM    measuring: ends where it is, and shows what it has (exit code 128 + signal)
//!                              else: records end, and the signal does what it always does
//!   a second one               at once: records end, and the signal does what it always does
//! ```
//!
//! Records end first, so that what there is of them can be replayed. SIGKILL leaves a record that is cut off:
//! `drive replay --cut`.

use granary_bench::recorded::end_all;
use granary_lab::LabError;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

/// Requests to stop that signals make to a command.
#[derive(Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// There is, or may be, something to show.
    measuring: Arc<AtomicBool>,
    /// The signal that came; 0: none.
    signal: Arc<AtomicI32>,
}

impl Stop {
    /// Watches for signals from now on; until something is measured they end the process.
    ///
    /// # Errors
    /// The system's.
    pub fn watch() -> Result<Stop, LabError> {
        let stop = Stop::default();
        let watched = stop.clone();
        on_signals(move |signal| {
            if watched.measuring.load(SeqCst) && !watched.asked.swap(true, SeqCst) {
                watched.signal.store(signal, SeqCst);
                say!("stopping: what was measured so far follows; the same again ends it at once");
                return;
            }
            end_records();
            let _ = emulate_default_handler(signal);
        })?;
        Ok(stop)
    }

    /// From now on there may be something to show.
    pub fn measuring(&self) {
        self.measuring.store(true, SeqCst);
    }

    /// Whether to end here.
    pub fn is_asked(&self) -> bool {
        self.asked.load(SeqCst)
    }

    /// The same, for who looks by itself.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// The signal that was heeded.
    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(SeqCst)).filter(|signal| *signal != 0)
    }
}

fn on_signals(act: impl Fn(i32) + Send + 'static) -> Result<(), LabError> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|source| LabError::Io { what: "watching for signals".to_owned(), source })?;
    granary_sim::spawn("signals", move || {
        for signal in signals.forever() {
            act(signal);
        }
    });
    Ok(())
}

/// Ends the records of this process, and says what they have.
pub fn end_records() {
    for (path, count) in end_all() {
        match count {
            Ok(count) => say!("{}: the record ends here, after {count} operations", path.display()),
            Err(e) => say!("{e}"),
        }
    }
}
