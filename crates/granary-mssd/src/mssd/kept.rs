//! [`Kept`]: a drive as an image kept it, before it runs.
//!
//! ```text
//!   dram (with the redo log in it) ──load──> Kept ──start: with the journal that takes its changes──> Mssd, powered up
//!                                             └─ sequence: which contents of flash pages in the redo log still count
//! ```
//!
//! A REMAP that was under way is finished by the drive itself ([`Mssd::finish_remap`]), once its image takes changes.

use super::Mssd;
use crate::config::{DriveConfig, Mode};
use crate::firmware::bam::Bam;
use crate::firmware::bam::saved::Moving;
use crate::firmware::cache::Cache;
use crate::firmware::log::Log;
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
    bam: Option<Bam>,
    moving: Option<Moving>,
    paced: bool,
}

/// A REMAP that its power failure interrupted.
#[must_use = "the drive does not go on with it by itself"]
pub struct Unfinished(Moving);

impl Kept {
    /// The drive of this configuration, which is valid, from its memory.
    ///
    /// # Errors
    /// [`ImageError::Damaged`], host errors.
    pub fn load(config: &DriveConfig, dram: &Region) -> Result<Kept, ImageError> {
        let layout = Layout::new(config);
        let medium = ImageMedium::load(config, layout, dram)?;
        let firmware: Box<dyn Firmware> = match config.firmware.mode {
            Mode::Log => Box::new(Log::load(&config.at_clock(), &layout, dram)?),
            Mode::Cache => Box::new(Cache::load(config, &layout, dram)?),
            Mode::Own(name) => {
                let why =
                    format!("no image keeps a drive with the firmware '{name}': it lives in memory alone");
                return Err(ImageError::Config(why));
            }
        };
        let (bam, moving) = match &config.firmware.bam {
            Some(bam) => {
                let (bam, moving) = Bam::load(bam, config.firmware.names(), config.pages(), &layout, dram)?;
                (Some(bam), moving)
            }
            None => (None, None),
        };
        Ok(Kept { config: config.clone(), medium, firmware, bam, moving, paced: false })
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

    /// The drive, powered up before time starts; what it changes goes to `journal`.
    ///
    /// # Errors
    /// What the flash says about a map that contradicts itself.
    pub fn start(self, journal: &Arc<Journal>) -> Result<(Mssd, Option<Unfinished>), ImageError> {
        let Kept { config, medium, firmware, bam, moving, paced } = self;
        let medium = medium.with_journal(journal.clone());
        let mut backend = Backend::on_image(&config.flash, config.firmware.write_buffer, medium)
            .map_err(|e| ImageError::damaged(DRAM, e.to_string()))?;
        if paced {
            backend.hold_back(config.flash.geometry.plane_count());
        }
        Ok((Mssd::over(&config, firmware, bam, backend), moving.map(Unfinished)))
    }
}

impl Mssd {
    /// Moves the rest of the pages of a REMAP that its power failure interrupted.
    ///
    /// # Errors
    /// Unreadable flash; the host of the image failed.
    pub fn finish_remap(&self, rest: Unfinished) -> Result<(), DriveError> {
        self.call(Nanos::ZERO, |s| {
            s.backend.owe(true);
            let moved = s.move_rest(Nanos::ZERO, rest.0);
            s.backend.owe(false);
            moved.map(drop)
        })
    }

    /// On an image: the host gets back the space of all flash blocks that hold nothing current.
    pub fn punch(&self) {
        if let Some(image) = self.state.lock().backend.image() {
            image.punch(true);
        }
    }
}
