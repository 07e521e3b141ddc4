//! Pages that come.

use super::{Backend, Slot, State};
use crate::config::WriteAck;
use granary_device::DriveError;
use granary_flash::Cause;
use granary_units::{Lpa, Nanos, Page};

impl Backend {
    /// When a slot is free, from `t` on.
    ///
    /// # Errors
    /// Read-only drive.
    pub fn room(&mut self, t: Nanos) -> Result<Nanos, DriveError> {
        let mut free = t;
        while self.used() >= self.capacity {
            match self.finish_one() {
                Some(done) => free = free.max(done),
                None if self.takes_all() => break,
                None => {
                    return Err(self.read_only().unwrap_or(DriveError::Failed("write buffer stuck".into())));
                }
            }
        }
        if free > t {
            self.counters.stalls += 1;
            self.counters.stall_time += free - t;
        }
        Ok(free)
    }

    /// Whether what comes now has been acknowledged already, so that it must be taken.
    pub fn owe(&mut self, owed: bool) {
        self.owed = owed;
    }

    pub(super) fn takes_all(&self) -> bool {
        self.owed || self.fleeting
    }

    pub(super) fn read_only(&self) -> Option<DriveError> {
        self.refused.clone().map(DriveError::ReadOnly)
    }

    /// Pages that gc has copied so far.
    #[inline]
    pub fn copied(&self) -> u64 {
        self.ftl.copied()
    }

    /// Whether the drive still takes data.
    ///
    /// # Errors
    /// Read-only drive.
    #[inline]
    pub fn writable(&self) -> Result<(), DriveError> {
        if self.refused.is_none() || self.takes_all() { Ok(()) } else { self.read_only().map_or(Ok(()), Err) }
    }

    /// Takes a page at `t`; returns when it is in the buffer, and so safe.
    ///
    /// # Errors
    /// Read-only drive.
    #[inline]
    pub fn write(&mut self, t: Nanos, lpa: Lpa, page: Page, cause: Cause) -> Result<Nanos, DriveError> {
        self.writable()?;
        self.pump(t);
        self.counters.pages += 1;
        if let Some(&slot) = self.newest.get(&lpa) {
            let s = &mut self.slots[slot as usize];
            if s.state == State::Waiting || s.state == State::Refused {
                (s.page, s.cause) = (page, cause);
                self.counters.coalesced += 1;
                return Ok(t);
            }
        }
        let t = self.room(t)?;
        let slot = self.occupy(Slot { lpa, page, cause, state: State::Waiting });
        self.waiting.push_back(slot);
        self.issue(t);
        if self.ahead == usize::MAX {
            // On an image a page that the flash refused is nowhere but in this process: it is not accepted.
            self.writable()?;
        }
        Ok(t)
    }

    /// The slot that holds the newest content of its page from now on.
    #[inline]
    pub(super) fn occupy(&mut self, new: Slot) -> u32 {
        let lpa = new.lpa;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                (self.slots.len() - 1) as u32
            }
        };
        self.newest.insert(lpa, slot);
        slot
    }

    /// Takes a page of a block write at `t`; returns when the drive may acknowledge it.
    ///
    /// # Errors
    /// Read-only drive.
    #[inline]
    pub fn write_block(&mut self, t: Nanos, lpa: Lpa, page: Page) -> Result<Nanos, DriveError> {
        match self.ack {
            WriteAck::Buffer => self.write(t, lpa, page, Cause::Host),
            WriteAck::Program => self.write_through(t, lpa, page),
        }
    }

    /// Takes a page at `t` and programs it before all that wait; returns when flash holds it.
    pub(super) fn write_through(&mut self, t: Nanos, lpa: Lpa, page: Page) -> Result<Nanos, DriveError> {
        self.writable()?;
        self.pump(t);
        self.counters.pages += 1;
        let t = self.room(t)?;
        if let Some(&slot) = self.newest.get(&lpa)
            && self.slots[slot as usize].state == State::Waiting
        {
            // The older content need not be programmed any more.
            self.slots[slot as usize].state = State::Trimmed;
            self.counters.coalesced += 1;
        }
        let slot =
            self.occupy(Slot { lpa, page: page.clone(), cause: Cause::Host, state: State::Programming });
        match self.ftl.write(t, lpa, page, Cause::Host) {
            Ok(done) => {
                self.counters.issued += 1;
                self.programming.start(done, slot);
                Ok(done)
            }
            Err(e) => {
                // It stays here, readable and battery-backed.
                self.slots[slot as usize].state = State::Refused;
                self.refused = Some(e.to_string());
                if self.ahead == usize::MAX {
                    self.writable()?;
                }
                Ok(t)
            }
        }
    }

    /// When the drive may acknowledge a page that arrives at `t` while the block writes of `before` others
    /// are in flight whose programs have not been issued yet: what [`Backend::write_block`] would return if
    /// nothing else came in between.
    pub fn acknowledged_by(&self, t: Nanos, before: usize) -> Nanos {
        match self.ack {
            WriteAck::Buffer => t,
            WriteAck::Program => self.ftl.program_end(t, before),
        }
    }
}
