//! Loads: which lines come over the bus, when the last one is there, and which cannot be read.
//!
//! A line that the caches hold is taken from there, at no time of its own; the medium has the others. A core
//! gets the first line after its latency and the others as fast as it can ask for them, or as the DIMM sends
//! them where that is slower.
//!
//! A line that cannot be read stays so until it is stored whole; a store to a part of it is an error like a
//! load.

use super::state::{DimmState, byte_of, host, lines_of, page_of};
use crate::caches::Held;
use crate::medium::Medium;
use crate::module::{Picos, nanos, picos};
use granary_device::{DriveError, Structure};
use granary_units::{ByteAddr, LINE_SIZE, LINES_PER_PAGE, Nanos, PAGE_SIZE, Page};

impl<M: Medium> DimmState<M> {
    pub fn load(
        &mut self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        out: &mut [u8],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        if out.is_empty() {
            return Ok(now);
        }
        let (first, end) = lines_of(at, out.len());
        let done = self.load_lines(core, now, first, end, what)?;
        let mut copied = 0;
        while copied < out.len() {
            let here = at.offset(copied as u64);
            let n = (PAGE_SIZE - here.in_page()).min(out.len() - copied);
            let part = &mut out[copied..copied + n];
            self.medium.read(here.lpa().0, here.in_page(), part).map_err(host(here.lpa().0))?;
            copied += n;
        }
        for (line, held) in self.caches.range(first, end) {
            // The part of the wanted bytes that lies in this line.
            let start = line * LINE_SIZE as u64;
            let (from, to) = (at.0.max(start), (at.0 + out.len() as u64).min(start + LINE_SIZE as u64));
            held.overlay((from - start) as usize, &mut out[(from - at.0) as usize..(to - at.0) as usize]);
        }
        Ok(done)
    }

    pub fn load_pages(
        &mut self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        len: usize,
        out: &mut [Page],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        if len == 0 {
            return Ok(now);
        }
        let (first, end) = lines_of(at, len);
        let done = self.load_lines(core, now, first, end, what)?;
        for (page, out) in (at.lpa().0..=page_of(end - 1)).zip(out) {
            *out = self.newest(page)?;
        }
        Ok(done)
    }

    /// The content of a page with what the caches hold of it.
    fn newest(&self, page: u64) -> Result<Page, DriveError> {
        let mut content = self.medium.page(page).map_err(host(page))?;
        let first = page * LINES_PER_PAGE as u64;
        for (line, held) in self.caches.range(first, first + LINES_PER_PAGE as u64) {
            let byte = byte_of(line);
            held.overlay(0, &mut content.bytes_mut()[byte..byte + LINE_SIZE]);
        }
        Ok(content)
    }

    /// The same, or an error where a line of it cannot be read.
    pub fn visible(&self, page: u64) -> Result<Page, DriveError> {
        let first = page * LINES_PER_PAGE as u64;
        self.readable(first, first + LINES_PER_PAGE as u64)?;
        self.newest(page)
    }

    fn readable(&self, first: u64, end: u64) -> Result<(), DriveError> {
        match self.bad.range(first..end).find(|line| !self.is_held_whole(**line)) {
            Some(line) => Err(DriveError::Unreadable(page_of(*line))),
            None => Ok(()),
        }
    }

    /// The way of lines `first..end` to `core`; returns when the last one is there.
    fn load_lines(
        &mut self,
        core: u16,
        now: Nanos,
        first: u64,
        end: u64,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.draw_failures(first, end);
        if !self.bad.is_empty() {
            self.readable(first, end)?;
        }
        let next = std::mem::replace(&mut self.core(core).next, end);
        let (mut at, mut sent, mut last, mut latency) = (first, 0, picos(now), None);
        while at < end {
            // A run of lines of one stripe that the caches do not hold.
            let (dimm, stripe_end) = self.stripe(at);
            let stop = end.min(stripe_end);
            let stop = self.caches.range(at, stop).next().map_or(stop, |(line, _)| line);
            if stop == at {
                at += 1;
                continue;
            }
            let (wait, done) = self.modules[dimm].read(&self.times, now, core, at, stop, at == next);
            latency.get_or_insert(wait);
            last = last.max(done);
            sent += stop - at;
            at = stop;
        }
        if let Some(latency) = latency {
            last = last.max(picos(now) + latency + self.times.core_read * Picos::from(sent - 1));
        }
        self.commands.loads += 1;
        self.commands.load_lines += sent;
        self.counters.cache_hits += end - first - sent;
        self.traffic.byte_read[what as usize] += sent * LINE_SIZE as u64;
        Ok(nanos(last))
    }

    /// Whether the caches hold every byte of a line, so that nobody has to read it.
    pub(super) fn is_held_whole(&self, line: u64) -> bool {
        self.caches.get(line).is_some_and(Held::is_whole)
    }

    /// Finds out which of these lines the media fail to read from now on.
    fn draw_failures(&mut self, first: u64, end: u64) {
        if self.errors.unreadable_ppb == 0 {
            return;
        }
        for line in first..end {
            let cached = self.caches.get(line).is_some();
            if !cached && self.failures.below(1_000_000_000) < u64::from(self.errors.unreadable_ppb) {
                self.bad.insert(line);
            }
        }
    }

    pub fn break_line(&mut self, line: u64) {
        self.bad.insert(line);
    }

    pub fn broken_lines(&self) -> Vec<u64> {
        self.bad.iter().copied().collect()
    }

    pub fn held_lines(&self) -> usize {
        self.caches.len()
    }
}
