//! [`Data`] of [`Pmfs`]: the bytes of its files.

use crate::Pmfs;
use granary_fs::{Call, Data, DirtyPage, Inode, Result, WriteBackCause};
use granary_pm::pages;
use granary_units::{Dest, Page, Payload};

impl Data for Pmfs {
    granary_fs::file_system_lacks!(reserve, wrote, rewrites_cut_page, flush_on_close);

    fn read_pages(&self, call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        pages::read(self, call, inode, first, out)
    }

    fn write_pages(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _why: WriteBackCause,
    ) -> Result<()> {
        pages::write(self, call, inode, pages)
    }

    fn read_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.read_file(inode, pos, dest)
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.write_file(call, inode, pos, data)
    }

    fn fsync(&self, _call: &Call<'_>, _inode: &Inode, _data_only: bool) -> Result<()> {
        // Everything is durable when its call returns; the original issues a fence.
        self.pm.batch().fence()
    }
}
