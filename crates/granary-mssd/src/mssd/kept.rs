//! [`Kept`]: a drive as an image kept it, before it runs.
//!
//! ```text
//!   dram (with the redo log in it) ──load──> Kept ──start: with a journal for changes──> Mssd, powered up
//!                                             └─ sequence: which contents of flash pages in the redo log
//!                                                          still count
//! ```
//!
//! A companion's command that was under way is finished by the drive itself ([`Mssd::resume`]), once its
//! image takes changes.

use super::Mssd;
use crate::companion::Companion;
use crate::config::DriveConfig;
use crate::entry::BUILT_IN;
use crate::firmware::{Backend, Firmware};
use crate::saved::layout::Layout;
use crate::saved::medium::ImageMedium;
use granary_device::DriveError;
use granary_redo::ImageError;
use granary_redo::files::DRAM;
use granary_redo::journal::Journal;
use granary_redo::region::Region;
use granary_units::Nanos;
use std::sync::Arc;

/// See the module.
pub struct Kept {
    config: DriveConfig,
    medium: ImageMedium,
    firmware: Box<dyn Firmware>,
    companion: Option<Box<dyn Companion>>,
    paced: bool,
}

impl Kept {
    /// The drive of this configuration, which is valid, from its memory.
    ///
    /// # Errors
    /// [`ImageError::Damaged`], host errors.
    pub fn load(config: &DriveConfig, dram: &Region) -> Result<Kept, ImageError> {
        let layout = Layout::new(config);
        let medium = ImageMedium::load(config, layout, dram)?;
        let name = config.firmware.mode.name();
        let entry = BUILT_IN.iter().find(|entry| entry.name == name);
        let Some((load, beside)) = entry.and_then(|entry| entry.load.zip(Some(entry.beside))) else {
            let why = format!("no image keeps a drive with the firmware '{name}': it lives in memory alone");
            return Err(ImageError::Config(why));
        };
        let firmware = load(config, &layout, dram)?;
        let mut companion = None;
        for load in beside.iter().filter_map(|entry| entry.load) {
            if companion.is_none() {
                companion = load(config, &layout, dram)?;
            }
        }
        Ok(Kept { config: config.clone(), medium, firmware, companion, paced: false })
    }

    /// All comes at the same instants as on a drive in memory. Its process must not die before its power has
    /// failed: pages wait in it.
    pub fn paced(self) -> Kept {
        Kept { paced: true, ..self }
    }

    /// The sequence number of the newest program of a flash page, if it holds anything.
    pub fn sequence(&self, ppa: u32) -> Option<u64> {
        self.medium.sequence(ppa)
    }

    /// The drive, powered up before time starts; its changes go to `journal`.
    ///
    /// # Errors
    /// The flash's report of a map that contradicts itself.
    pub fn start(self, journal: &Arc<Journal>) -> Result<Mssd, ImageError> {
        let Kept { config, medium, firmware, companion, paced } = self;
        let medium = medium.with_journal(journal.clone());
        let mut backend = Backend::on_image(&config.flash, config.firmware.write_buffer, medium)
            .map_err(|e| ImageError::damaged(DRAM, e.to_string()))?;
        if paced {
            backend.hold_back(config.flash.geometry.plane_count());
        }
        Ok(Mssd::over(&config, firmware, companion, backend))
    }
}

impl Mssd {
    /// Carries out the rest of a companion's command that a power failure interrupted, if there is one.
    ///
    /// # Errors
    /// Unreadable flash; the host of the image failed.
    pub fn resume(&self) -> Result<(), DriveError> {
        let mut s = self.state.lock();
        if !s.companion.as_ref().is_some_and(|own| own.is_unfinished()) {
            return Ok(());
        }
        self.call_on(&mut s, Nanos::ZERO, |s| {
            let Some(own) = &mut s.companion else { return Ok(()) };
            s.inner.backend.owe(true);
            let resumed = own.resume(&mut s.inner);
            s.inner.backend.owe(false);
            resumed.map(drop)
        })
    }

    /// On an image: the host gets back the space of all flash blocks that hold nothing current.
    pub fn punch(&self) {
        if let Some(image) = self.state.lock().inner.backend.image() {
            image.punch(true);
        }
    }
}
