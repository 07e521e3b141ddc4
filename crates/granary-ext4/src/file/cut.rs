//! Attributes, and files that are cut.

use super::{BS, INODE};
use crate::extents::Mapping;
use crate::fs::Ext4;
use crate::node::{Node, number};
use crate::options::DataMode;
use granary_device::{Structure, Ticket};
use granary_fs::{Call, FileKind, Ino, Inode, Result, SetAttr};
use granary_kit::work::Kind;
use granary_sim::costs;
use granary_units::Lpa;
use std::collections::BTreeSet;
use std::sync::Weak;

impl Ext4 {
    /// Frees what lies behind `size`; the inode is on the orphan list and leaves it.
    pub(crate) fn cut(&self, inode: &Inode, size: u64) -> Result<()> {
        let from = size.div_ceil(BS) as u32;
        self.drop_promises(inode, from);
        let (ino, named) = (number(inode.ino()), inode.attr().nlink > 0);
        self.truncate_blocks(inode, from, |h| if named { self.orphan_del(h, ino) } else { Ok(()) })
    }

    /// Whether the block at byte `pos` is a place of the file's that holds data: one that is written again
    /// where a truncation or a hole cuts it (`ext4_block_truncate_page`).
    pub(crate) fn holds_data(&self, inode: &Inode, pos: u64) -> Result<bool> {
        let mapping = self.map_block(inode.private::<Node>(), (pos / BS) as u32)?;
        Ok(matches!(mapping, Mapping::Mapped { unwritten: false, .. }))
    }

    /// Whether the commit, whoever asks for it, writes the page that is cut at byte `pos`
    /// (`ext4_should_order_data`).
    pub(crate) fn orders_cut(&self, inode: &Inode, pos: u64) -> Result<bool> {
        let cuts = self.options.data == DataMode::Ordered && !pos.is_multiple_of(BS);
        Ok(cuts && self.holds_data(inode, pos)?)
    }

    /// Starts writing the pages that the transaction's truncations have cut, where nobody has written them
    /// yet (`ext4_normal_submit_inode_data_buffers`). For the commit task: no handle is begun, so a page with
    /// which the size on media would grow waits for its file's write-back.
    pub(crate) fn write_cut(&self, cut: &BTreeSet<(u32, u32)>) -> Ticket {
        let Some(pages) = self.pages.lock().as_ref().and_then(Weak::upgrade) else { return Ticket::NONE };
        let mut all = Ticket::NONE;
        for &(ino, page) in cut {
            let may = |inode: &Inode, end: u64| {
                Ok(inode.attr().kind == FileKind::File
                    && end <= inode.private::<Node>().state.lock().disksize
                    && self.holds_data(inode, page as u64 * BS)?)
            };
            pages.write_dirty_page(Ino(ino as u64), page as u64, &may, &mut |inode, dirty| {
                if let Mapping::Mapped { start, .. } = self.map_block(inode.private::<Node>(), page)? {
                    let content = std::slice::from_ref(&dirty.page);
                    all = all.and(self.port.submit_write(Lpa(start), content, Structure::Data)?);
                }
                Ok(())
            });
        }
        all
    }

    /// Changes attributes; with a size, frees what lies behind it.
    pub(crate) fn set_attributes(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        let shrinks = set.size.is_some_and(|size| size < inode.size() || size == 0);
        let cut = match set.size.filter(|_| shrinks) {
            Some(size) if self.orders_cut(inode, size)? => Some((size / BS) as u32),
            _ => None,
        };
        self.journal.run(INODE, |h| {
            h.work(if shrinks { Kind::Truncate } else { Kind::Attributes }.inodes() + costs().inode_dirty);
            if shrinks {
                self.orphan_add(h, number(inode.ino()))?;
            }
            if let Some(page) = cut {
                h.cut_page(number(inode.ino()), page);
            }
            inode.update(|a| a.set(set, call.time));
            if let Some(size) = set.size {
                let mut s = inode.private::<Node>().state.lock();
                s.disksize = size;
                s.flush_on_close |= size == 0;
            }
            self.mark_inode(h, inode)
        })?;
        match set.size {
            Some(size) if shrinks => self.cut(inode, size),
            _ => Ok(()),
        }
    }
}
