//! `check()`: everything on media against everything else, and against what memory believes.
//!
//! ```text
//!   inode bitmap -> inode records -> extents  -> each block has one owner     = block bitmap
//!                                 -> names    -> link counts, a tree, nothing unreachable
//!   media        =  cached blocks, allocators
//! ```
//!
//! It reads the media through the block interface and trusts no cache. The file system is quiet and synced.

mod tree;

use crate::core::Core;
use crate::journal::Bitmap;
use crate::layout::inode::INLINE_SIZE;
use crate::layout::{INODE_SIZE, INODES_PER_BLOCK, InodeRecord, bitmap, extent, inode, line, orphan, xattr};
use crate::map::FileMap;
use crate::mkfs::ROOT;
use crate::mount::is_unreadable;
use crate::truncate::blocks_of;
use granary_device::Structure;
use granary_fs::{FileKind, FsError, Result};
use granary_units::{LINE_SIZE, Lpa, PAGE_SIZE, Page};

/// Violations reported at most; one cause often has many.
const MOST: usize = 100;

/// Findings about an inode number.
#[derive(Clone, Default)]
struct Seen {
    kind: Option<FileKind>,
    nlink: u32,
    parent: u32,
    /// Entries that name it.
    names: u32,
    /// Subdirectories in it.
    subdirs: u32,
    /// The directory whose entry named it last.
    named_in: u32,
    orphan: bool,
}

struct Check<'a> {
    core: &'a Core,
    bad: Vec<String>,
    /// Up to the last inode that is in use or named.
    inodes: Vec<Seen>,
    /// Directory, inode and what the directory calls it, where that is not yet known to be true.
    called: Vec<(u32, u32, Option<FileKind>)>,
    /// Blocks with an owner.
    owned: Vec<u64>,
    /// Something could not be read: what it names has no names and owners, which is no finding of its own.
    partial: bool,
}

/// See [`granary_fs::Life::check`].
pub fn check(core: &Core) -> Result<Vec<String>> {
    let g = &core.geometry;
    let mut c = Check {
        core,
        bad: Vec::new(),
        inodes: Vec::new(),
        called: Vec::new(),
        owned: vec![0; g.blocks().div_ceil(64) as usize],
        partial: false,
    };
    g.fixed().for_each(|r| c.own(r.start, r.end - r.start, 0));
    let (Some(used_inodes), Some(used_blocks)) = (c.bitmap(Bitmap::Inodes)?, c.bitmap(Bitmap::Blocks)?)
    else {
        // Everything else is held against them.
        return Ok(c.bad);
    };
    let words = &used_inodes[..g.inodes().div_ceil(64) as usize];
    let last = words.iter().rposition(|w| *w != 0).map_or(0, |word| word as u64 * 64 + 63);
    c.reach(last.max(ROOT as u64));
    c.orphan_table(&used_inodes)?;
    for table_block in 0..g.inodes() / INODES_PER_BLOCK {
        let used = (used_inodes[table_block as usize / 2] >> (table_block % 2 * 32)) as u32;
        if used != 0 {
            c.table_block(table_block, used)?;
        }
    }
    c.tree();
    c.blocks(&used_blocks);
    c.allocators(&used_inodes, &used_blocks);
    Ok(c.bad)
}

fn bit(words: &[u64], n: u64) -> bool {
    words[(n / 64) as usize] >> (n % 64) & 1 == 1
}

impl Check<'_> {
    fn say(&mut self, what: String) {
        if self.bad.len() < MOST {
            self.bad.push(what);
        }
    }

    /// A block; `None`, and a finding, where its page cannot be read.
    fn read(&mut self, lba: u64, what: Structure) -> Result<Option<[u8; PAGE_SIZE]>> {
        let mut page = [Page::ZERO];
        let read = self.core.port.read(Lpa(lba), &mut page, what).map_err(FsError::from);
        if is_unreadable(&read) {
            self.partial = true;
            self.say(format!("{what:?} block {lba} cannot be read"));
            return Ok(None);
        }
        read.map(|()| Some(page[0].to_bytes()))
    }

    /// Compares `bytes` of a block on media, from `at` on, with the cached block.
    fn against_cache(&mut self, lba: u64, at: usize, bytes: &[u8]) {
        let Some(block) = self.core.cache.cached(Lpa(lba)) else { return };
        let differs = block.with(|b| b[at..at + bytes.len()].iter().zip(bytes).position(|(a, b)| a != b));
        if let Some(n) = differs {
            self.say(format!(
                "{:?} block {lba}: byte {} differs between memory and media",
                block.what(),
                at + n
            ));
        }
    }

    fn sealed(&mut self, what: &str, lba: u64, bad: u64) {
        if bad != 0 {
            self.say(line::sentence(what, lba, bad));
        }
    }

    fn own(&mut self, lba: u64, len: u64, ino: u32) {
        for n in lba..lba + len {
            if bit(&self.owned, n) {
                self.say(format!("inode {ino} uses block {n}, which has an owner already"));
            }
            self.owned[(n / 64) as usize] |= 1 << (n % 64);
        }
    }

    /// Makes room for what is to be known about the inodes up to this one, as far as there may be any.
    fn reach(&mut self, ino: u64) {
        let wanted = (ino + 1).min(self.core.geometry.inodes()) as usize;
        if wanted > self.inodes.len() {
            self.inodes.resize(wanted, Seen::default());
        }
    }

    fn bitmap(&mut self, which: Bitmap) -> Result<Option<Vec<u64>>> {
        let core = self.core;
        let g = &core.geometry;
        let (bits, name) = match which {
            Bitmap::Inodes => (g.inodes(), "inode"),
            Bitmap::Blocks => (g.blocks(), "block"),
        };
        let mut words = Vec::new();
        for n in 0..bitmap::blocks_for(bits) {
            let (at, _) = g.bitmap_block(which, n);
            let Some(bytes) = self.read(at, Structure::Bitmap)? else { return Ok(None) };
            self.against_cache(at, 0, &bytes);
            self.sealed(&format!("{name} bitmap"), at, line::damaged_or_zero(&bytes, at));
            words.extend(bitmap::words(&bytes));
        }
        if let Some(n) = (bits..words.len() as u64 * 64).find(|&n| !bit(&words, n)) {
            self.say(format!("{name} bitmap: bit {n} beyond the end is free"));
        }
        Ok(Some(words))
    }

    fn orphan_table(&mut self, used: &[u64]) -> Result<()> {
        let lba = self.core.geometry.orphans;
        let Some(bytes) = self.read(lba, Structure::Superblock)? else { return Ok(()) };
        self.against_cache(lba, 0, &bytes);
        self.sealed("orphan table", lba, line::damaged_or_zero(&bytes, lba));
        for place in 0..orphan::PLACES {
            let ino = orphan::get(&bytes, place);
            match ino as u64 {
                0 => {}
                n if self.core.geometry.has_inode(n) && bit(used, n) => self.inodes[n as usize].orphan = true,
                _ => self.say(format!("place {place} of the orphan table names inode {ino}, which is free")),
            }
        }
        Ok(())
    }

    fn table_block(&mut self, n: u64, used: u32) -> Result<()> {
        let lba = self.core.geometry.table_block(n).0.0;
        let Some(bytes) = self.read(lba, Structure::Inode)? else { return Ok(()) };
        for i in (0..INODES_PER_BLOCK).filter(|i| used >> i & 1 == 1) {
            let ino = (n * INODES_PER_BLOCK + i) as u32;
            if ino != 0 {
                let at = i as usize * INODE_SIZE;
                self.against_cache(lba, at, &bytes[at..at + INODE_SIZE]);
                let lines = inode::LINES << (at / LINE_SIZE);
                self.sealed(&format!("inode {ino}"), lba, line::damaged(&bytes, lba, lines));
                self.inode(ino, &InodeRecord::read(&bytes, at))?;
            }
        }
        Ok(())
    }

    fn inode(&mut self, ino: u32, record: &InodeRecord) -> Result<()> {
        let Some(attr) = record.attr() else {
            self.say(format!("inode {ino} has mode {:o}, which is no type", record.mode.get()));
            return Ok(());
        };
        let seen = &mut self.inodes[ino as usize];
        seen.kind = Some(attr.kind);
        seen.nlink = attr.nlink;
        seen.parent = record.parent.get();
        let orphan = seen.orphan;
        if attr.kind == FileKind::Symlink && record.slots.get() == 0 && attr.size > INLINE_SIZE as u64 {
            self.say(format!("inode {ino}: a short target of {} bytes", attr.size));
        }
        let inline_target = attr.kind == FileKind::Symlink && record.slots.get() == 0;
        let mut map = match inline_target {
            true => FileMap::default(),
            false => match self.map(ino, record)? {
                Some(map) => map,
                None => return Ok(()),
            },
        };
        map.xattr_blocks = self.xattrs(ino, record)?;
        let end = map.extents().last().map_or(0, |e| e.block + e.len as u64);
        if attr.kind != FileKind::Dir && end > blocks_of(attr.size) && !orphan && !self.core.loose {
            self.beyond(ino, attr.size, &map)?;
        }
        if attr.kind == FileKind::Dir {
            self.directory(ino, attr.size, &map)?;
        }
        Ok(())
    }

    /// Reads an inode's extended attributes from media and marks their blocks.
    fn xattrs(&mut self, ino: u32, record: &InodeRecord) -> Result<Vec<u32>> {
        let lbas = match self.core.load_xattr_blocks(ino, record) {
            Err(FsError::Corrupt(what)) => {
                self.say(what);
                return Ok(Vec::new());
            }
            lost if is_unreadable(&lost) => {
                self.say(format!("inode {ino}: its extended attributes cannot be read"));
                return Ok(Vec::new());
            }
            other => other?,
        };
        let mut blocks = Vec::with_capacity(lbas.len());
        for &lba in &lbas {
            self.own(lba as u64, 1, ino);
            let Some(block) = self.read(lba as u64, Structure::Inode)? else { return Ok(lbas) };
            blocks.push(block);
        }
        match xattr::read(&blocks) {
            Ok(string) => {
                for (n, &lba) in lbas.iter().enumerate() {
                    self.against_cache(lba as u64, 0, &blocks[n][..xattr::used(n, string.len())]);
                }
            }
            Err(e) => self.say(format!("inode {ino}: {e}")),
        }
        Ok(lbas)
    }

    /// Blocks beyond a file's end are what fallocate reserved: zero. (After a recovery they become so when
    /// the inode is loaded, in this mount or in a later one.)
    fn beyond(&mut self, ino: u32, size: u64, map: &FileMap) -> Result<()> {
        for run in map.runs_in(blocks_of(size)..u64::MAX) {
            for lba in run.lba..run.lba + run.len {
                let Some(bytes) = self.read(lba as u64, Structure::Data)? else { continue };
                if bytes.iter().any(|&b| b != 0) {
                    self.say(format!("inode {ino} of {size} bytes has data beyond its end, in block {lba}"));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reads an inode's extents from media and marks its blocks.
    fn map(&mut self, ino: u32, record: &InodeRecord) -> Result<Option<FileMap>> {
        let slots = record.slots.get();
        let count = extent::blocks_for(slots) as usize;
        let (mut slot_blocks, mut index_blocks) = (Vec::new(), Vec::new());
        let mut next = record.index.get();
        let mut content = record.inline().to_vec();
        let data = |lba: u32, len: u32| self.core.geometry.has_data(lba as u64, len as u64);
        let mut sane = count as u64 <= self.core.geometry.blocks();
        while sane && slot_blocks.len() < count {
            sane = data(next, 1);
            if sane {
                let Some(bytes) = self.read(next as u64, Structure::DataPointer)? else { return Ok(None) };
                index_blocks.push(next);
                let n = (count - slot_blocks.len()).min(extent::POINTERS_PER_INDEX as usize) as u32;
                let lines = extent::pointer_lines(n, count - slot_blocks.len() > n as usize);
                let bad = line::damaged(&bytes, next as u64, lines);
                self.sealed(&format!("inode {ino}, index block"), next as u64, bad);
                slot_blocks.extend((0..n).map(|i| extent::pointer(&bytes, i)));
                next = extent::pointer(&bytes, extent::POINTERS_PER_INDEX);
            }
        }
        sane &= slot_blocks.iter().all(|&lba| data(lba, 1));
        if !sane {
            self.say(format!(
                "inode {ino}: {slots} slots, but its extent blocks are not all in the data area"
            ));
            return Ok(None);
        }
        for (i, &lba) in slot_blocks.iter().enumerate() {
            let Some(bytes) = self.read(lba as u64, Structure::DataPointer)? else { return Ok(None) };
            let left = (slots - extent::INLINE_SLOTS) as usize - i * extent::SLOTS_PER_EXTENT_BLOCK as usize;
            let lines = extent::slot_lines(left.min(extent::SLOTS_PER_EXTENT_BLOCK as usize) as u32);
            self.against_cache(lba as u64, 0, &bytes[..lines.count_ones() as usize * LINE_SIZE]);
            let bad = line::damaged(&bytes, lba as u64, lines);
            self.sealed(&format!("inode {ino}, extent block"), lba as u64, bad);
            content.extend((0..extent::SLOTS_PER_EXTENT_BLOCK).map(|n| extent::Extent::in_block(&bytes, n)));
        }
        let mut map = match FileMap::load(slots, content.into_iter()) {
            Ok(map) => map,
            Err(what) => {
                self.say(format!("inode {ino}: {what}"));
                return Ok(None);
            }
        };
        (map.slot_blocks, map.index_blocks) = (slot_blocks, index_blocks);
        if let Some(run) = map.all_runs().find(|r| !self.core.geometry.has_data(r.lba as u64, r.len as u64)) {
            self.say(format!("inode {ino}: {run:?} lies outside the data area"));
            return Ok(None);
        }
        for run in map.all_runs() {
            self.own(run.lba as u64, run.len as u64, ino);
        }
        Ok(Some(map))
    }

    fn blocks(&mut self, used: &[u64]) {
        let differ = |word: u64| self.owned.get(word as usize) != used.get(word as usize);
        let blocks = self.core.geometry.blocks();
        let wrong: Vec<u64> = (0..blocks.div_ceil(64)).filter(|word| differ(*word)).collect();
        for n in wrong.into_iter().flat_map(|word| word * 64..(word * 64 + 64).min(blocks)) {
            match (bit(&self.owned, n), bit(used, n)) {
                (true, false) => self.say(format!("block {n} has an owner but is free in the bitmap")),
                (false, true) if !self.partial => {
                    self.say(format!("block {n} is in use in the bitmap but has no owner"))
                }
                _ => {}
            }
        }
    }

    /// The allocators hand out nothing that media say is in use. (They may keep more: freed, not yet handed
    /// out.)
    fn allocators(&mut self, used_inodes: &[u64], used_blocks: &[u64]) {
        let mut found = Vec::new();
        let mut compare = |groups: &crate::groups::Groups, used: &[u64], bits: u64, name: &str| {
            found.extend(groups.check());
            let lost = (0..bits).filter(|&n| bit(used, n) && !groups.is_taken(n));
            found.extend(
                lost.take(MOST).map(|n| format!("{name} {n} is in use but the allocator calls it free")),
            );
        };
        let g = &self.core.geometry;
        compare(&self.core.inodes.lock(), used_inodes, g.inodes(), "inode");
        self.core.space.with_groups(|groups| compare(groups, used_blocks, g.blocks(), "block"));
        found.into_iter().for_each(|what| self.say(what));
    }
}
