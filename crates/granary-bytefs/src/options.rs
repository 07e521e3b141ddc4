//! Options of mkfs and mount. Testbed files contain these tables.

use granary_fs::Time;
use granary_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Choices of `mkfs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MkfsOptions {
    /// One inode for this many bytes, as in mke2fs.
    pub inode_ratio: u64,
    /// Blocks of 4 KiB to use; `None` = the whole drive.
    pub blocks: Option<u64>,
    /// The journal area, for data journaling and for drives without a write log; `None` = 1/128 of the
    /// blocks, 64 KiB at least and 32 MiB at most.
    pub journal: Option<Bytes>,
    /// Trims the whole drive first.
    pub discard: bool,
    /// The UUID is drawn from this seed.
    pub uuid_seed: u64,
    /// Time stamp of the root directory, nanoseconds since 1970.
    pub time: i64,
    /// Permission bits of the root directory.
    pub root_mode: u16,
}

impl Default for MkfsOptions {
    fn default() -> MkfsOptions {
        MkfsOptions {
            inode_ratio: 16384,
            blocks: None,
            journal: None,
            discard: true,
            uuid_seed: 0,
            time: 0,
            root_mode: 0o755,
        }
    }
}

impl MkfsOptions {
    pub(crate) fn made(&self) -> Time {
        Time(self.time)
    }
}

/// When transactions are committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitMode {
    /// In groups, in the order in which they were sealed: at `fsync`, `sync`, every
    /// [`MountOptions::commit_interval`], or when many wait.
    #[default]
    Group,
    /// The paper's rule (section 4.3): each operation commits before it returns and before its lines are
    /// unlocked.
    Sync,
}

/// Fate of file data in a power failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataMode {
    /// Data are on the drive before the transaction that points to them (ext4's default): no garbage, but a
    /// write may be there in part.
    #[default]
    Ordered,
    /// Data are part of the transaction: a write is there wholly or not at all, and writes and other
    /// operations survive in the order in which they were made. Needs the write log.
    Journal,
}

/// How the interface for a dirty page is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// By byte below [`MountOptions::byte_threshold_lines`] (section 4.6).
    #[default]
    Ratio,
    /// By byte where that is faster, as measured at mount.
    Cost,
}

/// The steps of the paper's Figure 12 (section 5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// ByteFS-Dual: metadata by byte, data by block, on the page-cache firmware; transactions commit in a
    /// redo log of the host's in the journal area.
    Dual,
    /// ByteFS-Log: the same on the write-log firmware, which is the redo log.
    Log,
    /// ByteFS: data by byte, too, where few lines change.
    #[default]
    Full,
}

impl Variant {
    /// The name in the registry.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Dual => "bytefs-dual",
            Variant::Log => "bytefs-log",
            Variant::Full => "bytefs",
        }
    }

    /// Whether it wants the firmware with the write log.
    pub fn write_log(self) -> bool {
        self != Variant::Dual
    }
}

/// Choices of `mount`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MountOptions {
    /// Which step of the ablation; all but `full` send data by block only, whatever the thresholds below.
    /// Not of a testbed: the name in the registry says it.
    #[serde(skip)]
    pub variant: Variant,
    /// When transactions are committed.
    pub commit: CommitMode,
    /// Longest time that a finished operation stays uncommitted, as ext4's `commit=`.
    pub commit_interval: Nanos,
    /// Sealed transactions that wake the commit daemon.
    pub commit_batch: u32,
    /// Lines that a group may have: bounds the uncommitted lines that the drive's log must keep. A
    /// transaction that would exceed it commits the group first.
    pub commit_lines: u32,
    /// Fate of file data in a power failure.
    pub data: DataMode,
    /// How the interface for a dirty page is chosen.
    pub policy: Policy,
    /// A dirty page with fewer modified lines than this goes by byte: 8 of 64 is the paper's R < 1/8
    /// (section 4.6).
    pub byte_threshold_lines: u32,
    /// Direct reads and writes of at most this many bytes go by byte (section 4.6).
    pub direct_byte_max: usize,
    /// Per-CPU free lists.
    pub cpus: usize,
    /// Host memory for metadata blocks. Not of a testbed, whose host has one for whatever is mounted.
    #[serde(skip)]
    pub metadata_cache: Bytes,
    /// Inode blocks read together on a miss, a power of two.
    pub inode_readahead: u64,
    /// Trims freed blocks once the transaction that freed them is committed.
    pub discard: bool,
    /// Most bitmap lines that one transaction frees blocks in; larger removals take several steps.
    pub max_free_lines: u32,
    /// The caller changes nothing: what only changes need may be damaged. Not of a testbed.
    #[serde(skip)]
    pub read_only: bool,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            variant: Variant::Full,
            commit: CommitMode::Group,
            commit_interval: Nanos::from_secs(5),
            commit_batch: 32,
            commit_lines: 16_384,
            data: DataMode::Ordered,
            policy: Policy::Ratio,
            byte_threshold_lines: 8,
            direct_byte_max: 512,
            cpus: 28,
            metadata_cache: Bytes::gib(1),
            inode_readahead: 8,
            discard: false,
            max_free_lines: 64,
            read_only: false,
        }
    }
}

impl MountOptions {
    /// The options that follow from these for the variant, a journal that takes `capacity` lines in one
    /// transaction, and a drive whose log has room for `log_half` bytes of uncommitted transactions (0:
    /// unknown).
    pub(crate) fn effective(&self, capacity: usize, log_half: u64) -> MountOptions {
        let mut options = self.clone();
        // A group is committed as a whole. While one is being committed the next is filled, and there may be
        // more: a transaction too large for a group. So a third of the log each; a line takes 64 B and at
        // most 16 B beside it.
        let room = if log_half == 0 { u64::MAX } else { log_half / 80 / 3 };
        let most = room.min(capacity as u64);
        options.commit_lines = self.commit_lines.min(most.try_into().unwrap_or(u32::MAX));
        if self.variant != Variant::Full {
            (options.byte_threshold_lines, options.direct_byte_max) = (0, 0);
            options.policy = Policy::Ratio;
        }
        // One transaction frees blocks in so many lines, and changes some more beside them.
        options.max_free_lines =
            self.max_free_lines.min((capacity / 4).try_into().unwrap_or(u32::MAX)).max(1);
        options
    }
}
