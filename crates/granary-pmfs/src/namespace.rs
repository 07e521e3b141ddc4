//! Names: create, link, unlink, and the end of an inode. Each is one transaction.
//!
//! ```text
//!   create   undo: new inode | directory inode | dentry (and pointers, where the directory grows)
//!   unnamed  undo: new inode | head of the truncate list
//!   link     undo: inode | directory inode | dentry | with the first name the pointer to the inode in the
//!                  truncate list
//!   unlink   undo: inode | dentry | directory inode, head of the truncate list with the last link
//!   evict    undo: the pointer to the inode in the truncate list; then its blocks are free
//! ```
//!
//! Source: PMFS section 3.2; reference/baselines.md section 7.3.

use crate::fs::{Pmfs, node};
use crate::journal::Edit;
use crate::layout::inode::{SIZE, Tree, bytes, new_bytes};
use crate::layout::{Bytes, LIST_HEAD};
use crate::tree::Mapping;
use granary_device::Structure;
use granary_fs::{
    Attr, Call, Created, DirEntry, FileKind, FsError, Ino, Inode, Names, NewNode, Rename, Result,
};
use granary_pm::{BLOCK, Batch, From};
use granary_units::{Dest, Payload};
use smallvec::smallvec;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

/// The bytes in which an inode changes.
pub fn inode_edit(addr: u64, old: (&Attr, Tree), new: (&Attr, Tree)) -> Edit {
    let (old, new) = (bytes(old.0, old.1), bytes(new.0, new.1));
    let first = (0..SIZE).find(|i| old[*i] != new[*i]).unwrap_or(0) / 8 * 8;
    let end = (0..SIZE).rev().find(|i| old[*i] != new[*i]).map_or(8, |i| (i + 8) / 8 * 8);
    Edit {
        addr: addr + first as u64,
        old: Bytes::from_slice(&old[first..end]),
        new: Bytes::from_slice(&new[first..end]),
        what: Structure::Inode,
    }
}

/// An inode number in the truncate list changes.
fn word_edit(addr: u64, old: u64, new: u64) -> Edit {
    let word = |n: u64| Bytes::from_slice(&n.to_le_bytes());
    Edit { addr, old: word(old), new: word(new), what: Structure::Inode }
}

/// A name that is to be entered, planned: nothing on media has changed.
pub struct Entered {
    /// Changes of entries and pointers.
    pub edits: Vec<Edit>,
    /// The directory's tree, size and blocks afterwards.
    pub tree: Tree,
    pub size: u64,
    pub blocks: u64,
}

impl Pmfs {
    /// Gives blocks of an inode back that no pointer leads to any more, as a walk calls them: (block, whether
    /// it is data). A redo log that knows them as metadata is emptied first: who gets them next may store
    /// past it.
    pub(crate) fn give_freed(&self, freed: &[(u64, bool)]) -> Result<()> {
        if freed.iter().any(|(_, is_data)| !is_data) {
            self.pm.settle()?;
        }
        if let Some(dentries) = &self.dentries {
            freed.iter().filter(|(_, is_data)| !is_data).for_each(|(block, _)| dentries.forget(*block));
        }
        self.give_all(freed.iter().map(|(block, _)| *block))
    }

    /// Gives blocks back one by one.
    pub(crate) fn give_all(&self, blocks: impl IntoIterator<Item = u64>) -> Result<()> {
        blocks.into_iter().try_for_each(|block| self.free.give(block, 1))
    }

    /// Pointers that are to change, as edits of whole runs.
    pub(crate) fn pointer_edits(m: &Mapping) -> Vec<Edit> {
        let runs = m.runs(6);
        let edit = |(addr, new): (u64, Vec<u8>)| Edit {
            addr,
            old: smallvec![0; new.len()],
            new: new.into(),
            what: Structure::DataPointer,
        };
        runs.into_iter().map(edit).collect()
    }

    /// Plans an entry: in room that there is, or in a new block. `gone`: an entry that goes at the same time.
    pub(crate) fn enter(
        &self,
        b: &mut Batch<'_>,
        dir: &Inode,
        name: &[u8],
        (ino, kind): (u64, FileKind),
        gone: Option<&crate::dir::DentryPlace>,
    ) -> Result<Entered> {
        let tree = *node(dir).tree.read();
        let (size, blocks) = dir.view(|a| (a.size, a.blocks));
        if let Some(room) = self.room(tree, size, Pmfs::entry_need(name), gone)? {
            let edits = self.insertion(&room, ino, kind, name)?;
            return Ok(Entered { edits, tree, size, blocks });
        }
        let (block, _) = self.free.take(0, 1, From::Below, false).ok_or(FsError::NoSpace)?;
        let mut m = Mapping::new(tree);
        let mapped = self.map(&mut m, size / BLOCK, &[block]);
        if let Err(e) = mapped {
            self.give_all(m.node_blocks().chain([block]))?;
            return Err(e);
        }
        b.put(block * BLOCK, &Pmfs::lone_entry(ino, kind, name), Structure::Dentry)?;
        m.write_nodes(b)?;
        let edits = Pmfs::pointer_edits(&m);
        Ok(Entered { edits, tree: m.tree, size: size + BLOCK, blocks: blocks.saturating_add(BLOCK / 512) })
    }

    /// Takes an inode out of the truncate list.
    fn unlisting(&self, list: &[u64], ino: Ino) -> Result<Edit> {
        let (addr, next) = self.list_pointer(list, ino)?;
        Ok(word_edit(addr, ino.0, next))
    }

    /// The list's head, to lead to `ino`.
    pub(crate) fn head_edit(&self, list: &[u64], ino: u64) -> Edit {
        word_edit(LIST_HEAD, list.last().copied().unwrap_or(0), ino)
    }

    pub(crate) fn evict_node(&self, inode: &Inode) -> Result<()> {
        let own = node(inode);
        let tree = *own.tree.read();
        let is_dir = inode.view(|a| a.kind == FileKind::Dir);
        let mut blocks = Vec::new();
        self.walk(tree, &mut |block, _, height| {
            blocks.push((block, height == 0 && !is_dir));
            Ok(true)
        })?;
        {
            let mut list = self.list.lock();
            let edit = self.unlisting(&list, inode.ino())?;
            self.stores(|b| self.transact(b, &[vec![edit]]))?;
            list.retain(|i| *i != inode.ino().0);
        }
        *own.tree.write() = Tree::default();
        self.nodes.lock().remove(&inode.ino().0);
        self.give_freed(&blocks)?;
        self.give_inode(inode.ino());
        Ok(())
    }
}

impl Names for Pmfs {
    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        let tree = *node(dir).tree.read();
        Ok(self.find(tree, dir.size(), name)?.map(|p| Ino(p.ino)))
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let tree = *node(dir).tree.read();
        // "." and ".." take the first 32 bytes of the first block.
        self.scan(tree, dir.size(), from.max(32), &mut |offset, _, d, _| {
            if d.ino == 0
                || d.is_damaged()
                || emit(DirEntry { name: d.name, ino: Ino(d.ino), kind: d.kind, next: offset + 1 })
            {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(())
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        // Positions are bytes of the directory.
        dir.size()
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).parent.load(Relaxed)))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        let tree = *node(dir).tree.read();
        let first = self.scan(tree, dir.size(), 32, &mut |_, _, d, _| match d.ino {
            0 => ControlFlow::Continue(()),
            // The inode that it names would be lost.
            ino if d.is_damaged() => ControlFlow::Break(Err(granary_pm::corrupt(format!(
                "{}: an entry for inode {ino} has no name that can be",
                dir.ino()
            )))),
            _ => ControlFlow::Break(Ok(false)),
        })?;
        first.unwrap_or(Ok(true))
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let mut target = vec![0; inode.size() as usize];
        self.read_file(inode, 0, Dest::Bytes(&mut target))?;
        Ok(target)
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        let (ino, addr) = self.take_inode()?;
        let generation = self.generations.next();
        let is_dir = new.kind == FileKind::Dir;
        let mut attr = new.attr(call.time);
        let mut tree = Tree::default();
        let result = self.stores(|b| {
            if is_dir || new.kind == FileKind::Symlink {
                let (block, _) = self.free.take(0, 1, From::Below, false).ok_or(FsError::NoSpace)?;
                tree.root = block;
                attr.blocks = BLOCK / 512;
                if is_dir {
                    let first = Pmfs::first_entries(ino.0, dir.ino().0);
                    b.put(block * BLOCK, &first, Structure::Dentry)?;
                    attr.size = BLOCK;
                } else {
                    b.stream(block * BLOCK, Payload::Bytes(new.target), Structure::Data)?;
                    attr.size = new.target.len() as u64;
                }
            }
            let entered = self.enter(b, dir, name, (ino.0, new.kind), None)?;
            let above = node(dir);
            let old = dir.attr();
            let mut changed = old.with(|a| a.modified(call.time));
            changed.nlink = changed.nlink.saturating_add(is_dir.into());
            (changed.size, changed.blocks) = (entered.size, entered.blocks);
            let old_tree = *above.tree.read();
            let made = Edit {
                addr,
                old: smallvec![0; SIZE],
                new: new_bytes(&attr, tree, generation).into(),
                what: Structure::Inode,
            };
            let groups = [
                vec![made],
                vec![inode_edit(above.addr, (&old, old_tree), (&changed, entered.tree))],
                entered.edits,
            ];
            self.transact(b, &groups)?;
            *above.tree.write() = entered.tree;
            dir.update(|a| *a = changed);
            Ok(())
        });
        if let Err(e) = result {
            if tree.root != 0 {
                self.free.give(tree.root, 1)?;
            }
            self.give_inode(ino);
            return Err(e);
        }
        let parent = if is_dir { dir.ino().0 } else { 0 };
        Ok(Created { ino, loaded: self.loaded((ino, generation), addr, attr, tree, parent) })
    }

    /// A file without a name is on the truncate list, like one that has lost its last name.
    fn create_unnamed(&self, call: &Call<'_>, _dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        let (ino, addr) = self.take_inode()?;
        let generation = self.generations.next();
        let attr = Attr { nlink: 0, ..new.attr(call.time) };
        let tree = Tree::default();
        let mut list = self.list.lock();
        let made = self.stores(|b| {
            self.put_item(b, addr, &list, None)?;
            let new = new_bytes(&attr, tree, generation).into();
            let made = Edit { addr, old: smallvec![0; SIZE], new, what: Structure::Inode };
            self.transact(b, &[vec![made], vec![self.head_edit(&list, ino.0)]])
        });
        if let Err(e) = made {
            self.give_inode(ino);
            return Err(e);
        }
        list.push(ino.0);
        Ok(Created { ino, loaded: self.loaded((ino, generation), addr, attr, tree, 0) })
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let (above, own) = (node(dir), node(inode));
        let (dir_old, old) = (dir.attr(), inode.attr());
        let new = old.with(|a| a.linked(call.time));
        // With its first name it leaves the list.
        let mut list = (old.nlink == 0).then(|| self.list.lock());
        let off = list.as_ref().map(|list| self.unlisting(list, inode.ino())).transpose()?;
        self.stores(|b| {
            let entered = self.enter(b, dir, name, (inode.ino().0, old.kind), None)?;
            let dir_new = dir_old.with(|a| {
                a.modified(call.time);
                (a.size, a.blocks) = (entered.size, entered.blocks);
            });
            let (dir_tree, tree) = (*above.tree.read(), *own.tree.read());
            let groups = [
                vec![inode_edit(own.addr, (&old, tree), (&new, tree))],
                vec![inode_edit(above.addr, (&dir_old, dir_tree), (&dir_new, entered.tree))],
                entered.edits,
                off.into_iter().collect(),
            ];
            self.transact(b, &groups)?;
            *above.tree.write() = entered.tree;
            dir.update(|a| *a = dir_new);
            inode.update(|a| *a = new);
            Ok(())
        })?;
        if let Some(list) = &mut list {
            list.retain(|i| *i != inode.ino().0);
        }
        Ok(())
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let (above, own) = (node(dir), node(inode));
        let (dir_old, old) = (dir.attr(), inode.attr());
        let is_dir = old.kind == FileKind::Dir;
        let (dir_tree, tree) = (*above.tree.read(), *own.tree.read());
        let place = self.find(dir_tree, dir_old.size, name)?.ok_or(FsError::NoEntry)?;
        let new = old.with(|a| a.unlinked(call.time));
        let dir_new = dir_old.with(|a| {
            a.modified(call.time);
            a.nlink = a.nlink.saturating_sub(is_dir.into());
        });
        let mut list = (new.nlink == 0).then(|| self.list.lock());
        self.stores(|b| {
            let mut last = vec![inode_edit(above.addr, (&dir_old, dir_tree), (&dir_new, dir_tree))];
            if let Some(list) = &list {
                self.put_item(b, own.addr, list, None)?;
                last.push(self.head_edit(list, inode.ino().0));
            }
            let groups =
                [vec![inode_edit(own.addr, (&old, tree), (&new, tree))], vec![self.removal(&place)], last];
            self.transact(b, &groups)
        })?;
        if let Some(list) = &mut list {
            list.push(inode.ino().0);
        }
        dir.update(|a| *a = dir_new);
        inode.update(|a| *a = new);
        Ok(())
    }

    fn rename(&self, call: &Call<'_>, rename: &Rename<'_>) -> Result<()> {
        self.rename_node(call, rename)
    }
}
