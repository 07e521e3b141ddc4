//! [`Data`] of [`OrchFs`]: the bytes of its files.

use crate::OrchFs;
use crate::node::node;
use granary_fs::{Call, Data, DirtyPage, Inode, Result, WriteBackCause};
use granary_pm::pages;
use granary_units::{Dest, Page, Payload};

impl Data for OrchFs {
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
        self.read_file(node(inode), pos, dest)
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.write_file(call, inode, pos, data)
    }

    fn fsync(&self, _call: &Call<'_>, _inode: &Inode, _data_only: bool) -> Result<()> {
        // Every call is durable when it returns.
        self.check_alive()?;
        self.pm.batch().fence()
    }
}
