//! [`Nilfs2`]: memory of a mounted file system. The files beside this one have its operations.

use crate::geometry::Geometry;
use crate::layout::superblock::Superblock;
use crate::media::Media;
use crate::options::MountOptions;
use crate::state::State;
use granary_fs::{DirtyPages, FsError, Result};
use granary_kit::Generations;
use granary_sim::Daemon;
use granary_sim::sync::{Mutex, RwLock};
use granary_units::Nanos;
use std::sync::Weak;
use std::sync::atomic::AtomicBool;

/// Counters since mount.
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
    /// Times that the whole DAT was read to count live blocks: for the first question, and after a change of
    /// snapshots.
    pub dat_walks: u64,
}

/// Report of a mount: findings and recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The file system had been unmounted.
    pub clean: bool,
    /// Checkpoint found.
    pub cno: u64,
    /// Logs found behind the one that the superblock names.
    pub logs: u32,
    /// Blocks of data rolled forward.
    pub blocks: u32,
    /// Inodes without names that were freed.
    pub orphans: u32,
}

/// The vfs's private part of an inode; the rest is in [`State`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub ino: u64,
    pub generation: u32,
}

/// A file that somebody wants durable.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) ino: u64,
    pub(crate) data_only: bool,
}

/// A mounted NILFS2.
pub struct Nilfs2 {
    pub(crate) media: Media,
    pub(crate) state: Mutex<State>,
    /// Shared: operations. Exclusive: logs. Taken before `state`.
    pub(crate) ops: RwLock<()>,
    /// Fsyncs that wait for `ops`, where they are served together (sync.rs).
    pub(crate) syncing: parking_lot::Mutex<Vec<Asked>>,
    pub(crate) options: MountOptions,
    pub(crate) generations: Generations,
    pub(crate) pages: parking_lot::Mutex<Option<Weak<dyn DirtyPages>>>,
    /// The superblock as it was written last, and when.
    pub(crate) super_block: parking_lot::Mutex<(Superblock, Nanos)>,
    /// Something was written since the last FLUSH.
    pub(crate) unflushed: AtomicBool,
    /// Held while a FLUSH is under way.
    pub(crate) flushing: granary_sim::sync::Mutex<()>,
    /// The cleaner works until there is enough.
    pub(crate) cleaning: AtomicBool,
    /// BAM holds something of this file system.
    pub(crate) bam_used: AtomicBool,
    /// The log has been told what keeps the space that somebody was refused.
    pub(crate) said_why: AtomicBool,
    /// Mount is replaying: there are no daemons yet.
    pub(crate) recovering: AtomicBool,
    /// A log failed, of this: nothing can be made durable any more.
    pub(crate) broken: parking_lot::Mutex<Option<FsError>>,
    pub(crate) stats: parking_lot::Mutex<Stats>,
    pub(crate) daemons: Mutex<Vec<Daemon>>,
    pub(crate) recovery: Recovery,
}

impl Nilfs2 {
    /// The recovery that mount had to do.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Counters since mount.
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
