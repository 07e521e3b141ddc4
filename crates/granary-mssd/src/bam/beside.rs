//! BAM as a drive's companion: which commands are its own, and what the drive asks it.

use super::pending::Change;
use super::{Bam, FileBlock};
use crate::companion::{Companion, CompanionEntry, Pending};
use crate::config::DriveConfig;
use crate::mssd::{Controller, in_range};
use crate::saved::layout::Layout;
use granary_device::vendor::pebble::{self, BamNames, BamRead, BamReset, FsWrite, Remap, RemapKeep};
use granary_device::{DriveCounters, DriveError, RemapRange, Vendor};
use granary_redo::redo::Redo;
use granary_units::{Lpa, Nanos};
use std::any::Any;

/// PebbleSSD's byte-addressable metadata.
pub const BAM: CompanionEntry = CompanionEntry {
    name: "bam",
    about: "byte-addressable metadata: file tables, pages moved and renamed by the map alone (PebbleSSD)",
    commands: pebble::COMMANDS,
    make: |config| {
        let bam = config.at_clock().firmware.bam?;
        Some(Box::new(Bam::new(&bam, config.firmware.names(), config.pages())))
    },
    load: Some(|config, layout, dram| {
        let Some(bam) = config.at_clock().firmware.bam else { return Ok(None) };
        Ok(Some(Box::new(Bam::load(&bam, config.firmware.names(), config.pages(), layout, dram)?)))
    }),
};

impl Companion for Bam {
    fn fork(&self) -> Box<dyn Companion> {
        Box::new(self.clone())
    }

    fn offers(&self) -> &'static [&'static str] {
        if self.names.most() > 0 { pebble::COMMANDS } else { pebble::NAMELESS }
    }

    fn identify(&self, facts: &mut dyn Any) -> bool {
        let Some(facts) = facts.downcast_mut::<pebble::Facts>() else { return false };
        facts.names = self.names.most();
        true
    }

    fn admits(&self, own: &dyn Vendor, pages: u64) -> Option<Result<(), DriveError>> {
        if let Some(FsWrite { lpa, pages: content, offset, .. }) = own.get() {
            let count = content.len() as u64;
            return Some(in_range(*lpa, count, pages).and_then(|()| file_range(*offset, count)));
        }
        if let Some(&Remap { src, dst, count }) = own.get() {
            return Some(in_range(src, count, pages).and_then(|()| in_range(dst, count, pages)));
        }
        if let Some(RemapKeep { ranges }) = own.get() {
            return Some(keep_range(ranges, pages));
        }
        let whole = own.get::<BamReset>().is_some()
            || own.get::<BamRead>().is_some()
            || own.get::<BamNames>().is_some();
        whole.then_some(Ok(()))
    }

    fn serve(
        &mut self,
        drive: &mut Controller,
        c: &DriveConfig,
        now: Nanos,
        own: &mut dyn Vendor,
    ) -> Result<Nanos, DriveError> {
        if let Some(FsWrite { lpa, pages, ino, offset, end, what }) = own.get() {
            let block = FileBlock { ino: *ino, offset: *offset, end: *end };
            return self.fs_write(drive, c, now, *lpa, pages, block, *what);
        }
        if let Some(&Remap { src, dst, count }) = own.get() {
            return self.remap(drive, c, now, src, dst, count);
        }
        if let Some(RemapKeep { ranges }) = own.get() {
            return self.remap_keep(drive, c, now, ranges);
        }
        if own.get::<BamReset>().is_some() {
            return self.bam_reset(drive, c, now);
        }
        if let Some(BamNames { out }) = own.get_mut() {
            return self.bam_names(drive, c, now, out);
        }
        let name = own.name();
        let BamRead { ino, out } = own.get_mut().ok_or(DriveError::Unsupported(name))?;
        self.bam_read(drive, c, now, *ino, out)
    }

    fn apply(
        &mut self,
        drive: &mut Controller,
        t: Nanos,
        pending: Box<dyn Pending>,
    ) -> Result<Nanos, DriveError> {
        let Ok(change) = (pending as Box<dyn Any>).downcast::<Change>() else { return Ok(t) };
        match *change {
            Change::FsWrite { lpa, page, block } => self.take_block(drive, t, lpa, page, block),
            Change::Keep(ranges) => self.keep_pages(drive, t, &ranges),
            Change::Remap { src, dst, count } => self.move_pages(drive, t, src, dst, count),
            Change::Reset => {
                self.reset();
                Ok(t)
            }
        }
    }

    #[inline]
    fn newest(&self, lpa: Lpa) -> Lpa {
        self.names.newest(lpa)
    }

    fn redirects(&self) -> bool {
        !self.names.is_empty()
    }

    fn sharing(&self, lpa: Lpa) -> Vec<Lpa> {
        self.names.sharing(lpa)
    }

    fn release(&mut self, drive: &mut Controller, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        self.release_name(drive, t, lpa)
    }

    fn part(&mut self, drive: &mut Controller, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        self.part_from_names(drive, t, lpa)
    }

    fn trimmed(&mut self, lpa: Lpa) {
        self.forget(lpa);
    }

    fn power_on(&mut self, ready: Nanos) {
        self.remapped = ready;
    }

    fn wants_attention(&self) -> bool {
        self.is_nearly_full()
    }

    fn count(&self, all: &mut DriveCounters) {
        all.bam = self.counters;
    }

    fn check(&self, holds: &dyn Fn(Lpa) -> bool) -> Vec<String> {
        self.violations(holds)
    }

    fn save(&mut self, carry: &mut dyn FnMut(&mut Redo)) {
        self.redos().for_each(carry);
    }

    fn grow(&mut self, config: &DriveConfig, layout: &Layout) {
        if let Some(larger) = &config.firmware.bam {
            self.enlarge(larger, config.pages(), layout);
        }
    }

    fn is_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    fn resume(&mut self, drive: &mut Controller) -> Result<Nanos, DriveError> {
        match self.unfinished.take() {
            Some(moving) => self.move_rest(drive, Nanos::ZERO, moving),
            None => Ok(Nanos::ZERO),
        }
    }
}

/// So many ranges and pages can be carried out as a whole.
fn keep_range(ranges: &[RemapRange], drive: u64) -> Result<(), DriveError> {
    for r in ranges {
        in_range(r.src, r.count, drive)?;
        in_range(r.dst, r.count, drive)?;
    }
    let pages = ranges.iter().fold(0u64, |sum, r| sum.saturating_add(r.count));
    if ranges.len() > RemapRange::MOST || pages > RemapRange::MOST_PAGES {
        let what = format!("{} ranges, {pages} pages in one REMAP keep", ranges.len());
        return Err(DriveError::OutOfRange { what, pages: RemapRange::MOST_PAGES });
    }
    Ok(())
}

/// Offsets in files are 32 bits in BAM, all ones excepted.
fn file_range(offset: u32, pages: u64) -> Result<(), DriveError> {
    let end = u32::MAX as u64;
    if offset as u64 + pages <= end {
        return Ok(());
    }
    Err(DriveError::OutOfRange { what: format!("{pages} blocks of a file from {offset} on"), pages: end })
}
