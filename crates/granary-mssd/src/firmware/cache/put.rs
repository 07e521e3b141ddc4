//! Lines that are put into pages.

use super::{Cache, PATIENCE};
use crate::firmware::{Backend, Firmware};
use granary_device::{DriveError, Streamed};
use granary_units::{LINE_SIZE, Lpa, Nanos, Payload, TxId};

impl Cache {
    pub(super) fn put_lines(&mut self, slot: u32, first: usize, data: &[u8]) {
        let s = &mut self.slots[slot as usize];
        s.page.write(first * LINE_SIZE, Payload::Bytes(data));
        self.counters.dirtied += !s.dirty as u64;
        s.dirty = true;
        self.save(slot, Some((first * LINE_SIZE, data)));
        self.counters.lines += (data.len() / LINE_SIZE) as u64;
    }

    /// Sets a line of a page that may have been evicted. Where the page cannot be read any more, it stays as
    /// it is: lines that were posted to it count as landed.
    pub(super) fn put_line(
        &mut self,
        be: &mut Backend,
        now: Nanos,
        lpa: Lpa,
        line: usize,
        data: &[u8],
    ) -> Result<(), DriveError> {
        for _ in 0..PATIENCE {
            match self.write_lines(be, now, lpa, line, data, TxId::NONE) {
                Err(DriveError::Unreadable(_)) => {}
                other => {
                    other?;
                    self.counters.lines -= 1;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Takes a part of a page that arrived at `t` in `lines` lines; not while posted lines are tracked.
    pub(super) fn put_part(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        lines: usize,
    ) -> Result<Nanos, DriveError> {
        let done = match data {
            Streamed::Page(page) => self.take_page(be, t, lpa, page.clone())?,
            Streamed::Part(p) => {
                let (slot, done) = self.fetch(be, t, lpa)?;
                let s = &mut self.slots[slot as usize];
                s.page.write(from, p);
                self.counters.dirtied += !s.dirty as u64;
                s.dirty = true;
                let bytes = match p {
                    Payload::Bytes(bytes) => Some((from, bytes)),
                    _ => None,
                };
                self.save(slot, bytes);
                done
            }
        };
        self.counters.lines += lines as u64;
        Ok(done)
    }
}
