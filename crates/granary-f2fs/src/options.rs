//! Options of mkfs and mount.

use granary_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// How to make a file system. The defaults are mkfs.f2fs's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MkfsOptions {
    /// Size of the file system; `None` = the whole drive.
    pub size: Option<Bytes>,
    /// Blocks in a segment, a power of two from 16 to 512; `None` = 512 (2 MiB), fewer where the drive is so
    /// small that less than 120 segments would fit.
    pub segment_blocks: Option<u32>,
    /// Keep the bitmap of SIT copies in blocks of its own in each checkpoint pack (`cp_payload`), also where
    /// it fits the header; on drives over 3.2 TiB it does not.
    pub payload: bool,
}

/// When file data is written in place (`ipu_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InPlace {
    /// As the kernel chooses: `force` up to 8192 segments (16 GiB), else `fsync` (f2fs_tuning_parameters).
    #[default]
    Auto,
    /// Writes that a caller waits for and that are small (`min_fsync_blocks`).
    Fsync,
    /// All overwrites.
    Force,
    /// All overwrites, while logs fill the holes of segments for want of free ones.
    Ssr,
    /// All overwrites, while more than 70 % of the space is in use (`min_ipu_util`).
    Util,
    /// Where both `Ssr` and `Util` say so.
    SsrUtil,
    /// None.
    Never,
}

/// Which fsyncs of a regular file take a checkpoint (`fsync_mode`), beside those that must (fsync.rs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FsyncMode {
    /// No others: after a power failure the file is there, under the name at its fsync; a rename before may
    /// not be.
    #[default]
    Posix,
    /// Those of a new file in a directory that a rename changed since the last checkpoint: a rename is there
    /// whole or not at all.
    Strict,
}

/// How to mount. The defaults are the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MountOptions {
    /// Age of the last checkpoint at which changes get another (`cp_interval`), ns.
    pub checkpoint_interval: Nanos,
    /// How often somebody looks whether a checkpoint is due (`idle_interval`), ns.
    pub idle_interval: Nanos,
    /// Pause of background cleaning: least, most, and where there was nothing to clean, ns.
    pub gc_sleep: (Nanos, Nanos, Nanos),
    /// When file data is written in place.
    pub in_place: InPlace,
    /// Which fsyncs take a checkpoint.
    pub fsync_mode: FsyncMode,
    /// Pages up to which an fsync writes in place (`min_fsync_blocks`).
    pub min_fsync_blocks: u32,
    /// Pages up to which a file's dirty data counts as hot (`min_hot_blocks`).
    pub min_hot_blocks: u32,
    /// Dirty nodes at which a checkpoint is due; 0 = eight segments of them (`DEF_DIRTY_NODES`...).
    pub dirty_nodes: u32,
    /// Dirty segments that a search for one to clean in idle time, or to fill, looks at, at least 1
    /// (`max_victim_search`). Cleaning that cannot wait looks at all.
    pub victim_search: u32,
    /// FLUSH at fsync and before the checkpoint's footer.
    pub barrier: bool,
    /// Tell the drive about blocks that no checkpoint needs any more (`discard`): of whole segments right
    /// after a checkpoint, of others when nothing else happens.
    pub discard: bool,
    /// Blocks that a run must have to be told about (`discard_granularity`); `None` = 1 up to 8192 segments
    /// (16 GiB), else 16 (f2fs_tuning_parameters, DEFAULT_DISCARD_GRANULARITY).
    pub discard_granularity: Option<u32>,
    /// Pause between rounds of at most eight such runs: while there are more, while others work (DEF_MIN_,
    /// DEF_MID_DISCARD_ISSUE_TIME), and where there is nothing to tell (the kernel is woken then), ns.
    pub discard_sleep: (Nanos, Nanos, Nanos),
    /// Cleaning moves blocks of files by REMAP keep (PebbleSSD section 5.2), which the drive must have; else
    /// it reads and writes them.
    pub remap_cleaning: bool,
    /// Fsync of a file that has only got new data writes no node: FS_WRITE told BAM where the blocks are
    /// (PebbleSSD section 5.2). The drive must have it and keep what it acknowledges.
    pub fs_write_fsync: bool,
    /// With `fs_write_fsync`: an fsync does not write the inode for new times only (as fdatasync; PebbleSSD's
    /// file system writes no node). After a power failure the times are the checkpoint's.
    pub lazy_times: bool,
    /// Memory for nodes, directory blocks and tables, a third each. Not of a testbed, whose host has one for
    /// whatever is mounted.
    #[serde(skip)]
    pub metadata_cache: Bytes,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            checkpoint_interval: Nanos::from_secs(60),
            idle_interval: Nanos::from_secs(5),
            gc_sleep: (Nanos::from_secs(30), Nanos::from_secs(60), Nanos::from_secs(300)),
            in_place: InPlace::Auto,
            fsync_mode: FsyncMode::Posix,
            min_fsync_blocks: 8,
            min_hot_blocks: 16,
            dirty_nodes: 0,
            victim_search: 4096,
            barrier: true,
            discard: true,
            discard_granularity: None,
            discard_sleep: (Nanos::from_millis(50), Nanos::from_millis(500), Nanos::from_secs(5)),
            remap_cleaning: false,
            fs_write_fsync: false,
            lazy_times: false,
            metadata_cache: Bytes::gib(1),
        }
    }
}
