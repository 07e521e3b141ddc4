//! What a flash array is made of and how fast it is: [`Geometry`], [`NandTiming`], [`FtlConfig`].
//!
//! ```text
//!   plane number p  = ((plane * dies + die) * ways + way) * channels + channel      channel runs fastest:
//!   block number b  = p * blocks_per_plane + block                                  p, p+1, p+2... stripe over
//!   Ppa             = b * pages_per_block + page                                    channels, then ways, dies, planes
//! ```
//!
//! Source: ByteFS Table 4 gives the channels (8), the page (4 KiB), 40 us read and 60 us program; the rest of the geometry
//! and the gc thresholds are not stated in the paper (`bytefs_device_params.csv` has the artifact's values).

use crate::error::FlashError;
use granary_units::{Bytes, Nanos, PAGE_SIZE, Ppa};
use serde::{Deserialize, Serialize};

/// Shape of the flash array. Pages are 4 KiB. At most 2^32 - 2 pages (16 TiB).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Channels: buses between controller and dies.
    pub channels: u32,
    /// Ways: packages that share a channel.
    pub ways: u32,
    /// Dies in a package.
    #[serde(default = "one")]
    pub dies: u32,
    /// Planes in a die. Planes work independently of each other, which multi-plane commands approach from below.
    #[serde(default = "one")]
    pub planes: u32,
    /// Erase blocks in a plane.
    pub blocks_per_plane: u32,
    /// Pages in an erase block, 1 to 32767.
    pub pages_per_block: u32,
}

fn one() -> u32 {
    1
}

impl Geometry {
    /// Planes of the whole array: the number of operations that can go on at once.
    pub const fn plane_count(&self) -> u32 {
        self.channels * self.ways * self.dies * self.planes
    }

    /// Erase blocks of the whole array.
    pub const fn blocks(&self) -> u32 {
        self.plane_count() * self.blocks_per_plane
    }

    /// Flash pages of the whole array (raw capacity).
    pub const fn pages(&self) -> u64 {
        self.blocks() as u64 * self.pages_per_block as u64
    }

    /// Raw capacity.
    pub const fn raw(&self) -> Bytes {
        Bytes(self.pages() * PAGE_SIZE as u64)
    }

    /// Plane number of a block.
    #[inline]
    pub const fn plane_of(&self, block: u32) -> u32 {
        block / self.blocks_per_plane
    }

    /// Channel of a plane.
    pub const fn channel_of(&self, plane: u32) -> u32 {
        plane % self.channels
    }

    /// Block number, and page within the block.
    #[inline]
    pub const fn split(&self, ppa: Ppa) -> (u32, u32) {
        let block = ppa.0 / self.pages_per_block;
        (block, ppa.0 - block * self.pages_per_block)
    }

    fn validate(&self) -> Result<(), FlashError> {
        let parts = [
            ("channels", self.channels),
            ("ways", self.ways),
            ("dies", self.dies),
            ("planes", self.planes),
            ("blocks_per_plane", self.blocks_per_plane),
            ("pages_per_block", self.pages_per_block),
        ];
        if let Some((name, _)) = parts.iter().find(|(_, n)| *n == 0) {
            return config(format!("{name} must be at least 1"));
        }
        if self.pages_per_block > MAX_PAGES_PER_BLOCK {
            return config(format!("pages_per_block must be at most {MAX_PAGES_PER_BLOCK}"));
        }
        let pages = product(parts.iter().map(|&(_, n)| n));
        if pages >= u32::MAX as u64 {
            return config(format!(
                "{pages} pages do not fit 32-bit page numbers: at most {} pages (16 TiB)",
                u32::MAX - 1
            ));
        }
        Ok(())
    }
}

/// Saturates: what a testbed file says has not been validated yet.
fn product(parts: impl Iterator<Item = u32>) -> u64 {
    parts.fold(1, |all, n| all.saturating_mul(n as u64))
}

/// Valid counts keep one bit of a `u16` for themselves.
const MAX_PAGES_PER_BLOCK: u32 = 0x7fff;

/// How long the NAND operations take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandTiming {
    /// Page read, cells to page register, ns.
    #[serde(rename = "read_ns")]
    pub read: Nanos,
    /// Page program, page register to cells, ns.
    #[serde(rename = "program_ns")]
    pub program: Nanos,
    /// Block erase, ns.
    #[serde(rename = "erase_ns")]
    pub erase: Nanos,
    /// Bandwidth of one channel bus, bytes per second.
    pub channel_bandwidth: Bytes,
}

impl NandTiming {
    /// Time that `bytes` occupy a channel bus, rounded up to 1 ns.
    pub fn transfer(&self, bytes: u64) -> Nanos {
        let ns = (bytes as u128 * 1_000_000_000).div_ceil(self.channel_bandwidth.0.max(1) as u128);
        Nanos(ns as u64)
    }

    fn validate(&self) -> Result<(), FlashError> {
        if self.channel_bandwidth.0 < PAGE_SIZE as u64 {
            return config(format!(
                "channel_bandwidth of {} bytes per second: at least one page per second is needed",
                self.channel_bandwidth.0
            ));
        }
        if let Some((name, _)) = [("read", self.read), ("program", self.program), ("erase", self.erase)]
            .iter()
            .find(|(_, t)| t.0 > Nanos::from_secs(1).0)
        {
            return config(format!("{name} takes longer than a second; times are in nanoseconds"));
        }
        Ok(())
    }
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
    /// Over-provisioning: raw pages beyond the logical capacity, in thousandths of the logical capacity. 70 (7 %) is what the
    /// difference between 2^30 and 10^9 bytes gives a consumer drive. A small drive has more: at least `gc_stop` + 4 blocks
    /// in each plane, which gc works with.
    #[serde(default = "default_over_provisioning")]
    pub over_provisioning_permille: u32,
    /// Gc of a plane starts when it has this many free blocks or fewer; at least 2.
    #[serde(default = "default_gc_start")]
    pub gc_start: u32,
    /// Gc of a plane stops when it has this many free blocks again; above `gc_start`.
    #[serde(default = "default_gc_stop")]
    pub gc_stop: u32,
    /// Static wear leveling moves cold data when the erase counts in a plane differ by more than this; 0 switches it off.
    #[serde(default = "default_wear_gap")]
    pub wear_gap: u32,
}

fn default_over_provisioning() -> u32 {
    70
}

// A few blocks: enough that gc can be spread over many writes, little of what over-provisioning pays for. (The artifact's
// 10 % and 25 % of all blocks cannot be reached on a full drive.)
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
    /// Blocks of a plane that can hold no data for good: three open blocks (host, gc, cold data) and a free one kept for gc.
    pub(crate) const WORKING_BLOCKS: u32 = 4;

    /// This geometry and timing with the default over-provisioning and gc thresholds.
    pub fn new(geometry: Geometry, timing: NandTiming) -> FtlConfig {
        FtlConfig {
            geometry,
            timing,
            over_provisioning_permille: default_over_provisioning(),
            gc_start: default_gc_start(),
            gc_stop: default_gc_stop(),
            wear_gap: default_wear_gap(),
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

    /// Logical pages that the host sees. For a valid configuration.
    pub fn capacity_pages(&self) -> u64 {
        let g = &self.geometry;
        let by_ratio = g.pages() * 1000 / (1000 + self.over_provisioning_permille as u64);
        let reserved = self.reserved_blocks() * (g.plane_count() as u64 * g.pages_per_block as u64);
        by_ratio.min(g.pages().saturating_sub(reserved))
    }

    /// Blocks of a plane that gc needs beyond those for the logical pages.
    fn reserved_blocks(&self) -> u64 {
        self.gc_stop as u64 + FtlConfig::WORKING_BLOCKS as u64
    }

    /// Whether this makes a working drive.
    ///
    /// # Errors
    /// [`FlashError::Config`], which says what to change.
    pub fn validate(&self) -> Result<(), FlashError> {
        self.geometry.validate()?;
        self.timing.validate()?;
        if self.gc_start < 2 {
            return config(
                "gc_start must be at least 2: one free block per plane belongs to gc itself".into(),
            );
        }
        if self.gc_stop <= self.gc_start {
            return config(format!("gc_stop ({}) must be above gc_start ({})", self.gc_stop, self.gc_start));
        }
        if self.geometry.blocks_per_plane as u64 <= self.reserved_blocks() || self.capacity_pages() == 0 {
            return config(format!(
                "blocks_per_plane is {}, but gc alone works with {} (gc_stop {} + {}): raise it, or lower gc_stop",
                self.geometry.blocks_per_plane,
                self.reserved_blocks(),
                self.gc_stop,
                FtlConfig::WORKING_BLOCKS
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
        ] {
            let text = refusal(change);
            assert!(text.contains(word), "{text}");
        }
    }
}
