//! Power: what is lost, what stays, and what is tracked to know the difference.
//!
//! ```text
//!   power_fail   acknowledged commands take effect | unverified lines: each lost or not
//!                | commands in flight: pages torn, commits a prefix | write-combining lines: each lost or not
//!   power_on     DRAM content comes back, index rebuilt from the log's regions, timelines idle
//! ```
//!
//! Without tracking every submitted command and every posted line counts as landed; only the write-combining buffers
//! are volatile. Source: docs/FAULT_MODEL.md, ByteFS sections 4.2 and 5.5.

use super::State;
use crate::config::DriveConfig;
use crate::firmware::bam::Bam;
use crate::power::{Effect, torn};
use granary_device::DriveError;
use granary_sim::rng::{Stream, Thing};
use granary_units::{Lpa, Nanos};

impl State {
    /// Lets everything that is acknowledged by `now` take effect.
    pub(super) fn acknowledge(&mut self, now: Nanos) {
        if !self.in_flight.is_empty() {
            for (done, effect) in self.in_flight.acknowledged(now) {
                self.apply(done, effect);
            }
        }
        if !self.verifying.is_empty() {
            let answered =
                self.verifying.iter().filter(|(done, _)| *done <= now).map(|(_, posts)| *posts).max();
            if let Some(posts) = answered {
                self.firmware.verified(posts);
                self.verifying.retain(|(done, _)| *done > now);
            }
        }
    }

    /// Lets what is in flight for a page take effect before its acknowledgement.
    pub(super) fn land(&mut self, lpa: Lpa, now: Nanos) {
        if !self.in_flight.is_empty() {
            // What happens to one name of a page says which name is the newest and has its entry: in their order.
            let sharing = |s: &State| s.bam.as_ref().map_or_else(Vec::new, |bam| bam.names().sharing(lpa));
            let mut names = sharing(self);
            if self.in_flight.is_of_bam(lpa) || names.iter().any(|&name| self.in_flight.is_of_bam(name)) {
                self.land_bam(now);
                names = sharing(self);
            }
            for (_, effect) in self.in_flight.of_pages(lpa, &names) {
                self.apply(now, effect);
            }
        }
    }

    /// Lets everything in flight that changes BAM's file tables take effect, in order of submission.
    pub(super) fn land_bam(&mut self, now: Nanos) {
        if !self.in_flight.is_empty() {
            for (_, effect) in self.in_flight.of_bam() {
                self.apply(now, effect);
            }
        }
    }

    fn apply(&mut self, t: Nanos, effect: Effect) {
        // The host has, or may have, its acknowledgement: no end of life comes in between.
        self.backend.owe(true);
        let done = match effect {
            Effect::Write(lpa, page) => self.write_page(t, lpa, page),
            Effect::Trim(lpa) => self.trim_page(t, lpa),
            Effect::FsWrite { lpa, page, block } => self.take_block(t, lpa, page, block),
            Effect::Keep(ranges) => self.keep_pages(t, &ranges),
            Effect::Remap { src, dst, count } => self.move_pages(t, src, dst, count),
            Effect::BamReset => {
                self.bam.iter_mut().for_each(Bam::reset);
                Ok(t)
            }
            Effect::Commit(tx) => match self.firmware.transactions() {
                Some(log) => log.commit(&mut self.backend, t, tx),
                None => Ok(t),
            },
        };
        self.backend.owe(false);
        if let Err(e) = done {
            self.fault.get_or_insert(e);
        }
    }

    pub(super) fn track(&mut self, on: bool) {
        self.acknowledge(Nanos::MAX);
        self.tracking = on;
        self.firmware.track(on);
    }

    pub(super) fn power_fail(&mut self, c: &DriveConfig, now: Nanos, random: &mut Stream) {
        if !self.powered {
            return;
        }
        self.acknowledge(now);
        self.backend.pump(now);
        self.firmware.pump(&mut self.backend, now);
        self.verifying.clear();
        self.backend.owe(true);
        if let Err(e) = self.firmware.power_fail(&mut self.backend, now, random) {
            self.fault.get_or_insert(e);
        }
        self.backend.owe(false);
        for mut effect in self.in_flight.torn(random) {
            if let Effect::Write(lpa, page) = &mut effect
                && let Some(sectors) = torn(random, c.firmware.tears_pages)
            {
                match self.firmware.peek(&self.backend, *lpa) {
                    Ok(mut old) => {
                        old.merge_lines(page, sectors);
                        *page = old;
                    }
                    Err(e) => drop(self.fault.get_or_insert(e)),
                }
            }
            self.apply(now, effect);
        }
        self.post_survivors(c, now, |line| random.survives(Thing::Line("combined", line)));
        // What has landed in the last moment is in the drive for good.
        self.firmware.verified(u64::MAX);
        // Those are in the cache now. A volatile one keeps nothing: each has got to flash, or is gone.
        if c.firmware.volatile_cache {
            self.backend.owe(true);
            if let Err(e) = self.firmware.power_fail(&mut self.backend, now, random) {
                self.fault.get_or_insert(e);
            }
            self.backend.owe(false);
        }
        self.backend.land_all(now);
        self.powered = false;
    }

    pub(super) fn power_on(&mut self, c: &DriveConfig, now: Nanos) -> Result<Nanos, DriveError> {
        if self.powered {
            return Ok(now);
        }
        self.link.reset(now);
        self.backend.cores.reset(now);
        self.queue.reset();
        let flash = self.backend.power_on(now)?;
        let ready = flash.max(now + c.firmware.power_on);
        self.firmware.power_on(ready, ready - now);
        (self.posted, self.committed, self.remapped) = (ready, ready, ready);
        self.powered = true;
        Ok(ready)
    }
}
