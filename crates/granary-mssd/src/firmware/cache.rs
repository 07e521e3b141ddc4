//! [`Cache`]: cache-mode firmware of the baselines, a write-back cache of pages for both interfaces.
//!
//! ```text
//!   most recently used                                    least
//!     | page 7* | page 3 | page 90* | ...............| page 12* |       * dirty
//!         ^ block write, store, load, block read            `──evict──> write buffer ──> flash
//! ```
//!
//! Fully associative, LRU, allocates on reads and writes. A store to part of a page that is not cached fetches the
//! page first (the CPU does not wait for it, the write-verify read does). Dirty victims go into the 16 MB write buffer,
//! which programs them over all channels while the host goes on: a full cache is limited by the bandwidth of the flash,
//! not by the latency of one program. The cache is battery-backed: a page is safe once it is here, and FLUSH has nothing
//! to do (a plain SSD's may be volatile: units.rs). Where the drive acknowledges programs, block writes go through the cache to the flash; stores do not.
//!
//! Invariants: a page is dirty exactly where its content differs from, or was written after, what the backend has; each
//! cached page is in the order of use (uses.rs) once. It does *not* know transactions.
//!
//! Source: ByteFS section 5.1 (baselines: 256 MB data cache in SSD DRAM). The released artifact sets the dirty bit on
//! write hits only, and so loses pages that are written once; this one does not.

mod chain;
mod units;
mod uses;

use crate::config::DriveConfig;
use crate::firmware::{Backend, Firmware};
use crate::saved::layout::{BYTES, CACHED_PAGE, LIVE, Layout, SLOT_ENTRY};
use chain::Chain;
use granary_device::{CacheCounters, DriveCounters, DriveError, Streamed};
use granary_flash::Cause;
use granary_redo::files::DRAM;
use granary_redo::redo::Redo;
use granary_redo::region::Region as DramFile;
use granary_redo::{ImageError, long, word};
use granary_sim::rng::{Stream, Thing};
use granary_units::{
    LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, PAGE_SIZE, Page, Payload, TxId, prefetch, prefetch_at,
};
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
    /// When the content is there: a page on its way from flash is in its slot from the fetch on, so that it is fetched once.
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

    /// Puts a page whose content is there at `read` into the cache at `t`, in place of the least recently used one if it is
    /// full; returns when it is in.
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

    /// What is evicted has not been used for long: the slots of the next victims, and what the first of them holds, have left
    /// the processor's caches.
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
            // All of it is new: what is still on its way from flash is not waited for.
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

    fn put_lines(&mut self, slot: u32, first: usize, data: &[u8]) {
        let s = &mut self.slots[slot as usize];
        s.page.write(first * LINE_SIZE, Payload::Bytes(data));
        self.counters.dirtied += !s.dirty as u64;
        s.dirty = true;
        self.save(slot, Some((first * LINE_SIZE, data)));
        self.counters.lines += (data.len() / LINE_SIZE) as u64;
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

    /// The content of `src` belongs to page `dst` from now on, what was cached of that is forgotten. Lines posted to either
    /// count as landed.
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

    /// Sets a line of a page that may have been evicted. Where the page cannot be read any more, it stays as it is: what was
    /// posted to it counts as landed.
    fn put_line(
        &mut self,
        be: &mut Backend,
        now: Nanos,
        lpa: Lpa,
        line: usize,
        data: &[u8],
    ) -> Result<(), DriveError> {
        for _ in 0..PATIENCE {
            match self.write_lines(be, now, lpa, line, data, TxId::NONE) {
                Err(DriveError::Unreadable(_)) => {}
                other => {
                    other?;
                    self.counters.lines -= 1;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Takes a part of a page that arrived at `t` in `lines` lines; not while posted lines are tracked.
    fn put_part(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        lines: usize,
    ) -> Result<Nanos, DriveError> {
        let done = match data {
            Streamed::Page(page) => self.take_page(be, t, lpa, page.clone())?,
            Streamed::Part(p) => {
                let (slot, done) = self.fetch(be, t, lpa)?;
                let s = &mut self.slots[slot as usize];
                s.page.write(from, p);
                self.counters.dirtied += !s.dirty as u64;
                s.dirty = true;
                let bytes = match p {
                    Payload::Bytes(bytes) => Some((from, bytes)),
                    _ => None,
                };
                self.save(slot, bytes);
                done
            }
        };
        self.counters.lines += lines as u64;
        Ok(done)
    }
}

impl Firmware for Cache {
    fn fork(&self) -> Box<dyn Firmware> {
        Box::new(self.clone())
    }

    fn trim(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        self.forget(lpa);
        be.trim(lpa)?;
        Ok(t)
    }

    fn remap(&mut self, be: &mut Backend, t: Nanos, src: Lpa, dst: Lpa) -> Result<(Nanos, bool), DriveError> {
        self.rename(src, dst);
        be.remap(src, dst)?;
        Ok((t, false))
    }

    fn holds_newer(&self, lpa: Lpa) -> bool {
        self.by_page.get(&lpa).is_some_and(|&slot| self.slots[slot as usize].dirty)
    }

    fn lines(&self) -> u64 {
        self.counters.lines
    }

    fn count(&self, all: &mut DriveCounters) {
        all.cache = self.counters;
    }

    fn held_from(&self, served: Nanos, _: Option<Nanos>) -> Nanos {
        // Stored lines are kept from when the page has a slot, whether its old content is there or not.
        served.max(self.admitted)
    }

    fn grow(&mut self, _: &DriveConfig, layout: &Layout) {
        if let Some((slots, pages)) = &mut self.redo {
            slots.rebase(layout.slots);
            pages.rebase(layout.cache);
        }
    }

    #[inline]
    fn read_page(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<(Page, Nanos), DriveError> {
        if let Some(slot) = self.touch(lpa) {
            let s = &self.slots[slot as usize];
            return Ok((s.page.clone(), t.max(s.ready)));
        }
        let (page, read) = be.read(t, lpa, Cause::Host)?;
        self.counters.fetches += 1;
        match self.put(be, t, lpa, (page.clone(), read), false) {
            Ok((_, ready)) => Ok((page, ready)),
            // No dirty page can be written back any more: this one is not cached, but it is read.
            Err(DriveError::ReadOnly(_)) => Ok((page, read)),
            Err(e) => Err(e),
        }
    }

    #[inline]
    fn read_known(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        known: &Page,
    ) -> Result<(Option<Page>, Nanos), DriveError> {
        let then = self.chain.expected();
        let slot = match self.slots.get(then as usize) {
            Some(s) if s.lpa == lpa => then,
            _ => match self.by_page.get(&lpa) {
                Some(&slot) => slot,
                None => {
                    self.chain.breaks();
                    let (page, done) = self.read_page(be, t, lpa)?;
                    return Ok(((!page.is_same(known)).then_some(page), done));
                }
            },
        };
        self.hit(slot);
        for ahead in self.chain.comes_to(slot) {
            self.prefetch_slot(ahead);
        }
        let Slot { page, ready, .. } = &self.slots[slot as usize];
        Ok(((!page.is_same(known)).then(|| page.clone()), t.max(*ready)))
    }

    fn hit_all(&mut self, runs: &[(Lpa, usize)], known: &[Page], t: Nanos, most: usize) -> usize {
        let mut count = 0;
        for (&(lpa, pages), known) in runs.iter().zip(known).take(most) {
            let then = self.chain.expected();
            let Some(s) = self.slots.get(then as usize) else { break };
            if s.lpa != lpa || pages != 1 || s.ready > t || !s.page.is_same(known) {
                break;
            }
            self.uses.used(then);
            let ahead = self.chain.goes_on();
            self.prefetch_slot(ahead);
            count += 1;
        }
        self.counters.hits += count as u64;
        count
    }

    #[inline]
    fn write_page(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa, page: Page) -> Result<Nanos, DriveError> {
        if be.acknowledges_programs() {
            self.write_through(be, t, lpa, page)
        } else {
            self.take_page(be, t, lpa, page)
        }
    }

    fn write_lines(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        first: usize,
        data: &[u8],
        _: TxId,
    ) -> Result<Nanos, DriveError> {
        // Counted at the end: a page that cannot be read takes nothing.
        // A store of the whole page needs nothing of the old content, unless power loss may take part of it away.
        let (slot, done) = if data.len() == PAGE_SIZE && !self.tracking && !self.by_page.contains_key(&lpa) {
            self.counters.misses += 1;
            self.put(be, t, lpa, (Page::ZERO, t), true)?
        } else {
            self.fetch(be, t, lpa)?
        };
        if self.tracking {
            self.remember(slot, first, data);
        }
        self.put_lines(slot, first, data);
        Ok(done)
    }

    fn change_lines(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        first: usize,
        lines: &mut [u8],
        reads: usize,
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Option<Result<Nanos, DriveError>> {
        if self.tracking {
            return None;
        }
        let (slot, done) = match self.fetch(be, t, lpa) {
            Ok(there) => there,
            Err(e) => return Some(Err(e)),
        };
        self.counters.hits += reads as u64;
        self.slots[slot as usize].page.copy_out(first * LINE_SIZE, lines);
        change(lines);
        self.put_lines(slot, first, lines);
        Some(Ok(done))
    }

    fn write_part(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        lines: usize,
    ) -> Option<Result<Nanos, DriveError>> {
        (!self.tracking).then(|| self.put_part(be, t, lpa, from, data, lines))
    }

    fn holds(&self, lpa: Lpa) -> bool {
        self.by_page.contains_key(&lpa)
    }

    fn is_empty(&self) -> bool {
        self.by_page.is_empty()
    }

    fn peek(&self, be: &Backend, lpa: Lpa) -> Result<Page, DriveError> {
        match self.by_page.get(&lpa) {
            Some(&slot) => Ok(self.slots[slot as usize].page.clone()),
            None => be.peek(lpa),
        }
    }

    fn settle(&mut self, be: &mut Backend, now: Nanos) -> Result<Nanos, DriveError> {
        let mut t = now;
        for slot in self.uses.iter().collect::<Vec<_>>() {
            if self.slots[slot as usize].dirty {
                t = self.write_back(be, t, slot)?;
                if be.is_publish_due() {
                    be.publish(|out| self.drain_redo(out))?;
                }
            }
        }
        Ok(t)
    }

    fn track(&mut self, on: bool) {
        self.tracking = on;
        self.unverified.clear();
    }

    fn posts(&self) -> u64 {
        self.posts
    }

    fn verified(&mut self, posts: u64) {
        self.unverified.retain(|u| u.post > posts);
    }

    fn power_fail(&mut self, be: &mut Backend, now: Nanos, random: &mut Stream) -> Result<(), DriveError> {
        let tracking = std::mem::replace(&mut self.tracking, false);
        let posted = std::mem::take(&mut self.unverified);
        // Back to what was verified, then forward with those that landed: independent even for one line stored twice.
        for p in posted.iter().rev() {
            self.put_line(be, now, p.lpa, p.line, &p.old)?;
        }
        for p in &posted {
            let line = p.lpa.0 * LINES_PER_PAGE as u64 + p.line as u64;
            if random.survives(Thing::Line("posted", line)) {
                self.put_line(be, now, p.lpa, p.line, &p.new)?;
            }
        }
        self.tracking = tracking;
        if self.volatile { self.lose(be, now, random) } else { Ok(()) }
    }

    fn check(&self) -> Vec<String> {
        let mut bad = Vec::new();
        let mut n = 0;
        for slot in self.uses.iter() {
            let lpa = self.slots[slot as usize].lpa;
            if self.by_page.get(&lpa) != Some(&slot) {
                bad.push(format!("page cache: {lpa} is in the order of use, but not mapped"));
            }
            n += 1;
        }
        let dirty = self.slots.iter().filter(|s| s.dirty).count() as u64 + self.counters.forgotten;
        if self.inherited + self.counters.dirtied != dirty + self.counters.write_backs {
            bad.push(format!("page cache: dirty pages do not balance: {:?}", self.counters));
        }
        if n != self.by_page.len() || n + self.free.len() != self.slots.len() || n > self.capacity {
            bad.push(format!("page cache: {n} pages in the order of use, {} mapped", self.by_page.len()));
        }
        bad
    }

    fn drain_redo(&mut self, out: &mut Vec<u8>) {
        if let Some((slots, pages)) = &mut self.redo {
            slots.drain_into(out);
            pages.drain_into(out);
        }
    }
}
