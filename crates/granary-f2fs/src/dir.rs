//! Directories: entries inline in the inode, or a hash table of many levels over blocks.
//!
//! ```text
//!   up to 182 slots    inline
//!   more               level 0: 1 bucket, level 1: 2, level 2: 4 ... of 2 blocks each; a name lies in the
//!                      bucket of
//!                      its hash of some level below `depth`
//! ```
//!
//! Insertion takes the first level with room and adds a level where there is none. Blocks are reserved like
//! file blocks, changed in memory, and written by the next checkpoint. An empty block is given back (but
//! never the first, with "." and "..").
//!
//! Positions of `readdir` are block times 214 plus slot; entries never move (inline ones keep their slots
//! when they get a block), so positions stay valid.

use crate::cache::CachedBlock;
use crate::fs::F2fs;
use crate::layout::dentry::{BLOCK, Form, Found, INLINE, bucket, name_hash};
use crate::layout::node::{ADDRS_AT, INLINE_AT, INLINE_BYTES, INLINE_DENTRY, XATTR_AT};
use crate::layout::{BLOCK_SIZE, BlockBytes, NEW_ADDR, NULL_ADDR, corrupt, is_real, put32};
use crate::node::{node, number};
use granary_device::Structure;
use granary_fs::{DirEntry, FileKind, FsError, Ino, Inode, Result};
use granary_kit::work;
use granary_sim::cpu;
use granary_units::{Lpa, Page};
use std::sync::Arc;

/// Where entries are.
enum Table {
    Inline(Arc<CachedBlock>),
    Block(Arc<CachedBlock>, u64),
}

/// A found name.
struct Place {
    table: Table,
    found: Found,
}

/// Slot of "..".
const PARENT_SLOT: usize = 1;

fn inline(b: &BlockBytes) -> &[u8] {
    &b[INLINE_AT..INLINE_AT + INLINE_BYTES]
}

fn inline_mut(b: &mut BlockBytes) -> &mut [u8] {
    &mut b[INLINE_AT..INLINE_AT + INLINE_BYTES]
}

/// Fills the inline area of a new directory.
pub(crate) fn make_empty(b: &mut BlockBytes, ino: u32, parent: u32) {
    INLINE.insert(inline_mut(b), 0, b".", ino, FileKind::Dir);
    INLINE.insert(inline_mut(b), PARENT_SLOT, b"..", parent, FileKind::Dir);
}

impl F2fs {
    /// Block `index` of a directory; `None`: a hole.
    pub(crate) fn dent(&self, ino: u32, index: u64) -> Result<Option<Arc<CachedBlock>>> {
        let key = (ino, index as u32);
        if let Some(e) = self.dents.cached(key) {
            return Ok(Some(e));
        }
        let at = match self.dnode(ino, index)? {
            Ok(d) => d.addr(),
            Err(_) => NULL_ADDR,
        };
        if at == NULL_ADDR {
            return Ok(None);
        }
        let entry = self.dents.get(key, || {
            let at = self.addrs(ino, index, 1)?[0];
            if !is_real(at) {
                return Ok(Page::ZERO);
            }
            if !self.geo.in_main(at) {
                return Err(corrupt(format!("directory {ino} has a block at {at}")));
            }
            let mut page = [Page::ZERO];
            self.port.read(Lpa(at as u64), &mut page, Structure::Dentry)?;
            let [mut page] = page;
            page.bytes_mut();
            Ok(page)
        })?;
        Ok(Some(entry))
    }

    /// The place of `name`. Takes the processor for the search: all of the entries in the blocks before, half
    /// of those beside it.
    fn find(&self, dir: &Inode, name: &[u8]) -> Result<Option<Place>> {
        let (place, passed, hashed) = self.find_passing(dir, name)?;
        cpu(work::search(passed, hashed));
        Ok(place)
    }

    fn find_passing(&self, dir: &Inode, name: &[u8]) -> Result<(Option<Place>, u64, bool)> {
        let node = node(dir);
        let mut passed = 0;
        let hash = name_hash(name);
        let (is_inline, depth) = {
            let s = node.state.lock();
            (s.has_inline_dentries(), s.depth)
        };
        if is_inline {
            let entry = self.inode_node(node.ino)?;
            let (found, used) = entry.with(|b| (INLINE.find(inline(b), name, hash), INLINE.used(inline(b))));
            let passed = if found.is_some() { used / 2 } else { used };
            return Ok((found.map(|found| Place { table: Table::Inline(entry), found }), passed, false));
        }
        for level in 0..depth {
            for index in bucket(level, hash).into_iter().flatten() {
                let Some(e) = self.dent(node.ino, index)? else { continue };
                let used = e.with(|b| BLOCK.used(b));
                if !e.names.may_have(hash) {
                    passed += used;
                    continue;
                }
                let found = e.with(|b| {
                    let found = BLOCK.find(b, name, hash);
                    if found.is_none() {
                        e.names.renew(BLOCK.hashes(b));
                    }
                    found
                });
                if let Some(found) = found {
                    let place = Place { table: Table::Block(e, index), found };
                    return Ok((Some(place), passed + used / 2, true));
                }
                passed += used;
            }
        }
        Ok((None, passed, true))
    }

    pub(crate) fn dir_lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        Ok(self.find(dir, name)?.map(|p| Ino(p.found.ino as u64)))
    }

    fn change_table<T>(&self, table: &Table, f: impl FnOnce(&Form, &mut [u8]) -> T) -> T {
        match table {
            Table::Inline(e) => self.nodes.change(e, |b| f(&INLINE, inline_mut(b))),
            Table::Block(e, _) => self.dents.change(e, |b| f(&BLOCK, b)),
        }
    }

    /// Lets `name` stand for another inode.
    pub(crate) fn dir_repoint(&self, dir: &Inode, name: &[u8], ino: u32, kind: FileKind) -> Result<()> {
        let p = self.find(dir, name)?.ok_or(FsError::NoEntry)?;
        self.change_table(&p.table, |form, b| form.repoint(b, p.found.slot, ino, kind));
        Ok(())
    }

    /// Removes `name`.
    pub(crate) fn dir_remove(&self, dir: &Inode, name: &[u8]) -> Result<()> {
        let p = self.find(dir, name)?.ok_or(FsError::NoEntry)?;
        cpu(work::remove(0));
        let empty = self.change_table(&p.table, |form, b| {
            form.remove(b, p.found.slot);
            form.is_empty(b)
        });
        match p.table {
            Table::Block(_, index) if empty && index > 0 => self.free_dir_block(dir, index),
            _ => Ok(()),
        }
    }

    fn free_dir_block(&self, dir: &Inode, index: u64) -> Result<()> {
        let node = node(dir);
        let Ok(d) = self.dnode(node.ino, index)? else { return Ok(()) };
        let old = d.addr();
        if is_real(old) {
            self.segs.lock().invalidate(old)?;
        }
        self.set_addr(&d, NULL_ADDR);
        self.dents.forget((node.ino, index as u32));
        self.give_blocks(1);
        let mut s = node.state.lock();
        s.blocks = s.blocks.saturating_sub(1);
        drop(s);
        self.show_blocks(dir);
        Ok(())
    }

    /// Enters `name`, which is not there.
    ///
    /// # Errors
    /// `NoSpace`: the directory is without the name.
    pub(crate) fn dir_insert(&self, dir: &Inode, name: &[u8], ino: u32, kind: FileKind) -> Result<()> {
        let node = node(dir);
        if node.state.lock().has_inline_dentries() {
            let entry = self.inode_node(node.ino)?;
            if let Some(slot) = entry.with(|b| INLINE.room(inline(b), name.len())) {
                cpu(work::insert(0, false));
                self.nodes.change(&entry, |b| INLINE.insert(inline_mut(b), slot, name, ino, kind));
                return Ok(());
            }
            self.convert_inline_dir(dir, &entry)?;
        }
        let (hash, depth) = (name_hash(name), node.state.lock().depth);
        for (level, blocks) in (0..).map_while(|level| Some((level, bucket(level, hash)?))) {
            for index in blocks {
                let e = match self.dent(node.ino, index)? {
                    Some(e) => e,
                    None => self.add_dir_block(dir, index)?,
                };
                let Some(slot) = e.with(|b| BLOCK.room(b, name.len())) else { continue };
                cpu(work::insert(0, true));
                self.dents.change(&e, |b| {
                    BLOCK.insert(b, slot, name, ino, kind);
                    e.names.note(hash);
                });
                if level >= depth {
                    node.state.lock().depth = level + 1;
                    self.mark_inode(dir, true);
                }
                return Ok(());
            }
        }
        Err(FsError::NoSpace)
    }

    fn add_dir_block(&self, dir: &Inode, index: u64) -> Result<Arc<CachedBlock>> {
        let node = node(dir);
        self.reserve_blocks(node, index, index + 1)?;
        let e = self.dents.fresh((node.ino, index as u32), &[0; BLOCK_SIZE]);
        self.set_dir_size(dir, (index + 1) * BLOCK_SIZE as u64);
        Ok(e)
    }

    fn set_dir_size(&self, dir: &Inode, size: u64) {
        if size > dir.size() {
            dir.update(|a| a.size = size);
            node(dir).state.lock().disksize = size;
        }
        self.show_blocks(dir);
        self.mark_inode(dir, true);
    }

    /// The inline entries of a full directory move to its first block, slot for slot.
    fn convert_inline_dir(&self, dir: &Inode, entry: &Arc<CachedBlock>) -> Result<()> {
        let node = node(dir);
        self.take_blocks(1)?;
        let mut block = Box::new([0; BLOCK_SIZE]);
        entry.with(|b| BLOCK.copy_from(&mut block[..], &INLINE, inline(b)));
        let flags = {
            let mut s = node.state.lock();
            s.inline &= !INLINE_DENTRY;
            s.depth = 1;
            s.blocks += 1;
            s.inline
        };
        self.nodes.change(entry, |b| {
            b[ADDRS_AT..XATTR_AT].fill(0);
            b[3] = flags;
            put32(b, ADDRS_AT, NEW_ADDR);
        });
        self.dents.fresh((node.ino, 0), &block);
        self.set_dir_size(dir, BLOCK_SIZE as u64);
        Ok(())
    }

    /// A moved directory's "..".
    pub(crate) fn dir_set_parent(&self, dir: &Inode, parent: Ino) -> Result<()> {
        let node = node(dir);
        let table = if node.state.lock().has_inline_dentries() {
            Table::Inline(self.inode_node(node.ino)?)
        } else {
            let e = self.dent(node.ino, 0)?;
            Table::Block(e.ok_or_else(|| corrupt(format!("directory {} has no first block", node.ino)))?, 0)
        };
        self.change_table(&table, |form, b| form.repoint(b, PARENT_SLOT, number(parent), FileKind::Dir));
        node.state.lock().parent = number(parent);
        self.mark_inode(dir, true);
        Ok(())
    }

    /// Calls `visit` with entries ("." and ".." too) from a position on: position, hash, inode, kind, name.
    pub(crate) fn dir_walk(
        &self,
        ino: u32,
        (is_inline, size): (bool, u64),
        from: u64,
        visit: &mut dyn FnMut(u64, crate::layout::dentry::Dentry<'_>) -> bool,
    ) -> Result<()> {
        let slots = BLOCK.slots as u64;
        let mut each = |form: &Form, b: &[u8], base: u64, mut slot: usize| {
            while let Some(e) = form.next(b, slot)? {
                slot = e.slot + 1;
                if !visit(base + e.slot as u64, e) {
                    return Ok::<_, FsError>(false);
                }
            }
            Ok(true)
        };
        if is_inline {
            if from < slots {
                let bytes = self.inode_node(ino)?.snapshot().to_bytes();
                each(&INLINE, inline(&bytes), 0, from as usize)?;
            }
            return Ok(());
        }
        let blocks = size.div_ceil(BLOCK_SIZE as u64);
        let (mut index, mut slot) = (from / slots, (from % slots) as usize);
        while index < blocks {
            let n = (blocks - index).min(256) as usize;
            for at in self.addrs(ino, index, n)? {
                if at != NULL_ADDR
                    && let Some(e) = self.dent(ino, index)?
                {
                    let page = e.snapshot();
                    let bytes = page.as_bytes().map_or_else(|| Box::new(page.to_bytes()), |b| Box::new(*b));
                    if !each(&BLOCK, &bytes[..], index * slots, slot)? {
                        return Ok(());
                    }
                }
                (index, slot) = (index + 1, 0);
            }
        }
        Ok(())
    }

    fn dir_shape(&self, dir: &Inode) -> (bool, u64) {
        (node(dir).state.lock().has_inline_dentries(), dir.size())
    }

    pub(crate) fn dir_read(
        &self,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.dir_walk(node(dir).ino, self.dir_shape(dir), from, &mut |at, e| {
            if e.name == b"." || e.name == b".." {
                return true;
            }
            emit(DirEntry { name: e.name, ino: Ino(e.ino as u64), kind: e.kind, next: at + 1 })
        })
    }

    pub(crate) fn dir_is_empty(&self, dir: &Inode) -> Result<bool> {
        let mut empty = true;
        self.dir_walk(node(dir).ino, self.dir_shape(dir), 2, &mut |_, _| {
            empty = false;
            false
        })?;
        Ok(empty)
    }

    /// Forgets the blocks of a directory that goes.
    pub(crate) fn forget_dents(&self, ino: u32, size: u64) -> Result<()> {
        let blocks = size.div_ceil(BLOCK_SIZE as u64);
        let mut index = 0;
        while index < blocks {
            let n = (blocks - index).min(1024) as usize;
            for at in self.addrs(ino, index, n)? {
                if at != NULL_ADDR {
                    self.dents.forget((ino, index as u32));
                }
                index += 1;
            }
        }
        Ok(())
    }
}
