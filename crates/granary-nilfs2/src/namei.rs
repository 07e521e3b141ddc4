//! Names: create, link, unlink, rename, and the end of an inode.
//!
//! Each operation changes blocks in memory while no log is made, so a checkpoint has all of it or nothing.
//! Steps that can fail come first.

use crate::dat::Virtual;
use crate::fs::{Held, Nilfs2};
use crate::layout;
use crate::layout::inode::DiskInode;
use crate::layout::{BLOCK_SIZE, corrupt, dirent};
use crate::space::Want;
use crate::state::{INODES, Node, State};
use crate::tree::Tree;
use granary_fs::{
    Attr, Call, Created, DirEntry, FileKind, FsError, Ino, Inode, Loaded, Names, NewNode, Rename, Result,
};
use granary_kit::work;
use granary_kit::work::Kind;
use granary_sim::{costs, cpu};
use granary_units::Page;
use std::sync::Arc;

// A symbolic link's target is in one block.
const _: () = assert!(granary_fs::PATH_MAX <= layout::BLOCK_SIZE);

impl State {
    /// Directory entries have changed.
    fn stamp_dir(&mut self, call: &Call<'_>, dir: &Inode) {
        dir.update(|a| a.modified(call.time));
        self.note(dir);
        if let Some(node) = self.nodes.get_mut(&dir.ino().0) {
            node.needs_root = true;
        }
    }

    /// Names or attributes of an inode have changed.
    fn stamp(&mut self, call: &Call<'_>, inode: &Inode) {
        inode.update(|a| a.changed(call.time));
        self.note(inode);
        if let Some(node) = self.nodes.get_mut(&inode.ino().0) {
            node.needs_root = true;
        }
    }

    /// An inode loses a name.
    fn drop_link(&mut self, call: &Call<'_>, inode: &Inode) {
        if inode.update(|a| a.unlinked(call.time)) == 0 {
            self.orphans.insert(inode.ino().0);
        }
        self.stamp(call, inode);
    }
}

impl Nilfs2 {
    /// A free number. Freed ones are still in use in the bitmap until the next log.
    fn take_ino(&self, s: &mut State) -> Result<u64> {
        INODES.take(&mut s.ifile, layout::FIRST_INO, &mut Virtual { media: &self.media, dat: &mut s.dat })
    }

    /// Frees an inode without names.
    pub(crate) fn end_inode(&self, inode: &Inode) -> Result<()> {
        let ino = inode.ino().0;
        self.operate(|s| {
            s.cut(ino, 0, &self.media)?;
            s.forget(ino);
            Ok(())
        })?;
        let c = costs();
        cpu(Kind::End.inodes()
            + c.inode_free
            + (c.extent_free + c.extent_update) * (inode.view(|a| a.blocks) > 0) as u64);
        Ok(())
    }
}

/// Directories' links, where directories came and went.
fn change_links(r: &Rename<'_>, (from, to): (i32, i32)) {
    r.from_dir.update(|a| a.nlink = a.nlink.saturating_add_signed(from));
    r.to_dir.update(|a| a.nlink = a.nlink.saturating_add_signed(to));
}

impl State {
    /// An inode without blocks is gone.
    pub fn forget(&mut self, ino: u64) {
        self.nodes.remove(&ino);
        self.dirty.remove(&ino);
        self.promising.remove(&ino);
        self.orphans.remove(&ino);
        self.unheld.remove(&ino);
        self.freeing.insert(ino);
        self.inodes = self.inodes.saturating_sub(1);
        self.misc += 1;
        self.changed();
    }
}

impl Names for Nilfs2 {
    // Linux 6.1 has no `tmpfile` for it.
    granary_fs::file_system_lacks!(create_unnamed);

    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        self.dir_lookup(dir, name)
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.dir_read(dir, from, emit)
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        dir.size()
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(self.state.lock().dir_parent(dir.ino().0, &self.media)?))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        self.dir_is_empty(dir)
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let len = inode.size() as usize;
        if len > BLOCK_SIZE {
            return Err(corrupt(format!("symbolic link of {len} bytes")));
        }
        let mut page = [Page::ZERO];
        self.read_run(inode.ino().0, 0, &mut page)?;
        Ok(page[0].to_bytes()[..len].to_vec())
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.room_for_names(Want::Grow, 6)?;
        let is_dir = new.kind == FileKind::Dir;
        let created = self.operate(|s| {
            let ino = self.take_ino(s)?;
            let size = if is_dir { layout::BLOCK_SIZE } else { new.target.len() };
            let attr = Attr { size: size as u64, ..new.attr(call.time) };
            let generation = self.generations.next();
            let inode = DiskInode { attr, generation, blocks: 0, map: Tree::default().encode() };
            let mut node = Node::new(ino, &inode, Tree::default());
            (node.needs_root, node.attr_dirty, node.held) = (true, true, true);
            if is_dir {
                node.file.put(0, Page::from_bytes(&dirent::first_block(ino, dir.ino().0)));
            } else if !new.target.is_empty() {
                let mut page = Page::ZERO;
                page.bytes_mut()[..size].copy_from_slice(new.target);
                node.file.put(0, page);
            }
            let blocks = node.file.dirty.len() as u64;
            node.new_blocks = blocks;
            node.attr.blocks = blocks * 8;
            let attr = node.attr;
            s.nodes.insert(ino, node);
            if let Err(e) = s.dir_insert(dir, name, ino, new.kind, &self.media) {
                s.nodes.remove(&ino);
                s.freeing.insert(ino);
                return Err(e);
            }
            s.misc += 2 + blocks;
            s.pending_new += blocks;
            s.inodes += 1;
            s.dirty.insert(ino);
            dir.update(|a| a.nlink += is_dir as u32);
            s.stamp_dir(call, dir);
            Ok(Created {
                ino: Ino(ino),
                loaded: Loaded { attr, private: Arc::new(Held { ino, generation }) },
            })
        })?;
        cpu(work::insert(0, false) + Kind::made(is_dir));
        Ok(created)
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.room_for_names(Want::Grow, 4)?;
        self.operate(|s| {
            s.dir_insert(dir, name, inode.ino().0, inode.view(|a| a.kind), &self.media)?;
            inode.update(|a| a.linked(call.time));
            s.stamp(call, inode);
            s.stamp_dir(call, dir);
            Ok(())
        })?;
        cpu(work::insert(0, false) + Kind::Link.inodes());
        Ok(())
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.room_for_names(Want::Free, 4)?;
        let passed = self.operate(|s| {
            let (_, passed) = s.find(dir.ino().0, name, &self.media)?;
            s.dir_remove(dir, name, &self.media)?;
            let is_dir = inode.view(|a| a.kind) == FileKind::Dir;
            dir.update(|a| a.nlink = a.nlink.saturating_sub(is_dir as u32));
            s.stamp_dir(call, dir);
            s.drop_link(call, inode);
            Ok(passed)
        })?;
        cpu(work::remove(passed) + Kind::Unlink.inodes());
        Ok(())
    }

    fn rename(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        self.room_for_names(if r.target.is_some() { Want::Free } else { Want::Grow }, 8)?;
        self.operate(|s| {
            let media = &self.media;
            let what = |inode: &Inode| (inode.ino().0, inode.view(|a| a.kind));
            let ((ino, kind), links) = (what(r.inode), r.links_moved());
            let apart = r.from_dir.ino() != r.to_dir.ino();
            // Blocks are read before anything changes.
            if kind == FileKind::Dir && apart {
                s.dir_parent(ino, media)?;
            }
            s.find(r.from_dir.ino().0, r.from, media)?.0.ok_or(FsError::NoEntry)?;
            match r.target {
                Some(target) if r.exchange => {
                    let (other, other_kind) = what(target);
                    if other_kind == FileKind::Dir && apart {
                        s.dir_parent(other, media)?;
                    }
                    s.dir_repoint(r.to_dir, r.to, ino, kind, media)?;
                    s.dir_repoint(r.from_dir, r.from, other, other_kind, media)?;
                    if other_kind == FileKind::Dir && apart {
                        s.dir_set_parent(other, r.from_dir.ino().0, media)?;
                    }
                    s.stamp(call, target);
                }
                Some(target) => {
                    s.dir_repoint(r.to_dir, r.to, ino, kind, media)?;
                    s.dir_remove(r.from_dir, r.from, media)?;
                    s.drop_link(call, target);
                }
                None => {
                    s.dir_insert(r.to_dir, r.to, ino, kind, media)?;
                    s.dir_remove(r.from_dir, r.from, media)?;
                }
            }
            if kind == FileKind::Dir && apart {
                s.dir_set_parent(ino, r.to_dir.ino().0, media)?;
            }
            change_links(r, links);
            s.stamp(call, r.inode);
            s.stamp_dir(call, r.from_dir);
            s.stamp_dir(call, r.to_dir);
            Ok(())
        })?;
        cpu(work::insert(0, false) + work::remove(0) + Kind::Rename.inodes());
        Ok(())
    }
}
