//! [`Data`] of [`DevFs`]: the bytes of its files. The vfs's page cache has none of them.

use crate::DevFs;
use crate::command::Op;
use granary_fs::{Call, Data, DirtyPage, Inode, Result, WriteBackCause};
use granary_units::{Dest, Page, Payload};

impl Data for DevFs {
    granary_fs::file_system_lacks!(reserve, wrote, rewrites_cut_page, flush_on_close);

    fn read_pages(&self, call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        granary_pm::pages::read(self, call, inode, first, out)
    }

    fn write_pages(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _why: WriteBackCause,
    ) -> Result<()> {
        granary_pm::pages::write(self, call, inode, pages)
    }

    fn read_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        let range = (pos, dest.len() as u64);
        self.transfer(call, Op::Read, inode, range, |fs| fs.read_direct(call, inode, pos, dest))
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        let range = (pos, data.len() as u64);
        self.transfer(call, Op::Write, inode, range, |fs| fs.write_direct(call, inode, pos, data))
    }

    /// Acknowledged writes are durable: the command has nothing to do.
    fn fsync(&self, call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        self.look(call, Op::Fsync, &[inode], |fs| fs.fsync(call, inode, data_only))
    }
}
