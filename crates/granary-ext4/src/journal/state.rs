//! The journal's state in memory: blocks, transactions, the log's ends.

use super::JournalStats;
use granary_device::Structure;
use granary_fs::FsError;
use granary_kit::Block;
use granary_units::{Nanos, Page};
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Content that is journalled.
pub(super) enum Content {
    /// A metadata block, shared with the cache and pinned there.
    Meta(Arc<Block>),
    /// File data as the last handle left it.
    Data(Page),
}

impl Content {
    pub(super) fn what(&self) -> Structure {
        match self {
            Content::Meta(block) => block.what(),
            Content::Data(_) => Structure::Data,
        }
    }

    /// The content now, as a page that later changes do not touch.
    pub(super) fn snapshot(&self) -> Page {
        match self {
            Content::Meta(block) => block.snapshot(),
            Content::Data(page) => page.clone(),
        }
    }

    /// No transaction knows it any more.
    pub(super) fn let_go(&self) {
        if let Content::Meta(block) = self {
            block.unpin();
        }
    }
}

/// A block that some transaction knows; numbers are transactions, 0 = none.
pub(super) struct Tracked {
    pub(super) content: Content,
    pub(super) running: u32,
    pub(super) committing: u32,
    /// Last committed transaction with the block, while it is not home.
    pub(super) home: u32,
    /// The running or committing transaction has freed it: what is in memory is not what was committed, and
    /// does not go home.
    pub(super) doomed: bool,
}

/// The transaction that operations join.
pub(super) struct Running {
    pub(super) tid: u32,
    pub(super) started: Nanos,
    pub(super) locked: bool,
    /// Open handles.
    pub(super) updates: u32,
    /// Credits of the open handles.
    pub(super) reserved: u32,
    /// Blocks in the order in which they were first changed.
    pub(super) metas: Vec<u64>,
    pub(super) revoked: Vec<u64>,
    /// Freed blocks that some transaction knows, without a revoke record (data journal).
    pub(super) forgotten: Vec<u64>,
    pub(super) freed: Vec<(u64, u32)>,
    /// When the last ordered data is on the drive.
    pub(super) ordered: Nanos,
    /// Pages of files, (inode, page), that the commit writes where they are dirty.
    pub(super) cut: BTreeSet<(u32, u32)>,
}

/// A committed transaction whose blocks are not all home.
pub(super) struct Checkpoint {
    pub(super) tid: u32,
    /// Its first block in the log.
    pub(super) first: u32,
    /// Blocks that wait for their home write on behalf of this transaction.
    pub(super) left: usize,
    pub(super) metas: Vec<u64>,
}

#[derive(Clone, Copy)]
pub(super) struct Committing {
    pub(super) tid: u32,
    pub(super) first: u32,
    /// The flush of the commit block has been sent: data written from now on is not covered.
    pub(super) flushed: bool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) running: Option<Running>,
    pub(super) committing: Option<Committing>,
    pub(super) next_tid: u32,
    pub(super) committed: u32,
    pub(super) requested: u32,
    pub(super) tracked: FxHashMap<u64, Tracked>,
    pub(super) checkpoints: VecDeque<Checkpoint>,
    /// Next log block to write.
    pub(super) head: u32,
    /// Oldest log block that recovery needs, and its transaction.
    pub(super) tail: u32,
    pub(super) tail_tid: u32,
    pub(super) free: u32,
    /// The superblock on media says that the log is empty.
    pub(super) marked_empty: bool,
    /// When the first of the blocks that wait to go home came to wait.
    pub(super) dirty_since: Option<Nanos>,
    pub(super) stop: bool,
    pub(super) aborted: Option<FsError>,
    pub(super) stats: JournalStats,
}
