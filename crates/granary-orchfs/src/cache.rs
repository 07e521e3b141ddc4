//! Pages of the SSD in host memory: a second read of a page needs no access to the SSD (OrchFS section 3.6:
//! reads of the SSD are buffered, writes are direct).
//!
//! Invariant: a page in here is the SSD's. A writer of a block lets go of its pages before and after the
//! write. No reader puts back a page that a writer has replaced. With the engine the thread of that block
//! does both, one after the other. Without it a reader holds the block's range until the page is in here.
//!
//! Read-ahead is Linux's, by the content of the cache (`try_context_readahead`, `page_cache_ra_order` in
//! mm/readahead.c). A page that is missing behind one that is there begins a window. The window's first page
//! is marked; a reader that comes to the mark has the next window read before it is needed.

use granary_units::{Bytes, PAGE_SIZE, Page};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages that are read ahead: the kernel's default window, 128 KiB (VM_READAHEAD_PAGES).
pub const WINDOW: u64 = 32;

#[derive(Default)]
struct Inner {
    pages: FxHashMap<u64, (Page, u64)>,
    /// Pages at which the next window is to be read.
    marks: FxHashSet<u64>,
    /// By last use: page.
    order: BTreeMap<u64, u64>,
    next: u64,
}

/// See the module.
pub struct SsdCache {
    most: usize,
    inner: Mutex<Inner>,
}

impl SsdCache {
    /// One of this size; with less than a page there is none.
    pub fn new(size: Bytes) -> SsdCache {
        SsdCache { most: (size.0 / PAGE_SIZE as u64) as usize, inner: Mutex::default() }
    }

    /// A page, which is the last one used then, and whether the next window is to be read now.
    pub fn get(&self, number: u64) -> Option<(Page, bool)> {
        let mut inner = self.inner.lock();
        let Inner { pages, order, next, marks } = &mut *inner;
        let (page, stamp) = pages.get_mut(&number)?;
        order.remove(stamp);
        *next += 1;
        *stamp = *next;
        order.insert(*next, number);
        Some((page.clone(), marks.remove(&number)))
    }

    /// Where to read ahead from, after pages up to `end` are read that begin at `first`: only where the page
    /// before is here.
    pub fn window(&self, first: u64, end: u64) -> Option<std::ops::Range<u64>> {
        let mut inner = self.inner.lock();
        let sequential = first.checked_sub(1).is_some_and(|before| inner.pages.contains_key(&before));
        if self.most < 2 * WINDOW as usize || !sequential {
            return None;
        }
        inner.marks.insert(end);
        Some(end..end + WINDOW)
    }

    /// The window behind a mark that was met.
    pub fn next_window(&self, mark: u64) -> std::ops::Range<u64> {
        let from = mark + WINDOW;
        self.inner.lock().marks.insert(from);
        from..from + WINDOW
    }

    /// Keeps a page; the one that was not used for longest goes.
    pub fn put(&self, number: u64, page: &Page) {
        if self.most == 0 || self.get(number).is_some() {
            return;
        }
        let mut inner = self.inner.lock();
        inner.next += 1;
        let stamp = inner.next;
        inner.pages.insert(number, (page.clone(), stamp));
        inner.order.insert(stamp, number);
        if inner.pages.len() > self.most
            && let Some((_, oldest)) = inner.order.pop_first()
        {
            inner.pages.remove(&oldest);
            inner.marks.remove(&oldest);
        }
    }

    /// Lets go of pages.
    pub fn forget(&self, numbers: Range<u64>) {
        let mut inner = self.inner.lock();
        for number in numbers {
            inner.marks.remove(&number);
            if let Some((_, stamp)) = inner.pages.remove(&number) {
                inner.order.remove(&stamp);
            }
        }
    }

    /// Lets go of all.
    pub fn clear(&self) {
        *self.inner.lock() = Inner::default();
    }

    /// Bytes that it has.
    pub fn bytes(&self) -> u64 {
        (self.inner.lock().pages.len() * PAGE_SIZE) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_that_was_not_used_for_longest_goes() {
        let cache = SsdCache::new(Bytes(3 * PAGE_SIZE as u64));
        (1..4).for_each(|n| cache.put(n, &Page::word(n)));
        let there = |n| cache.get(n).map(|(page, _)| page);
        assert_eq!(there(1), Some(Page::word(1)));
        cache.put(4, &Page::word(4));
        assert_eq!((there(2), cache.bytes()), (None, 3 * PAGE_SIZE as u64));
        cache.forget(3..5);
        assert_eq!((there(1), there(3), there(4)), (Some(Page::word(1)), None, None));
        SsdCache::new(Bytes(100)).put(1, &Page::ZERO);
    }
    #[test]
    fn a_window_follows_pages_that_are_there_and_its_first_page_asks_for_the_next() {
        let cache = SsdCache::new(Bytes::mib(1));
        assert_eq!(cache.window(5, 6), None);
        cache.put(4, &Page::word(4));
        assert_eq!(cache.window(5, 6), Some(6..38));
        (6..38).for_each(|n| cache.put(n, &Page::word(n)));
        assert_eq!(cache.get(6), Some((Page::word(6), true)));
        assert_eq!(cache.next_window(6), 38..70);
        assert_eq!(
            (cache.get(6), cache.get(7)),
            (Some((Page::word(6), false)), Some((Page::word(7), false)))
        );
    }
}
