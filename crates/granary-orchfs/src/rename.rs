//! Rename, replace, exchange: entries and inodes of all that are involved, in one group.

use crate::fs::OrchFs;
use crate::namespace::dir_attr;
use crate::node::{NodeState, node};
use crate::pools::{Claim, Taken};
use crate::tx::Tx;
use granary_fs::{Attr, Call, Rename, Result};
use granary_pm::corrupt;
use granary_sim::sync::RwLockWriteGuard;

/// The states of the directories: one, or two.
struct Dirs<'a> {
    from: RwLockWriteGuard<'a, NodeState>,
    to: Option<RwLockWriteGuard<'a, NodeState>>,
}

impl Dirs<'_> {
    fn to(&mut self) -> &mut NodeState {
        self.to.as_deref_mut().unwrap_or(&mut self.from)
    }
}

impl OrchFs {
    pub(crate) fn rename_node(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        self.check_alive()?;
        for inode in [r.from_dir, r.to_dir, r.inode].into_iter().chain(r.target) {
            self.check_lease(inode.ino().0)?;
        }
        let (mut taken, mut tx) = (Taken::new(&self.pools, call.process, Claim::Metadata), Tx::new(self));
        let same = r.from_dir.ino() == r.to_dir.ino();
        let mut dirs =
            Dirs { from: node(r.from_dir).state.write(), to: (!same).then(|| node(r.to_dir).state.write()) };
        let mut moved = node(r.inode).state.write();
        let mut target = r.target.map(|target| node(target).state.write());
        let kind = r.inode.view(|a| a.kind);
        let gone = || corrupt("a name that is renamed is not there");
        match (r.target, r.exchange) {
            (Some(other), true) => {
                let back = (other.ino().0, other.view(|a| a.kind));
                tx.record(dirs.from.dir_mut().redirect(r.from, back.0, back.1).ok_or_else(gone)?);
                tx.record(dirs.to().dir_mut().redirect(r.to, r.inode.ino().0, kind).ok_or_else(gone)?);
            }
            (Some(_), false) => {
                tx.record(dirs.to().dir_mut().redirect(r.to, r.inode.ino().0, kind).ok_or_else(gone)?);
                Self::remove_name(&mut tx, dirs.from.dir_mut(), r.from);
            }
            (None, _) => {
                // Entered before the old one goes: the page with the room must not leave its chain.
                let spot = self.spot(&mut taken, dirs.to().dir(), r.to)?;
                let to = (r.to_dir.ino(), dirs.to().dir_mut());
                self.enter(&mut tx, to, &spot, r.to, (r.inode.ino(), kind))?;
                Self::remove_name(&mut tx, dirs.from.dir_mut(), r.from);
            }
        }
        taken.keep();
        let (from_links, to_links) = r.links_moved();
        let links = |attr: Attr, more: i32| Attr { nlink: attr.nlink.saturating_add_signed(more), ..attr };
        let from_links = if same { from_links + to_links } else { from_links };
        let mut from = links(dir_attr(r.from_dir.attr(), dirs.from.dir(), call), from_links);
        from.blocks = dirs.from.blocks();
        tx.put_inode(node(r.from_dir), &dirs.from, &from);
        let to = dirs.to.as_deref().map(|state| {
            let attr = links(dir_attr(r.to_dir.attr(), state.dir(), call), to_links);
            Attr { blocks: state.blocks(), ..attr }
        });
        if let (Some(attr), Some(state)) = (&to, dirs.to.as_deref()) {
            tx.put_inode(node(r.to_dir), state, attr);
        }
        if let Some(dir) = &mut moved.dir {
            dir.parent = r.to_dir.ino().0;
        }
        let attr = r.inode.attr().with(|a| a.changed(call.time));
        tx.put_inode(node(r.inode), &moved, &attr);
        let mut other = None;
        if let (Some(inode), Some(state)) = (r.target, target.as_deref_mut()) {
            if r.exchange
                && let Some(dir) = &mut state.dir
            {
                dir.parent = r.from_dir.ino().0;
            }
            let attr = inode.attr().with(|a| {
                a.changed(call.time);
                if !r.exchange {
                    a.unlinked(call.time);
                }
            });
            tx.put_inode(node(inode), state, &attr);
            other = Some(attr);
        }
        tx.commit(call.process)?;
        r.from_dir.update(|a| *a = from);
        if let Some(attr) = to {
            r.to_dir.update(|a| *a = attr);
        }
        r.inode.update(|a| a.changed(call.time));
        if let (Some(inode), Some(attr)) = (r.target, other) {
            inode.update(|a| (a.nlink, a.ctime) = (attr.nlink, attr.ctime));
        }
        Ok(())
    }
}
