//! Configuration of a flash array: its geometry ([`Geometry`]), its speed ([`NandTiming`]) and its FTL
//! ([`FtlConfig`]).
//!
//! Source: ByteFS Table 4 gives the channels (8), the page (4 KiB), 40 us read and 60 us program; the rest of
//! the geometry and the gc thresholds are not stated in the paper (`bytefs_device_params.csv` has the
//! artifact's values). Every key beyond them has a default that changes nothing.

mod geometry;
mod striping;
mod timing;

use crate::error::FlashError;
use crate::faults::ErrorConfig;
pub use geometry::Geometry;
use granary_units::{Bytes, Nanos, PAGE_SIZE};
use serde::{Deserialize, Serialize};
pub use striping::Striping;
pub use timing::{NandTiming, PlaneMode};

/// Saturates: the values of a testbed file have not been validated yet.
fn product(parts: impl Iterator<Item = u32>) -> u64 {
    parts.fold(1, |all, n| all.saturating_mul(n as u64))
}

/// Which closed block gc empties next, by name. A drive may bring another one ([`Victims`](crate::Victims)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcPolicy {
    /// The one with the fewest live pages.
    #[default]
    Greedy,
    /// The one with the largest benefit for its cost ([`CostBenefit`](crate::CostBenefit)).
    CostBenefit,
}

/// A flash array and its FTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlConfig {
    /// Shape of the array.
    pub geometry: Geometry,
    /// Speed of the array.
    #[serde(rename = "nand")]
    pub timing: NandTiming,
    /// Over-provisioning: raw pages beyond the logical capacity, in thousandths of the logical capacity. 70
    /// (7 %) is what the difference between 2^30 and 10^9 bytes gives a consumer drive. A small drive has
    /// more: the blocks of each plane that gc works with ([`FtlConfig::reserved_blocks`]). At most 10,000.
    #[serde(default = "default_over_provisioning")]
    pub over_provisioning_permille: u32,
    /// Gc of a plane starts when it has this many free blocks or fewer; at least 2.
    #[serde(default = "default_gc_start")]
    pub gc_start: u32,
    /// Gc of a plane stops when it has this many free blocks again; above `gc_start`.
    #[serde(default = "default_gc_stop")]
    pub gc_stop: u32,
    /// Static wear leveling moves cold data when the erase counts in a plane differ by more than this; 0
    /// switches it off.
    #[serde(default = "default_wear_gap")]
    pub wear_gap: u32,
    /// Order in which consecutive writes visit the planes.
    #[serde(default)]
    pub striping: Striping,
    /// Log cleaning and recovery fill blocks of their own, apart from the host's; costs one more block in
    /// each plane.
    #[serde(default)]
    pub log_stream: bool,
    /// Data that overwrites fills blocks of its own ([`UpdatesApart`](crate::UpdatesApart)), in place of what
    /// `log_stream` puts there; costs as much.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update_stream: bool,
    /// How gc chooses its victims.
    #[serde(default)]
    pub gc_policy: GcPolicy,
    /// Background gc begins when no operation has been under way for this long, ns; 0 switches it off.
    #[serde(default, rename = "idle_gc_ns")]
    pub idle_gc: Nanos,
    /// Background gc of a plane stops when it has this many free blocks; 0 for `gc_stop`.
    #[serde(default)]
    pub idle_gc_stop: u32,
    /// Operations that the planes of a die can do at once.
    #[serde(default)]
    pub plane_mode: PlaneMode,
    /// Cache reads: the array reads the next page while the last one crosses the bus.
    #[serde(default = "yes")]
    pub cache_read: bool,
    /// Cache programs: the next page crosses the bus while the array programs.
    #[serde(default = "yes")]
    pub cache_program: bool,
    /// Time of each further attempt to read a page that the ECC could not correct, ns; a page read where left
    /// out.
    #[serde(default, rename = "read_retry_ns")]
    pub read_retry: Option<Nanos>,
    /// How often operations fail.
    #[serde(default)]
    pub errors: ErrorConfig,
    /// Unit of the map of logical to flash pages: a power of two from 4 KiB on. A write of less than a unit
    /// makes the drive read the rest and program all of it.
    #[serde(default = "page_unit", skip_serializing_if = "is_page")]
    pub mapping_unit: Bytes,
}

impl FtlConfig {
    /// Pages of a mapping unit.
    pub fn unit_pages(&self) -> u64 {
        self.mapping_unit.0 / PAGE_SIZE as u64
    }
}

fn page_unit() -> Bytes {
    Bytes(PAGE_SIZE as u64)
}

fn is_false(set: &bool) -> bool {
    !set
}

fn is_page(unit: &Bytes) -> bool {
    *unit == page_unit()
}

/// Largest mapping unit, pages: one bit each in a word.
const MOST_UNIT: u64 = 64;

/// Most over-provisioning: what is called so is a few per cent to a half of the data; beyond this a number is
/// meant that is not in thousandths.
const MOST_SPARE: u32 = 10_000;

// The NAND of the last fifteen years has page and cache registers; a model without them is the special case.
fn yes() -> bool {
    true
}

fn default_over_provisioning() -> u32 {
    70
}

// A few blocks: enough that gc can be spread over many writes, little of what over-provisioning pays for.
// (The artifact's 10 % and 25 % of all blocks cannot be reached on a full drive.)
fn default_gc_start() -> u32 {
    3
}

fn default_gc_stop() -> u32 {
    5
}

// A few per cent of the endurance of current cells (1,000 to 3,000 erases).
fn default_wear_gap() -> u32 {
    50
}

impl FtlConfig {
    /// Blocks of a plane that can hold no data for good: three open blocks (host, gc, cold data) and a free
    /// one kept for gc; a fourth open block where some of the new data has its own.
    pub(crate) fn working_blocks(&self) -> u32 {
        4 + self.has_second_stream() as u32
    }

    /// Whether some of the new data has blocks of its own.
    pub fn has_second_stream(&self) -> bool {
        self.log_stream || self.update_stream
    }

    /// This geometry and timing with the default over-provisioning and gc thresholds.
    pub fn new(geometry: Geometry, timing: NandTiming) -> FtlConfig {
        FtlConfig {
            geometry,
            timing,
            over_provisioning_permille: default_over_provisioning(),
            gc_start: default_gc_start(),
            gc_stop: default_gc_stop(),
            wear_gap: default_wear_gap(),
            striping: Striping::default(),
            log_stream: false,
            update_stream: false,
            gc_policy: GcPolicy::default(),
            idle_gc: Nanos::ZERO,
            idle_gc_stop: 0,
            plane_mode: PlaneMode::default(),
            cache_read: true,
            cache_program: true,
            read_retry: None,
            errors: ErrorConfig::default(),
            mapping_unit: page_unit(),
        }
    }

    /// The same drive with the fewest blocks per plane that give at least `capacity` of logical pages.
    pub fn with_capacity(mut self, capacity: Bytes) -> FtlConfig {
        let pages = capacity.0.div_ceil(PAGE_SIZE as u64) as u128;
        let raw = (pages * (1000 + self.over_provisioning_permille as u128)).div_ceil(1000);
        let g = &self.geometry;
        let row =
            product([g.channels, g.ways, g.dies, g.planes, g.pages_per_block].into_iter()).max(1) as u128;
        let blocks = raw.div_ceil(row).max(pages.div_ceil(row) + self.reserved_blocks() as u128);
        // A size beyond 32 bits is reported by `validate` as too many pages.
        self.geometry.blocks_per_plane = u32::try_from(blocks).unwrap_or(u32::MAX);
        self
    }

    /// The same drive with so many more packages on each channel that it has at least `capacity` of logical
    /// pages. Blocks and pages keep their numbers: the added planes have the highest ones, so of ways, dies
    /// and planes those grow that are counted slowest.
    ///
    /// # Errors
    /// [`FlashError::Config`] where the drive has more already, or cannot have that much.
    pub fn grown(mut self, capacity: Bytes) -> Result<FtlConfig, FlashError> {
        let (has, wanted) = (self.capacity_pages(), capacity.0.div_ceil(PAGE_SIZE as u64));
        if wanted < has {
            let has = Bytes(has * PAGE_SIZE as u64);
            return config(format!("the drive has {has} already: it cannot become smaller"));
        }
        while self.capacity_pages() < wanted {
            let g = &mut self.geometry;
            let slowest = match (g.planes, g.dies) {
                (1, 1) => &mut g.ways,
                (1, _) => &mut g.dies,
                _ => &mut g.planes,
            };
            *slowest += 1;
            self.geometry.validate()?;
        }
        Ok(self)
    }

    /// Logical pages that the host sees. For a valid configuration.
    pub fn capacity_pages(&self) -> u64 {
        let g = &self.geometry;
        let by_ratio = g.pages() * 1000 / (1000 + self.over_provisioning_permille as u64);
        let reserved = self.reserved_blocks() * (g.plane_count() as u64 * g.pages_per_block as u64);
        by_ratio.min(g.pages().saturating_sub(reserved))
    }

    /// Blocks of a plane that gc needs beyond those for the logical pages.
    pub fn reserved_blocks(&self) -> u64 {
        (self.gc_stop + self.working_blocks()) as u64
    }

    /// Whether this makes a working drive.
    ///
    /// # Errors
    /// [`FlashError::Config`], which says what to change.
    pub fn validate(&self) -> Result<(), FlashError> {
        self.geometry.validate()?;
        self.timing.validate()?;
        let unit = self.mapping_unit.0;
        if !unit.is_power_of_two() || unit < PAGE_SIZE as u64 || self.unit_pages() > MOST_UNIT {
            return config(format!(
                "mapping_unit must be a power of two from 4KiB to {MOST_UNIT} pages, for example \"16KiB\""
            ));
        }
        if self.gc_start < 2 {
            return config(
                "gc_start must be at least 2: one free block per plane belongs to gc itself".into(),
            );
        }
        if self.gc_stop <= self.gc_start {
            return config(format!("gc_stop ({}) must be above gc_start ({})", self.gc_stop, self.gc_start));
        }
        if self.idle_gc_stop != 0 && self.idle_gc_stop < self.gc_stop {
            return config(format!(
                "idle_gc_stop ({}) must be at least gc_stop ({}), or 0 for the same",
                self.idle_gc_stop, self.gc_stop
            ));
        }
        if self.plane_mode == PlaneMode::MultiPlane {
            if !(self.cache_program && self.cache_read) {
                return config(
                    "plane_mode \"multi-plane\" needs cache_program and cache_read: data is loaded while the die works"
                        .into(),
                );
            }
            if self.geometry.planes > 32 {
                return config("plane_mode \"multi-plane\" works with at most 32 planes in a die".into());
            }
        }
        if self.read_retry.is_some_and(|t| t.0 > Nanos::from_secs(1).0) {
            return config("read_retry_ns is longer than a second; times are in nanoseconds".into());
        }
        if self.over_provisioning_permille > MOST_SPARE {
            return config(format!(
                "over_provisioning_permille is {}: at most {MOST_SPARE}, ten times as much spare flash as data; it is in \
                 thousandths, 70 is 7 %",
                self.over_provisioning_permille
            ));
        }
        self.errors.validate()?;
        let e = &self.errors;
        let failing = [("read_ppb", e.read_ppb), ("program_ppb", e.program_ppb), ("erase_ppb", e.erase_ppb)];
        if let Some((key, _)) = failing.into_iter().find(|(_, ppb)| *ppb >= 1_000_000_000) {
            return config(format!(
                "errors.{key} is 1000000000: every operation would fail, and no drive works so; it counts failures in 10^9"
            ));
        }
        if self.geometry.blocks_per_plane as u64 <= self.reserved_blocks() || self.capacity_pages() == 0 {
            return config(format!(
                "blocks_per_plane is {}, but gc alone works with {} (gc_stop {} + {}): raise it, or lower gc_stop",
                self.geometry.blocks_per_plane,
                self.reserved_blocks(),
                self.gc_stop,
                self.working_blocks()
            ));
        }
        Ok(())
    }
}

fn config<T>(why: String) -> Result<T, FlashError> {
    Err(FlashError::Config(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ByteFS Table 4 with the artifact's block shape; two ways and the bus are this test's choice.
    const TABLE_4: &str = r#"
        geometry = { channels = 8, ways = 2, blocks_per_plane = 4, pages_per_block = 128 }
        nand = { read_ns = 40000, program_ns = 60000, erase_ns = 2000000, channel_bandwidth = "800MiB" }
    "#;

    #[test]
    fn a_testbed_file_gives_a_drive_of_the_wanted_capacity() {
        let c: FtlConfig = toml::from_str(TABLE_4).expect("parses");
        for size in [Bytes(1), Bytes::mib(100), Bytes::gib(1), Bytes::gib(32), Bytes::gib(1024)] {
            let c = c.with_capacity(size);
            c.validate().expect("valid");
            let pages = size.0.div_ceil(4096);
            let row = c.geometry.plane_count() as u64 * 128;
            assert!((pages..pages + row).contains(&c.capacity_pages()), "{size}: {}", c.capacity_pages());
        }
        assert_eq!(c.timing.transfer(4096), Nanos(4883));
    }

    #[test]
    fn the_further_keys_are_read_and_written() {
        let text = format!(
            "{TABLE_4}\nstriping = \"PDWC\"\nlog_stream = true\ngc_policy = \"cost-benefit\"\nidle_gc_ns = 1000000\n\
             idle_gc_stop = 9\nplane_mode = \"multi-plane\"\nread_retry_ns = 60000\n\
             errors = {{ read_ppb = 5, endurance = 3000 }}\n"
        );
        let c: FtlConfig = toml::from_str(&text).expect("parses");
        assert_eq!((c.striping.to_string().as_str(), c.gc_policy), ("PDWC", GcPolicy::CostBenefit));
        assert_eq!((c.idle_gc, c.errors.endurance, c.cache_read), (Nanos(1_000_000), 3000, true));
        let again = toml::from_str::<FtlConfig>(&toml::to_string(&c).expect("serialises"));
        assert_eq!(again.expect("parses"), c);
        assert!(toml::from_str::<FtlConfig>(&text.replace("PDWC", "PDWW")).is_err());
    }

    #[test]
    fn unknown_fields_are_refused() {
        let typo = TABLE_4.replace("ways", "wyas");
        assert!(toml::from_str::<FtlConfig>(&typo).is_err());
    }

    #[test]
    fn impossible_drives_are_refused_with_the_reason() {
        let good: FtlConfig = toml::from_str(TABLE_4).expect("parses");
        let good = good.with_capacity(Bytes::gib(1));
        good.validate().expect("valid");
        let refusal = |change: fn(&mut FtlConfig)| {
            let mut c = good;
            change(&mut c);
            c.validate().expect_err("refused").to_string()
        };
        for (change, word) in [
            ((|c| c.geometry.channels = 0) as fn(&mut FtlConfig), "channels"),
            (|c| c.geometry.pages_per_block = 40_000, "pages_per_block"),
            (|c| c.geometry.blocks_per_plane = u32::MAX, "32-bit"),
            (|c| c.timing.channel_bandwidth = Bytes(0), "channel_bandwidth"),
            (|c| c.timing.erase = Nanos::from_secs(2), "erase"),
            (|c| c.gc_start = 1, "gc_start"),
            (|c| c.gc_stop = c.gc_start, "gc_stop"),
            (|c| c.geometry.blocks_per_plane = 9, "gc alone works with 9"),
            (|c| c.idle_gc_stop = 4, "idle_gc_stop"),
            (|c| (c.plane_mode, c.cache_read) = (PlaneMode::MultiPlane, false), "cache_read"),
            (|c| c.read_retry = Some(Nanos::from_secs(2)), "read_retry_ns"),
            (|c| c.errors.program_ppb = 2_000_000_000, "program_ppb"),
            (
                |c| c.errors.read_ppb = 1_000_000_000,
                "errors.read_ppb is 1000000000: every operation would fail",
            ),
            (|c| c.errors.erase_ppb = 1_000_000_000, "erase_ppb"),
            (|c| c.over_provisioning_permille = 100_000, "in thousandths, 70 is 7 %"),
        ] {
            let text = refusal(change);
            assert!(text.contains(word), "{text}");
        }
    }
}
