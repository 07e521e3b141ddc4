//! The orphan list: inodes that recovery must finish with, because they lost their last name while in use, or
//! are being truncated or extended past the page cache.
//!
//! ```text
//!   superblock.last_orphan -> inode A.next_orphan -> inode B.next_orphan -> 0
//! ```
//!
//! On media it is a chain through the inodes, newest first; taking one out changes whoever points to it. The
//! double links in memory find that one. Only this module writes `next_orphan` of a live inode.

pub(crate) mod list;

use crate::fs::Ext4;
use crate::journal::Handle;
use crate::layout::superblock::Superblock;
use granary_fs::Result;

impl Ext4 {
    fn set_last_orphan(&self, h: &mut Handle<'_>, ino: u32) -> Result<()> {
        h.change(&self.superblock, |b| {
            let mut sb = Superblock::parse(b)?;
            sb.last_orphan = ino.into();
            sb.store(b);
            Ok(())
        })
    }

    fn set_next(&self, h: &mut Handle<'_>, ino: u32, next: u32) -> Result<()> {
        self.change_raw(h, ino, |raw| {
            raw.next_orphan = next.into();
            raw.seal(ino);
        })
    }

    /// Puts an inode on the list; does nothing where it is.
    pub(crate) fn orphan_add(&self, h: &mut Handle<'_>, ino: u32) -> Result<()> {
        h.work(granary_sim::costs().orphan);
        let mut o = self.orphans.lock();
        if o.links.contains_key(&ino) {
            return Ok(());
        }
        let head = o.head;
        self.set_next(h, ino, head)?;
        self.set_last_orphan(h, ino)?;
        o.links.insert(ino, (0, head));
        if let Some(l) = o.links.get_mut(&head) {
            l.0 = ino;
        }
        o.head = ino;
        Ok(())
    }

    /// Takes an inode off the list; does nothing where it is not on it.
    pub(crate) fn orphan_del(&self, h: &mut Handle<'_>, ino: u32) -> Result<()> {
        h.work(granary_sim::costs().orphan);
        let mut o = self.orphans.lock();
        let Some((newer, older)) = o.links.get(&ino).copied() else { return Ok(()) };
        match newer {
            0 => self.set_last_orphan(h, older)?,
            n => self.set_next(h, n, older)?,
        }
        self.set_next(h, ino, 0)?;
        o.links.remove(&ino);
        if let Some(l) = o.links.get_mut(&newer) {
            l.1 = older;
        }
        if let Some(l) = o.links.get_mut(&older) {
            l.0 = newer;
        }
        if o.head == ino {
            o.head = older;
        }
        Ok(())
    }
}
