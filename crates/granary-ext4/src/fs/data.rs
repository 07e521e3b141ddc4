//! [`Data`] of [`Ext4`]: the bytes of its files.

use crate::Ext4;
use crate::node::Node;
use crate::options::DataMode;
use granary_fs::{Call, Data, DirtyPage, Inode, Result, WriteBackCause};
use granary_units::{Dest, Page, Payload};

impl Data for Ext4 {
    fn read_pages(&self, _call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        self.read_run(inode, first, out)
    }

    fn reserve(&self, _call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.promise_range(inode, pos, len).map(drop)
    }

    fn wrote(&self, call: &Call<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()> {
        self.stamp_write(call, inode, pos + len, false, false)
    }

    fn write_pages(
        &self,
        _call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _why: WriteBackCause,
    ) -> Result<()> {
        self.write_back(inode, pages)
    }

    fn read_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        self.read_past(inode, pos, dest)
    }

    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.write_past(call, inode, pos, data)
    }

    fn fsync(&self, _call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        if self.options.data == DataMode::Journal {
            return self.fsync_journalled(inode);
        }
        let tid = {
            let s = inode.private::<Node>().state.lock();
            if data_only { s.datasync_tid } else { s.sync_tid }
        };
        self.journal.sync_tid(tid)
    }

    fn rewrites_cut_page(&self, _call: &Call<'_>, inode: &Inode, size: u64) -> Result<bool> {
        self.holds_data(inode, size)
    }

    fn flush_on_close(&self, _call: &Call<'_>, inode: &Inode) -> bool {
        let truncated = std::mem::take(&mut inode.private::<Node>().state.lock().flush_on_close);
        truncated && self.options.auto_da_alloc
    }
}
