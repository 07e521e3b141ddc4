//! Promotion: the file gets an inode in persistent memory; its bytes stay where they are.
//!
//! ```text
//!   fsync below ── inode { size, limit = size, times }, fence ── name, fence
//! ```
//!
//! The whole lower file is durable before. So from the name on it may lose only bytes that persistent memory
//! has, or that are not the file's any more. Bytes without an extent in persistent memory are the lower
//! file's. So no entry is made for the extents that it has there (the released code enters them with cluster
//! number 0).
//!
//! A promotion that finds no room is not made, and nobody is told.

use crate::factor::FULL;
use crate::fs::Spfs;
use crate::layout::inode::Inode as Stored;
use crate::node::{self, Residence};
use granary_fs::{Call, FsError, Inode, Result, flag};
use granary_pm::BLOCK;
use std::sync::atomic::Ordering::Relaxed;

/// Largest file: cluster numbers have 32 bits, of which the last is "none" plus one.
pub const MAX_SIZE: u64 = (BLOCK << 32) - BLOCK;

/// Largest number of a lower inode: those above it are of one mount only (`granary-hostdir` gives them to
/// what is mounted within).
const LARGEST_NUMBER: u64 = i64::MAX as u64;

impl Spfs {
    /// Makes the changes of a file below durable there.
    pub(crate) fn settle(&self, call: &Call<'_>, node: &node::Node) -> Result<()> {
        if let Some(changes) = node.unsettled() {
            self.lower.fsync(call, &node.below()?, false)?;
            node.settled(changes);
        }
        Ok(())
    }

    /// A name can be taken in this directory when this returns: a file that the lower file system may bring
    /// back under it is nobody's.
    pub(crate) fn settle_names(&self, call: &Call<'_>, dir: &node::Node) -> Result<()> {
        if let Some(changes) = dir.unsettled_names() {
            self.lower.fsync(call, &dir.below()?, false)?;
            dir.settled(changes);
        }
        Ok(())
    }

    pub(crate) fn promote(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        let node = node::of(inode);
        let below = node.below()?;
        let mut state = node.write();
        let attr = self.lower.stat(&below).attr;
        let fit = attr.nlink > 0 && attr.size < MAX_SIZE && attr.flags & flag::FIXED == 0;
        if matches!(*state, Residence::Tiered(_)) || !fit {
            return Ok(());
        }
        if self.store.clusters.used_percent() > self.options.demote_above {
            return Err(FsError::NoSpace);
        }
        // Nobody changes bytes now. A write that was under way during the last fsync has counted after it.
        self.settle(call, node)?;
        let identity = self.identity(&below);
        if identity.ino == 0 || identity.ino > LARGEST_NUMBER {
            return Ok(());
        }
        let made = Stored {
            identity,
            size: attr.size,
            limit: attr.size,
            last: None,
            mtime: attr.mtime,
            ctime: attr.ctime,
            factor: FULL,
            undo: None,
        };
        self.pair(call)?;
        let tier = self.store.create(&made)?;
        self.index.lock().insert(identity, (tier.number, FULL));
        *state = Residence::Tiered(Box::new(tier));
        self.counts.promoted.fetch_add(1, Relaxed);
        Ok(())
    }
}
