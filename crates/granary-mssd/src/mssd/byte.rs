//! The byte interface: stores through the write-combining buffers, write-verify reads, loads.
//!
//! ```text
//!   store        into the write-combining buffers: no time, unless they are full
//!   flush_lines  first line 0.6 us, further ones as the link takes them ──posted──> firmware
//!   verify       4.8 us, or until the last posted line is in the firmware's hands
//!   load         4.8 us for the first line, further ones as the link brings them; plus flash where the log
//!                misses
//! ```
//!
//! A run of neighbouring lines of one page and one transaction becomes one log entry. A line that was not
//! stored wholly is merged with its present content first (which may read flash; the CPU does not wait for
//! that, the verify does).
//!
//! Source: ByteFS sections 2.1 (Table 1), 4.2, 4.4.

use super::State;
use crate::config::DriveConfig;
use crate::link::wc::{HeldLine, split};
use granary_device::Structure;
use granary_device::{DriveError, Streamed};
use granary_units::{ByteAddr, LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, PAGE_SIZE, Page, TxId};

impl State {
    pub(super) fn store(
        &mut self,
        c: &DriveConfig,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.inner.backend.writable()?;
        self.inner.commands.stores += 1;
        self.inner.firmware.expect(at.lpa());
        let mut t = now;
        for (line, byte, offset, len) in split(at, data.len()) {
            let part = &data[offset..offset + len];
            if let Some(pushed) = self.wc.store(core, c.link.wc_buffers, line, byte, part, tx, what) {
                t = t.max(self.post(c, now, &[pushed])?);
            }
        }
        Ok(t)
    }

    pub(super) fn flush_lines(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        at: ByteAddr,
        len: usize,
    ) -> Result<Nanos, DriveError> {
        if self.wc.is_empty() || len == 0 {
            return Ok(now);
        }
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        self.wc.take(at.line(), at.offset(len as u64 - 1).line() + 1, &mut lines);
        let posted = self.post_all(c, now, &lines);
        let count = lines.len() as u64;
        self.lines = lines;
        if count == 0 {
            return posted;
        }
        Ok(posted?.max(now + c.link.line_write + self.inner.link.line_in() * (count - 1)))
    }

    /// Posts lines in runs; returns when the last one has left the CPU.
    fn post_all(&mut self, c: &DriveConfig, now: Nanos, lines: &[HeldLine]) -> Result<Nanos, DriveError> {
        let mut t = now;
        for run in lines.chunk_by(|a, b| a.joins(b)) {
            t = t.max(self.post(c, now, run)?);
        }
        Ok(t)
    }

    /// Posts a run of lines of one page and one transaction.
    fn post(&mut self, c: &DriveConfig, now: Nanos, run: &[HeldLine]) -> Result<Nanos, DriveError> {
        let mut page = std::mem::take(&mut self.page);
        let posted = self.post_through(c, now, run, &mut page[..run.len() * LINE_SIZE]);
        self.page = page;
        posted
    }

    fn post_through(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        run: &[HeldLine],
        data: &mut [u8],
    ) -> Result<Nanos, DriveError> {
        let (head, n) = (&run[0], run.len());
        let lpa = Lpa(head.line / LINES_PER_PAGE as u64);
        let first = (head.line % LINES_PER_PAGE as u64) as usize;
        if self.inner.tracking {
            self.land(lpa, now);
        }
        let sent = self.inner.link.lines_in(now, n);
        let work = c.firmware.entry_cost + c.firmware.line_cost * n as u64;
        let served = self.inner.backend.cores.serve(sent, work);
        let served = self.part(served, lpa)?;
        let (mut t, merged) = (served, run.iter().filter(|held| !held.is_whole()).count());
        let (firmware, be) = (&mut self.inner.firmware, &mut self.inner.backend);
        let mut overlay = |lines: &mut [u8]| {
            let lines = lines.chunks_exact_mut(LINE_SIZE);
            run.iter().zip(lines).for_each(|(held, line)| held.overlay(line));
        };
        let changed = match merged {
            0 => None,
            _ => firmware.change_lines(be, t, lpa, first, data, merged, &mut overlay),
        };
        let taken = match changed {
            Some(done) => {
                t = done?;
                t
            }
            None => {
                for (i, (held, line)) in run.iter().zip(data.chunks_exact_mut(LINE_SIZE)).enumerate() {
                    if !held.is_whole() {
                        t = t.max(firmware.read_lines(be, t, lpa, first + i, line)?);
                    }
                    held.overlay(line);
                }
                firmware.write_lines(be, t, lpa, first, data, head.tx)?
            }
        };
        self.inner.commands.merged_lines += merged as u64;
        let stalled = (taken > t && self.inner.firmware.stalls_host()).then_some(taken);
        self.inner.link.lines_taken(self.inner.firmware.held_from(served, stalled), n);
        self.posted = self.posted.max(taken);
        for held in run {
            self.inner.traffic.byte_write[held.what as usize] += LINE_SIZE as u64;
        }
        self.inner.commands.posted_lines += n as u64;
        // A log without room takes no more posted writes, and the CPU stalls; a cache that fetches a page
        // does.
        Ok(stalled.unwrap_or(sent))
    }

    /// Non-temporal stores: one run of lines, without a stop in the write-combining buffers.
    pub(super) fn stream(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        if data.len() == 0 {
            return Ok(now);
        }
        self.inner.backend.writable()?;
        let (start, end) = (from / LINE_SIZE, (from + data.len()).div_ceil(LINE_SIZE));
        let (line, n) = (lpa.0 * LINES_PER_PAGE as u64, end - start);
        let mut held = Vec::new();
        self.wc.take(line + start as u64, line + end as u64, &mut held);
        self.post_all(c, now, &held)?;
        if self.inner.tracking {
            self.land(lpa, now);
        }
        let sent = self.inner.link.lines_in(now, n);
        let t = self.inner.backend.cores.serve(sent, c.firmware.entry_cost + c.firmware.line_cost * n as u64);
        let t = self.part(t, lpa)?;
        let (firmware, be) = (&mut self.inner.firmware, &mut self.inner.backend);
        let taken = match firmware.write_part(be, t, lpa, from, data, n) {
            Some(taken) => taken?,
            None => {
                let mut page = std::mem::take(&mut self.page);
                let lines = &mut page[..n * LINE_SIZE];
                let mut read = Ok(t);
                if data.len() < lines.len() {
                    read = firmware.read_lines(be, t, lpa, start, lines);
                }
                let skip = from - start * LINE_SIZE;
                data.copy_to(from, &mut lines[skip..skip + data.len()]);
                let taken = read.and_then(|t| firmware.write_lines(be, t, lpa, start, lines, TxId::NONE));
                self.page = page;
                taken?
            }
        };
        let whole = ((from + data.len()) / LINE_SIZE).saturating_sub(from.div_ceil(LINE_SIZE));
        self.inner.commands.merged_lines += (n - whole) as u64;
        let stalled = (taken > t && self.inner.firmware.stalls_host()).then_some(taken);
        self.inner.link.lines_taken(self.inner.firmware.held_from(t, stalled), n);
        self.posted = self.posted.max(taken);
        self.inner.commands.stores += 1;
        self.inner.commands.posted_lines += n as u64;
        self.inner.traffic.byte_write[what as usize] += (n * LINE_SIZE) as u64;
        Ok(stalled.unwrap_or(sent).max(now + c.link.line_write + self.inner.link.line_in() * (n as u64 - 1)))
    }

    pub(super) fn verify(&mut self, c: &DriveConfig, now: Nanos) -> Nanos {
        let verify = c.link.verify();
        let back = Nanos(verify.0 / 2);
        let done = (now + verify).max(self.posted + back);
        self.inner.commands.verifies += 1;
        if self.inner.tracking {
            self.verifying.push((done, self.inner.firmware.posts()));
        }
        done
    }

    pub(super) fn load(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        at: ByteAddr,
        out: &mut [u8],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.load_with(c, now, at, out.len(), what, |s, t, first, end| {
            let mut page = std::mem::take(&mut s.page);
            let loaded = s.load_lines(t, at, out, first, end, now, &mut page);
            s.page = page;
            loaded
        })
    }

    /// Loads into pages, of which only the lines of the range count.
    pub(super) fn load_pages(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        at: ByteAddr,
        len: usize,
        out: &mut [Page],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        assert!(at.in_page() + len <= out.len() * PAGE_SIZE, "{len} bytes at {at} in {} pages", out.len());
        self.load_with(c, now, at, len, what, |s, t, _, _| {
            let mut ready = t;
            for (i, page) in out.iter_mut().enumerate() {
                let lpa = at.lpa().offset(i as u64);
                if s.inner.tracking {
                    s.land(lpa, now);
                }
                let lpa = s.newest(lpa);
                let (read, done) = s.inner.firmware.read_page(&mut s.inner.backend, t, lpa)?;
                (*page, ready) = (read, ready.max(done));
            }
            Ok(ready)
        })
    }

    /// The way of a load of `len` bytes over the link; `fetch` gets the content: (state, instant, first line,
    /// line after the last) to the instant at which it is there.
    #[inline]
    pub(super) fn load_with(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        at: ByteAddr,
        len: usize,
        what: Structure,
        fetch: impl FnOnce(&mut State, Nanos, u64, u64) -> Result<Nanos, DriveError>,
    ) -> Result<Nanos, DriveError> {
        if len == 0 {
            return Ok(now);
        }
        let (first, end) = (at.line(), at.offset(len as u64 - 1).line() + 1);
        let pushed = if self.wc.is_empty() {
            now
        } else {
            let mut held = Vec::new();
            self.wc.take(first, end, &mut held);
            self.post_all(c, now, &held)?
        };

        let half = Nanos(c.link.line_read.0 / 2);
        let asked = pushed + half;
        let lines = (end - first) as usize;
        let work = c.firmware.entry_cost + c.firmware.line_cost * lines as u64;
        // The 4.8 us contain the firmware's work; waiting for the processor comes on top.
        let start = (self.inner.backend.cores.serve(asked, work) - work).max(self.posted);
        let ready = fetch(self, start, first, end)?;
        let sent = self.inner.link.lines_out(ready, lines);
        let done = sent - self.inner.link.line_out() + (c.link.line_read - half);
        let done = match c.link.load_lines {
            0 => done,
            // So many at a time are under way, each for a line's latency.
            n => done.max(pushed + c.link.line_read * lines.div_ceil(n) as u64),
        };

        self.inner.traffic.byte_read[what as usize] += (lines * LINE_SIZE) as u64;
        self.inner.commands.loads += 1;
        self.inner.commands.load_lines += lines as u64;
        if self.inner.tracking {
            self.verifying.push((done, self.inner.firmware.posts()));
        }
        Ok(done)
    }

    /// Reads lines `first..end` page by page and copies the wanted bytes out; returns when the last is there.
    fn load_lines(
        &mut self,
        t: Nanos,
        at: ByteAddr,
        out: &mut [u8],
        first: u64,
        end: u64,
        now: Nanos,
        buffer: &mut [u8],
    ) -> Result<Nanos, DriveError> {
        let mut ready = t;
        let mut line = first;
        while line < end {
            let lpa = Lpa(line / LINES_PER_PAGE as u64);
            let in_page = (line % LINES_PER_PAGE as u64) as usize;
            let n = (LINES_PER_PAGE - in_page).min((end - line) as usize);
            if self.inner.tracking {
                self.land(lpa, now);
            }
            let lpa = self.newest(lpa);
            let got = &mut buffer[..n * LINE_SIZE];
            ready =
                ready.max(self.inner.firmware.read_lines(&mut self.inner.backend, t, lpa, in_page, got)?);
            // The part of the wanted range that lies in these lines.
            let start = line * LINE_SIZE as u64;
            let from = at.0.max(start);
            let to = (at.0 + out.len() as u64).min(start + got.len() as u64);
            out[(from - at.0) as usize..(to - at.0) as usize]
                .copy_from_slice(&got[(from - start) as usize..(to - start) as usize]);
            line += n as u64;
        }
        Ok(ready)
    }

    /// Write-combining lines of a power failure: each is posted in the last moment, or gone.
    pub(super) fn post_survivors(&mut self, c: &DriveConfig, now: Nanos, mut lands: impl FnMut(u64) -> bool) {
        let mut held = Vec::new();
        self.wc.take(0, u64::MAX, &mut held);
        for line in held {
            // A line that the drive refuses is lost like any other.
            if lands(line.line) && self.post(c, now, std::slice::from_ref(&line)).is_err() {
                continue;
            }
        }
    }
}
