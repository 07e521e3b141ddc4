//! Directories in host memory: names by hash, free slots, and the way of both from and to the directory's
//! blocks.
//!
//! ```text
//!   index:  hash of the name -> slot          8 B per name at a load of at most 3/4
//!   free:   stacks of free areas of 1, 2, 3, 4, 5 slots
//!   end:    first slot never used; beyond it the blocks are garbage
//! ```
//!
//! The index is built from the directory's blocks on first use; the names themselves stay in the cached
//! blocks, where a lookup compares them. A new name goes into the smallest free area that holds it, else to
//! the end.
//!
//! A directory that has lost its last name gives back its blocks but the first; until then it keeps them all.
//!
//! It does *not* join neighbouring free areas: a directory whose names got longer grows at its end instead.
//!
//! Source: ByteFS section 4.5 (entries cached by their hashed names; whole blocks loaded).

pub mod index;

use crate::core::Core;
use crate::dir::index::{NameIndex, Named, hash};
use crate::journal::Tx;
use crate::layout::dentry::{self, MAX_SLOTS, line_of};
use crate::layout::{DentryHead, SLOT_SIZE, SLOTS_PER_BLOCK};
use crate::map::{FileMap, Piece};
use crate::node::{Half, Node, Standing, node};
use crate::space::Claim;
use granary_device::Structure;
use granary_fs::{FileKind, FsError, Inode, Result};
use granary_kit::{Block, work};
use granary_units::{Lpa, Nanos, PAGE_SIZE};
use std::sync::Arc;

/// Blocks read together when a directory is walked.
const READ_AHEAD: u64 = 32;

/// The names of a directory.
#[derive(Default)]
pub struct Dir {
    index: NameIndex,
    free: [Vec<u32>; MAX_SLOTS as usize],
    end: u32,
    /// Blocks allocated, some perhaps beyond `end`.
    blocks: u32,
}

/// An entry found.
#[derive(Clone)]
pub struct Found {
    /// Its first slot.
    pub slot: u32,
    /// Its inode.
    pub ino: u32,
    /// Its slots.
    pub slots: u32,
    /// Its block.
    pub block: Arc<Block>,
}

/// Where a new entry goes.
pub struct DentryPlace {
    slot: u32,
    slots: u32,
    block: Arc<Block>,
    /// Slots of the free area that it takes from; 0 = at the end.
    area: u32,
    /// Slots left over at the end of the block before, which become a free area, and that block.
    skipped: Option<(u32, u32, Arc<Block>)>,
    /// Halves of the directory's inode that changed.
    pub half: Half,
}

impl Found {
    /// The line of the head in its block, as a mask.
    pub fn head_line(&self) -> u64 {
        1 << (self.slot % SLOTS_PER_BLOCK)
    }

    /// Points the name at another inode. Lines locked.
    pub fn point_at(&self, ino: u32, kind: FileKind) {
        let line = line_of(self.block.lpa().0, self.slot);
        self.block.change(|b| dentry::point_at(&mut b[offset(self.slot)..], line, ino, kind.code() as u16));
    }
}

fn offset(slot: u32) -> usize {
    (slot % SLOTS_PER_BLOCK) as usize * SLOT_SIZE
}

/// Where block `n` of a directory is.
fn dir_block(map: &FileMap, n: u64, ino: u32) -> Result<Lpa> {
    match map.piece(n) {
        Piece::At { lba, .. } => Ok(Lpa(lba as u64)),
        Piece::Hole { .. } => Err(FsError::Corrupt(format!("directory {ino} has no block {n}"))),
    }
}

impl Dir {
    /// Names in it.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// First slot never used.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// A new directory, without names and blocks.
    pub fn empty() -> Box<Dir> {
        Box::default()
    }

    fn enter(&mut self, name: &[u8], place: &DentryPlace, ino: u32) {
        if place.area == 0 {
            if let Some((slot, slots, _)) = &place.skipped {
                self.free[*slots as usize - 1].push(*slot);
            }
            self.end = place.slot + place.slots;
        } else {
            let taken = self.free[place.area as usize - 1].pop();
            debug_assert_eq!(taken, Some(place.slot));
            let rest = place.area - place.slots;
            if rest > 0 {
                self.free[rest as usize - 1].push(place.slot + place.slots);
            }
        }
        self.index.insert(hash(name), Named { slot: place.slot, ino });
    }

    fn leave(&mut self, name: &[u8], slot: u32, slots: u32) {
        self.index.remove(hash(name), |named| named.slot == slot);
        self.free[slots as usize - 1].push(slot);
    }
}

/// Walks the heads of directory block `n`, which lies at `lpa`, up to slot `end` (counted in the directory),
/// calling `f` with slot, head and the rest of the block. Stops when `f` returns false.
///
/// # Errors
/// `Corrupt`.
pub fn walk(
    bytes: &[u8; PAGE_SIZE],
    (n, lpa): (u64, Lpa),
    end: u32,
    ino: u32,
    mut f: impl FnMut(u32, &DentryHead, &[u8]) -> bool,
) -> Result<()> {
    let first = n as u32 * SLOTS_PER_BLOCK;
    let stop = end.min(first + SLOTS_PER_BLOCK);
    let mut slot = first;
    while slot < stop {
        let rest = &bytes[offset(slot)..];
        let head = DentryHead::read(rest);
        match head.stride() {
            Some(stride) if slot + stride <= stop => {
                if !head.is_sound(rest, line_of(lpa.0, slot)) {
                    return Err(unsound(ino, slot, &head));
                }
                if !f(slot, &head, rest) {
                    return Ok(());
                }
                slot += stride;
            }
            _ => return Err(FsError::Corrupt(format!("directory {ino}: slot {slot} holds {head:?}"))),
        }
    }
    Ok(())
}

fn unsound(ino: u32, slot: u32, head: &DentryHead) -> FsError {
    FsError::Corrupt(format!("directory {ino}: wrong checksum in slot {slot}, which holds {head:?}"))
}

/// Names in a directory that is loaded.
fn names(node: &Node) -> u64 {
    node.body.lock().dir.as_ref().map_or(0, |d| d.len() as u64)
}

impl Core {
    /// Reads the names of a directory if that has not been done. Takes the node's `change` lock for it,
    /// unless the caller `holds` it.
    ///
    /// # Errors
    /// `Corrupt`, drive errors.
    pub fn load_dir(&self, node: &Node, holds: bool) -> Result<()> {
        if node.body.lock().dir.is_some() {
            return Ok(());
        }
        let _change = (!holds).then(|| node.change.lock());
        let (size, blocks) = {
            let body = node.body.lock();
            if body.dir.is_some() {
                return Ok(());
            }
            (body.disk_size, body.map.end())
        };
        let bad = || FsError::Corrupt(format!("directory {} has size {size} in {blocks} blocks", node.ino));
        let end = u32::try_from(size / SLOT_SIZE as u64).map_err(|_| bad())?;
        if size % SLOT_SIZE as u64 != 0 || end as u64 > blocks * SLOTS_PER_BLOCK as u64 {
            return Err(bad());
        }
        let mut dir = Box::new(Dir { end, blocks: blocks as u32, ..Dir::default() });
        for n in 0..(end as u64).div_ceil(SLOTS_PER_BLOCK as u64) {
            let block = self.dir_block_ahead(node, n)?;
            block.with(|bytes| {
                walk(bytes, (n, block.lpa()), end, node.ino, |slot, head, rest| {
                    match head.is_free() {
                        true => dir.free[head.len.get() as usize - 1].push(slot),
                        false => {
                            let named = Named { slot, ino: head.ino.get() };
                            dir.index.insert(hash(dentry::name(rest, head)), named);
                        }
                    }
                    true
                })
            })?;
        }
        node.body.lock().dir = Some(dir);
        Ok(())
    }

    /// Block `n` of a directory; a miss reads the following ones too.
    pub(crate) fn dir_block_ahead(&self, node: &Node, n: u64) -> Result<Arc<Block>> {
        let (lpa, ahead) = {
            let body = node.body.lock();
            match body.map.piece(n) {
                Piece::At { lba, len } => (Lpa(lba as u64), len.min(READ_AHEAD)),
                Piece::Hole { .. } => (dir_block(&body.map, n, node.ino)?, 1),
            }
        };
        self.cache.get_window(lpa, lpa.0..lpa.0 + ahead, Structure::Dentry)
    }

    /// The entry called `name`. The directory is loaded.
    ///
    /// # Errors
    /// Drive errors.
    pub fn find(&self, node: &Node, name: &[u8]) -> Result<Option<Found>> {
        let mut after = None;
        loop {
            let (slot, ino, lpa) = {
                let body = node.body.lock();
                let dir = body.dir.as_ref().expect("the directory is loaded");
                let Some((Named { slot, ino }, at)) = dir.index.next(hash(name), after) else {
                    return Ok(None);
                };
                after = Some(at);
                (slot, ino, dir_block(&body.map, (slot / SLOTS_PER_BLOCK) as u64, node.ino)?)
            };
            // A look-up of a name is followed by a look at its inode.
            let (table, record) = self.geometry.inode_place(ino);
            self.inodes.lock().prefetch(ino as u64);
            self.cache.prefetch([(lpa, offset(slot)), (table, record)]);
            let block = self.cache.get(lpa, Structure::Dentry)?;
            let at = offset(slot);
            let head = block.with(|b| {
                let head = DentryHead::read(&b[at..]);
                let fits = head.stride().is_some_and(|n| at + n as usize * SLOT_SIZE <= PAGE_SIZE);
                // The block may have been read again since the index was made.
                if !fits || !head.is_sound(&b[at..], line_of(lpa.0, slot)) {
                    return Err(unsound(node.ino, slot, &head));
                }
                Ok((!head.is_free() && dentry::name(&b[at..], &head) == name).then_some(head))
            })?;
            if let Some(head) = head {
                let slots = dentry::slots_for(name.len());
                return Ok(Some(Found { slot, ino: head.ino.get(), slots, block }));
            }
        }
    }

    /// Processor time of a search for a name in a loaded directory: that of ext4, on which the paper built
    /// ByteFS (section 4.9). The index above only makes the simulation quick.
    pub fn search_work(&self, node: &Node, there: bool) -> Nanos {
        let (passed, hashed) = work::passed(names(node), there);
        work::search(passed, hashed)
    }

    /// The same of taking a name out, the search for it included.
    pub fn removal_work(&self, node: &Node) -> Nanos {
        self.search_work(node, true) + work::remove(work::passed(names(node), true).0)
    }

    /// The entry called `name`, which must be there and mean inode `ino`.
    ///
    /// # Errors
    /// `NoEntry` otherwise.
    pub fn find_entry(&self, node: &Node, name: &[u8], ino: u32) -> Result<Found> {
        self.load_dir(node, true)?;
        self.find(node, name)?.filter(|f| f.ino == ino).ok_or(FsError::NoEntry)
    }

    /// Plans where `name` goes in a loaded directory, with a new block, on the ground of `claim`, where
    /// needed. The directory's `change` lock is held; its inode's lines are for the caller to touch.
    ///
    /// # Errors
    /// `NoSpace`, with nothing changed; drive errors.
    pub fn plan_entry(&self, tx: &mut Tx<'_>, node: &Node, name: &[u8], claim: Claim) -> Result<DentryPlace> {
        let (passed, hashed) = work::passed(names(node), true);
        tx.work(work::insert(passed, hashed));
        let slots = dentry::slots_for(name.len());
        let (area, slot, skipped, blocks) = {
            let body = node.body.lock();
            let dir = body.dir.as_ref().expect("the directory is loaded");
            let area = (slots..=MAX_SLOTS).find(|&n| !dir.free[n as usize - 1].is_empty());
            match area {
                Some(n) => (n, *dir.free[n as usize - 1].last().expect("not empty"), 0, dir.blocks),
                None => {
                    let left = (SLOTS_PER_BLOCK - dir.end % SLOTS_PER_BLOCK) % SLOTS_PER_BLOCK;
                    let skip = if left < slots { left } else { 0 };
                    (0, dir.end + skip, skip, dir.blocks)
                }
            }
        };
        let skipped = match skipped {
            0 => None,
            n => Some((slot - n, n, self.dir_block_of(node, slot - n)?)),
        };
        let n = slot / SLOTS_PER_BLOCK;
        let half = if n >= blocks { self.grow_dir(tx, node, n, claim)? } else { Half::Hot };
        let block = self.journal.fatal(self.dir_block_of(node, slot))?;
        let first = slot % SLOTS_PER_BLOCK;
        // The rest of a larger free area gets a head of its own, in its first line.
        tx.touch_lines(&block, first, if area > slots { slots + 1 } else { slots });
        if let Some((slot, _, before)) = &skipped {
            tx.touch_lines(before, slot % SLOTS_PER_BLOCK, 1);
        }
        Ok(DentryPlace { slot, slots, block, area, skipped, half })
    }

    fn dir_block_of(&self, node: &Node, slot: u32) -> Result<Arc<Block>> {
        let lpa = dir_block(&node.body.lock().map, (slot / SLOTS_PER_BLOCK) as u64, node.ino)?;
        self.cache.get(lpa, Structure::Dentry)
    }

    /// Allocates blocks for a directory from its block `n` on: as many as it has, at most eight; one of those
    /// that are kept.
    fn grow_dir(&self, tx: &mut Tx<'_>, node: &Node, n: u32, claim: Claim) -> Result<Half> {
        let goal = node.body.lock().map.goal(n as u64);
        let run = match tx.take_blocks(n.clamp(1, 8) as u64, goal, Claim::Free) {
            Err(FsError::NoSpace) if claim == Claim::Kept => tx.take_blocks(1, goal, claim)?,
            other => other?,
        };
        let half = self.add_extents(tx, node, &[(n as u64, run)])?;
        for lba in run.lba..run.lba + run.len {
            self.cache.fresh(Lpa(lba as u64), Structure::Dentry);
        }
        let mut body = node.body.lock();
        body.dir.as_mut().expect("the directory is loaded").blocks += run.len;
        Ok(half)
    }

    /// Gives back the blocks of a directory without names, but for the first. In transactions of their own:
    /// the size goes to zero with the first of them, and blocks behind the end are what any directory may
    /// have, so a power failure between them leaves nothing to do. The caller holds `change`.
    ///
    /// # Errors
    /// Of the drive.
    pub fn shrink_dir(&self, dir: &Inode) -> Result<()> {
        let node = node(dir);
        loop {
            {
                let body = node.body.lock();
                let empty = body.dir.as_ref().is_some_and(|d| d.len() == 0 && d.blocks > 1);
                if !empty || body.standing != Standing::Live {
                    return Ok(());
                }
            }
            let table = self.inode_block(node.ino)?;
            let mut tx = Tx::new(self);
            let (half, _) = self.cut_step(&mut tx, node, 1)?;
            tx.touch(&table, self.inode_lines(node.ino, half));
            let seq = tx.run(|| {
                let mut body = node.body.lock();
                let blocks = body.map.end() as u32;
                body.dir = Some(Box::new(Dir { blocks, ..Dir::default() }));
                body.disk_size = 0;
                let stat_blocks = body.stat_blocks();
                drop(body);
                dir.update(|a| (a.size, a.blocks) = (0, stat_blocks));
                self.put_inode(&table, dir);
            })?;
            node.depends(seq);
        }
    }

    /// Writes an entry where [`Core::plan_entry`] put it. Lines locked.
    pub fn put_entry(&self, node: &Node, place: &DentryPlace, name: &[u8], ino: u32, kind: FileKind) {
        let at = offset(place.slot);
        let len = place.slots as usize * SLOT_SIZE;
        let line = line_of(place.block.lpa().0, place.slot);
        place.block.change(|b| {
            dentry::write_entry(&mut b[at..at + len], line, ino, kind.code() as u16, name);
            if place.area > place.slots {
                let rest = place.area - place.slots;
                dentry::write_free(&mut b[at + len..], line + place.slots as u64, rest);
            }
        });
        if let Some((slot, slots, before)) = &place.skipped {
            let line = line_of(before.lpa().0, *slot);
            before.change(|b| dentry::write_free(&mut b[offset(*slot)..], line, *slots));
        }
        let mut body = node.body.lock();
        let dir = body.dir.as_mut().expect("the directory is loaded");
        dir.enter(name, place, ino);
        let end = dir.end() as u64;
        body.disk_size = end * SLOT_SIZE as u64;
    }

    /// Frees the slots of an entry; its head's line was touched. Lines locked.
    pub fn clear_entry(&self, node: &Node, found: &Found, name: &[u8]) {
        let line = line_of(found.block.lpa().0, found.slot);
        found.block.change(|b| dentry::write_free(&mut b[offset(found.slot)..], line, found.slots));
        let mut body = node.body.lock();
        body.dir.as_mut().expect("the directory is loaded").leave(name, found.slot, found.slots);
    }

    /// Writes another name of as many slots in an entry's place. Lines locked.
    pub fn rewrite_entry(&self, node: &Node, found: &Found, from: &[u8], to: &[u8], kind: FileKind) {
        let at = offset(found.slot);
        let len = found.slots as usize * SLOT_SIZE;
        let line = line_of(found.block.lpa().0, found.slot);
        let kind = kind.code() as u16;
        found.block.change(|b| dentry::write_entry(&mut b[at..at + len], line, found.ino, kind, to));
        let mut body = node.body.lock();
        let dir = body.dir.as_mut().expect("the directory is loaded");
        dir.index.remove(hash(from), |named| named.slot == found.slot);
        dir.index.insert(hash(to), Named { slot: found.slot, ino: found.ino });
    }

    /// Slots of a directory up to the last that was ever used.
    pub fn dir_slots(&self, node: &Node) -> u64 {
        let body = node.body.lock();
        body.dir.as_ref().map_or(body.disk_size / SLOT_SIZE as u64, |d| d.end() as u64)
    }
}
