//! Power loss and RECOVER: the log is read back from its regions and nothing else.
//!
//! ```text
//!   power fails   lines posted but not verified: each lost or not (trailers marked lost, or split)
//!   power on      index = scan(old half: migrated, native; active half: migrated, native)
//!   RECOVER       scan: entries whose TxID is not in the TxLog are dropped
//!                 flush: the rest is cleaned to flash, in parallel over the channels
//!                 both halves and the TxLog are empty afterwards
//! ```
//!
//! Invariants: an entry that was verified and is committed, and not void, is in the index after the scan;
//! scanning twice gives the same. RECOVER may be repeated at any time.
//!
//! Source: ByteFS sections 4.7 and 5.5 (0.9 s load, 2.7 s scan and flush).

use super::chunks::{EntryRef, runs};
use super::index::{Index, LineVersions};
use super::region::{LOST, MIGRATED, Region, Trailer};
use super::{Log, Piece, View};
use crate::firmware::buffer::Backend;
use granary_device::DriveError;
use granary_flash::Cause;
use granary_sim::rng::{Stream, Thing};
use granary_units::{LINES_PER_PAGE, Nanos, TxId};

impl Log {
    /// Whether entries are remembered until they are verified.
    pub fn track(&mut self, on: bool) {
        self.tracking = on;
        self.unverified.clear();
    }

    /// The first `posts` of them have been verified.
    pub fn verified(&mut self, posts: u64) {
        self.unverified.retain(|(n, _)| *n > posts);
    }

    /// Each line posted but not verified is lost or not.
    pub fn power_fail(&mut self, random: &mut Stream) {
        let mut lost = false;
        for (_, entry) in std::mem::take(&mut self.unverified) {
            let t = self.regions[entry.region()].trailer(entry.number());
            let all = super::chunks::mask(0, t.lines as usize);
            let line = u64::from(t.lpa) * LINES_PER_PAGE as u64 + t.first as u64;
            let landed = random.fate(Thing::Line("logged", line), all, |random| {
                let landed = random.next_u64() & all;
                if landed == all || landed == 0 || self.is_alone(entry, t) {
                    return landed;
                }
                // Splitting moves the parts behind what came later; where that matters, all lines share one
                // fate.
                if random.chance(0.5) { all } else { 0 }
            }) & all;
            if landed != all {
                self.lose(entry, t, landed);
                lost = true;
            }
        }
        if lost {
            // The versions that the lost lines had superseded are current again.
            self.scan();
        }
    }

    /// Whether the index holds the entry whole and nothing else on its lines.
    fn is_alone(&self, entry: EntryRef, t: Trailer) -> bool {
        let mut all = Vec::new();
        self.index.gather(t.lpa, &mut all);
        let mine = Piece { entry, first: t.first, lines: t.lines };
        all.iter().filter(|p| p.mask() & mine.mask() != 0).all(|p| *p == mine)
    }

    /// Marks an entry as lost but for its lines in `landed` (bit 0 is its first line).
    fn lose(&mut self, entry: EntryRef, t: Trailer, landed: u64) {
        let mut lost = t.lines as u64;
        self.regions[entry.region()].lose(entry.number());
        for (first, lines) in runs(landed) {
            let part = Trailer { first: t.first + first, lines, data: t.data + first as u32, ..t };
            if self.room() >= Region::space(0) && self.regions[entry.region()].append_part(part).is_some() {
                lost -= lines as u64;
            }
        }
        self.counters.lines_lost += lost;
    }

    /// Power is back at `now`, after the DRAM content took `load` to come back.
    pub fn power_on(&mut self, now: Nanos, load: Nanos) {
        self.txlog.reload();
        self.scan();
        if let Some(c) = &mut self.cleaning {
            (c.next, c.batch) = (now, (0, now));
        }
        self.counters.load_time += load;
    }

    /// Builds the index from the regions.
    pub(super) fn scan(&mut self) {
        self.index = Index::new(self.pages, 0);
        self.running.clear();
        self.running_space = 0;
        let view = View { regions: &self.regions, txlog: &self.txlog };
        for (region, migrated) in
            [(1 - self.active, true), (1 - self.active, false), (self.active, true), (self.active, false)]
        {
            let r = &self.regions[region];
            for number in 0..r.entries() {
                let t = r.trailer(number);
                let wanted = (t.flags & MIGRATED != 0) == migrated
                    && t.flags & LOST == 0
                    && t.lpa as u64 >= r.cleaned_below();
                if !wanted {
                    continue;
                }
                if t.lines == 0 {
                    self.index.remove(t.lpa);
                    continue;
                }
                let entry = EntryRef::new(region, !migrated, number);
                self.index.insert(t.lpa, Piece { entry, first: t.first, lines: t.lines }, &view);
                if t.tx != TxId::NONE && !self.txlog.contains(t.tx) {
                    let space = Region::space(t.lines as usize);
                    *self.running.entry(t.tx).or_default() += space;
                    self.running_space += space;
                }
            }
        }
    }

    /// Marks all entries as lost whose transaction has not committed; returns the pages that they are of.
    fn lose_uncommitted(&mut self) -> Vec<u32> {
        let mut pages = Vec::new();
        for r in 0..2 {
            let mut newest = (TxId::NONE, true);
            for number in 0..self.regions[r].entries() {
                // Entries of a transaction follow each other.
                let tx = self.regions[r].tx(number);
                if tx != newest.0 {
                    newest = (tx, tx == TxId::NONE || self.txlog.contains(tx));
                }
                if newest.1 {
                    continue;
                }
                let t = self.regions[r].trailer(number);
                if t.flags & LOST == 0 {
                    self.regions[r].lose(number);
                    self.counters.recovery_dropped += 1;
                    pages.push(t.lpa);
                }
            }
        }
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Takes all lines of these pages out of the index whose transaction has not committed; the versions that
    /// they had superseded are current again, as if the regions had been scanned without them. Returns how
    /// many.
    fn drop_uncommitted(&mut self, pages: &[u32]) -> u64 {
        let mut dropped = 0;
        let mut all = Vec::new();
        for &lpa in pages {
            all.clear();
            self.index.gather(lpa, &mut all);
            let (view, before) = (self.view(), all.len());
            let mut newest = (TxId::NONE, true);
            all.retain(|p: &Piece| {
                let tx = view.tx(p.entry);
                if tx != newest.0 {
                    newest = (tx, view.committed(tx));
                }
                dropped += if newest.1 { 0 } else { p.lines as u64 };
                newest.1
            });
            if all.len() < before {
                self.index.set(lpa, &all);
            }
        }
        self.running.clear();
        self.running_space = 0;
        dropped
    }

    /// RECOVER at `t`; returns when everything committed is in flash.
    ///
    /// # Errors
    /// Flash errors.
    pub fn recover(&mut self, be: &mut Backend, t: Nanos) -> Result<Nanos, DriveError> {
        let _step = granary_sim::step("write log: RECOVER");
        self.unverified.clear();
        let entries: u64 = self.regions.iter().map(|r| r.entries() as u64).sum();
        let scanned = be.cores.serve_ahead(t, self.entry_cost * entries);
        let pages = self.lose_uncommitted();
        self.counters.lines_dropped += self.drop_uncommitted(&pages);
        // One long call that programs many pages: the image may put them where they belong at once.
        self.all_committed = true;
        be.program_many(true);
        let cleaned = self.clean_everything(be, scanned, Cause::Recovery);
        be.program_many(false);
        self.all_committed = false;
        let cleaned = cleaned?;
        self.txlog.purge(self.txlog.len());
        let done = be.drain(cleaned);
        self.counters.recoveries += 1;
        self.counters.recovery_entries += entries;
        self.counters.scan_time += scanned - t;
        self.counters.flush_time += done - scanned;
        Ok(done)
    }
}
