//! Directories: one block of entries, or a hashed index over many.
//!
//! ```text
//!   up to one block       block 0: "." ".." entries
//!   more (flag INDEX)     block 0: root ── [nodes] ── leaf blocks, each with the names of a range of hashes
//! ```
//!
//! A name is found by its hash: root, at most one node, one leaf (more only where names of one hash continue
//! in the next leaf); then the leaf's at most ~340 entries are looked through. A full leaf is split in the
//! middle of its hashes; blocks are never given back (as in ext4). The index is on media, so nothing else is
//! kept in memory.
//!
//! `readdir` goes in hash order, so that a position (the hash, 63 bits) stays valid while entries come and
//! go. Two names with the same 63 bits are one position (1 in 10^7 directories of a million names have such a
//! pair).
//!
//! Not here: three-level indexes (`large_dir`), casefolding, inline directories.

use crate::alloc::{Purpose, Wanted};
use crate::extents::{Mapping, Owner};
use crate::fs::Ext4;
use crate::journal::Handle;
use crate::layout::dirent::{self, AFTER_DOTS};
use crate::layout::extent::ExtentEntry as Extent;
use crate::layout::htree::{self, Form, name_hash};
use crate::layout::inode::INDEX;
use crate::layout::{BLOCK_SIZE, corrupt};
use crate::node::{Node, number, show_blocks};
use granary_device::Structure;
use granary_fs::{DirEntry, FileKind, FsError, Ino, Inode, Result};
use granary_kit::{Block, work};
use granary_sim::{costs, cpu};
use granary_units::{Lpa, Nanos};
use std::sync::Arc;

/// An index block on the way to a leaf.
struct Frame {
    block: Arc<Block>,
    form: Form,
    index: usize,
}

/// The way to a leaf.
struct Probe {
    root: Frame,
    inner: Option<Frame>,
    leaf: u32,
}

/// A found name: the block, where entries begin in it, and the entry.
struct Place {
    block: Arc<Block>,
    from: usize,
    found: dirent::Found,
}

/// An entry taken out of its block.
struct Loose {
    hash: (u32, u32),
    ino: u32,
    kind: FileKind,
    name: Vec<u8>,
}

impl Loose {
    /// Position for `readdir`; 0 means the beginning.
    fn position(&self) -> u64 {
        ((self.hash.0 as u64) << 31 | self.hash.1 as u64 >> 1).max(1)
    }
}

fn is_indexed(node: &Node) -> bool {
    node.state.lock().flags & INDEX != 0
}

impl Ext4 {
    /// Block `logical` of a directory.
    pub(crate) fn dir_block(&self, node: &Node, logical: u32) -> Result<Arc<Block>> {
        match self.map_block(node, logical)? {
            Mapping::Mapped { start, .. } => self.cache.get(Lpa(start), Structure::Dentry),
            Mapping::Hole { .. } => Err(corrupt(format!("a directory has no block {logical}"))),
        }
    }

    fn probe(&self, node: &Node, hash: u32) -> Result<Probe> {
        let block = self.dir_block(node, 0)?;
        let (index, child, levels) = block.with(|b| {
            let i = htree::search(b, Form::Root, hash)?;
            Ok::<_, FsError>((i, htree::child(b, Form::Root, i), htree::levels(b)?))
        })?;
        let root = Frame { block, form: Form::Root, index };
        if levels == 0 {
            return Ok(Probe { root, inner: None, leaf: child });
        }
        let block = self.dir_block(node, child)?;
        let (index, leaf) = block.with(|b| {
            let i = htree::search(b, Form::Node, hash)?;
            Ok::<_, FsError>((i, htree::child(b, Form::Node, i)))
        })?;
        Ok(Probe { root, inner: Some(Frame { block, form: Form::Node, index }), leaf })
    }

    /// Goes on to the next leaf; returns the hash in its index entry (bit 0: the hash before continues), or
    /// `None` after the last.
    fn next_leaf(&self, node: &Node, probe: &mut Probe) -> Result<Option<u32>> {
        let advance = |frame: &mut Frame| {
            frame.block.with(|b| {
                let next = frame.index + 1;
                let there = next < htree::count(b, frame.form)?;
                frame.index += there as usize;
                let entry = (htree::hash(b, frame.form, next), htree::child(b, frame.form, next));
                Ok::<_, FsError>(there.then_some(entry))
            })
        };
        if let Some(inner) = &mut probe.inner {
            if let Some((hash, leaf)) = advance(inner)? {
                probe.leaf = leaf;
                return Ok(Some(hash));
            }
            let Some((hash, child)) = advance(&mut probe.root)? else { return Ok(None) };
            let block = self.dir_block(node, child)?;
            probe.leaf = block.with(|b| {
                htree::count(b, Form::Node)?;
                Ok::<_, FsError>(htree::child(b, Form::Node, 0))
            })?;
            probe.inner = Some(Frame { block, form: Form::Node, index: 0 });
            return Ok(Some(hash));
        }
        let Some((hash, leaf)) = advance(&mut probe.root)? else { return Ok(None) };
        probe.leaf = leaf;
        Ok(Some(hash))
    }

    /// The place of `name`, and the processor's cost of the search.
    fn find(&self, node: &Node, name: &[u8]) -> Result<(Option<Place>, Nanos)> {
        let in_block = |block: Arc<Block>, from: usize| {
            let (found, passed) = block.with(|b| dirent::find(b, from, name))?;
            Ok::<_, FsError>((found.map(|found| Place { block, from, found }), passed))
        };
        if !is_indexed(node) {
            let (place, passed) = in_block(self.dir_block(node, 0)?, AFTER_DOTS)?;
            return Ok((place, work::search(passed, false)));
        }
        let hash = name_hash(self.hash_seed, name).0;
        let mut probe = self.probe(node, hash)?;
        let mut all = 0;
        loop {
            let (place, passed) = in_block(self.dir_block(node, probe.leaf)?, 0)?;
            all += passed;
            let ends = place.is_some() || self.next_leaf(node, &mut probe)?.is_none_or(|h| h != hash | 1);
            if ends {
                return Ok((place, work::search(all, true)));
            }
        }
    }

    /// The inode that `name` stands for.
    pub(crate) fn dir_lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        let (place, cost) = self.find(dir.private::<Node>(), name)?;
        cpu(cost);
        Ok(place.map(|p| Ino(p.found.ino as u64)))
    }

    fn must_find(&self, h: &mut Handle<'_>, dir: &Inode, name: &[u8]) -> Result<Place> {
        let (place, cost) = self.find(dir.private::<Node>(), name)?;
        h.work(cost);
        place.ok_or(FsError::NoEntry)
    }

    /// Removes `name`.
    pub(crate) fn dir_remove(&self, h: &mut Handle<'_>, dir: &Inode, name: &[u8]) -> Result<()> {
        let p = self.must_find(h, dir, name)?;
        let passed = h.change(&p.block, |b| dirent::remove(b, p.from, p.found.at))?;
        h.work(work::remove(passed));
        Ok(())
    }

    /// Lets `name` stand for another inode.
    pub(crate) fn dir_repoint(
        &self,
        h: &mut Handle<'_>,
        dir: &Inode,
        name: &[u8],
        inode: &Inode,
    ) -> Result<()> {
        let p = self.must_find(h, dir, name)?;
        h.change(&p.block, |b| dirent::repoint(b, p.found.at, number(inode.ino()), inode.attr().kind));
        Ok(())
    }

    /// Enters `name`, which is not there.
    ///
    /// # Errors
    /// `NoSpace`: the directory is valid and without the name, perhaps with more blocks than before.
    pub(crate) fn dir_insert(
        &self,
        h: &mut Handle<'_>,
        dir: &Inode,
        name: &[u8],
        ino: u32,
        kind: FileKind,
    ) -> Result<()> {
        let node = dir.private::<Node>();
        if !is_indexed(node) {
            let block = self.dir_block(node, 0)?;
            if let Some(passed) = h.change(&block, |b| dirent::insert(b, AFTER_DOTS, name, ino, kind))? {
                h.work(work::insert(passed, false));
                return Ok(());
            }
            self.make_index(h, dir, &block)?;
        }
        let hash = name_hash(self.hash_seed, name).0;
        loop {
            let probe = self.probe(node, hash)?;
            let leaf = self.dir_block(node, probe.leaf)?;
            if let Some(passed) = h.change(&leaf, |b| dirent::insert(b, 0, name, ino, kind))? {
                h.work(work::insert(passed, true));
                return Ok(());
            }
            self.make_dir_room(h, dir, &probe, &leaf)?;
        }
    }

    /// The entries of a block, in hash order.
    fn loose(&self, block: &Arc<Block>, from: usize) -> Result<Vec<Loose>> {
        let mut list = Vec::new();
        block.with(|b| {
            dirent::each(b, from, |e| {
                let hash = name_hash(self.hash_seed, e.name);
                list.push(Loose { hash, ino: e.ino, kind: e.kind, name: e.name.to_vec() });
                true
            })
        })?;
        list.sort_by(|a, b| (a.hash, &a.name).cmp(&(b.hash, &b.name)));
        Ok(list)
    }

    /// Makes a full one-block directory an indexed one: its entries go to a leaf, block 0 becomes the root.
    fn make_index(&self, h: &mut Handle<'_>, dir: &Inode, first: &Arc<Block>) -> Result<()> {
        let entries = self.loose(first, AFTER_DOTS)?;
        let (logical, leaf) = self.append_dir_block(h, dir)?;
        fill(h, &leaf, &entries)?;
        h.change(first, |b| htree::init_root(b, 0, logical));
        dir.private::<Node>().state.lock().flags |= INDEX;
        self.mark_inode(h, dir)
    }

    /// One step towards room for a name whose leaf is full: splits the leaf, or the index above it.
    fn make_dir_room(&self, h: &mut Handle<'_>, dir: &Inode, probe: &Probe, leaf: &Arc<Block>) -> Result<()> {
        let is_full =
            |f: &Frame| f.block.with(|b| Ok::<_, FsError>(htree::count(b, f.form)? >= f.form.limit()));
        let last = probe.inner.as_ref().unwrap_or(&probe.root);
        if !is_full(last)? {
            return self.split_leaf(h, dir, last, leaf);
        }
        let root = &probe.root;
        match &probe.inner {
            None => {
                let (logical, new) = self.append_dir_block(h, dir)?;
                let mut moved = Box::new([0; BLOCK_SIZE]);
                h.change(&root.block, |b| {
                    htree::split(b, Form::Root, 0, &mut moved);
                    htree::init_root(b, 1, logical);
                });
                h.change(&new, |b| *b = *moved);
            }
            Some(_) if is_full(root)? => return Err(FsError::NoSpace), // as ext4 without large_dir
            Some(inner) => {
                let (logical, new) = self.append_dir_block(h, dir)?;
                let mut moved = Box::new([0; BLOCK_SIZE]);
                let hash = h.change(&inner.block, |b| {
                    htree::split(b, Form::Node, Form::Node.limit() / 2, &mut moved)
                });
                h.change(&new, |b| *b = *moved);
                h.change(&root.block, |b| htree::insert(b, Form::Root, root.index + 1, hash, logical));
            }
        }
        Ok(())
    }

    fn split_leaf(&self, h: &mut Handle<'_>, dir: &Inode, frame: &Frame, leaf: &Arc<Block>) -> Result<()> {
        let mut low = self.loose(leaf, 0)?;
        // Half of the bytes stay.
        let (mut at, mut bytes) = (0, 0);
        while bytes < dirent::END / 2 && at + 1 < low.len() {
            bytes += dirent::needed(low[at].name.len());
            at += 1;
        }
        if at == 0 {
            return Err(corrupt("a full directory block has fewer than two entries"));
        }
        let high = low.split_off(at);
        let hash = high[0].hash.0;
        let continues = low.last().is_some_and(|l| l.hash.0 == hash);
        let (logical, new) = self.append_dir_block(h, dir)?;
        // Both halves are written anew.
        h.work(costs().dir_block_init * 2);
        fill(h, &new, &high)?;
        fill(h, leaf, &low)?;
        h.change(&frame.block, |b| {
            htree::insert(b, frame.form, frame.index + 1, hash | continues as u32, logical)
        });
        Ok(())
    }

    /// A new block at the end of a directory: its logical number and itself, all zeros.
    fn append_dir_block(&self, h: &mut Handle<'_>, dir: &Inode) -> Result<(u32, Arc<Block>)> {
        let logical = (dir.size() / BLOCK_SIZE as u64) as u32;
        let block =
            self.add_meta_block(h, dir.private::<Node>(), number(dir.ino()), logical, Structure::Dentry)?;
        let size = (logical as u64 + 1) * BLOCK_SIZE as u64;
        dir.update(|a| a.size = size);
        {
            let mut s = dir.private::<Node>().state.lock();
            s.disksize = size;
            show_blocks(dir, &s);
        }
        self.mark_inode(h, dir)?;
        Ok((logical, block))
    }

    /// Allocates and maps one journalled block of a directory or a symbolic link.
    pub(crate) fn add_meta_block(
        &self,
        h: &mut Handle<'_>,
        node: &Node,
        ino: u32,
        logical: u32,
        what: Structure,
    ) -> Result<Arc<Block>> {
        let owner = Owner { node, ino, meta: true };
        let _tree = node.map.write();
        let goal = self.goal(owner, logical)?;
        let wanted = Wanted { ino, logical, len: 1, file_blocks: logical + 1, goal, purpose: Purpose::Meta };
        let (lpa, _) = self.groups.allocate(h, &wanted)?;
        let block = self.cache.fresh(Lpa(lpa), what);
        match self.insert_extent(h, owner, Extent { key: logical, len: 1, start: lpa, unwritten: false }) {
            Ok(()) => {
                node.state.lock().blocks += 1;
                Ok(block)
            }
            Err(e) => {
                self.groups.free(h, lpa, 1)?;
                Err(e)
            }
        }
    }

    /// Calls `emit` for the entries after position `from`, in hash order.
    pub(crate) fn dir_read(
        &self,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let node = dir.private::<Node>();
        let mut give = |list: &[Loose]| {
            list.iter().filter(|l| l.position() > from).all(|l| {
                let ino = Ino(l.ino as u64);
                emit(DirEntry { name: &l.name, ino, kind: l.kind, next: l.position() })
            })
        };
        if !is_indexed(node) {
            give(&self.loose(&self.dir_block(node, 0)?, AFTER_DOTS)?);
            return Ok(());
        }
        let mut probe = self.probe(node, (from >> 31) as u32)?;
        let mut list = self.loose(&self.dir_block(node, probe.leaf)?, 0)?;
        loop {
            let next = self.next_leaf(node, &mut probe)?;
            // Names of one hash that continue in the next leaf are sorted together with those before.
            if next.is_none_or(|hash| hash & 1 == 0) {
                list.sort_by(|a, b| (a.hash, &a.name).cmp(&(b.hash, &b.name)));
                if !give(&list) || next.is_none() {
                    return Ok(());
                }
                list.clear();
            }
            list.extend(self.loose(&self.dir_block(node, probe.leaf)?, 0)?);
        }
    }

    /// Whether no name is in a directory. Looks through the blocks until it finds one.
    pub(crate) fn dir_is_empty(&self, dir: &Inode) -> Result<bool> {
        let mut empty = true;
        let node = dir.private::<Node>();
        let mut see = |block: &Arc<Block>, from: usize| {
            block.with(|b| {
                dirent::each(b, from, |_| {
                    empty = false;
                    false
                })
            })
        };
        if !is_indexed(node) {
            see(&self.dir_block(node, 0)?, AFTER_DOTS)?;
            return Ok(empty);
        }
        let mut probe = self.probe(node, 0)?;
        loop {
            see(&self.dir_block(node, probe.leaf)?, 0)?;
            if self.next_leaf(node, &mut probe)?.is_none() {
                break;
            }
        }
        Ok(empty)
    }

    /// The parent of a directory.
    pub(crate) fn dir_parent(&self, dir: &Inode) -> Result<Ino> {
        let first = self.dir_block(dir.private::<Node>(), 0)?;
        first.with(dirent::parent).map(|p| Ino(p as u64))
    }

    /// Gives a directory another parent.
    pub(crate) fn dir_set_parent(&self, h: &mut Handle<'_>, dir: &Inode, parent: Ino) -> Result<()> {
        let first = self.dir_block(dir.private::<Node>(), 0)?;
        h.change(&first, |b| dirent::set_parent(b, number(parent)));
        Ok(())
    }
}

/// Writes entries into a leaf as its only content.
fn fill(h: &mut Handle<'_>, leaf: &Arc<Block>, entries: &[Loose]) -> Result<()> {
    h.change(leaf, |b| {
        dirent::init(b);
        // Entries end to end: each insertion goes behind the one before.
        let mut at = 0;
        for e in entries {
            if dirent::insert(b, at, &e.name, e.ino, e.kind)?.is_none() {
                return Err(corrupt("entries of one directory block do not fit into one"));
            }
            at = dirent::last(b, at)?;
        }
        Ok(())
    })
}
