//! Bytes: there are no pages above; each call goes to who has the bytes.

use crate::{Spfs, node};
use granary_fs::{Call, Data, DirtyPage, Inode, Result, WriteBackCause};
use granary_units::{Dest, Page, Payload};

impl Data for Spfs {
    granary_fs::file_system_lacks!(reserve, wrote, rewrites_cut_page);

    fn read_pages(&self, call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        granary_pm::pages::read(self, call, inode, first, out)
    }

    fn write_pages(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _: WriteBackCause,
    ) -> Result<()> {
        granary_pm::pages::write(self, call, inode, pages)
    }

    fn read_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.read_bytes(call, inode, pos, dest)
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.write_bytes(call, inode, pos, data)
    }

    fn fsync(&self, call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        self.fsync_inode(call, inode, data_only)
    }

    fn flush_on_close(&self, call: &Call<'_>, inode: &Inode) -> bool {
        if let Ok(below) = node::below(inode) {
            self.lower.written_and_closed(&call.as_root(), &below);
        }
        // There is nothing above.
        false
    }
}
