//! [`Backend`]: the write buffer in front of the FTL, and the FTL.
//!
//! ```text
//!   put ──> | waiting: page page ... | ──issue──> | programming: at most 2 per plane | ──done──> slot free
//!             battery-backed DRAM, 16 MB            (FTL has the page, buffer keeps it until done)
//! ```
//!
//! A page is safe once it is in the buffer (battery-backed). Programs are issued in order of arrival, a
//! bounded number ahead of the flash, so that reads never queue behind megabytes of writes; a page that is
//! written again while it waits is replaced. Reads of buffered pages are served from it.
//!
//! Where the drive acknowledges programs ([`WriteAck::Program`]), the pages of block writes pass those that
//! wait and are given to the flash at once: the host waits for them.
//!
//! Invariants: a page's newest content is the one that `newest` names, else the FTL's; pages in = issued +
//! coalesced + trimmed + waiting. A page whose program the FTL refuses (end of life) stays here, readable,
//! and the drive becomes read-only; pages acknowledged before that are still taken. It does *not* know the
//! log or the cache.
//!
//! Source: ByteFS section 4.9 (16 MB write buffer) and 4.3 (writes grouped over channels).

mod image;
mod programs;
mod read;
mod write;

use crate::config::WriteAck;
use crate::firmware::Cores;
use crate::firmware::store::Store;
use crate::power::torn;
use granary_device::BufferCounters;
use granary_device::DriveError;
use granary_flash::{Cause, FlashCounters, FlashError, Ftl, FtlConfig, NoData, RamMedium};
use granary_sim::rng::{Stream, Thing};
use granary_units::{Bytes, Lpa, Nanos, PAGE_SIZE, Page, prefetch};
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
    /// The pages that come now have been acknowledged already. They are taken even beyond the end of life,
    /// into room that is kept for them.
    owed: bool,
    /// Nothing outlives this process. Pages that the flash refuses are taken all the same, so that the
    /// content can be looked at.
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

    /// One call is about to program many pages, or has done so.
    pub fn program_many(&mut self, many: bool) {
        if let Some(image) = self.image() {
            image.program_many(many);
        }
    }

    /// A page of the host's as the drive keeps it: packed, sharing nothing with the host's, which then
    /// changes it without a copy; or as it is where it goes to an image, which wants its bytes.
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
            // Slots that waited have left the processor's caches, and their turn comes soon.
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

    /// Whether buffer and flash [`Backend::holds`] no page.
    pub fn is_empty(&self) -> bool {
        self.ftl.mapped_pages() == 0 && self.newest.is_empty()
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

    /// Moves a page's content to `dst`, and drops what was there. A page that waits for its program changes
    /// its name.
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

    /// Counters of the buffer and of the flash.
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
}
