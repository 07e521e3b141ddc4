//! Cleaning as a phase of its own: what a log-structured file system's cleaner costs when nothing else runs.
//!
//! ```text
//!   drain | idle for the protection period | sweep, settle |
//!                                          ^ counters      ^
//! ```
//!
//! The idle time makes every segment old enough for the cleaner. What daemons do meanwhile is not counted as cleaning.
//!
//! Source: PebbleSSD section 6.3, figure 7.

use crate::error::LabError;
use crate::phase::{Snapshot, phase};
use crate::record::Cleaning;
use granary_device::Devices;
use granary_sim::{now, sleep_until};
use granary_units::Nanos;
use granary_vfs::{FsError, Sweep, Vfs};
use std::sync::Arc;

/// Lets the file system be idle for `protection`, then sweeps it.
///
/// # Errors
/// The file system's, the drive's.
pub(super) fn clean(vfs: &Arc<Vfs>, devices: &Devices, protection: Nanos) -> Result<Cleaning, FsError> {
    sleep_until(now() + protection);
    let begin = Snapshot::take(devices);
    let swept = vfs.sweep(&Sweep { protection })?;
    sleep_until(devices.settle(now())?);
    let moved = phase(&begin, &Snapshot::take(devices));
    Ok(Cleaning {
        protection_s: protection.as_secs_f64(),
        virtual_s: moved.virtual_s,
        segments: swept.segments,
        blocks_copied: swept.blocks_copied,
        blocks_remapped: swept.blocks_remapped,
        host: moved.host,
        flash: moved.flash,
    })
}

/// Why it could not be cleaned.
pub(super) fn failed(fs: &str, e: FsError) -> LabError {
    match e {
        FsError::NotSupported => LabError::Usage(format!(
            "{fs} has no log to clean: leave --then-clean out, or take a log-structured file system such as f2fs"
        )),
        e => LabError::run(fs, "cleaning", e),
    }
}
