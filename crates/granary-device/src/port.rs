//! [`Port`]: a file system's blocking view of a drive, with the host's costs charged.
//!
//! ```text
//!   read/write:  cpu(bio, DMA mapping, NVMe) -> Drive::submit -> sleep until completion
//!                -> cpu(completion, context switch)
//!   FLUSH, TRIM carry no data: no DMA mapping.  Vendor commands say themselves what they cost (vendor.rs).
//!   submit_*:    the same without the wait; Port::wait ends it
//! ```
//!
//! load, store, stream, write-back and verify read hold the core that executes them until they are done, so
//! nobody else runs on it meanwhile. A load from a device stalls its core, a fence waits for everything
//! before it. A task that waits for a command's completion sleeps, and the core is free.
//!
//! Before a command is submitted, and before a load or store, the caller may be set aside where a test asks
//! for that ([`granary_sim::preempt`]). The caller's earlier lookups must still hold then.
//!
//! Transfers larger than the drive's limit are split; the parts are in flight together.

use crate::drive::{Command, Drive, DriveError, DriveInfo, Streamed};
use crate::structure::Structure;
use crate::vendor::Vendor;
use granary_sim::{core, costs, cpu, hold, now, preempt, quiet_until, sleep_until};
use granary_units::{ByteAddr, Lpa, Nanos, Page, TxId};
use std::sync::Arc;

/// Commands in flight; to be given to [`Port::wait`].
#[must_use = "nothing is safe before the command completed: wait for it"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    done: Nanos,
    commands: u64,
}

impl Ticket {
    /// Nothing in flight.
    pub const NONE: Ticket = Ticket { done: Nanos::ZERO, commands: 0 };

    /// When the last of the commands completes.
    pub fn done(self) -> Nanos {
        self.done
    }

    /// Both.
    pub fn and(self, other: Ticket) -> Ticket {
        Ticket { done: self.done.max(other.done), commands: self.commands + other.commands }
    }
}

/// Holds a core until what `op` began at the instant that it is told is done.
#[inline]
fn stall(op: impl FnOnce(Nanos) -> Result<Nanos, DriveError>) -> Result<(), DriveError> {
    preempt();
    hold(op, |done| done.as_ref().map_or(Nanos::ZERO, |&t| t)).map(drop)
}

/// A drive as a file system uses it.
#[derive(Clone)]
pub struct Port {
    drive: Arc<dyn Drive>,
    info: DriveInfo,
}

impl Port {
    /// A port to `drive`.
    pub fn new(drive: Arc<dyn Drive>) -> Port {
        let info = drive.info();
        Port { drive, info }
    }

    /// The drive behind the port.
    pub fn drive(&self) -> &Arc<dyn Drive> {
        &self.drive
    }

    /// Pages that the drive has now: it may have grown since the port was made.
    pub fn pages(&self) -> u64 {
        self.drive.info().pages
    }

    /// Capacity and features, as they were when the port was made.
    pub fn info(&self) -> DriveInfo {
        self.info
    }

    fn submit(&self, command: Command<'_>) -> Result<Ticket, DriveError> {
        let c = costs();
        cpu(c.nvme_submit
            + match &command {
                Command::Read { .. } | Command::Write { .. } => c.bio_submit + c.dma_map,
                Command::Flush | Command::Trim { .. } => c.bio_submit,
                Command::Vendor(own) => own.host_cost(c),
            });
        preempt();
        let done = self.drive.submit(now(), command)?;
        Ok(Ticket { done, commands: 1 })
    }

    /// Starts a vendor command; its answer is in it, but must not be used before [`Port::wait`].
    ///
    /// # Errors
    /// [`DriveError::Unsupported`]: the firmware does not know it; else as [`Drive::submit`].
    pub fn submit_vendor(&self, command: &mut dyn Vendor) -> Result<Ticket, DriveError> {
        self.submit(Command::Vendor(command))
    }

    /// Waits until the commands have completed.
    pub fn wait(&self, ticket: Ticket) {
        if ticket.commands > 0 {
            sleep_until(ticket.done);
            let c = costs();
            cpu(c.request_complete * ticket.commands + c.context_switch);
        }
    }

    /// Waits until the commands have completed and what they wrote is safe: on a drive with a volatile cache
    /// a FLUSH follows. It stands where a host sends writes with FUA (force unit access). The block layer of
    /// Linux sends this FLUSH, too, where a drive does not know FUA, and leaves FUA away where there is no
    /// volatile cache (block/blk-flush.c, "post-flush").
    ///
    /// # Errors
    /// Of the FLUSH.
    pub fn wait_safe(&self, ticket: Ticket) -> Result<(), DriveError> {
        self.wait(ticket);
        if ticket.commands > 0 { self.make_safe() } else { Ok(()) }
    }

    /// Makes safe what has completed: a FLUSH where the cache is volatile, nothing where it is not.
    ///
    /// # Errors
    /// Of the FLUSH.
    pub fn make_safe(&self) -> Result<(), DriveError> {
        // A write with FUA is one bio: where the cache is not volatile it has no flush at all.
        if self.info.volatile_cache { self.flush() } else { Ok(()) }
    }

    /// Starts reading pages; the content is in `out` but must not be used before [`Port::wait`].
    ///
    /// # Errors
    /// As [`Drive::submit`], here and below.
    pub fn submit_read(&self, lpa: Lpa, out: &mut [Page], what: Structure) -> Result<Ticket, DriveError> {
        let max = self.info.max_transfer;
        let mut all = Ticket::NONE;
        for (i, part) in out.chunks_mut(max).enumerate() {
            let lpa = lpa.offset((i * max) as u64);
            all = all.and(self.submit(Command::Read { lpa, out: part, what })?);
        }
        Ok(all)
    }

    /// Starts writing pages.
    pub fn submit_write(&self, lpa: Lpa, pages: &[Page], what: Structure) -> Result<Ticket, DriveError> {
        let max = self.info.max_transfer;
        let mut all = Ticket::NONE;
        for (i, part) in pages.chunks(max).enumerate() {
            let lpa = lpa.offset((i * max) as u64);
            all = all.and(self.submit(Command::Write { lpa, pages: part, what })?);
        }
        Ok(all)
    }

    /// Reads pages.
    pub fn read(&self, lpa: Lpa, out: &mut [Page], what: Structure) -> Result<(), DriveError> {
        let t = self.submit_read(lpa, out, what)?;
        self.wait(t);
        Ok(())
    }

    /// Writes pages with FUA: they are safe when this returns ([`Port::wait_safe`]).
    pub fn write_safe(&self, lpa: Lpa, pages: &[Page], what: Structure) -> Result<(), DriveError> {
        let t = self.submit_write(lpa, pages, what)?;
        self.wait_safe(t)
    }

    /// Writes pages; they are safe when this returns, on a drive with a volatile cache after the next FLUSH.
    pub fn write(&self, lpa: Lpa, pages: &[Page], what: Structure) -> Result<(), DriveError> {
        let t = self.submit_write(lpa, pages, what)?;
        self.wait(t);
        Ok(())
    }

    /// Makes safe what has completed. A drive without a volatile cache gets no FLUSH: the block layer of
    /// Linux ends an empty flush to such a drive by itself (block/blk-core.c, `submit_bio_noacct`), which
    /// costs the bio alone.
    pub fn flush(&self) -> Result<(), DriveError> {
        if !self.info.volatile_cache {
            cpu(costs().bio_submit);
            return Ok(());
        }
        let t = self.submit(Command::Flush)?;
        self.wait(t);
        Ok(())
    }

    /// Tells the drive that pages are no longer needed. Not waited for: a lost trim costs space, not data.
    pub fn trim(&self, lpa: Lpa, count: u64) -> Result<Ticket, DriveError> {
        self.submit(Command::Trim { lpa, count })
    }

    /// Loads bytes through the byte window.
    pub fn load(&self, at: ByteAddr, out: &mut [u8], what: Structure) -> Result<(), DriveError> {
        stall(|now| self.drive.load(now, at, out, what))
    }

    /// Stores bytes and writes their lines back (clwb): on their way to the drive, safe after
    /// [`Port::verify`].
    pub fn store(&self, at: ByteAddr, data: &[u8], tx: TxId, what: Structure) -> Result<(), DriveError> {
        stall(|now| self.drive.store_from(core(), now, at, data, tx, what))?;
        stall(|now| self.drive.flush_lines(now, at, data.len()))
    }

    /// Stores bytes without writing their lines back: to be followed by [`Port::flush_lines`].
    pub fn stage(&self, at: ByteAddr, data: &[u8], tx: TxId, what: Structure) -> Result<(), DriveError> {
        stall(|now| self.drive.store_from(core(), now, at, data, tx, what))
    }

    /// Writes back the lines of several ranges: one clwb per line and a single sfence, so that their way to
    /// the drive overlaps.
    pub fn flush_lines(&self, ranges: impl Iterator<Item = (ByteAddr, usize)>) -> Result<(), DriveError> {
        stall(|now| {
            let mut done = now;
            for (at, len) in ranges {
                done = done.max(self.drive.flush_lines(now, at, len)?);
            }
            Ok(done)
        })
    }

    /// Non-temporal stores to a page, see [`Drive::stream`]: safe after [`Port::verify`].
    pub fn stream(
        &self,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<(), DriveError> {
        stall(|now| self.drive.stream(now, lpa, from, data, what))
    }

    /// Loads the bytes `at..at + len` into the pages that hold them, see [`Drive::load_pages`].
    pub fn load_pages(
        &self,
        at: ByteAddr,
        len: usize,
        out: &mut [Page],
        what: Structure,
    ) -> Result<(), DriveError> {
        stall(|now| self.drive.load_pages(now, at, len, out, what))
    }

    /// Loads runs of whole pages (first page, number of pages) one after the other, see
    /// [`Drive::load_known`], until one holds anything else than `known`. Returns how many were loaded, and
    /// the bits of the changed pages of the last one, which are in `fresh`. Time passes as if each were asked
    /// for by itself; but where nobody else runs before it is there, nobody can tell, and the drive goes on
    /// with the next at once.
    pub fn load_known(
        &self,
        runs: &[(Lpa, usize)],
        known: &[Page],
        fresh: &mut [Page],
        what: Structure,
    ) -> Result<(usize, u64), DriveError> {
        let (mut at, mut pages) = (0, 0);
        loop {
            preempt();
            let load =
                |now| self.drive.load_known(now, &runs[at..], quiet_until(), &known[pages..], fresh, what);
            let chain = hold(load, |chain| chain.done);
            if let Some(e) = chain.failed {
                return Err(e);
            }
            pages += runs[at..at + chain.runs].iter().map(|(_, n)| n).sum::<usize>();
            at += chain.runs;
            if chain.changed != 0 || at == runs.len() {
                return Ok((at, chain.changed));
            }
        }
    }

    /// Write-verify read: everything stored before is safe when this returns.
    pub fn verify(&self) -> Result<(), DriveError> {
        stall(|now| self.drive.verify(now))
    }
}
