//! [`PageCache`]: the pages of all files, with a dirty mask of 64 lines each.
//!
//! ```text
//!   page: absent -begin_fill-> filling -end_fill-> clean <--> dirty -gather-> in write-back -written-> clean
//!                                                    |          ^                  |  dirtied again: both,
//!                                                 evicted       └──────────────────┘  then dirty
//! ```
//!
//! Two caches implement it, and a third can ([`Vfs::mount_with`](crate::Vfs::mount_with)):
//!
//! | | finds pages by | evicts |
//! |---|---|---|
//! | `clock.rs` | slab, sorted list or tree per file; 24 B a page | second chance, roughly Linux's LRU |
//! | `two_queues.rs` | one ordered map; 10 x the bookkeeping | 2Q (VLDB 1994): pages used once leave first |
//!
//! Invariants of each: Bytes of a cached page beyond the end of the file are zero. A file with dirty pages is
//! in the queue, or a flusher is at work on it. There is one short lock, never held across a wait. Dirty
//! pages and pages that are being filled stay. Where nothing can be evicted the cache grows beyond its size
//! for a while.
//!
//! The host knows the lines that a write() touches, and marks them. It does not see stores through a mapping.
//! The first store to a clean page leaves a *duplicate* of the page behind (ByteFS section 4.6; Linux's
//! page_mkwrite is the moment). The gathering of the page for write-back compares the two. `tracking = "xor"`
//! does that for write(), too.
//!
//! ```text
//!   lines to the drive = dirty lines that are known & ( told by a write | different from the duplicate )
//! ```
//!
//! Told by a write, whatever the tracking: lines beyond the old end of the file and of pages that were not
//! read, because media hold something else there than the cache did.
//!
//! It does *not* read or write: [`crate::Vfs`] does, between the calls.

mod change;
mod clock;
mod gated;
mod two_queues;

use crate::config::{Replacement, VfsConfig};
use crate::vfs::Node;
use clock::Clock;
pub(crate) use gated::Gated;
use granary_fs::{DirtyPage, Ino};
use granary_units::{Nanos, PAGE_SIZE, Page, Payload};
use smallvec::SmallVec;
use std::ops::Range;
use two_queues::TwoQueues;

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
pub type Batch = SmallVec<[DirtyPage; 8]>;

/// The answer to a look for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// This many pages, from the first on.
    Found(usize),
    /// Somebody is reading the first.
    Filling,
    /// The first is not there.
    Missing,
}

/// See the module.
pub trait PageCache: Send + Sync {
    /// The counters.
    fn stats(&self) -> CacheStats;

    /// Dirty pages and pages in write-back, for looks without a lock.
    fn dirty(&self) -> u64;

    /// Whether the file may have pages here.
    fn has_pages(&self, node: &Node) -> bool;

    /// Copies (cheaply) the cached pages from `first` on into `out`, up to the first that is not there.
    fn look(&self, node: &Node, first: u64, out: &mut [Page]) -> Look;

    /// The first of these pages that is in the cache (`there`), or that is not; pages that are still being
    /// read are not.
    fn next(&self, node: &Node, pages: Range<u64>, there: bool) -> Option<u64>;

    /// Whether somebody is reading this page.
    fn is_filling(&self, node: &Node, page: u64) -> bool;

    /// Claims the missing page `first` and up to `max` missing ones in a row for the caller to read. Returns
    /// how many.
    fn begin_fill(&self, node: &Node, first: u64, max: u64) -> usize;

    /// Ends a fill: the pages are in the cache, zeroed beyond `size`; `None` = they could not be read.
    fn end_fill(&self, node: &Node, first: u64, count: usize, pages: Option<Vec<Page>>, size: u64);

    /// Overwrites `data.len()` bytes at `pos` and marks their lines dirty. `old`: the file's size before;
    /// pages that begin there or later are new.
    ///
    /// Returns how many pages were duplicated.
    ///
    /// # Errors
    /// The number of a page that must be read first, because only a part of what the file has of it is
    /// overwritten.
    fn write(&self, node: &Node, pos: u64, data: Payload<'_>, old: u64) -> Result<u64, u64>;

    /// Stores bytes, which lie within the file, through a mapping. Returns how many pages were duplicated:
    /// those that were not yet written through a mapping since they were clean.
    ///
    /// # Errors
    /// The number of a page that must be read first.
    fn store(&self, node: &Node, pos: u64, data: Payload<'_>) -> Result<u64, u64>;

    /// Takes up to `max` dirty pages of a range of pages for writing, ascending; they are in write-back until
    /// [`PageCache::written`]. Lines at or beyond `size` stay as they are: their write has not ended yet.
    /// Returns how many pages were compared with their duplicates.
    fn gather(&self, node: &Node, pages: Range<u64>, max: usize, size: u64, out: &mut Batch) -> u64;

    /// Pages that were gathered have been written, or could not be.
    fn written(&self, node: &Node, pages: &[DirtyPage]);

    /// The file's end is at `size` now: drops the pages beyond, and zeroes the last one's rest. No page is in
    /// write-back.
    fn truncate(&self, node: &Node, size: u64);

    /// Drops the pages of a range, dirty ones too. None is in write-back.
    fn drop_range(&self, node: &Node, pages: Range<u64>);

    /// Drops all clean pages.
    fn drop_clean(&self);

    /// Drops the clean pages of a file.
    fn drop_clean_of(&self, node: &Node);

    /// The file leaves memory: drops its pages, and forgets it.
    fn drop_all(&self, node: &Node);

    /// Takes the file that has been dirty longest out of the queue; with `before`, only if since then.
    fn take_dirty(&self, before: Option<Nanos>) -> Option<Ino>;

    /// A flusher is done with a file: where it still has dirty pages it queues again.
    fn requeue(&self, node: &Node);

    /// The files with pages that are dirty or in write-back, the oldest first.
    fn dirty_inodes(&self) -> Vec<Ino>;

    /// Pages of the file are looked for soon: what that reads can be fetched into the processor's cache.
    fn prefetch(&self, _node: &Node) {}
}

/// Pages that the configuration has room for.
pub(crate) fn capacity(config: &VfsConfig) -> u64 {
    (config.page_cache.0 / PAGE).clamp(1, u32::MAX as u64 - 1)
}

/// The cache that the configuration names.
pub(crate) fn make(config: &VfsConfig) -> Box<dyn PageCache> {
    match config.replacement {
        Replacement::Clock => Box::new(Clock::new(config)),
        Replacement::TwoQueues => Box::new(TwoQueues::new(config)),
    }
}

/// How much of page `index` lies within a file of `size` bytes.
fn valid(index: u64, size: u64) -> usize {
    size.saturating_sub(index * PAGE).min(PAGE) as usize
}

#[cfg(test)]
mod tests;
