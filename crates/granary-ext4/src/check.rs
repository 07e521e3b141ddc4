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

mod names;
mod space;

use crate::alloc::{empty_blocks, get, set_range};
use crate::fs::Ext4;
use crate::layout::extent::ExtentEntry;
use crate::layout::group::INODE_UNINIT;
use crate::layout::inode::{EXTENTS, FIRST_INO, INODES_PER_BLOCK, JOURNAL_INO, ROOT_INO, RawInode};
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
            // An unreadable structure is a finding, not a failure of the check.
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

    /// Blocks beyond a file's end are what fallocate reserved: unwritten or zero. (Once there was a recovery
    /// they become so when the inode is loaded.)
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
}

/// Whether a directory has had so many others that they are not counted any more: none gets smaller.
fn had_room_for_many(dir: &Attr) -> bool {
    dir.size >= (LINK_MAX as u64 - 1) * dirent::needed(1) as u64
}
