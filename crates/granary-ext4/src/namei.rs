//! Names: create, link, unlink, rename, and the end of an inode.
//!
//! Each operation is one handle (an inode's end takes as many as its extents need), so each is atomic across
//! a power loss. Steps that can run out of space come first. Steps that cannot fail any more change
//! attributes in memory.

use crate::extents::Owner;
use crate::fs::Ext4;
use crate::journal::Handle;
use crate::layout::dirent;
use crate::layout::htree::name_hash;
use crate::layout::inode::{EXTENTS, ROOT_INO, ROOT_SIZE, RawInode};
use crate::life::LINK_MAX;
use crate::node::{self, Node, number, show_blocks};
use granary_device::Structure;
use granary_fs::{
    Attr, Call, Created, DirEntry, FileKind, FsError, Ino, Inode, Loaded, Names, NewNode, Rename, Result,
};
use granary_kit::work::Kind;
use granary_sim::costs;
use granary_units::Lpa;
use std::sync::Arc;

/// Credits of an operation on names: entries in two directories, each perhaps with a leaf and two index
/// levels split, extents of both, up to four inodes, bitmaps, descriptors, superblock.
const NAMES: u32 = 64;
/// Credits of one step of freeing extents.
const TRUNCATE: u32 = 64;

/// A directory gets another one. It would have more than [`LINK_MAX`] links: it has 1 from then on, and
/// nobody counts any more (feature `dir_nlink`, ext4_inc_count).
fn gain_subdir(dir: &mut Attr) {
    dir.nlink = if dir.nlink == 1 || dir.nlink >= LINK_MAX { 1 } else { dir.nlink + 1 };
}

/// A directory loses one (ext4_dec_count).
fn lose_subdir(dir: &mut Attr) {
    dir.nlink -= (dir.nlink > 1) as u32;
}

/// The links of the directories that a rename changes. Of those that come and go together only the difference
/// counts (ext4_rename, ext4_cross_rename): a directory at the limit that gives one for another goes on
/// counting.
fn count_moved(r: &Rename<'_>) {
    let (leave, come) = r.links_moved();
    let changes = match r.from_dir.ino() == r.to_dir.ino() {
        true => [(r.from_dir, leave + come), (r.to_dir, 0)],
        false => [(r.from_dir, leave), (r.to_dir, come)],
    };
    for (dir, change) in changes {
        match change {
            0 => {}
            1.. => dir.update(gain_subdir),
            _ => dir.update(lose_subdir),
        }
    }
}

impl Ext4 {
    /// Runs an operation in a handle; where it finds no space while freed blocks wait for their commit,
    /// commits and tries again.
    pub(crate) fn transaction<T>(
        &self,
        credits: u32,
        mut body: impl FnMut(&mut Handle<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut tries = 0;
        loop {
            let result = self.journal.run(credits, &mut body);
            match result {
                Err(FsError::NoSpace) if tries < 3 && self.groups.has_pending() => {
                    tries += 1;
                    self.journal.commit_all()?;
                }
                other => return other,
            }
        }
    }

    /// Makes an inode; without a name it is on the orphan list until it is given one.
    pub(crate) fn make(
        &self,
        call: &Call<'_>,
        dir: &Inode,
        name: Option<&[u8]>,
        new: &NewNode<'_>,
    ) -> Result<Created> {
        self.transaction(NAMES, |h| {
            let is_dir = new.kind == FileKind::Dir;
            let top = is_dir && number(dir.ino()) == ROOT_INO;
            let spread = name.filter(|_| top).map(|name| name_hash(self.hash_seed, name).0);
            h.work(Kind::made(is_dir));
            let place = self.groups.new_inode(h, number(dir.ino()), is_dir, spread)?;
            let slot = node::slot(place.ino, self.groups.geo.inodes_per_group);
            let generation = place.table.with(|b| RawInode::at(b, slot).generation.get()).wrapping_add(1);
            let loaded = match self.fill_new(h, call, dir, name, new, place.ino, generation) {
                Ok(loaded) => loaded,
                Err(e) => {
                    self.groups.free_inode(h, place.ino, is_dir)?;
                    return Err(e);
                }
            };
            let tid = h.tid();
            h.change(&place.table, |b| {
                let raw = RawInode::at_mut(b, slot);
                let node = loaded.private.downcast_ref::<Node>().expect("made a few lines above");
                let mut s = node.state.lock();
                raw.next_orphan = 0.into();
                node::encode(raw, place.ino, &loaded.attr, &s);
                (s.sync_tid, s.datasync_tid) = (tid, tid);
            });
            if name.is_none() {
                self.orphan_add(h, place.ino)?;
                return Ok(Created { ino: Ino(place.ino as u64), loaded });
            }
            dir.update(|a| {
                a.modified(call.time);
                if is_dir {
                    gain_subdir(a);
                }
            });
            self.mark_inode(h, dir)?;
            Ok(Created { ino: Ino(place.ino as u64), loaded })
        })
    }

    /// Builds the new inode in memory, its first block, and its name if it has one.
    #[allow(clippy::too_many_arguments)]
    fn fill_new(
        &self,
        h: &mut Handle<'_>,
        call: &Call<'_>,
        dir: &Inode,
        name: Option<&[u8]>,
        new: &NewNode<'_>,
        ino: u32,
        generation: u32,
    ) -> Result<Loaded> {
        let long_link = new.kind == FileKind::Symlink && new.target.len() >= ROOT_SIZE;
        let mapped = long_link || matches!(new.kind, FileKind::File | FileKind::Dir);
        let node = Node::new(if mapped { EXTENTS } else { 0 }, call.time, generation);
        let is_dir = new.kind == FileKind::Dir;
        let size = if is_dir { crate::layout::BLOCK_SIZE } else { new.target.len() };
        if is_dir {
            let block = self.add_meta_block(h, &node, ino, 0, Structure::Dentry)?;
            h.change(&block, |b| dirent::init_first(b, ino, number(dir.ino())));
        } else if long_link {
            let block = self.add_meta_block(h, &node, ino, 0, Structure::Data)?;
            h.change(&block, |b| b[..size].copy_from_slice(new.target));
        } else {
            node.state.lock().root[..size].copy_from_slice(new.target);
        }
        let entered = name.map_or(Ok(()), |name| self.dir_insert(h, dir, name, ino, new.kind));
        if let Err(e) = entered {
            if mapped {
                self.remove_extents(h, Owner { node: &node, ino, meta: true }, 0)?;
            }
            return Err(e);
        }
        let blocks = {
            let mut s = node.state.lock();
            s.disksize = size as u64;
            s.blocks * 8
        };
        let mut attr = Attr { size: size as u64, blocks, ..new.attr(call.time) };
        if name.is_none() {
            attr.nlink = 0;
        }
        Ok(Loaded { attr, private: Arc::new(node) })
    }

    /// An inode loses the name that counted: on the orphan list with its last.
    fn drop_link(&self, h: &mut Handle<'_>, call: &Call<'_>, inode: &Inode) -> Result<()> {
        if inode.update(|a| a.unlinked(call.time)) == 0 {
            self.orphan_add(h, number(inode.ino()))?;
        }
        self.mark_inode(h, inode)
    }

    fn exchange(&self, h: &mut Handle<'_>, call: &Call<'_>, r: &Rename<'_>, target: &Inode) -> Result<()> {
        self.dir_repoint(h, r.to_dir, r.to, r.inode)?;
        self.dir_repoint(h, r.from_dir, r.from, target)?;
        self.change_parent(h, r.inode, r.from_dir, r.to_dir)?;
        self.change_parent(h, target, r.to_dir, r.from_dir)?;
        count_moved(r);
        self.stamp_renamed(h, call, &[r.inode, target], r)
    }

    /// A moved directory's "..".
    fn change_parent(&self, h: &mut Handle<'_>, moved: &Inode, from: &Inode, to: &Inode) -> Result<()> {
        if moved.attr().kind != FileKind::Dir || from.ino() == to.ino() {
            return Ok(());
        }
        self.dir_set_parent(h, moved, to.ino())
    }

    fn stamp_renamed(
        &self,
        h: &mut Handle<'_>,
        call: &Call<'_>,
        moved: &[&Inode],
        r: &Rename<'_>,
    ) -> Result<()> {
        for inode in moved {
            inode.update(|a| a.changed(call.time));
            self.mark_inode(h, inode)?;
        }
        r.from_dir.update(|a| a.modified(call.time));
        self.mark_inode(h, r.from_dir)?;
        if r.from_dir.ino() != r.to_dir.ino() {
            r.to_dir.update(|a| a.modified(call.time));
            self.mark_inode(h, r.to_dir)?;
        }
        Ok(())
    }

    /// Takes back what was promised from logical block `from` on.
    pub(crate) fn drop_promises(&self, inode: &Inode, from: u32) {
        let node = inode.private::<Node>();
        let mut s = node.state.lock();
        let n = s.delayed.remove(from, u32::MAX) as u64;
        s.delayed_count -= n;
        self.groups.unpromise(n);
        show_blocks(inode, &s);
    }

    /// Frees the blocks from logical block `from` on, in as many handles as it takes. `finish` runs in the
    /// last.
    pub(crate) fn truncate_blocks(
        &self,
        inode: &Inode,
        from: u32,
        mut finish: impl FnMut(&mut Handle<'_>) -> Result<()>,
    ) -> Result<()> {
        let node = inode.private::<Node>();
        let owner = Owner { node, ino: number(inode.ino()), meta: inode.attr().kind != FileKind::File };
        self.groups.discard(owner.ino);
        loop {
            let more = self.journal.run(TRUNCATE, |h| {
                let mapped = node.state.lock().flags & EXTENTS != 0;
                // Room for what `finish` needs is kept back by remove_extents.
                let more = if mapped {
                    let _tree = node.map.write();
                    self.remove_extents(h, owner, from)?
                } else {
                    false
                };
                show_blocks(inode, &node.state.lock());
                self.mark_inode(h, inode)?;
                if !more {
                    finish(h)?;
                }
                Ok(more)
            })?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Frees an inode without names.
    pub(crate) fn end_inode(&self, inode: &Inode) -> Result<()> {
        let ino = number(inode.ino());
        let is_dir = inode.attr().kind == FileKind::Dir;
        self.drop_promises(inode, 0);
        self.truncate_blocks(inode, 0, |h| {
            h.work(Kind::End.inodes() + costs().inode_free);
            self.orphan_del(h, ino)?;
            self.free_xattr_block(h, inode)?;
            self.change_raw(h, ino, |raw| {
                raw.xattr_block = 0.into();
                (raw.mode, raw.links) = (0.into(), 0.into());
                raw.dtime = ((granary_sim::now().0 / 1_000_000_000) as u32).into();
                raw.seal(ino);
            })?;
            self.groups.free_inode(h, ino, is_dir)
        })
    }
}

impl Names for Ext4 {
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

    fn dir_end(&self, _dir: &Inode) -> u64 {
        // Positions are hashes: half of the new names come before the place that was reached.
        u64::MAX
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        self.dir_parent(dir)
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        self.dir_is_empty(dir)
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let (node, len) = (inode.private::<Node>(), inode.size() as usize);
        if len < crate::layout::inode::ROOT_SIZE {
            return Ok(node.state.lock().root[..len].to_vec());
        }
        if len > crate::layout::BLOCK_SIZE {
            return Err(crate::layout::corrupt(format!("symbolic link of {len} bytes")));
        }
        let crate::extents::Mapping::Mapped { start, .. } = self.map_block(node, 0)? else {
            return Err(crate::layout::corrupt("a long symbolic link has no block"));
        };
        Ok(self.cache.get(Lpa(start), Structure::Data)?.with(|b| b[..len].to_vec()))
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.make(call, dir, Some(name), new)
    }

    fn create_unnamed(&self, call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.make(call, dir, None, new)
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.transaction(NAMES, |h| {
            h.work(Kind::Link.inodes());
            self.dir_insert(h, dir, name, number(inode.ino()), inode.attr().kind)?;
            if inode.update(|a| a.linked(call.time)) == 0 {
                self.orphan_del(h, number(inode.ino()))?;
            }
            dir.update(|a| a.modified(call.time));
            self.mark_inode(h, inode)?;
            self.mark_inode(h, dir)
        })
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.transaction(NAMES, |h| {
            h.work(Kind::Unlink.inodes());
            self.dir_remove(h, dir, name)?;
            let is_dir = inode.attr().kind == FileKind::Dir;
            dir.update(|a| {
                a.modified(call.time);
                if is_dir {
                    lose_subdir(a);
                }
            });
            self.mark_inode(h, dir)?;
            self.drop_link(h, call, inode)
        })
    }

    fn rename(&self, call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        self.transaction(NAMES, |h| {
            h.work(Kind::Rename.inodes());
            if let Some(target) = r.exchanged() {
                return self.exchange(h, call, r, target);
            }
            let kind = r.inode.attr().kind;
            match r.target {
                Some(_) => self.dir_repoint(h, r.to_dir, r.to, r.inode)?,
                None => self.dir_insert(h, r.to_dir, r.to, number(r.inode.ino()), kind)?,
            }
            self.dir_remove(h, r.from_dir, r.from)?;
            self.change_parent(h, r.inode, r.from_dir, r.to_dir)?;
            count_moved(r);
            if let Some(target) = r.target {
                self.drop_link(h, call, target)?;
            }
            self.stamp_renamed(h, call, &[r.inode], r)
        })
    }
}
