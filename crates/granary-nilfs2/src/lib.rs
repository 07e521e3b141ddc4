//! NILFS2: a log-structured file system whose every log is a checkpoint.
//!
//! ```text
//!   namei  dir  file                 operations: change what is in memory, under `ops` shared
//!     |     |    |
//!   state: nodes with maps (tree) and dirty blocks (buffers);  dat  ifile  cpfile  sufile
//!     |
//!   log: what is dirty, in order     construct: who writes it, when       clean: blocks that move        `ops` exclusive
//!     |                                |                                    |
//!   segments: places                 media: the drive, and blocks on their way to it
//! ```
//!
//! Nothing is overwritten. A log has the blocks that changed, the nodes above them, and the files of metadata up to a super root;
//! what it replaces stays readable until the cleaner takes its segment. A power loss goes back to the newest whole log, and forward
//! over logs of data that fdatasync left. Protocol, sizes and timers are those of Linux 6.1 (`granary
//! calibrate --reference` compares the blocks of each operation); the bytes on media are our own.
//!
//! Source: reference/nilfs2.md; PebbleSSD section 4.2.

mod buffers;
mod check;
mod clean;
mod construct;
mod counts;
mod cpfile;
mod dat;
mod dir;
mod entry;
mod file;
mod geometry;
mod groups;
pub mod layout;
mod log;
mod media;
mod mkfs;
mod mount;
mod namei;
mod options;
mod recover;
mod remap;
mod segments;
mod snapshot;
mod space;
mod state;
mod sync;
mod tree;

pub use entry::{NILFS2, NILFS2_FSWRITE, NILFS2_PEBBLE, NILFS2_REMAP};
pub use geometry::Geometry;
pub use mkfs::mkfs;
pub use mount::{Recovery, mount};
pub use options::{Fsync, MkfsOptions, MountOptions};

use crate::layout::superblock::Superblock;
use crate::media::Media;
use crate::state::State;
use crate::sync::Asked;
use granary_fs::{DirtyPages, FsError, Result};
use granary_kit::Generations;
use granary_sim::Daemon;
use granary_sim::sync::{Mutex, RwLock};
use granary_units::Nanos;
use std::sync::Weak;
use std::sync::atomic::AtomicBool;

/// Largest file: 16 TiB, as far as PebbleSSD's maps of files reach (the kernel's B-tree goes on to 8 EiB).
pub const MAX_FILE_SIZE: u64 = 1 << 44;
/// Most links of an inode (Linux 6.1, NILFS_LINK_MAX).
pub const LINK_MAX: u32 = 32_000;

/// What was done since mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Logs with a super root.
    pub logs: u64,
    /// Logs of data only.
    pub data_logs: u64,
    /// Blocks of logs.
    pub blocks: u64,
    /// FLUSH commands for callers that wait.
    pub flushes: u64,
    /// Superblocks.
    pub supers: u64,
    /// Segments cleaned.
    pub cleaned: u64,
    /// Blocks that the cleaner read and wrote.
    pub copied: u64,
    /// Blocks that the cleaner let the drive rename.
    pub remapped: u64,
    /// Times that the drive had no room for names, and blocks were written.
    pub refused: u64,
    /// Those blocks.
    pub refused_blocks: u64,
    /// Blocks that FS_WRITE brought.
    pub fs_written: u64,
    /// Times that the whole DAT was read to count live blocks: for the first question, and after a change of snapshots.
    pub dat_walks: u64,
}

/// What the vfs keeps of an inode; the rest is in [`State`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub ino: u64,
    pub generation: u32,
}

/// A mounted NILFS2.
pub struct Nilfs2 {
    media: Media,
    state: Mutex<State>,
    /// Shared: operations. Exclusive: logs. Taken before `state`.
    ops: RwLock<()>,
    /// Fsyncs that wait for `ops`, where they are served together (sync.rs).
    syncing: parking_lot::Mutex<Vec<Asked>>,
    options: MountOptions,
    generations: Generations,
    pages: parking_lot::Mutex<Option<Weak<dyn DirtyPages>>>,
    /// The superblock as it was written last, and when.
    super_block: parking_lot::Mutex<(Superblock, Nanos)>,
    /// Something was written since the last FLUSH.
    unflushed: AtomicBool,
    /// Held while a FLUSH is under way.
    flushing: granary_sim::sync::Mutex<()>,
    /// The cleaner works until there is enough.
    cleaning: AtomicBool,
    /// BAM holds something of this file system.
    bam_used: AtomicBool,
    /// The log has been told what keeps the space that somebody was refused.
    said_why: AtomicBool,
    /// Mount is replaying: there are no daemons yet.
    recovering: AtomicBool,
    /// A log failed, of this: nothing can be made durable any more.
    broken: parking_lot::Mutex<Option<FsError>>,
    stats: parking_lot::Mutex<Stats>,
    daemons: Mutex<Vec<Daemon>>,
    recovery: Recovery,
}

impl Nilfs2 {
    /// What mount had to recover.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// What was done since mount.
    pub fn stats(&self) -> Stats {
        let dat_walks = self.state.lock().dat.walks;
        Stats { dat_walks, ..*self.stats.lock() }
    }

    /// The options it was mounted with.
    pub fn options(&self) -> &MountOptions {
        &self.options
    }

    /// How the drive is cut into segments.
    pub fn geometry(&self) -> Geometry {
        self.media.geo
    }

    /// Segments that are free.
    pub fn clean_segments(&self) -> u64 {
        self.state.lock().segs.clean
    }

    /// A snapshot is read and not changed.
    pub(crate) fn may_change(&self) -> Result<()> {
        if self.options.cp.is_some() { Err(FsError::ReadOnly) } else { Ok(()) }
    }
}
