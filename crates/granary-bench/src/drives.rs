//! The registry of drives: one line for each firmware, and everything else finds it here.

use granary_mssd::{ConfigError, DriveConfig, DriveEntry, Mssd};

/// All firmwares.
pub const DRIVES: &[DriveEntry] = &[granary_mssd::LOG, granary_mssd::CACHE];

/// A new drive with the firmware that its configuration names. Without `content` its flash keeps no content.
///
/// # Errors
/// [`ConfigError`]: no firmware has the name, or the configuration makes no working drive.
pub fn make(config: &DriveConfig, content: bool) -> Result<Mssd, ConfigError> {
    let entry = DriveEntry::of(DRIVES, config)?;
    if content { entry.make(config) } else { entry.make_without_data(config) }
}
