//! Strays: blocks of directories whose inodes are lost. Names carry their place on the drive in their
//! checksums, so such a block is recognized, and the inodes that it names keep their names.
//!
//! ```text
//!   in use, nobody's, begins with a right name ──┬─ a directory in it knows its parent: that is made anew,
//!                                                │  called as it was where its own name is there, else
//!                                                │  /lost+found/#number
//!                                                └─ only files: those that nobody else names, in a new
//!                                                   /lost+found/#number
//! ```
//!
//! Mode and owner of such a directory are lost: it is the superuser's alone.

use super::names::{Dir, Entry, read_block};
use super::{Found, Repair, bit, set_bit};
use crate::journal::Bitmap;
use crate::layout::{InodeRecord, SLOTS_PER_BLOCK, bitmap};
use crate::mkfs::ROOT;
use granary_device::Structure;
use granary_fs::{FileKind, Result};
use zerocopy::FromZeros;
use zerocopy::little_endian::{I64, U16, U32};

impl Repair<'_> {
    /// Reads them, where inodes are lost at all, and makes those directories anew that are known. Returns the
    /// others.
    pub(super) fn strays(&mut self) -> Result<Vec<(u64, Vec<Entry>)>> {
        if !self.lost_inodes {
            return Ok(Vec::new());
        }
        let mut known = vec![0; self.block_bits.len()];
        self.g.fixed().flatten().for_each(|n| set_bit(&mut known, n, true));
        for f in self.inodes.values() {
            let lists = f.slot_blocks.iter().chain(&f.index_blocks).chain(&f.xattr_blocks).copied();
            let all = lists.chain(f.pieces.iter().flat_map(|p| p.lba..p.lba + p.len));
            all.filter(|&lba| (lba as u64) < self.g.blocks())
                .for_each(|lba| set_bit(&mut known, lba as u64, true));
        }
        let mut others = Vec::new();
        for lba in self.g.data..self.g.blocks() {
            let map = self.g.bitmap_block(Bitmap::Blocks, lba / bitmap::BITS_PER_BLOCK).0;
            let in_use = bit(&self.block_bits, lba) && !self.lost.contains(&map);
            if !in_use || bit(&known, lba) || self.lost.contains(&lba) {
                continue;
            }
            let bytes = self.read(lba, Structure::Dentry)?;
            let mut entries = Vec::new();
            read_block(&bytes, lba as u32, SLOTS_PER_BLOCK, &mut entries);
            if entries.first().is_none_or(|e| e.place != Some((lba as u32, 0))) {
                continue;
            }
            self.stray_blocks.push(lba);
            match self.parent_of(&entries) {
                Some(dir) => self.restore(dir, entries),
                None => others.push((lba, entries)),
            }
        }
        Ok(others)
    }

    /// The directory that these entries were in, by what the directories among them say; its inode is lost.
    fn parent_of(&self, entries: &[Entry]) -> Option<u32> {
        let parent = |e: &Entry| {
            let child = self.inodes.get(&e.child).filter(|f| f.kind == Some(FileKind::Dir) && !f.doubtful)?;
            let here =
                |p: &u32| self.restored.contains(p) || !self.inodes.contains_key(p) && self.is_lost_inode(*p);
            Some(child.record.parent.get()).filter(here)
        };
        entries.iter().find_map(parent)
    }

    fn restore(&mut self, ino: u32, entries: Vec<Entry>) {
        if self.restored.insert(ino) {
            // Not a count yet, but it has links.
            let record = InodeRecord { nlink: U32::new(2), ..self.blank_dir(0o700, 1) };
            self.inodes.insert(ino, Found { changed: true, ..Found::new(record, Some(FileKind::Dir)) });
        }
        let whose = if ino == ROOT { "" } else { ": made anew, for the superuser alone" };
        self.say(format!(
            "directory {ino}: its inode is lost, {} of its names are not{whose}",
            entries.len()
        ));
        let dir = self.dirs.entry(ino).or_default();
        dir.entries.extend(entries);
        dir.relist = true;
    }

    /// Makes a new directory for each other block, with those of its names whose inodes have no other name.
    pub(super) fn adopt(&mut self, strays: Vec<(u64, Vec<Entry>)>) -> Result<()> {
        for (lba, mut entries) in strays {
            entries.retain(|e| self.inodes.get(&e.child).is_some_and(|f| !f.reached && f.names == 0));
            if entries.is_empty() {
                continue;
            }
            let Some(ino) = self.fresh_inode() else { continue };
            self.say(format!(
                "block {lba}: a directory whose inode is lost had {} names in it: they are in directory {ino}",
                entries.len()
            ));
            let found = Found::new(self.blank_dir(0o700, 1), Some(FileKind::Dir));
            self.inodes.insert(ino, Found { changed: true, reached: true, ..found });
            self.dirs.insert(ino, Dir { entries, relist: true });
            self.rescue(ino)?;
            self.visit(ino)?;
        }
        Ok(())
    }

    /// The record of an empty directory, as old as the file system.
    pub(super) fn blank_dir(&self, mode: u16, generation: u32) -> InodeRecord {
        let time = I64::new(self.made);
        InodeRecord {
            mtime: time,
            ctime: time,
            atime: time,
            mode: U16::new((FileKind::Dir.code() as u16) << 12 | mode),
            generation: U32::new(generation),
            ..InodeRecord::new_zeroed()
        }
    }

    /// An inode number that nobody has.
    pub(super) fn fresh_inode(&self) -> Option<u32> {
        let free = |n: &u32| !bit(&self.inode_bits, *n as u64) && !self.inodes.contains_key(n);
        (ROOT + 1..self.g.inodes() as u32).find(free)
    }
}
