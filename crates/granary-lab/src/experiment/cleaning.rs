//! Cleaning as a phase of its own: the cost of a log-structured file system's cleaner when nothing else runs.
//!
//! ```text
//!   drain | idle for the protection period | sweep, settle |
//!                                          ^ counters      ^
//! ```
//!
//! The idle time makes every segment old enough for the cleaner. Work of daemons in that time is not counted
//! as cleaning.
//!
//! Blocks that REMAP moved lie in flash where they lay before. Blocks that are together for the host are
//! apart there, and the drive's own gc has to pay for it later. [`overwrite`] measures that: one more drive
//! write, in the order of addresses, as a log would write it.
//!
//! Source: PebbleSSD section 6.3, figure 7.

use crate::error::LabError;
use crate::phase::{Snapshot, phase};
use crate::record::{Cleaning, Phase};
use granary_device::{Devices, Role, Structure};
use granary_fs::{FsError, Sweep};
use granary_sim::{now, sleep_until};
use granary_units::{Lpa, Nanos, Page};
use granary_vfs::Vfs;
use std::collections::VecDeque;
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
        overwrite: None,
    })
}

/// Pages of a write, and writes under way at once: a choice, on which the time depends and what gc copies
/// does not.
const PART: u64 = 64;
const DEPTH: usize = 16;

/// Writes the whole SSD once. Nobody uses it any more.
///
/// # Errors
/// The drive's; there is none.
pub(super) fn overwrite(devices: &Devices) -> Result<Phase, FsError> {
    let port = devices.get(Role::Ssd).ok_or(FsError::NotSupported)?;
    let pages = port.info().pages;
    let begin = Snapshot::take(devices);
    let (content, mut under_way) = (vec![Page::ZERO; PART as usize], VecDeque::new());
    for at in (0..pages).step_by(PART as usize) {
        let n = PART.min(pages - at) as usize;
        under_way.push_back(port.submit_write(Lpa(at), &content[..n], Structure::Data)?);
        if under_way.len() == DEPTH {
            under_way.pop_front().into_iter().for_each(|first| port.wait(first));
        }
    }
    under_way.into_iter().for_each(|ticket| port.wait(ticket));
    sleep_until(devices.settle(now())?);
    Ok(phase(&begin, &Snapshot::take(devices)))
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
