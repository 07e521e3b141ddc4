//! [`PageCache`]: the pages of all files, with a dirty mask of 64 lines each.
//!
//! ```text
//!   slot:  free --begin_fill--> filling --end_fill--> clean <--> dirty --gather--> in write-back --written--> clean
//!                                                       |          ^                  |  dirtied again: both,
//!                                                    evicted       └──────────────────┘  then dirty
//! ```
//!
//! One slab of 40-byte slots for all files (24 bytes beyond the page itself), found through each file's [`Mapping`].
//! When the cache is full a clock hand takes the first clean page that was not used since it last came by (second
//! chance, an approximation of LRU; dirty pages are passed over and cleaned by the flushers). Files with dirty pages
//! wait in a queue in the order in which they became dirty.
//!
//! Invariants: bytes of a cached page beyond the end of the file are zero; a file with dirty pages is in the queue,
//! or a flusher is at work on it; one short lock, never held across a wait.
//!
//! Which lines a write() touches the host knows, and marks them. Stores through a mapping it does not see: the first one
//! to a clean page leaves a *duplicate* of the page behind (ByteFS section 4.6; Linux's page_mkwrite is the moment), and
//! the gathering of the page for write-back compares the two. `tracking = "xor"` does that for write(), too.
//!
//! ```text
//!   lines that go to the drive = dirty lines that are known & ( told by a write | different from the duplicate )
//! ```
//!
//! Told by a write, whatever the tracking: lines beyond the old end of the file and of pages that were not read, because
//! media hold something else there than the cache did.
//!
//! It does *not* read or write: [`crate::Vfs`] does, between the calls.

mod mapping;
mod slots;

use crate::config::{Tracking, VfsConfig};
use crate::gate::Gate;
use crate::vfs::{NO_MAPPING, Node};
use granary_fs::{DirtyPage, Ino};
use granary_sim::now;
use granary_units::{LINE_SIZE, Nanos, PAGE_SIZE, Page, Payload};
use parking_lot::Mutex;
use slots::{Slots, State, Track};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGE: u64 = PAGE_SIZE as u64;

/// Counters of the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Pages in the cache.
    pub pages: u64,
    /// Dirty pages, those in write-back included.
    pub dirty: u64,
    /// Pages found by reads.
    pub hits: u64,
    /// Pages read from the drive.
    pub filled: u64,
    /// Pages evicted for lack of room.
    pub evicted: u64,
    /// Pages given to the file system to write.
    pub written: u64,
    /// Duplicates of pages now: see [`crate::Tracking`].
    pub duplicates: u64,
    /// The most duplicates at any time.
    pub most_duplicates: u64,
}

/// Dirty pages on their way to the file system; most files have few.
pub(crate) type Batch = SmallVec<[DirtyPage; 8]>;

/// What a look for pages finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// This many pages, from the first on.
    Found(usize),
    /// Somebody is reading the first.
    Filling,
    /// The first is not there.
    Missing,
}

/// See the module.
pub(crate) struct PageCache {
    inner: Mutex<Slots>,
    tracking: Tracking,
    background: u64,
    limit: u64,
    /// Dirty pages and pages in write-back, for looks without the lock.
    dirty: AtomicU64,
    /// Opens when pages became clean.
    pub(crate) below_limit: Gate,
}

/// The page's lines that the bytes `from..to` of it touch.
fn lines(from: usize, to: usize) -> u64 {
    if from >= to {
        return 0;
    }
    let (first, last) = (from / LINE_SIZE, (to - 1) / LINE_SIZE);
    (u64::MAX >> (63 - (last - first))) << first
}

/// The lines that hold bytes from `end` on.
fn beyond(end: usize) -> u64 {
    lines(end, PAGE_SIZE)
}

/// A write on its way into the cache.
struct Write<'a> {
    pos: u64,
    data: Payload<'a>,
    old: u64,
    time: Nanos,
    tracking: Tracking,
}

impl Write<'_> {
    /// Writes the part that belongs to `page`; `fresh`: what media hold of it is not known. Returns whether the page was
    /// duplicated.
    fn put(&self, inner: &mut Slots, page: u64, slot: u32, fresh: bool) -> bool {
        assert_ne!(inner.state(slot), State::Filling, "a writer holds the inode alone");
        let start = page * PAGE;
        let (from, to) = (self.pos.max(start), (self.pos + self.data.len() as u64).min(start + PAGE));
        let part = self.data.part((from - self.pos) as usize, (to - from) as usize);
        let (from, to) = ((from - start) as usize, (to - start) as usize);
        // A new page's bytes before the data are within the file from now on.
        let mask = lines(if start >= self.old { 0 } else { from }, to);
        let track = match self.tracking {
            Tracking::Xor if !fresh && start < self.old => {
                let end = (self.old - start).min(PAGE) as usize;
                Track::Duplicate { told: lines(from.max(end / LINE_SIZE * LINE_SIZE), to) & beyond(end) }
            }
            _ => Track::Told,
        };
        inner.modify(slot, mask, self.time, track, |p| p.write(from, part))
    }
}

/// How much of page `index` lies within a file of `size` bytes.
fn valid(index: u32, size: u64) -> usize {
    size.saturating_sub(index as u64 * PAGE).min(PAGE) as usize
}

impl PageCache {
    pub(crate) fn new(config: &VfsConfig) -> PageCache {
        let capacity = (config.page_cache.0 / PAGE).clamp(1, u32::MAX as u64 - 1);
        let share = |percent: u32| capacity * percent as u64 / 100;
        PageCache {
            inner: Mutex::new(Slots::new(capacity as usize)),
            tracking: config.tracking,
            background: share(config.dirty_background_percent),
            limit: share(config.dirty_limit_percent),
            dirty: AtomicU64::new(0),
            below_limit: Gate::default(),
        }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        let inner = self.inner.lock();
        CacheStats {
            pages: inner.used() as u64,
            dirty: inner.dirty,
            duplicates: inner.duplicates(),
            ..inner.stats
        }
    }

    /// Whether so much is dirty that write-back should start.
    #[inline]
    pub(crate) fn over_background(&self) -> bool {
        self.dirty.load(Relaxed) > self.background
    }

    /// Whether so much is dirty that writers should wait.
    #[inline]
    pub(crate) fn over_limit(&self) -> bool {
        self.dirty.load(Relaxed) > self.limit
    }

    /// Whether the file may have pages here.
    pub(crate) fn has_pages(&self, node: &Node) -> bool {
        node.mapping.load(Relaxed) != NO_MAPPING
    }

    /// Copies (cheaply) the cached pages from `first` on into `out`, up to the first that is not there.
    pub(crate) fn look(&self, node: &Node, first: u64, out: &mut [Page]) -> Look {
        let mut inner = self.inner.lock();
        let id = node.mapping.load(Relaxed);
        let mut found = 0;
        // The page behind the last of the largest file has no number of 32 bits.
        for (page, out) in (first..).zip(out.iter_mut()) {
            let Some(slot) = inner.find(id, page as u32) else { break };
            if inner.state(slot) == State::Filling {
                if found == 0 {
                    return Look::Filling;
                }
                break;
            }
            *out = inner.touch(slot).clone();
            found += 1;
        }
        inner.stats.hits += found as u64;
        if found == 0 { Look::Missing } else { Look::Found(found) }
    }

    /// Pages of the file are looked for soon: its mapping is fetched into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, node: &Node) {
        self.inner.lock().prefetch(node.mapping.load(Relaxed));
    }

    /// The first of these pages that is in the cache (`there`), or that is not; pages that are still being read are not.
    pub(crate) fn next(&self, node: &Node, pages: Range<u64>, there: bool) -> Option<u64> {
        let inner = self.inner.lock();
        let id = node.mapping.load(Relaxed);
        let mut at = pages.start;
        while at < pages.end {
            let found = u32::try_from(at).ok().and_then(|from| inner.next_page(id, from));
            let (page, filled) = found.map_or((pages.end, false), |(page, slot)| {
                (page as u64, inner.state(slot) != State::Filling)
            });
            match there {
                true if filled => return Some(page).filter(|p| *p < pages.end),
                false if page > at || !filled => return Some(at),
                _ => at = page.saturating_add(1),
            }
        }
        None
    }

    /// Whether somebody is reading this page.
    pub(crate) fn is_filling(&self, node: &Node, page: u64) -> bool {
        let inner = self.inner.lock();
        let slot = inner.find(node.mapping.load(Relaxed), page as u32);
        slot.is_some_and(|s| inner.state(s) == State::Filling)
    }

    /// Claims the missing page `first` and up to `max` missing ones in a row for the caller to read. Returns how many.
    pub(crate) fn begin_fill(&self, node: &Node, first: u64, max: u64) -> usize {
        let mut inner = self.inner.lock();
        let id = inner.mapping_of(node);
        let mut count = 0;
        while count < max && inner.find(id, (first + count) as u32).is_none() {
            inner.insert(id, (first + count) as u32, Page::ZERO, State::Filling);
            count += 1;
        }
        count as usize
    }

    /// Ends a fill: the pages are in the cache, zeroed beyond `size`; `None` = they could not be read.
    pub(crate) fn end_fill(
        &self,
        node: &Node,
        first: u64,
        count: usize,
        pages: Option<Vec<Page>>,
        size: u64,
    ) {
        let mut inner = self.inner.lock();
        let id = node.mapping.load(Relaxed);
        let mut pages = pages.map(Vec::into_iter);
        // The page behind the last of the largest file has no number of 32 bits, as in `look`.
        for index in (first..first + count as u64).map(|page| page as u32) {
            let slot = inner.find(id, index).expect("claimed by begin_fill");
            assert_eq!(inner.state(slot), State::Filling);
            match &mut pages {
                None => inner.remove(slot),
                Some(pages) => {
                    let mut page = pages.next().expect("one page for each claimed");
                    let valid = valid(index, size);
                    if valid < PAGE_SIZE {
                        page.zero_from(valid);
                    }
                    inner.filled(slot, page);
                }
            }
        }
    }

    /// Overwrites `data.len()` bytes at `pos` and marks their lines dirty. `old`: the file's size before; pages that
    /// begin there or later are new.
    ///
    /// Returns how many pages were duplicated.
    ///
    /// # Errors
    /// The number of a page that must be read first, because only a part of what the file has of it is overwritten.
    pub(crate) fn write(&self, node: &Node, pos: u64, data: Payload<'_>, old: u64) -> Result<u64, u64> {
        let end = pos + data.len() as u64;
        let mut inner = self.inner.lock();
        let id = inner.mapping_of(node);
        let (first, last) = (pos / PAGE, (end - 1) / PAGE);
        for page in [first, last] {
            let start = page * PAGE;
            let whole = pos <= start && end >= old.min(start + PAGE);
            if start < old && !whole && inner.find(id, page as u32).is_none() {
                return Err(page);
            }
        }
        let write = Write { pos, data, old, time: now(), tracking: self.tracking };
        let mut duplicates = 0;
        // The edges that are here come first: once dirty they cannot be evicted to make room for the others.
        let edges = [first, last].map(|page| inner.find(id, page as u32));
        for (page, slot) in [first, last].into_iter().zip(edges) {
            if let Some(slot) = slot {
                duplicates += u64::from(write.put(&mut inner, page, slot, false));
            }
        }
        for page in first..=last {
            let done = (page == first && edges[0].is_some()) || (page == last && edges[1].is_some());
            if !done {
                let found = inner.find(id, page as u32);
                let slot = found.unwrap_or_else(|| inner.insert(id, page as u32, Page::ZERO, State::Clean));
                duplicates += u64::from(write.put(&mut inner, page, slot, found.is_none()));
            }
        }
        self.publish(&inner);
        Ok(duplicates)
    }

    /// Stores bytes, which lie within the file, through a mapping. Returns how many pages were duplicated: those that
    /// were not yet written through a mapping since they were clean.
    ///
    /// # Errors
    /// The number of a page that must be read first.
    pub(crate) fn store(&self, node: &Node, pos: u64, data: Payload<'_>) -> Result<u64, u64> {
        let end = pos + data.len() as u64;
        let mut inner = self.inner.lock();
        let id = inner.mapping_of(node);
        if let Some(page) = (pos / PAGE..end.div_ceil(PAGE)).find(|&p| inner.find(id, p as u32).is_none()) {
            return Err(page);
        }
        let (time, size, mut duplicates) = (now(), node.size(), 0);
        for page in pos / PAGE..end.div_ceil(PAGE) {
            let slot = inner.find(id, page as u32).expect("looked for above");
            assert_ne!(inner.state(slot), State::Filling, "the inode is locked alone");
            let start = page * PAGE;
            let (from, to) = (pos.max(start), end.min(start + PAGE));
            let part = data.part((from - pos) as usize, (to - from) as usize);
            let all = lines(0, valid(page as u32, size));
            let track = Track::Duplicate { told: 0 };
            let change = |p: &mut Page| p.write((from - start) as usize, part);
            duplicates += u64::from(inner.modify(slot, all, time, track, change));
        }
        self.publish(&inner);
        Ok(duplicates)
    }

    fn publish(&self, inner: &Slots) {
        self.dirty.store(inner.dirty, Relaxed);
    }

    /// Takes up to `max` dirty pages of a range of pages for writing, ascending; they are in write-back until
    /// [`PageCache::written`]. Lines at or beyond `size` stay as they are: their write has not ended yet. Returns how
    /// many pages were compared with their duplicates.
    pub(crate) fn gather(
        &self,
        node: &Node,
        pages: Range<u64>,
        max: usize,
        size: u64,
        out: &mut Batch,
    ) -> u64 {
        let id = node.mapping.load(Relaxed);
        if id == NO_MAPPING {
            return 0;
        }
        let mut compared = 0;
        let mut inner = self.inner.lock();
        let mut from = pages.start;
        while out.len() < max && from < pages.end && from <= u32::MAX as u64 {
            let Some((index, slot)) = inner.next_dirty(id, from as u32) else { break };
            from = index as u64 + 1;
            let valid = valid(index, size);
            if from > pages.end || valid == 0 {
                break;
            }
            if let Some((taken, duplicated)) = inner.begin_write(slot, lines(0, valid)) {
                compared += u64::from(duplicated);
                let mut page = inner.page(slot).clone();
                if valid < PAGE_SIZE {
                    let mut rest = [0; LINE_SIZE];
                    let rest = &mut rest[..valid.next_multiple_of(LINE_SIZE) - valid];
                    page.copy_out(valid, rest);
                    if rest.iter().any(|&b| b != 0) {
                        // A write that has not ended yet put bytes into the rest of the line.
                        inner.modify(slot, lines(valid - 1, valid), now(), Track::Told, |_| ());
                    }
                    page.zero_from(valid);
                }
                out.push(DirtyPage { index: index as u64, page, valid, lines: taken });
            }
        }
        inner.stats.written += out.len() as u64;
        compared
    }

    /// Pages that were gathered have been written, or could not be.
    pub(crate) fn written(&self, node: &Node, pages: &[DirtyPage]) {
        {
            let mut inner = self.inner.lock();
            let id = node.mapping.load(Relaxed);
            for page in pages {
                let slot = inner.find(id, page.index as u32).expect("a page in write-back stays");
                inner.end_write(slot);
            }
            self.publish(&inner);
        }
        self.below_limit.open();
    }

    /// The file's end is at `size` now: drops the pages beyond, and zeroes the last one's rest. No page is in
    /// write-back.
    pub(crate) fn truncate(&self, node: &Node, size: u64) {
        let id = node.mapping.load(Relaxed);
        if id == NO_MAPPING {
            return;
        }
        {
            let mut inner = self.inner.lock();
            inner.drop_pages(id, size.div_ceil(PAGE), u64::MAX);
            let rest = (size % PAGE) as usize;
            if rest != 0
                && let Some(slot) = inner.find(id, (size / PAGE) as u32)
            {
                inner.cut(slot, rest, lines(0, rest));
            }
            self.publish(&inner);
        }
        self.below_limit.open();
    }

    /// Drops the pages of a range, dirty ones too. None is in write-back.
    pub(crate) fn drop_range(&self, node: &Node, pages: Range<u64>) {
        let id = node.mapping.load(Relaxed);
        if id == NO_MAPPING {
            return;
        }
        {
            let mut inner = self.inner.lock();
            inner.drop_pages(id, pages.start, pages.end);
            self.publish(&inner);
        }
        self.below_limit.open();
    }

    /// Drops all clean pages.
    pub(crate) fn drop_clean(&self) {
        self.inner.lock().drop_clean(None);
    }

    /// Drops the clean pages of a file.
    pub(crate) fn drop_clean_of(&self, node: &Node) {
        let id = node.mapping.load(Relaxed);
        if id != NO_MAPPING {
            self.inner.lock().drop_clean(Some(id));
        }
    }

    /// The file leaves memory: drops its pages and its mapping.
    pub(crate) fn drop_all(&self, node: &Node) {
        self.drop_range(node, 0..u64::MAX);
        let id = node.mapping.swap(NO_MAPPING, Relaxed);
        if id != NO_MAPPING {
            self.inner.lock().free_mapping(id);
        }
    }

    /// Takes the file that has been dirty longest out of the queue; with `before`, only if since then.
    pub(crate) fn take_dirty(&self, before: Option<Nanos>) -> Option<Ino> {
        self.inner.lock().take_dirty(before)
    }

    /// A flusher is done with a file: where it still has dirty pages it queues again.
    pub(crate) fn requeue(&self, node: &Node) {
        let id = node.mapping.load(Relaxed);
        if id != NO_MAPPING {
            self.inner.lock().requeue(id, now());
        }
    }

    /// The files with pages that are dirty or in write-back, the oldest first.
    pub(crate) fn dirty_inodes(&self) -> Vec<Ino> {
        self.inner.lock().dirty_inodes()
    }
}

#[cfg(test)]
mod tests;
