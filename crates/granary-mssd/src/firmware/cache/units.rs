//! Writing dirty pages back in mapping units, and what a volatile cache loses.
//!
//! ```text
//!   unit of 16 KiB    | dirty | cached | in flash | never written |
//!                        host    unit    read,unit      -                 causes of the programs
//! ```
//!
//! The map counts in units: a program of a unit writes all of it. The unit's clean pages are read from flash
//! first (or taken from the cache) and programmed along. Pages that hold nothing are left out: they would
//! take flash, and move nothing.
//!
//! Source of the mechanism: OrchFS's talk (FAST'25), "IO alignment": 16 KiB pages of a PM9A3.

use super::{Cache, Slot};
use crate::config::DriveConfig;
use crate::firmware::buffer::Backend;
use crate::power::torn;
use granary_device::DriveError;
use granary_flash::Cause;
use granary_sim::rng::{Stream, Thing};
use granary_units::{Lpa, Nanos, PAGE_SIZE};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Reads of the rest of units that write-backs have begun: the drive goes on meanwhile, with as many under
/// way as the write buffer has pages for.
#[derive(Clone)]
pub(super) struct Behind {
    /// When each is done.
    reads: BinaryHeap<Reverse<Nanos>>,
    most: usize,
}

impl Behind {
    pub(super) fn new(config: &DriveConfig) -> Behind {
        let most = (config.firmware.write_buffer.0 / PAGE_SIZE as u64).max(1) as usize;
        Behind { reads: BinaryHeap::new(), most }
    }

    /// From when on another one may begin that is wanted at `t`.
    fn room(&mut self, mut t: Nanos) -> Nanos {
        while self.reads.peek().is_some_and(|read| read.0 <= t) {
            self.reads.pop();
        }
        while self.reads.len() >= self.most {
            t = self.reads.pop().map_or(t, |read| t.max(read.0));
        }
        t
    }
}

impl Cache {
    /// Writes a dirty page back, with what is dirty in its unit, and the rest of that; they stay cached.
    /// Returns when the write buffer has what is dirty, and room for the rest: whoever waits for the page's
    /// place does not wait until that is read.
    pub(super) fn write_back(&mut self, be: &mut Backend, t: Nanos, slot: u32) -> Result<Nanos, DriveError> {
        if self.unit == 1 {
            return self.write_one(be, t, slot);
        }
        let t = self.behind.room(t);
        let first = self.slots[slot as usize].lpa.0 / self.unit * self.unit;
        let mut done = t;
        for lpa in (first..first + self.unit).map(Lpa) {
            done = done.max(match self.by_page.get(&lpa) {
                Some(&cached) if self.slots[cached as usize].dirty => self.write_one(be, t, cached)?,
                Some(&cached) => {
                    let s = &self.slots[cached as usize];
                    be.write(t.max(s.ready), lpa, s.page.clone(), Cause::MappingUnit)?
                }
                None if be.holds(lpa) => {
                    let (page, read) = be.read(t, lpa, Cause::MappingUnit)?;
                    let taken = be.write(read, lpa, page, Cause::MappingUnit)?;
                    self.behind.reads.push(Reverse(read));
                    if taken > read { taken } else { t }
                }
                None => t,
            });
        }
        Ok(done)
    }

    fn write_one(&mut self, be: &mut Backend, t: Nanos, slot: u32) -> Result<Nanos, DriveError> {
        let s = &mut self.slots[slot as usize];
        let done = be.write(t.max(s.ready), s.lpa, s.page.clone(), Cause::Host)?;
        s.dirty = false;
        self.counters.write_backs += 1;
        self.unsave(slot);
        Ok(done)
    }

    /// The power fails: each page that no FLUSH has written back has got to flash in time, where it tears in
    /// part, or is as it was before; clean ones have to be read again.
    pub(super) fn lose(
        &mut self,
        be: &mut Backend,
        now: Nanos,
        random: &mut Stream,
    ) -> Result<(), DriveError> {
        be.lose(random, self.tears)?;
        for slot in self.uses.iter().collect::<Vec<_>>() {
            let Slot { dirty, lpa, .. } = self.slots[slot as usize];
            if dirty && random.survives(Thing::Page("cached", lpa.0)) {
                if let Some(sectors) = torn(random, self.tears) {
                    let s = &mut self.slots[slot as usize];
                    let mut page = be.peek(s.lpa)?;
                    page.merge_lines(&s.page, sectors);
                    s.page = page;
                }
                self.write_one(be, now, slot)?;
            }
            self.counters.forgotten += u64::from(self.slots[slot as usize].dirty);
            self.drop_slot(slot);
        }
        // In the buffer they would be for the next failure to take.
        be.drain(now);
        Ok(())
    }
}
