//! The truncate list: inodes that are being cut, and inodes without links (removed, or without a name yet)
//! that are still open.
//!
//! ```text
//!   head (block 0) ──> inode {next, size, times, mode} ──> inode {next, ...} ──> 0
//! ```
//!
//! After a power failure inodes with links are cut to the size in the item, with the times and the mode that
//! go with it (the original keeps the size alone). Inodes without links are free. A task that changes the
//! list holds its lock until the change is safe.
//!
//! Source: PMFS section 3.2.3 (truncate list); reference/baselines.md section 7.3.

use crate::fs::Pmfs;
use crate::layout::LIST_HEAD;
use crate::layout::inode::{ITEM, ITEM_START, item};
use granary_device::Structure;
use granary_fs::{Attr, FsError, Ino, Result};
use granary_pm::Batch;

const WHAT: Structure = Structure::Inode;

impl Pmfs {
    /// Stores an item that leads to the first of `list`; nothing leads to it yet. `to`: what the inode is to
    /// be cut to, unless it has no links.
    pub(crate) fn put_item(
        &self,
        b: &mut Batch<'_>,
        addr: u64,
        list: &[u64],
        to: Option<&Attr>,
    ) -> Result<()> {
        b.put(addr + ITEM_START, &item(list.last().copied().unwrap_or(0), to), WHAT)
    }

    /// The pointer to `ino` in the list, where it is to be taken out: (address, next inode).
    pub(crate) fn list_pointer(&self, list: &[u64], ino: Ino) -> Result<(u64, u64)> {
        let at = list.iter().position(|i| *i == ino.0).ok_or(FsError::Stale)?;
        let next = if at > 0 { list[at - 1] } else { 0 };
        match list.get(at + 1) {
            None => Ok((LIST_HEAD, next)),
            Some(before) => Ok((self.inode_addr(Ino(*before))? + ITEM, next)),
        }
    }
}
