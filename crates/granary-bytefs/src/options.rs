//! What can be chosen when a file system is made and when it is mounted. Testbed files contain these tables.

use granary_units::{Bytes, Nanos};
use granary_vfs::Time;
use serde::{Deserialize, Serialize};

/// Choices of `mkfs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MkfsOptions {
    /// One inode for this many bytes, as in mke2fs.
    pub inode_ratio: u64,
    /// Blocks of 4 KiB to use; `None` = the whole drive.
    pub blocks: Option<u64>,
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
    /// In groups, in the order in which they were sealed: at `fsync`, `sync`, every [`MountOptions::commit_interval`],
    /// or when many wait.
    #[default]
    Group,
    /// The paper's rule (section 4.3): each operation commits before it returns and before its lines are unlocked.
    Sync,
}

/// Choices of `mount`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MountOptions {
    /// When transactions are committed.
    pub commit: CommitMode,
    /// Longest time that a finished operation stays uncommitted, as ext4's `commit=`.
    pub commit_interval: Nanos,
    /// Sealed transactions that make the next operation commit them all.
    pub commit_batch: u32,
    /// Lines of sealed transactions that do the same: bounds what the drive's log must keep uncommitted.
    pub commit_lines: u32,
    /// A dirty page with fewer modified lines than this goes by byte: 8 of 64 is the paper's R < 1/8 (section 4.6).
    pub byte_threshold_lines: u32,
    /// Direct reads and writes of at most this many bytes go by byte (section 4.6).
    pub direct_byte_max: usize,
    /// Per-CPU free lists.
    pub cpus: usize,
    /// Host memory for metadata blocks.
    pub metadata_cache: Bytes,
    /// Inode blocks read together on a miss, a power of two.
    pub inode_readahead: u64,
    /// Trims freed blocks once the transaction that freed them is committed.
    pub discard: bool,
    /// Most bitmap lines that one transaction frees blocks in; larger removals take several steps.
    pub max_free_lines: u32,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            commit: CommitMode::Group,
            commit_interval: Nanos::from_secs(5),
            commit_batch: 32,
            commit_lines: 16_384,
            byte_threshold_lines: 8,
            direct_byte_max: 512,
            cpus: 28,
            metadata_cache: Bytes::gib(1),
            inode_readahead: 8,
            discard: false,
            max_free_lines: 64,
        }
    }
}
