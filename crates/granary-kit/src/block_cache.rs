//! [`BlockCache`]: the host's cache of metadata blocks, read through the block interface (Linux's buffer cache;
//! "host-side metadata caching" in ByteFS section 4.5).
//!
//! ```text
//!   table: block number -> Arc<Block>      clock: blocks in the order of the second-chance sweep
//!   Block { content, loaded, referenced, pins }
//! ```
//!
//! Invariants: a block is read once however many tasks want it; a block that is pinned (journalled or dirty), or that
//! somebody holds an `Arc` of, stays. The cache never writes: when and how a changed block goes back to the drive is
//! the file system's protocol. Eviction is CLOCK (second chance), which is deterministic and close to LRU.

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

    /// Checks the content, where nobody has done so since the block came into memory (the kernel's `buffer_verified`).
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

    /// What it holds.
    pub fn what(&self) -> Structure {
        self.what
    }

    /// Looks at the content. `f` must not wait.
    pub fn with<T>(&self, f: impl FnOnce(&[u8; PAGE_SIZE]) -> T) -> T {
        self.content.read().with_bytes(f)
    }

    /// These lines of it will be changed soon: the first of them is fetched into the processor's cache, and what a change looks at
    /// before.
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
    /// Holds every block of the table once, and possibly forgotten ones until the sweep or `compact` meets them.
    clock: VecDeque<Arc<Block>>,
    /// The blocks that came last, by number: those that came before them are packed where they are nearly empty.
    young: VecDeque<u64>,
}

/// Blocks that stay bytes for the changes which follow their making. Older ones of a few lines are packed: directories of a
/// few names. Looking at one costs a copy.
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

    /// Like [`BlockCache::get`]; a miss also reads the other blocks of `window` that are not in memory, all together
    /// (read-ahead: the extra blocks hold the same structure).
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
        // Who cannot be read stays in the table, not loaded: others may wait for the same block, and try themselves.
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

    /// A block just allocated: zeros, without reading the drive. Replaces whatever the cache held for it.
    pub fn fresh(&self, lpa: Lpa, what: Structure) -> Arc<Block> {
        let mut zeros = Page::ZERO;
        zeros.bytes_mut();
        let block = Arc::new(Block::new(lpa, what, zeros, true));
        let mut inner = self.inner.lock();
        inner.insert(&block);
        self.evict(&mut inner);
        block
    }

    /// A block whose content on media means nothing: as it is in memory, else zeros, without reading the drive. Unlike
    /// [`BlockCache::fresh`] it is the same block for everybody, also for who is reading it just now.
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

    /// These bytes (block, offset) will be looked at soon: they are fetched into the processor's cache together. A hint
    /// about this program's own time; nothing is read from the drive.
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
mod tests {
    use super::*;
    use granary_device::{Command, Drive, DriveError, DriveInfo, LinkTraffic};
    use granary_sim::rng::Stream;
    use granary_sim::{World, now, spawn};
    use granary_units::{ByteAddr, Nanos, TxId};

    /// A drive whose page `n` repeats the word `n + 1` and that takes 10 us per read command.
    #[derive(Default)]
    struct Numbered {
        commands: parking_lot::Mutex<Vec<(u64, usize)>>,
    }

    impl Drive for Numbered {
        granary_device::plain_drive!();

        fn info(&self) -> DriveInfo {
            DriveInfo { pages: 1000, blocks: true, max_transfer: 128, ..DriveInfo::default() }
        }
        fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
            let Command::Read { lpa, out, .. } = command else { return Err(DriveError::Unsupported("this")) };
            if lpa.0 + out.len() as u64 > 1000 {
                return Err(DriveError::Unreadable(lpa.0));
            }
            self.commands.lock().push((lpa.0, out.len()));
            for (i, page) in out.iter_mut().enumerate() {
                *page = Page::word(lpa.0 + i as u64 + 1);
            }
            Ok(now + Nanos::from_micros(10))
        }
        fn load(&self, _: Nanos, _: ByteAddr, _: &mut [u8], _: Structure) -> Result<Nanos, DriveError> {
            Err(DriveError::Unsupported("load"))
        }
        fn store_from(
            &self,
            _: u16,
            _: Nanos,
            _: ByteAddr,
            _: &[u8],
            _: TxId,
            _: Structure,
        ) -> Result<Nanos, DriveError> {
            Err(DriveError::Unsupported("store"))
        }
        fn flush_lines(&self, now: Nanos, _: ByteAddr, _: usize) -> Result<Nanos, DriveError> {
            Ok(now)
        }
        fn verify(&self, now: Nanos) -> Result<Nanos, DriveError> {
            Ok(now)
        }
        fn settle(&self, now: Nanos) -> Result<Nanos, DriveError> {
            Ok(now)
        }
        fn power_fail(&self, _: Nanos, _: &mut Stream) {}
        fn power_on(&self, now: Nanos) -> Result<Nanos, DriveError> {
            Ok(now)
        }
        fn track_in_flight(&self, _: bool) {}
        fn traffic(&self) -> LinkTraffic {
            LinkTraffic::default()
        }
        fn check(&self) -> Result<(), Vec<String>> {
            Ok(())
        }
    }

    fn word(block: &Block) -> u64 {
        block.with(|b| u64::from_le_bytes(b[..8].try_into().expect("eight bytes")))
    }

    fn cache(pages: u64) -> (Arc<Numbered>, Arc<BlockCache>) {
        let drive = Arc::new(Numbered::default());
        let cache = BlockCache::new(Port::new(drive.clone()), Bytes(pages * PAGE_SIZE as u64));
        (drive, Arc::new(cache))
    }

    #[test]
    fn tasks_that_want_one_block_read_it_once() {
        let (drive, cache) = cache(100);
        World::default()
            .run(move || {
                let tasks: Vec<_> = (0..10)
                    .map(|_| {
                        let cache = cache.clone();
                        spawn("reader", move || word(&cache.get(Lpa(7), Structure::Inode).expect("readable")))
                    })
                    .collect();
                assert!(tasks.into_iter().all(|t| t.join() == 8));
                assert_eq!(now(), Nanos::from_micros(10));
            })
            .expect("no deadlock");
        assert_eq!(*drive.commands.lock(), [(7, 1)]);
    }

    #[test]
    fn a_window_reads_only_what_is_missing() {
        let (drive, cache) = cache(100);
        cache.get(Lpa(35), Structure::Inode).expect("readable");
        cache.get_window(Lpa(40), 32..64, Structure::Inode).expect("readable");
        assert_eq!(word(&cache.cached(Lpa(63)).expect("read ahead")), 64);
        assert_eq!(*drive.commands.lock(), [(35, 1), (32, 3), (36, 28)]);
    }

    #[test]
    fn pinned_and_held_blocks_stay_and_others_make_room() {
        let (_, cache) = cache(10);
        let held = cache.get(Lpa(1), Structure::Inode).expect("readable");
        let pinned = cache.get(Lpa(2), Structure::Inode).expect("readable");
        pinned.pin();
        pinned.change(|b| b[0] = 99);
        drop(pinned);
        for n in 10..200 {
            cache.get(Lpa(n), Structure::Inode).expect("readable");
            assert!(cache.len() <= 10);
        }
        assert!(cache.cached(Lpa(1)).is_some_and(|b| Arc::ptr_eq(&b, &held)));
        assert_eq!(cache.cached(Lpa(2)).expect("pinned").with(|b| b[0]), 99);
    }

    #[test]
    fn a_failed_read_leaves_nothing_in_use_and_is_tried_again() {
        let (_, cache) = cache(10);
        for _ in 0..2 {
            assert!(cache.get(Lpa(1000), Structure::Inode).is_err());
            assert!(cache.cached(Lpa(1000)).is_none());
        }
    }

    /// Half of the window is beyond the drive's end.
    #[test]
    fn a_block_is_read_although_its_neighbours_cannot_be() {
        let (drive, cache) = cache(10);
        let end = drive.info().pages;
        let last =
            cache.get_window(Lpa(end - 1), end - 4..end + 4, Structure::Inode).expect("it can be read");
        assert_eq!(word(&last), end);
        assert!(cache.get_window(Lpa(end), end - 4..end + 4, Structure::Inode).is_err());
    }

    /// Of many nearly empty blocks only the last ones are bytes; packing changes no content, and neither does what follows.
    #[test]
    fn old_blocks_of_a_few_names_are_packed() {
        let many = 3 * YOUNG as u64;
        let (_, cache) = cache(many);
        let (mark, size) = (|n: u64| n.to_le_bytes(), PAGE_SIZE);
        for n in 0..many {
            cache.fresh(Lpa(n), Structure::Dentry).change(|b| b[size - 8..].copy_from_slice(&mark(n)));
        }
        let block = |n| cache.cached(Lpa(n)).expect("in memory");
        let wide = (0..many).filter(|n| block(*n).content.read().as_bytes().is_some()).count();
        assert!((1..=YOUNG).contains(&wide), "{wide} of {many} are bytes");
        for n in (0..many).step_by(5) {
            let before = block(n).snapshot();
            block(n).change(|b| b[0] = 7);
            assert_eq!((before.to_bytes()[0], block(n).with(|b| b[0])), (0, 7));
        }
        assert!((0..many).all(|n| block(n).with(|b| b[size - 8..] == mark(n))));
    }

    #[test]
    fn forgetting_and_reallocating_for_ever_takes_no_memory() {
        let (_, cache) = cache(10);
        for _ in 0..10_000 {
            cache.fresh(Lpa(5), Structure::Dentry);
            cache.forget(Lpa(5));
        }
        assert!(cache.inner.lock().clock.len() <= 100);
    }
}
