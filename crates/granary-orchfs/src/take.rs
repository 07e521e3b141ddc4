//! Taking numbers: from a process's own grants, then from numbers that others do not use, then from those
//! that migration frees.
//!
//! ```text
//!   own grant ──> a new grant ──> unused grants of others ──> what waits for a digest ──> migration
//!             ──> NoSpace
//! ```
//!
//! Every taker goes this way: names, attributes and content alike. So metadata, which are on the NVM alone,
//! find no space only where nothing that could go to the SSD is left on the NVM, or the SSD is full.
//!
//! The caller may hold states of inodes and ranges. So making room waits for no state and no range: a block
//! that somebody uses is passed over. One task makes room at a time; those that wait for it look again.
//!
//! Source: OrchFS section 3.7 (foreground migration); who may take the last pages is this file system's own
//! rule ([`Claim`]).

use crate::fs::OrchFs;
use crate::layout::Area;
use crate::migrate::Tails;
use crate::pools::{Claim, Taken};
use granary_fs::{FsError, Result};
use granary_sim::{cpu, sleep, yield_now};
use granary_units::Nanos;
use std::sync::atomic::Ordering::Relaxed;

/// Blocks that a task moves which needs numbers.
pub(crate) const IN_FOREGROUND: usize = 8;
/// How often a change of metadata looks again where all blocks that could move are in use, and how long it
/// waits between. A choice: together 10 ms, longer than any write of this file system holds its range.
const PATIENCE: (u32, Nanos) = (100, Nanos::from_micros(100));

impl OrchFs {
    /// Takes a number that the process was granted. Where its grants are used up, the kernel's part is asked
    /// for more. That takes back numbers that another process has not used, digests waiting groups, and
    /// migrates, in this order.
    ///
    /// # Errors
    /// `NoSpace` where all of that gives none; the drives'.
    pub(crate) fn take(&self, taken: &mut Taken<'_>, area: Area) -> Result<u64> {
        let (process, mut asked, mut waits) = (taken.process(), false, 0);
        loop {
            if !self.pools.is_kept(area, taken.claim()) {
                if let Some(number) = taken.take(area) {
                    return Ok(number);
                }
                if process != 0 && !std::mem::replace(&mut asked, true) {
                    cpu(self.options.ipc);
                }
                if self.pools.grant(area, process) {
                    continue;
                }
                if let Some(holder) = self.pools.richest(area, process) {
                    // Its records are judged while the numbers are still its own.
                    self.digest(self.journal_of(holder))?;
                    self.pools.take_back(area, holder);
                    continue;
                }
            }
            if self.free_by_digest(area)? || self.make_room(area)? {
                continue;
            }
            // Numbers that another task's digest has freed since this one asked.
            if !self.pools.is_kept(area, taken.claim()) && self.pools.grant(area, process) {
                continue;
            }
            // Content goes to the SSD. For the rest somebody's write may be about to end.
            if taken.claim() == Claim::Data || waits == PATIENCE.0 || !self.could_make_room(area) {
                return Err(FsError::NoSpace);
            }
            waits += 1;
            sleep(PATIENCE.1);
            yield_now();
        }
    }

    /// Whether migration frees numbers of this area, and some block is there that could move.
    fn could_make_room(&self, area: Area) -> bool {
        let frees = matches!(area, Area::Page | Area::Append | Area::Over);
        frees && self.options.migrate && self.migratable() > 0
    }

    /// NVM pages that migration could free now.
    pub(crate) fn migratable(&self) -> u64 {
        if !self.options.migrate {
            return 0;
        }
        let (append, over) = self.victims.lock().pages();
        let room = self.pools.free(Area::Block).saturating_mul(crate::geometry::PAGES as u64);
        over + append.min(room)
    }

    /// Moves some blocks to the SSD: whether that, or somebody else meanwhile, may have freed numbers.
    fn make_room(&self, area: Area) -> Result<bool> {
        if !self.could_make_room(area) {
            return Ok(false);
        }
        let before = self.room_made.load(Relaxed);
        let _one = self.making_room.lock();
        if self.room_made.load(Relaxed) != before {
            return Ok(true);
        }
        if self.migrate(IN_FOREGROUND, Tails::AtLast)? == 0 {
            return Ok(false);
        }
        self.digest(self.journal_of(0))?;
        self.room_made.fetch_add(1, Relaxed);
        Ok(true)
    }
}
