//! [`Node`]: the file system's state of an inode in host memory, and its indexes.
//!
//! ```text
//!   State   log: pages in order, tail, counts of entries and dead ones; which entries hold attributes
//!     File  file page -> extent {length, block, entry}        entry -> {pages, dead}
//!     Dir   name -> cookie -> {inode, kind, entry}            cookies grow, so positions of readdir stay
//! ```
//!
//! Invariant: the state is what a replay of the log up to the tail gives (`check` compares). It is changed
//! only after the media were: an operation that fails leaves it alone.
//!
//! Source: NOVA sections 3.1 and 4 (radix trees in DRAM).

use granary_fs::{FileKind, Ino};
use granary_sim::sync::RwLock;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A page of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPage {
    pub block: u64,
    pub entries: u32,
    pub dead: u32,
}

/// Consecutive file pages in consecutive blocks, all of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub len: u32,
    pub block: u64,
    /// Address of the write entry.
    pub entry: u64,
}

/// A file's pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileMap {
    pub extents: BTreeMap<u64, Extent>,
    /// Write entries with live pages: (pages, dead pages).
    pub entries: BTreeMap<u64, (u32, u32)>,
    pub blocks: u64,
}

/// A run of pages that lost its place: (entry, block, length).
pub type Displaced = (u64, u64, u32);

impl FileMap {
    /// The extent that holds `page`: (its first page, extent).
    pub fn find(&self, page: u64) -> Option<(u64, Extent)> {
        let (&first, &e) = self.extents.range(..=page).next_back()?;
        (page < first + e.len as u64).then_some((first, e))
    }

    /// The block of `page`, and how many pages from there on lie in blocks that follow.
    pub fn block(&self, page: u64) -> Option<(u64, u64)> {
        self.find(page).map(|(first, e)| (e.block + (page - first), e.len as u64 - (page - first)))
    }

    /// Pages from `page` on that have no block, up to `most`.
    pub fn hole(&self, page: u64, most: u64) -> u64 {
        self.extents.range(page..).next().map_or(most, |(&next, _)| most.min(next - page))
    }

    /// Runs of blocks (first, count) of the pages from `page` on.
    pub fn from(&self, page: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let cut = self.find(page).filter(|(first, _)| *first < page);
        let cut = cut.map(|(first, e)| (e.block + (page - first), e.len as u64 - (page - first)));
        cut.into_iter().chain(self.extents.range(page..).map(|(_, e)| (e.block, e.len as u64)))
    }

    /// Takes the pages `first..end` out.
    pub fn cut(&mut self, first: u64, end: u64, out: &mut Vec<Displaced>) {
        if let Some((start, e)) = self.find(first).filter(|(start, _)| *start < first) {
            let keep = (first - start) as u32;
            self.extents.insert(start, Extent { len: keep, ..e });
            self.extents
                .insert(first, Extent { len: e.len - keep, block: e.block + keep as u64, entry: e.entry });
        }
        while let Some((&start, &e)) = self.extents.range(first..end).next() {
            self.extents.remove(&start);
            let inside = (end - start).min(e.len as u64) as u32;
            if inside < e.len {
                let rest = Extent { len: e.len - inside, block: e.block + inside as u64, entry: e.entry };
                self.extents.insert(start + inside as u64, rest);
            }
            self.blocks -= inside as u64;
            out.push((e.entry, e.block, inside));
        }
    }

    /// Maps the pages of a write entry, taking out what was there.
    pub fn put(&mut self, page: u64, block: u64, len: u32, entry: u64, out: &mut Vec<Displaced>) {
        self.cut(page, page + len as u64, out);
        self.extents.insert(page, Extent { len, block, entry });
        self.entries.insert(entry, (len, 0));
        self.blocks += len as u64;
    }

    /// Counts displaced pages as dead; returns the entry's dead pages and whether none lives.
    pub fn count_dead(&mut self, entry: u64, pages: u32) -> Option<(u32, bool)> {
        let (all, dead) = self.entries.get_mut(&entry)?;
        *dead += pages;
        let state = (*dead, *dead >= *all);
        if state.1 {
            self.entries.remove(&entry);
        }
        Some(state)
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dent {
    pub name: Arc<[u8]>,
    pub ino: u64,
    pub kind: FileKind,
    /// Address of the log entry.
    pub addr: u64,
}

/// A directory's names.
#[derive(Clone, Debug, Default)]
pub struct DirIndex {
    by_name: FxHashMap<Arc<[u8]>, u64>,
    pub by_cookie: BTreeMap<u64, Dent>,
    last: u64,
    /// Address of the entries of "." and "..".
    pub dot: u64,
    pub dotdot: u64,
}

impl DirIndex {
    pub fn get(&self, name: &[u8]) -> Option<&Dent> {
        self.by_name.get(name).and_then(|c| self.by_cookie.get(c))
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<Dent> {
        self.by_name.remove(name).and_then(|c| self.by_cookie.remove(&c))
    }

    /// Adds a name; a name that is there keeps its position.
    pub fn insert(&mut self, name: &[u8], ino: u64, kind: FileKind, addr: u64) -> Option<Dent> {
        if let Some(cookie) = self.by_name.get(name) {
            let dent = self.by_cookie.get_mut(cookie)?;
            let new = Dent { name: dent.name.clone(), ino, kind, addr };
            return Some(std::mem::replace(dent, new));
        }
        self.last += 1;
        let name: Arc<[u8]> = name.into();
        self.by_name.insert(name.clone(), self.last);
        self.by_cookie.insert(self.last, Dent { name, ino, kind, addr });
        None
    }

    /// Position of the newest entry.
    pub fn last(&self) -> u64 {
        self.last
    }

    pub fn len(&self) -> usize {
        self.by_cookie.len()
    }
}

/// State that depends on the kind.
#[derive(Clone, Debug)]
pub enum Body {
    /// Files, and symbolic links (their target is their content).
    File(FileMap),
    Dir(DirIndex),
    Special,
}

/// A truncation that was superseded as an attribute entry, but may still be needed to cut older entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttrEntry {
    /// Address; 0 = none.
    pub addr: u64,
    /// Its flags but [`crate::layout::entry::DEAD`].
    pub flags: u8,
    /// The size in it.
    pub size: u64,
}

/// The state of an inode.
#[derive(Clone, Debug)]
pub struct NodeState {
    /// Address of the inode on media.
    pub slot: u64,
    /// Address behind the last entry; 0 = no log.
    pub tail: u64,
    /// The log's pages, first to last; those after `current` are for later.
    pub pages: Vec<LogPage>,
    /// Index of the page with the last entry.
    pub current: usize,
    /// Epoch of the last entry.
    pub epoch: u32,
    pub last_attr: AttrEntry,
    /// Address of the newest link-change entry, while no attribute entry is newer.
    pub last_link: u64,
    /// Superseded entries that fast cleaning must not drop.
    pub stale: u32,
    /// The inode's first word, as on media.
    pub word: u64,
    pub body: Body,
}

impl NodeState {
    pub fn new(slot: u64, word: u64, kind: FileKind) -> NodeState {
        let body = match kind {
            FileKind::File | FileKind::Symlink => Body::File(FileMap::default()),
            FileKind::Dir => Body::Dir(DirIndex::default()),
            _ => Body::Special,
        };
        NodeState {
            slot,
            tail: 0,
            pages: Vec::new(),
            current: 0,
            epoch: 0,
            last_attr: AttrEntry::default(),
            last_link: 0,
            stale: 0,
            word,
            body,
        }
    }

    pub fn file(&self) -> &FileMap {
        match &self.body {
            Body::File(f) => f,
            _ => panic!("the vfs asks for the content of what has none"),
        }
    }

    pub fn file_mut(&mut self) -> &mut FileMap {
        match &mut self.body {
            Body::File(f) => f,
            _ => panic!("the vfs asks for the content of what has none"),
        }
    }

    pub fn dir(&self) -> &DirIndex {
        match &self.body {
            Body::Dir(d) => d,
            _ => panic!("the vfs asks for the entries of what is no directory"),
        }
    }

    pub fn dir_mut(&mut self) -> &mut DirIndex {
        match &mut self.body {
            Body::Dir(d) => d,
            _ => panic!("the vfs asks for the entries of what is no directory"),
        }
    }

    /// The log page that holds `addr`.
    pub fn page_of(&mut self, addr: u64) -> Option<&mut LogPage> {
        let block = addr / granary_pm::BLOCK;
        self.pages.iter_mut().rev().find(|p| p.block == block)
    }

    /// All blocks that belong to the inode: runs of (first, count).
    pub fn blocks(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = self.pages.iter().map(|p| (p.block, 1)).collect();
        if let Body::File(f) = &self.body {
            all.extend(f.extents.values().map(|e| (e.block, e.len as u64)));
        }
        all
    }
}

/// An inode's private part.
pub struct Node {
    pub ino: Ino,
    pub state: RwLock<NodeState>,
    /// A directory's parent.
    pub parent: AtomicU64,
    pub generation: u32,
}
