//! [`ImageDevices`]: which devices an image has.

use granary_mssd::{BUILT_IN, DriveConfig, Layout};
use granary_pmem::DimmConfig;
use granary_redo::files::{DRAM, FLASH, NVM};
use granary_redo::redo::MOST_NVM;
use granary_redo::region::file_len;
use granary_units::{Bytes, PAGE_SIZE};

/// The devices of an image, at least one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImageDevices {
    /// The SSD.
    pub ssd: Option<DriveConfig>,
    /// The NVM DIMMs.
    pub nvm: Option<DimmConfig>,
}

impl ImageDevices {
    /// One SSD: an image's default.
    pub fn ssd(config: DriveConfig) -> ImageDevices {
        ImageDevices { ssd: Some(config), nvm: None }
    }

    /// NVM DIMMs alone.
    pub fn nvm(config: DimmConfig) -> ImageDevices {
        ImageDevices { ssd: None, nvm: Some(config) }
    }

    /// Whether an image can have these.
    ///
    /// # Errors
    /// Why not, and what would be right.
    pub fn validate(&self) -> Result<(), String> {
        if let Some(ssd) = &self.ssd {
            ssd.validate().map_err(|e| e.to_string())?;
            let kept: Vec<&str> =
                BUILT_IN.iter().filter(|entry| entry.load.is_some()).map(|entry| entry.name).collect();
            let name = ssd.firmware.mode.name();
            if !kept.contains(&name) {
                return Err(format!(
                    "no image keeps a drive with the firmware '{name}', which lives in memory alone: take one of {}",
                    kept.join(" and ")
                ));
            }
        }
        if let Some(nvm) = &self.nvm {
            nvm.validate().map_err(|e| e.to_string())?;
            if nvm_bytes(nvm) > MOST_NVM {
                return Err(format!(
                    "NVM DIMM: an image keeps at most {} of them, these have {}: take fewer or smaller ones",
                    Bytes(MOST_NVM),
                    Bytes(nvm_bytes(nvm))
                ));
            }
        }
        if self.ssd.is_none() && self.nvm.is_none() {
            return Err("an image needs a device: an SSD, NVM DIMMs, or both".to_owned());
        }
        Ok(())
    }

    /// The files of what they hold, and how long those are.
    pub(crate) fn files(&self) -> Vec<(&'static str, u64)> {
        let mut files = Vec::new();
        if let Some(layout) = self.ssd.as_ref().map(Layout::new) {
            files.extend([(FLASH, layout.flash), (DRAM, layout.end)]);
        }
        if let Some(nvm) = &self.nvm {
            files.push((NVM, file_len(nvm_bytes(nvm))));
        }
        files
    }
}

/// Bytes of all DIMMs; the configuration is valid.
pub(crate) fn nvm_bytes(config: &DimmConfig) -> u64 {
    config.pages() * PAGE_SIZE as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_mssd::Mode;

    #[test]
    fn an_image_needs_a_device_and_each_has_to_be_possible() {
        let dimm = DimmConfig::optane_dcpmm();
        assert!(ImageDevices::nvm(dimm.clone()).validate().is_ok());
        assert!(ImageDevices::default().validate().is_err_and(|e| e.contains("needs a device")));
        let huge = DimmConfig { capacity: Bytes::gib(32 << 10), ..dimm.clone() };
        assert!(ImageDevices::nvm(huge).validate().is_err_and(|e| e.contains("16TiB")));
        let mut both = ImageDevices { nvm: Some(dimm), ..ImageDevices::ssd(DriveConfig::tiny(Mode::Log)) };
        assert!(both.validate().is_ok());
        if let Some(nvm) = &mut both.nvm {
            nvm.queue = 0;
        }
        assert!(both.validate().is_err_and(|e| e.contains("queue")));
    }
}
