//! The cache as a firmware: the calls of the drive.

use super::{Cache, Slot};
use crate::config::DriveConfig;
use crate::firmware::{Backend, Firmware};
use crate::saved::layout::Layout;
use granary_device::{DriveCounters, DriveError, Streamed};
use granary_flash::Cause;
use granary_sim::rng::{Stream, Thing};
use granary_units::{LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, PAGE_SIZE, Page, TxId};

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
        // Counted at the end: a page that cannot be read takes nothing. A store of the whole page needs
        // nothing of the old content, unless power loss may take part of it away.
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
        // Back to what was verified, then forward with those that landed: independent even for one line
        // stored twice.
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
