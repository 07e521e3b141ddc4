//! PebbleSSD's vendor commands: FS_WRITE, REMAP, BAM_RESET, BAM_READ.
//!
//! ```text
//!   FS_WRITE   fetch | processor: command + entries | data request | pages over the link | slot, entry
//!              | completion
//!   REMAP      fetch | processor: command + two entries of each map per page | completion
//!   BAM_RESET  fetch | processor | completion
//!   BAM_READ   ... | entries over the link as pages
//! ```
//!
//! REMAPs are carried out one at a time: two entries of each map change together, and those that overlap keep
//! their order. (The paper's remap is 7.7 times as fast as read and write with one thread and 3.7 times with
//! four: it does not scale.)
//!
//! An overlapping REMAP goes through its pages from the end at which none is overwritten before it has been
//! moved.
//!
//! In flight ([`super::pending`]): a page of FS_WRITE lands with its entry or not at all. REMAP lands whole
//! or not at all: the firmware notes the command in its persistent memory before it changes the first entry.
//! At power-up it carries out a command that it finds there. Changes of the file tables land in order of
//! submission.
//!
//! Source: PebbleSSD Table 1, sections 4.2 and 5.2.

use super::pending::Change;
use super::saved::Moving;
use super::{Bam, FileBlock};
use crate::config::DriveConfig;
use crate::mssd::Controller;
use granary_device::{BamEntry, DriveError, Structure};
use granary_units::{Lpa, Nanos, PAGE_SIZE, Page};

/// Bytes of an entry on its way to the host: inode number, offset, page.
const ENTRY_SIZE: usize = 16;

impl Bam {
    pub(super) fn fs_write(
        &mut self,
        drive: &mut Controller,
        c: &DriveConfig,
        now: Nanos,
        lpa: Lpa,
        pages: &[Page],
        block: FileBlock,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        drive.backend.writable()?;
        let n = pages.len();
        let cost = self.entry_cost;
        self.reserve(drive, now, block.ino, n)?;
        let t = drive.accept_with(c, now, cost * n as u64);
        let end = drive.link.pages_in(t + c.link.nvme.data_request, n);
        let mut safe = end;
        let (mut room, before) = (end, drive.in_flight.pages());
        if drive.tracking {
            room = drive.backend.room(end)?;
        }
        for (i, page) in (0..).zip(pages) {
            let (lpa, offset) = (lpa.offset(i), block.offset + i as u32);
            let block = FileBlock { offset, end: block.end.of_page(i as usize, n), ..block };
            if drive.tracking {
                drive.land(Some(self), lpa, now);
                safe = safe.max(drive.backend.acknowledged_by(room, before + i as usize));
                let effect = Change::FsWrite { lpa, page: page.clone(), block };
                drive.defer(safe + c.link.nvme.completion, effect);
            } else {
                let arrived = end - drive.link.page_in() * (n as u64 - 1 - i);
                safe = safe.max(self.take_block(drive, arrived, lpa, page.clone(), block)?);
                if drive.backend.is_publish_due() {
                    drive.publish(Some(self))?;
                }
            }
        }
        drive.traffic.block_write[what as usize] += (n * PAGE_SIZE) as u64;
        drive.commands.writes += 1;
        drive.commands.write_pages += n as u64;
        self.counters.fs_writes += 1;
        Ok(safe + c.link.nvme.completion)
    }

    /// Makes sure that `pages` entries of a file fit, those on their way included.
    fn reserve(
        &mut self,
        drive: &mut Controller,
        now: Nanos,
        ino: u64,
        pages: usize,
    ) -> Result<(), DriveError> {
        let before = blocks_on_their_way(drive);
        let fits = self.room(ino, pages, before);
        if fits.is_ok() {
            return fits;
        }
        // A reset may be on its way, and blocks on theirs need not each open a file of its own.
        drive.land_own(Some(self), now);
        self.room(ino, pages, 0)
    }

    /// Takes a block of a file: its content, then its entry.
    pub(super) fn take_block(
        &mut self,
        drive: &mut Controller,
        t: Nanos,
        lpa: Lpa,
        page: Page,
        block: FileBlock,
    ) -> Result<Nanos, DriveError> {
        let done = drive.write_page(Some(self), t, lpa, page)?;
        self.append(block, lpa);
        drive.save(self);
        Ok(done)
    }

    pub(super) fn remap(
        &mut self,
        drive: &mut Controller,
        c: &DriveConfig,
        now: Nanos,
        src: Lpa,
        dst: Lpa,
        count: u64,
    ) -> Result<Nanos, DriveError> {
        drive.backend.writable()?;
        let cost = self.remap_cost;
        let begin = (now + c.link.nvme.fetch).max(self.remapped);
        let t = drive.backend.cores.serve(begin, c.firmware.command_cost + cost * count);
        self.remapped = t;
        let mut done = t;
        if drive.tracking {
            for i in 0..count {
                drive.land(Some(self), src.offset(i), now);
                drive.land(Some(self), dst.offset(i), now);
            }
            drive.defer(t + c.link.nvme.completion, Change::Remap { src, dst, count });
        } else {
            done = self.move_pages(drive, t, src, dst, count)?;
        }
        self.counters.remaps += 1;
        Ok(done + c.link.nvme.completion)
    }

    /// Moves pages with their entries; returns when all are in their place.
    pub(super) fn move_pages(
        &mut self,
        drive: &mut Controller,
        t: Nanos,
        src: Lpa,
        dst: Lpa,
        count: u64,
    ) -> Result<Nanos, DriveError> {
        if src == dst || count == 0 {
            return Ok(t);
        }
        self.move_rest(drive, t, Moving { src, dst, count, moved: 0 })
    }

    /// The same for the pages that have not been moved yet.
    pub(super) fn move_rest(
        &mut self,
        drive: &mut Controller,
        t: Nanos,
        mut moving: Moving,
    ) -> Result<Nanos, DriveError> {
        let (mut done, Moving { src, dst, count, moved: begin }) = (t, moving);
        self.note(drive, Some(moving));
        for i in begin..count {
            let i = if dst > src { count - 1 - i } else { i };
            let (from, to) = (src.offset(i), dst.offset(i));
            let (moved, copied) = match self.move_page(drive, t, from, to) {
                Ok(moved) => moved,
                Err(e) => {
                    // The host is told; the next opening of the image must not go on with it then.
                    self.note(drive, None);
                    return Err(e);
                }
            };
            done = done.max(moved);
            self.counters.pages_copied += copied as u64;
            self.counters.pages_remapped += !copied as u64;
            moving.moved += 1;
            self.note(drive, (moving.moved < count).then_some(moving));
            if drive.backend.is_publish_due() {
                drive.publish(Some(self))?;
            }
        }
        Ok(done)
    }

    /// Moves one page with its entry and its older names; returns when it is there, and whether it had to be
    /// copied.
    fn move_page(
        &mut self,
        drive: &mut Controller,
        t: Nanos,
        src: Lpa,
        dst: Lpa,
    ) -> Result<(Nanos, bool), DriveError> {
        let t = self.release_name(drive, t, dst)?;
        let t = if self.names.newest(src) == src { t } else { self.part_from_names(drive, t, src)? };
        let moved = drive.firmware.remap(&mut drive.backend, t, src, dst)?;
        self.moved(src, dst);
        self.names.lead(src, dst);
        Ok(moved)
    }

    /// How far a REMAP has come goes to the image with what it changed.
    fn note(&mut self, drive: &mut Controller, moving: Option<Moving>) {
        self.note_down(moving);
        drive.save(self);
    }

    pub(super) fn bam_reset(
        &mut self,
        drive: &mut Controller,
        c: &DriveConfig,
        now: Nanos,
    ) -> Result<Nanos, DriveError> {
        let _step = granary_sim::step("BAM: reset");
        self.counters.resets += 1;
        if drive.tracking {
            drive.land_own(Some(self), now);
        }
        // The entry of the map is cleared of each name that ends.
        let names = self.names.len() as u64;
        let work = self.entry_cost * names;
        let done = drive.accept_with(c, now, work) + c.link.nvme.completion;
        if drive.tracking {
            drive.defer(done, Change::Reset);
        } else {
            self.reset();
        }
        Ok(done)
    }

    pub(super) fn bam_read(
        &mut self,
        drive: &mut Controller,
        c: &DriveConfig,
        now: Nanos,
        ino: Option<u64>,
        out: &mut Vec<BamEntry>,
    ) -> Result<Nanos, DriveError> {
        drive.land_own(Some(self), now);
        let before = out.len();
        let looked = self.read(ino, out);
        let given = out.len() - before;
        self.counters.reads += 1;
        self.counters.entries_read += given as u64;
        let ready = drive.accept_with(c, now, self.entry_cost * looked);
        Ok(drive.give_pages(ready, given * ENTRY_SIZE) + c.link.nvme.completion)
    }
}

/// Blocks of files that are on their way.
fn blocks_on_their_way(drive: &Controller) -> usize {
    let block = |change: &Change| matches!(change, Change::FsWrite { .. });
    drive.deferred().filter_map(Change::of).filter(|change| block(change)).count()
}
