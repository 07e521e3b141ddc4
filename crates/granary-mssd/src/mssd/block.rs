//! The command interface: NVMe, and a firmware's transactions.
//!
//! ```text
//!   read     fetch | processor | flash (merged with the log) | page over the link | completion
//!   write    fetch | processor | data request | pages over the link | slot in the buffer | (program)
//!            | completion
//!   others   fetch | processor | (room in the TxLog, recovery) | completion
//! ```
//!
//! Commands overlap as far as link, processor and flash allow. A multi-page read completes with its last
//! page; pages cross the link as they come from flash. Writes wait for the program where the testbed says so
//! ([`crate::WriteAck`]).

use super::State;
use crate::companion::Seen;
use crate::config::DriveConfig;
use crate::power::Effect;
use granary_device::DriveError;
use granary_device::Structure;
use granary_units::{Lpa, Nanos, PAGE_SIZE, Page, TxId};

impl State {
    #[inline]
    pub(super) fn read(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        lpa: Lpa,
        out: &mut [Page],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        let t = self.inner.accept(c, now);
        let mut last = t;
        self.inner.backend.prefetch_reads(lpa, out.len());
        for (i, page) in out.iter_mut().enumerate() {
            let lpa = lpa.offset(i as u64);
            let (content, ready) = match self.inner.in_flight.seen(lpa) {
                Some(Seen::Content(content)) => (content, t),
                Some(Seen::Of(src)) => {
                    let src = self.newest(src);
                    self.inner.firmware.read_page(&mut self.inner.backend, t, src)?
                }
                None => {
                    let lpa = self.newest(lpa);
                    self.inner.firmware.read_page(&mut self.inner.backend, t, lpa)?
                }
            };
            *page = content;
            last = last.max(self.inner.link.page_out(ready));
        }
        self.inner.traffic.block_read[what as usize] += (out.len() * PAGE_SIZE) as u64;
        self.inner.commands.reads += 1;
        self.inner.commands.read_pages += out.len() as u64;
        Ok(last + c.link.nvme.completion)
    }

    #[inline]
    pub(super) fn write(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        lpa: Lpa,
        pages: &[Page],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.inner.backend.writable()?;
        let t = self.inner.accept(c, now);
        let end = self.inner.link.pages_in(t + c.link.nvme.data_request, pages.len());
        let mut safe = end;
        if self.inner.tracking {
            let room = self.inner.backend.room(end)?;
            let before = self.inner.in_flight.pages();
            safe += self.inner.in_flight.lateness();
            for (i, page) in pages.iter().enumerate() {
                let lpa = lpa.offset(i as u64);
                self.land(lpa, now);
                safe = safe.max(self.inner.backend.acknowledged_by(room, before + i));
                self.inner.in_flight.push(
                    safe + c.link.nvme.completion,
                    Effect::Write(lpa, self.inner.backend.keeping(page)),
                );
            }
        } else {
            for (i, page) in pages.iter().enumerate() {
                let lpa = lpa.offset(i as u64);
                // The pages arrive one after the other; the last one at `end`.
                let left = (pages.len() - 1 - i) as u64;
                let arrived = end - self.inner.link.page_in() * left;
                let page = self.inner.backend.keeping(page);
                let done = self.inner.write_page(self.companion.as_deref_mut(), arrived, lpa, page)?;
                safe = safe.max(done);
                if self.inner.backend.is_publish_due() {
                    self.publish()?;
                }
            }
        }
        self.inner.traffic.block_write[what as usize] += (pages.len() * PAGE_SIZE) as u64;
        self.inner.commands.writes += 1;
        self.inner.commands.write_pages += pages.len() as u64;
        Ok(safe + c.link.nvme.completion)
    }

    /// Everything acknowledged is in battery-backed memory already, unless the cache is volatile: then it
    /// goes to flash.
    pub(super) fn flush(&mut self, c: &DriveConfig, now: Nanos) -> Result<Nanos, DriveError> {
        self.inner.commands.flushes += 1;
        let mut t = self.inner.accept(c, now);
        if c.firmware.volatile_cache {
            t = self.settle_all(t)? + c.firmware.flush_cost;
        }
        Ok(t + c.link.nvme.completion)
    }

    pub(super) fn trim(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        lpa: Lpa,
        count: u64,
    ) -> Result<Nanos, DriveError> {
        self.inner.backend.writable()?;
        let t = self.inner.accept(c, now);
        let mut done = t;
        // mkfs trims the whole drive, and most drives are new then: a look at each of a billion pages takes
        // seconds.
        let count_held =
            if !self.inner.tracking && self.inner.firmware.is_empty() && self.inner.backend.is_empty() {
                0
            } else {
                count
            };
        for i in 0..count_held {
            let lpa = lpa.offset(i);
            if self.inner.tracking {
                self.land(lpa, now);
                self.inner.in_flight.push(t + c.link.nvme.completion, Effect::Trim(lpa));
            } else if self.inner.holds(self.newest(lpa)) {
                done = done.max(self.inner.trim_page(self.companion.as_deref_mut(), t, lpa)?);
                // Each page on its own: a whole drive may be trimmed at once.
                if self.inner.backend.is_publish_due() {
                    self.publish()?;
                }
            }
        }
        self.inner.commands.trim_pages += count;
        Ok(done + c.link.nvme.completion)
    }

    pub(super) fn commit(&mut self, c: &DriveConfig, now: Nanos, tx: TxId) -> Result<Nanos, DriveError> {
        let t = self.inner.accept(c, now);
        let Some(log) = self.inner.firmware.transactions() else {
            return Err(DriveError::Unsupported("transactions"));
        };
        let in_log = log.commit_room(&mut self.inner.backend, t, tx)?;
        let done = (in_log + c.link.nvme.completion).max(self.committed);
        self.committed = done;
        if self.inner.tracking {
            self.inner.in_flight.push(done, Effect::Commit(tx));
        } else {
            log.commit(&mut self.inner.backend, in_log, tx)?;
        }
        self.inner.commands.commits += 1;
        Ok(done)
    }

    pub(super) fn recover(&mut self, c: &DriveConfig, now: Nanos) -> Result<Nanos, DriveError> {
        let t = self.inner.accept(c, now).max(self.inner.in_flight.last());
        self.acknowledge(t);
        let Some(log) = self.inner.firmware.transactions() else {
            return Err(DriveError::Unsupported("transactions"));
        };
        let done = log.recover(&mut self.inner.backend, t)?;
        self.inner.commands.recovers += 1;
        Ok(done + c.link.nvme.completion)
    }
}
