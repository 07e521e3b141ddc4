//! [`Clock`]: the page cache of every run that asks for no other.
//!
//! One slab of 40-byte slots for all files (24 bytes beyond the page itself), found through each file's
//! [`Mapping`](mapping::Mapping). When the cache is full a clock hand takes the first clean page that was not
//! used since it last came by (second chance, an approximation of LRU; dirty pages are passed over and
//! cleaned by the flushers). Files with dirty pages wait in a queue in the order in which they became dirty.

mod mapping;
mod slots;

use super::change::{Change, Track, Write, cut_gathered, lines, stored};
use super::{Batch, CacheStats, Look, PAGE, PageCache, capacity, valid};
use crate::config::{Tracking, VfsConfig};
use crate::vfs::{NO_MAPPING, Node};
use granary_fs::{DirtyPage, Ino};
use granary_sim::now;
use granary_units::{Nanos, PAGE_SIZE, Page, Payload};
use parking_lot::Mutex;
use slots::{Slots, State};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module.
pub(super) struct Clock {
    inner: Mutex<Slots>,
    tracking: Tracking,
    /// Dirty pages and pages in write-back, for looks without the lock.
    dirty: AtomicU64,
}

impl Clock {
    pub(super) fn new(config: &VfsConfig) -> Clock {
        Clock {
            inner: Mutex::new(Slots::new(capacity(config) as usize)),
            tracking: config.tracking,
            dirty: AtomicU64::new(0),
        }
    }

    fn publish(&self, inner: &Slots) {
        self.dirty.store(inner.dirty, Relaxed);
    }
}

/// Changes a page. Returns whether it was duplicated for that.
fn put(inner: &mut Slots, slot: u32, change: &Change<'_>, time: Nanos) -> bool {
    assert_ne!(inner.state(slot), State::Filling, "a writer holds the inode alone");
    inner.modify(slot, change.lines, time, change.track, |page| change.apply(page))
}

impl PageCache for Clock {
    fn stats(&self) -> CacheStats {
        let inner = self.inner.lock();
        CacheStats {
            pages: inner.used() as u64,
            dirty: inner.dirty,
            duplicates: inner.duplicates(),
            ..inner.stats
        }
    }

    fn dirty(&self) -> u64 {
        self.dirty.load(Relaxed)
    }

    fn has_pages(&self, node: &Node) -> bool {
        node.mapping.load(Relaxed) != NO_MAPPING
    }

    fn look(&self, node: &Node, first: u64, out: &mut [Page]) -> Look {
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

    fn prefetch(&self, node: &Node) {
        self.inner.lock().prefetch(node.mapping.load(Relaxed));
    }

    fn next(&self, node: &Node, pages: Range<u64>, there: bool) -> Option<u64> {
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

    fn is_filling(&self, node: &Node, page: u64) -> bool {
        let inner = self.inner.lock();
        let slot = inner.find(node.mapping.load(Relaxed), page as u32);
        slot.is_some_and(|s| inner.state(s) == State::Filling)
    }

    fn begin_fill(&self, node: &Node, first: u64, max: u64) -> usize {
        let mut inner = self.inner.lock();
        let id = inner.mapping_of(node);
        let mut count = 0;
        while count < max && inner.find(id, (first + count) as u32).is_none() {
            inner.insert(id, (first + count) as u32, Page::ZERO, State::Filling);
            count += 1;
        }
        count as usize
    }

    fn end_fill(&self, node: &Node, first: u64, count: usize, pages: Option<Vec<Page>>, size: u64) {
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
                    let valid = valid(index as u64, size);
                    if valid < PAGE_SIZE {
                        page.zero_from(valid);
                    }
                    inner.filled(slot, page);
                }
            }
        }
    }

    fn write(&self, node: &Node, pos: u64, data: Payload<'_>, old: u64) -> Result<u64, u64> {
        let write = Write { pos, data, old, tracking: self.tracking };
        let mut inner = self.inner.lock();
        let id = inner.mapping_of(node);
        let (first, last) = write.pages().into_inner();
        for page in [first, last] {
            if write.needs(page) && inner.find(id, page as u32).is_none() {
                return Err(page);
            }
        }
        let (time, mut duplicates) = (now(), 0);
        // The edges that are here come first: once dirty they cannot be evicted to make room for the others.
        let edges = [first, last].map(|page| inner.find(id, page as u32));
        for (page, slot) in [first, last].into_iter().zip(edges) {
            if let Some(slot) = slot {
                duplicates += u64::from(put(&mut inner, slot, &write.of(page, false), time));
            }
        }
        for page in first..=last {
            let done = (page == first && edges[0].is_some()) || (page == last && edges[1].is_some());
            if !done {
                let found = inner.find(id, page as u32);
                let slot = found.unwrap_or_else(|| inner.insert(id, page as u32, Page::ZERO, State::Clean));
                let change = write.of(page, found.is_none());
                duplicates += u64::from(put(&mut inner, slot, &change, time));
            }
        }
        self.publish(&inner);
        Ok(duplicates)
    }

    fn store(&self, node: &Node, pos: u64, data: Payload<'_>) -> Result<u64, u64> {
        let end = pos + data.len() as u64;
        let mut inner = self.inner.lock();
        let id = inner.mapping_of(node);
        if let Some(page) = (pos / PAGE..end.div_ceil(PAGE)).find(|&p| inner.find(id, p as u32).is_none()) {
            return Err(page);
        }
        let (time, size, mut duplicates) = (now(), node.size(), 0);
        for page in pos / PAGE..end.div_ceil(PAGE) {
            let slot = inner.find(id, page as u32).expect("looked for above");
            duplicates += u64::from(put(&mut inner, slot, &stored(pos, data, size, page), time));
        }
        self.publish(&inner);
        Ok(duplicates)
    }

    fn gather(&self, node: &Node, pages: Range<u64>, max: usize, size: u64, out: &mut Batch) -> u64 {
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
            let valid = valid(index as u64, size);
            if from > pages.end || valid == 0 {
                break;
            }
            if let Some((taken, duplicated)) = inner.begin_write(slot, lines(0, valid)) {
                compared += u64::from(duplicated);
                let mut page = inner.page(slot).clone();
                if cut_gathered(&mut page, valid) {
                    inner.modify(slot, lines(valid - 1, valid), now(), Track::Told, |_| ());
                }
                out.push(DirtyPage { index: index as u64, page, valid, lines: taken });
            }
        }
        inner.stats.written += out.len() as u64;
        compared
    }

    fn written(&self, node: &Node, pages: &[DirtyPage]) {
        {
            let mut inner = self.inner.lock();
            let id = node.mapping.load(Relaxed);
            for page in pages {
                let slot = inner.find(id, page.index as u32).expect("a page in write-back stays");
                inner.end_write(slot);
            }
            self.publish(&inner);
        }
    }

    fn truncate(&self, node: &Node, size: u64) {
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
    }

    fn drop_range(&self, node: &Node, pages: Range<u64>) {
        let id = node.mapping.load(Relaxed);
        if id == NO_MAPPING {
            return;
        }
        {
            let mut inner = self.inner.lock();
            inner.drop_pages(id, pages.start, pages.end);
            self.publish(&inner);
        }
    }

    fn drop_clean(&self) {
        self.inner.lock().drop_clean(None);
    }

    fn drop_clean_of(&self, node: &Node) {
        let id = node.mapping.load(Relaxed);
        if id != NO_MAPPING {
            self.inner.lock().drop_clean(Some(id));
        }
    }

    fn drop_all(&self, node: &Node) {
        self.drop_range(node, 0..u64::MAX);
        let id = node.mapping.swap(NO_MAPPING, Relaxed);
        if id != NO_MAPPING {
            self.inner.lock().free_mapping(id);
        }
    }

    fn take_dirty(&self, before: Option<Nanos>) -> Option<Ino> {
        self.inner.lock().take_dirty(before)
    }

    fn requeue(&self, node: &Node) {
        let id = node.mapping.load(Relaxed);
        if id != NO_MAPPING {
            self.inner.lock().requeue(id, now());
        }
    }

    fn dirty_inodes(&self) -> Vec<Ino> {
        self.inner.lock().dirty_inodes()
    }
}
