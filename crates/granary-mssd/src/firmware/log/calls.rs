//! The log as a firmware: the calls of the drive.

use super::{Log, View, chunks, cleaning, region};
use crate::config::DriveConfig;
use crate::firmware::log::chunks::{EntryRef, Piece};
use crate::firmware::log::region::Region;
use crate::firmware::{Backend, Firmware, Transaction, Transactions};
use crate::saved::layout::Layout;
use granary_device::vendor::transactions::{COMMANDS, Commit, Facts, Recover};
use granary_device::{DriveCounters, DriveError, Vendor};
use granary_flash::Cause;
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, Page, TxId};
use std::any::Any;

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
            // Acknowledged lines move all the same; of the others there has to be room to say that they are
            // gone.
            Err(DriveError::Unreadable(_)) if self.given_up.has_room_for(dst.0 as u32) => {
                (Page::ZERO, t, !covered)
            }
            Err(e) => return Err(e),
        };
        self.overlay(&mut page, &self.found);
        self.counters.line_hits += covered.count_ones() as u64;
        let written = self.write_page(be, read, dst, page)?;
        // Making room for its mark may hand over what has changed: until then `src` has everything that is to
        // be known.
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
