//! [`Log`]: log-mode firmware, the write log of ByteFS.
//!
//! ```text
//!   stores ──> active half |####......|      old half |########| ──cleaning──> write buffer ──> flash
//!                   |  85 % full: halves change roles      ^ uncommitted entries move to the active half
//!                   `────────────────────────────────────--'
//!   index: page -> chunks -> entries of either half          TxLog: committed transactions, in order
//! ```
//!
//! - **Space.** The log region is two halves of equal size for double buffering; an entry of `n` lines takes
//!   `64 n + 16` bytes of one (see `region.rs`).
//! - **Reads** see the newest version of every line, committed or not; lines that the log does not hold come from the
//!   write buffer or from flash. A page whose 64 lines are all in the log needs no flash read.
//! - **Block writes and trims** append a trailer that voids the page's entries.
//! - **Commit order.** Within a line log order is commit order (the host's TxTable serialises, section 4.3), so the
//!   newest committed version is the one that TxLog order would leave. Across pages the order of flushing cannot be
//!   observed: a half is cleared only after all its committed entries are in battery-backed memory or flash.
//! - **Room.** The host may not fill the active half so far that the uncommitted entries of the old half could not
//!   move in. With no room left, stores and commits wait for cleaning to end (counted).
//!
//! It does *not* cache flash pages (section 4.3: coordinated caching leaves that to the host).
//!
//! Source: ByteFS sections 4.3, 4.4, 4.7, Algorithm 1.

mod ahead;
mod chunks;
mod cleaning;
mod given_up;
pub mod index;
mod lean;
mod pages;
mod recover;
mod region;
mod saved;
mod skiplist;
mod txlog;

#[cfg(test)]
mod model;

pub use chunks::{EntryRef, Piece};

use crate::config::DriveConfig;
use crate::firmware::{Backend, Firmware, Transaction, Transactions};
use crate::saved::layout::Layout;
use cleaning::Cleaning;
use given_up::GivenUp;
use granary_device::vendor::transactions::{COMMANDS, Commit, Facts, Recover};
use granary_device::{DriveCounters, DriveError, LogCounters, Vendor};
use granary_flash::Cause;
use granary_redo::redo::Redo;
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, Page, TxId};
use index::{Index, LineVersions};
use region::Region;
use rustc_hash::FxHashMap;
use std::any::Any;
use txlog::TxLog;

/// The write log, its index, the TxLog.
#[derive(Clone)]
pub struct Log {
    regions: [Region; 2],
    /// Bytes of both.
    size: u64,
    /// The half that the host appends to.
    active: usize,
    index: Index,
    txlog: TxLog,
    /// Bytes of log that each uncommitted transaction took, and their sum: what cleaning may have to move at most.
    running: FxHashMap<TxId, u64>,
    running_space: u64,
    cleaning: Option<Cleaning>,
    given_up: GivenUp,
    /// Pages that cleaning takes at a time: one for each plane of the flash keeps all of them busy.
    batch: usize,
    /// Bytes of a half in use at which cleaning starts.
    threshold: u64,
    entry_cost: Nanos,
    line_cost: Nanos,
    pages: u64,
    /// Entries posted since the last verify, where they are tracked.
    unverified: Vec<(u64, EntryRef)>,
    /// Entries posted while tracking, and whether they are tracked.
    posts: u64,
    tracking: bool,
    found: Vec<Piece>,
    /// Pages that lines are on their way to, the last first: see `expect`.
    coming: [u32; 2],
    /// Everything in the index has committed: RECOVER is under way.
    all_committed: bool,
    /// Working memory of cleaning: the pieces of a page to merge, to move, that stay.
    sorted: [Vec<Piece>; 3],
    counters: LogCounters,
    /// Lines that the index held when the drive was opened on an image: they came before counting began.
    inherited: u64,
    /// Changes of roles and cleaning, where an image keeps them.
    redo: Option<Redo>,
}

/// The log as the index sees it.
struct View<'a> {
    regions: &'a [Region; 2],
    txlog: &'a TxLog,
}

impl LineVersions for View<'_> {
    fn tx(&self, entry: EntryRef) -> TxId {
        self.regions[entry.region()].tx(entry.number())
    }

    fn committed(&self, tx: TxId) -> bool {
        tx == TxId::NONE || self.txlog.contains(tx)
    }
}

/// The log while everything in it has committed, so that nothing has to be looked up.
struct Committed;

impl LineVersions for Committed {
    fn tx(&self, _entry: EntryRef) -> TxId {
        TxId::NONE
    }

    fn committed(&self, _tx: TxId) -> bool {
        true
    }
}

impl Log {
    /// An empty log. The configuration has been validated.
    pub fn new(config: &DriveConfig) -> Log {
        let f = &config.firmware;
        let half = f.log_region.0 / 2;
        let regions = [Region::new(half), Region::new(half)];
        let threshold = regions[0].capacity() * f.clean_threshold_permille as u64 / 1000;
        Log {
            regions,
            size: f.log_region.0,
            active: 0,
            index: Index::new(config.pages(), 0),
            txlog: TxLog::new(f.txlog),
            running: FxHashMap::default(),
            running_space: 0,
            cleaning: None,
            given_up: GivenUp::default(),
            batch: config.flash.geometry.plane_count() as usize,
            threshold,
            entry_cost: f.entry_cost,
            line_cost: f.line_cost,
            pages: config.pages(),
            unverified: Vec::new(),
            posts: 0,
            tracking: false,
            found: Vec::new(),
            coming: [0; 2],
            all_committed: false,
            sorted: Default::default(),
            counters: LogCounters::default(),
            inherited: 0,
            redo: None,
        }
    }

    fn view(&self) -> View<'_> {
        View { regions: &self.regions, txlog: &self.txlog }
    }

    /// What was counted; superseded lines are those that left the index for no other reason.
    pub fn counters(&self) -> LogCounters {
        let c = self.counters;
        let left = c.lines_voided + c.lines_cleaned + c.lines_dropped + c.lines_lost;
        let came = c.lines + self.inherited;
        LogCounters { lines_superseded: came.saturating_sub(self.index.lines() + left), ..c }
    }

    /// Bytes that the host may append.
    fn room(&self) -> u64 {
        let active = &self.regions[self.active];
        let reserved = self.cleaning.as_ref().map_or(0, |c| c.reserved);
        (active.capacity() - active.used()).saturating_sub(reserved)
    }

    /// Waits from `t` on until an entry of `space` bytes fits.
    fn make_room(&mut self, be: &mut Backend, t: Nanos, space: u64) -> Result<Nanos, DriveError> {
        let (mut free, mut rounds) = (t, 0);
        while self.room() < space {
            rounds += 1;
            if self.cleaning.is_some() {
                free = self.finish_cleaning(be, free)?;
            } else if space + self.running_space > self.regions[0].capacity() || rounds > 4 {
                return Err(DriveError::LogFull);
            } else {
                self.start_cleaning(free, Cause::LogCleaning);
            }
        }
        self.count_stall(t, free);
        Ok(free)
    }

    fn count_stall(&mut self, asked: Nanos, free: Nanos) {
        if free > asked {
            self.counters.stalls += 1;
            self.counters.stall_time += free - asked;
        }
    }

    /// Whether these lines of a page, which the log does not hold, have not been given up.
    #[inline]
    fn readable(&self, lpa: Lpa, lines: u64) -> Result<(), DriveError> {
        if self.given_up.is_empty() || self.given_up.of(lpa.0 as u32) & lines == 0 {
            return Ok(());
        }
        Err(DriveError::Unreadable(lpa.0))
    }

    /// The lines given up of `lpa` are now these.
    fn give_up(&mut self, lpa: Lpa, lines: u64) {
        if !self.given_up.is_empty() || lines != 0 {
            self.given_up.set(lpa.0 as u32, lines, &mut self.redo);
        }
    }

    fn data(&self, p: &Piece) -> &[u8] {
        self.regions[p.entry.region()].data(p.entry.number(), p.first as usize, p.lines as usize)
    }

    /// Copies disjoint pieces over a page.
    fn overlay(&self, page: &mut Page, pieces: &[Piece]) {
        if pieces.is_empty() {
            return;
        }
        let bytes = page.bytes_mut();
        for p in pieces {
            let at = p.first as usize * LINE_SIZE;
            let data = self.data(p);
            bytes[at..at + data.len()].copy_from_slice(data);
        }
    }

    /// Makes void what the log holds of a page; returns when the mark is in the log.
    ///
    /// # Errors
    /// No room in the log for the mark.
    #[inline]
    pub fn void(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        let page = lpa.0 as u32;
        if !self.index.contains(page) {
            return Ok(t);
        }
        let t = self.make_room(be, t, Region::space(0))?;
        // Making room may have cleaned the page out of the log altogether.
        if self.index.contains(page) {
            self.regions[self.active].append(page, 0, &[], 0, TxId::NONE);
            let regions = &self.regions;
            self.unverified.retain(|(_, e)| regions[e.region()].trailer(e.number()).lpa != page);
            self.counters.lines_voided += self.index.remove(page);
            self.counters.pages_voided += 1;
            self.clean_if_due(t);
        }
        Ok(t)
    }
}

impl Firmware for Log {
    fn fork(&self) -> Box<dyn Firmware> {
        Box::new(self.clone())
    }

    fn offers(&self) -> &'static [&'static str] {
        COMMANDS
    }

    fn identify(&self, facts: &mut dyn Any) -> bool {
        let Some(facts) = facts.downcast_mut::<Facts>() else { return false };
        facts.half = self.size / 2;
        true
    }

    fn pump(&mut self, be: &mut Backend, now: Nanos) {
        Log::pump(self, be, now);
    }

    fn settle(&mut self, be: &mut Backend, now: Nanos) -> Result<Nanos, DriveError> {
        Log::settle(self, be, now)
    }

    fn track(&mut self, on: bool) {
        Log::track(self, on);
    }

    fn posts(&self) -> u64 {
        self.posts
    }

    fn verified(&mut self, posts: u64) {
        Log::verified(self, posts);
    }

    fn power_fail(&mut self, _: &mut Backend, _: Nanos, random: &mut Stream) -> Result<(), DriveError> {
        Log::power_fail(self, random);
        Ok(())
    }

    fn power_on(&mut self, now: Nanos, load: Nanos) {
        Log::power_on(self, now, load);
    }

    fn lines(&self) -> u64 {
        self.counters.lines
    }

    fn count(&self, all: &mut DriveCounters) {
        all.log = self.counters();
    }

    fn stalls_host(&self) -> bool {
        true
    }

    fn transactions(&mut self) -> Option<&mut dyn Transactions> {
        Some(self)
    }

    fn drain_redo(&mut self, out: &mut Vec<u8>) {
        Log::drain_redo(self, out);
    }

    fn grow(&mut self, config: &DriveConfig, layout: &Layout) {
        Log::grow(self, config, layout);
    }

    fn expect(&mut self, lpa: Lpa) {
        Log::expect(self, lpa);
    }

    fn look_ahead(&self, at: &[ByteAddr], missed: &mut Vec<Lpa>) {
        Log::look_ahead(self, at, missed);
    }

    fn write_lines(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        first: usize,
        data: &[u8],
        tx: TxId,
    ) -> Result<Nanos, DriveError> {
        let lines = data.len() / LINE_SIZE;
        let space = Region::space(lines);
        let t = self.make_room(be, t, space)?;
        let lpa = lpa.0 as u32;
        let number = self.regions[self.active].append(lpa, first as u8, data, 0, tx);
        let entry = EntryRef::new(self.active, true, number);
        let piece = Piece { entry, first: first as u8, lines: lines as u8 };
        let view = View { regions: &self.regions, txlog: &self.txlog };
        self.index.insert(lpa, piece, &view);
        if tx != TxId::NONE && !self.txlog.contains(tx) {
            *self.running.entry(tx).or_default() += space;
            self.running_space += space;
        }
        if self.tracking {
            self.posts += 1;
            self.unverified.push((self.posts, entry));
        }
        self.counters.entries += 1;
        self.counters.lines += lines as u64;
        self.clean_if_due(t);
        Ok(t)
    }

    #[inline]
    fn read_page(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<(Page, Nanos), DriveError> {
        self.found.clear();
        let covered = self.index.lookup(lpa.0 as u32, 0, LINES_PER_PAGE, &mut self.found);
        self.readable(lpa, !covered)?;
        if covered == 0 {
            return be.read(t, lpa, Cause::Host);
        }
        self.counters.line_hits += covered.count_ones() as u64;
        let (mut page, done) =
            if covered == u64::MAX { (Page::ZERO, t) } else { be.read(t, lpa, Cause::Host)? };
        self.overlay(&mut page, &self.found);
        Ok((page, done))
    }

    fn read_lines(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        first: usize,
        out: &mut [u8],
    ) -> Result<Nanos, DriveError> {
        let lines = out.len() / LINE_SIZE;
        self.found.clear();
        let covered = self.index.lookup(lpa.0 as u32, first, lines, &mut self.found);
        let hits = covered.count_ones() as usize;
        self.counters.line_hits += hits as u64;
        self.counters.line_misses += (lines - hits) as u64;
        let mut done = t;
        if hits < lines {
            self.readable(lpa, chunks::mask(first, lines) & !covered)?;
            let (page, read) = be.read(t, lpa, Cause::Host)?;
            page.copy_out(first * LINE_SIZE, out);
            done = read;
        }
        for p in &self.found {
            let at = (p.first as usize - first) * LINE_SIZE;
            let data = self.data(p);
            out[at..at + data.len()].copy_from_slice(data);
        }
        Ok(done)
    }

    fn peek(&self, be: &Backend, lpa: Lpa) -> Result<Page, DriveError> {
        let mut found = Vec::new();
        let covered = self.index.lookup(lpa.0 as u32, 0, LINES_PER_PAGE, &mut found);
        self.readable(lpa, !covered)?;
        let mut page = be.peek(lpa)?;
        self.overlay(&mut page, &found);
        Ok(page)
    }

    #[inline]
    fn write_page(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa, page: Page) -> Result<Nanos, DriveError> {
        let t = self.void(be, t, lpa)?;
        let done = be.write_block(t, lpa, page)?;
        self.give_up(lpa, 0);
        Ok(done)
    }

    fn remap(&mut self, be: &mut Backend, t: Nanos, src: Lpa, dst: Lpa) -> Result<(Nanos, bool), DriveError> {
        let gone = self.given_up.of(src.0 as u32);
        if !self.holds(src) {
            let t = self.void(be, t, dst)?;
            be.remap(src, dst)?;
            if src != dst {
                self.give_up(src, 0);
                self.give_up(dst, gone);
            }
            return Ok((t, false));
        }
        self.found.clear();
        let covered = self.index.lookup(src.0 as u32, 0, LINES_PER_PAGE, &mut self.found);
        let (mut page, read, gone) = match cleaning::read_patiently(be, t, src, Cause::Host) {
            Ok((page, read)) => (page, read, gone & !covered),
            // Acknowledged lines move all the same; of the others there has to be room to say that they are gone.
            Err(DriveError::Unreadable(_)) if self.given_up.has_room_for(dst.0 as u32) => {
                (Page::ZERO, t, !covered)
            }
            Err(e) => return Err(e),
        };
        self.overlay(&mut page, &self.found);
        self.counters.line_hits += covered.count_ones() as u64;
        let written = self.write_page(be, read, dst, page)?;
        // Making room for its mark may hand over what has changed: until then `src` has everything that is to be known.
        let trimmed = self.trim(be, written, src)?;
        self.give_up(dst, gone);
        Ok((trimmed, true))
    }

    fn holds(&self, lpa: Lpa) -> bool {
        self.index.contains(lpa.0 as u32)
    }

    fn is_empty(&self) -> bool {
        self.index.lines() == 0
    }

    fn trim(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        let t = self.void(be, t, lpa)?;
        be.trim(lpa)?;
        self.give_up(lpa, 0);
        Ok(t)
    }

    fn check(&self) -> Vec<String> {
        let mut bad = self.txlog.check();
        for (r, name) in self.regions.iter().zip(["0", "1"]) {
            bad.extend(r.check(name).err().into_iter().flatten());
        }
        bad.extend(self.index.check(|lpa, piece| {
            let region = &self.regions[piece.entry.region()];
            piece.entry.number() < region.entries() && {
                let t = region.trailer(piece.entry.number());
                t.lpa == lpa
                    && t.flags & region::LOST == 0
                    && t.first <= piece.first
                    && piece.first + piece.lines <= t.first + t.lines
                    && (t.flags & region::MIGRATED == 0)
                        == (piece.entry == EntryRef::new(piece.entry.region(), true, piece.entry.number()))
            }
        }));
        let c = &self.counters;
        let gone = c.lines_voided + c.lines_cleaned + c.lines_dropped + c.lines_lost;
        if c.lines + self.inherited < self.index.lines() + gone {
            bad.push(format!(
                "log: more lines accounted for than came: {} in index, {c:?}",
                self.index.lines()
            ));
        }
        if self.running.values().sum::<u64>() != self.running_space {
            bad.push("log: space of running transactions does not add up".to_owned());
        }
        let idle = self.cleaning.is_none();
        if idle && self.regions[1 - self.active].entries() != 0 {
            bad.push("log: the inactive half is not empty though no cleaning runs".to_owned());
        }
        bad
    }

    fn index_memory(&self) -> usize {
        self.index.memory()
    }
}

impl Transactions for Log {
    fn asked(&self, own: &dyn Vendor) -> Option<Transaction> {
        match own.get() {
            Some(&Commit { tx }) => Some(Transaction::Commit(tx)),
            None => own.get::<Recover>().map(|_| Transaction::Recover),
        }
    }

    fn commit_room(&mut self, be: &mut Backend, t: Nanos, tx: TxId) -> Result<Nanos, DriveError> {
        let mut free = t;
        while !self.txlog.has_room() && !self.txlog.contains(tx) {
            if self.cleaning.is_none() {
                self.start_cleaning(free, Cause::LogCleaning);
            }
            free = self.finish_cleaning(be, free)?;
        }
        self.count_stall(t, free);
        Ok(free)
    }

    fn commit(&mut self, be: &mut Backend, t: Nanos, tx: TxId) -> Result<Nanos, DriveError> {
        let free = self.commit_room(be, t, tx)?;
        if tx != TxId::NONE {
            self.txlog.append(tx);
            self.running_space -= self.running.remove(&tx).unwrap_or(0);
        }
        self.counters.commits += 1;
        Ok(free)
    }

    fn recover(&mut self, be: &mut Backend, t: Nanos) -> Result<Nanos, DriveError> {
        Log::recover(self, be, t)
    }
}
