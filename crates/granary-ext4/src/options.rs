//! Options of mkfs and mount.

use granary_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// How to make a file system. The defaults are mke2fs's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MkfsOptions {
    /// Size of the file system; `None` = the whole drive.
    pub size: Option<Bytes>,
    /// Bytes of the drive for each inode.
    pub inode_ratio: Bytes,
    /// Size of the journal; `None` = mke2fs's table by the size of the file system. At least 4 MiB.
    pub journal_size: Option<Bytes>,
    /// Groups whose bitmaps and inode tables are packed together.
    pub flex_groups: u32,
    /// Seed of the directory hash.
    pub hash_seed: u64,
}

impl Default for MkfsOptions {
    fn default() -> MkfsOptions {
        MkfsOptions {
            size: None,
            inode_ratio: Bytes::kib(16),
            journal_size: None,
            flex_groups: 16,
            hash_seed: 0x6772_616e_6172_7934,
        }
    }
}

/// Treatment of file data (`data=`): docs/GUARANTEES.md describes the state after a power failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataMode {
    /// Metadata is journalled; data of newly allocated blocks is on the drive before the commit.
    #[default]
    Ordered,
    /// Metadata is journalled; a commit waits for no data. New blocks are mapped as unwritten until their
    /// data is there, so that a power failure shows zeros in them, never what they held before
    /// (`dioread_nolock`).
    Writeback,
    /// Data is journalled, too: each page that a write or write-back brings, in one handle with its mapping
    /// and the size. No delayed allocation, and O_DIRECT goes through the page cache.
    Journal,
}

/// A part of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalShare {
    /// The limit of a transaction in Linux before 6.11, and in the paper's 5.1.
    #[default]
    Quarter,
    /// The limit of a transaction in Linux since 6.11 ("jbd2: increase maximum transaction size").
    Third,
}

impl JournalShare {
    /// This share of `len` blocks.
    pub fn of(self, len: u32) -> u32 {
        match self {
            JournalShare::Quarter => len / 4,
            JournalShare::Third => len / 3,
        }
    }
}

/// How to mount. The defaults are the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MountOptions {
    /// Age at which a transaction commits by itself (`commit=`), ns.
    pub commit_interval: Nanos,
    /// Treatment of file data (`data=`).
    pub data: DataMode,
    /// The largest transaction, as a part of the journal.
    pub max_transaction: JournalShare,
    /// FLUSH before commit blocks and at fsync (`barrier`).
    pub barrier: bool,
    /// Age at which committed blocks are written home (`dirty_expire_centisecs`), ns.
    pub dirty_expire: Nanos,
    /// How often the flusher looks (`dirty_writeback_centisecs`), ns.
    pub writeback_interval: Nanos,
    /// Inode-table blocks read together (`inode_readahead_blks`).
    pub inode_readahead_blocks: u32,
    /// Write a file out when it replaces another by rename, or when it is closed after being truncated to
    /// nothing.
    pub auto_da_alloc: bool,
    /// Tell the drive which blocks a committed transaction freed.
    pub discard: bool,
    /// Memory for metadata blocks. Not of a testbed, whose host has one for whatever is mounted.
    #[serde(skip)]
    pub metadata_cache: Bytes,
    /// CPUs that allocate small files from runs of their own.
    pub cpus: u32,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            commit_interval: Nanos::from_secs(5),
            data: DataMode::Ordered,
            max_transaction: JournalShare::Quarter,
            barrier: true,
            dirty_expire: Nanos::from_secs(30),
            writeback_interval: Nanos::from_secs(5),
            inode_readahead_blocks: 32,
            auto_da_alloc: true,
            discard: false,
            metadata_cache: Bytes::gib(1),
            cpus: 28,
        }
    }
}
