//! Entries and inodes that change where they lie, in a lite transaction.
//!
//! ```text
//!   rename             the old dentry dead, the replaced one dead, ".." leads to the new parent
//!   unlink, no page    the dentry dead | the directory's ".": its links and times | the inode: no longer
//!                      valid, or its attributes
//!   setattr, no page   the inode: all attributes, and the epoch of the log from which they count
//! ```
//!
//! An unlink or a change of attributes that finds no page for its log entry is made like this. It needs no
//! space, so that a full file system can always be emptied, and its files cut. A replay reads the changed
//! fields: a dead dentry adds nothing; "." has the highest epoch of its log afterwards, and so has the inode.
//! A truncation that frees blocks is none of these: its entry must be in the log, behind the write entries
//! that it cuts. It has a reserve (`setattr`).
//!
//! Our own; the original's unlink and setattr fail with ENOSPC there (`nova_append_dir_inode_entry`,
//! `nova_handle_setattr_operation`). The way is the original's for entries that change in place: NOVA
//! section 4.4.

use crate::Nova;
use crate::layout::entry::{self, DENTRY_DEAD};
use crate::layout::{PAGE_ENTRIES, inode as place};
use crate::log::Pending;
use crate::node::NodeState;
use granary_device::Structure;
use granary_fs::{Attr, Call, FileKind, Inode, Result};
use granary_pm::bytes::u64_at;
use granary_pm::{BLOCK, Batch, corrupt};

/// Bytes of an entry that change: some words before and after.
pub struct InPlace {
    pub addr: u64,
    old: Vec<u8>,
    pub new: Vec<u8>,
}

impl InPlace {
    /// Its words, as a lite transaction has them.
    pub fn words(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..self.old.len()).step_by(8).map(|i| (self.addr + i as u64, u64_at(&self.old, i)))
    }
}

impl Nova {
    /// A change of the first four words of the entry at `addr`.
    pub(crate) fn in_place(&self, addr: u64, change: impl FnOnce(&mut [u8])) -> Result<InPlace> {
        self.change_words(addr, 32, change)
    }

    fn change_words(&self, addr: u64, len: usize, change: impl FnOnce(&mut [u8])) -> Result<InPlace> {
        let mut old = vec![0; len];
        self.pm.load(addr, &mut old, Structure::Dentry)?;
        let mut new = old.clone();
        change(&mut new);
        Ok(InPlace { addr, old, new })
    }

    /// The inode with other attributes, newer than all that its log says.
    fn inode_in_place(&self, st: &NodeState, attr: &Attr, cut: bool) -> Result<InPlace> {
        let mut bytes = [0; place::SIZE];
        self.pm.load(st.slot, &mut bytes, Structure::Inode)?;
        let old = bytes[..place::CHANGED].to_vec();
        place::changed(&mut bytes, attr, st.epoch.wrapping_add(1), cut);
        Ok(InPlace { addr: st.slot, old, new: bytes[..place::CHANGED].to_vec() })
    }

    /// The change of [`Nova::inode_in_place`] is committed.
    fn inode_changed(st: &mut NodeState, change: &InPlace) {
        st.word = u64_at(&change.new, 0);
        st.epoch = st.epoch.wrapping_add(1);
    }

    /// Changes attributes without a log entry, so without space. `cut`: the size is smaller, and no block is
    /// freed.
    pub(crate) fn attributes_in_place(
        &self,
        b: &mut Batch<'_>,
        st: &mut NodeState,
        attr: &Attr,
        cut: bool,
    ) -> Result<()> {
        let change = self.inode_in_place(st, attr, cut)?;
        let words: Vec<_> = change.words().collect();
        self.transaction(b, &words, |b| b.put(change.addr, &change.new, Structure::Inode))?;
        Self::inode_changed(st, &change);
        Ok(())
    }

    /// Takes a name away without a log entry, so without space. `links`: those left, `dir_links`: the
    /// directory's.
    pub(crate) fn unlink_in_place(
        &self,
        b: &mut Batch<'_>,
        call: &Call<'_>,
        (dir, dst): (&Inode, &mut NodeState),
        name: &[u8],
        (inode, st): (&Inode, &mut NodeState),
        (links, dir_links): (u32, u32),
    ) -> Result<()> {
        let old = dst.dir().get(name).map(|d| d.addr);
        let old = old.ok_or_else(|| corrupt("a name that is taken away is not there"))?;
        let epoch = dst.epoch.wrapping_add(1);
        let dot = entry::dentry(epoch, b".", dir.ino().0, FileKind::Dir, call.time, dir_links);
        let changes = [
            self.in_place(old, |b| b[DENTRY_DEAD as usize] = 1)?,
            self.in_place(dst.dir().dot, |b| b.copy_from_slice(&dot[..32]))?,
        ];
        let word = st.word & !0xff;
        let left = Attr { nlink: links, ..inode.attr().with(|a| a.changed(call.time)) };
        let kept = if links > 0 { Some(self.inode_in_place(st, &left, false)?) } else { None };
        let mut words: Vec<_> = changes.iter().chain(&kept).flat_map(InPlace::words).collect();
        if links == 0 {
            words.extend([(st.slot, st.word), (st.slot + place::DELETE_EPOCH, 0)]);
        }
        self.transaction(b, &words, |b| {
            changes.iter().try_for_each(|c| b.put(c.addr, &c.new, Structure::Dentry))?;
            match &kept {
                Some(c) => b.put(c.addr, &c.new, Structure::Inode),
                None => self.put_deleted(b, st, word),
            }
        })?;
        match &kept {
            Some(change) => Self::inode_changed(st, change),
            None => st.word = word,
        }
        dst.epoch = epoch;
        dir.update(|a| {
            a.modified(call.time);
            a.nlink = dir_links;
        });
        inode.update(|a| *a = left);
        dst.dir_mut().remove(name);
        self.born_dead(b, dst, old)?;
        b.write_back()
    }

    /// The entries of an operation that failed do not count: the pages' own counts are what they were. The
    /// pages of a log that was to begin are free: no inode leads to them.
    pub(crate) fn take_back(&self, b: &mut Batch<'_>, st: &mut NodeState, p: &Pending) -> Result<()> {
        if st.tail == 0 {
            return st.pages.drain(..).try_for_each(|page| self.free.give(page.block, 1));
        }
        for page in p.pages() {
            let page = st.pages[page];
            b.put_u32(page.block * BLOCK + PAGE_ENTRIES, page.entries, Structure::Log)?;
        }
        Ok(())
    }

    /// Log pages that nothing needs are free: those in which everything is dead, and those prepared, but for
    /// as many as `keeps` says for a log of that many pages.
    pub(crate) fn shrink_log(&self, st: &mut NodeState, keeps: impl FnOnce(usize) -> usize) -> Result<()> {
        self.stores(|b| {
            if st.pages.iter().take(st.current).any(|p| p.dead >= p.entries) {
                b.fence()?;
                self.clean_fast(b, st)?;
            }
            self.give_prepared(b, st, keeps(st.current + 1))
        })
    }
}
