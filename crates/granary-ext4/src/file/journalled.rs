//! File data with `data = "journal"`.

use super::{WRITE, owner};
use crate::extents::Mapping;
use crate::fs::Ext4;
use crate::journal::Handle;
use crate::node::{Node, show_blocks};
use granary_fs::{DirtyPage, FsError, Inode, Result};

impl Ext4 {
    /// Puts pages into the journal, each in one handle with its mapping and the size that reaches it, as the
    /// kernel's write path does.
    pub(crate) fn journal_pages(&self, inode: &Inode, pages: &[DirtyPage]) -> Result<()> {
        let node = inode.private::<Node>();
        for page in pages {
            let at = page.index as u32;
            let end = page.end().min(inode.size());
            let journalled = self.transaction(WRITE, |h| self.journal_page(h, inode, at, page, end));
            match journalled {
                Err(FsError::NoSpace) if self.is_unwritten(node, at)? => {
                    self.mark_whole(inode, at, at + 1, &[])?;
                    self.transaction(WRITE, |h| self.journal_page(h, inode, at, page, end))?;
                }
                other => other?,
            }
        }
        Ok(())
    }

    pub(super) fn journal_page(
        &self,
        h: &mut Handle<'_>,
        inode: &Inode,
        at: u32,
        page: &DirtyPage,
        end: u64,
    ) -> Result<()> {
        let node = inode.private::<Node>();
        let (start, mapped) = match self.map_block(node, at)? {
            Mapping::Mapped { start, unwritten: false, .. } => (start, false),
            Mapping::Mapped { start, .. } => {
                let _tree = node.map.write();
                self.mark_written(h, owner(inode), at, at + 1)?;
                show_blocks(inode, &node.state.lock());
                (start, true)
            }
            Mapping::Hole { .. } => (self.map_hole(h, inode, at, at + 1, false)?.0, true),
        };
        h.data(start, page.page.clone());
        let grows = {
            let mut s = node.state.lock();
            s.journalled.insert(start);
            let before = s.disksize;
            s.disksize = before.max(end);
            end > before
        };
        if mapped || grows { self.mark_inode(h, inode) } else { Ok(()) }
    }

    /// fsync with a data journal: what earlier commits made dirty pages of is written home, as the kernel's
    /// first step (`file_write_and_wait_range`) does; then whatever transaction the data is in commits
    /// (`ext4_force_commit`).
    pub(crate) fn fsync_journalled(&self, inode: &Inode) -> Result<()> {
        let node = inode.private::<Node>();
        let waiting = std::mem::take(&mut node.state.lock().journalled);
        let rest = self.journal.write_some_home(waiting.into_iter().collect())?;
        node.state.lock().journalled.extend(rest);
        self.journal.commit_all()
    }
}
