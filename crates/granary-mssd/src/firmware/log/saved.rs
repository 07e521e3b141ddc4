//! The log on an image: the state that is saved beside the regions and the TxLog, and making the log again
//! from it.
//!
//! ```text
//!   0       1         8       16               64       72     80    96
//!   | active | cleaning | ... | mark ......... | purged | made | ... | given up |
//!     in the first 4 KiB of the image's memory
//! ```
//!
//! Saved are the region that the host appends to, whether the other one is being cleaned, and the length that
//! the TxLog had when that began. The cursor of cleaning is in the region's header; the room that it keeps
//! free is computed anew, for the uncommitted entries that are still to be moved.

use super::Log;
use super::cleaning::Cleaning;
use super::given_up::{self, GivenUp};
use super::index::Index;
use super::region::{LOST, Region};
use super::txlog::TxLog;
use crate::config::DriveConfig;
use crate::firmware::buffer::Backend;
use crate::saved::layout::Layout;
use granary_device::DriveError;
use granary_flash::Cause;
use granary_redo::files::DRAM;
use granary_redo::redo::Redo;
use granary_redo::region::Region as DramFile;
use granary_redo::{ImageError, long};
use granary_units::{Nanos, TxId};

/// Where the counts of the TxLog are in the image's memory.
const TXLOG_COUNTS: u64 = 64;

impl Log {
    /// For a drive that has become larger, and whose image keeps its zones at other places.
    pub(crate) fn grow(&mut self, config: &DriveConfig, layout: &Layout) {
        self.index.grow(config.pages());
        self.pages = config.pages();
        self.batch = config.flash.geometry.plane_count() as usize;
        for (region, base) in self.regions.iter_mut().zip(layout.log) {
            region.rebase(base);
        }
        self.txlog.rebase(layout.txlog);
    }

    /// The log that an image kept, with the index of a drive that has just been powered up.
    pub(crate) fn load(config: &DriveConfig, layout: &Layout, dram: &DramFile) -> Result<Log, ImageError> {
        let damaged = |what: &str, why: String| ImageError::damaged(DRAM, format!("{what}: {why}"));
        let mut log = Log::new(config);
        for (i, name) in ["log region 0", "log region 1"].iter().enumerate() {
            let base = layout.log[i];
            let region = Region::load(layout.half, config.pages(), base, |at, out| dram.read(base + at, out));
            log.regions[i] = region.map_err(|e| e.unwrap_or_else(|why| damaged(name, why)))?;
        }
        let txlog =
            TxLog::load(config.firmware.txlog, layout.txlog, TXLOG_COUNTS, |at, out| dram.read(at, out));
        log.txlog = txlog.map_err(|e| e.unwrap_or_else(|why| damaged("TxLog", why)))?;

        let mut roles = [0; 16];
        dram.read(0, &mut roles)?;
        let (active, cleaning, mark) = (roles[0] as usize, roles[1], long(&roles, 8));
        if active > 1 || cleaning > 1 || (cleaning == 1 && mark > log.txlog.len() as u64) {
            return Err(damaged(
                "write log",
                format!("region {active} active, cleaning {cleaning}, mark {mark}"),
            ));
        }
        let mut given_up = [0; given_up::SIZE];
        dram.read(given_up::PLACE, &mut given_up)?;
        log.given_up = GivenUp::load(&given_up, config.pages()).map_err(|why| damaged("write log", why))?;
        log.active = active;
        log.redo = Some(Redo::new(0));
        if cleaning == 1 {
            log.resume_cleaning(mark as usize)?;
        } else if log.regions[1 - active].entries() > 0 {
            return Err(damaged(
                "write log",
                "the inactive region holds entries, but nothing cleans it".into(),
            ));
        }
        log.index = Index::new(config.pages(), 0);
        log.scan();
        log.inherited = log.index.lines();
        Ok(log)
    }

    fn resume_cleaning(&mut self, mark: usize) -> Result<(), ImageError> {
        let old = &self.regions[1 - self.active];
        let moves = |n: &u32| {
            let t = old.trailer(*n);
            let running = t.tx != TxId::NONE && !self.txlog.contains(t.tx);
            running && t.flags & LOST == 0 && t.lpa as u64 >= old.cleaned_below()
        };
        let moving = (0..old.entries()).filter(moves).map(|n| Region::space(old.trailer(n).lines as usize));
        let reserved = moving.sum();
        let active = &self.regions[self.active];
        if active.capacity() - active.used() < reserved {
            let why = format!("{reserved} bytes are to be moved, {} are in use", active.used());
            return Err(ImageError::damaged(DRAM, format!("log region {}: {why}", self.active)));
        }
        let (region, cause) = (1 - self.active, Cause::LogCleaning);
        self.cleaning = Some(Cleaning {
            region,
            next: Nanos::ZERO,
            ahead: None,
            batch: (0, Nanos::ZERO),
            mark,
            reserved,
            cause,
        });
        Ok(())
    }

    /// The roles of the halves have changed.
    pub(super) fn save_roles(&mut self) {
        let Some(redo) = &mut self.redo else { return };
        let mark = self.cleaning.as_ref().map_or(0, |c| c.mark as u64);
        redo.put(0, &[self.active as u8, self.cleaning.is_some() as u8]);
        redo.put(8, &mark.to_le_bytes());
    }

    /// Moves the changes since the last time to the end of `out`.
    pub(crate) fn drain_redo(&mut self, out: &mut Vec<u8>) {
        self.regions.iter_mut().for_each(|r| r.drain_redo(out));
        self.txlog.drain_redo(out);
        if let Some(redo) = &mut self.redo {
            redo.drain_into(out);
        }
    }

    /// Between two steps of long work: hands over the changes so far. A power failure may leave the present
    /// state.
    #[inline]
    pub(super) fn publish_if_due(&mut self, be: &mut Backend) -> Result<(), DriveError> {
        if be.is_publish_due() { be.publish(|out| self.drain_redo(out)) } else { Ok(()) }
    }
}
