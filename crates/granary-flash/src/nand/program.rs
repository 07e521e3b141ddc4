//! Programming pages and erasing blocks.

use super::{Nand, Sequence, Turn};
use crate::error::FlashError;
use crate::medium::{BlockNo, Medium, Oob};
use crate::nand::die::Op;
use crate::timeline::Timeline;
use granary_units::{Nanos, Page, Ppa};

impl<M: Medium> Nand<M> {
    /// Programs the next page of a block, one of a sequence of programs; the same as [`Nand::program`].
    ///
    /// # Errors
    /// As [`Nand::program`].
    ///
    /// # Panics
    /// On a bad block.
    #[inline]
    pub(crate) fn program_on(
        &mut self,
        s: &mut Sequence,
        now: Nanos,
        block: u32,
        page: u32,
        content: &Page,
        oob: Oob,
    ) -> Result<Nanos, FlashError> {
        if !self.is_plain() {
            return self.program(now, Ppa(block * self.geometry.pages_per_block + page), content, oob);
        }
        assert!(!self.wear[block as usize].bad, "program of bad block {block}");
        let next = self.programmed[block as usize] as u32;
        if next != page {
            let ppa = Ppa(block * self.geometry.pages_per_block + page);
            return Err(FlashError::OutOfOrder { ppa, next });
        }
        self.medium.program(BlockNo(block), page, content, oob)?;
        self.programmed[block as usize] += 1;
        self.stats.programs += 1;
        let array = &mut self.planes[s.plane as usize];
        let ready = now.max(array.horizon().saturating_sub(self.transfer));
        let bus = &mut self.buses[s.channel as usize];
        if !s.begun {
            bus.begin(ready, self.transfer);
            s.begun = true;
        }
        let loaded = bus.fill_on(ready, self.transfer).end;
        Ok(array.append(loaded, self.program).end)
    }

    /// Reserves the time of a read and counts it. The content comes first of all, so that the emulator's
    /// cache miss on it overlaps with the timelines.
    #[inline]
    pub(super) fn deliver<T>(
        &mut self,
        now: Nanos,
        ppa: Ppa,
        block: u32,
        page: u32,
        content: std::io::Result<T>,
        turn: Turn,
    ) -> Result<(T, Nanos), FlashError> {
        let plane = self.geometry.plane_of(block);
        self.stats.reads += 1;
        self.pass_at(plane);
        let sensed = match self.dies {
            None => self.array_read(now, self.read, plane as usize, turn),
            Some(_) => self.sense(now, plane, page),
        };
        let sensed = if self.faults.is_none() { sensed } else { self.retry(sensed, ppa, plane, turn)? };
        let done = self.bus(plane).carry_page(sensed);
        if let Some(dies) = &self.dies {
            dies.leave(&mut self.planes, plane, done);
        }
        match content {
            Ok(content) => Ok((content, done)),
            Err(e) => Err(self.unreadable(e, ppa, done)),
        }
    }

    /// Programs the next page of a block: over the channel, then into the cells. Returns when the cells hold
    /// it.
    ///
    /// # Errors
    /// [`FlashError::ProgramFailed`] leaves an unreadable page; [`FlashError::OutOfOrder`] and errors of the
    /// medium change nothing.
    ///
    /// # Panics
    /// On a bad block.
    #[inline]
    pub fn program(&mut self, now: Nanos, ppa: Ppa, content: &Page, oob: Oob) -> Result<Nanos, FlashError> {
        let (block, page) = self.geometry.split(ppa);
        assert!(!self.wear[block as usize].bad, "program of bad block {block}");
        let next = self.programmed[block as usize] as u32;
        if next != page {
            return Err(FlashError::OutOfOrder { ppa, next });
        }
        let failed = self.faults.as_mut().is_some_and(|f| f.program_fails());
        if failed {
            let lost = Oob { lpa: Oob::NO_LPA, ..oob };
            self.medium.program(BlockNo(block), page, &Page::ZERO, lost)?;
            self.stats.program_failures += 1;
        } else {
            self.medium.program(BlockNo(block), page, content, oob)?;
        }
        self.programmed[block as usize] += 1;
        self.stats.programs += 1;
        let plane = self.geometry.plane_of(block);
        self.pass_at(plane);
        let done = match &mut self.dies {
            None => {
                let free = self.planes[plane as usize].horizon();
                let ready = now.max(free.saturating_sub(self.transfer));
                let loaded = self.bus(plane).carry_page(ready);
                self.planes[plane as usize].append(loaded, self.program).end
            }
            Some(dies) => {
                let ready = dies.load_from(&self.planes, plane, page, now, self.transfer, self.program);
                let channel = self.geometry.channel_of(plane) as usize;
                let loaded = self.buses[channel].fill(ready, self.transfer).end;
                let (end, joined) =
                    dies.array(&mut self.planes, Op::Program, plane, page, loaded, self.program);
                self.stats.joined += joined as u64;
                end
            }
        };
        if failed { Err(FlashError::ProgramFailed { ppa, done }) } else { Ok(done) }
    }

    /// The P2L table says that a page holds logical page `lpa` now.
    pub(crate) fn rename(&mut self, ppa: Ppa, lpa: u32) {
        let (block, page) = self.geometry.split(ppa);
        self.medium.rename(BlockNo(block), page, lpa);
    }

    /// When a program in a plane would be done whose data is ready at `now`, the bus being idle.
    pub(crate) fn program_end(&self, now: Nanos, plane: u32) -> Nanos {
        let free = self.planes[self.timeline_of(plane)].horizon();
        free.max(now + self.transfer) + self.program
    }

    /// Programs every page of an erased block as [`Medium::program_block`] does: counted, and its planes' and
    /// buses' work too, but no time is reserved and nothing fails.
    ///
    /// # Errors
    /// [`FlashError::OutOfOrder`]; errors of the medium.
    ///
    /// # Panics
    /// On a bad block.
    pub fn program_block(
        &mut self,
        block: BlockNo,
        first: Oob,
        step: u32,
        content: impl FnMut(u32) -> Page,
    ) -> Result<(), FlashError> {
        let n = self.geometry.pages_per_block;
        let header = self.header(block);
        assert!(!header.bad, "program of bad block {}", block.0);
        if header.programmed != 0 {
            return Err(FlashError::OutOfOrder { ppa: Ppa(block.0 * n), next: header.programmed });
        }
        self.medium.program_block(block, first, step, content)?;
        self.programmed[block.0 as usize] = n as u16;
        self.stats.programs += n as u64;
        let plane = self.geometry.plane_of(block.0);
        let timeline = self.timeline_of(plane);
        self.planes[timeline].charge(n as u64, self.program);
        let transfer = self.transfer;
        self.buses[self.geometry.channel_of(plane) as usize].charge(n as u64, transfer);
        Ok(())
    }

    /// Reservations of planes and buses, for [`Nand::rewind`].
    pub(crate) fn reservations(&self) -> Vec<Timeline> {
        self.planes.iter().chain(&self.buses).cloned().collect()
    }

    /// Undoes the reservations made since, not their work nor its counts.
    pub(crate) fn rewind(&mut self, earlier: &[Timeline]) {
        for (t, before) in self.planes.iter_mut().chain(&mut self.buses).zip(earlier) {
            t.rewind(before);
        }
        self.forget_commands();
    }

    /// Erases a block.
    ///
    /// # Errors
    /// [`FlashError::EraseFailed`] leaves the block as it was; errors of the medium.
    ///
    /// # Panics
    /// On a bad block.
    pub fn erase(&mut self, now: Nanos, block: BlockNo) -> Result<Nanos, FlashError> {
        let header = self.header(block);
        assert!(!header.bad, "erase of bad block {}", block.0);
        let failed = self.faults.as_mut().is_some_and(|f| f.erase_fails(header.erases));
        if !failed {
            self.medium.erase(block)?;
            self.programmed[block.0 as usize] = 0;
            self.wear[block.0 as usize].erases += 1;
            if let Some(f) = &mut self.faults {
                let n = self.geometry.pages_per_block;
                f.erased(block.0 * n, n);
            }
        }
        self.stats.erases += 1;
        self.stats.erase_failures += failed as u64;
        let plane = self.geometry.plane_of(block.0);
        let done = match &mut self.dies {
            None => self.planes[plane as usize].append(now, self.erase).end,
            Some(dies) => {
                let (end, joined) = dies.array(&mut self.planes, Op::Erase, plane, 0, now, self.erase);
                self.stats.joined += joined as u64;
                end
            }
        };
        if failed { Err(FlashError::EraseFailed { block, done }) } else { Ok(done) }
    }

    /// Marks a block bad for good. Its pages can still be read.
    ///
    /// # Errors
    /// Errors of the medium.
    pub fn mark_bad(&mut self, block: BlockNo) -> Result<(), FlashError> {
        self.medium.mark_bad(block)?;
        self.wear[block.0 as usize].bad = true;
        Ok(())
    }
}
