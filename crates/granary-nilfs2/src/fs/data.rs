//! [`Data`] of [`Nilfs2`]: the bytes of its files.

use crate::Nilfs2;
use granary_fs::{Call, Data, DirtyPage, Inode, Result, WriteBackCause};
use granary_units::Page;

impl Data for Nilfs2 {
    // As in the kernel direct writes go through the page cache.
    granary_fs::file_system_lacks!(direct, flush_on_close);

    fn read_pages(&self, _call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        self.read_run(inode.ino().0, first, out)
    }

    fn reserve(&self, _call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        if len == 0 { Ok(()) } else { self.promise(inode, pos, len) }
    }

    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.stamp_write(call, inode, pos + len)
    }

    fn write_pages(
        &self,
        _call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _why: WriteBackCause,
    ) -> Result<()> {
        self.stage(inode, pages)
    }

    fn fsync(&self, _call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        self.sync_inode(inode, data_only)
    }

    fn rewrites_cut_page(&self, _call: &Call<'_>, inode: &Inode, size: u64) -> Result<bool> {
        self.has_block(inode.ino().0, size)
    }
}
