//! Validation of a drive's configuration.

use super::{DriveConfig, WriteAck};
use crate::bam::space::BamSpace;
use crate::config::bam::BamConfig;
use crate::config::mode::Mode;
use granary_units::{Bytes, Nanos, PAGE_SIZE};

/// Largest part of a drive's DRAM: twice what a drive of 128 TB needs for its map. All parts together have
/// places of 39 bits in an image (SPEC 1.5).
pub(super) const MOST_DRAM: Bytes = Bytes::gib(256);

/// Why a configuration makes no drive.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value outside its range.
    #[error("drive configuration: {field} {why}")]
    Value {
        /// Path of the field, as in the testbed file.
        field: &'static str,
        /// The fault, and the values that would be right.
        why: String,
    },
    /// The flash part.
    #[error("drive configuration: {0}")]
    Flash(#[from] granary_flash::FlashError),
}

pub(super) fn refuse(field: &'static str, why: impl Into<String>) -> Result<(), ConfigError> {
    Err(ConfigError::Value { field, why: why.into() })
}

impl ConfigError {
    /// A reason of the firmware's own, as the rest of a sentence that begins with "firmware": "needs 2 dies,
    /// this drive has 1".
    pub fn of_firmware(why: impl Into<String>) -> ConfigError {
        ConfigError::Value { field: "firmware", why: why.into() }
    }
}

impl From<ConfigError> for granary_redo::ImageError {
    fn from(e: ConfigError) -> granary_redo::ImageError {
        granary_redo::ImageError::Config(e.to_string())
    }
}

impl DriveConfig {
    /// Checks every range.
    ///
    /// # Errors
    /// The first field that is out of range, with what to change.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.flash.validate()?;
        let l = &self.link;
        for (field, bandwidth) in
            [("link.read_bandwidth", l.read_bandwidth), ("link.write_bandwidth", l.write_bandwidth)]
        {
            if bandwidth.0 < 1_000_000 {
                refuse(field, "is in bytes per second and must be at least 1 MB/s")?;
            }
        }
        if l.tlp_overhead.0 > 4096 {
            refuse("link.tlp_overhead", "is more than a page: give bytes per packet, for example 24")?;
        }
        if l.wc_buffers == 0 {
            refuse("link.wc_buffers", "must be at least 1")?;
        }
        if l.posted_lines == 0 {
            refuse("link.posted_lines", "must be at least 1")?;
        }
        if l.nvme.max_transfer == 0 {
            refuse("link.nvme.max_transfer", "must be at least 1 page")?;
        }
        let f = &self.firmware;
        if f.cores == 0 {
            refuse("firmware.cores", "must be at least 1")?;
        }
        self.validate_plain()?;
        if let Some(bam) = &f.bam {
            self.validate_bam(bam)?;
        }
        if f.clock_mhz == 0 || f.rated_mhz == 0 {
            refuse("firmware.clock_mhz", "and rated_mhz must be at least 1")?;
        }
        let buffered = f.write_buffer.0 / PAGE_SIZE as u64;
        if buffered < 2 || f.write_buffer > MOST_DRAM {
            let why = format!("must hold at least 2 pages (8KiB), and at most {MOST_DRAM}");
            refuse("firmware.write_buffer", why)?;
        }
        // For both modes: a testbed's drive is used in either.
        if f.cache.0 < 4 * PAGE_SIZE as u64 || f.cache > MOST_DRAM {
            refuse("firmware.cache", format!("must hold at least 4 pages (16KiB), and at most {MOST_DRAM}"))?;
        }
        self.validate_log()
    }

    /// Checks the settings that only plain SSDs have.
    pub(super) fn validate_plain(&self) -> Result<(), ConfigError> {
        let f = &self.firmware;
        let large = self.flash.unit_pages() > 1;
        if (large || f.volatile_cache) && f.mode == Mode::Log {
            refuse(
                "firmware.mode",
                "is the write log's, which keeps what it takes, and merges pages of 4 KiB: no volatile_cache, no mapping_unit",
            )?;
        }
        if (large || f.volatile_cache) && self.acknowledges() == WriteAck::Program {
            refuse(
                "firmware.write_ack",
                "must be \"buffer\" with a volatile_cache or a larger mapping_unit",
            )?;
        }
        if f.volatile_cache && f.bam.is_some() {
            refuse(
                "firmware.volatile_cache",
                "forgets pages whose entries in BAM stay, and FS_WRITE is durable when it completes: leave one of the two away",
            )?;
        }
        if large && f.cache.0 < 4 * self.flash.mapping_unit.0 {
            refuse("firmware.cache", "must hold at least four mapping units")?;
        }
        if f.flush_cost > Nanos::ZERO && !f.volatile_cache {
            refuse("firmware.flush_cost", "is of a volatile_cache: without one FLUSH has nothing to do")?;
        }
        if f.tears_pages && !f.volatile_cache {
            refuse("firmware.tears_pages", "is of a volatile_cache: what capacitors keep is whole")?;
        }
        if f.flush_cost > Nanos::from_secs(1) {
            refuse("firmware.flush_cost", "is longer than a second; it is in nanoseconds")?;
        }
        Ok(())
    }

    pub(super) fn validate_bam(&self, bam: &BamConfig) -> Result<(), ConfigError> {
        if bam.entries == 0 || bam.entries == u32::MAX || bam.files == 0 || bam.files > 1 << 30 {
            refuse("firmware.bam", "must have at least one entry and one file, at most 2^32 - 2 and 2^30")?;
        }
        if bam.names > 1 << 30 {
            refuse("firmware.bam.names", "must be at most 2^30")?;
        }
        let space = BamSpace::of(bam, self.pages(), self.flash.geometry.pages());
        if space.utilization() > 1.0 {
            let (used, memory) = (space.used(), bam.memory);
            refuse(
                "firmware.bam",
                format!("takes {used} of {memory}: fewer entries or files, or more memory"),
            )?;
        }
        Ok(())
    }

    pub(super) fn validate_log(&self) -> Result<(), ConfigError> {
        let f = &self.firmware;
        if f.log_region.0 < 16 << 10 || f.log_region.0 > 16 << 30 || !f.log_region.0.is_multiple_of(128) {
            refuse(
                "firmware.log_region",
                "must be 16KiB to 16GiB and divide into two halves of whole lines",
            )?;
        }
        if !(100..=1000).contains(&f.clean_threshold_permille) {
            refuse("firmware.clean_threshold_permille", "is in thousandths: 100 to 1000, for example 850")?;
        }
        if f.txlog.0 < 64 || f.txlog.0 > 16 << 30 {
            refuse("firmware.txlog", "must hold at least 16 commits (64 B), and at most 16GiB")?;
        }
        if f.mode == Mode::Log && self.pages() > u32::MAX as u64 {
            refuse("flash", "has more pages than the 4 B of a log entry can name (16 TiB)")?;
        }
        Ok(())
    }
}
