//! Reading and writing past the page cache: O_DIRECT, and file systems without a page cache (DAX).
//!
//! Any alignment is accepted. Cached pages of the range are written back first. A write also drops them, so
//! that both ways see one file.

use super::Vfs;
use super::node::Node;
use granary_fs::{Call, Result, WriteBackCause};
use granary_units::{Dest, PAGE_SIZE, Payload};
use std::ops::Range;

const PAGE: u64 = PAGE_SIZE as u64;

impl Vfs {
    /// The range lies within the file; the inode is locked, shared.
    pub(super) fn read_past_cache(
        &self,
        call: &Call<'_>,
        node: &Node,
        pos: u64,
        dest: Dest<'_>,
    ) -> Result<()> {
        if self.features.cache.writes {
            let end = (pos + dest.len() as u64).div_ceil(PAGE);
            self.write_back(call, node, pos / PAGE..end, WriteBackCause::Sync)?;
        }
        self.fs.read_direct(call, node, pos, dest)
    }

    /// The inode is locked exclusively.
    pub(super) fn write_past_cache(
        &self,
        call: &Call<'_>,
        node: &Node,
        pos: u64,
        data: Payload<'_>,
    ) -> Result<()> {
        let old = node.size();
        if pos > old {
            self.zero_gap(call, node, old, pos)?;
        }
        if !self.features.cache.writes {
            return self.store_direct(call, node, pos, data);
        }
        let pages = pos / PAGE..(pos + data.len() as u64).div_ceil(PAGE);
        self.write_back(call, node, pages.clone(), WriteBackCause::Sync)?;
        let _quiet = node.writeback.lock();
        self.cache.drop_range(node, pages);
        self.fs.write_direct(call, node, pos, data)
    }

    /// Lets go of the cached pages of a range, which a layer above has taken over; what is dirty of them is
    /// written before.
    pub(crate) fn let_go_of_pages(&self, call: &Call<'_>, node: &Node, pages: Range<u64>) -> Result<()> {
        if !self.cache.has_pages(node) {
            return Ok(());
        }
        self.write_back(call, node, pages.clone(), WriteBackCause::Sync)?;
        let _quiet = node.writeback.lock();
        self.cache.drop_range(node, pages);
        Ok(())
    }

    /// Writes to a file system whose writes the cache never has; what it keeps for reads goes. The inode is
    /// locked exclusively.
    pub(super) fn store_direct(
        &self,
        call: &Call<'_>,
        node: &Node,
        pos: u64,
        data: Payload<'_>,
    ) -> Result<()> {
        if self.features.cache.reads {
            self.cache.drop_range(node, pos / PAGE..(pos + data.len() as u64).div_ceil(PAGE));
        }
        self.fs.write_direct(call, node, pos, data)
    }
}
