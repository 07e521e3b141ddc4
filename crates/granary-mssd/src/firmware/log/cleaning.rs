//! Log cleaning: the old half's committed entries become flash pages, its uncommitted ones move to the active
//! half.
//!
//! ```text
//!   start   active half passes 85 %: halves change roles, the TxLog's length is marked
//!   page    ascending from the cursor, when the firmware's processor has time:
//!             partial update? read the flash page          merge the newest committed versions
//!             into the write buffer (programs spread over the channels)
//!             uncommitted chunks: append to the active half, flagged migrated
//!   batch   as many pages as the flash has planes; the next one when the reads are back and the buffer is
//!           not half full
//!   end     old half cleared, TxLog purged up to the mark
//! ```
//!
//! Runs in the background: every call of the drive first cleans the pages whose time has come. So it fills no
//! queues of the flash in advance, and a command waits for one page's work of the processor at most. Commands
//! and cleaning share the firmware's processors (one ARM core runs all firmware, section 4.9). Commands go
//! first: the point of double buffering is "to prevent a long cleaning process from blocking normal IO
//! accesses" (section 4.3).
//!
//! Invariants: pages below the cursor are out of the old half; they are safe (battery-backed buffer or flash)
//! before the cursor passes them. The reserve covers all that may have to move.
//!
//! Source: ByteFS section 4.3, Algorithm 1.

use super::chunks::EntryRef;
use super::index::{LineVersions, needed};
use super::region::{MIGRATED, Region};
use super::{Committed, Log, Piece, View};
use crate::firmware::Cores;
use crate::firmware::buffer::Backend;
use granary_device::DriveError;
use granary_flash::Cause;
use granary_units::{LINE_SIZE, Lpa, Nanos, PAGE_SIZE, Page, TxId};

/// How long the cleaner waits before it looks again at a full write buffer in which nothing moves (dead
/// flash).
const RETRY: Nanos = Nanos::from_millis(1);

/// Times that cleaning asks for a page before it takes it for lost; each is a read with the array's own
/// retries.
const PATIENCE: u32 = 8;

/// Reads a page that must not be given up lightly.
pub(super) fn read_patiently(
    be: &mut Backend,
    t: Nanos,
    lpa: Lpa,
    cause: Cause,
) -> Result<(Page, Nanos), DriveError> {
    let mut read = be.read(t, lpa, cause);
    for _ in 1..PATIENCE {
        if !matches!(read, Err(DriveError::Unreadable(_))) {
            break;
        }
        read = be.read(t, lpa, cause);
    }
    read
}

/// Newest first for each line: what of a page to merge, what to move to the `active` half, what stays.
fn sort(
    all: &[Piece],
    active: usize,
    versions: &impl LineVersions,
    [merge, migrate, stay]: &mut [Vec<Piece>; 3],
) {
    needed(all, versions, |piece, need| {
        let to = if piece.entry.region() == active {
            &mut *stay
        } else if versions.committed(versions.tx(piece.entry)) {
            &mut *merge
        } else {
            &mut *migrate
        };
        to.extend(piece.parts(need));
    });
}

/// How the firmware's processors do a piece of cleaning's work.
type Serve = fn(&mut Cores, Nanos, Nanos) -> Nanos;

/// A cleaning in progress. Its cursor is in the old half's header.
#[derive(Clone)]
pub(super) struct Cleaning {
    /// The half being cleaned.
    pub region: usize,
    /// When the next page may be cleaned.
    pub next: Nanos,
    /// The page after the next one, whose entries are being fetched.
    pub ahead: Option<u32>,
    /// Pages of the batch that have been cleaned, and when all of them have been read.
    pub batch: (usize, Nanos),
    /// Length of the TxLog at the start: purged up to here at the end.
    pub mark: usize,
    /// Bytes of the active half kept for what has to move.
    pub reserved: u64,
    /// For whom flash is accessed.
    pub cause: Cause,
}

impl Log {
    /// Starts cleaning at `t` if the active half is full enough.
    #[inline]
    pub(super) fn clean_if_due(&mut self, t: Nanos) {
        if self.cleaning.is_none() && self.regions[self.active].used() >= self.threshold {
            self.start_cleaning(t, Cause::LogCleaning);
        }
    }

    /// Halves change roles.
    pub(super) fn start_cleaning(&mut self, t: Nanos, cause: Cause) {
        assert!(self.cleaning.is_none() && self.regions[1 - self.active].entries() == 0);
        self.cleaning = Some(Cleaning {
            region: self.active,
            next: t,
            ahead: None,
            batch: (0, t),
            mark: self.txlog.len(),
            reserved: self.running_space,
            cause,
        });
        self.active = 1 - self.active;
        self.counters.cleanings += 1;
        self.save_roles();
    }

    /// Cleans the pages whose time has come. A page that the flash refuses is tried again later. The call
    /// that then needs the room gets the error.
    #[inline]
    pub fn pump(&mut self, be: &mut Backend, now: Nanos) {
        while let Some(c) = &self.cleaning {
            let at = c.next;
            if at > now {
                break;
            }
            let wait = if c.batch.0 == 0 && be.is_busy() {
                Some(be.next_done().filter(|&d| d > at).unwrap_or(at + RETRY))
            } else {
                self.clean_next(be, at, Cores::serve_idle).err().map(|_| at + RETRY)
            };
            if let (Some(wait), Some(c)) = (wait, &mut self.cleaning) {
                c.next = wait;
                be.pump(wait.min(now));
            }
        }
    }

    /// Runs the cleaning in progress to its end, from `t` on; returns when it ended.
    pub(super) fn finish_cleaning(&mut self, be: &mut Backend, t: Nanos) -> Result<Nanos, DriveError> {
        let mut end = t;
        while let Some(c) = &self.cleaning {
            end = end.max(c.next);
            let next = self.clean_next(be, end, Cores::serve_ahead)?;
            end = end.max(next);
        }
        Ok(end)
    }

    /// Cleans the next page at `t`, with `serve` for the processor's work; returns when the one after it may
    /// be cleaned, or when cleaning ended.
    fn clean_next(&mut self, be: &mut Backend, t: Nanos, serve: Serve) -> Result<Nanos, DriveError> {
        let _step = granary_sim::step("write log: a half is cleaned");
        let Some(c) = &self.cleaning else { return Ok(t) };
        let (region, cause, (pages, ready), ahead) = (c.region, c.cause, c.batch, c.ahead);
        // Superseded versions leave the log for good, so from here on it is settled which lines survive power
        // loss.
        self.unverified.clear();
        let cursor = self.regions[region].cleaned_below();
        let Some(lpa) = self.index.at_or_after(cursor) else {
            self.end_cleaning();
            return Ok(t.max(ready));
        };
        // Which pages come next, for the processor's caches.
        let mut then = None;
        if let Some(next) = ahead.or_else(|| self.index.at_or_after(lpa as u64 + 1)) {
            be.prefetch_reads(Lpa(next as u64), 1);
            then = self.index.at_or_after(next as u64 + 1);
            then.iter().for_each(|&then| be.prefetch_entry(Lpa(then as u64)));
        }
        let cleaned = self.clean_page(be, t, lpa, cause, serve)?;
        self.regions[region].set_cleaned_below(lpa as u64 + 1);
        self.publish_if_due(be)?;
        let (next, batch) = match cleaned {
            None => (t, (pages, ready)),
            Some((worked, read)) if pages + 1 < self.batch => (worked, (pages + 1, ready.max(read))),
            Some((worked, read)) => {
                let all = worked.max(ready).max(read);
                (all, (0, all))
            }
        };
        if let Some(c) = &mut self.cleaning {
            (c.next, c.batch, c.ahead) = (next, batch, then);
        }
        Ok(next)
    }

    fn end_cleaning(&mut self) {
        if let Some(c) = self.cleaning.take() {
            self.regions[c.region].clear();
            self.txlog.purge(c.mark);
            self.save_roles();
        }
    }

    /// Takes one page out of the old half. Returns when the processor is done with it and when its content is
    /// in the write buffer; `None` where the old half held nothing of it.
    fn clean_page(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: u32,
        cause: Cause,
        serve: Serve,
    ) -> Result<Option<(Nanos, Nanos)>, DriveError> {
        let mut all = std::mem::take(&mut self.found);
        all.clear();
        self.index.gather(lpa, &mut all);
        let result = if all.iter().any(|p| p.entry.region() != self.active) {
            self.clean_pieces(be, t, lpa, cause, serve, &mut all).map(Some)
        } else {
            Ok(None)
        };
        self.found = all;
        result
    }

    fn clean_pieces(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: u32,
        cause: Cause,
        serve: Serve,
        all: &mut [Piece],
    ) -> Result<(Nanos, Nanos), DriveError> {
        let before: u64 = all.iter().map(|p| p.lines as u64).sum();
        let work = self.entry_cost * all.len() as u64 + self.line_cost * before;
        let t = serve(&mut be.cores, t, work);
        let mut sorted = std::mem::take(&mut self.sorted);
        let view = View { regions: &self.regions, txlog: &self.txlog };
        if self.all_committed {
            sort(all, self.active, &Committed, &mut sorted);
        } else {
            sort(all, self.active, &view, &mut sorted);
        }
        let done = self.clean_sorted(be, t, lpa, cause, &mut sorted);
        sorted.iter_mut().for_each(Vec::clear);
        self.sorted = sorted;
        Ok((t, done?))
    }

    fn clean_sorted(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: u32,
        cause: Cause,
        [merge, migrate, stay]: &mut [Vec<Piece>; 3],
    ) -> Result<Nanos, DriveError> {
        let kept = stay.len();
        let done = match self.merge(be, t, lpa, cause, merge) {
            Err(DriveError::Unreadable(_)) => {
                let space: u64 = merge.iter().map(|p| Region::space(p.lines as usize)).sum();
                if self.room() >= space {
                    self.carry(lpa, merge, stay);
                    t
                } else {
                    self.write_without_rest(be, t, lpa, cause, merge)?
                }
            }
            other => other?,
        };
        // Oldest first, so that their order among themselves stays; newer ones go before what is carried.
        for &piece in migrate.iter().rev() {
            let tx = self.regions[piece.entry.region()].tx(piece.entry.number());
            let moved = self.migrate(lpa, piece, tx);
            stay.insert(kept, moved);
            if let Some(c) = &mut self.cleaning {
                c.reserved = c.reserved.saturating_sub(Region::space(moved.lines as usize));
            }
        }
        self.index.set(lpa, stay);
        Ok(done)
    }

    /// Merges committed lines into their page.
    fn merge(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: u32,
        cause: Cause,
        pieces: &[Piece],
    ) -> Result<Nanos, DriveError> {
        let lines = pieces.iter().fold(0, |m, p| m | p.mask());
        if lines == 0 {
            return Ok(t);
        }
        let at = Lpa(lpa as u64);
        let (mut page, ready) = if lines == u64::MAX {
            (Page::ZERO, t)
        } else {
            self.counters.pages_read += 1;
            read_patiently(be, t, at, cause)?
        };
        self.overlay(&mut page, pieces);
        // Merging may have left a repeated word, which costs no memory.
        page.compact();
        let done = be.write(ready, at, page, cause)?;
        self.give_up(at, self.given_up.of(lpa) & !lines);
        self.count_cleaned(lines, cause);
        Ok(done)
    }

    fn count_cleaned(&mut self, lines: u64, cause: Cause) {
        self.counters.lines_cleaned += lines.count_ones() as u64;
        self.counters.pages_cleaned += 1;
        if cause == Cause::Recovery {
            self.counters.recovery_pages += 1;
        }
    }

    /// The page below cannot be read: its committed lines, for which there is room, stay in the log. The page
    /// may yet be read.
    fn carry(&mut self, lpa: u32, merge: &[Piece], stay: &mut Vec<Piece>) {
        for &piece in merge {
            // Their transaction may leave the TxLog now.
            stay.push(self.migrate(lpa, piece, TxId::NONE));
        }
    }

    /// The page below cannot be read, and the log has no room for its lines: they become a flash page, and
    /// the page's other lines are given up.
    fn write_without_rest(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: u32,
        cause: Cause,
        pieces: &[Piece],
    ) -> Result<Nanos, DriveError> {
        if !self.given_up.has_room_for(lpa) {
            return Err(DriveError::Unreadable(lpa as u64));
        }
        let (mut page, lines) = (Page::ZERO, pieces.iter().fold(0, |m, p| m | p.mask()));
        self.overlay(&mut page, pieces);
        let at = Lpa(lpa as u64);
        let done = be.write(t, at, page, cause)?;
        self.counters.lines_given_up += (!lines & !self.given_up.of(lpa)).count_ones() as u64;
        self.give_up(at, !lines);
        self.count_cleaned(lines, cause);
        Ok(done)
    }

    /// Moves a piece to the active half.
    fn migrate(&mut self, lpa: u32, piece: Piece, tx: TxId) -> Piece {
        let mut data = [0; PAGE_SIZE];
        let data = &mut data[..piece.lines as usize * LINE_SIZE];
        data.copy_from_slice(self.data(&piece));
        let number = self.regions[self.active].append(lpa, piece.first, data, MIGRATED, tx);
        self.counters.entries_migrated += 1;
        Piece { entry: EntryRef::new(self.active, false, number), ..piece }
    }

    /// Cleans the whole log: both halves, in turn.
    ///
    /// # Errors
    /// Flash errors.
    pub fn settle(&mut self, be: &mut Backend, now: Nanos) -> Result<Nanos, DriveError> {
        self.clean_everything(be, now, Cause::LogCleaning)
    }

    pub(super) fn clean_everything(
        &mut self,
        be: &mut Backend,
        now: Nanos,
        cause: Cause,
    ) -> Result<Nanos, DriveError> {
        if let Some(c) = &mut self.cleaning {
            c.cause = cause;
        }
        let t = self.finish_cleaning(be, now)?;
        if self.regions[self.active].entries() == 0 {
            return Ok(t);
        }
        self.start_cleaning(t, cause);
        self.finish_cleaning(be, t)
    }
}
