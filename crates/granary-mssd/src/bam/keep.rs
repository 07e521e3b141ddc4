//! Second names of pages: REMAP keep, BAM_NAMES, and what every other access owes to them.
//!
//! ```text
//!   REMAP keep   fetch | processor: command + per page two entries of each map and a name | completion
//!   BAM_NAMES    fetch | processor: command + an entry for each name
//!                | names over the link as pages, 8 B each | completion
//!
//!   read   ── newest ──> the page under its newest name
//!   write  ── release ──> an older name ends; the newest name's page goes to the name before it
//!   store of a part ── part ──> the same, after the page has been copied: it has a page of its own then
//! ```
//!
//! Like REMAP, REMAP keep is carried out one at a time. Its changes are kept together until all are done, so
//! an image has all of it or nothing; in flight it lands whole or not at all ([`super::pending`]).
//!
//! Only beside a page cache: the lines of a write log belong to one name.
//!
//! Source: PebbleSSD section 4.2.1; that the old name stays is what a log cleaner needs before its
//! checkpoint.

use super::Bam;
use super::names::Role;
use super::pending::Change;
use crate::config::DriveConfig;
use crate::mssd::Controller;
use granary_device::{BamName, DriveError, RemapRange};
use granary_units::{Lpa, Nanos};

/// Bytes of a name on its way to the host: two pages.
const NAME_SIZE: usize = 8;

impl Bam {
    fn role(&self, lpa: Lpa) -> Role {
        if self.names.is_empty() { Role::Alone } else { self.names.role(lpa) }
    }

    /// [`Companion::release`](crate::Companion::release).
    pub(super) fn release_name(
        &mut self,
        drive: &mut Controller,
        t: Nanos,
        lpa: Lpa,
    ) -> Result<Nanos, DriveError> {
        let (mut done, role) = (t, self.role(lpa));
        let ended = match role {
            Role::Alone => return Ok(t),
            Role::Older(_) => lpa,
            Role::Newest(before) => {
                done = drive.firmware.remap(&mut drive.backend, t, lpa, before)?.0;
                before
            }
        };
        self.end_name(drive, lpa, ended);
        Ok(done)
    }

    /// [`Companion::part`](crate::Companion::part).
    pub(super) fn part_from_names(
        &mut self,
        drive: &mut Controller,
        t: Nanos,
        lpa: Lpa,
    ) -> Result<Nanos, DriveError> {
        let (from, to) = match self.role(lpa) {
            Role::Alone => return Ok(t),
            Role::Older(newest) => (newest, lpa),
            Role::Newest(before) => (lpa, before),
        };
        let (page, read) = drive.firmware.read_page(&mut drive.backend, t, from)?;
        let done = drive.firmware.write_page(&mut drive.backend, read, to, page)?;
        self.end_name(drive, lpa, to);
        Ok(done)
    }

    /// The older name `ended` of a page ends. Where the page's content is leaving `lpa`, it has what is known
    /// of that.
    fn end_name(&mut self, drive: &mut Controller, lpa: Lpa, ended: Lpa) {
        self.names.end(ended);
        self.counters.names_ended += 1;
        if ended != lpa {
            self.moved(lpa, ended);
            self.names.lead(lpa, ended);
        }
        drive.save(self);
    }

    pub(super) fn remap_keep(
        &mut self,
        drive: &mut Controller,
        c: &DriveConfig,
        now: Nanos,
        ranges: &[RemapRange],
    ) -> Result<Nanos, DriveError> {
        if self.names.most() == 0 {
            return Err(DriveError::Unsupported("REMAP keep command"));
        }
        drive.backend.writable()?;
        let pages = ranges.iter().map(|r| r.count).sum::<u64>();
        if !self.names.has_room_for(names_on_their_way(drive) + pages) {
            // A reset may be on its way, and not each of them need have made a name.
            drive.land_own(Some(self), now);
            if !self.names.has_room_for(pages) {
                return Err(DriveError::BamFull("names"));
            }
        }
        let begin = (now + c.link.nvme.fetch).max(self.remapped);
        let work = c.firmware.command_cost + (self.remap_cost + self.entry_cost) * pages;
        let t = drive.backend.cores.serve(begin, work);
        self.remapped = t;
        let mut done = t;
        if drive.tracking {
            for r in ranges {
                for i in 0..r.count {
                    drive.land(Some(self), r.src.offset(i), now);
                    drive.land(Some(self), r.dst.offset(i), now);
                }
            }
            drive.defer(t + c.link.nvme.completion, Change::Keep(ranges.into()));
        } else {
            done = self.keep_pages(drive, t, ranges)?;
        }
        self.counters.keeps += 1;
        Ok(done + c.link.nvme.completion)
    }

    /// Gives pages second names; returns when all have them.
    pub(super) fn keep_pages(
        &mut self,
        drive: &mut Controller,
        t: Nanos,
        ranges: &[RemapRange],
    ) -> Result<Nanos, DriveError> {
        let mut done = t;
        for &RemapRange { src, dst, count } in ranges.iter().filter(|r| r.src != r.dst) {
            for i in 0..count {
                let i = if dst > src { count - 1 - i } else { i };
                done = done.max(self.keep(drive, t, src.offset(i), dst.offset(i))?);
            }
        }
        Ok(done)
    }

    /// `dst` is the newest name of what is read under `src`.
    fn keep(&mut self, drive: &mut Controller, t: Nanos, src: Lpa, dst: Lpa) -> Result<Nanos, DriveError> {
        if self.names.newest(src) == dst {
            return Ok(t);
        }
        let released = self.release_name(drive, t, dst)?;
        let page = self.names.newest(src);
        if !drive.has_content(page) {
            return if drive.holds(dst) { drive.trim_page(Some(self), t, dst) } else { Ok(released) };
        }
        let (done, _) = drive.firmware.remap(&mut drive.backend, released, page, dst)?;
        self.moved(page, dst);
        self.names.lead(page, dst);
        self.names.rename(page, dst);
        self.counters.names += 1;
        drive.save(self);
        Ok(done)
    }

    pub(super) fn bam_names(
        &mut self,
        drive: &mut Controller,
        c: &DriveConfig,
        now: Nanos,
        out: &mut Vec<BamName>,
    ) -> Result<Nanos, DriveError> {
        if self.names.most() == 0 {
            return Err(DriveError::Unsupported("BAM_NAMES command"));
        }
        drive.land_own(Some(self), now);
        let given = self.names.len();
        self.names.read(out);
        self.counters.name_reads += 1;
        let ready = drive.accept_with(c, now, self.entry_cost * given as u64);
        Ok(drive.give_pages(ready, given * NAME_SIZE) + c.link.nvme.completion)
    }
}

/// Pages that are about to get second names.
fn names_on_their_way(drive: &Controller) -> u64 {
    let pages = |change: &Change| match change {
        Change::Keep(ranges) => ranges.iter().map(|r| r.count).sum(),
        _ => 0,
    };
    drive.deferred().filter_map(Change::of).map(pages).sum()
}
