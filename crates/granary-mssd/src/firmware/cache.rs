//! [`Cache`]: cache-mode firmware of the baselines, a write-back cache of pages for both interfaces.
//!
//! ```text
//!   most recently used                                    least
//!     | page 7* | page 3 | page 90* | ...............| page 12* |       * dirty
//!         ^ block write, store, load, block read            `──evict──> write buffer ──> flash
//! ```
//!
//! Fully associative, LRU, allocates on reads and writes. A store to part of a page that is not cached
//! fetches the page first (the CPU does not wait for it, the write-verify read does). Dirty victims go into
//! the 16 MB write buffer, which programs them over all channels while the host goes on: a full cache is
//! limited by the bandwidth of the flash, not by the latency of one program. The cache is battery-backed: a
//! page is safe once it is here, and FLUSH has nothing to do (a plain SSD's may be volatile: units.rs). Where
//! the drive acknowledges programs, block writes go through the cache to the flash; stores do not.
//!
//! Invariants: a page is dirty exactly where its content differs from, or was written after, what the backend
//! has; each cached page is in the order of use (uses.rs) once. It does *not* know transactions.
//!
//! Source: ByteFS section 5.1 (baselines: 256 MB data cache in SSD DRAM). The released artifact sets the
//! dirty bit on write hits only, and so loses pages that are written once; this one does not.

mod calls;
mod chain;
mod put;
mod units;
mod uses;

use crate::config::DriveConfig;
use crate::firmware::Backend;
use crate::saved::layout::{BYTES, CACHED_PAGE, LIVE, Layout, SLOT_ENTRY};
use chain::Chain;
use granary_device::{CacheCounters, DriveError};
use granary_flash::Cause;
use granary_redo::files::DRAM;
use granary_redo::redo::Redo;
use granary_redo::region::Region as DramFile;
use granary_redo::{ImageError, long, word};
use granary_units::{LINE_SIZE, Lpa, Nanos, PAGE_SIZE, Page, prefetch, prefetch_at};
use rustc_hash::FxHashMap;
use uses::Uses;

/// Times that a page is asked for while power fails, before it is taken for lost.
const PATIENCE: u32 = 16;

/// The page of a slot that holds none.
const NOWHERE: Lpa = Lpa(u64::MAX);

#[derive(Clone)]
struct Slot {
    /// [`NOWHERE`] in a free slot.
    lpa: Lpa,
    page: Page,
    /// When the content is there: a page on its way from flash is in its slot from the fetch on, so that it
    /// is fetched once.
    ready: Nanos,
    dirty: bool,
    /// An image has this page's bytes (where it is dirty).
    saved_bytes: bool,
}

impl Slot {
    fn new(lpa: Lpa, page: Page, ready: Nanos, dirty: bool) -> Slot {
        Slot { lpa, page, ready, dirty, saved_bytes: false }
    }
}

/// A line that was posted but not verified.
#[derive(Clone)]
struct PostedLine {
    post: u64,
    lpa: Lpa,
    line: usize,
    old: [u8; LINE_SIZE],
    new: [u8; LINE_SIZE],
}

/// The page cache.
#[derive(Clone)]
pub struct Cache {
    slots: Vec<Slot>,
    uses: Uses,
    free: Vec<u32>,
    capacity: usize,
    /// Pages of a mapping unit.
    unit: u64,
    behind: units::Behind,
    /// Power failures take what no FLUSH has written back.
    volatile: bool,
    /// Pages may get to flash in part.
    tears: bool,
    by_page: FxHashMap<Lpa, u32>,
    chain: Chain,
    /// When the page that came last had a slot.
    admitted: Nanos,
    unverified: Vec<PostedLine>,
    /// Runs of lines posted while tracking.
    posts: u64,
    tracking: bool,
    counters: CacheCounters,
    /// Pages that were dirty when the drive was opened on an image: they came before counting began.
    inherited: u64,
    /// Changes of dirty pages, where an image keeps them: of the slots, and of their pages.
    redo: Option<(Redo, Redo)>,
}

impl Cache {
    /// An empty cache.
    pub fn new(config: &DriveConfig) -> Cache {
        Cache {
            slots: Vec::new(),
            uses: Uses::default(),
            free: Vec::new(),
            capacity: (config.firmware.cache.0 / PAGE_SIZE as u64) as usize,
            unit: config.flash.unit_pages(),
            behind: units::Behind::new(config),
            volatile: config.firmware.volatile_cache,
            tears: config.firmware.tears_pages,
            by_page: FxHashMap::default(),
            chain: Chain::default(),
            admitted: Nanos::ZERO,
            unverified: Vec::new(),
            posts: 0,
            tracking: false,
            counters: CacheCounters::default(),
            inherited: 0,
            redo: None,
        }
    }

    /// The dirty pages that an image kept; the order of use is that of the slots.
    pub(crate) fn load(config: &DriveConfig, layout: &Layout, dram: &DramFile) -> Result<Cache, ImageError> {
        let mut cache = Cache::new(config);
        let mut bytes = Vec::new();
        for used in dram.used(layout.slots..layout.slots + layout.slot_count * SLOT_ENTRY)? {
            bytes.resize((used.end - used.start) as usize, 0);
            dram.read(used.start, &mut bytes)?;
            let first = (used.start - layout.slots) / SLOT_ENTRY;
            for (i, e) in bytes.chunks_exact(SLOT_ENTRY as usize).enumerate() {
                cache.load_slot(config.pages(), layout, dram, first + i as u64, e)?;
            }
        }
        cache.free.reverse();
        cache.redo = Some((Redo::new(layout.slots), Redo::new(layout.cache)));
        Ok(cache)
    }

    fn load_slot(
        &mut self,
        pages: u64,
        layout: &Layout,
        dram: &DramFile,
        number: u64,
        e: &[u8],
    ) -> Result<(), ImageError> {
        let (value, lpa, len, flags) =
            (long(e, 0), word(e, 8), u16::from_le_bytes([e[12], e[13]]), u16::from_le_bytes([e[14], e[15]]));
        if flags & LIVE == 0 {
            return Ok(());
        }
        let lpa = Lpa(lpa as u64);
        if lpa.0 >= pages || len as usize > PAGE_SIZE || self.by_page.contains_key(&lpa) {
            return Err(ImageError::damaged(
                DRAM,
                format!("cache slot {number} holds {lpa}, {len} bytes, twice or not at all"),
            ));
        }
        while self.slots.len() as u64 <= number {
            self.free.push(self.slots.len() as u32);
            self.slots.push(Slot::new(NOWHERE, Page::ZERO, Nanos::ZERO, false));
        }
        self.free.pop();
        let saved_bytes = flags & BYTES != 0;
        let page = if saved_bytes {
            let mut bytes = [0; PAGE_SIZE];
            dram.read(layout.cache + number * CACHED_PAGE, &mut bytes)?;
            Page::from_bytes(&bytes)
        } else {
            Page::prefix(value, len as usize)
        };
        self.slots[number as usize] = Slot { saved_bytes, ..Slot::new(lpa, page, Nanos::ZERO, true) };
        self.inherited += 1;
        self.uses.used(number as u32);
        self.by_page.insert(lpa, number as u32);
        Ok(())
    }

    /// A slot's page is dirty and has this content; only `lines` of it are new where they are given.
    fn save(&mut self, slot: u32, lines: Option<(usize, &[u8])>) {
        let Some((slots, pages)) = &mut self.redo else { return };
        let s = &mut self.slots[slot as usize];
        if let Some((at, data)) = lines
            && s.saved_bytes
        {
            pages.put(slot as u64 * CACHED_PAGE + at as u64, data);
            return;
        }
        let (word, len) = s.page.as_word().unwrap_or((0, 0));
        s.saved_bytes = !s.page.is_word();
        if s.saved_bytes {
            s.page.with_bytes(|bytes| pages.put(slot as u64 * CACHED_PAGE, bytes));
        }
        let mut e = [0; SLOT_ENTRY as usize];
        e[0..8].copy_from_slice(&word.to_le_bytes());
        e[8..12].copy_from_slice(&(s.lpa.0 as u32).to_le_bytes());
        e[12..14].copy_from_slice(&(len as u16).to_le_bytes());
        e[14..16].copy_from_slice(&(LIVE | if s.saved_bytes { BYTES } else { 0 }).to_le_bytes());
        slots.put(slot as u64 * SLOT_ENTRY, &e);
    }

    /// A slot's page is dirty no more.
    fn unsave(&mut self, slot: u32) {
        self.slots[slot as usize].saved_bytes = false;
        if let Some((slots, _)) = &mut self.redo {
            slots.put(slot as u64 * SLOT_ENTRY, &[0; SLOT_ENTRY as usize]);
        }
    }

    /// The slot of a cached page, made the most recently used one.
    #[inline]
    fn touch(&mut self, lpa: Lpa) -> Option<u32> {
        let Some(&slot) = self.by_page.get(&lpa) else {
            self.counters.misses += 1;
            return None;
        };
        self.hit(slot);
        Some(slot)
    }

    #[inline]
    fn hit(&mut self, slot: u32) {
        self.counters.hits += 1;
        self.uses.used(slot);
    }

    /// Puts a page whose content is there at `read` into the cache at `t`, in place of the least recently
    /// used one if it is full; returns when it is in.
    fn put(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        (page, read): (Page, Nanos),
        dirty: bool,
    ) -> Result<(u32, Nanos), DriveError> {
        let t = if self.by_page.len() >= self.capacity { self.evict(be, t)? } else { t };
        self.admitted = t;
        let t = t.max(read);
        let new = Slot::new(lpa, page, t, dirty);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                (self.slots.len() - 1) as u32
            }
        };
        self.uses.used(slot);
        self.by_page.insert(lpa, slot);
        if dirty {
            self.counters.dirtied += 1;
            self.save(slot, None);
        }
        Ok((slot, t))
    }

    fn evict(&mut self, be: &mut Backend, t: Nanos) -> Result<Nanos, DriveError> {
        let victim = self.uses.longest().expect("a full cache has a page");
        let s = &self.slots[victim as usize];
        let mut t = t;
        if s.dirty {
            t = self.write_back(be, t, victim)?;
        } else {
            self.counters.dropped += 1;
        }
        self.drop_slot(victim);
        self.prefetch_victims();
        Ok(t)
    }

    /// A slot that a chain of loads will ask for soon goes into the processor's caches.
    #[inline]
    fn prefetch_slot(&self, slot: u32) {
        prefetch(&self.slots, slot as usize);
        self.uses.prefetch(slot);
    }

    /// Fetches the slots of the next victims, and the content of the first of them, into the processor's
    /// caches. Victims have not been used for long, so their memory has left these caches.
    fn prefetch_victims(&mut self) {
        let Some(next) = self.uses.longest() else { return };
        for slot in self.uses.next() {
            prefetch(&self.slots, slot as usize);
        }
        if let Some(at) = self.slots[next as usize].page.count_at() {
            prefetch_at(at);
        }
    }

    fn drop_slot(&mut self, slot: u32) {
        self.uses.out(slot);
        if self.slots[slot as usize].dirty {
            self.unsave(slot);
        }
        let s = &mut self.slots[slot as usize];
        s.page = Page::ZERO;
        s.dirty = false;
        self.by_page.remove(&std::mem::replace(&mut s.lpa, NOWHERE));
        self.free.push(slot);
    }

    /// The slot of a page, fetched from flash where it was not cached, and when its content is there.
    fn fetch(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<(u32, Nanos), DriveError> {
        if let Some(slot) = self.touch(lpa) {
            return Ok((slot, t.max(self.slots[slot as usize].ready)));
        }
        let read = be.read(t, lpa, Cause::Host)?;
        self.counters.fetches += 1;
        self.put(be, t, lpa, read, false)
    }

    /// Takes a page that arrived at `t`.
    ///
    /// # Errors
    /// Read-only drive.
    #[inline]
    fn take_page(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa, page: Page) -> Result<Nanos, DriveError> {
        if !self.unverified.is_empty() {
            self.unverified.retain(|u| u.lpa != lpa);
        }
        if let Some(slot) = self.touch(lpa) {
            let s = &mut self.slots[slot as usize];
            self.counters.dirtied += !s.dirty as u64;
            // All of it is new: content that is still on its way from flash is not waited for.
            (s.page, s.ready, s.dirty) = (page, t, true);
            self.save(slot, None);
            return Ok(t);
        }
        Ok(self.put(be, t, lpa, (page, t), true)?.1)
    }

    /// Programs a page and keeps it clean; returns when flash holds it.
    fn write_through(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        page: Page,
    ) -> Result<Nanos, DriveError> {
        let done = be.write_block(t, lpa, page.clone())?;
        if !self.unverified.is_empty() {
            self.unverified.retain(|u| u.lpa != lpa);
        }
        self.counters.write_backs += 1;
        if let Some(slot) = self.touch(lpa) {
            let s = &mut self.slots[slot as usize];
            (s.page, s.ready) = (page, t);
            if std::mem::take(&mut s.dirty) {
                self.unsave(slot);
            } else {
                self.counters.dirtied += 1;
            }
            return Ok(done);
        }
        self.counters.dirtied += 1;
        match self.put(be, t, lpa, (page, t), false) {
            Ok((_, free)) => Ok(done.max(free)),
            // No dirty page can be written back any more: this one is not cached, but it is in flash.
            Err(DriveError::ReadOnly(_)) => Ok(done),
            Err(e) => Err(e),
        }
    }

    fn remember(&mut self, slot: u32, first: usize, data: &[u8]) {
        self.posts += 1;
        let (post, s) = (self.posts, &self.slots[slot as usize]);
        for (i, new) in data.chunks_exact(LINE_SIZE).enumerate() {
            let (old, line) = ([0; LINE_SIZE], first + i);
            let mut posted = PostedLine { post, lpa: s.lpa, line, old, new: old };
            s.page.copy_out(posted.line * LINE_SIZE, &mut posted.old);
            posted.new.copy_from_slice(new);
            self.unverified.push(posted);
        }
    }

    /// Forgets a page whose content is no longer wanted.
    fn forget(&mut self, lpa: Lpa) {
        self.unverified.retain(|u| u.lpa != lpa);
        if let Some(&slot) = self.by_page.get(&lpa) {
            self.counters.forgotten += self.slots[slot as usize].dirty as u64;
            self.drop_slot(slot);
        }
    }

    /// The content of `src` belongs to page `dst` from now on, its former cached content is forgotten. Lines
    /// posted to either count as landed.
    fn rename(&mut self, src: Lpa, dst: Lpa) {
        self.forget(dst);
        self.unverified.retain(|u| u.lpa != src);
        if let Some(slot) = self.by_page.remove(&src) {
            self.by_page.insert(dst, slot);
            self.slots[slot as usize].lpa = dst;
            if self.slots[slot as usize].dirty {
                self.save(slot, None);
            }
        }
    }
}
