//! Options of mkfs and mount.

use granary_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// How to make a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MkfsOptions {
    /// Size of the file system; `None` = the whole drive.
    pub size: Option<Bytes>,
    /// Blocks in a segment, a power of two from 32 on; `None` = 2048 (8 MiB), fewer where the drive is so
    /// small that less than 64 segments would fit.
    pub segment_blocks: Option<u32>,
}

/// Changes that fsync makes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fsync {
    /// As the kernel: nothing happens unless content of the inode changed. Of a new empty file, and of one
    /// whose mode changed, the next log has it, 5 s later at most (Linux 6.1, `nilfs_sync_file` asks
    /// `nilfs_inode_dirty`).
    #[default]
    Content,
    /// Any change, so that an fsync that returned is a promise.
    All,
}

/// How to mount. The defaults are the kernel's, and those of nilfs_cleanerd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MountOptions {
    /// Checkpoint to mount, which must be a snapshot; nothing can be changed then. `None` = the newest.
    pub cp: Option<u64>,
    /// Where the newest log is damaged, mount the state of an older one: everything newer is lost. The kernel
    /// goes back to the log of the other superblock unasked, but not where the drive fails.
    pub go_back: bool,
    /// Changes that fsync makes durable.
    pub fsync: Fsync,
    /// How long changes wait for a log that nobody asks for (NILFS_SC_DEFAULT_TIMEOUT), ns.
    pub log_interval: Nanos,
    /// Dirty blocks at which a log is written at once (NILFS_SC_DEFAULT_WATERMARK).
    pub watermark: u32,
    /// How long a superblock is not written again (NILFS_SB_FREQ), ns.
    pub super_interval: Nanos,
    /// FLUSH at fsync.
    pub barrier: bool,
    /// How long nothing is cleaned away (`protection_period`), ns.
    pub protection_period: Nanos,
    /// Clean segments, in percent, below which the cleaner works (`min_clean_segments`).
    pub min_clean_segments: u32,
    /// Clean segments, in percent, at which it stops (`max_clean_segments`).
    pub max_clean_segments: u32,
    /// Segments of a step of the cleaner (`nsegments_per_clean`, and `mc_nsegments_per_clean` with few clean
    /// segments).
    pub segments_per_clean: (u32, u32),
    /// Pause between steps, as above (`cleaning_interval`, `mc_cleaning_interval`), ns.
    pub cleaning_interval: (Nanos, Nanos),
    /// Dead share in percent that makes a segment worth it, as above (`min_reclaimable_blocks`,
    /// `mc_min_reclaimable_blocks`).
    pub min_reclaimable: (u32, u32),
    /// The cleaner lets the drive rename blocks (REMAP keep) and does not copy them: needs PebbleSSD's drive.
    pub remap_cleaning: bool,
    /// fsync writes data with FS_WRITE, and a summary; nodes and metadata wait for the next log: needs
    /// PebbleSSD's drive.
    pub fs_write_fsync: bool,
    /// Memory for metadata blocks. Not of a testbed, whose host has one for whatever is mounted.
    #[serde(skip)]
    pub metadata_cache: Bytes,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            cp: None,
            go_back: false,
            fsync: Fsync::Content,
            log_interval: Nanos::from_secs(5),
            watermark: 3600,
            super_interval: Nanos::from_secs(10),
            barrier: true,
            protection_period: Nanos::from_secs(3600),
            min_clean_segments: 10,
            max_clean_segments: 20,
            segments_per_clean: (2, 4),
            cleaning_interval: (Nanos::from_secs(5), Nanos::from_secs(1)),
            min_reclaimable: (10, 1),
            remap_cleaning: false,
            fs_write_fsync: false,
            metadata_cache: Bytes::mib(64),
        }
    }
}
