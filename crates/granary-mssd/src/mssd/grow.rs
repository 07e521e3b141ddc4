//! The drive of an open image gets more packages while it is in use.
//!
//! ```text
//!   lock: calls wait ── changes published ── the image's files (granary-image) ── FTL, firmware, size
//!                    ── calls go on
//! ```
//!
//! Nothing in the drive's memory is lost or moved: lines not yet flushed, open transactions, the log and
//! commands under way stay as they are. Only the places change where the image keeps them.

use super::Mssd;
use crate::config::DriveConfig;
use crate::saved::layout::Layout;
use granary_device::DriveError;
use granary_flash::FlashError;
use granary_redo::ImageError;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Mssd {
    /// Takes up a larger configuration of the same drive, which is valid. `files`: makes the image's files
    /// those of the larger drive; everything that changed so far has been handed over, and nobody changes
    /// anything meanwhile. If that fails the drive goes on as it was.
    ///
    /// # Errors
    /// Those of `files`; [`ImageError::Stopped`] where the drive or the image takes no more changes.
    pub fn grow(
        &self,
        config: &DriveConfig,
        files: impl FnOnce() -> Result<Layout, ImageError>,
    ) -> Result<(), ImageError> {
        let stopped = |reason: String| ImageError::Stopped { reason };
        let mut s = self.state.lock();
        if s.inner.backend.ftl().is_read_only() {
            let worn = FlashError::ReadOnly { lost_blocks: s.inner.backend.ftl().lost_blocks() };
            return Err(stopped(worn.to_string()));
        }
        if let Some(fault) = &s.inner.fault {
            return Err(stopped(fault.to_string()));
        }
        s.publish().map_err(|e| stopped(e.to_string()))?;
        let layout = files()?;
        if let Some(image) = s.inner.backend.image() {
            image.grow(config, layout);
        }
        if let Err(e) = s.inner.backend.ftl_mut().grow(&config.flash) {
            // The files are the larger drive's already: this one must not go on.
            let failed = DriveError::Failed(e.to_string());
            s.inner.fault = Some(failed.clone());
            return Err(stopped(failed.to_string()));
        }
        s.inner.firmware.grow(config, &layout);
        if let Some(own) = &mut s.companion {
            own.grow(config, &layout);
        }
        *self.config.write() = Arc::new(config.clone());
        self.pages.store(config.pages(), Relaxed);
        Ok(())
    }
}
