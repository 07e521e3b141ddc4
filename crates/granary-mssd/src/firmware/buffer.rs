//! [`Backend`]: the write buffer in front of the FTL, and the FTL.
//!
//! ```text
//!   put ──> | waiting: page page page ... |  ──issue──> | programming: at most 2 per plane | ──done──> slot free
//!             battery-backed DRAM, 16 MB                  (FTL has the page, buffer keeps it until done)
//! ```
//!
//! A page is safe once it is in the buffer (battery-backed). Programs are issued in order of arrival, a bounded number
//! ahead of the flash, so that reads never queue behind megabytes of writes; a page that is written again while it
//! waits is replaced. Reads of buffered pages are served from it.
//!
//! Where the drive acknowledges programs ([`WriteAck::Program`]), the pages of block writes pass those that wait and are
//! given to the flash at once: the host waits for them.
//!
//! Invariants: a page's newest content is the one that `newest` names, else the FTL's; pages in = issued + coalesced +
//! trimmed + waiting. A page whose program the FTL refuses (end of life) stays here, readable, and the drive
//! becomes read-only; pages acknowledged before that are still taken. It does *not* know the log or the cache.
//!
//! Source: ByteFS section 4.9 (16 MB write buffer) and 4.3 (writes grouped over channels).

mod programs;

use crate::config::WriteAck;
use crate::firmware::Cores;
use crate::firmware::store::Store;
use crate::power::torn;
use crate::saved::medium::ImageMedium;
use granary_device::BufferCounters;
use granary_device::DriveError;
use granary_flash::{
    BlockNo, Cause, FlashCounters, FlashError, Ftl, FtlConfig, Medium, NoData, Oob, RamMedium,
};
use granary_sim::rng::{Stream, Thing};
use granary_units::{Bytes, Lpa, Nanos, PAGE_SIZE, Page, Ppa, prefetch};
use programs::Programs;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;

/// Programs issued ahead of each plane: one in the cells, one in the register.
const AHEAD: usize = 2;
/// Writes of a preconditioning that are looked up together.
const TOGETHER: usize = 32;
/// Writes ahead of its turn that a waiting page's map entry is fetched.
const SOON: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Waiting,
    Trimmed,
    Programming,
    Refused,
}

#[derive(Clone)]
struct Slot {
    lpa: Lpa,
    page: Page,
    cause: Cause,
    state: State,
}

/// Write buffer and FTL, and the processors that the firmware runs on.
#[derive(Clone)]
pub struct Backend {
    /// The drive's processors.
    pub cores: Cores,
    ftl: Ftl<Store>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    capacity: usize,
    newest: FxHashMap<Lpa, u32>,
    waiting: VecDeque<u32>,
    programming: Programs,
    ahead: usize,
    ack: WriteAck,
    refused: Option<String>,
    /// What comes now has been acknowledged already: it is taken even beyond the end of life, into room that is kept for it.
    owed: bool,
    /// Nothing outlives this process: what the flash refuses is taken all the same, so that one can look at what there is.
    fleeting: bool,
    counters: BufferCounters,
}

/// The drive's word for a flash error at `lpa`.
fn drive_error(lpa: Lpa, e: FlashError) -> DriveError {
    match e {
        FlashError::ReadOnly { .. } => DriveError::ReadOnly(e.to_string()),
        FlashError::Unreadable { .. } => DriveError::Unreadable(lpa.0),
        other => DriveError::Failed(other.to_string()),
    }
}

impl Backend {
    /// An empty buffer of `size` in front of an erased flash array.
    ///
    /// # Errors
    /// [`FlashError::Config`].
    pub fn new(flash: &FtlConfig, size: Bytes) -> Result<Backend, FlashError> {
        flash.validate()?;
        let medium = RamMedium::new(flash.geometry.blocks(), flash.geometry.pages_per_block);
        Backend::in_memory(flash, size, Store::Ram(medium))
    }

    /// The same with flash that keeps no content: every page in it reads as zeros.
    ///
    /// # Errors
    /// [`FlashError::Config`].
    pub fn without_data(flash: &FtlConfig, size: Bytes) -> Result<Backend, FlashError> {
        flash.validate()?;
        let medium = NoData::new(flash.geometry.blocks(), flash.geometry.pages_per_block);
        Backend::in_memory(flash, size, Store::NoData(medium))
    }

    fn in_memory(flash: &FtlConfig, size: Bytes, store: Store) -> Result<Backend, FlashError> {
        let ftl = Ftl::with_medium(flash, store)?;
        let ahead = flash.geometry.plane_count() as usize * AHEAD;
        Ok(Backend::over(ftl, size, ahead))
    }

    /// An empty buffer in front of the flash of an image. Every page is given to the FTL when it comes, so that its content
    /// is in the image at once; then the buffer has nothing of its own to keep. Of an image that was opened read-only, it keeps
    /// what worn-out flash refuses: mounting writes, and must not fail where only reading is wanted.
    ///
    /// # Errors
    /// [`FlashError::Config`], [`FlashError::Corrupt`].
    pub fn on_image(flash: &FtlConfig, size: Bytes, medium: ImageMedium) -> Result<Backend, FlashError> {
        let fleeting = medium.is_read_only();
        let live = |store: &Store, block, page| match store {
            Store::Image(m) => m.is_live(block, page),
            Store::Ram(_) | Store::NoData(_) => false,
        };
        let ftl = Ftl::with_saved_map(flash, Store::Image(Box::new(medium)), live)?;
        Ok(Backend { fleeting, ..Backend::over(ftl, size, usize::MAX) })
    }

    /// On an image: pages wait here for their planes, as in memory, so that all comes at the same instants. A
    /// page that waits is on the image once the power has failed ([`Backend::land_all`]), and not before.
    pub fn hold_back(&mut self, planes: u32) {
        self.ahead = planes as usize * AHEAD;
    }

    /// The power has failed: what an image does not have yet goes there; the drive's battery would keep it.
    pub fn land_all(&mut self, now: Nanos) {
        if self.is_on_image() && self.ahead < usize::MAX {
            self.drain(now);
        }
    }

    fn over(ftl: Ftl<Store>, size: Bytes, ahead: usize) -> Backend {
        Backend {
            cores: Cores::new(1),
            ftl,
            slots: Vec::new(),
            free: Vec::new(),
            capacity: (size.0 / PAGE_SIZE as u64) as usize,
            newest: FxHashMap::default(),
            waiting: VecDeque::new(),
            programming: Programs::default(),
            ahead,
            ack: WriteAck::Buffer,
            refused: None,
            owed: false,
            fleeting: false,
            counters: BufferCounters::default(),
        }
    }

    /// The flash below.
    pub fn ftl(&self) -> &Ftl<Store> {
        &self.ftl
    }

    /// The flash below, for what is no access.
    pub fn ftl_mut(&mut self) -> &mut Ftl<Store> {
        &mut self.ftl
    }

    /// When block writes are acknowledged.
    pub fn acknowledge(&mut self, ack: WriteAck) {
        self.ack = ack;
    }

    /// Whether block writes are acknowledged when flash holds them.
    #[inline]
    pub fn acknowledges_programs(&self) -> bool {
        self.ack == WriteAck::Program
    }

    /// From now on the flash can remap pages.
    pub fn keep_p2l(&mut self) {
        self.ftl.keep_p2l();
    }

    /// The image that the flash lies on, if it does.
    #[inline]
    pub fn image(&mut self) -> Option<&mut ImageMedium> {
        match self.ftl.nand_mut().medium_mut() {
            Store::Ram(_) | Store::NoData(_) => None,
            Store::Image(m) => Some(m),
        }
    }

    /// Before a clone: the content of the flash is in common from now on, until it changes.
    pub fn share(&mut self) {
        if let Store::Ram(medium) = self.ftl.nand_mut().medium_mut() {
            medium.share();
        }
    }

    /// Whether the flash lies on an image.
    pub fn is_on_image(&self) -> bool {
        matches!(self.ftl.nand().medium(), Store::Image(_))
    }

    /// Hands what changed to the image: the flash's changes and those that `gather` adds.
    ///
    /// # Errors
    /// Read-only, because the image takes no more changes.
    pub fn publish(&mut self, gather: impl FnOnce(&mut Vec<u8>)) -> Result<(), DriveError> {
        let Some(image) = self.image() else { return Ok(()) };
        image.publish(gather).map_err(|reason| {
            self.refused.get_or_insert_with(|| reason.clone());
            DriveError::ReadOnly(reason)
        })
    }

    /// One call is about to program many pages, or has done so.
    pub fn program_many(&mut self, many: bool) {
        if let Some(image) = self.image() {
            image.program_many(many);
        }
    }

    /// Whether long work should hand over what it changed so far.
    #[inline]
    pub fn is_publish_due(&mut self) -> bool {
        self.image().is_some_and(|image| image.is_publish_due())
    }

    /// A page of the host's as the drive keeps it: packed, sharing nothing with the host's, which then changes it without a
    /// copy; or as it is where it goes to an image, which wants its bytes.
    pub fn keeping(&self, page: &Page) -> Page {
        match self.ftl.nand().medium() {
            Store::Image(_) => page.clone(),
            _ => page.packed(Page::FEW_LINES),
        }
    }

    /// Pages that wait or are being programmed.
    pub fn used(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether background work should let the host go first: the buffer is half full.
    pub fn is_busy(&self) -> bool {
        self.used() * 2 >= self.capacity
    }

    /// When the next program will be done.
    pub fn next_done(&self) -> Option<Nanos> {
        self.programming.next_done()
    }

    /// Time has come to `now` ([`Ftl::pass`]).
    #[inline]
    pub fn pass(&mut self, now: Nanos) {
        self.ftl.pass(now);
    }

    /// Frees the slots whose programs are done by `now` and issues the next ones.
    #[inline]
    pub fn pump(&mut self, now: Nanos) {
        while self.programming.next_done().is_some_and(|done| done <= now) {
            self.finish_one();
        }
    }

    fn finish_one(&mut self) -> Option<Nanos> {
        let (done, slot) = self.programming.finish()?;
        self.release(slot);
        self.issue(done);
        self.programming.close();
        if let Some(next) = self.programming.next_slot() {
            prefetch(&self.slots, next as usize);
        }
        Some(done)
    }

    fn release(&mut self, slot: u32) {
        let s = &mut self.slots[slot as usize];
        s.state = State::Free;
        s.page = Page::ZERO;
        if let Entry::Occupied(newest) = self.newest.entry(s.lpa)
            && *newest.get() == slot
        {
            newest.remove();
        }
        self.free.push(slot);
    }

    fn issue(&mut self, t: Nanos) {
        while self.programming.len() < self.ahead
            && let Some(slot) = self.waiting.pop_front()
        {
            // What waited has left the processor's caches: their turn comes soon.
            if let Some(&next) = self.waiting.get(SOON) {
                self.ftl.prefetch_entry(self.slots[next as usize].lpa);
                self.ftl.prefetch_copy(self.slots[self.waiting[SOON / 2] as usize].lpa);
            }
            if let Some(&then) = self.waiting.get(SOON + SOON / 2) {
                prefetch(&self.slots, then as usize);
            }
            let s = &mut self.slots[slot as usize];
            if s.state == State::Trimmed {
                self.release(slot);
                continue;
            }
            match self.ftl.write(t, s.lpa, s.page.clone(), s.cause) {
                Ok(done) => {
                    s.state = State::Programming;
                    self.counters.issued += 1;
                    self.programming.start(done, slot);
                }
                Err(e) => {
                    s.state = State::Refused;
                    self.refused = Some(e.to_string());
                }
            }
        }
    }

    /// When a slot is free, from `t` on.
    ///
    /// # Errors
    /// Read-only drive.
    pub fn room(&mut self, t: Nanos) -> Result<Nanos, DriveError> {
        let mut free = t;
        while self.used() >= self.capacity {
            match self.finish_one() {
                Some(done) => free = free.max(done),
                None if self.takes_all() => break,
                None => {
                    return Err(self.read_only().unwrap_or(DriveError::Failed("write buffer stuck".into())));
                }
            }
        }
        if free > t {
            self.counters.stalls += 1;
            self.counters.stall_time += free - t;
        }
        Ok(free)
    }

    /// Whether what comes now has been acknowledged already, so that it must be taken.
    pub fn owe(&mut self, owed: bool) {
        self.owed = owed;
    }

    fn takes_all(&self) -> bool {
        self.owed || self.fleeting
    }

    fn read_only(&self) -> Option<DriveError> {
        self.refused.clone().map(DriveError::ReadOnly)
    }

    /// Pages that gc has copied so far.
    #[inline]
    pub fn copied(&self) -> u64 {
        self.ftl.copied()
    }

    /// Whether the drive still takes data.
    ///
    /// # Errors
    /// Read-only drive.
    #[inline]
    pub fn writable(&self) -> Result<(), DriveError> {
        if self.refused.is_none() || self.takes_all() { Ok(()) } else { self.read_only().map_or(Ok(()), Err) }
    }

    /// Takes a page at `t`; returns when it is in the buffer, and so safe.
    ///
    /// # Errors
    /// Read-only drive.
    #[inline]
    pub fn write(&mut self, t: Nanos, lpa: Lpa, page: Page, cause: Cause) -> Result<Nanos, DriveError> {
        self.writable()?;
        self.pump(t);
        self.counters.pages += 1;
        if let Some(&slot) = self.newest.get(&lpa) {
            let s = &mut self.slots[slot as usize];
            if s.state == State::Waiting || s.state == State::Refused {
                (s.page, s.cause) = (page, cause);
                self.counters.coalesced += 1;
                return Ok(t);
            }
        }
        let t = self.room(t)?;
        let slot = self.occupy(Slot { lpa, page, cause, state: State::Waiting });
        self.waiting.push_back(slot);
        self.issue(t);
        if self.ahead == usize::MAX {
            // On an image a page that the flash refused is nowhere but in this process: it is not accepted.
            self.writable()?;
        }
        Ok(t)
    }

    /// The slot that holds the newest content of its page from now on.
    #[inline]
    fn occupy(&mut self, new: Slot) -> u32 {
        let lpa = new.lpa;
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
        self.newest.insert(lpa, slot);
        slot
    }

    /// Takes a page of a block write at `t`; returns when the drive may acknowledge it.
    ///
    /// # Errors
    /// Read-only drive.
    #[inline]
    pub fn write_block(&mut self, t: Nanos, lpa: Lpa, page: Page) -> Result<Nanos, DriveError> {
        match self.ack {
            WriteAck::Buffer => self.write(t, lpa, page, Cause::Host),
            WriteAck::Program => self.write_through(t, lpa, page),
        }
    }

    /// Takes a page at `t` and programs it before all that wait; returns when flash holds it.
    fn write_through(&mut self, t: Nanos, lpa: Lpa, page: Page) -> Result<Nanos, DriveError> {
        self.writable()?;
        self.pump(t);
        self.counters.pages += 1;
        let t = self.room(t)?;
        if let Some(&slot) = self.newest.get(&lpa)
            && self.slots[slot as usize].state == State::Waiting
        {
            // The older content need not be programmed any more.
            self.slots[slot as usize].state = State::Trimmed;
            self.counters.coalesced += 1;
        }
        let slot =
            self.occupy(Slot { lpa, page: page.clone(), cause: Cause::Host, state: State::Programming });
        match self.ftl.write(t, lpa, page, Cause::Host) {
            Ok(done) => {
                self.counters.issued += 1;
                self.programming.start(done, slot);
                Ok(done)
            }
            Err(e) => {
                // It stays here, readable and battery-backed.
                self.slots[slot as usize].state = State::Refused;
                self.refused = Some(e.to_string());
                if self.ahead == usize::MAX {
                    self.writable()?;
                }
                Ok(t)
            }
        }
    }

    /// When the drive may acknowledge a page that arrives at `t` while the block writes of `before` others are in flight
    /// whose programs have not been issued yet: what [`Backend::write_block`] would return if nothing else came in between.
    pub fn acknowledged_by(&self, t: Nanos, before: usize) -> Nanos {
        match self.ack {
            WriteAck::Buffer => t,
            WriteAck::Program => self.ftl.program_end(t, before),
        }
    }

    /// Reads a page from the buffer or from flash.
    ///
    /// # Errors
    /// Unreadable flash.
    #[inline]
    pub fn read(&mut self, t: Nanos, lpa: Lpa, cause: Cause) -> Result<(Page, Nanos), DriveError> {
        if !self.newest.is_empty()
            && let Some(&slot) = self.newest.get(&lpa)
        {
            self.counters.hits += 1;
            return Ok((self.slots[slot as usize].page.clone(), t));
        }
        self.ftl.read(t, lpa, cause).map_err(|e| drive_error(lpa, e))
    }

    /// The page's content, taking no time.
    ///
    /// # Errors
    /// As [`Backend::read`].
    pub fn peek(&self, lpa: Lpa) -> Result<Page, DriveError> {
        match self.newest.get(&lpa) {
            Some(&slot) => Ok(self.slots[slot as usize].page.clone()),
            None => self.ftl.peek(lpa).map_err(|e| drive_error(lpa, e)),
        }
    }

    /// Whether the buffer or the flash holds a page.
    #[inline]
    pub fn holds(&self, lpa: Lpa) -> bool {
        self.ftl.is_mapped(lpa) || self.newest.contains_key(&lpa)
    }

    /// Whether buffer and flash [`Backend::holds`] no page.
    pub fn is_empty(&self) -> bool {
        self.ftl.mapped_pages() == 0 && self.newest.is_empty()
    }

    /// Touches what accesses to these pages will look up ([`Ftl::look_ahead`]).
    pub fn look_ahead(&self, lpas: &[Lpa]) {
        self.ftl.look_ahead(lpas);
    }

    /// Reads of `n` pages from `lpa` on come now ([`Ftl::prefetch_reads`]).
    #[inline]
    pub fn prefetch_reads(&self, lpa: Lpa, n: usize) {
        self.ftl.prefetch_reads(lpa, n);
    }

    /// A page will be read soon: its map entry is fetched into the processor's cache.
    #[inline]
    pub fn prefetch_entry(&self, lpa: Lpa) {
        self.ftl.prefetch_entry(lpa);
    }

    /// Drops a page's content.
    ///
    /// # Errors
    /// Read-only drive.
    pub fn trim(&mut self, lpa: Lpa) -> Result<(), DriveError> {
        self.drop_buffered(lpa);
        match self.ftl.trim(lpa, 1) {
            // The map does not change any more: the buffer stands before it.
            Err(FlashError::ReadOnly { .. }) if self.takes_all() => {
                self.write(Nanos::ZERO, lpa, Page::ZERO, Cause::Host).map(drop)
            }
            other => other.map_err(|e| drive_error(lpa, e)),
        }
    }

    fn drop_buffered(&mut self, lpa: Lpa) {
        if let Some(slot) = self.newest.remove(&lpa) {
            let s = &mut self.slots[slot as usize];
            if s.state == State::Waiting {
                s.state = State::Trimmed;
                self.counters.trimmed += 1;
            }
        }
    }

    /// Moves a page's content to `dst`, and drops what was there. A page that waits for its program changes its name.
    ///
    /// # Errors
    /// Read-only drive; nothing has changed then.
    pub fn remap(&mut self, src: Lpa, dst: Lpa) -> Result<(), DriveError> {
        self.writable()?;
        if src == dst {
            return Ok(());
        }
        // The copies in flash first: with those of the buffer on top of them nothing is lost if it refuses.
        match self.ftl.remap(src, dst) {
            Err(FlashError::ReadOnly { .. }) if self.takes_all() => {
                let page = self.peek(src)?;
                self.write(Nanos::ZERO, dst, page, Cause::Host)?;
                return self.trim(src);
            }
            other => other.map_err(|e| drive_error(src, e))?,
        }
        self.drop_buffered(dst);
        if let Some(slot) = self.newest.remove(&src) {
            self.slots[slot as usize].lpa = dst;
            self.newest.insert(dst, slot);
        }
        Ok(())
    }

    /// Writes the `pages` pages from `first` on past the buffer and in no time ([`Ftl::fill_sequential`]).
    ///
    /// # Errors
    /// Outside the drive, read-only drive.
    pub fn fill(
        &mut self,
        first: Lpa,
        pages: u64,
        content: impl FnMut(Lpa) -> Page,
    ) -> Result<(), DriveError> {
        self.ftl.fill_sequential(first, pages, Cause::Host, content).map_err(|e| drive_error(first, e))
    }

    /// Writes these pages in this order past the buffer and in no time ([`Ftl::without_time`]).
    ///
    /// # Errors
    /// Outside the drive, read-only drive.
    pub fn scatter(&mut self, writes: impl IntoIterator<Item = (Lpa, Page)>) -> Result<(), DriveError> {
        let (mut writes, mut next) = (writes.into_iter(), Vec::with_capacity(TOGETHER));
        self.ftl.without_time(|ftl| {
            loop {
                next.extend(writes.by_ref().take(TOGETHER));
                if next.is_empty() {
                    return Ok(());
                }
                next.iter().for_each(|(lpa, _)| ftl.prefetch_entry(*lpa));
                next.iter().for_each(|(lpa, _)| ftl.prefetch_copy(*lpa));
                for (lpa, page) in next.drain(..) {
                    ftl.write(Nanos::ZERO, lpa, page, Cause::Host).map_err(|e| drive_error(lpa, e))?;
                }
            }
        })
    }

    /// Waits for all programs; returns when the last is done.
    pub fn drain(&mut self, t: Nanos) -> Nanos {
        let mut end = t;
        while let Some(done) = self.finish_one() {
            end = end.max(done);
        }
        end
    }

    /// The power of a volatile buffer fails: each page that waits has got to flash in time or is lost; where
    /// `tears`, in part.
    ///
    /// # Errors
    /// Flash errors.
    pub fn lose(&mut self, random: &mut Stream, tears: bool) -> Result<(), DriveError> {
        let waiting: Vec<Lpa> = self.waiting.iter().map(|&slot| self.slots[slot as usize].lpa).collect();
        for lpa in waiting {
            // True is the page that is gone.
            let kept = |random: &mut Stream| u64::from(!random.chance(0.5));
            if random.fate(Thing::Page("buffered", lpa.0), 1, kept) == 0 {
                self.drop_buffered(lpa);
            } else if let Some(sectors) = torn(random, tears) {
                let new = self.peek(lpa)?;
                self.drop_buffered(lpa);
                let mut page = self.peek(lpa)?;
                page.merge_lines(&new, sectors);
                self.write(Nanos::ZERO, lpa, page, Cause::Host)?;
            }
        }
        Ok(())
    }

    /// Power is back at `at`: the buffer kept its pages; the flash has what had been issued.
    ///
    /// # Errors
    /// Flash errors while powering up.
    pub fn power_on(&mut self, at: Nanos) -> Result<Nanos, DriveError> {
        let ready = self.ftl.power_cycle(at, true).map_err(|e| DriveError::Failed(e.to_string()))?;
        while let Some((_, slot)) = self.programming.finish() {
            self.programming.close();
            self.release(slot);
        }
        self.issue(ready);
        Ok(ready)
    }

    /// Time that planes and channel buses were reserved, summed over each.
    pub fn busy(&self) -> (Nanos, Nanos) {
        let stats = self.ftl.nand_stats();
        (stats.plane_busy, stats.bus_busy)
    }

    /// The part of it that lies after `now`.
    pub fn ahead(&self, now: Nanos) -> (Nanos, Nanos) {
        self.ftl.nand().ahead(now)
    }

    /// What was counted: the buffer's and the flash's.
    pub fn counters(&self) -> (BufferCounters, FlashCounters) {
        (self.counters, self.ftl.counters())
    }

    /// Internal consistency.
    pub fn check(&self) -> Vec<String> {
        let mut bad = self.ftl.check().err().unwrap_or_default();
        let count = |state| self.slots.iter().filter(|s| s.state == state).count();
        let c = &self.counters;
        let waiting = (count(State::Waiting) + count(State::Refused)) as u64;
        if c.pages != c.issued + c.coalesced + c.trimmed + waiting {
            bad.push(format!("write buffer: pages do not balance: {c:?}, {waiting} waiting"));
        }
        if count(State::Programming) != self.programming.len()
            || count(State::Waiting) + count(State::Trimmed) != self.waiting.len()
            || count(State::Free) != self.free.len()
            || (self.used() > self.capacity && self.refused.is_none())
        {
            bad.push("write buffer: slots and queues contradict each other".to_owned());
        }
        for (lpa, &slot) in &self.newest {
            let s = &self.slots[slot as usize];
            if s.lpa != *lpa || s.state == State::Free {
                bad.push(format!("write buffer: {lpa} is not in slot {slot}"));
            }
        }
        if let Store::Image(image) = self.ftl.nand().medium() {
            bad.extend(self.check_saved_map(image));
        }
        let f = self.ftl.counters();
        if f.total_programs() - f.programs(Cause::Gc) < c.issued {
            bad.push("write buffer: more pages issued than the flash programmed".to_owned());
        }
        bad
    }

    /// The map that the image keeps, one bit for each flash page, is the one that the FTL has.
    fn check_saved_map(&self, image: &ImageMedium) -> Vec<String> {
        let n = self.ftl.config().geometry.pages_per_block;
        let wrong = |ppa: &u32| {
            let (block, page) = (BlockNo(ppa / n), ppa % n);
            let lpa = image.lpa(block, page).unwrap_or(Oob::NO_LPA);
            image.is_live(block, page) != (self.ftl.location(Lpa(lpa as u64)) == Some(Ppa(*ppa)))
        };
        let programmed = (0..self.ftl.config().geometry.blocks())
            .flat_map(|b| (0..self.ftl.nand().header(BlockNo(b)).programmed).map(move |page| b * n + page));
        programmed
            .filter(wrong)
            .take(8)
            .map(|ppa| {
                let (block, page) = (BlockNo(ppa / n), ppa % n);
                let (lpa, live) = (image.lpa(block, page).unwrap_or(Oob::NO_LPA), image.is_live(block, page));
                let mapped = self.ftl.location(Lpa(lpa as u64));
                format!("image: flash page {ppa}, page {lpa}, which is mapped to {mapped:?}, is saved with current = {live}")
            })
            .collect()
    }
}
