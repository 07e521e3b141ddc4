//! [`Data`] of [`F2fs`]: the bytes of its files.

use crate::F2fs;
use granary_fs::{Call, Data, DirtyPage, Inode, Result, WriteBackCause};
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

    fn write_pages(
        &self,
        _call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        why: WriteBackCause,
    ) -> Result<()> {
        self.write_back(inode, pages, why)
    }

    fn read_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.read_past(inode, pos, dest)
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.write_past(call, inode, pos, data)
    }

    fn fsync(&self, _call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        self.sync_inode(inode, data_only)
    }

    fn rewrites_cut_page(&self, _call: &Call<'_>, inode: &Inode, size: u64) -> Result<bool> {
        self.has_block(inode, size)
    }
}
