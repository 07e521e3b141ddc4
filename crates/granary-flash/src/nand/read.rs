//! Reading pages, retries included.

use super::{Nand, READ_ATTEMPTS, Sequence, Turn};
use crate::error::FlashError;
use crate::medium::{BlockNo, Medium, Oob};
use crate::nand::die::Op;
use granary_units::{Nanos, Page, Ppa};

impl<M: Medium> Nand<M> {
    /// Reads a page: from the cells, then over the channel. Returns its content, its OOB, and when the last
    /// byte has arrived.
    ///
    /// # Errors
    /// [`FlashError::Unreadable`] after several attempts; [`FlashError::Erased`]; errors of the medium.
    #[inline]
    pub fn read(&mut self, now: Nanos, ppa: Ppa) -> Result<(Page, Oob, Nanos), FlashError> {
        let (block, page) = self.holding(ppa)?;
        let content = self.medium.read(BlockNo(block), page);
        let ((content, oob), done) = self.deliver(now, ppa, block, page, content, Turn::Idle)?;
        Ok((content, oob, done))
    }

    /// The same for a page that should hold logical page `lpa` ([`Medium::fetch`]); returns what it says that
    /// it holds. An `urgent` read goes before programs, erases and reads of the plane that have not begun.
    ///
    /// # Errors
    /// As [`Nand::read`].
    #[inline]
    pub fn fetch(
        &mut self,
        now: Nanos,
        ppa: Ppa,
        lpa: u32,
        urgent: bool,
    ) -> Result<(Page, u32, Nanos), FlashError> {
        let (block, page) = self.holding(ppa)?;
        let content = self.medium.fetch(BlockNo(block), page, lpa);
        let turn = if urgent { Turn::Next } else { Turn::Idle };
        let ((content, lpa), done) = self.deliver(now, ppa, block, page, content, turn)?;
        Ok((content, lpa, done))
    }

    /// Begins a sequence of reads or programs in the plane of a block.
    #[inline]
    pub(crate) fn sequence(&mut self, block: u32) -> Sequence {
        let plane = self.geometry.plane_of(block);
        self.pass_at(plane);
        Sequence { plane, channel: self.geometry.channel_of(plane), begun: false }
    }

    /// Whether no rules of dies and no failures have to be thought of.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.dies.is_none() && self.faults.is_none()
    }

    /// Reads a page of a sequence of reads that are all asked for at the instant with which it began; the
    /// same as [`Nand::read`] but for the sequence number.
    ///
    /// # Errors
    /// As [`Nand::read`].
    #[inline]
    pub(crate) fn read_on(
        &mut self,
        s: &mut Sequence,
        now: Nanos,
        block: u32,
        page: u32,
    ) -> Result<(Page, u32, Nanos), FlashError> {
        let ppa = Ppa(block * self.geometry.pages_per_block + page);
        if page >= self.programmed[block as usize] as u32 {
            return Err(FlashError::Erased { ppa });
        }
        let content = self.medium.content(BlockNo(block), page);
        if !self.is_plain() {
            let ((content, lpa), done) = self.deliver(now, ppa, block, page, content, Turn::Idle)?;
            return Ok((content, lpa, done));
        }
        self.stats.reads += 1;
        let (array, bus) = (&mut self.planes[s.plane as usize], &mut self.buses[s.channel as usize]);
        if !s.begun {
            array.begin(now, self.read);
        }
        let sensed = array.fill_on(now, self.read).end;
        if !s.begun {
            bus.begin(sensed, self.transfer);
            s.begun = true;
        }
        let done = bus.fill_on(sensed, self.transfer).end;
        match content {
            Ok((content, lpa)) => Ok((content, lpa, done)),
            Err(e) => Err(self.unreadable(e, ppa, done)),
        }
    }

    /// The flash error for a medium's refusal to give a page.
    #[cold]
    pub(super) fn unreadable(&mut self, e: std::io::Error, ppa: Ppa, done: Nanos) -> FlashError {
        if e.kind() == std::io::ErrorKind::InvalidData {
            // The medium has the page, but its checksum says that this is not what was programmed.
            self.stats.unreadable += 1;
            return FlashError::Unreadable { ppa, done };
        }
        e.into()
    }

    #[inline]
    pub(super) fn array_read(&mut self, ready: Nanos, len: Nanos, timeline: usize, turn: Turn) -> Nanos {
        let array = &mut self.planes[timeline];
        match turn {
            Turn::Next => array.urgent(ready, len).end,
            Turn::Idle => array.fill(ready, len).end,
        }
    }

    /// The first attempt to read has ended at `sensed`; returns when one has succeeded.
    pub(super) fn retry(
        &mut self,
        sensed: Nanos,
        ppa: Ppa,
        plane: u32,
        turn: Turn,
    ) -> Result<Nanos, FlashError> {
        let timeline = self.timeline_of(plane);
        let mut t = sensed;
        for attempt in 1..=READ_ATTEMPTS {
            if !self.faults.as_mut().is_some_and(|f| f.read_fails(ppa)) {
                self.stats.corrected += (attempt > 1) as u64;
                return Ok(t);
            }
            if attempt < READ_ATTEMPTS {
                t = self.array_read(t, self.retry, timeline, turn);
                self.stats.read_retries += 1;
            }
        }
        self.stats.unreadable += 1;
        Err(FlashError::Unreadable { ppa, done: t })
    }

    /// [`Op::Read`] in a die with rules.
    pub(super) fn sense(&mut self, now: Nanos, plane: u32, page: u32) -> Nanos {
        let Some(dies) = &mut self.dies else { return now };
        let (end, joined) = dies.array(&mut self.planes, Op::Read, plane, page, now, self.read);
        self.stats.joined += joined as u64;
        end
    }
}
