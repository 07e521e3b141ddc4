//! Rename: move, replace, exchange, each in one transaction.
//!
//! ```text
//!   same directory, as many slots:   the entry is rewritten in place
//!   else:                            new entry in the target directory, old head cleared
//!   replace:                         the target's head points at the moved inode; the old head is cleared
//!   exchange:                        both heads swap their inodes
//! ```
//!
//! A directory that moves to another parent also changes the cold half of its inode (`parent`).

use crate::core::Core;
use crate::dir::{DentryPlace, Found};
use crate::journal::Tx;
use crate::namespace::{Removal, lock_all};
use crate::node::{Half, node};
use crate::space::Claim;
use granary_fs::{Call, FileKind, Inode, Rename, Result};
use granary_kit::Block;
use granary_kit::work::Kind;
use std::sync::Arc;

/// How the names change.
enum Way {
    InPlace,
    Move(DentryPlace),
    Replace(Found, Removal),
    Exchange(Found),
}

impl Core {
    /// See [`granary_fs::Names::rename`].
    pub fn rename(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        let (from_dir, to_dir, moved) = (node(r.from_dir), node(r.to_dir), node(r.inode));
        // The vfs renames nothing onto itself. Callers past it (tests) may: the name would go, and the file
        // with it.
        if r.target.is_some_and(|t| node(t).ino == moved.ino) {
            return Ok(());
        }
        self.journal.alive()?;
        let mut all = vec![from_dir, to_dir, moved];
        all.extend(r.target.map(node));
        let _change = lock_all(&mut all);
        let found = self.find_entry(from_dir, r.from, moved.ino)?;
        let same_dir = from_dir.ino == to_dir.ino;
        let from_block = self.inode_block(from_dir.ino)?;
        let to_block = self.inode_block(to_dir.ino)?;
        // All that has to be read is read before a plan changes a directory's map: what fails then leaves
        // nothing behind.
        let moved_block = self.inode_block(moved.ino)?;
        let target_block = r.target.map(|t| self.inode_block(node(t).ino)).transpose()?;
        let mut tx = Tx::new(self);
        tx.work(Kind::Rename.inodes() + self.removal_work(from_dir));
        let way = self.plan_way(&mut tx, r, &found)?;
        let to_half = if let Way::Move(place) = &way { place.half } else { Half::Hot };
        tx.touch(&from_block, self.inode_lines(from_dir.ino, Half::Hot));
        tx.touch(&to_block, self.inode_lines(to_dir.ino, to_half));
        let other = if let Way::Exchange(_) = way { r.target.zip(target_block) } else { None };
        let mut written: Vec<(Arc<Block>, &Inode)> = Vec::with_capacity(2);
        for (changed, now_in) in [(Some((r.inode, moved_block)), to_dir), (other, from_dir)] {
            let Some((inode, block)) = changed else { continue };
            let moves_up = node(inode).kind == FileKind::Dir && !same_dir;
            tx.touch(
                &block,
                self.inode_lines(node(inode).ino, if moves_up { Half::Both } else { Half::Hot }),
            );
            if moves_up {
                node(inode).body.lock().parent = now_in.ino;
            }
            written.push((block, inode));
        }
        let seq = tx.run(|| {
            self.change_names(r, &found, &way);
            let (leaves, comes) = r.links_moved();
            self.stamp_dir(call, r.from_dir, leaves);
            self.stamp_dir(call, r.to_dir, comes);
            self.put_inode(&from_block, r.from_dir);
            self.put_inode(&to_block, r.to_dir);
            for (block, inode) in &written {
                inode.update(|a| a.changed(call.time));
                self.put_inode(block, inode);
            }
            if let (Way::Replace(_, removal), Some(target)) = (&way, r.target) {
                self.remove(call, target, removal);
            }
        })?;
        all.iter().for_each(|n| n.depends(seq));
        self.shrink_dir(r.from_dir)
    }

    fn plan_way(&self, tx: &mut Tx<'_>, r: &Rename<'_>, found: &Found) -> Result<Way> {
        let (from_dir, to_dir) = (node(r.from_dir), node(r.to_dir));
        let way = match r.target {
            Some(target) => {
                let old = self.find_entry(to_dir, r.to, node(target).ino)?;
                tx.touch(&old.block, old.head_line());
                match r.exchange {
                    true => Way::Exchange(old),
                    false => Way::Replace(old, self.plan_removal(tx, target)?),
                }
            }
            None => {
                self.may_enter(to_dir)?;
                let slots = crate::layout::dentry::slots_for(r.to.len());
                if from_dir.ino == to_dir.ino && slots == found.slots {
                    tx.touch_lines(&found.block, found.head_line().trailing_zeros(), slots);
                    Way::InPlace
                } else {
                    Way::Move(self.plan_entry(tx, to_dir, r.to, Claim::Kept)?)
                }
            }
        };
        tx.touch(&found.block, found.head_line());
        Ok(way)
    }

    fn change_names(&self, r: &Rename<'_>, found: &Found, way: &Way) {
        let (from_dir, to_dir, moved) = (node(r.from_dir), node(r.to_dir), node(r.inode));
        match way {
            Way::InPlace => self.rewrite_entry(from_dir, found, r.from, r.to, moved.kind),
            Way::Move(place) => {
                self.put_entry(to_dir, place, r.to, moved.ino, moved.kind);
                self.clear_entry(from_dir, found, r.from);
            }
            Way::Replace(old, _) => {
                old.point_at(moved.ino, moved.kind);
                self.clear_entry(from_dir, found, r.from);
            }
            Way::Exchange(old) => {
                let kind = r.target.map_or(moved.kind, |t| node(t).kind);
                old.point_at(moved.ino, moved.kind);
                found.point_at(old.ino, kind);
            }
        }
    }
}
