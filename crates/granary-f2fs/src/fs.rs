//! [`F2fs`]: memory of a mounted file system. The files beside this one have its operations.

use crate::cache::LogicalCache;
use crate::flush::Flusher;
use crate::geometry::Geometry;
use crate::given::GivenUp;
use crate::layout::forward::Cuts;
use crate::nat::Nat;
use crate::node::{Node, Unsynced};
use crate::options::MountOptions;
use crate::segs::Segs;
use granary_device::Port;
use granary_kit::{BlockCache, Generations};
use granary_sim::Daemon;
use granary_sim::sync::{Mutex, RwLock};
use granary_units::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Counters since mount.
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

/// Report of a mount: findings and recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The file system had been unmounted and nothing was fsynced since.
    pub clean: bool,
    /// Version of the checkpoint found.
    pub version: u64,
    /// Inodes without names that were freed.
    pub orphans: u32,
    /// Nodes found behind the checkpoint in the warm log.
    pub nodes: u32,
    /// Inodes rolled forward.
    pub files: u32,
    /// Names entered.
    pub names: u32,
    /// Blocks taken over from BAM.
    pub told: u32,
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
    pub(crate) port: Port,
    pub(crate) geo: Geometry,
    pub(crate) options: MountOptions,
    pub(crate) force_in_place: bool,
    /// NAT and SSA blocks.
    pub(crate) tables: Arc<BlockCache>,
    pub(crate) nodes: LogicalCache,
    pub(crate) dents: LogicalCache,
    pub(crate) nat: Nat,
    pub(crate) segs: Mutex<Segs>,
    pub(crate) space: parking_lot::Mutex<Space>,
    /// Shared: operations. Exclusive: checkpoints.
    pub(crate) checkpoint_lock: RwLock<()>,
    /// One cleaner at a time.
    pub(crate) gc_lock: Mutex<()>,
    /// File blocks of an inode are written, moved or cut under its lock; taken after `checkpoint_lock`.
    pub(crate) inode_locks: Box<[Mutex<()>]>,
    /// Held while nodes are added to an inode's tree, or blocks reserved; taken after its `inode_locks`.
    pub(crate) grow_locks: Box<[Mutex<()>]>,
    /// When the last of the nodes written to the warm log is on the drive: recovery walks them in order.
    pub(crate) chain: Mutex<Nanos>,
    pub(crate) flusher: Flusher,
    /// Writes in place: so many were begun, and so many are behind a FLUSH.
    pub(crate) in_place: [AtomicU64; 2],
    /// Inodes whose attributes are newer in memory than in their node.
    pub(crate) dirty_inodes: parking_lot::Mutex<BTreeMap<u32, Arc<Node>>>,
    pub(crate) memory: parking_lot::Mutex<Memory>,
    pub(crate) stats: parking_lot::Mutex<Stats>,
    pub(crate) generations: Generations,
    /// State of the last checkpoint.
    pub(crate) last: parking_lot::Mutex<LastCheckpoint>,
    /// A checkpoint failed: nothing can be made durable any more.
    pub(crate) broken: AtomicBool,
    /// When somebody last changed something, ns.
    pub(crate) busy: AtomicU64,
    pub(crate) recovery: Recovery,
    pub(crate) daemons: Mutex<Vec<Daemon>>,
    /// Mount is replaying: nothing may be written yet.
    pub(crate) recovering: AtomicBool,
    /// Wakes the checkpoint daemon.
    pub(crate) due: AtomicBool,
}

/// Sets of inodes.
#[derive(Default)]
pub(crate) struct Memory {
    /// Without names, in use.
    pub orphans: BTreeSet<u32>,
    /// Directories that a rename changed since the last checkpoint, or that lost a name of something that
    /// lives on or was a directory (`TRANS_DIR_INO`).
    pub renamed: BTreeSet<u32>,
    /// Names that were given up since then.
    pub given: GivenUp,
    /// Where files lost nodes that were on media, since then.
    pub cuts: BTreeMap<u32, Cuts>,
    /// Inodes that left memory after data was written, since then, and before an fsync (`APPEND_INO`,
    /// `UPDATE_INO`).
    pub unsynced: BTreeMap<u32, Unsynced>,
    /// Inodes of which BAM does not know everything that changed since then.
    pub spoiled: BTreeSet<u32>,
}

/// State of the last checkpoint that the next one continues.
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
    /// The recovery that mount had to do.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Counters since mount.
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
