//! [`Data`] of [`Ext4`]: the bytes of its files.

use crate::file::{Flight, INODE, blocks_of};
use crate::fs::Ext4;
use crate::node::{Node, number};
use crate::options::DataMode;
use granary_fs::{Call, Data, DirtyPage, Inode, Result, WriteBackCause};
use granary_kit::direct;
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

    /// Writes pages: in place where they are mapped, else to blocks allocated now.
    fn write_pages(
        &self,
        _call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _why: WriteBackCause,
    ) -> Result<()> {
        if self.options.data == DataMode::Journal {
            return self.journal_pages(inode, pages);
        }
        let mut flight = Flight::default();
        let mut content: Vec<Page> = Vec::with_capacity(pages.len());
        for run in pages.chunk_by(|a, b| a.index + 1 == b.index) {
            content.clear();
            content.extend(run.iter().map(|p| p.page.clone()));
            self.write_run(inode, run[0].index as u32, &content, &mut flight)?;
        }
        self.land(inode, flight)?;
        let end = pages.last().map_or(0, DirtyPage::end).min(inode.size());
        let node = inode.private::<Node>();
        if end <= node.state.lock().disksize {
            return Ok(());
        }
        self.journal.run(INODE, |h| {
            {
                let mut s = node.state.lock();
                s.disksize = s.disksize.max(end);
            }
            self.mark_inode(h, inode)
        })
    }

    /// Reads past the page cache.
    fn read_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        direct::read(pos, dest, |first, out| self.read_run(inode, first, out))
    }

    /// Writes past the page cache: blocks are allocated at once. A file that grows is on the orphan list
    /// meanwhile, so that recovery cuts off blocks behind its end.
    fn write_direct(&self, call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        let (len, old_size) = (data.len() as u64, inode.size());
        self.promise_range(inode, pos, len)?;
        let (first, end) = blocks_of(pos, len);
        let read = |block, page: &mut [Page]| self.read_run(inode, block, page);
        let pages = direct::merged(pos, data, old_size, read)?;
        let grows = pos + len > old_size;
        if grows {
            self.journal.run(INODE, |h| {
                self.orphan_add(h, number(inode.ino()))?;
                self.mark_inode(h, inode)
            })?;
        }
        let mut flight = Flight::default();
        let written = self.write_run(inode, first, &pages, &mut flight);
        let landed = self.land(inode, flight);
        match written.and(landed) {
            Ok(()) => self.stamp_write(call, inode, pos + len, true, grows && inode.attr().nlink > 0),
            Err(e) => {
                self.drop_promises_range(inode, first, end);
                if grows {
                    self.cut(inode, old_size)?;
                }
                Err(e)
            }
        }
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
