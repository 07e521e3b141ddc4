//! A command that records is stopped: its records end first, so that what there is of them can be replayed.
//!
//! SIGINT and SIGTERM then do what they always do. SIGKILL leaves a record that is cut off: `drive replay --cut`.

use granary_lab::LabError;
use granary_lab::drive::trace::recorded::end_all;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// From now on a signal that ends this process ends its records first.
///
/// # Errors
/// The system's.
pub fn end_records_first() -> Result<(), LabError> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|source| LabError::Io { what: "watching for signals".to_owned(), source })?;
    granary_sim::spawn("signals", move || {
        for signal in signals.forever() {
            end_records();
            let _ = emulate_default_handler(signal);
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
