//! [`Data`] of [`F2fs`]: the bytes of its files.

use crate::file::blocks_of;
use crate::fs::F2fs;
use crate::node::node;
use crate::nodes::Batch;
use crate::options::InPlace;
use crate::segs::log;
use granary_fs::{Call, Data, DirtyPage, Inode, Result, WriteBackCause};
use granary_kit::direct;
use granary_units::{Dest, Page, Payload};

impl Data for F2fs {
    granary_fs::file_system_lacks!(flush_on_close);

    fn read_pages(&self, _call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        self.read_run(inode, first, out)
    }

    fn reserve(&self, _call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.promise_range(inode, pos, len)
    }

    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.stamp_write(call, inode, pos + len);
        Ok(())
    }

    /// Writes dirty pages; they are on the drive on return, and pointed to.
    fn write_pages(
        &self,
        _call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        why: WriteBackCause,
    ) -> Result<()> {
        // Two segments at a time: for so much cleaning makes room (on small drives segments are small).
        let mut parts = pages.chunks(2 * self.geo.seg_blocks as usize);
        parts.try_for_each(|part| self.write_part(inode, part, pages.len(), why))
    }

    /// Reads past the page cache.
    fn read_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        direct::read(pos, dest, |first, out| self.read_run(inode, first, out))
    }

    /// Writes past the page cache: overwrites in place, the rest to the warm log.
    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        let (len, old_size) = (data.len() as u64, inode.size());
        let (node, (first, end)) = (node(inode), blocks_of(pos, len));
        let in_place = self.options.in_place != InPlace::Never;
        let op = self.op_with(if in_place { 0 } else { (end - first) as usize })?;
        let lock = self.inode_lock(node.ino);
        let before = node.state.lock().blocks;
        let reserved = self.convert_inline(node).and_then(|()| self.reserve_blocks(node, first, end));
        self.counted(inode, before);
        reserved?;
        let read = |block, page: &mut [Page]| self.read_run(inode, block, page);
        let pages = direct::merged(pos, data, old_size, read)?;
        let (mut batch, mut moved) = (Batch::with_capacity(pages.len()), Vec::new());
        let log = log::WARM_DATA;
        let placed = self.place_blocks(node, first, pages.into_iter(), in_place, log, &mut batch, &mut moved);
        self.spoil(node.ino);
        self.finish_write(node, batch, moved, placed, None)?;
        self.stamp_write(call, inode, pos + len);
        self.grown(inode, pos + len, false)?;
        drop((lock, op));
        self.charge_write(1);
        Ok(())
    }

    fn fsync(&self, _call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        self.sync_inode(inode, data_only)
    }

    fn rewrites_cut_page(&self, _call: &Call<'_>, inode: &Inode, size: u64) -> Result<bool> {
        self.has_block(inode, size)
    }
}
