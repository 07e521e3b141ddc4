//! [`DriveEntry`]: a firmware's entry for other crates. A registry has a line for each, as it has for file
//! systems.

use crate::bam::BAM;
use crate::cases::{DriveCase, FAILING, PROGRAM, TORN, VOLATILE};
use crate::companion::{Companion, CompanionEntry};
use crate::config::{ConfigError, DriveConfig, Mode};
use crate::firmware::cache::Cache;
use crate::firmware::log::Log;
use crate::firmware::{Backend, Firmware};
use crate::mssd::Mssd;
use crate::saved::layout::Layout;
use granary_flash::{FlashError, FtlConfig, Policies};
use granary_redo::ImageError;
use granary_redo::region::Region;
use granary_units::Bytes;

/// A firmware, as registries list it.
#[derive(Clone, Copy)]
pub struct DriveEntry {
    /// Its name: `mode` in a testbed's `[drive.firmware]`.
    pub name: &'static str,
    /// A line about it, with its source.
    pub about: &'static str,
    /// Keys of `[drive.firmware]` that are its own.
    pub options: &'static [&'static str],
    /// The firmware as an image kept it; `None`: no image keeps the drive.
    pub load: Option<LoadFirmware>,
    /// The firmware of a valid configuration, with nothing in it.
    ///
    /// # Errors
    /// [`ConfigError`]: the configuration is none for it.
    pub firmware: fn(&DriveConfig) -> Result<Box<dyn Firmware>, ConfigError>,
    /// Companions that may stand beside it; a configuration asks for one at most.
    pub beside: &'static [CompanionEntry],
    /// Kinds of it that power failures are tried on, beside the usual one.
    pub crash: &'static [DriveCase],
    /// Its own policies of gc, placement and wear; `None`: those that the configuration names.
    pub policies: Option<fn(&FtlConfig) -> Policies>,
}

/// See [`DriveEntry::load`].
pub type LoadFirmware = fn(&DriveConfig, &Layout, &Region) -> Result<Box<dyn Firmware>, ImageError>;

impl DriveEntry {
    /// A new drive with this firmware: erased, powered, idle.
    ///
    /// # Errors
    /// [`ConfigError`]: the configuration makes no working drive.
    pub fn make(&self, config: &DriveConfig) -> Result<Mssd, ConfigError> {
        self.make_over(config, Backend::new)
    }

    /// The same with flash that keeps no content: every page that the drive's memory does not hold reads as
    /// zeros. For raw benches of large drives only; records of such runs must say so.
    ///
    /// # Errors
    /// As [`DriveEntry::make`].
    pub fn make_without_data(&self, config: &DriveConfig) -> Result<Mssd, ConfigError> {
        self.make_over(config, Backend::without_data)
    }

    fn make_over(
        &self,
        config: &DriveConfig,
        flash: fn(&FtlConfig, Bytes) -> Result<Backend, FlashError>,
    ) -> Result<Mssd, ConfigError> {
        let config = config.clone().with_mode(Mode::named(self.name));
        config.validate()?;
        let backend = flash(&config.flash, config.firmware.write_buffer)?;
        let policies = self.policies.map(|policies| policies(&config.flash));
        let beside = self.companion(&config)?;
        Ok(Mssd::with_firmware(&config, (self.firmware)(&config)?, policies, beside, backend))
    }

    /// The companion that a configuration asks for.
    fn companion(&self, config: &DriveConfig) -> Result<Option<Box<dyn Companion>>, ConfigError> {
        let refused = |why| Err(ConfigError::Value { field: "firmware.bam", why });
        let knows_bam = self.beside.iter().any(|entry| entry.name == BAM.name);
        if config.firmware.bam.is_some() && !knows_bam {
            return refused(format!("cannot stand beside the firmware '{}': leave it out", self.name));
        }
        let mut asked = self.beside.iter().filter_map(|entry| Some((entry.name, (entry.make)(config)?)));
        match (asked.next(), asked.next()) {
            (Some((one, _)), Some((other, _))) => {
                refused(format!("is one too many: a drive has one companion, not {one} and {other}"))
            }
            (first, _) => Ok(first.map(|(_, companion)| companion)),
        }
    }

    /// The entry that a configuration names.
    ///
    /// # Errors
    /// [`ConfigError`]: it is none of these.
    pub fn of<'e>(all: &'e [DriveEntry], config: &DriveConfig) -> Result<&'e DriveEntry, ConfigError> {
        let name = config.firmware.mode.name();
        all.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|entry| entry.name).collect();
            let why = format!("is '{name}', which no drive has: mode is one of {}", known.join(", "));
            ConfigError::Value { field: "firmware.mode", why }
        })
    }
}

/// Companions that stand beside any firmware.
pub const BESIDE: &[CompanionEntry] = &[BAM];

/// ByteFS's write log.
pub const LOG: DriveEntry = DriveEntry {
    name: "log",
    about: "write log of 64 B lines with transactions (ByteFS, ASPLOS'25, section 4.3)",
    options: &["log_region", "txlog", "clean_threshold_permille"],
    load: Some(|config, layout, dram| Ok(Box::new(Log::load(&config.at_clock(), layout, dram)?))),
    firmware: |config| Ok(Box::new(Log::new(&config.at_clock()))),
    beside: BESIDE,
    // The write log is battery-backed.
    crash: &[PROGRAM, FAILING],
    policies: None,
};

/// The baselines' page cache.
pub const CACHE: DriveEntry = DriveEntry {
    name: "cache",
    about: "write-back cache of 4 KiB pages (the baselines of ByteFS, section 5.1)",
    options: &["cache", "cache_write_ack", "volatile_cache", "tears_pages", "flush_cost"],
    load: Some(|config, layout, dram| Ok(Box::new(Cache::load(config, layout, dram)?))),
    firmware: |config| Ok(Box::new(Cache::new(config))),
    beside: BESIDE,
    crash: &[VOLATILE, TORN, PROGRAM, FAILING],
    policies: None,
};

/// The firmwares of this crate.
pub const BUILT_IN: &[DriveEntry] = &[LOG, CACHE];
