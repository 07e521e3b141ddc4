//! The "media" of a [`super::MemFs`].

use granary_fs::{Attr, DirtyPage, FileKind, Ino, Inode, Time};
use granary_units::{Dest, PAGE_SIZE, Page, Payload};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: u64 = PAGE_SIZE as u64;
/// Content of bytes that nobody wrote: a test notices them where they are read as file content.
const GARBAGE: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// A directory entry.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) ino: Ino,
    pub(super) kind: FileKind,
    /// Position in readdir; never used twice in a directory.
    pub(super) cookie: u64,
}

pub(super) struct MemInode {
    pub(super) attr: Attr,
    pub(super) blocks: BTreeMap<u64, Page>,
    pub(super) reserved: BTreeSet<u64>,
    pub(super) entries: BTreeMap<Vec<u8>, Entry>,
    next_cookie: u64,
    pub(super) parent: Ino,
    pub(super) target: Vec<u8>,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// `write_pages` is at work.
    pub(super) writing: bool,
    /// The size that a file system with media would have there; unknown once a write has failed.
    pub(super) on_media: Option<u64>,
    /// Which of the inodes that had its number it is.
    pub(super) life: u32,
}

impl MemInode {
    pub(super) fn new(attr: Attr, parent: Ino, target: Vec<u8>) -> MemInode {
        MemInode {
            attr,
            blocks: BTreeMap::new(),
            reserved: BTreeSet::new(),
            entries: BTreeMap::new(),
            next_cookie: 1,
            parent,
            target,
            xattrs: BTreeMap::new(),
            writing: false,
            on_media: Some(0),
            life: 0,
        }
    }

    /// Position of the newest entry.
    pub(super) fn last_cookie(&self) -> u64 {
        self.next_cookie - 1
    }
}

pub(super) struct State {
    pub(super) inodes: BTreeMap<Ino, MemInode>,
    free: Vec<Ino>,
    /// Inodes made so far.
    lives: u32,
}

impl State {
    pub(super) fn new() -> State {
        let t = Time(0);
        let attr = Attr {
            kind: FileKind::Dir,
            mode: 0o755,
            uid: 0,
            gid: 0,
            nlink: 2,
            size: 0,
            blocks: 0,
            atime: t,
            mtime: t,
            ctime: t,
            rdev: 0,
            flags: 0,
        };
        let root = MemInode::new(attr, Ino(1), Vec::new());
        State { inodes: BTreeMap::from([(Ino(1), root)]), free: Vec::new(), lives: 0 }
    }

    pub(super) fn node(&mut self, inode: &Inode) -> &mut MemInode {
        self.inodes.get_mut(&inode.ino()).expect("an inode in use is on media")
    }

    /// Pages in use or reserved.
    pub(super) fn used(&self) -> u64 {
        self.inodes
            .values()
            .map(|n| n.blocks.keys().chain(&n.reserved).collect::<BTreeSet<_>>().len() as u64)
            .sum()
    }

    pub(super) fn allocate(&mut self, node: MemInode) -> Ino {
        let ino = self.free.pop().unwrap_or(Ino(self.inodes.len() as u64 + 1));
        self.lives += 1;
        let old = self.inodes.insert(ino, MemInode { life: self.lives, ..node });
        assert!(old.is_none(), "{ino} is allocated twice");
        ino
    }

    pub(super) fn free(&mut self, inode: &Inode) {
        assert_eq!(inode.attr().nlink, 0, "{} is evicted with links", inode.ino());
        let node = self.inodes.remove(&inode.ino()).expect("evicted once");
        assert!(!node.writing && node.entries.is_empty());
        self.free.push(inode.ino());
    }

    /// Changes the attributes in memory and on media.
    pub(super) fn change<T>(&mut self, inode: &Inode, change: impl FnOnce(&mut Attr) -> T) {
        let node = self.node(inode);
        let blocks = node.blocks.len() as u64 * 8;
        node.attr = inode.update(|a| {
            change(a);
            a.blocks = blocks;
            *a
        });
    }

    /// A directory's entries changed.
    pub(super) fn stamp(&mut self, dir: &Inode, time: Time, more: impl FnOnce(&mut Attr)) {
        self.change(dir, |a| {
            a.modified(time);
            more(a);
        });
    }

    pub(super) fn enter(&mut self, dir: &Inode, name: &[u8], entry: Entry) {
        let node = self.node(dir);
        assert!(node.attr.nlink > 0, "a removed directory gets an entry");
        let entry = Entry { cookie: node.next_cookie, ..entry };
        node.next_cookie += 1;
        let old = node.entries.insert(name.to_vec(), entry);
        assert!(old.is_none(), "the name {:?} is entered twice", String::from_utf8_lossy(name));
    }

    pub(super) fn take(&mut self, dir: &Inode, name: &[u8], inode: &Inode) -> Entry {
        let entry = self.node(dir).entries.remove(name).expect("the name exists");
        assert_eq!(entry.ino, inode.ino(), "the name stands for another inode");
        entry
    }

    /// An entry of `inode` in `dir` is gone for good.
    pub(super) fn unlinked(&mut self, dir: &Inode, inode: &Inode, time: Time) {
        let node = self.node(inode);
        let is_dir = node.attr.kind == FileKind::Dir;
        assert!(node.entries.is_empty(), "a directory with entries is removed");
        self.change(inode, |a| {
            assert!(a.nlink > 0, "a name is removed that nobody counted");
            a.unlinked(time);
        });
        self.change(dir, |a| a.nlink -= u32::from(is_dir));
    }

    /// A directory has another parent.
    pub(super) fn moved(&mut self, inode: &Inode, from: &Inode, to: &Inode) {
        if self.node(inode).attr.kind == FileKind::Dir && from.ino() != to.ino() {
            self.node(inode).parent = to.ino();
            self.change(from, |a| a.nlink -= 1);
            self.change(to, |a| a.nlink += 1);
        }
    }

    /// The size on media becomes `size`, or stays if it is more: the last page's bytes beyond the old one
    /// show from now on.
    pub(super) fn reach(&mut self, inode: &Inode, size: u64) {
        let node = self.node(inode);
        let Some(old) = node.on_media.filter(|&old| old < size) else { return };
        let mut shown = vec![0; (size.min(old.next_multiple_of(PAGE)) - old) as usize];
        if let Some(page) = node.blocks.get(&(old / PAGE)) {
            page.copy_out((old % PAGE) as usize, &mut shown);
        }
        let garbage = shown.windows(16).any(|w| w.iter().all(|&b| b == GARBAGE as u8));
        assert!(!garbage, "{} grows on media from {old} to {size} over what nobody wrote", inode.ino());
        node.on_media = Some(size);
    }

    /// Frees what lies beyond `size`; what the last page has beyond becomes garbage.
    pub(super) fn cut(&mut self, inode: &Inode, size: u64) {
        let node = self.node(inode);
        assert!(!node.writing, "{} is truncated while it is written back", inode.ino());
        if size > node.attr.size {
            return;
        }
        node.on_media = node.on_media.map(|old| old.min(size));
        node.blocks.split_off(&size.div_ceil(PAGE));
        node.reserved.split_off(&size.div_ceil(PAGE));
        let rest = (size % PAGE) as usize;
        if let Some(page) = node.blocks.get_mut(&(size / PAGE)).filter(|_| rest > 0) {
            page.write(rest, Payload::Fill { word: GARBAGE, len: PAGE_SIZE - rest });
        }
    }

    /// Write-back: of a page with a block the dirty lines reach it, of another what lies within the file,
    /// too.
    pub(super) fn store(&mut self, inode: &Inode, pages: &[DirtyPage]) {
        let size = inode.size();
        let node = self.node(inode);
        for p in pages {
            let known = node.reserved.remove(&p.index) || node.blocks.contains_key(&p.index);
            assert!(known, "page {} of {} was not reserved", p.index, inode.ino());
            assert!(p.index < size.div_ceil(PAGE), "page {} lies beyond the end", p.index);
            let valid = (size - p.index * PAGE).min(PAGE) as usize;
            let block = node.blocks.entry(p.index).or_insert_with(|| {
                let mut page = p.page.clone();
                page.write(valid, Payload::Fill { word: GARBAGE, len: PAGE_SIZE - valid });
                page
            });
            block.merge_lines(&p.page, p.lines);
            let mut beyond = vec![1; PAGE_SIZE - valid];
            p.page.copy_out(valid, &mut beyond);
            assert!(beyond.iter().all(|&b| b == 0), "page {} has data beyond the end", p.index);
        }
        if let Some(last) = pages.last() {
            self.reach(inode, size.min(last.end()));
        }
        self.change(inode, |_| ());
    }

    pub(super) fn load(&mut self, inode: &Inode, pos: u64, dest: &mut Dest<'_>) {
        let node = self.node(inode);
        assert!(pos + dest.len() as u64 <= node.attr.size, "a direct read beyond the end");
        let mut done = 0;
        while done < dest.len() {
            let at = pos + done as u64;
            let from = (at % PAGE) as usize;
            let part = (PAGE_SIZE - from).min(dest.len() - done);
            let page = node.blocks.get(&(at / PAGE)).cloned().unwrap_or(Page::ZERO);
            dest.part(done, part).copy_from(&page, from);
            done += part;
        }
    }

    pub(super) fn overwrite(&mut self, inode: &Inode, pos: u64, data: Payload<'_>) {
        let size = inode.size();
        let node = self.node(inode);
        assert!(!node.writing, "{} is written past the cache while it is written back", inode.ino());
        let mut done = 0;
        while done < data.len() {
            let at = pos + done as u64;
            let from = (at % PAGE) as usize;
            let part = (PAGE_SIZE - from).min(data.len() - done);
            let index = at / PAGE;
            // A new block is zero where it lies in the file or before the data, garbage behind.
            let block = node.blocks.entry(index).or_insert_with(|| {
                let mut page = Page::ZERO;
                let kept = size.saturating_sub(index * PAGE).min(PAGE).max((from + part) as u64) as usize;
                page.write(kept, Payload::Fill { word: GARBAGE, len: PAGE_SIZE - kept });
                page
            });
            block.write(from, data.part(done, part));
            node.reserved.remove(&index);
            done += part;
        }
        self.reach(inode, pos + data.len() as u64);
    }
}
