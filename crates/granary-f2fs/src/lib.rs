//! F2FS: the log-structured block-interface baseline.
//!
//! ```text
//!   namei   file   fsync            operations: under the checkpoint lock, shared
//!     |       |      |
//!   dir     tree   nodes            directory blocks; pointers of a file; nodes in memory, dirty until written
//!     |       |      |
//!   cache (by inode and number)     nat: where nodes lie        segs: six logs, valid blocks, SSR
//!     |                               |                           |
//!   checkpoint   recover   gc       exclusive; mount; moving what is valid out of a segment (remap: PebbleSSD's way)
//!     |
//!   Port (granary-mssd)             4 KiB blocks; layout/: the format, SPEC.md
//! ```
//!
//! Everything is written out of place, to the log of its temperature, but for the overwrites that the in-place policy
//! names. A power loss goes back to the last checkpoint and forward again over nodes that fsync has marked. The
//! protocol, geometry and triggers are those of Linux 6.1 with mkfs.f2fs's defaults, so that the traffic is the
//! kernel's (`tests/kernel_table.rs` compares it row by row). The format is our own.
//!
//! Source: reference/baselines.md section 4.

mod cache;
mod check;
mod checkpoint;
mod data;
mod dir;
mod discard;
mod entry;
mod fallocate;
mod file;
mod flush;
mod fs_write;
mod fsync;
mod gc;
mod geometry;
mod given;
pub mod layout;
mod life;
mod mkfs;
mod mount;
mod namei;
mod names;
mod nat;
mod node;
mod nodes;
mod options;
mod recover;
mod remap;
mod segs;
mod tree;
mod xattr;

pub use entry::{F2FS, F2FS_FS_WRITE, F2FS_PEBBLE, F2FS_REMAP};
pub use geometry::Geometry;
pub use mkfs::mkfs;
pub use mount::{Recovery, mount};
pub use options::{FsyncMode, InPlace, MkfsOptions, MountOptions};

use crate::cache::LogicalCache;
use crate::flush::Flusher;
use crate::given::GivenUp;
use crate::layout::forward::Cuts;
use crate::nat::Nat;
use crate::node::Node;
use crate::segs::Segs;
use granary_device::Port;
use granary_kit::{BlockCache, Generations};
use granary_sim::Daemon;
use granary_sim::sync::{Mutex, RwLock};
use granary_units::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Largest file: what the node tree reaches, 4 TiB.
pub const MAX_FILE_SIZE: u64 = layout::node::MAX_BLOCKS * 4096;

/// What was done since mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Checkpoints.
    pub checkpoints: u64,
    /// Checkpoints that an fsync asked for.
    pub fsync_checkpoints: u64,
    /// FLUSH commands, those of checkpoints included.
    pub flushes: u64,
    /// Footers written with FUA.
    pub fua_writes: u64,
    /// Node blocks written.
    pub nodes: u64,
    /// Data blocks written in place, and to a new place.
    pub in_place: u64,
    /// See `in_place`.
    pub out_of_place: u64,
    /// Segments cleaned in the foreground, and in the background.
    pub cleaned: u64,
    /// See `cleaned`.
    pub cleaned_background: u64,
    /// Valid blocks that cleaning moved.
    pub moved: u64,
    /// Fsyncs that had nothing to write, because BAM knows the blocks.
    pub told: u64,
    /// Of the blocks that cleaning moved, those that the drive renamed.
    pub remapped: u64,
    /// Times that a log began to fill the holes of a segment.
    pub ssr: u64,
    /// Segments trimmed.
    pub trimmed: u64,
    /// Runs trimmed in segments that live on, and their blocks.
    pub discards: u64,
    /// See `discards`.
    pub discarded: u64,
}

/// Blocks and nodes in use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Space {
    /// Taken, reserved ones included.
    pub valid: u64,
    /// That users may take.
    pub user: u64,
    pub nodes: u32,
    pub inodes: u32,
    /// Taken since the last checkpoint, and in use at it: what roll-forward needs room for.
    pub since: u64,
    pub at_checkpoint: u64,
}

/// A mounted F2FS.
pub struct F2fs {
    port: Port,
    geo: Geometry,
    options: MountOptions,
    force_in_place: bool,
    /// NAT and SSA blocks.
    tables: Arc<BlockCache>,
    nodes: LogicalCache,
    dents: LogicalCache,
    nat: Nat,
    segs: Mutex<Segs>,
    space: parking_lot::Mutex<Space>,
    /// Shared: operations. Exclusive: checkpoints.
    checkpoint_lock: RwLock<()>,
    /// One cleaner at a time.
    gc_lock: Mutex<()>,
    /// File blocks of an inode are written, moved or cut under its lock; taken after `checkpoint_lock`.
    inode_locks: Box<[Mutex<()>]>,
    /// Held while nodes are added to an inode's tree, or blocks reserved; taken after its `inode_locks`.
    grow_locks: Box<[Mutex<()>]>,
    /// When the last of the nodes written to the warm log is on the drive: recovery walks them in order.
    chain: Mutex<Nanos>,
    flusher: Flusher,
    /// Writes in place: so many were begun, and so many are behind a FLUSH.
    in_place: [AtomicU64; 2],
    /// Inodes whose attributes are newer in memory than in their node.
    dirty_inodes: parking_lot::Mutex<BTreeMap<u32, Arc<Node>>>,
    memory: parking_lot::Mutex<Memory>,
    stats: parking_lot::Mutex<Stats>,
    generations: Generations,
    /// State of the last checkpoint.
    last: parking_lot::Mutex<LastCheckpoint>,
    /// A checkpoint failed: nothing can be made durable any more.
    broken: AtomicBool,
    /// When somebody last changed something, ns.
    busy: AtomicU64,
    recovery: Recovery,
    daemons: Mutex<Vec<Daemon>>,
    /// Mount is replaying: nothing may be written yet.
    recovering: AtomicBool,
    /// Wakes the checkpoint daemon.
    due: AtomicBool,
}

/// Sets of inodes.
#[derive(Default)]
pub(crate) struct Memory {
    /// Without names, in use.
    pub orphans: BTreeSet<u32>,
    /// Directories that a rename changed since the last checkpoint, or that lost a name of something that lives on or
    /// was a directory (`TRANS_DIR_INO`).
    pub renamed: BTreeSet<u32>,
    /// Names that were given up since then.
    pub given: GivenUp,
    /// Where files lost nodes that were on media, since then.
    pub cuts: BTreeMap<u32, Cuts>,
    /// Inodes that left memory after data was written, since then, and before an fsync (`APPEND_INO`, `UPDATE_INO`).
    pub unsynced: BTreeMap<u32, Unsynced>,
    /// Inodes of which BAM does not know everything that changed since then.
    pub spoiled: BTreeSet<u32>,
}

/// What of an inode's data an fsync has still to make safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsynced {
    /// A block got a new place: the node that points to it.
    pub moved: bool,
    /// A block was written in place: it may be in the drive's cache.
    pub in_place: bool,
}

/// What the next checkpoint continues.
pub(crate) struct LastCheckpoint {
    pub version: u64,
    /// Pack that it lies in.
    pub pack: usize,
    pub sit_copies: Vec<u8>,
    pub sit_journal: BTreeSet<u32>,
    pub reserved: u32,
    pub overprovision: u32,
    pub at: Nanos,
}

impl F2fs {
    /// What mount had to recover.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// What was done since mount.
    pub fn stats(&self) -> Stats {
        let ssr = self.segs.lock().ssr_segments;
        Stats { ssr, ..*self.stats.lock() }
    }

    /// The options it was mounted with.
    pub fn options(&self) -> &MountOptions {
        &self.options
    }

    /// Where its areas lie.
    pub fn geometry(&self) -> Geometry {
        self.geo
    }
}
