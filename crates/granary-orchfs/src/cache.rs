//! Pages of the SSD in host memory: what was read there is read again without the SSD (OrchFS section 3.6: reads of the SSD are buffered,
//! writes are direct).
//!
//! Invariant: a page in here is the SSD's. Who writes a block lets go of its pages before and after; who reads a block holds its
//! range from before the command until the page is in here, so no reader puts back what a writer has replaced.

use granary_units::{Bytes, PAGE_SIZE, Page};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Default)]
struct Inner {
    pages: FxHashMap<u64, (Page, u64)>,
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

    /// A page, which is the last one used then.
    pub fn get(&self, number: u64) -> Option<Page> {
        let mut inner = self.inner.lock();
        let Inner { pages, order, next } = &mut *inner;
        let (page, stamp) = pages.get_mut(&number)?;
        order.remove(stamp);
        *next += 1;
        *stamp = *next;
        order.insert(*next, number);
        Some(page.clone())
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
        }
    }

    /// Lets go of pages.
    pub fn forget(&self, numbers: Range<u64>) {
        let mut inner = self.inner.lock();
        for number in numbers {
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
        assert_eq!(cache.get(1), Some(Page::word(1)));
        cache.put(4, &Page::word(4));
        assert_eq!((cache.get(2), cache.bytes()), (None, 3 * PAGE_SIZE as u64));
        cache.forget(3..5);
        assert_eq!((cache.get(1), cache.get(3), cache.get(4)), (Some(Page::word(1)), None, None));
        SsdCache::new(Bytes(100)).put(1, &Page::ZERO);
    }
}
