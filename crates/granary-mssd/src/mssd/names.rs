//! Second names of pages: REMAP keep, BAM_NAMES, and what every other access owes to them.
//!
//! ```text
//!   REMAP keep   fetch | processor: command + per page two entries of each map and a name | completion
//!   BAM_NAMES    fetch | processor: command + an entry for each name | names over the link as pages, 8 B each | completion
//!
//!   read   ── newest ──> the page under its newest name
//!   write  ── release ──> an older name ends | the newest name's page goes to the name before it
//!   store of a part ── part ──> the same, after the page has been copied: it has a page of its own then
//! ```
//!
//! Like REMAP, REMAP keep is carried out one at a time. What it changes is kept together until all of it is done, so an
//! image has all of it or nothing; in flight it lands whole or not at all ([`crate::power`]).
//!
//! Only beside a page cache: the lines of a write log belong to one name.
//!
//! Source: PebbleSSD section 4.2.1; that the old name stays is what a log cleaner needs before its checkpoint.

use super::State;
use crate::config::DriveConfig;
use crate::firmware::bam::Bam;
use crate::firmware::bam::names::Role;
use crate::power::Effect;
use granary_device::{BamName, DriveError, RemapRange, Structure};
use granary_units::{Lpa, Nanos, PAGE_SIZE, Page};

/// Bytes of a name on its way to the host: two pages.
const NAME_SIZE: usize = 8;

impl State {
    fn named(&mut self) -> Result<&mut Bam, DriveError> {
        self.bam.as_mut().ok_or(DriveError::Unsupported("REMAP keep command"))
    }

    fn role(&self, lpa: Lpa) -> Role {
        match &self.bam {
            Some(bam) if !bam.names().is_empty() => bam.names().role(lpa),
            _ => Role::Alone,
        }
    }

    /// The page under which the firmware has what is read under this name.
    #[inline]
    pub(super) fn newest(&self, lpa: Lpa) -> Lpa {
        self.bam.as_ref().map_or(lpa, |bam| bam.names().newest(lpa))
    }

    /// A page is about to get other content, or none, as a whole: whoever shares its content keeps it.
    pub(super) fn release(&mut self, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        let (mut done, role) = (t, self.role(lpa));
        let ended = match role {
            Role::Alone => return Ok(t),
            Role::Older(_) => lpa,
            Role::Newest(before) => {
                done = self.firmware.remap(&mut self.backend, t, lpa, before)?.0;
                before
            }
        };
        let bam = self.named()?;
        bam.names_mut().end(ended);
        bam.counters_mut().names_ended += 1;
        if ended != lpa {
            bam.moved(lpa, ended);
            bam.names_mut().lead(lpa, ended);
        }
        self.save_bam();
        Ok(done)
    }

    /// A part of a page is about to change: from now on it has its content alone.
    #[inline]
    pub(super) fn part(&mut self, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        if self.bam.is_none() { Ok(t) } else { self.part_from_names(t, lpa) }
    }

    fn part_from_names(&mut self, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        let (from, to) = match self.role(lpa) {
            Role::Alone => return Ok(t),
            Role::Older(newest) => (newest, lpa),
            Role::Newest(before) => (lpa, before),
        };
        let (page, read) = self.firmware.read_page(&mut self.backend, t, from)?;
        let done = self.firmware.write_page(&mut self.backend, read, to, page)?;
        let bam = self.named()?;
        bam.names_mut().end(to);
        bam.counters_mut().names_ended += 1;
        if to != lpa {
            bam.moved(lpa, to);
            bam.names_mut().lead(lpa, to);
        }
        self.save_bam();
        Ok(done)
    }

    /// Takes a whole page.
    #[inline]
    pub(super) fn write_page(&mut self, t: Nanos, lpa: Lpa, page: Page) -> Result<Nanos, DriveError> {
        let t = self.release(t, lpa)?;
        self.firmware.write_page(&mut self.backend, t, lpa, page)
    }

    pub(super) fn remap_keep(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        ranges: &[RemapRange],
    ) -> Result<Nanos, DriveError> {
        let Some(cost) = c.firmware.bam.as_ref().filter(|_| c.firmware.names() > 0) else {
            return Err(DriveError::Unsupported("REMAP keep command"));
        };
        self.backend.writable()?;
        let pages = ranges.iter().map(|r| r.count).sum::<u64>();
        let coming = self.in_flight.names();
        if !self.named()?.names().has_room_for(coming + pages) {
            // A reset may be on its way, and not each of them need have made a name.
            self.land_bam(now);
            if !self.named()?.names().has_room_for(pages) {
                return Err(DriveError::BamFull("names"));
            }
        }
        let begin = (now + c.link.nvme.fetch).max(self.remapped);
        let work = c.firmware.command_cost + (cost.remap_cost + cost.entry_cost) * pages;
        let t = self.backend.cores.serve(begin, work);
        self.remapped = t;
        let mut done = t;
        if self.tracking {
            for r in ranges {
                for i in 0..r.count {
                    self.land(r.src.offset(i), now);
                    self.land(r.dst.offset(i), now);
                }
            }
            self.in_flight.push(t + c.link.nvme.completion, Effect::Keep(ranges.into()));
        } else {
            done = self.keep_pages(t, ranges)?;
        }
        self.named()?.counters_mut().keeps += 1;
        Ok(done + c.link.nvme.completion)
    }

    /// Gives pages second names; returns when all have them.
    pub(super) fn keep_pages(&mut self, t: Nanos, ranges: &[RemapRange]) -> Result<Nanos, DriveError> {
        let mut done = t;
        for &RemapRange { src, dst, count } in ranges.iter().filter(|r| r.src != r.dst) {
            for i in 0..count {
                let i = if dst > src { count - 1 - i } else { i };
                done = done.max(self.keep(t, src.offset(i), dst.offset(i))?);
            }
        }
        Ok(done)
    }

    /// `dst` is the newest name of what is read under `src`.
    fn keep(&mut self, t: Nanos, src: Lpa, dst: Lpa) -> Result<Nanos, DriveError> {
        if self.newest(src) == dst {
            return Ok(t);
        }
        let released = self.release(t, dst)?;
        let page = self.newest(src);
        if !self.has_content(page) {
            return if self.holds(dst) { self.trim_page(t, dst) } else { Ok(released) };
        }
        let (done, _) = self.firmware.remap(&mut self.backend, released, page, dst)?;
        let bam = self.named()?;
        bam.moved(page, dst);
        bam.names_mut().lead(page, dst);
        bam.names_mut().rename(page, dst);
        bam.counters_mut().names += 1;
        self.save_bam();
        Ok(done)
    }

    pub(super) fn bam_names(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        out: &mut Vec<BamName>,
    ) -> Result<Nanos, DriveError> {
        let Some(cost) = c.firmware.bam.as_ref().filter(|_| c.firmware.names() > 0) else {
            return Err(DriveError::Unsupported("BAM_NAMES command"));
        };
        self.land_bam(now);
        let bam = self.named()?;
        let given = bam.names().len();
        bam.names().read(out);
        bam.counters_mut().name_reads += 1;
        let ready = self.accept_with(c, now, cost.entry_cost * given as u64);
        let mut done = ready;
        let pages = (given * NAME_SIZE).div_ceil(PAGE_SIZE);
        for _ in 0..pages {
            done = self.link.page_out(ready);
        }
        self.traffic.block_read[Structure::DataPointer as usize] += (pages * PAGE_SIZE) as u64;
        self.commands.read_pages += pages as u64;
        Ok(done + c.link.nvme.completion)
    }
}
