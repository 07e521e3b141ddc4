//! The drive's work between calls, under its lock.

use super::State;
use granary_device::DriveError;
use granary_device::Structure;
use granary_device::{BusyTime, DriveCounters};
use granary_units::{LINE_SIZE, Lpa, Nanos, PAGE_SIZE};

impl State {
    /// Does what is due by `now`; an error if the drive cannot serve anything.
    #[inline]
    pub(super) fn begin(&mut self, now: Nanos) -> Result<(), DriveError> {
        if self.inner.tracking || !self.powered || self.inner.fault.is_some() {
            return self.begin_if_able(now);
        }
        self.advance(now);
        Ok(())
    }

    #[cold]
    pub(super) fn begin_if_able(&mut self, now: Nanos) -> Result<(), DriveError> {
        if !self.powered {
            return Err(DriveError::PoweredOff);
        }
        if self.inner.tracking {
            self.acknowledge(now);
        }
        self.advance(now);
        match &self.inner.fault {
            None => Ok(()),
            Some(fault) => Err(fault.clone()),
        }
    }

    #[inline]
    pub(super) fn advance(&mut self, now: Nanos) {
        self.inner.backend.pump(now);
        self.inner.firmware.pump(&mut self.inner.backend, now);
        self.inner.backend.pass(now);
        self.inner.link.pass(now);
        self.inner.backend.cores.pass(now);
    }

    /// The page under which the firmware has what is read under this one.
    #[inline]
    pub(super) fn newest(&self, lpa: Lpa) -> Lpa {
        self.companion.as_ref().map_or(lpa, |own| own.newest(lpa))
    }

    /// A part of a page is about to change.
    #[inline]
    pub(super) fn part(&mut self, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        match &mut self.companion {
            None => Ok(t),
            Some(own) => own.part(&mut self.inner, t, lpa),
        }
    }

    /// Lets what is in flight for a page take effect before its acknowledgement.
    pub(super) fn land(&mut self, lpa: Lpa, now: Nanos) {
        self.inner.land(self.companion.as_deref_mut(), lpa, now);
    }

    /// Moves everything to flash; returns when it is there.
    pub(super) fn settle_all(&mut self, t: Nanos) -> Result<Nanos, DriveError> {
        let t = self.inner.firmware.settle(&mut self.inner.backend, t)?;
        Ok(self.inner.backend.drain(t))
    }

    /// The processor's part of the gc that a call at `now` led to, before which `copied` pages had been
    /// copied: an entry of the map for each page.
    #[inline]
    pub(super) fn charge_gc(&mut self, now: Nanos, copied: u64, entry: Nanos) {
        let copied = self.inner.backend.copied() - copied;
        if copied > 0 {
            self.inner.backend.cores.serve_idle(now, entry * copied);
        }
    }

    /// Hands what changed to the image.
    #[inline]
    pub(super) fn publish(&mut self) -> Result<(), DriveError> {
        self.inner.publish(self.companion.as_deref_mut())
    }

    pub(super) fn counters(&self) -> DriveCounters {
        let (buffer, flash) = self.inner.backend.counters();
        let (link_to_drive, link_to_host) = self.inner.link.busy();
        let (planes, channels) = self.inner.backend.busy();
        let busy = BusyTime {
            link_to_host,
            link_to_drive,
            cores: self.inner.backend.cores.busy(),
            channels,
            planes,
        };
        let rest = DriveCounters::default();
        let mut all = DriveCounters {
            link: self.inner.traffic,
            flash,
            buffer,
            commands: self.inner.commands,
            busy,
            ..rest
        };
        self.inner.firmware.count(&mut all);
        if let Some(own) = &self.companion {
            own.count(&mut all);
        }
        all
    }

    pub(super) fn counters_at(&self, now: Nanos) -> DriveCounters {
        let mut c = self.counters();
        let (link_to_drive, link_to_host) = self.inner.link.ahead(now);
        let (planes, channels) = self.inner.backend.ahead(now);
        let ahead = BusyTime {
            link_to_host,
            link_to_drive,
            cores: self.inner.backend.cores.ahead(now),
            channels,
            planes,
        };
        c.busy = c.busy.since(&ahead);
        c
    }

    pub(super) fn check(&self) -> Vec<String> {
        let mut bad = self.inner.backend.check();
        bad.extend(self.inner.firmware.check());
        if let Some(own) = &self.companion {
            bad.extend(own.check(&|lpa| self.inner.has_content(lpa)));
        }
        let c = self.counters();
        let sum = |a: &[u64; Structure::COUNT]| a.iter().sum::<u64>();
        let (page, line) = (PAGE_SIZE as u64, LINE_SIZE as u64);
        let taken = self.inner.firmware.lines();
        for (what, left, right) in [
            ("block reads", sum(&c.link.block_read), c.commands.read_pages * page),
            ("block writes", sum(&c.link.block_write), c.commands.write_pages * page),
            ("byte reads", sum(&c.link.byte_read), c.commands.load_lines * line),
            ("byte writes", sum(&c.link.byte_write), c.commands.posted_lines * line),
            ("lines taken by the firmware", taken, c.commands.posted_lines),
        ] {
            if left != right {
                bad.push(format!("counters: {what} do not balance: {left} and {right}"));
            }
        }
        bad
    }
}
