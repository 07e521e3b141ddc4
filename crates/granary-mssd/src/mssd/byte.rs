//! The byte interface: stores through the write-combining buffers, write-verify reads, loads.
//!
//! ```text
//!   store        into the write-combining buffers: no time, unless they are full
//!   flush_lines  first line 0.6 us, further ones as the link takes them ──posted──> firmware
//!   verify       4.8 us, or until the last posted line is in the firmware's hands
//!   load         4.8 us for the first line, further ones as the link brings them; plus flash where the log misses
//! ```
//!
//! A run of neighbouring lines of one page and one transaction becomes one log entry. A line that was not stored wholly
//! is merged with its present content first (which may read flash; the CPU does not wait for that, the verify does).
//!
//! Source: ByteFS sections 2.1 (Table 1), 4.2, 4.4.

use super::State;
use crate::config::DriveConfig;
use crate::drive::DriveError;
use crate::firmware::Firmware;
use crate::link::wc::{HeldLine, split};
use crate::structure::Structure;
use granary_units::{ByteAddr, LINE_SIZE, LINES_PER_PAGE, Lpa, Nanos, TxId};

impl State {
    pub(super) fn store(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.backend.writable()?;
        self.commands.stores += 1;
        let mut t = now;
        for (line, byte, offset, len) in split(at, data.len()) {
            let part = &data[offset..offset + len];
            if let Some(pushed) = self.wc.store(c.link.wc_buffers, line, byte, part, tx, what) {
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
        Ok(posted?.max(now + c.link.line_write + self.link.line_in() * (count - 1)))
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
        if self.tracking {
            self.land(lpa, now);
        }
        let sent = self.link.lines_in(now, n);
        let work = c.firmware.entry_cost + c.firmware.line_cost * n as u64;
        let mut t = self.cores.serve(sent, work);

        for (i, (held, to)) in run.iter().zip(data.chunks_exact_mut(LINE_SIZE)).enumerate() {
            if held.is_whole() {
                to.copy_from_slice(&held.data);
                continue;
            }
            t = t.max(self.firmware.read_lines(&mut self.backend, t, lpa, first + i, to)?);
            for (b, to) in to.iter_mut().enumerate().filter(|(b, _)| held.mask >> b & 1 == 1) {
                *to = held.data[b];
            }
            self.commands.merged_lines += 1;
        }
        let taken = self.firmware.write_lines(&mut self.backend, t, lpa, first, data, head.tx)?;
        self.posted = self.posted.max(taken);
        for held in run {
            self.traffic.byte_write[held.what as usize] += LINE_SIZE as u64;
        }
        self.commands.posted_lines += n as u64;
        // A log without room takes no more posted writes, and the CPU stalls; a cache that fetches a page does.
        let stalled = taken > t && matches!(self.firmware, Firmware::Log(_));
        Ok(if stalled { taken } else { sent })
    }

    pub(super) fn verify(&mut self, c: &DriveConfig, now: Nanos) -> Nanos {
        let verify = c.link.verify();
        let back = Nanos(verify.0 / 2);
        let done = (now + verify).max(self.posted + back);
        self.commands.verifies += 1;
        if self.tracking {
            self.verifying.push((done, self.firmware.posts()));
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
        if out.is_empty() {
            return Ok(now);
        }
        let (first, end) = (at.line(), at.offset(out.len() as u64 - 1).line() + 1);
        let mut held = Vec::new();
        self.wc.take(first, end, &mut held);
        let pushed = self.post_all(c, now, &held)?;

        let half = Nanos(c.link.line_read.0 / 2);
        let asked = pushed + half;
        let lines = (end - first) as usize;
        let work = c.firmware.entry_cost + c.firmware.line_cost * lines as u64;
        // The 4.8 us contain the firmware's work; waiting for the processor comes on top.
        let start = (self.cores.serve(asked, work) - work).max(self.posted);
        let mut page = std::mem::take(&mut self.page);
        let loaded = self.load_lines(start, at, out, first, end, now, &mut page);
        self.page = page;
        let ready = loaded?;
        let sent = self.link.lines_out(ready, lines);
        let done = sent - self.link.line_out() + (c.link.line_read - half);

        self.traffic.byte_read[what as usize] += (lines * LINE_SIZE) as u64;
        self.commands.loads += 1;
        self.commands.load_lines += lines as u64;
        if self.tracking {
            self.verifying.push((done, self.firmware.posts()));
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
            if self.tracking {
                self.land(lpa, now);
            }
            let got = &mut buffer[..n * LINE_SIZE];
            ready = ready.max(self.firmware.read_lines(&mut self.backend, t, lpa, in_page, got)?);
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
    pub(super) fn post_survivors(&mut self, c: &DriveConfig, now: Nanos, mut lands: impl FnMut() -> bool) {
        let mut held = Vec::new();
        self.wc.take(0, u64::MAX, &mut held);
        for line in held {
            // A line that the drive refuses is lost like any other.
            if lands() && self.post(c, now, std::slice::from_ref(&line)).is_err() {
                continue;
            }
        }
    }
}
