//! Entries that change where they lie, in a lite transaction.
//!
//! ```text
//!   rename            the old dentry dead, the replaced one dead, ".." leads to the new parent
//!   unlink, no page   the dentry dead | the directory's ".": its links and times | the inode: no longer valid, or the entry that
//!                     says how many links it has
//! ```
//!
//! An unlink that finds no page for its log entries takes the name away like this: it needs no space, so that a full file
//! system can always be emptied. What it changes is what a replay reads: a dead dentry adds nothing, and "." has the highest
//! epoch of its log afterwards.
//!
//! Our own; the original's unlink fails with ENOSPC there (`nova_append_dir_inode_entry`).

use crate::Nova;
use crate::layout::entry::{self, DENTRY_DEAD};
use crate::layout::{PAGE_ENTRIES, inode as place};
use crate::log::Pending;
use crate::node::State;
use granary_mssd::Structure;
use granary_pm::bytes::u64_at;
use granary_pm::{BLOCK, Batch, corrupt};
use granary_vfs::{Cx, FileKind, FsError, Inode, Result};

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

    /// The entry that says how many links an inode has left, with one less.
    ///
    /// # Errors
    /// `NoSpace` where no entry says so: the inode was never linked.
    fn fewer_links(&self, st: &State, cx: &Cx<'_>, links: u32) -> Result<InPlace> {
        let epoch = st.epoch.wrapping_add(1);
        if st.last_link != 0 {
            let new = entry::link(epoch, links, cx.time);
            return self.change_words(st.last_link, entry::LINK, |b| b.copy_from_slice(&new));
        }
        if st.last_attr.addr == 0 {
            return Err(FsError::NoSpace);
        }
        // The epoch stays: sizes and times of write entries that came later count.
        self.change_words(st.last_attr.addr, entry::ATTR, |b| entry::set_links(b, links, cx.time))
    }

    /// Takes a name away without a log entry, so without space. `links`: those left, `dir_links`: the directory's.
    pub(crate) fn unlink_in_place(
        &self,
        b: &mut Batch<'_>,
        cx: &Cx<'_>,
        (dir, dst): (&Inode, &mut State),
        name: &[u8],
        (inode, st): (&Inode, &mut State),
        (links, dir_links): (u32, u32),
    ) -> Result<()> {
        let old = dst.dir().get(name).map(|d| d.addr);
        let old = old.ok_or_else(|| corrupt("a name that is taken away is not there"))?;
        let epoch = dst.epoch.wrapping_add(1);
        let dot = entry::dentry(epoch, b".", dir.ino().0, FileKind::Dir, cx.time, dir_links);
        let mut changes = vec![
            self.in_place(old, |b| b[DENTRY_DEAD as usize] = 1)?,
            self.in_place(dst.dir().dot, |b| b.copy_from_slice(&dot[..32]))?,
        ];
        let word = st.word & !0xff;
        let mut words = Vec::new();
        if links == 0 {
            words.extend([(st.slot, st.word), (st.slot + place::DELETE_EPOCH, 0)]);
        } else {
            changes.push(self.fewer_links(st, cx, links)?);
        }
        words.extend(changes.iter().flat_map(InPlace::words));
        self.transaction(b, &words, |b| {
            changes.iter().try_for_each(|c| b.put(c.addr, &c.new, Structure::Dentry))?;
            if links == 0 { self.put_deleted(b, st, word) } else { Ok(()) }
        })?;
        if links == 0 {
            st.word = word;
        } else if st.last_link != 0 {
            st.epoch = st.epoch.wrapping_add(1);
        }
        dst.epoch = epoch;
        dir.update(|a| (a.mtime, a.ctime, a.nlink) = (cx.time, cx.time, dir_links));
        inode.update(|a| (a.nlink, a.ctime) = (links, cx.time));
        dst.dir_mut().remove(name);
        self.born_dead(b, dst, old)?;
        b.write_back()
    }

    /// The entries of an operation that failed do not count: the pages' own counts are what they were.
    pub(crate) fn take_back(&self, b: &mut Batch<'_>, st: &State, p: &Pending) -> Result<()> {
        for page in p.pages() {
            let page = st.pages[page];
            b.put_u32(page.block * BLOCK + PAGE_ENTRIES, page.entries, Structure::Log)?;
        }
        Ok(())
    }

    /// Log pages that nothing needs are free, those prepared and those in which everything is dead.
    pub(crate) fn shrink_log(&self, st: &mut State) -> Result<()> {
        self.stores(|b| {
            self.give_prepared(b, st)?;
            if st.pages.iter().take(st.current).any(|p| p.dead >= p.entries) {
                b.fence()?;
                self.clean_fast(b, st)?;
            }
            Ok(())
        })
    }
}
