//! Configuration of a drive with BAM.

use super::is_none;
use granary_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Byte-addressable metadata in persistent memory: FS_WRITE, REMAP, BAM_RESET, BAM_READ, BAM_NAMES (PebbleSSD
/// section 4.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BamConfig {
    /// Persistent memory of the drive; all tables and `other` must fit.
    #[serde(default = "bam_memory")]
    pub memory: Bytes,
    /// Firmware structures beside the tables.
    #[serde(default = "bam_other")]
    pub other: Bytes,
    /// Entries of the file-offset table: pages that FS_WRITE can bring between two resets.
    #[serde(default = "bam_entries")]
    pub entries: u32,
    /// Files that can have entries at the same time.
    #[serde(default = "bam_files")]
    pub files: u32,
    /// Second names that pages can have at the same time (REMAP keep). 0, and where left out: the firmware
    /// has no REMAP keep, and its entries do not say how much of a page is the file's, as before there was
    /// either.
    #[serde(default, skip_serializing_if = "is_none")]
    pub names: u32,
    /// Processor time of each entry that is appended or read, on top of the command's.
    #[serde(default = "bam_entry_cost")]
    pub entry_cost: Nanos,
    /// Processor time of each page that is remapped, on top of the command's.
    #[serde(default = "bam_remap_cost")]
    pub remap_cost: Nanos,
}

impl Default for BamConfig {
    /// The paper's sizes.
    fn default() -> BamConfig {
        BamConfig {
            memory: bam_memory(),
            other: bam_other(),
            entries: bam_entries(),
            files: bam_files(),
            names: bam_names(),
            entry_cost: bam_entry_cost(),
            remap_cost: bam_remap_cost(),
        }
    }
}

impl BamConfig {
    /// Slots of the inode table: at most half of them are in use.
    pub fn file_slots(&self) -> u64 {
        (self.files as u64 * 2).next_power_of_two()
    }
}

/// 2 GB (PebbleSSD section 4.1).
pub(super) fn bam_memory() -> Bytes {
    Bytes::gib(2)
}

/// 205 MB: what is left of the conventional firmware's 35 % of 2 GB beside the L2P table (PebbleSSD
/// section 6.5).
pub(super) fn bam_other() -> Bytes {
    Bytes::mib(205)
}

/// 2^24, 64 GiB of pages: half a minute at the 2.2 GB/s of four lanes of PCIe 3.0, the shortest interval
/// between F2FS's background checkpoints. The paper has one for each page of the drive (section 6.5), without
/// a way to move them.
pub(super) fn bam_entries() -> u32 {
    1 << 24
}

/// 2^20, 4 GiB of pages: 2048 segments of F2FS that are cleaned between two checkpoints, all blocks valid.
/// With 12 B each they fit into what 512 GB of flash leave of the 2 GB beside the other tables, 19 MB
/// (PebbleSSD section 6.5).
pub(super) fn bam_names() -> u32 {
    1 << 20
}

/// One for each page, where that is not more than by default.
pub(super) fn entries_for(pages: u64) -> u32 {
    u32::try_from(pages).map_or(bam_entries(), |pages| pages.min(bam_entries()))
}

/// 1 million files open for writing (PebbleSSD section 6.5).
pub(super) fn bam_files() -> u32 {
    1 << 20
}

/// 200 ns: 100 cycles at 500 MHz (PebbleSSD section 4.1) for one 16 B entry and the link to it, which the
/// processor has to fetch from the DRAM into its data memory and put back; "minimal" in section 6.2.
pub(super) fn bam_entry_cost() -> Nanos {
    Nanos(200)
}

/// 400 ns: 200 cycles at 500 MHz for two L2P and two P2L entries, likewise.
pub(super) fn bam_remap_cost() -> Nanos {
    Nanos(400)
}
