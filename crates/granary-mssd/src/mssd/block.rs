//! The command interface: NVMe and the vendor commands.
//!
//! ```text
//!   read     fetch | processor | flash (merged with the log) | page over the link | completion
//!   write    fetch | processor | data request | pages over the link | slot in the buffer | (program) | completion
//!   others   fetch | processor | (room in the TxLog, recovery) | completion
//! ```
//!
//! Commands overlap as far as link, processor and flash allow. A multi-page read completes with its last page; pages cross
//! the link as they come from flash. Writes wait for the program where the testbed says so ([`crate::WriteAck`]).

use super::State;
use crate::config::DriveConfig;
use crate::power::{Effect, Seen};
use granary_device::DriveError;
use granary_device::Structure;
use granary_units::{Lpa, Nanos, PAGE_SIZE, Page, TxId};

impl State {
    /// When the firmware has read the command and worked on it.
    #[inline]
    pub(super) fn accept(&mut self, c: &DriveConfig, now: Nanos) -> Nanos {
        self.accept_with(c, now, Nanos::ZERO)
    }

    /// The same with `more` work.
    #[inline]
    pub(super) fn accept_with(&mut self, c: &DriveConfig, now: Nanos, more: Nanos) -> Nanos {
        let now = self.queue.place(now);
        self.backend.cores.serve(now + c.link.nvme.fetch, c.firmware.command_cost + more)
    }

    #[inline]
    pub(super) fn read(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        lpa: Lpa,
        out: &mut [Page],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        let t = self.accept(c, now);
        let mut last = t;
        self.backend.prefetch_reads(lpa, out.len());
        for (i, page) in out.iter_mut().enumerate() {
            let lpa = lpa.offset(i as u64);
            let (content, ready) = match self.in_flight.seen(lpa) {
                Some(Seen::Content(content)) => (content, t),
                Some(Seen::Of(src)) => {
                    let src = self.newest(src);
                    self.firmware.read_page(&mut self.backend, t, src)?
                }
                None => {
                    let lpa = self.newest(lpa);
                    self.firmware.read_page(&mut self.backend, t, lpa)?
                }
            };
            *page = content;
            last = last.max(self.link.page_out(ready));
        }
        self.traffic.block_read[what as usize] += (out.len() * PAGE_SIZE) as u64;
        self.commands.reads += 1;
        self.commands.read_pages += out.len() as u64;
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
        self.backend.writable()?;
        let t = self.accept(c, now);
        let end = self.link.pages_in(t + c.link.nvme.data_request, pages.len());
        let mut safe = end;
        if self.tracking {
            let room = self.backend.room(end)?;
            let before = self.in_flight.pages();
            safe += self.in_flight.lateness();
            for (i, page) in pages.iter().enumerate() {
                let lpa = lpa.offset(i as u64);
                self.land(lpa, now);
                safe = safe.max(self.backend.acknowledged_by(room, before + i));
                self.in_flight
                    .push(safe + c.link.nvme.completion, Effect::Write(lpa, self.backend.keeping(page)));
            }
        } else {
            for (i, page) in pages.iter().enumerate() {
                let lpa = lpa.offset(i as u64);
                // The pages arrive one after the other; the last one at `end`.
                let left = (pages.len() - 1 - i) as u64;
                let arrived = end - self.link.page_in() * left;
                let page = self.backend.keeping(page);
                let done = self.write_page(arrived, lpa, page)?;
                safe = safe.max(done);
                if self.backend.is_publish_due() {
                    self.publish()?;
                }
            }
        }
        self.traffic.block_write[what as usize] += (pages.len() * PAGE_SIZE) as u64;
        self.commands.writes += 1;
        self.commands.write_pages += pages.len() as u64;
        Ok(safe + c.link.nvme.completion)
    }

    /// Everything acknowledged is in battery-backed memory already, unless the cache is volatile: then it goes to flash.
    pub(super) fn flush(&mut self, c: &DriveConfig, now: Nanos) -> Result<Nanos, DriveError> {
        self.commands.flushes += 1;
        let mut t = self.accept(c, now);
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
        self.backend.writable()?;
        let t = self.accept(c, now);
        let mut done = t;
        // mkfs trims the whole drive, and most drives are new then: a look at each of a billion pages takes seconds.
        let count_held =
            if !self.tracking && self.firmware.is_empty() && self.backend.is_empty() { 0 } else { count };
        for i in 0..count_held {
            let lpa = lpa.offset(i);
            if self.tracking {
                self.land(lpa, now);
                self.in_flight.push(t + c.link.nvme.completion, Effect::Trim(lpa));
            } else if self.holds(self.newest(lpa)) {
                done = done.max(self.trim_page(t, lpa)?);
                // Each page on its own: a whole drive may be trimmed at once.
                if self.backend.is_publish_due() {
                    self.publish()?;
                }
            }
        }
        self.commands.trim_pages += count;
        Ok(done + c.link.nvme.completion)
    }

    /// Drops a page's content, and with it what BAM says of it.
    pub(super) fn trim_page(&mut self, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        let mut done = self.release(t, lpa)?;
        if self.newest(lpa) == lpa {
            done = done.max(self.firmware.trim(&mut self.backend, t, lpa)?);
        }
        if let Some(bam) = &mut self.bam {
            bam.forget(lpa);
        }
        self.save_bam();
        Ok(done)
    }

    pub(super) fn commit(&mut self, c: &DriveConfig, now: Nanos, tx: TxId) -> Result<Nanos, DriveError> {
        let t = self.accept(c, now);
        let Some(log) = self.firmware.transactions() else {
            return Err(DriveError::Unsupported("COMMIT command"));
        };
        let in_log = log.commit_room(&mut self.backend, t, tx)?;
        let done = (in_log + c.link.nvme.completion).max(self.committed);
        self.committed = done;
        if self.tracking {
            self.in_flight.push(done, Effect::Commit(tx));
        } else {
            log.commit(&mut self.backend, in_log, tx)?;
        }
        self.commands.commits += 1;
        Ok(done)
    }

    pub(super) fn recover(&mut self, c: &DriveConfig, now: Nanos) -> Result<Nanos, DriveError> {
        let t = self.accept(c, now).max(self.in_flight.last());
        self.acknowledge(t);
        let Some(log) = self.firmware.transactions() else {
            return Err(DriveError::Unsupported("RECOVER command"));
        };
        let done = log.recover(&mut self.backend, t)?;
        self.commands.recovers += 1;
        Ok(done + c.link.nvme.completion)
    }
}
