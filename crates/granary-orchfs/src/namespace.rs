//! Names: create, link, unlink.
//!
//! ```text
//!   create   a new directory page where one is needed | entry, the directory's inode, the new inode: one
//!            group
//!   unlink   entry zeroed (or its page leaves the chain), both inodes
//! ```
//!
//! An inode without links lives on until it is evicted; after a power failure mount frees it.

use crate::blob;
use crate::dir::{DentryPlace, Dir};
use crate::fs::OrchFs;
use crate::layout::{Area, dentry, inode};
use crate::node::{Node, NodeState, node, with_blocks};
use crate::pools::{Claim, Taken};
use crate::tx::Tx;
use granary_device::Structure;
use granary_fs::{Attr, Call, Created, DirEntry, FileKind, Ino, Inode, Names, NewNode, Rename, Result};
use granary_units::{PAGE_SIZE, Page, Payload};

/// Attributes of a directory whose entries changed.
pub(crate) fn dir_attr(old: Attr, dir: &Dir, call: &Call<'_>) -> Attr {
    Attr { size: (dir.pages() * PAGE_SIZE) as u64, ..old.with(|a| a.modified(call.time)) }
}

/// Where a name goes in a directory, with a new page for it where it takes one.
pub(crate) struct Spot {
    page: u64,
    unit: usize,
    is_new: bool,
}

impl OrchFs {
    /// Finds room for a name; takes a page where there is none.
    pub(crate) fn spot(&self, taken: &mut Taken<'_>, dir: &Dir, name: &[u8]) -> Result<Spot> {
        Ok(match dir.place(name) {
            DentryPlace::Here(page, unit) => Spot { page, unit, is_new: false },
            DentryPlace::NewPage => Spot { page: self.take(taken, Area::Page)?, unit: 1, is_new: true },
        })
    }

    /// Enters a name.
    pub(crate) fn enter(
        &self,
        tx: &mut Tx<'_>,
        (dir_ino, dir): (Ino, &mut Dir),
        spot: &Spot,
        name: &[u8],
        (ino, kind): (Ino, FileKind),
    ) -> Result<()> {
        if spot.is_new {
            let mut page = Page::ZERO;
            page.write(0, Payload::Bytes(&dentry::page_head(dir_ino.0, 0)));
            let at = self.layout.at(Area::Page, spot.page);
            tx.batch.stream(at, Payload::Bytes(&page.to_bytes()), Structure::Dentry)?;
            if let Some(record) = dir.add_page(spot.page) {
                tx.record(record);
            }
        }
        tx.record(dir.insert((spot.page, spot.unit), name, ino.0, kind));
        Ok(())
    }

    /// Takes a name away.
    pub(crate) fn remove_name(tx: &mut Tx<'_>, dir: &mut Dir, name: &[u8]) {
        if let Some((records, gone)) = dir.remove(name) {
            records.into_iter().for_each(|record| tx.record(record));
            if let Some(page) = gone {
                tx.free(Area::Page, page);
            }
        }
    }

    /// A new inode in memory, with its number and what its target takes.
    fn new_node(
        &self,
        taken: &mut Taken<'_>,
        tx: &mut Tx<'_>,
        call: &Call<'_>,
        new: &NewNode<'_>,
        parent: u64,
    ) -> Result<(Node, NodeState, Attr)> {
        let ino = self.take(taken, Area::Inode)?;
        let mut state = NodeState::default();
        let mut attr = new.attr(call.time);
        match new.kind {
            FileKind::Dir => state.dir = Some(Dir::new(parent)),
            FileKind::Symlink => {
                (attr.size, state.target) = (new.target.len() as u64, new.target.to_vec());
                if new.target.len() > inode::INLINE {
                    for _ in 0..blob::pages(new.target.len()) {
                        state.target_pages.push(self.take(taken, Area::Page)?);
                    }
                    blob::write(&mut tx.batch, &self.layout, ino, &state.target_pages, new.target)?;
                }
            }
            _ => {}
        }
        let generation = self.generations.next();
        let node = Node::new(Ino(ino), generation, attr.size, self.options.range_lock);
        tx.made(&node);
        self.called(call);
        Ok((node, state, attr))
    }

    fn created(&self, node: Node, state: NodeState, attr: Attr) -> Created {
        let attr = with_blocks(attr, &state);
        *node.state.write() = state;
        Created { ino: node.ino, loaded: self.loaded(node, attr) }
    }
}

impl Names for OrchFs {
    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        Ok(node(dir).state.read().dir().get(name).map(|entry| Ino(entry.dentry.ino)))
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let state = node(dir).state.read();
        for entry in state.dir().after(from) {
            let d = &entry.dentry;
            if !emit(DirEntry { name: &d.name, ino: Ino(d.ino), kind: d.kind, next: d.cookie }) {
                break;
            }
        }
        Ok(())
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        node(dir).state.read().dir().last()
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).state.read().dir().parent))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        Ok(node(dir).state.read().dir().is_empty())
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        Ok(node(inode).state.read().target.clone())
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.check_alive()?;
        self.check_lease(dir.ino().0)?;
        let (mut taken, mut tx) = (Taken::new(&self.pools, call.process, Claim::Metadata), Tx::new(self));
        let dir_node = node(dir);
        let mut dir_state = dir_node.state.write();
        let spot = self.spot(&mut taken, dir_state.dir(), name)?;
        let (node, state, attr) = self.new_node(&mut taken, &mut tx, call, new, dir.ino().0)?;
        self.enter(&mut tx, (dir.ino(), dir_state.dir_mut()), &spot, name, (node.ino, new.kind))?;
        taken.keep();
        let mut own = dir_attr(dir.attr(), dir_state.dir(), call);
        own.nlink += u32::from(new.kind == FileKind::Dir);
        own.blocks = dir_state.blocks();
        tx.put_inode(dir_node, &dir_state, &own);
        tx.put_inode(&node, &state, &attr);
        tx.commit(call.process)?;
        dir.update(|a| *a = own);
        Ok(self.created(node, state, attr))
    }

    /// A file without a name: mount would free it.
    fn create_unnamed(&self, call: &Call<'_>, _dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.check_alive()?;
        let (mut taken, mut tx) = (Taken::new(&self.pools, call.process, Claim::Metadata), Tx::new(self));
        let (node, state, attr) = self.new_node(&mut taken, &mut tx, call, new, 0)?;
        let attr = Attr { nlink: 0, ..attr };
        taken.keep();
        tx.put_inode(&node, &state, &attr);
        tx.commit(call.process)?;
        Ok(self.created(node, state, attr))
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.check_alive()?;
        self.check_lease(dir.ino().0)?;
        self.check_lease(inode.ino().0)?;
        let (mut taken, mut tx) = (Taken::new(&self.pools, call.process, Claim::Metadata), Tx::new(self));
        let mut dir_state = node(dir).state.write();
        let state = node(inode).state.read();
        let spot = self.spot(&mut taken, dir_state.dir(), name)?;
        let old = inode.attr();
        self.enter(&mut tx, (dir.ino(), dir_state.dir_mut()), &spot, name, (inode.ino(), old.kind))?;
        taken.keep();
        let own = Attr { blocks: dir_state.blocks(), ..dir_attr(dir.attr(), dir_state.dir(), call) };
        let attr = old.with(|a| a.linked(call.time));
        tx.put_inode(node(dir), &dir_state, &own);
        tx.put_inode(node(inode), &state, &attr);
        tx.commit(call.process)?;
        dir.update(|a| *a = own);
        inode.update(|a| (a.nlink, a.ctime) = (attr.nlink, attr.ctime));
        Ok(())
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.check_alive()?;
        self.check_lease(dir.ino().0)?;
        self.check_lease(inode.ino().0)?;
        let mut tx = Tx::new(self);
        let mut dir_state = node(dir).state.write();
        let state = node(inode).state.read();
        let old = inode.attr();
        Self::remove_name(&mut tx, dir_state.dir_mut(), name);
        let mut own = dir_attr(dir.attr(), dir_state.dir(), call);
        own.nlink -= u32::from(old.kind == FileKind::Dir).min(own.nlink);
        own.blocks = dir_state.blocks();
        let attr = old.with(|a| a.unlinked(call.time));
        tx.put_inode(node(dir), &dir_state, &own);
        tx.put_inode(node(inode), &state, &attr);
        tx.commit(call.process)?;
        dir.update(|a| *a = own);
        inode.update(|a| (a.nlink, a.ctime) = (attr.nlink, attr.ctime));
        Ok(())
    }

    fn rename(&self, call: &Call<'_>, rename: &Rename<'_>) -> Result<()> {
        self.rename_node(call, rename)
    }
}
