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
//! - **Reads** see the newest version of every line, committed or not; lines that the log does not hold come
//!   from the write buffer or from flash. A page whose 64 lines are all in the log needs no flash read.
//! - **Block writes and trims** append a trailer that voids the page's entries.
//! - **Commit order.** Within a line log order is commit order (the host's TxTable serialises, section 4.3),
//!   so the newest committed version is the one that TxLog order would leave. Across pages the order of
//!   flushing cannot be observed: a half is cleared only after all its committed entries are in
//!   battery-backed memory or flash.
//! - **Room.** The host may not fill the active half so far that the uncommitted entries of the old half
//!   could not move in. With no room left, stores and commits wait for cleaning to end (counted).
//!
//! It does *not* cache flash pages (section 4.3: coordinated caching leaves that to the host).
//!
//! Source: ByteFS sections 4.3, 4.4, 4.7, Algorithm 1.

mod ahead;
mod calls;
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
use crate::firmware::Backend;
use cleaning::Cleaning;
use given_up::GivenUp;
use granary_device::{DriveError, LogCounters};
use granary_flash::Cause;
use granary_redo::redo::Redo;
use granary_units::{LINE_SIZE, Lpa, Nanos, Page, TxId};
use index::{Index, LineVersions};
use region::Region;
use rustc_hash::FxHashMap;
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
    /// Bytes of log that each uncommitted transaction took, and their sum: the most that cleaning may have to
    /// move.
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

    /// Counters of the log. Superseded lines are those that left the index for no other reason.
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
