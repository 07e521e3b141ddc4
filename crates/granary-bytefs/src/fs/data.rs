//! [`Data`] of [`ByteFs`]: the bytes of its files.

use crate::ByteFs;
use granary_fs::{Call, Data, DirtyPage, Inode, Result, WriteBackCause};
use granary_units::{Dest, Page, Payload};

impl Data for ByteFs {
    granary_fs::file_system_lacks!(rewrites_cut_page, flush_on_close);

    fn read_pages(&self, _call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        self.core.read_pages(inode, first, out)
    }

    fn reserve(&self, _call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.core.reserve(inode, pos, len)
    }

    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.core.wrote(call, inode, pos, len);
        Ok(())
    }

    fn write_pages(
        &self,
        _call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _: WriteBackCause,
    ) -> Result<()> {
        self.core.write_pages(inode, pages)
    }

    fn read_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.core.read_direct(inode, pos, dest)
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.core.write_direct(call, inode, pos, data)
    }

    fn fsync(&self, _call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        self.core.fsync(inode, data_only)
    }
}
