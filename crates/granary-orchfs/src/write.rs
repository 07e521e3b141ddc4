//! Writing: the I/Os of the partition, then one group for each forty blocks.
//!
//! ```text
//!   1 numbers are taken for all blocks         nothing is changed when some are missing
//!   2 SSD commands submitted, NVM stores       bytes in place that are not seen yet, or that the write changes
//!   3 commands waited for, fence
//!   4 group: entries, words, size and times    the write counts
//!   5 the tree in memory
//! ```
//!
//! Rules (OrchFS section 4): O1 an entry is seen only after its bytes are fenced. O2 an entry that hides bytes of the SSD goes only
//! after the SSD has the new ones. O3 a chunk is merged by storing the body first: bytes outside the old header are not
//! seen, bytes inside may tear. O4 an entry is one record. O5 a size is in the group of the units below it.
//!
//! NVM full: the part is read, merged and written to the SSD as a whole block by the host, which is slow and right. SSD full: whole
//! blocks go to NVM pages. `NoSpace` only where both are.
//!
//! `data_atomicity`: with `redo` nothing that somebody sees is overwritten, a new page or block takes the old one's place in the group. With
//! `undo` the old bytes are kept first ([`crate::undo`]).
//!
//! What lies in a file's last block behind its end may be anything, except that blocks behind that are holes or unwritten. So what a
//! file grows over is zeroed with what makes it grow.

mod execute;
mod grow;

use crate::OrchFs;
use crate::geometry::{BLOCK, PAGE, PAGES, Part, parts};
use crate::layout::Area;
use crate::node::node;
use crate::options::{DataAtomicity, FullUpage, Partition, Reclaim};
use crate::partition::{Piece, Touch, plan_block};
use crate::pools::Taken;
use crate::ranges::Use;
use crate::unit::{Base, Slot, Unit};
use crate::upage::Header;
use granary_sim::{costs, cpu};
use granary_units::Payload;
use granary_vfs::{Attr, Call, FsError, Inode, Result};
use std::sync::atomic::Ordering::Relaxed;

/// Blocks of a write in one group: 1 MiB and 10 %, the largest of the paper's fixed sizes, is one.
const GROUP: usize = 40;

/// The same where old pages are kept: an undo slot has room for eight of each block.
const UNDO_GROUP: usize = crate::undo::ENTRIES / PAGES - 1;

/// Where bytes come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Zeros.
    Zeros,
    /// The caller's, from this byte of them on.
    Data(usize),
}

/// Bytes for a part of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub part: Part,
    pub source: Source,
}

/// One I/O, with the numbers that it is for.
enum Io {
    /// An NVM page's bytes go to another page, but for these.
    Copy { old: u64, page: u64, from: u16, to: u16 },
    /// A page of the SSD with an Upage's chunks over it, and these bytes over them, goes back to the SSD.
    WriteBack { base: Base, index: usize, page: u64, header: Header, from: u16, to: u16, source: Source },
    /// Bytes of an NVM page; `whole`: the rest of it below `end` becomes zero.
    Store { page: u64, from: u16, to: u16, source: Source, whole: Option<u16> },
    /// Gaps of an Upage, from the SSD's page.
    Fill { page: u64, base: Base, index: usize, gaps: Vec<(u16, u16)> },
    /// A block of the SSD as a whole.
    Ssd { block: u64, source: Source },
    /// A block of the SSD as a whole: what there is, with these segments over it.
    Merge { block: u64, old: Unit, segments: Vec<Segment> },
}

/// What is to happen to one block.
pub(crate) struct Job<'a> {
    pub block: u64,
    pub after: Unit,
    ios: Vec<Io>,
    taken: Taken<'a>,
}

impl<'a> Job<'a> {
    /// A block that becomes something without any I/O.
    pub fn change(fs: &'a OrchFs, block: u64, after: Unit) -> Job<'a> {
        Job { block, after, ios: Vec::new(), taken: Taken::new(&fs.pools) }
    }

    /// Its numbers are in use from now on.
    pub fn keep(&mut self) {
        self.taken.keep();
    }

    /// What of the old is overwritten in place, each once.
    pub fn overwrites(&self) -> Vec<(Area, u64)> {
        let of = |io: &Io| {
            match io {
                Io::Store { page, whole: None, .. } | Io::Fill { page, .. } => (Area::Page, *page),
                Io::Ssd { block, .. } | Io::Merge { block, .. } => (Area::Block, *block),
                Io::WriteBack { base, .. } => (Area::Block, base.block),
                Io::Store { .. } | Io::Copy { .. } => return None,
            }
            .into()
        };
        let mut all: Vec<(Area, u64)> =
            self.ios.iter().filter_map(of).filter(|(area, number)| !self.taken.has(*area, *number)).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// What an execution of jobs makes of the inode.
pub(crate) struct Stamp<'a> {
    /// Attributes, of those that the inode has now, when the blocks up to this byte of the file are done; the last time when all are.
    pub attr: &'a dyn Fn(Attr, Option<u64>) -> Attr,
    /// Attributes change beside size and times of a write.
    pub head: bool,
    /// Blocks in a group.
    pub group: usize,
}

impl OrchFs {
    /// Takes a number; where none is free but some wait for a digest, after that.
    pub(crate) fn take(&self, taken: &mut Taken<'_>, area: Area) -> Result<u64> {
        if self.granted[area as usize].fetch_add(1, Relaxed).is_multiple_of(area.grant()) {
            cpu(self.options.ipc);
        }
        match taken.take(area) {
            Err(FsError::NoSpace) if self.free_by_digest(area)? => {}
            other => return other,
        }
        taken.take(area)
    }

    /// What a write of these segments makes of a block, with numbers taken; `end` is the file's size afterwards.
    pub(crate) fn prepare(&self, block: u64, unit: &Unit, segments: &[Segment], end: u64) -> Result<Job<'_>> {
        let mut job = Job::change(self, block, unit.clone());
        match self.partition(&mut job, segments, end, false) {
            Err(FsError::NoSpace) => {}
            done => return done.map(|()| job),
        }
        job.taken.back_to(0);
        if self.migrate_for_space()? {
            job.after = unit.clone();
            job.ios.clear();
            match self.partition(&mut job, segments, end, false) {
                Err(FsError::NoSpace) => {}
                done => return done.map(|()| job),
            }
        }
        drop(job);
        if *unit == Unit::Hole && segments.iter().any(|segment| segment.part.is_whole()) {
            // No SSD block: NVM pages will do.
            let mut job = Job::change(self, block, unit.clone());
            return self.partition(&mut job, segments, end, true).map(|()| job);
        }
        self.merge_on_ssd(block, unit, segments)
    }

    /// The block is to be on the SSD as a whole, with these segments over what there is: in place, or in a new block.
    pub(crate) fn merge_on_ssd(&self, block: u64, unit: &Unit, segments: &[Segment]) -> Result<Job<'_>> {
        let mut job = Job::change(self, block, Unit::Hole);
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

    /// Where nothing may be overwritten: the page that takes an old one's place, with its bytes but for these. `None`: the old one
    /// does, because nobody sees these bytes of it yet, or they may tear.
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
        // A page of this request itself is not full of old bytes only, and an unwritten block has no pages to write between.
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

    /// Writes `data` at `pos`; size and times with it.
    pub(crate) fn write_file(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        pos: u64,
        data: Payload<'_>,
    ) -> Result<()> {
        let (node, old) = (node(inode), inode.attr());
        let end = pos + data.len() as u64;
        let size = old.size.max(end);
        // An append may change what the old last block is.
        let first = pos.min(old.size) / BLOCK;
        let how = if end > old.size { Use::Resize } else { Use::Write };
        let _held = node.ranges.lock(first, (end - 1) / BLOCK, how);
        let unit = |block: u64| node.state.read().tree.get(block).clone();
        let mut jobs = Vec::new();
        let mut gap = Vec::new();
        if pos > old.size && old.size % BLOCK != 0 {
            let tail = unit(old.size / BLOCK);
            gap = self.gap(&tail, old.size, pos);
            if old.size / BLOCK < pos / BLOCK && !gap.is_empty() {
                jobs.push(self.grown(old.size / BLOCK, &tail, &gap, size)?);
                gap.clear();
            }
        }
        for part in parts(pos, data.len() as u64) {
            let source = Source::Data((part.start() - pos) as usize);
            let mut segments = std::mem::take(&mut gap);
            segments.push(Segment { part, source });
            let below = unit(part.block);
            jobs.push(match self.options.partition {
                Partition::Phfs if data.len() as u64 >= BLOCK => {
                    let c = costs();
                    cpu(c.page * part.pages().count() as u64 + c.copy(part.len()));
                    self.merge_on_ssd(part.block, &below, &segments)?
                }
                _ => self.prepare(part.block, &below, &segments, size)?,
            });
        }
        let attr = |now: Attr, reached: Option<u64>| Attr {
            size: now.size.max(reached.map_or(end, |reached| reached.min(end))),
            // A write that began later may have counted before this one: then its times stay.
            mtime: if now.ctime > call.time { now.mtime } else { call.time },
            ctime: now.ctime.max(call.time),
            ..now
        };
        let group = if self.options.data_atomicity == DataAtomicity::Undo { UNDO_GROUP } else { GROUP };
        self.execute(call.process, inode, jobs, data, &Stamp { attr: &attr, head: false, group })
    }

    /// Takes a number that belongs to a job.
    pub(crate) fn take_for<'a>(&'a self, job: &mut Job<'a>, area: Area) -> Result<u64> {
        self.take(&mut job.taken, area)
    }
}
