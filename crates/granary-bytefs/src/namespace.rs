//! [`Names`] of [`ByteFs`]: look-up, create, link, unlink.
//!
//! ```text
//!   create:  dentry 64-320 B | directory's inode 64 B | new inode 128 B | inode bitmap 64 B       = 5 lines
//!   unlink:  dentry 64 B     | directory's inode 64 B | inode bitmap 64 B | block bitmap 64 B a group
//! ```
//!
//! The last name takes the inode with it: the same transaction clears the inode and its blocks in the
//! bitmaps. So no list of orphans is written, no second transaction follows, and no work is left after a
//! power loss. While somebody has the file open it lives on in memory ([`Standing::Gone`]): its blocks and
//! its number are not handed out again before it is evicted and that transaction is committed. Only an inode
//! whose blocks fill more bitmap lines than one transaction may change goes through the orphan table.
//!
//! A file that is made without a name is in that table from the first; the transaction of its first name
//! takes it out.
//!
//! Source: ByteFS sections 4.3, 4.5, 4.7.

use crate::core::Core;
use crate::dir::{Dir, walk};
use crate::fs::ByteFs;
use crate::journal::Tx;
use crate::layout::bitmap::BITS_PER_GROUP;
use crate::layout::inode::INLINE_SIZE;
use crate::layout::{InodeRecord, SLOTS_PER_BLOCK, dentry, orphan};
use crate::map::SlotEdits;
use crate::node::{Body, Half, Node, Standing, node};
use crate::space::Claim;
use granary_device::Structure;
use granary_fs::{
    Attr, Call, Created, DirEntry, FileKind, FsError, Ino, Inode, Loaded, Names, NewNode, Rename, Result,
};
use granary_kit::Block;
use granary_kit::work::Kind;
use granary_sim::cpu;
use granary_sim::sync::MutexGuard;
use granary_units::{Lpa, PAGE_SIZE, Page, Payload};
use std::sync::Arc;

/// Plan for an inode that loses a name.
pub struct Removal {
    /// Its table block, where its record is written.
    block: Option<Arc<Block>>,
    /// Where it stands afterwards.
    standing: Standing,
}

/// The `change` locks of several inodes, taken in the order of their numbers.
pub fn lock_all<'a>(nodes: &mut [&'a Node]) -> Vec<MutexGuard<'a, ()>> {
    nodes.sort_unstable_by_key(|n| n.ino);
    nodes.chunk_by(|a, b| a.ino == b.ino).map(|same| same[0].change.lock()).collect()
}

impl Names for ByteFs {
    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        let dir = node(dir);
        self.core.load_dir(dir, false)?;
        let found = self.core.find(dir, name)?;
        cpu(self.core.search_work(dir, found.is_some()));
        Ok(found.map(|f| Ino(f.ino as u64)))
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let (core, node) = (&*self.core, node(dir));
        let end = core.dir_slots(node);
        let per_block = SLOTS_PER_BLOCK as u64;
        let mut go_on = true;
        let mut unknown = None;
        for n in from / per_block..end.div_ceil(per_block) {
            // A copy: `emit` may wait, and the block's lock is not for that.
            let block = core.dir_block_ahead(node, n)?;
            let bytes = block.with(|b| *b);
            walk(&bytes, (n, block.lpa()), end as u32, node.ino, |slot, head, rest| {
                if head.is_free() || (slot as u64) < from {
                    return true;
                }
                let Some(kind) = FileKind::from_code(head.kind.get() as u8) else {
                    unknown = Some(slot);
                    return false;
                };
                let name = dentry::name(rest, head);
                let next = (slot + dentry::slots_for(name.len())) as u64;
                go_on = emit(DirEntry { name, ino: Ino(head.ino.get() as u64), kind, next });
                go_on
            })?;
            if let Some(slot) = unknown {
                return Err(FsError::Corrupt(format!("directory {}: unknown type in slot {slot}", node.ino)));
            }
            if !go_on {
                break;
            }
        }
        Ok(())
    }

    fn dir_end(&self, dir: &Inode) -> u64 {
        self.core.dir_slots(node(dir))
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        Ok(Ino(node(dir).body.lock().parent as u64))
    }

    fn is_empty_dir(&self, _call: &Call<'_>, dir: &Inode) -> Result<bool> {
        let dir = node(dir);
        self.core.load_dir(dir, false)?;
        Ok(dir.body.lock().dir.as_ref().is_none_or(|d| d.len() == 0))
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let core = &*self.core;
        let (target, len) = {
            let body = node(inode).body.lock();
            (body.target.to_vec(), body.disk_size as usize)
        };
        if !target.is_empty() || len == 0 {
            return Ok(target);
        }
        if len > PAGE_SIZE {
            return Err(FsError::Corrupt(format!("{}: a target of {len} bytes", inode.ino())));
        }
        let mut page = [Page::ZERO];
        core.read_pages(inode, 0, &mut page)?;
        let mut target = vec![0; len];
        page[0].copy_out(0, &mut target);
        Ok(target)
    }

    fn create(&self, call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        let core = &*self.core;
        let parent = node(dir);
        let _change = parent.change.lock();
        core.may_enter(parent)?;
        let dir_block = core.inode_block(parent.ino)?;
        let mut tx = Tx::new(core);
        let is_dir = new.kind == FileKind::Dir;
        tx.work(Kind::made(is_dir));
        let (ino, block) = tx.take_inode()?;
        let at = core.geometry.inode_place(ino).1;
        let generation = block.with(|b| InodeRecord::read(b, at).generation.get().wrapping_add(1));
        let mut body = Body::fresh(generation, if is_dir { parent.ino } else { 0 });
        body.dir = is_dir.then(Dir::empty);
        let mut attr = Attr { size: new.target.len() as u64, ..new.attr(call.time) };
        body.disk_size = attr.size;
        if new.target.len() <= INLINE_SIZE {
            body.target = new.target.into();
        } else {
            core.put_target(&mut tx, &mut body, new.target)?;
            attr.blocks = body.stat_blocks();
        }
        let place = core.plan_entry(&mut tx, parent, name, Claim::Free)?;
        tx.touch(&dir_block, core.inode_lines(parent.ino, place.half));
        tx.touch(&block, core.inode_lines(ino, Half::Both));
        let seq = tx.run(|| {
            core.put_entry(parent, &place, name, ino, new.kind);
            core.stamp_dir(call, dir, is_dir as i32);
            core.put_inode(&dir_block, dir);
            core.put_record(&block, ino, &mut body, &attr);
        })?;
        let made = Arc::new(Node::new(ino, new.kind, body));
        made.depends(seq);
        parent.depends(seq);
        Ok(Created { ino: Ino(ino as u64), loaded: Loaded { attr, private: made } })
    }

    fn create_unnamed(&self, call: &Call<'_>, _dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        let core = &*self.core;
        core.journal.alive()?;
        let mut tx = Tx::new(core);
        tx.work(Kind::made(false));
        let (ino, block) = tx.take_inode()?;
        let place = tx.take_orphan().ok_or(FsError::NoSpace)?;
        let at = core.geometry.inode_place(ino).1;
        let generation = block.with(|b| InodeRecord::read(b, at).generation.get().wrapping_add(1));
        let mut body = Body::fresh(generation, 0);
        body.standing = Standing::Orphan(place);
        let attr = Attr { nlink: 0, ..new.attr(call.time) };
        tx.touch(&block, core.inode_lines(ino, Half::Both));
        let seq = tx.run(|| {
            core.orphans.block.change(|b| orphan::set(b, place, ino));
            core.put_record(&block, ino, &mut body, &attr);
        })?;
        let made = Arc::new(Node::new(ino, new.kind, body));
        made.depends(seq);
        Ok(Created { ino: Ino(ino as u64), loaded: Loaded { attr, private: made } })
    }

    fn link(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let core = &*self.core;
        let (parent, child) = (node(dir), node(inode));
        let _change = lock_all(&mut [parent, child]);
        core.may_enter(parent)?;
        // With its first name it leaves the orphan table.
        let orphan = match child.body.lock().standing {
            Standing::Live => None,
            Standing::Orphan(place) => Some(place),
            // The vfs links no such file. Its blocks are free on media: a name would lead to them.
            Standing::Gone => return Err(FsError::NoEntry),
        };
        let (dir_block, block) = (core.inode_block(parent.ino)?, core.inode_block(child.ino)?);
        let mut tx = Tx::new(core);
        tx.work(Kind::Link.inodes());
        let place = core.plan_entry(&mut tx, parent, name, Claim::Free)?;
        tx.touch(&dir_block, core.inode_lines(parent.ino, place.half));
        tx.touch(&block, core.inode_lines(child.ino, Half::Hot));
        if let Some(listed) = orphan {
            tx.touch(&core.orphans.block, orphan::line_mask(listed));
        }
        let seq = tx.run(|| {
            core.put_entry(parent, &place, name, child.ino, child.kind);
            core.stamp_dir(call, dir, 0);
            if let Some(listed) = orphan {
                core.orphans.block.change(|b| orphan::set(b, listed, 0));
                child.body.lock().standing = Standing::Live;
            }
            inode.update(|a| a.linked(call.time));
            core.put_inode(&dir_block, dir);
            core.put_inode(&block, inode);
        })?;
        orphan.into_iter().for_each(|listed| core.orphans.give(listed));
        parent.depends(seq);
        child.depends(seq);
        Ok(())
    }

    fn unlink(&self, call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let core = &*self.core;
        let (parent, child) = (node(dir), node(inode));
        let _change = lock_all(&mut [parent, child]);
        let found = core.find_entry(parent, name, child.ino)?;
        let dir_block = core.inode_block(parent.ino)?;
        let mut tx = Tx::new(core);
        tx.work(Kind::Unlink.inodes() + core.removal_work(parent));
        let removal = core.plan_removal(&mut tx, inode)?;
        tx.touch(&found.block, found.head_line());
        tx.touch(&dir_block, core.inode_lines(parent.ino, Half::Hot));
        let seq = tx.run(|| {
            core.clear_entry(parent, &found, name);
            core.stamp_dir(call, dir, -((child.kind == FileKind::Dir) as i32));
            core.put_inode(&dir_block, dir);
            core.remove(call, inode, &removal);
        })?;
        parent.depends(seq);
        child.depends(seq);
        core.shrink_dir(dir)
    }

    fn rename(&self, call: &Call<'_>, rename: &Rename<'_>) -> Result<()> {
        self.core.rename(call, rename)
    }
}

impl Core {
    /// Writes a long target of a symbolic link into a block of its own, before the transaction that points
    /// there.
    fn put_target(&self, tx: &mut Tx<'_>, body: &mut Body, target: &[u8]) -> Result<()> {
        let run = tx.take_blocks(1, None, Claim::Free)?;
        let mut page = Page::ZERO;
        page.write(0, Payload::Bytes(target));
        self.port.write(Lpa(run.lba as u64), &[page], Structure::Data)?;
        body.map.add(0, run, true, &mut SlotEdits::new());
        Ok(())
    }

    /// Before a name is entered in a directory: its names are in memory.
    pub fn may_enter(&self, dir: &Node) -> Result<()> {
        self.journal.alive()?;
        self.load_dir(dir, true)
    }

    /// A directory's attributes after its names changed; `links` is the change of its subdirectories.
    pub fn stamp_dir(&self, call: &Call<'_>, dir: &Inode, links: i32) {
        let (size, blocks) = {
            let body = node(dir).body.lock();
            (body.disk_size, body.stat_blocks())
        };
        dir.update(|a| {
            a.size = size;
            a.blocks = blocks;
            a.nlink = a.nlink.wrapping_add_signed(links);
            a.modified(call.time);
        });
    }

    /// Plans that `inode` loses a name. Its `change` lock is held.
    pub fn plan_removal(&self, tx: &mut Tx<'_>, inode: &Inode) -> Result<Removal> {
        let child = node(inode);
        let stays = child.kind != FileKind::Dir && inode.attr().nlink > 1;
        let lines = |len: u32| (len as u64 - 1) / BITS_PER_GROUP + 2;
        let body = child.body.lock();
        let small = body.map.all_runs().map(|r| lines(r.len)).sum::<u64>()
            <= self.options.max_free_lines as u64
            || self.groups_of(&body) <= self.options.max_free_lines as usize;
        let orphan = if stays || small { None } else { tx.take_orphan() };
        if !stays && orphan.is_none() {
            // Without a place in the orphan table all goes in one transaction, which a redo log of the host's
            // may not hold.
            if !small && self.groups_of(&body) + 64 > self.most_lines {
                return Err(FsError::NoSpace);
            }
            tx.work(Kind::End.inodes());
            tx.free_inode(child.ino);
            body.map.all_runs().for_each(|run| tx.free_blocks(run, false));
            return Ok(Removal { block: None, standing: Standing::Gone });
        }
        drop(body);
        let block = self.inode_block(child.ino)?;
        tx.touch(&block, self.inode_lines(child.ino, Half::Hot));
        let standing = match orphan {
            None => Standing::Live,
            Some(place) => Standing::Orphan(place),
        };
        Ok(Removal { block: Some(block), standing })
    }

    /// Bitmap groups that an inode's blocks lie in.
    fn groups_of(&self, body: &Body) -> usize {
        let mut groups: Vec<u64> = body
            .map
            .all_runs()
            .flat_map(|r| r.lba as u64 / BITS_PER_GROUP..=(r.lba + r.len - 1) as u64 / BITS_PER_GROUP)
            .collect();
        groups.sort_unstable();
        groups.dedup();
        groups.len()
    }

    /// Does what [`Core::plan_removal`] planned. Lines locked.
    pub fn remove(&self, call: &Call<'_>, inode: &Inode, removal: &Removal) {
        let child = node(inode);
        child.body.lock().standing = removal.standing;
        inode.update(|a| {
            a.nlink = if removal.standing == Standing::Live { a.nlink - 1 } else { 0 };
            a.changed(call.time);
        });
        if let Standing::Orphan(place) = removal.standing {
            self.orphans.block.change(|b| orphan::set(b, place, child.ino));
        }
        if let Some(block) = &removal.block {
            self.put_inode(block, inode);
        }
    }
}
