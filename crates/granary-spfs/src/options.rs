//! Options of mkfs and mount of SPFS: the section `[fs.spfs]`.

use crate::exthash::Form;
use granary_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Choices of `mkfs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MkfsOptions {
    /// How extents are entered into the extent table.
    pub form: Form,
    /// Clusters in a segment of a hash table, a power of two, 1 to 2048. The released code's is 2048 (8 MB),
    /// CCEH's own 4. 16: three empty tables take 192 KiB, and a chunk of a file is 4 MiB.
    pub segment: u32,
}

impl Default for MkfsOptions {
    fn default() -> MkfsOptions {
        MkfsOptions { form: Form::Carved, segment: 16 }
    }
}

/// Effect of a power failure on data that is being overwritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// Each piece that is overwritten is there wholly or not at all (the released code's default).
    #[default]
    Data,
    /// Overwriting in place: bytes may be torn.
    Meta,
}

/// Pieces that the first write to a place brings into persistent memory, where only the lower file system has
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromotionCopy {
    /// The touched pieces of [`MountOptions::piece`].
    #[default]
    Piece,
    /// All of the lower file system's data around it, up to a chunk (released code: the whole extent).
    Extent,
}

/// How the mean of the bytes between two fsyncs is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Average {
    /// Over all fsyncs (released code).
    #[default]
    Cumulative,
    /// Over the newest: one eighth for each new interval.
    Ewma,
}

/// Which new files are in persistent memory alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Those that an open with O_DIRECT and O_SYNC makes, and those whose names end as
    /// [`MountOptions::extensions`] say.
    #[default]
    Tiering,
    /// All (released code: `mode=pm`).
    Pm,
    /// None (released code: `mode=disk`).
    Disk,
}

/// Choices of `mount`. Constants without another source are the released code's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MountOptions {
    /// Which new files are in persistent memory alone.
    pub mode: Mode,
    /// Ends of names, behind the last dot, of such files: at most 16 of at most 8 bytes.
    pub extensions: Vec<String>,
    /// Files are promoted at all. Without it every call is the lower file system's.
    pub profiler: bool,
    /// Fsyncs in a row that promote a file: `migr_continual_cnt`.
    pub promote_after: u32,
    /// They come within less than this of each other: `migr_fsync_interval`.
    pub fsync_interval: Nanos,
    /// And have a mean of fewer bytes between them: `migr_wrt_bytes_btw_fsync`.
    pub bytes_between_fsyncs: Bytes,
    /// How that mean is taken.
    pub average: Average,
    /// Effect of a power failure on overwritten data.
    pub consistency: Consistency,
    /// Overwritten share of an extent, in percent, from which it is replaced instead: `undo_opt_util`.
    pub replace_percent: u32,
    /// Pieces that a first write copies from below.
    pub promotion_copy: PromotionCopy,
    /// Clusters of an aligned piece. \[choice\] 64 (256 KiB): from so many on the released code prefers to
    /// split an extent.
    pub piece: u32,
    /// Files leave persistent memory by their sync factor.
    pub demotion: bool,
    /// An unmount demotes every file: the lower file system has all then, for whoever uses it alone.
    pub demote_at_unmount: bool,
    /// Weight of one operation in the sync factor, percent: `sf_alp_perc`.
    pub factor_percent: u32,
    /// Pause of the demotion daemon.
    pub tick: Nanos,
    /// Use of persistent memory, percent, from which the files with the lowest factors are demoted.
    pub demote_above: u32,
    /// Use, percent, from which each allocation waits 0.75 ms (released code: 0.5 to 1 ms).
    pub slow_above: u32,
    /// Use, percent, from which it waits 5 ms.
    pub crawl_above: u32,
    /// Age at which memory of removed files is given back by a sync of the lower file system. \[choice\] 5 s,
    /// jbd2's commit interval.
    pub purge_after: Nanos,
    /// Bits of a hash that the directory of a table may have, at most 16. A full segment that would need more
    /// gets overflow pages. \[choice\] 16, a directory of 256 KiB.
    pub directory_bits: u32,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            mode: Mode::Tiering,
            extensions: Vec::new(),
            profiler: true,
            promote_after: 30,
            fsync_interval: Nanos::from_millis(1000),
            bytes_between_fsyncs: Bytes::mib(4),
            average: Average::Cumulative,
            consistency: Consistency::Data,
            replace_percent: 70,
            promotion_copy: PromotionCopy::Piece,
            piece: 64,
            demotion: true,
            demote_at_unmount: false,
            factor_percent: 5,
            tick: Nanos::from_millis(1000),
            demote_above: 80,
            slow_above: 90,
            crawl_above: 95,
            purge_after: Nanos::from_secs(5),
            directory_bits: crate::table::MAX_DEPTH,
        }
    }
}

impl MountOptions {
    /// The first option that is out of its range, and what would be right.
    pub fn refusal(&self) -> Option<(&'static str, String)> {
        let percents = [
            ("replace_percent", self.replace_percent),
            ("factor_percent", self.factor_percent),
            ("demote_above", self.demote_above),
            ("slow_above", self.slow_above),
            ("crawl_above", self.crawl_above),
        ];
        if let Some((key, n)) = percents.iter().find(|(_, n)| *n == 0 || *n > 100) {
            return Some((key, format!("is {n}: must be 1 to 100 percent")));
        }
        if self.extensions.len() > 16 || self.extensions.iter().any(|e| e.is_empty() || e.len() > 8) {
            return Some(("extensions", "at most 16, of 1 to 8 bytes".to_owned()));
        }
        if self.promote_after == 0 {
            return Some(("promote_after", "must be at least 1: an fsync promotes".to_owned()));
        }
        if !self.piece.is_power_of_two() || self.piece > 65_536 {
            return Some((
                "piece",
                format!("is {}: must be a power of two up to 65536 clusters", self.piece),
            ));
        }
        if self.directory_bits > crate::table::MAX_DEPTH {
            let (is, most) = (self.directory_bits, crate::table::MAX_DEPTH);
            return Some(("directory_bits", format!("is {is}: must be {most} at most")));
        }
        granary_fs::entry::too_short(&[("tick", self.tick)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_deeper_than_any_table_is_refused_by_its_key() {
        let with = |directory_bits| MountOptions { directory_bits, ..MountOptions::default() };
        assert_eq!((with(0).refusal(), with(16).refusal()), (None, None));
        let (key, why) = with(17).refusal().expect("refused");
        assert!(key == "directory_bits" && why.contains("17") && why.contains("16 at most"), "{why}");
    }
}
