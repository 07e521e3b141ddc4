//! Names: create, link, unlink, rename, and the end of an inode.
//!
//! Each operation changes nodes and directory blocks in memory under the checkpoint lock, so a checkpoint has
//! all of it or nothing. Steps that can run out of space come first.

use crate::dir::make_empty;
use crate::fs::F2fs;
use crate::layout::checkpoint::ORPHANS_PER_BLOCK;
use crate::layout::dentry::BLOCK;
use crate::layout::node::{
    ADDRS_AT, COLD, COLD_DATA, Extra, Footer, INLINE_AT, INLINE_BYTES, INLINE_DATA, INLINE_DENTRY,
    LOST_PARENT, encode, set_name,
};
use crate::layout::{BLOCK_SIZE, corrupt, put32};
use crate::node::{Node, node, number};
use crate::segs::log;
use granary_fs::{
    Attr, Call, Created, DirEntry, FileKind, FsError, Ino, Inode, Names, NewNode, Rename, Result,
};
use granary_kit::work::Kind;
use granary_sim::{costs, cpu};
use granary_units::Page;
use std::sync::Arc;

/// Names that end so are of files that are written once: cold (mkfs.f2fs's list of media, shortened).
const COLD_NAMES: &[&str] = &[
    "mp", "wm", "og", "jp", "avi", "m4v", "m4p", "mkv", "mov", "webm", "wav", "m4a", "3gp", "opus", "flac",
    "gif", "png", "svg", "webp", "jar", "deb", "iso", "gz", "xz", "zst", "pdf", "pyc", "ttc", "ttf", "exe",
    "apk", "cnt", "exo", "odex", "vdex", "so",
];

/// Whether a name's extension is in the list; two letters stand for all that begin with them.
fn is_cold(name: &[u8]) -> bool {
    let Some(dot) = name.iter().rposition(|c| *c == b'.') else { return false };
    let end = &name[dot + 1..];
    COLD_NAMES
        .iter()
        .any(|x| end == x.as_bytes() || x.len() == 2 && end.len() == 3 && end.starts_with(x.as_bytes()))
}

impl F2fs {
    /// Makes an inode; without a name it is an orphan until it is given one.
    pub(crate) fn make(
        &self,
        call: &Call<'_>,
        dir: &Inode,
        name: Option<&[u8]>,
        new: &NewNode<'_>,
    ) -> Result<Created> {
        let created = {
            let _op = self.op()?;
            if name.is_none() {
                self.orphan_room()?;
            }
            let ino = self.new_ino()?;
            let node = match self.fill_new(call, dir, name, new, ino) {
                Ok(node) => node,
                Err(e) => {
                    self.nodes.forget((ino, ino));
                    self.nat.give_back(ino);
                    self.give_blocks(1);
                    return Err(e);
                }
            };
            {
                let mut s = self.space.lock();
                s.nodes += 1;
                s.inodes += 1;
            }
            if name.is_some() {
                dir.update(|a| {
                    a.modified(call.time);
                    a.nlink += (new.kind == FileKind::Dir) as u32;
                });
                self.mark_inode(dir, true);
            } else {
                self.memory.lock().orphans.insert(ino);
            }
            Created { ino: Ino(ino as u64), loaded: node.loaded() }
        };
        cpu(Kind::made(new.kind == FileKind::Dir));
        Ok(created)
    }

    fn new_ino(&self) -> Result<u32> {
        self.take_blocks(1)?;
        self.nat.take(None).inspect_err(|_| self.give_blocks(1))
    }

    /// Builds the new inode and enters its name, if it has one; after an error what it took but the inode
    /// itself is given back.
    fn fill_new(
        &self,
        call: &Call<'_>,
        dir: &Inode,
        name: Option<&[u8]>,
        new: &NewNode<'_>,
        ino: u32,
    ) -> Result<Arc<Node>> {
        let is_dir = new.kind == FileKind::Dir;
        let long = new.target.len() > INLINE_BYTES;
        let (inline, size) = match new.kind {
            FileKind::Dir => (INLINE_DENTRY, INLINE_BYTES),
            FileKind::Symlink => (if long { 0 } else { INLINE_DATA }, new.target.len()),
            FileKind::File => (INLINE_DATA, 0),
            _ => (0, 0),
        };
        let mut attr = Attr { size: size as u64, blocks: 8 * long as u64, ..new.attr(call.time) };
        if name.is_none() {
            attr.nlink = 0;
        }
        let x = Extra {
            inline,
            advise: if name.is_some_and(is_cold) { COLD_DATA } else { 0 },
            depth: 0,
            parent: number(dir.ino()),
            blocks: long as u64,
            size: size as u64,
            xattr: 0,
            // 24 bits have room; the low ones differ most.
            generation: (self.generations.next() & 0xff_ffff).max(1),
        };
        let mut b = Box::new([0; BLOCK_SIZE]);
        encode(&mut b, &attr, &x);
        set_name(&mut b, name.unwrap_or_default());
        Footer { nid: ino, ino, flags: if is_dir { 0 } else { COLD }, ..Footer::default() }.store(&mut b);
        let mut target = 0;
        if is_dir {
            make_empty(&mut b, ino, number(dir.ino()));
        } else if long {
            let mut bytes = [0; BLOCK_SIZE];
            bytes[..size].copy_from_slice(new.target);
            target = self.write_new(ino, 0, Page::from_bytes(&bytes), log::HOT_DATA)?;
            put32(&mut b[..], ADDRS_AT, target);
        } else {
            b[INLINE_AT..INLINE_AT + new.target.len()].copy_from_slice(new.target);
        }
        self.nodes.fresh((ino, ino), &b);
        let entered = name.map_or(Ok(()), |name| self.dir_insert(dir, name, ino, new.kind));
        if let Err(e) = entered {
            if long {
                self.segs.lock().invalidate(target)?;
                self.give_blocks(1);
            }
            return Err(e);
        }
        Ok(Node::new(ino, attr, &x))
    }

    fn stamp_dir(&self, call: &Call<'_>, dir: &Inode) {
        dir.update(|a| a.modified(call.time));
        self.mark_inode(dir, true);
    }

    /// Room for one more orphan in the checkpoint pack.
    fn orphan_room(&self) -> Result<()> {
        // Header, footer, six summary blocks.
        let most = (self.geo.seg_blocks as usize - 8) * ORPHANS_PER_BLOCK;
        if self.memory.lock().orphans.len() < most { Ok(()) } else { Err(FsError::NoSpace) }
    }

    /// An inode loses the name that counted in `dir`.
    fn drop_link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) {
        let (left, is_dir) = inode.update(|a| (a.unlinked(call.time), a.kind == FileKind::Dir));
        {
            let mut memory = self.memory.lock();
            if left == 0 {
                memory.orphans.insert(number(inode.ino()));
                memory.given.gone(number(inode.ino()));
            } else {
                memory.given.unlinked(number(inode.ino()), (number(dir.ino()), name));
            }
            if is_dir && self.nat.is_checkpointed(number(inode.ino())) {
                memory.given.by_dir((number(dir.ino()), name));
            }
            // On media the name may be the only one, or lead to a tree.
            if left > 0 || is_dir {
                memory.renamed.insert(number(dir.ino()));
            }
        }
        if left > 0 {
            node(inode).state.lock().advise |= LOST_PARENT;
        }
        self.mark_inode(inode, true);
    }

    /// Recovery must not enter a later file at either name as if the rename had not been (fsync.rs).
    fn note_rename(&self, r: &Rename<'_>) {
        let (from, to) = ((number(r.from_dir.ino()), r.from), (number(r.to_dir.ino()), r.to));
        let mut memory = self.memory.lock();
        memory.renamed.extend([from.0, to.0]);
        let mut moved = |inode: &Inode, from: (u32, &[u8]), to| match inode.view(|a| a.kind) {
            FileKind::Dir => {
                memory.renamed.insert(number(inode.ino()));
                if self.nat.is_checkpointed(number(inode.ino())) {
                    memory.given.by_dir(from);
                }
            }
            _ => memory.given.moved(number(inode.ino()), from, to, inode.view(|a| a.nlink) == 1),
        };
        moved(r.inode, from, to);
        if let Some(target) = r.exchanged() {
            moved(target, to, from);
        }
    }

    fn exchange(&self, r: &Rename<'_>, target: &Inode) -> Result<()> {
        self.dir_repoint(r.to_dir, r.to, number(r.inode.ino()), r.inode.view(|a| a.kind))?;
        self.dir_repoint(r.from_dir, r.from, number(target.ino()), target.view(|a| a.kind))?;
        self.change_parent(r.inode, r.from_dir, r.to_dir)?;
        self.change_parent(target, r.to_dir, r.from_dir)?;
        Ok(())
    }

    /// Changes the parent in a moved inode, and the link counts that come with a directory.
    fn change_parent(&self, moved: &Inode, from: &Inode, to: &Inode) -> Result<()> {
        if moved.view(|a| a.kind) != FileKind::Dir {
            let mut s = node(moved).state.lock();
            s.parent = number(to.ino());
            s.advise |= LOST_PARENT;
            return Ok(());
        }
        if from.ino() != to.ino() {
            self.dir_set_parent(moved, to.ino())?;
            from.update(|a| a.nlink -= 1);
            to.update(|a| a.nlink += 1);
        }
        Ok(())
    }

    /// Frees an inode without names.
    pub(crate) fn end_inode(&self, inode: &Inode) -> Result<()> {
        let node = node(inode);
        let ino = node.ino;
        {
            let _op = self.op()?;
            let _lock = self.inode_lock(ino);
            if inode.view(|a| a.kind) == FileKind::Dir && !node.state.lock().has_inline_dentries() {
                self.forget_dents(ino, inode.size())?;
            }
            self.cut_blocks(node, 0)?;
            self.place_xattrs(node, false)?;
            self.dirty_inodes.lock().remove(&ino);
            node.state.lock().dirty = true; // nobody puts it on the list again
            self.free_node(ino, ino)?;
            let mut memory = self.memory.lock();
            memory.orphans.remove(&ino);
            memory.cuts.remove(&ino);
            memory.unsynced.remove(&ino);
        }
        let c = costs();
        let freed = (c.extent_free + c.extent_update) * (inode.view(|a| a.blocks) > 0) as u64;
        cpu(Kind::End.inodes() + c.orphan + c.inode_free + freed);
        Ok(())
    }
}

impl Names for F2fs {
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
        // Positions are slots; those of entries in the inode are fewer than a block has.
        dir.size().div_ceil(BLOCK_SIZE as u64).max(1) * BLOCK.slots as u64
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).state.lock().parent as u64))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        self.dir_is_empty(dir)
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let (node, len) = (node(inode), inode.size() as usize);
        if len > BLOCK_SIZE {
            return Err(corrupt(format!("symbolic link of {len} bytes")));
        }
        if node.state.lock().is_inline() {
            return Ok(self.inode_node(node.ino)?.with(|b| b[INLINE_AT..INLINE_AT + len].to_vec()));
        }
        let mut page = [Page::ZERO];
        self.read_run(inode, 0, &mut page)?;
        Ok(page[0].to_bytes()[..len].to_vec())
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.make(call, dir, Some(name), new)
    }

    fn create_unnamed(&self, call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.make(call, dir, None, new)
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        {
            let _op = self.op()?;
            self.dir_insert(dir, name, number(inode.ino()), inode.view(|a| a.kind))?;
            let before = inode.update(|a| a.linked(call.time));
            {
                let mut s = node(inode).state.lock();
                s.parent = number(dir.ino());
                if before == 0 {
                    // Recovery would enter the name that it was made with: none.
                    s.advise |= LOST_PARENT;
                }
            }
            if before == 0 {
                self.memory.lock().orphans.remove(&number(inode.ino()));
            }
            self.mark_inode(inode, true);
            self.stamp_dir(call, dir);
        }
        cpu(Kind::Link.inodes());
        Ok(())
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        {
            let _op = self.op()?;
            self.orphan_room()?;
            self.dir_remove(dir, name)?;
            let is_dir = inode.view(|a| a.kind) == FileKind::Dir;
            dir.update(|a| a.nlink -= is_dir as u32);
            self.stamp_dir(call, dir);
            self.drop_link(call, dir, name, inode);
        }
        let last = inode.view(|a| a.nlink == 0);
        cpu(Kind::Unlink.inodes() + costs().orphan * last as u64);
        Ok(())
    }

    fn rename(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        {
            let _op = self.op()?;
            self.orphan_room()?;
            if let Some(target) = r.exchanged() {
                self.exchange(r, target)?;
            } else {
                let (ino, kind) = (number(r.inode.ino()), r.inode.view(|a| a.kind));
                match r.target {
                    Some(_) => self.dir_repoint(r.to_dir, r.to, ino, kind)?,
                    None => self.dir_insert(r.to_dir, r.to, ino, kind)?,
                }
                self.dir_remove(r.from_dir, r.from)?;
                self.change_parent(r.inode, r.from_dir, r.to_dir)?;
                if let Some(target) = r.target {
                    let is_dir = target.view(|a| a.kind) == FileKind::Dir;
                    r.to_dir.update(|a| a.nlink -= is_dir as u32);
                    self.drop_link(call, r.to_dir, r.to, target);
                }
            }
            self.note_rename(r);
            for moved in [Some(r.inode), r.exchanged()].into_iter().flatten() {
                moved.update(|a| a.changed(call.time));
                self.mark_inode(moved, true);
            }
            self.stamp_dir(call, r.from_dir);
            self.stamp_dir(call, r.to_dir);
        }
        cpu(Kind::Rename.inodes());
        Ok(())
    }
}
