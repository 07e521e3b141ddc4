//! [`TwoQueues`]: a plain page cache that evicts by 2Q (Johnson and Shasha, VLDB 1994).
//!
//! ```text
//!   new page ──> recent (first in, first out; a quarter) ── evicted ──> remembered (numbers alone;
//!                                                                            |      as many as half)
//!                                                                            | comes back
//!   evicted <── frequent (least recently used) <─────────────────────────────┘
//! ```
//!
//! All is in ordered maps: plain to read, some times slower than [`Clock`](super::clock::Clock), and the
//! model that the other is compared with (`tests.rs`).

mod files;
mod order;

use super::change::{Change, Track, Write, cut_gathered, lines, stored};
use super::{Batch, CacheStats, Look, PAGE, PageCache, capacity, valid};
use crate::config::{Tracking, VfsConfig};
use crate::diff::changed_lines;
use crate::vfs::Node;
use files::Files;
use granary_fs::{DirtyPage, Ino};
use granary_sim::now;
use granary_units::{Nanos, PAGE_SIZE, Page, Payload};
use order::Order;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A page of a file: the node's key, the page's number.
type Key = (u64, u64);

/// A cached page.
#[derive(Default)]
struct Held {
    page: Page,
    /// Dirty lines.
    lines: u64,
    filling: bool,
    writing: bool,
    /// As it was when it was clean, and the dirty lines that need no comparison.
    duplicate: Option<(Page, u64)>,
}

impl Held {
    fn is_clean(&self) -> bool {
        !self.filling && !self.writing && self.lines == 0
    }
}

#[derive(Default)]
struct Inner {
    pages: BTreeMap<Key, Held>,
    /// Those with dirty lines.
    dirty: BTreeSet<Key>,
    order: Order,
    files: Files,
    duplicates: u64,
    stats: CacheStats,
}

/// See the module.
pub(super) struct TwoQueues {
    inner: Mutex<Inner>,
    tracking: Tracking,
    capacity: usize,
    /// Dirty pages and pages in write-back, for looks without the lock.
    dirty: AtomicU64,
}

impl Inner {
    /// Enters a page that is not there; `capacity`: as in the module above.
    fn enter(&mut self, key: Key, held: Held, capacity: usize) {
        while self.pages.len() >= capacity && self.evict(capacity) {}
        self.pages.insert(key, held);
        self.order.enter(key, capacity);
    }

    fn evict(&mut self, capacity: usize) -> bool {
        let pages = &self.pages;
        let Some(key) = self.order.victim(capacity, |key| pages[&key].is_clean()) else { return false };
        self.pages.remove(&key);
        self.stats.evicted += 1;
        true
    }

    /// Takes a page out, in any state.
    fn remove(&mut self, key: Key) {
        self.clean(key, u64::MAX);
        let held = self.pages.remove(&key).expect("a page that is here");
        assert!(!held.writing, "page {} leaves while it is written", key.1);
        self.order.leave(key);
    }

    fn remove_all(&mut self, keys: impl IntoIterator<Item = Key>) {
        keys.into_iter().for_each(|key| self.remove(key));
    }

    /// The pages of a file, ascending.
    fn keys(&self, file: u64, pages: Range<u64>) -> Vec<Key> {
        if pages.is_empty() {
            return Vec::new();
        }
        self.pages.range((file, pages.start)..(file, pages.end)).map(|(key, _)| *key).collect()
    }

    /// Changes a page. Returns whether it was duplicated for that.
    fn change(&mut self, node: &Node, page: u64, change: &Change<'_>, time: Nanos) -> bool {
        let key = (node.key(), page);
        let held = self.pages.get_mut(&key).expect("a page that is here");
        assert!(!held.filling, "a writer holds the inode alone");
        let duplicated = match (change.track, &mut held.duplicate) {
            (Track::Told, None) => false,
            (Track::Told, Some((_, told))) => {
                *told |= change.lines;
                false
            }
            (Track::Duplicate { told: new }, Some((_, told))) => {
                *told |= new;
                false
            }
            (Track::Duplicate { told }, none) => {
                *none = Some((held.page.clone(), held.lines | told));
                true
            }
        };
        change.apply(&mut held.page);
        if duplicated {
            self.duplicates += 1;
            self.stats.most_duplicates = self.stats.most_duplicates.max(self.duplicates);
        }
        self.order.used(key);
        self.mark(key, node.ino(), change.lines, time);
        duplicated
    }

    /// Lines of a page are dirty.
    fn mark(&mut self, key: Key, ino: Ino, lines: u64, time: Nanos) {
        let held = self.pages.get_mut(&key).expect("a page that is here");
        let was_clean = held.lines == 0;
        held.lines |= lines;
        if was_clean && lines != 0 {
            self.stats.dirty += u64::from(!held.writing);
            self.dirty.insert(key);
            self.files.dirtied(key.0, ino, time);
        }
    }

    /// Some lines are no longer dirty; the page stays counted while it is in write-back. Returns those that
    /// were.
    fn clean(&mut self, key: Key, mask: u64) -> u64 {
        let held = self.pages.get_mut(&key).expect("a page that is here");
        let taken = held.lines & mask;
        held.lines &= !mask;
        if taken != 0 && held.lines == 0 {
            self.duplicates -= u64::from(held.duplicate.take().is_some());
            self.stats.dirty -= u64::from(!held.writing);
            self.dirty.remove(&key);
            self.files.cleaned(key.0);
        }
        taken
    }

    /// Takes a page's dirty lines, as far as `mask` says, into write-back. Returns those that must be
    /// written, and whether a comparison told; `None`: none is dirty.
    fn begin_write(&mut self, key: Key, mask: u64) -> Option<(u64, bool)> {
        let held = self.pages.get_mut(&key).expect("a page that is here");
        if held.lines & mask == 0 {
            return None;
        }
        // Lines that stay dirty are told from here on: what is taken now is no longer as the duplicate has
        // it.
        let duplicate = held.duplicate.take();
        let changed =
            duplicate.as_ref().map_or(u64::MAX, |(old, told)| told | changed_lines(old, &held.page));
        assert!(!held.writing, "page {} is written by two", key.1);
        held.writing = true;
        self.duplicates -= u64::from(duplicate.is_some());
        self.files.writing(key.0);
        Some((self.clean(key, mask) & changed, duplicate.is_some()))
    }

    fn end_write(&mut self, key: Key) {
        let held = self.pages.get_mut(&key).expect("a page in write-back stays");
        held.writing = false;
        self.stats.dirty -= u64::from(held.lines == 0);
        self.files.written(key.0);
    }
}

impl TwoQueues {
    pub(super) fn new(config: &VfsConfig) -> TwoQueues {
        TwoQueues {
            inner: Mutex::default(),
            tracking: config.tracking,
            capacity: capacity(config) as usize,
            dirty: AtomicU64::new(0),
        }
    }

    /// Does something under the lock; how much is dirty is known to all afterwards.
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.lock();
        let done = work(&mut inner);
        self.dirty.store(inner.stats.dirty, Relaxed);
        done
    }
}

impl PageCache for TwoQueues {
    fn stats(&self) -> CacheStats {
        let inner = self.inner.lock();
        CacheStats { pages: inner.pages.len() as u64, duplicates: inner.duplicates, ..inner.stats }
    }

    fn dirty(&self) -> u64 {
        self.dirty.load(Relaxed)
    }

    fn has_pages(&self, node: &Node) -> bool {
        self.inner.lock().pages.range((node.key(), 0)..=(node.key(), u64::MAX)).next().is_some()
    }

    fn look(&self, node: &Node, first: u64, out: &mut [Page]) -> Look {
        let mut inner = self.inner.lock();
        let mut found = 0;
        for (page, out) in (first..).zip(out.iter_mut()) {
            let key = (node.key(), page);
            match inner.pages.get(&key) {
                Some(held) if held.filling && found == 0 => return Look::Filling,
                Some(held) if !held.filling => *out = held.page.clone(),
                _ => break,
            }
            inner.order.used(key);
            found += 1;
        }
        inner.stats.hits += found as u64;
        if found == 0 { Look::Missing } else { Look::Found(found) }
    }

    fn next(&self, node: &Node, pages: Range<u64>, there: bool) -> Option<u64> {
        let inner = self.inner.lock();
        let is_here = |page: &u64| inner.pages.get(&(node.key(), *page)).is_some_and(|held| !held.filling);
        if there {
            return inner.keys(node.key(), pages).into_iter().map(|key| key.1).find(is_here);
        }
        pages.into_iter().find(|page| !is_here(page))
    }

    fn is_filling(&self, node: &Node, page: u64) -> bool {
        self.inner.lock().pages.get(&(node.key(), page)).is_some_and(|held| held.filling)
    }

    fn begin_fill(&self, node: &Node, first: u64, max: u64) -> usize {
        let mut inner = self.inner.lock();
        let missing = (first..first + max).take_while(|page| {
            let is_missing = !inner.pages.contains_key(&(node.key(), *page));
            if is_missing {
                let held = Held { filling: true, ..Held::default() };
                inner.enter((node.key(), *page), held, self.capacity);
            }
            is_missing
        });
        missing.count()
    }

    fn end_fill(&self, node: &Node, first: u64, count: usize, pages: Option<Vec<Page>>, size: u64) {
        let mut inner = self.inner.lock();
        let claimed = first..first + count as u64;
        let Some(pages) = pages else {
            return inner.remove_all(claimed.map(|page| (node.key(), page)));
        };
        for (index, mut page) in claimed.zip(pages) {
            if valid(index, size) < PAGE_SIZE {
                page.zero_from(valid(index, size));
            }
            let held = inner.pages.get_mut(&(node.key(), index)).expect("claimed by begin_fill");
            assert!(held.filling);
            (held.page, held.filling) = (page, false);
            inner.stats.filled += 1;
        }
    }

    fn write(&self, node: &Node, pos: u64, data: Payload<'_>, old: u64) -> Result<u64, u64> {
        let write = Write { pos, data, old, tracking: self.tracking };
        self.with(|inner| {
            let (first, last) = write.pages().into_inner();
            let missing = |page: &u64| write.needs(*page) && !inner.pages.contains_key(&(node.key(), *page));
            if let Some(page) = [first, last].iter().find(|page| missing(page)) {
                return Err(*page);
            }
            // Pages that are here come first: once dirty they cannot be evicted to make room for the others.
            let is_here = |page: &u64| inner.pages.contains_key(&(node.key(), *page));
            let (here, new): (Vec<u64>, Vec<u64>) = write.pages().partition(is_here);
            let (time, mut duplicates) = (now(), 0);
            for page in here {
                duplicates += u64::from(inner.change(node, page, &write.of(page, false), time));
            }
            for page in new {
                inner.enter((node.key(), page), Held::default(), self.capacity);
                duplicates += u64::from(inner.change(node, page, &write.of(page, true), time));
            }
            Ok(duplicates)
        })
    }

    fn store(&self, node: &Node, pos: u64, data: Payload<'_>) -> Result<u64, u64> {
        let mut pages = pos / PAGE..(pos + data.len() as u64).div_ceil(PAGE);
        self.with(|inner| {
            let missing = |page: &u64| !inner.pages.contains_key(&(node.key(), *page));
            if let Some(page) = pages.clone().find(missing) {
                return Err(page);
            }
            let (time, size) = (now(), node.size());
            Ok(pages.try_fold(0, |duplicates, page| {
                let change = stored(pos, data, size, page);
                Some(duplicates + u64::from(inner.change(node, page, &change, time)))
            }))
        })
        .map(Option::unwrap_or_default)
    }

    fn gather(&self, node: &Node, pages: Range<u64>, max: usize, size: u64, out: &mut Batch) -> u64 {
        let mut compared = 0;
        let mut inner = self.inner.lock();
        if pages.is_empty() {
            return 0;
        }
        let range = (node.key(), pages.start)..(node.key(), pages.end);
        let dirty: Vec<Key> = inner.dirty.range(range).take(max.saturating_sub(out.len())).copied().collect();
        for key in dirty {
            let valid = valid(key.1, size);
            if valid == 0 {
                break;
            }
            let Some((taken, duplicated)) = inner.begin_write(key, lines(0, valid)) else { continue };
            compared += u64::from(duplicated);
            let mut page = inner.pages[&key].page.clone();
            if cut_gathered(&mut page, valid) {
                inner.mark(key, node.ino(), lines(valid - 1, valid), now());
            }
            out.push(DirtyPage { index: key.1, page, valid, lines: taken });
        }
        inner.stats.written += out.len() as u64;
        compared
    }

    fn written(&self, node: &Node, pages: &[DirtyPage]) {
        self.with(|inner| pages.iter().for_each(|page| inner.end_write((node.key(), page.index))));
    }

    fn truncate(&self, node: &Node, size: u64) {
        self.with(|inner| {
            inner.remove_all(inner.keys(node.key(), size.div_ceil(PAGE)..u64::MAX));
            let (key, rest) = ((node.key(), size / PAGE), (size % PAGE) as usize);
            if rest != 0
                && let Some(held) = inner.pages.get_mut(&key)
            {
                held.page.zero_from(rest);
                inner.clean(key, !lines(0, rest));
            }
        });
    }

    fn drop_range(&self, node: &Node, pages: Range<u64>) {
        self.with(|inner| inner.remove_all(inner.keys(node.key(), pages)));
    }

    fn drop_clean(&self) {
        self.with(|inner| {
            let clean = inner.pages.iter().filter(|(_, held)| held.is_clean()).map(|(key, _)| *key);
            inner.remove_all(clean.collect::<Vec<_>>());
        });
    }

    fn drop_clean_of(&self, node: &Node) {
        self.with(|inner| {
            let mut keys = inner.keys(node.key(), 0..u64::MAX);
            keys.retain(|key| inner.pages[key].is_clean());
            inner.remove_all(keys);
        });
    }

    fn drop_all(&self, node: &Node) {
        self.drop_range(node, 0..u64::MAX);
        self.inner.lock().files.forget(node.key());
    }

    fn take_dirty(&self, before: Option<Nanos>) -> Option<Ino> {
        self.inner.lock().files.take(before)
    }

    fn requeue(&self, node: &Node) {
        self.inner.lock().files.requeue(node.key(), now());
    }

    fn dirty_inodes(&self) -> Vec<Ino> {
        self.inner.lock().files.busy()
    }
}
