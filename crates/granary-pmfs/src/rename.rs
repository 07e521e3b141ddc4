//! Rename, replace, exchange: one transaction.
//!
//! ```text
//!   to a new name     an entry in the new directory, the old one removed
//!   over another      the other's entry leads to the inode, the old one removed; the other loses a link
//!   exchange          both entries lead to the other inode
//!   a directory that moves: its ".." leads to the new parent
//! ```
//!
//! Source: PMFS section 3.2; reference/baselines.md section 7.2 (13 entries).

use crate::fs::{Pmfs, node};
use crate::journal::Edit;
use crate::layout::inode::Tree;
use crate::namespace::inode_edit;
use granary_device::Structure;
use granary_fs::{Attr, Call, FileKind, FsError, Inode, Rename, Result};
use std::sync::atomic::Ordering::Relaxed;

/// An inode that takes part: before and after.
struct Part<'i> {
    inode: &'i Inode,
    old: (Attr, Tree),
    new: (Attr, Tree),
}

impl<'i> Part<'i> {
    fn new(inode: &'i Inode) -> Part<'i> {
        let now = (inode.attr(), *node(inode).tree.read());
        Part { inode, old: now, new: now }
    }

    fn edit(&self) -> Edit {
        inode_edit(node(self.inode).addr, (&self.old.0, self.old.1), (&self.new.0, self.new.1))
    }

    fn apply(&self) {
        *node(self.inode).tree.write() = self.new.1;
        self.inode.update(|a| *a = self.new.0);
    }
}

impl Pmfs {
    pub(crate) fn rename_node(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        let _step = granary_sim::step("pmfs: a file is renamed");
        let cross = r.from_dir.ino() != r.to_dir.ino();
        let mut dirs = vec![Part::new(r.from_dir)];
        if cross {
            dirs.push(Part::new(r.to_dir));
        }
        let to = dirs.len() - 1;
        let mut moved = Part::new(r.inode);
        let mut target = r.target.map(Part::new);
        let is_dir = |p: &Part<'_>| p.old.0.kind == FileKind::Dir;
        let (dir_moves, dir_target) = (is_dir(&moved), target.as_ref().is_some_and(is_dir));
        let (leave, come) = r.links_moved();
        for (i, links) in [(0, leave), (to, come)] {
            let dir = &mut dirs[i].new.0;
            dir.nlink = dir.nlink.wrapping_add_signed(links);
            dir.modified(call.time);
        }
        moved.new.0.changed(call.time);
        if let Some(t) = &mut target {
            t.new.0.changed(call.time);
            if !r.exchange {
                t.new.0.unlinked(call.time);
            }
        }
        let dies = target.as_ref().is_some_and(|t| t.new.0.nlink == 0);
        let mut list = dies.then(|| self.list.lock());

        let find =
            |p: &Part<'_>, name: &[u8]| self.find(p.old.1, p.old.0.size, name)?.ok_or(FsError::NoEntry);
        let from_place = find(&dirs[0], r.from)?;
        let (ino, kind) = (r.inode.ino().0, moved.old.0.kind);
        self.stores(|b| {
            let mut entries = Vec::new();
            match &target {
                Some(t) => {
                    let to_place = find(&dirs[to], r.to)?;
                    entries.push(self.redirection(&to_place, ino, kind)?);
                    if r.exchange {
                        entries.push(self.redirection(&from_place, t.inode.ino().0, t.old.0.kind)?);
                    } else {
                        // Behind the redirection: it may be the entry that grows over the old name.
                        entries.push(self.removal(&from_place));
                    }
                }
                None => {
                    let gone = (!cross).then_some(&from_place);
                    let entered = self.enter(b, r.to_dir, r.to, (ino, kind), gone)?;
                    let d = &mut dirs[to].new;
                    (d.1, d.0.size, d.0.blocks) = (entered.tree, entered.size, entered.blocks);
                    entries.extend(entered.edits);
                    entries.push(self.removal(&from_place));
                }
            }
            if cross && dir_moves {
                entries.push(self.redirection(
                    &self.dotdot(node(r.inode))?,
                    r.to_dir.ino().0,
                    FileKind::Dir,
                )?);
            }
            if let Some(t) = target.as_ref().filter(|_| cross && r.exchange && dir_target) {
                let place = self.dotdot(node(t.inode))?;
                entries.push(self.redirection(&place, r.from_dir.ino().0, FileKind::Dir)?);
            }
            let mut inodes: Vec<Edit> = dirs.iter().map(Part::edit).collect();
            inodes.push(moved.edit());
            if let Some(t) = &target {
                inodes.push(t.edit());
                if let Some(list) = &list {
                    self.put_item(b, node(t.inode).addr, list, None)?;
                    inodes.push(self.head_edit(list, t.inode.ino().0));
                }
            }
            debug_assert!(inodes.iter().all(|e| e.what == Structure::Inode));
            self.transact(b, &[entries, inodes])
        })?;
        if let (Some(list), Some(t)) = (&mut list, &target) {
            list.push(t.inode.ino().0);
        }
        for part in dirs.iter().chain([&moved]).chain(&target) {
            part.apply();
        }
        if cross && dir_moves {
            node(r.inode).parent.store(r.to_dir.ino().0, Relaxed);
        }
        if let Some(t) = target.filter(|_| cross && r.exchange && dir_target) {
            node(t.inode).parent.store(r.from_dir.ino().0, Relaxed);
        }
        Ok(())
    }
}
