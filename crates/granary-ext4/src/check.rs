//! `check`: everything on media against everything else, and against memory.
//!
//! ```text
//!   1 groups    inode bitmap -> inodes in use -> their blocks, each used once, within their size's reach;
//!               an attribute block by as many inodes as it counts
//!   2 names     from the root: every entry's inode exists, is of that kind; hashes lie in their leaf's range
//!   3 links     names of each inode = its link count; no inode without a name but orphans
//!   4 bitmaps   blocks in use = block bitmaps; counters of descriptors, superblock, memory = bitmaps
//!   5 journal   nothing waits; the orphan list on media = the one in memory
//! ```
//!
//! Blocks are compared with the media where nothing waits to be written home. It does *not* repair.

use crate::alloc::{clear_range, empty_blocks, get, set_range};
use crate::extents::Mapping;
use crate::fs::Ext4;
use crate::layout::extent::ExtentEntry;
use crate::layout::group::{BLOCK_UNINIT, INODE_UNINIT};
use crate::layout::htree::{self, Form, name_hash};
use crate::layout::inode::{EXTENTS, FIRST_INO, INDEX, INODES_PER_BLOCK, JOURNAL_INO, ROOT_INO, RawInode};
use crate::layout::superblock::Superblock;
use crate::layout::{BLOCK_SIZE, BLOCKS_PER_GROUP, BlockBytes, dirent, xattr};
use crate::life::LINK_MAX;
use crate::node::{self, Node};
use granary_device::Structure;
use granary_fs::{Attr, FileKind, FsError, Ino, Inode, Result};
use granary_kit::Block;
use granary_units::{Lpa, Page};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An inode in use.
struct Known {
    inode: Inode,
    names: u32,
    subdirs: u32,
    parent: Option<u32>,
}

struct Checker<'a> {
    fs: &'a Ext4,
    /// Nothing waits to be written home: the media must equal memory.
    settled: bool,
    problems: Vec<String>,
    used: Vec<Box<BlockBytes>>,
    inodes: BTreeMap<u32, Known>,
    /// Attribute blocks: users that the block counts (`None`: unreadable), inodes that point there.
    attributes: BTreeMap<u64, (Option<u32>, u32)>,
}

impl Ext4 {
    pub(crate) fn check_all(&self) -> Result<Vec<String>> {
        let geo = self.groups.geo;
        let used = (0..geo.groups)
            .map(|g| {
                let mut b = Box::new([0; BLOCK_SIZE]);
                empty_blocks(&geo, g, &mut b);
                b
            })
            .collect();
        let settled = self.journal.pending() == 0;
        let mut c = Checker {
            fs: self,
            settled,
            problems: Vec::new(),
            used,
            inodes: BTreeMap::new(),
            attributes: BTreeMap::new(),
        };
        let result = c.run();
        match result {
            // What cannot even be read is a finding, not a failure of the check.
            Err(FsError::Corrupt(evidence)) => c.problems.push(evidence),
            other => other?,
        }
        Ok(c.problems)
    }
}

impl Checker<'_> {
    fn run(&mut self) -> Result<()> {
        for g in 0..self.fs.groups.geo.groups {
            self.group_metadata(g);
        }
        for g in 0..self.fs.groups.geo.groups {
            self.inodes_of(g)?;
        }
        self.sharing();
        self.names()?;
        self.links();
        for g in 0..self.fs.groups.geo.groups {
            self.bitmap_of(g)?;
        }
        self.totals()
    }

    fn problem(&mut self, text: String) {
        // A thousand sentences say enough.
        if self.problems.len() < 1000 {
            self.problems.push(text);
        }
    }

    /// A block as memory has it; compared with the media.
    fn block(&mut self, lpa: u64, what: Structure) -> Result<Arc<Block>> {
        let block = self.fs.cache.get(Lpa(lpa), what)?;
        if self.settled {
            let mut page = [Page::ZERO];
            self.fs.port.read(Lpa(lpa), &mut page, what)?;
            if page[0] != block.snapshot() {
                self.problem(format!("block {lpa} ({what:?}) differs between memory and media"));
            }
        }
        Ok(block)
    }

    /// Counts blocks as used by `who`.
    fn use_blocks(&mut self, start: u64, len: u32, who: &dyn Fn() -> String) {
        if start == 0 || start + len as u64 > self.fs.groups.geo.blocks {
            return self.problem(format!("{} has blocks {start}+{len}, outside the file system", who()));
        }
        let (mut at, end) = (start, start + len as u64);
        while at < end {
            let g = self.fs.groups.geo.group_of(at);
            let stop = end.min(self.fs.groups.geo.group_start(g) + BLOCKS_PER_GROUP as u64);
            let bit = (at % BLOCKS_PER_GROUP as u64) as u32;
            if !set_range(&mut self.used[g as usize], bit, (stop - at) as u32) {
                self.problem(format!("{} has blocks {at}..{stop}, some of which are used twice", who()));
            }
            at = stop;
        }
    }

    fn group_metadata(&mut self, g: u32) {
        let d = self.fs.groups.desc(g);
        let itable = self.fs.groups.geo.itable_blocks();
        for (first, n) in [(d.block_bitmap, 1), (d.inode_bitmap, 1), (d.inode_table, itable)] {
            self.use_blocks(first.get(), n, &|| format!("group {g}"));
        }
    }

    fn inodes_of(&mut self, g: u32) -> Result<()> {
        let (geo, d) = (self.fs.groups.geo, self.fs.groups.desc(g));
        let n = geo.inodes_per_group;
        if d.flags.get() & INODE_UNINIT != 0 {
            if d.free_inodes.get() != n || d.itable_unused.get() != n {
                self.problem(format!("group {g} has no inode bitmap but inodes"));
            }
            return Ok(());
        }
        let bitmap = self.block(d.inode_bitmap.get(), Structure::Bitmap)?.snapshot().to_bytes();
        let (mut free, mut dirs) = (0, 0);
        for index in 0..n {
            if !get(&bitmap, index) {
                free += 1;
                continue;
            }
            let ino = g * n + index + 1;
            if index >= n - d.itable_unused.get() {
                self.problem(format!("inode {ino} is in use in the part of its table that never was"));
            }
            if ino < FIRST_INO && ino != ROOT_INO && ino != JOURNAL_INO {
                continue;
            }
            let lpa = d.inode_table.get() + (index / INODES_PER_BLOCK) as u64;
            // Compared once for each block of the table.
            let block = match index % INODES_PER_BLOCK {
                0 => self.block(lpa, Structure::Inode)?,
                _ => self.fs.cache.get(Lpa(lpa), Structure::Inode)?,
            };
            let raw = block.with(|b| *RawInode::at(b, node::slot(ino, n)));
            match node::decode(&raw, ino, 0) {
                Ok(loaded) => {
                    dirs += (loaded.attr.kind == FileKind::Dir) as u32;
                    self.one_inode(ino, Inode::new(Ino(ino as u64), loaded))?;
                }
                Err(e) => self.problem(format!("inode {ino} is in use: {e}")),
            }
        }
        if free != d.free_inodes.get() || dirs != d.used_dirs.get() {
            self.problem(format!(
                "group {g}: {free} free inodes and {dirs} directories, its descriptor says {} and {}",
                d.free_inodes.get(),
                d.used_dirs.get()
            ));
        }
        Ok(())
    }

    /// The blocks of an inode.
    fn one_inode(&mut self, ino: u32, inode: Inode) -> Result<()> {
        let attr = inode.attr();
        let (root, flags, blocks, xattrs) = {
            let s = inode.private::<Node>().state.lock();
            (s.root, s.flags, s.blocks, s.xattr_block)
        };
        let (mut extents, mut tree) = (Vec::new(), Vec::new());
        if flags & EXTENTS != 0 {
            self.fs.walk_extents(&root, &mut |e| extents.push(e), &mut |lpa| tree.push(lpa))?;
        }
        extents.sort_by_key(|e| e.key);
        let mut counted = tree.len() as u64;
        let (mut end, reach) = (0, attr.size.div_ceil(BLOCK_SIZE as u64));
        for e in &extents {
            counted += e.len as u64;
            let stop = e.key as u64 + e.len as u64;
            if (e.key as u64) < end || e.len == 0 {
                self.problem(format!("inode {ino}: extent {e:?} overlaps the one before"));
            }
            if stop > reach && attr.nlink > 0 && !self.fs.loose {
                self.beyond(ino, attr.size, e)?;
            }
            end = stop;
            self.use_blocks(e.start, e.len, &|| format!("inode {ino}"));
        }
        for lpa in tree {
            self.use_blocks(lpa, 1, &|| format!("the extent tree of inode {ino}"));
            self.block(lpa, Structure::DataPointer)?;
        }
        if xattrs != 0 {
            counted += 1;
            self.attributes_of(ino, xattrs)?;
        }
        if counted != blocks {
            self.problem(format!("inode {ino} says {blocks} blocks and has {counted}"));
        }
        self.inodes.insert(ino, Known { inode, names: 0, subdirs: 0, parent: None });
        Ok(())
    }

    /// The attribute block of an inode: used once, by as many inodes as it says.
    fn attributes_of(&mut self, ino: u32, lba: u64) -> Result<()> {
        let (_, found) = self.attributes.entry(lba).or_default();
        *found += 1;
        let first = *found == 1;
        if first {
            self.use_blocks(lba, 1, &|| format!("the attributes of inode {ino}"));
        }
        if lba >= self.fs.groups.geo.blocks {
            return Ok(());
        }
        let block = match first {
            true => self.block(lba, Structure::Inode)?,
            false => self.fs.cache.get(Lpa(lba), Structure::Inode)?,
        };
        // Each for itself: the older form belongs to one inode.
        match block.with(|b| xattr::read(b, lba, ino)) {
            Ok(says) => self.attributes.entry(lba).or_default().0 = Some(says.users),
            Err(e) => self.problem(e.to_string()),
        }
        Ok(())
    }

    fn sharing(&mut self) {
        for (lba, (users, found)) in std::mem::take(&mut self.attributes) {
            if let Some(users) = users.filter(|u| *u != found) {
                self.problem(format!(
                    "block {lba} counts {users} inodes with its attributes, {found} have them"
                ));
            }
        }
    }

    /// Blocks beyond a file's end are what fallocate reserved: unwritten or zero. (Once there was a recovery they become so when
    /// the inode is loaded.)
    fn beyond(&mut self, ino: u32, size: u64, e: &ExtentEntry) -> Result<()> {
        let reach = size.div_ceil(BLOCK_SIZE as u64).min(u32::MAX as u64) as u32;
        let skip = reach.saturating_sub(e.key);
        if e.unwritten {
            return Ok(());
        }
        for lpa in e.start + skip as u64..(e.start + e.len as u64).min(self.fs.groups.geo.blocks) {
            let mut page = [Page::ZERO];
            self.fs.port.read(Lpa(lpa), &mut page, Structure::Data)?;
            if !page[0].is_zero() {
                self.problem(format!("inode {ino} of {size} bytes has data beyond its end, in block {lpa}"));
                break;
            }
        }
        Ok(())
    }

    fn names(&mut self) -> Result<()> {
        let dirs: Vec<u32> = self
            .inodes
            .iter()
            .filter(|(_, k)| k.inode.attr().kind == FileKind::Dir && k.inode.attr().nlink > 0)
            .map(|(ino, _)| *ino)
            .collect();
        for dir in dirs {
            if let Err(e) = self.names_of(dir) {
                self.problem(format!("directory {dir}: {e}"));
            }
        }
        Ok(())
    }

    fn names_of(&mut self, dir: u32) -> Result<()> {
        let (indexed, size) = {
            let known = &self.inodes[&dir];
            let indexed = known.inode.private::<Node>().state.lock().flags & INDEX != 0;
            (indexed, known.inode.size())
        };
        let first = self.dir_block(dir, 0)?;
        let own = first.with(|b| crate::layout::le32(b, 0));
        if own != dir {
            self.problem(format!("\".\" of directory {dir} is inode {own}"));
        }
        let parent = first.with(dirent::parent)?;
        if let Some(k) = self.inodes.get_mut(&dir) {
            k.parent = Some(parent);
        }
        if !indexed {
            if size != BLOCK_SIZE as u64 {
                self.problem(format!("directory {dir} of {size} bytes has no index"));
            }
            return self.names_in(dir, &first, dirent::AFTER_DOTS, (0, u32::MAX));
        }
        let leaves = self.leaves(dir, &first, size)?;
        for (i, (hash, logical)) in leaves.iter().enumerate() {
            let end = leaves.get(i + 1).map_or(u32::MAX, |l| l.0);
            let block = self.dir_block(dir, *logical)?;
            self.names_in(dir, &block, 0, (*hash & !1, end))?;
        }
        Ok(())
    }

    /// The leaves of an indexed directory in order: (first hash, logical block). Every block has one place.
    fn leaves(&mut self, dir: u32, first: &Arc<Block>, size: u64) -> Result<Vec<(u32, u32)>> {
        let entries = |b: &Block, form: Form| {
            b.with(|b| {
                let n = htree::count(b, form)?;
                Ok::<_, FsError>(
                    (0..n).map(|i| (htree::hash(b, form, i), htree::child(b, form, i))).collect::<Vec<_>>(),
                )
            })
        };
        let mut leaves = entries(first, Form::Root)?;
        let mut seen = vec![0];
        if first.with(htree::levels)? == 1 {
            let mut below = Vec::new();
            for (hash, logical) in leaves {
                seen.push(logical);
                let block = self.dir_block(dir, logical)?;
                let mut part = entries(&block, Form::Node)?;
                part[0].0 = hash;
                below.extend(part);
            }
            leaves = below;
        }
        seen.extend(leaves.iter().map(|l| l.1));
        seen.sort_unstable();
        if !seen.iter().copied().eq(0..(size / BLOCK_SIZE as u64) as u32) {
            self.problem(format!("directory {dir}: its index does not lead to each block once"));
        }
        if !leaves.is_sorted_by_key(|l| l.0) {
            self.problem(format!("directory {dir}: hashes in its index do not ascend"));
        }
        Ok(leaves)
    }

    fn dir_block(&mut self, dir: u32, logical: u32) -> Result<Arc<Block>> {
        let mapped = self.fs.map_block(self.inodes[&dir].inode.private::<Node>(), logical)?;
        match mapped {
            Mapping::Mapped { start, .. } => self.block(start, Structure::Dentry),
            Mapping::Hole { .. } => Err(crate::layout::corrupt(format!("no block {logical}"))),
        }
    }

    fn names_in(&mut self, dir: u32, block: &Block, from: usize, hashes: (u32, u32)) -> Result<()> {
        let (mut list, seed) = (Vec::new(), self.fs.hash_seed);
        block.with(|b| {
            dirent::each(b, from, |e| {
                list.push((e.ino, e.kind, name_hash(seed, e.name).0, e.name.to_vec()));
                true
            })
        })?;
        for (ino, kind, hash, name) in list {
            let impossible = name.iter().any(|b| matches!(b, 0 | b'/'));
            let name = granary_fs::quoted(&name);
            if impossible {
                self.problem(format!("directory {dir}: {name} has a byte that no name has"));
            }
            if !(hashes.0..=hashes.1).contains(&hash) {
                self.problem(format!("directory {dir}: {name} is in a leaf of other hashes"));
            }
            let Some(known) = self.inodes.get_mut(&ino) else {
                self.problem(format!("directory {dir}: {name} is inode {ino}, which is not in use"));
                continue;
            };
            known.names += 1;
            let Attr { kind: real, nlink, .. } = known.inode.attr();
            if real != kind || nlink == 0 {
                self.problem(format!("directory {dir}: {name} is a {kind:?}, inode {ino} a {real:?}"));
            }
            if kind == FileKind::Dir {
                let child = self.dir_block(ino, 0)?;
                let parent = child.with(dirent::parent)?;
                if parent != dir {
                    self.problem(format!("directory {dir}: {name} has parent {parent}"));
                }
                if let Some(k) = self.inodes.get_mut(&dir) {
                    k.subdirs += 1;
                }
            }
        }
        Ok(())
    }

    fn links(&mut self) {
        let orphans = self.fs.orphans.lock().newest_first();
        let mut found = Vec::new();
        for (ino, k) in &self.inodes {
            let attr = k.inode.attr();
            let want = match (*ino, attr.kind) {
                (JOURNAL_INO, _) => (0, attr.nlink),
                // It has had more directories than are counted.
                (_, FileKind::Dir) if attr.nlink == 1 && had_room_for_many(&attr) => {
                    ((*ino != ROOT_INO) as u32, 1)
                }
                (ROOT_INO, _) => (0, 2 + k.subdirs),
                _ if attr.nlink == 0 => (0, 0),
                (_, FileKind::Dir) => (1, 2 + k.subdirs),
                _ => (attr.nlink, k.names),
            };
            if (k.names, attr.nlink) != want {
                found.push(format!(
                    "inode {ino} has {} names and {} links, not {want:?}",
                    k.names, attr.nlink
                ));
            }
            if attr.nlink == 0 && !orphans.contains(ino) {
                found.push(format!("inode {ino} has no links and is not on the orphan list"));
            }
        }
        // Directories must hang together: each reaches the root through its parents.
        for (ino, k) in self.inodes.iter().filter(|(_, k)| k.inode.attr().kind == FileKind::Dir) {
            if k.inode.attr().nlink == 0 {
                continue;
            }
            let (mut at, mut steps) = (*ino, 0);
            while at != ROOT_INO && steps <= self.inodes.len() {
                at = self.inodes.get(&at).and_then(|k| k.parent).unwrap_or(0);
                steps += 1;
            }
            if at != ROOT_INO {
                found.push(format!("directory {ino} does not reach the root"));
            }
        }
        self.problems.extend(found);
    }

    fn bitmap_of(&mut self, g: u32) -> Result<()> {
        let d = self.fs.groups.desc(g);
        let used = self.used[g as usize].clone();
        let bitmap = if d.flags.get() & BLOCK_UNINIT != 0 {
            let mut b = [0; BLOCK_SIZE];
            empty_blocks(&self.fs.groups.geo, g, &mut b);
            b
        } else {
            self.block(d.block_bitmap.get(), Structure::Bitmap)?.snapshot().to_bytes()
        };
        if bitmap != *used {
            let first = (0..BLOCKS_PER_GROUP).find(|i| get(&bitmap, *i) != get(&used, *i)).unwrap_or(0);
            let what = if get(&used, first) { "in use and marked free" } else { "free and marked in use" };
            self.problem(format!("block {} is {what}", self.fs.groups.geo.group_start(g) + first as u64));
        }
        let free: u32 = bitmap.iter().map(|b| b.count_zeros()).sum();
        if free != d.free_blocks.get() {
            self.problem(format!(
                "group {g}: {free} free blocks, its descriptor says {}",
                d.free_blocks.get()
            ));
        }
        if let Some(mut view) = self.fs.groups.view(g) {
            // Whatever is in use must be out of the search's reach.
            let hidden = (0..BLOCKS_PER_GROUP).all(|i| !get(&bitmap, i) || clear_range(&mut view, i, 1));
            if !hidden {
                self.problem(format!("group {g}: the search could find blocks in use"));
            }
        }
        Ok(())
    }

    fn totals(&mut self) -> Result<()> {
        let geo = self.fs.groups.geo;
        for i in 0..geo.descriptor_blocks() as u64 {
            let block = self.block(1 + i, Structure::Superblock)?;
            for g in (i as u32 * 64..geo.groups).take(64) {
                let media = block.with(|b| crate::layout::group::GroupDesc::parse(b, g))?;
                // The copy in memory carries no up-to-date checksum.
                let mut memory = self.fs.groups.desc(g);
                memory.checksum = media.checksum;
                if media != memory {
                    self.problem(format!("group {g}: its descriptor in memory differs from its block"));
                }
            }
        }
        let sum = |of: fn(&crate::layout::group::GroupDesc) -> u32| {
            (0..geo.groups).map(|g| of(&self.fs.groups.desc(g)) as u64).sum::<u64>()
        };
        let (blocks, inodes) = (sum(|d| d.free_blocks.get()), sum(|d| d.free_inodes.get()));
        let space = self.fs.groups.space();
        if blocks != space.free || inodes != self.fs.groups.free_inodes() {
            self.problem(format!(
                "descriptors have {blocks} free blocks and {inodes} free inodes, memory {} and {}",
                space.free,
                self.fs.groups.free_inodes()
            ));
        }
        let sb = self.block(0, Structure::Superblock)?.with(Superblock::parse)?;
        let orphans = self.fs.orphans.lock().newest_first();
        let (mut at, mut chain) = (sb.last_orphan.get(), Vec::new());
        while at != 0 && chain.len() <= orphans.len() {
            chain.push(at);
            let block = self.fs.inode_block(at)?;
            at = block.with(|b| RawInode::at(b, node::slot(at, geo.inodes_per_group)).next_orphan.get());
        }
        if chain != orphans {
            self.problem(format!("the orphan list on media is {chain:?}, in memory {orphans:?}"));
        }
        if !self.settled {
            let n = self.fs.journal.pending();
            self.problem(format!("{n} blocks are not home: sync before check"));
        }
        Ok(())
    }
}

/// Whether a directory has had so many others that they are not counted any more: none gets smaller.
fn had_room_for_many(dir: &Attr) -> bool {
    dir.size >= (LINK_MAX as u64 - 1) * dirent::needed(1) as u64
}
