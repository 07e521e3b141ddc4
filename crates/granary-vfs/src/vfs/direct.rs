//! Reading and writing past the page cache: O_DIRECT, and file systems without a page cache (DAX).
//!
//! Any alignment is accepted. What the cache holds of the range is written back first, and dropped by a write, so that
//! both ways see one file.

use super::Vfs;
use super::node::Node;
use crate::error::Result;
use crate::fs::{Cx, WriteBackCause};
use granary_units::{Dest, PAGE_SIZE, Payload};

const PAGE: u64 = PAGE_SIZE as u64;

impl Vfs {
    /// The range lies within the file; the inode is locked, shared.
    pub(super) fn read_past_cache(&self, node: &Node, pos: u64, dest: Dest<'_>) -> Result<()> {
        if self.features.page_cache {
            let end = (pos + dest.len() as u64).div_ceil(PAGE);
            self.write_back(node, pos / PAGE..end, WriteBackCause::Sync)?;
        }
        self.fs.read_direct(node, pos, dest)
    }

    /// The inode is locked exclusively.
    pub(super) fn write_past_cache(
        &self,
        cx: &Cx<'_>,
        node: &Node,
        pos: u64,
        data: Payload<'_>,
    ) -> Result<()> {
        let old = node.size();
        if pos > old {
            self.zero_gap(cx, node, old, pos)?;
        }
        if !self.features.page_cache {
            return self.fs.write_direct(cx, node, pos, data);
        }
        let pages = pos / PAGE..(pos + data.len() as u64).div_ceil(PAGE);
        self.write_back(node, pages.clone(), WriteBackCause::Sync)?;
        let _quiet = node.writeback.lock();
        self.cache.drop_range(node, pages);
        self.fs.write_direct(cx, node, pos, data)
    }
}
