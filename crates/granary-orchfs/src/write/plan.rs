//! From segments to I/Os with numbers: what the partition says is given pages, blocks and nodes, and what to
//! do where there are none.

use super::{Io, Job, Segment, Source};
use crate::fs::OrchFs;
use crate::geometry::{BLOCK, PAGE, PAGES};
use crate::layout::Area;
use crate::options::{DataAtomicity, FullUpage, Reclaim};
use crate::partition::{Piece, Touch, plan_block};
use crate::unit::{Base, Slot, Unit};
use crate::upage::Header;
use granary_fs::{FsError, Result};
use std::sync::atomic::Ordering::Relaxed;

impl OrchFs {
    /// Plans a write of these segments to a block, and takes its numbers; `end` is the file's size
    /// afterwards.
    pub(crate) fn prepare(
        &self,
        process: u32,
        block: u64,
        unit: &Unit,
        segments: &[Segment],
        end: u64,
    ) -> Result<Job<'_>> {
        let mut job = Job::change(self, process, block, unit.clone());
        match self.partition(&mut job, segments, end, false) {
            Err(FsError::NoSpace) => {}
            done => return done.map(|()| job),
        }
        drop(job);
        if *unit == Unit::Hole && segments.iter().any(|segment| segment.part.is_whole()) {
            // No SSD block: NVM pages will do.
            let mut job = Job::change(self, process, block, unit.clone());
            return self.partition(&mut job, segments, end, true).map(|()| job);
        }
        self.merge_on_ssd(process, block, unit, segments)
    }

    /// The block is to be on the SSD as a whole, with these segments over what there is: in place, or in a
    /// new block.
    pub(crate) fn merge_on_ssd(
        &self,
        process: u32,
        block: u64,
        unit: &Unit,
        segments: &[Segment],
    ) -> Result<Job<'_>> {
        let mut job = Job::change(self, process, block, Unit::Hole);
        let number = match unit.base() {
            // A migration changes no byte that anybody sees.
            Some(base) if !self.is_redo() || segments.is_empty() => base.block,
            _ => self.take(&mut job.taken, Area::Block)?,
        };
        job.after = Unit::Block(Base { block: number, unwritten: false });
        job.ios.push(Io::Merge { block: number, old: unit.clone(), segments: segments.to_vec() });
        Ok(job)
    }

    /// Follows the plan of each segment.
    fn partition(&self, job: &mut Job<'_>, segments: &[Segment], end: u64, on_nvm: bool) -> Result<()> {
        job.taken.back_to(0);
        for segment in segments {
            let mut pieces = plan_block(&job.after, segment.part);
            if on_nvm && pieces == [Piece::Ssd { new: true }] {
                let touch = Touch::New;
                let all = segment.part.pages();
                pieces = all.map(|(page, from, to)| Piece::Nvm { page, from, to, touch }).collect();
            }
            for piece in pieces {
                match piece {
                    Piece::Ssd { new } => self.plan_ssd(job, new, segment.source)?,
                    Piece::Nvm { page, from, to, touch } => {
                        let at = page as u32 * PAGE as u32 + u32::from(from) - segment.part.from;
                        let source = match segment.source {
                            Source::Zeros => Source::Zeros,
                            Source::Data(first) => Source::Data(first + at as usize),
                        };
                        let below =
                            end.saturating_sub(job.block * BLOCK + page as u64 * PAGE).min(PAGE) as u16;
                        self.plan_nvm(job, page, (from, to), touch, (source, below))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn plan_ssd(&self, job: &mut Job<'_>, new: bool, source: Source) -> Result<()> {
        let block = match job.after.base() {
            Some(base) if !new && (!self.is_redo() || job.taken.has(Area::Block, base.block)) => base.block,
            _ => self.take(&mut job.taken, Area::Block)?,
        };
        let base = Base { block, unwritten: false };
        job.after = match std::mem::take(&mut job.after) {
            Unit::Over { eln, mut slots, .. } if self.options.reclaim == Reclaim::Artifact => {
                slots.iter_mut().for_each(|slot| slot.header = Header::EMPTY);
                Unit::Over { eln, base, slots }
            }
            _ => Unit::Block(base),
        };
        job.ios.push(Io::Ssd { block, source });
        Ok(())
    }

    fn plan_nvm(
        &self,
        job: &mut Job<'_>,
        index: usize,
        (from, to): (u16, u16),
        touch: Touch,
        (source, below): (Source, u16),
    ) -> Result<()> {
        if matches!(touch, Touch::Chunk { full: true, .. }) && self.write_back(job, index, (from, to), source)
        {
            return Ok(());
        }
        let copied = self.copied(job, index, (from, to), touch)?;
        let is_new = matches!(touch, Touch::New | Touch::Chunk { new: true, .. });
        if matches!(touch, Touch::Chunk { new: true, .. }) {
            self.upages_made.fetch_add(1, Relaxed);
        }
        let new_page = if is_new { self.take(&mut job.taken, Area::Page)? } else { 0 };
        match job.after {
            Unit::Hole => {
                let eln = self.take(&mut job.taken, Area::Append)?;
                job.after = Unit::Append { eln, pages: [0; PAGES] };
            }
            Unit::Block(base) => {
                let eln = self.take(&mut job.taken, Area::Over)?;
                job.after = Unit::Over { eln, base, slots: Box::default() };
            }
            _ => {}
        }
        let mut whole = None;
        let page = match &mut job.after {
            Unit::Append { pages, .. } => {
                if is_new {
                    (pages[index], whole) = (new_page, Some(below.max(to)));
                }
                pages[index] = copied.unwrap_or(pages[index]);
                pages[index]
            }
            Unit::Over { base, slots, .. } => {
                let slot = &mut slots[index];
                slot.page = copied.unwrap_or(slot.page);
                match touch {
                    Touch::New => {
                        // Over zeros all of the page is zero, over the SSD all of it is written.
                        (slot.header, whole) = (Header::whole(), Some(PAGE as u16));
                    }
                    Touch::InPlace => slot.header = Header::whole(),
                    Touch::Chunk { full: true, .. } => {
                        let gaps = slot.header.gaps(0, PAGE as u16);
                        job.ios.push(Io::Fill { page: slot.page, base: *base, index, gaps });
                        slot.header = Header::whole();
                    }
                    Touch::Chunk { .. } => {
                        slot.header = slot.header.with(from, to).ok_or(FsError::Invalid)?;
                    }
                }
                if is_new {
                    slot.page = new_page;
                }
                slot.page
            }
            _ => return Err(FsError::Invalid),
        };
        job.ios.push(Io::Store { page, from, to, source, whole });
        Ok(())
    }

    fn is_redo(&self) -> bool {
        self.options.data_atomicity == DataAtomicity::Redo
    }

    /// Where nothing may be overwritten: the page that takes an old one's place, with its bytes but for
    /// these. `None`: the old one does, because nobody sees these bytes of it yet, or they may tear.
    fn copied(
        &self,
        job: &mut Job<'_>,
        index: usize,
        (from, to): (u16, u16),
        touch: Touch,
    ) -> Result<Option<u64>> {
        let old = match (&job.after, touch) {
            (_, Touch::New | Touch::Chunk { new: true, .. }) => return Ok(None),
            (Unit::Append { pages, .. }, _) => pages[index],
            (Unit::Over { slots, .. }, Touch::Chunk { .. }) => {
                let seen = slots[index].header.gaps(from, to) != [(from, to)];
                if seen { slots[index].page } else { 0 }
            }
            (Unit::Over { slots, .. }, _) => slots[index].page,
            _ => 0,
        };
        if !self.is_redo() || old == 0 || job.taken.has(Area::Page, old) {
            return Ok(None);
        }
        let page = self.take(&mut job.taken, Area::Page)?;
        job.ios.push(Io::Copy { old, page, from, to });
        Ok(Some(page))
    }

    /// A full Upage is written back to the SSD and freed, where that is asked for and can be.
    fn write_back(&self, job: &mut Job<'_>, index: usize, (from, to): (u16, u16), source: Source) -> bool {
        let Unit::Over { base, slots, .. } = &mut job.after else { return false };
        // A page of this request itself is not full of old bytes only, and an unwritten block has no pages to
        // write between.
        let can = !base.unwritten && !job.taken.has(Area::Page, slots[index].page);
        if self.options.full_upage == FullUpage::Convert || self.is_redo() || !can {
            return false;
        }
        let slot = std::mem::take(&mut slots[index]);
        let (base, page, header) = (*base, slot.page, slot.header);
        if slots.iter().all(Slot::is_clear) {
            job.after = Unit::Block(base);
        }
        job.ios.push(Io::WriteBack { base, index, page, header, from, to, source });
        true
    }
}
