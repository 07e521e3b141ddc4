//! PebbleSSD's vendor commands: FS_WRITE, REMAP, BAM_RESET, BAM_READ.
//!
//! ```text
//!   FS_WRITE   fetch | processor: command + entries | data request | pages over the link | slot, entry | completion
//!   REMAP      fetch | processor: command + two entries of each map per page | completion
//!   BAM_RESET  fetch | processor | completion                           BAM_READ  ... | entries over the link as pages
//! ```
//!
//! REMAPs are carried out one at a time: two entries of each map change together, and those that overlap keep their order.
//! (The paper's remap is 7.7 times as fast as read and write with one thread and 3.7 times with four: it does not scale.)
//!
//! An overlapping REMAP goes through its pages from the end at which none is overwritten before it has been moved.
//!
//! In flight ([`crate::power`]): a page of FS_WRITE lands with its entry or not at all; REMAP lands whole or not at all (the
//! firmware notes the command in its persistent memory before it changes the first entry, and carries out at power-up what
//! it finds noted there). What changes the file tables lands in order of submission.
//!
//! Source: PebbleSSD Table 1, sections 4.2 and 5.2.

use super::State;
use crate::config::{BamConfig, DriveConfig};
use crate::firmware::bam::saved::Moving;
use crate::firmware::bam::{Bam, FileBlock};
use crate::power::Effect;
use granary_device::Structure;
use granary_device::{BamEntry, DriveError};
use granary_units::{Lpa, Nanos, PAGE_SIZE, Page};

/// Bytes of an entry on its way to the host: inode number, offset, page.
const ENTRY_SIZE: usize = 16;

/// The drive's BAM, or the error that it has none.
fn part<'a>(bam: &'a mut Option<Bam>, command: &'static str) -> Result<&'a mut Bam, DriveError> {
    bam.as_mut().ok_or(DriveError::Unsupported(command))
}

fn costs(c: &DriveConfig, command: &'static str) -> Result<BamConfig, DriveError> {
    c.firmware.bam.clone().ok_or(DriveError::Unsupported(command))
}

impl State {
    pub(super) fn fs_write(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        lpa: Lpa,
        pages: &[Page],
        block: FileBlock,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.backend.writable()?;
        let n = pages.len();
        let cost = costs(c, "FS_WRITE command")?.entry_cost;
        self.reserve(now, block.ino, n)?;
        let t = self.accept_with(c, now, cost * n as u64);
        let end = self.link.pages_in(t + c.link.nvme.data_request, n);
        let mut safe = end;
        let (mut room, before) = (end, self.in_flight.pages());
        if self.tracking {
            room = self.backend.room(end)?;
        }
        for (i, page) in (0..).zip(pages) {
            let (lpa, offset) = (lpa.offset(i), block.offset + i as u32);
            let block = FileBlock { offset, end: block.end.of_page(i as usize, n), ..block };
            if self.tracking {
                self.land(lpa, now);
                safe = safe.max(self.backend.acknowledged_by(room, before + i as usize));
                let effect = Effect::FsWrite { lpa, page: page.clone(), block };
                self.in_flight.push(safe + c.link.nvme.completion, effect);
            } else {
                let arrived = end - self.link.page_in() * (n as u64 - 1 - i);
                safe = safe.max(self.take_block(arrived, lpa, page.clone(), block)?);
                if self.backend.is_publish_due() {
                    self.publish()?;
                }
            }
        }
        self.traffic.block_write[what as usize] += (n * PAGE_SIZE) as u64;
        self.commands.writes += 1;
        self.commands.write_pages += n as u64;
        part(&mut self.bam, "FS_WRITE command")?.counters_mut().fs_writes += 1;
        Ok(safe + c.link.nvme.completion)
    }

    /// Makes sure that `pages` entries of a file fit, those on their way included.
    fn reserve(&mut self, now: Nanos, ino: u64, pages: usize) -> Result<(), DriveError> {
        let before = self.in_flight.blocks();
        let fits = part(&mut self.bam, "FS_WRITE command")?.room(ino, pages, before);
        if fits.is_ok() {
            return fits;
        }
        // A reset may be on its way, and blocks on theirs need not each open a file of its own.
        self.land_bam(now);
        part(&mut self.bam, "FS_WRITE command")?.room(ino, pages, 0)
    }

    /// Takes a block of a file: its content, then its entry.
    pub(super) fn take_block(
        &mut self,
        t: Nanos,
        lpa: Lpa,
        page: Page,
        block: FileBlock,
    ) -> Result<Nanos, DriveError> {
        let done = self.write_page(t, lpa, page)?;
        part(&mut self.bam, "FS_WRITE command")?.append(block, lpa);
        self.save_bam();
        Ok(done)
    }

    pub(super) fn remap(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        src: Lpa,
        dst: Lpa,
        count: u64,
    ) -> Result<Nanos, DriveError> {
        self.backend.writable()?;
        let cost = costs(c, "REMAP command")?.remap_cost;
        let begin = (now + c.link.nvme.fetch).max(self.remapped);
        let t = self.backend.cores.serve(begin, c.firmware.command_cost + cost * count);
        self.remapped = t;
        let mut done = t;
        if self.tracking {
            for i in 0..count {
                self.land(src.offset(i), now);
                self.land(dst.offset(i), now);
            }
            self.in_flight.push(t + c.link.nvme.completion, Effect::Remap { src, dst, count });
        } else {
            done = self.move_pages(t, src, dst, count)?;
        }
        part(&mut self.bam, "REMAP command")?.counters_mut().remaps += 1;
        Ok(done + c.link.nvme.completion)
    }

    /// Moves pages with their entries; returns when all are in their place.
    pub(super) fn move_pages(
        &mut self,
        t: Nanos,
        src: Lpa,
        dst: Lpa,
        count: u64,
    ) -> Result<Nanos, DriveError> {
        if src == dst || count == 0 {
            return Ok(t);
        }
        self.move_rest(t, Moving { src, dst, count, moved: 0 })
    }

    /// The same for the pages that have not been moved yet.
    pub(super) fn move_rest(&mut self, t: Nanos, mut moving: Moving) -> Result<Nanos, DriveError> {
        let (mut done, Moving { src, dst, count, moved: begin }) = (t, moving);
        self.note(Some(moving))?;
        for i in begin..count {
            let i = if dst > src { count - 1 - i } else { i };
            let (from, to) = (src.offset(i), dst.offset(i));
            let (moved, copied) = match self.move_page(t, from, to) {
                Ok(moved) => moved,
                Err(e) => {
                    // The host is told; whoever opens the image must not go on with it then.
                    self.note(None)?;
                    return Err(e);
                }
            };
            done = done.max(moved);
            let counters = part(&mut self.bam, "REMAP command")?.counters_mut();
            counters.pages_copied += copied as u64;
            counters.pages_remapped += !copied as u64;
            moving.moved += 1;
            self.note((moving.moved < count).then_some(moving))?;
            if self.backend.is_publish_due() {
                self.publish()?;
            }
        }
        Ok(done)
    }

    /// Moves one page with its entry and its older names; returns when it is there, and whether it had to be copied.
    fn move_page(&mut self, t: Nanos, src: Lpa, dst: Lpa) -> Result<(Nanos, bool), DriveError> {
        let t = self.release(t, dst)?;
        let t = if self.newest(src) == src { t } else { self.part(t, src)? };
        let moved = self.firmware.remap(&mut self.backend, t, src, dst)?;
        let bam = part(&mut self.bam, "REMAP command")?;
        bam.moved(src, dst);
        bam.names_mut().lead(src, dst);
        Ok(moved)
    }

    /// How far a REMAP has come goes to the image with what it changed.
    fn note(&mut self, moving: Option<Moving>) -> Result<(), DriveError> {
        part(&mut self.bam, "REMAP command")?.note(moving);
        self.save_bam();
        Ok(())
    }

    pub(super) fn bam_reset(&mut self, c: &DriveConfig, now: Nanos) -> Result<Nanos, DriveError> {
        let _step = granary_sim::step("BAM: reset");
        part(&mut self.bam, "BAM_RESET command")?.counters_mut().resets += 1;
        if self.tracking {
            self.land_bam(now);
        }
        // The entry of the map is cleared of each name that ends.
        let names = part(&mut self.bam, "BAM_RESET command")?.names().len() as u64;
        let work = costs(c, "BAM_RESET command")?.entry_cost * names;
        let done = self.accept_with(c, now, work) + c.link.nvme.completion;
        if self.tracking {
            self.in_flight.push(done, Effect::BamReset);
        } else {
            self.bam.iter_mut().for_each(Bam::reset);
        }
        Ok(done)
    }

    pub(super) fn bam_read(
        &mut self,
        c: &DriveConfig,
        now: Nanos,
        ino: Option<u64>,
        out: &mut Vec<BamEntry>,
    ) -> Result<Nanos, DriveError> {
        let cost = costs(c, "BAM_READ command")?.entry_cost;
        self.land_bam(now);
        let bam = part(&mut self.bam, "BAM_READ command")?;
        let before = out.len();
        let looked = bam.read(ino, out);
        let given = out.len() - before;
        bam.counters_mut().reads += 1;
        bam.counters_mut().entries_read += given as u64;
        let mut done = self.accept_with(c, now, cost * looked);
        let pages = (given * ENTRY_SIZE).div_ceil(PAGE_SIZE);
        let ready = done;
        for _ in 0..pages {
            done = self.link.page_out(ready);
        }
        self.traffic.block_read[Structure::DataPointer as usize] += (pages * PAGE_SIZE) as u64;
        self.commands.read_pages += pages as u64;
        Ok(done + c.link.nvme.completion)
    }
}
