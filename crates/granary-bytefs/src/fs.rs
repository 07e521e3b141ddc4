//! [`ByteFs`]: a mounted file system: its [`Core`] with the commit daemon. The files beside this one have
//! what it does.

use crate::core::Core;
use crate::layout::Superblock;
use granary_fs::Result;
use granary_sim::{Daemon, Signal};
use granary_units::Nanos;
use parking_lot::Mutex;
use std::sync::Arc;

/// Counters of the journal since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions sealed.
    pub transactions: u64,
    /// Transactions committed.
    pub committed: u64,
    /// Group commits that committed them.
    pub groups: u64,
    /// Transactions that waited for another's lines.
    pub conflicts: u64,
    /// Transactions that are storing their lines now.
    pub ongoing: u64,
    /// Metadata blocks in host memory.
    pub cached_blocks: u64,
    /// Blocks promised to pages that have none yet.
    pub reserved_blocks: u64,
}

/// Work of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The file system had been unmounted properly; the rest is zero.
    pub clean: bool,
    /// Time that the drive's RECOVER took, or the replay of the host's redo log.
    pub recover: Nanos,
    /// Time for all of the mount.
    pub total: Nanos,
    /// Groups of transactions replayed from the host's redo log; the firmware does not tell how many it had.
    pub groups: u64,
    /// Pages moved from the data journal to their places.
    pub data_pages: u64,
    /// Inodes without links whose freeing was finished.
    pub orphans: u64,
    /// Truncations finished.
    pub truncations: u64,
    /// Blocks freed by both.
    pub blocks: u64,
}

/// A mounted ByteFS.
pub struct ByteFs {
    pub(crate) core: Arc<Core>,
    pub(crate) superblock: Mutex<Superblock>,
    pub(crate) report: RecoveryReport,
    /// The copy of the superblock that the mount had to use.
    pub(crate) from_copy: Option<u64>,
    pub(crate) committer: Mutex<Option<Daemon>>,
}

impl ByteFs {
    /// Starts the commit daemon.
    pub(crate) fn start(
        core: Core,
        superblock: Superblock,
        report: RecoveryReport,
        from_copy: Option<u64>,
    ) -> Arc<ByteFs> {
        let core = Arc::new(core);
        let (its, interval) = (Arc::clone(&core), core.options.commit_interval);
        let committer = Daemon::start("bytefs-commit", move |stopper| {
            while stopper.pause(interval) != Signal::Stop {
                // A failure has stopped the journal; whoever writes next learns it.
                let done = its.commit_to(its.journal.sealed()).and_then(|()| its.checkpoint_data(false));
                if done.is_err() {
                    return;
                }
            }
        });
        let _ = core.committer.set(committer.kicker());
        Arc::new(ByteFs {
            core,
            superblock: Mutex::new(superblock),
            report,
            from_copy,
            committer: Mutex::new(Some(committer)),
        })
    }

    /// In how many pieces every regular file lies on the drive, by what its inode says.
    ///
    /// # Errors
    /// Damaged inodes, the drive's.
    pub fn contiguity(&self) -> Result<Vec<crate::Contiguity>> {
        self.core.contiguity()
    }

    /// Recovery by this mount.
    pub fn recovery(&self) -> RecoveryReport {
        self.report
    }

    /// The file system's UUID.
    pub fn uuid(&self) -> [u8; 16] {
        self.superblock.lock().uuid
    }

    /// Counters of the journal since the mount.
    pub fn stats(&self) -> Stats {
        let journal = &self.core.journal;
        Stats {
            transactions: journal.sealed(),
            committed: journal.committed(),
            groups: journal.groups(),
            conflicts: self.core.locks.conflicts(),
            ongoing: self.core.locks.ongoing() as u64,
            reserved_blocks: self.core.space.reserved(),
            cached_blocks: self.core.cache.len() as u64,
        }
    }
}
