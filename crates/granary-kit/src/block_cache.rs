//! [`BlockCache`]: the host's cache of metadata blocks, read through the block interface (Linux's buffer
//! cache; "host-side metadata caching" in ByteFS section 4.5).
//!
//! ```text
//!   table: block number -> Arc<Block>      clock: blocks in the order of the second-chance sweep
//!   Block { content, loaded, referenced, pins }
//! ```
//!
//! Invariants: a block is read once however many tasks want it; a block that is pinned (journalled or dirty),
//! or that somebody holds an `Arc` of, stays. The cache never writes: when and how a changed block goes back
//! to the drive is the file system's protocol. Eviction is CLOCK (second chance), which is deterministic and
//! close to LRU.

mod table;

use granary_device::{DriveError, Port, Structure};
use granary_fs::Result;
use granary_sim::sync::Mutex;
use granary_units::{Bytes, LINE_SIZE, Lpa, PAGE_SIZE, Page, prefetch, prefetch_at};
use parking_lot::RwLock;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use table::Table;

/// A metadata block in host memory.
pub struct Block {
    lpa: Lpa,
    what: Structure,
    content: RwLock<Page>,
    loaded: AtomicBool,
    verified: AtomicBool,
    /// Held by the task that reads the block from the drive.
    loading: Mutex<()>,
    referenced: AtomicBool,
    pins: AtomicU32,
}

impl Block {
    fn new(lpa: Lpa, what: Structure, content: Page, loaded: bool) -> Block {
        Block {
            lpa,
            what,
            content: RwLock::new(content),
            loaded: AtomicBool::new(loaded),
            verified: AtomicBool::new(false),
            loading: Mutex::new(()),
            referenced: AtomicBool::new(true),
            pins: AtomicU32::new(0),
        }
    }

    /// Checks the content, where nobody has done so since the block came into memory (the kernel's
    /// `buffer_verified`).
    ///
    /// # Errors
    /// The check's.
    pub fn verify<E>(&self, check: impl FnOnce(&[u8; PAGE_SIZE]) -> Result<(), E>) -> Result<(), E> {
        if !self.verified.load(Relaxed) {
            self.with(check)?;
            self.verified.store(true, Relaxed);
        }
        Ok(())
    }

    /// Where the content is in this program's memory; 0 where it is not bytes.
    fn address(&self) -> usize {
        self.content.read().as_bytes().map_or(0, |bytes| bytes.as_ptr().addr())
    }

    /// Where it lies.
    pub fn lpa(&self) -> Lpa {
        self.lpa
    }

    /// The structure that it holds.
    pub fn what(&self) -> Structure {
        self.what
    }

    /// Looks at the content. `f` must not wait.
    pub fn with<T>(&self, f: impl FnOnce(&[u8; PAGE_SIZE]) -> T) -> T {
        self.content.read().with_bytes(f)
    }

    /// These lines of it will be changed soon: the first of them is fetched into the processor's cache, and
    /// what a change looks at before.
    #[inline]
    pub fn prefetch(&self, lines: u64) {
        let content = self.content.read();
        content.count_at().into_iter().for_each(prefetch_at);
        if let Some(bytes) = content.as_bytes() {
            prefetch(bytes, lines.trailing_zeros() as usize * LINE_SIZE);
        }
    }

    /// Changes the content in memory. `f` must not wait. Snapshots taken earlier keep the old content.
    pub fn change<T>(&self, f: impl FnOnce(&mut [u8; PAGE_SIZE]) -> T) -> T {
        f(self.content.write().bytes_mut())
    }

    /// The content now, as a page that later changes do not touch (copied on write).
    pub fn snapshot(&self) -> Page {
        self.content.read().clone()
    }

    /// Keeps the block in memory until [`Block::unpin`]; pins nest.
    pub fn pin(&self) {
        self.pins.fetch_add(1, Relaxed);
    }

    /// Undoes one [`Block::pin`].
    ///
    /// # Panics
    /// Where the block was not pinned.
    pub fn unpin(&self) {
        let before = self.pins.fetch_sub(1, Relaxed);
        assert!(before > 0, "{} was not pinned", self.lpa);
    }

    /// Whether the block is pinned.
    pub fn is_pinned(&self) -> bool {
        self.pins.load(Relaxed) > 0
    }
}

#[derive(Default)]
struct Inner {
    table: Table,
    /// Holds every block of the table once, and possibly forgotten ones until the sweep or `compact` meets
    /// them.
    clock: VecDeque<Arc<Block>>,
    /// The blocks that came last, by number: those that came before them are packed where they are nearly
    /// empty.
    young: VecDeque<u64>,
}

/// Blocks that stay bytes for the changes which follow their making. Older ones of a few lines are packed:
/// directories of a few names. Looking at one costs a copy.
const YOUNG: usize = 1024;

impl Inner {
    /// References that the cache itself holds to a block: table and clock.
    const OWN_REFS: usize = 2;

    fn insert(&mut self, block: &Arc<Block>) {
        self.table.insert(block);
        self.clock.push_back(Arc::clone(block));
        self.young.push_back(block.lpa.0);
        if self.young.len() > YOUNG
            && let Some(old) = self.young.pop_front().and_then(|n| self.table.get(n))
            && let Some(mut content) = old.content.try_write()
        {
            *content = content.packed(Page::KEPT_LINES);
        }
        if self.clock.len() > 2 * self.table.len() + 64 {
            let Inner { table, clock, .. } = self;
            clock.retain(|b| table.holds(b));
        }
    }
}

/// The host's metadata blocks.
pub struct BlockCache {
    port: Port,
    capacity: usize,
    /// Blocks that the device is known to have; it may have grown since.
    end: AtomicU64,
    inner: parking_lot::Mutex<Inner>,
}

impl BlockCache {
    /// A cache of at most `capacity` (pinned and held blocks may exceed it), reading through `port`.
    pub fn new(port: Port, capacity: Bytes) -> BlockCache {
        let capacity = (capacity.0 / PAGE_SIZE as u64).max(1) as usize;
        BlockCache { port, capacity, end: AtomicU64::new(0), inner: parking_lot::Mutex::default() }
    }

    /// The block at `lpa`, read from the drive where it is not in memory.
    ///
    /// # Errors
    /// Of the drive.
    pub fn get(&self, lpa: Lpa, what: Structure) -> Result<Arc<Block>> {
        self.get_window(lpa, lpa.0..lpa.0.saturating_add(1), what)
    }

    /// Like [`BlockCache::get`]; a miss also reads the other blocks of `window` that are not in memory, all
    /// together (read-ahead: the extra blocks hold the same structure).
    ///
    /// # Errors
    /// Of the drive.
    pub fn get_window(&self, lpa: Lpa, window: Range<u64>, what: Structure) -> Result<Arc<Block>> {
        // The table is as long as the largest number in it, and damaged media name any.
        self.exists(lpa)?;
        debug_assert!(window.contains(&lpa.0));
        let block = self.entry(lpa.0, what);
        if block.loaded.load(Relaxed) {
            return Ok(block);
        }
        // All blocks of the window that are missing and that nobody else is reading; ours first.
        let own = block.loading.lock();
        if block.loaded.load(Relaxed) {
            return Ok(Arc::clone(&block));
        }
        let around: Vec<Arc<Block>> = window
            .filter(|&n| n != lpa.0 && n < self.end.load(Relaxed))
            .map(|n| self.entry(n, what))
            .filter(|b| !b.loaded.load(Relaxed))
            .collect();
        let mut mine: Vec<(&Arc<Block>, _)> =
            around.iter().filter_map(|b| b.loading.try_lock().map(|g| (b, g))).collect();
        mine.push((&block, own));
        mine.sort_by_key(|(b, _)| b.lpa);
        // A block that cannot be read stays in the table, not loaded: other callers may wait for the same
        // block, and try to read it themselves.
        if let Err(e) = self.read_runs(mine.iter().map(|(b, _)| *b)) {
            if mine.len() == 1 {
                return Err(e);
            }
            // A page that cannot be read is not its neighbours' affair.
            mine.retain(|(b, _)| b.lpa == lpa);
            self.read_runs(mine.iter().map(|(b, _)| *b))?;
        }
        {
            let mut inner = self.inner.lock();
            mine.iter().for_each(|(b, _)| inner.table.loaded(b));
        }
        drop(mine);
        Ok(Arc::clone(&block))
    }

    /// Reads blocks (ascending), runs of neighbours in one command, all in flight together.
    fn read_runs<'a>(&self, blocks: impl Iterator<Item = &'a Arc<Block>>) -> Result<()> {
        let blocks: Vec<&Arc<Block>> = blocks.collect();
        let mut pages = vec![Page::ZERO; blocks.len()];
        let mut ticket = granary_device::Ticket::NONE;
        let mut from = 0;
        for run in blocks.chunk_by(|a, b| a.lpa.0 + 1 == b.lpa.0) {
            let out = &mut pages[from..from + run.len()];
            ticket = ticket.and(self.port.submit_read(run[0].lpa, out, run[0].what)?);
            from += run.len();
        }
        self.port.wait(ticket);
        for (block, mut page) in blocks.into_iter().zip(pages) {
            page.bytes_mut();
            *block.content.write() = page;
            block.loaded.store(true, Relaxed);
        }
        Ok(())
    }

    /// A block just allocated: zeros, without reading the drive. Replaces the cache's old content.
    pub fn fresh(&self, lpa: Lpa, what: Structure) -> Arc<Block> {
        let mut zeros = Page::ZERO;
        zeros.bytes_mut();
        let block = Arc::new(Block::new(lpa, what, zeros, true));
        let mut inner = self.inner.lock();
        inner.insert(&block);
        self.evict(&mut inner);
        block
    }

    /// A block whose content on media means nothing: as it is in memory, else zeros, without reading the
    /// drive. Unlike [`BlockCache::fresh`] it is the same block for everybody, also for who is reading it
    /// just now.
    pub fn get_or_zeroed(&self, lpa: Lpa, what: Structure) -> Arc<Block> {
        let block = self.entry(lpa.0, what);
        {
            let _own = block.loading.lock();
            if !block.loaded.load(Relaxed) {
                block.content.write().bytes_mut();
                self.inner.lock().table.loaded(&block);
                block.loaded.store(true, Relaxed);
            }
        }
        block
    }

    /// The block if it is in memory.
    pub fn cached(&self, lpa: Lpa) -> Option<Arc<Block>> {
        let found = self.inner.lock().table.get(lpa.0).cloned();
        found.filter(|b| b.loaded.load(Relaxed))
    }

    /// These bytes (block, offset) will be looked at soon: they are fetched into the processor's cache
    /// together. A hint about this program's own time; nothing is read from the drive.
    #[inline]
    pub fn prefetch<const N: usize>(&self, bytes: [(Lpa, usize); N]) {
        let inner = self.inner.lock();
        for (lpa, offset) in bytes {
            inner.table.prefetch(lpa.0, offset);
        }
    }

    /// Drops a block that was freed; nothing is written.
    pub fn forget(&self, lpa: Lpa) {
        self.inner.lock().table.remove(lpa.0);
    }

    /// Drops every block that is not pinned or held (as `echo 3 > drop_caches`).
    pub fn drop_clean(&self) {
        let mut inner = self.inner.lock();
        let Inner { table, clock, .. } = &mut *inner;
        clock.retain(|b| table.holds(b));
        table.retain(|b| b.is_pinned() || Arc::strong_count(b) > Inner::OWN_REFS);
        clock.retain(|b| table.holds(b));
    }

    /// Blocks in memory.
    pub fn len(&self) -> usize {
        self.inner.lock().table.len()
    }

    /// Whether no block is in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device has this block.
    fn exists(&self, lpa: Lpa) -> Result<()> {
        if lpa.0 < self.end.load(Relaxed) {
            return Ok(());
        }
        let pages = self.port.pages();
        self.end.store(pages, Relaxed);
        if lpa.0 < pages {
            return Ok(());
        }
        Err(DriveError::OutOfRange { what: format!("block {}", lpa.0), pages }.into())
    }

    fn entry(&self, n: u64, what: Structure) -> Arc<Block> {
        let mut inner = self.inner.lock();
        if let Some(block) = inner.table.get(n) {
            block.referenced.store(true, Relaxed);
            return Arc::clone(block);
        }
        let block = Arc::new(Block::new(Lpa(n), what, Page::ZERO, false));
        inner.insert(&block);
        self.evict(&mut inner);
        block
    }

    fn evict(&self, inner: &mut Inner) {
        // At most two rounds: the first takes the second chances away.
        let mut looks = 2 * inner.clock.len();
        while inner.table.len() > self.capacity && looks > 0 {
            looks -= 1;
            let Some(block) = inner.clock.pop_front() else { return };
            if !inner.table.holds(&block) {
                continue;
            }
            let held = Arc::strong_count(&block) > Inner::OWN_REFS || block.is_pinned();
            let keep = held || block.referenced.swap(false, Relaxed);
            if keep {
                inner.clock.push_back(block);
            } else {
                inner.table.remove(block.lpa.0);
            }
        }
    }
}

#[cfg(test)]
mod tests;
