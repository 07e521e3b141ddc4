//! Background gc: free blocks are made while nobody asks for anything.
//!
//! ```text
//!   commands   |####|                                   |##      the next one finds free blocks, and perhaps
//!                                                                a batch
//!   gc              |<- idle_gc ->|batch|batch|erase|batch|      of copies that it has to wait for
//!                   ^ busy_until                        ^ now
//! ```
//!
//! Nothing runs by itself here: the next access looks back at the idle time before it and reserves, in that
//! past, the work that the drive would have done. Each plane goes on until it has `idle_gc_stop` free blocks,
//! no worthwhile victim is left or the idle time is used up; a batch that has begun is finished.
//!
//! It does *not* move data of which little is stale: that costs endurance for time that nobody may need.

use super::Ftl;
use super::gc::Effort;
use crate::error::FlashError;
use crate::medium::Medium;
use granary_units::Nanos;

/// Idle time is spent on blocks of which at least one page in this many is stale.
const WORTHWHILE: u32 = 4;

impl<M: Medium> Ftl<M> {
    /// Does what the idle time before `now` allowed.
    #[inline]
    pub(super) fn catch_up(&mut self, now: Nanos) -> Result<(), FlashError> {
        if self.config.idle_gc.0 != 0 && now > self.busy_until + self.config.idle_gc {
            return self.collect_until(now);
        }
        Ok(())
    }

    /// Tells the FTL that time has come to `now` without an access: background gc gets the idle time until
    /// then. Accesses do this themselves.
    ///
    /// # Errors
    /// Errors of the medium.
    pub fn idle_until(&mut self, now: Nanos) -> Result<(), FlashError> {
        self.catch_up(now)
    }

    fn collect_until(&mut self, now: Nanos) -> Result<(), FlashError> {
        let from = self.busy_until + self.config.idle_gc;
        for plane in 0..self.planes.len() as u32 {
            let mut t = from;
            while t < now && !self.read_only && self.has_idle_work(plane) {
                self.gc_step(t, plane, Effort::Batch)?;
                t = t.max(self.nand.free_at(plane));
            }
        }
        self.busy_until = now;
        Ok(())
    }

    fn has_idle_work(&self, plane: u32) -> bool {
        let p = &self.planes[plane as usize];
        if p.job.is_some() {
            return true;
        }
        let stop = match self.config.idle_gc_stop {
            0 => self.config.gc_stop,
            stop => stop,
        };
        let n = self.config.geometry.pages_per_block;
        p.free.len() < stop && self.best_victim(plane).is_some_and(|(_, live)| (n - live) * WORTHWHILE >= n)
    }
}
