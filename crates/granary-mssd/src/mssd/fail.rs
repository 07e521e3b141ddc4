//! Power: losses, survivors, and the tracking that tells them apart.
//!
//! ```text
//!   power_fail   acknowledged commands take effect | unverified lines: each lost or not
//!                | commands in flight: pages torn, commits a prefix
//!                | write-combining lines: each lost or not
//!   power_on     DRAM content comes back, index rebuilt from the log's regions, timelines idle
//! ```
//!
//! Without tracking every submitted command and every posted line counts as landed; only the write-combining
//! buffers are volatile. Source: docs/FAULT_MODEL.md, ByteFS sections 4.2 and 5.5.

use super::State;
use crate::config::DriveConfig;
use crate::power::{Effect, torn};
use granary_device::DriveError;
use granary_sim::rng::{Stream, Thing};
use granary_units::Nanos;

impl State {
    /// Lets everything that is acknowledged by `now` take effect.
    pub(super) fn acknowledge(&mut self, now: Nanos) {
        if !self.inner.in_flight.is_empty() {
            for (done, effect) in self.inner.in_flight.acknowledged(now) {
                self.apply(done, effect);
            }
        }
        if !self.verifying.is_empty() {
            let answered =
                self.verifying.iter().filter(|(done, _)| *done <= now).map(|(_, posts)| *posts).max();
            if let Some(posts) = answered {
                self.inner.firmware.verified(posts);
                self.verifying.retain(|(done, _)| *done > now);
            }
        }
    }

    fn apply(&mut self, t: Nanos, effect: Effect) {
        self.inner.apply(self.companion.as_deref_mut(), t, effect);
    }

    pub(super) fn track(&mut self, on: bool) {
        self.acknowledge(Nanos::MAX);
        self.inner.tracking = on;
        self.inner.firmware.track(on);
    }

    pub(super) fn power_fail(&mut self, c: &DriveConfig, now: Nanos, random: &mut Stream) {
        if !self.powered {
            return;
        }
        self.acknowledge(now);
        self.inner.backend.pump(now);
        self.inner.firmware.pump(&mut self.inner.backend, now);
        self.verifying.clear();
        self.inner.backend.owe(true);
        if let Err(e) = self.inner.firmware.power_fail(&mut self.inner.backend, now, random) {
            self.inner.fault.get_or_insert(e);
        }
        self.inner.backend.owe(false);
        for mut effect in self.inner.in_flight.torn(random) {
            if let Effect::Write(lpa, page) = &mut effect
                && let Some(sectors) = torn(random, c.firmware.tears_pages)
            {
                match self.inner.firmware.peek(&self.inner.backend, *lpa) {
                    Ok(mut old) => {
                        old.merge_lines(page, sectors);
                        *page = old;
                    }
                    Err(e) => drop(self.inner.fault.get_or_insert(e)),
                }
            }
            self.apply(now, effect);
        }
        self.post_survivors(c, now, |line| random.survives(Thing::Line("combined", line)));
        // Lines that have landed in the last moment are in the drive for good.
        self.inner.firmware.verified(u64::MAX);
        // Those are in the cache now. A volatile one keeps nothing: each has got to flash, or is gone.
        if c.firmware.volatile_cache {
            self.inner.backend.owe(true);
            if let Err(e) = self.inner.firmware.power_fail(&mut self.inner.backend, now, random) {
                self.inner.fault.get_or_insert(e);
            }
            self.inner.backend.owe(false);
        }
        self.inner.backend.land_all(now);
        self.powered = false;
    }

    pub(super) fn power_on(&mut self, c: &DriveConfig, now: Nanos) -> Result<Nanos, DriveError> {
        if self.powered {
            return Ok(now);
        }
        self.inner.link.reset(now);
        self.inner.backend.cores.reset(now);
        self.inner.queue.reset();
        let flash = self.inner.backend.power_on(now)?;
        let ready = flash.max(now + c.firmware.power_on);
        self.inner.firmware.power_on(ready, ready - now);
        (self.posted, self.committed) = (ready, ready);
        if let Some(own) = &mut self.companion {
            own.power_on(ready);
        }
        self.powered = true;
        Ok(ready)
    }
}
