//! Space on request: blocks that are reserved, ranges that are zeroed, and where a file's holes are.
//!
//! ```text
//!                 hole                           A                          S, O
//!   reserve       SSD block, unwritten           missing pages, zeroed      nothing is missing
//!   zero, whole   the same                       a new block, unwritten     the same block, unwritten
//!   zero, pages   the same                       pages zeroed in place      slots say zeros
//! ```
//!
//! An unwritten block reads as zeros, so that reserving and zeroing write nothing to the SSD.
//!
//! The edges of a range, which share a page with other bytes, may need a new page or block. So they are
//! zeroed here, not by the vfs after the call: numbers for edges and pages are taken before anything changes.

use crate::fs::OrchFs;
use crate::geometry::{BLOCK, PAGE, PAGES, Part, parts};
use crate::hrtree::{FANOUT, MOST_NEW};
use crate::layout::Area;
use crate::node::node;
use crate::pools::Claim;
use crate::ranges::Use;
use crate::unit::{Base, Unit};
use crate::write::{Job, Segment, Source, Stamp};
use granary_fs::{Allocate, Attr, Call, FsError, Inode, Result, Space, StatFs};
use granary_units::Payload;
use std::ops::Range;

/// Blocks in one group: a word of an index node is a record of 16 B at most.
const GROUP: usize = 1024;

fn zeros(part: Part) -> Segment {
    Segment { part, source: Source::Zeros }
}

impl OrchFs {
    /// A block's unit as it is when the edges are zeroed.
    fn unit(&self, inode: &Inode, block: u64, edges: &[Job<'_>]) -> Unit {
        let edge = edges.iter().find(|job| job.block == block);
        edge.map_or_else(|| node(inode).state.read().tree.get(block).clone(), |job| job.after.clone())
    }

    /// Zeroes the bytes of a range, which lies within the file, that share a page with others, where that
    /// page is data.
    ///
    /// # Errors
    /// `NoSpace`, with nothing changed.
    fn edges(&self, process: u32, inode: &Inode, range: Range<u64>) -> Result<Vec<Job<'_>>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let first_end = range.start.next_multiple_of(PAGE).min(range.end);
        let edges = [range.start..first_end, (range.end / PAGE * PAGE).max(first_end)..range.end];
        let all: Vec<Part> = edges.into_iter().flat_map(|e| parts(e.start, e.end - e.start)).collect();
        let mut jobs = Vec::new();
        for of_block in all.chunk_by(|a, b| a.block == b.block) {
            let block = of_block[0].block;
            let unit = self.unit(inode, block, &[]);
            let is_data = |part: &&Part| Self::is_data(&unit, (part.from / PAGE as u32) as usize);
            let segments: Vec<Segment> = of_block.iter().filter(is_data).map(|part| zeros(*part)).collect();
            if !segments.is_empty() {
                jobs.push(self.prepare(process, block, &unit, &segments, inode.size())?);
            }
        }
        Ok(jobs)
    }

    /// A hole becomes an unwritten block; where the SSD is full, zeroed NVM pages.
    fn unwritten(&self, process: u32, part: Part) -> Result<Job<'_>> {
        let mut job = Job::change(self, process, part.block, Unit::Hole);
        match self.take_for(&mut job, Area::Block) {
            Ok(block) => {
                job.after = Unit::Block(Base { block, unwritten: true });
                Ok(job)
            }
            Err(FsError::NoSpace) => {
                self.on_pages(process, &Unit::Hole, part, part.pages().map(|(page, ..)| page))
            }
            Err(e) => Err(e),
        }
    }

    /// Zeroes pages of a block on the NVM: those that it has in place, others are new.
    fn on_pages(
        &self,
        process: u32,
        unit: &Unit,
        part: Part,
        pages: impl Iterator<Item = usize>,
    ) -> Result<Job<'_>> {
        let page = |page: usize| {
            let from = (page as u64 * PAGE) as u32;
            zeros(Part { block: part.block, from, to: from + PAGE as u32 })
        };
        let segments: Vec<Segment> = pages.map(page).collect();
        self.prepare(process, part.block, unit, &segments, u64::MAX)
    }

    /// Every page of a part of a block gets space; `None`: it has it.
    fn reserved(&self, process: u32, part: Part, unit: Unit) -> Result<Option<Job<'_>>> {
        match &unit {
            Unit::Hole => self.unwritten(process, part).map(Some),
            Unit::Append { pages, .. } => {
                let missing: Vec<usize> =
                    part.pages().map(|(page, ..)| page).filter(|page| pages[*page] == 0).collect();
                if missing.is_empty() {
                    return Ok(None);
                }
                self.on_pages(process, &unit, part, missing.into_iter()).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A part of a block, of whole pages, becomes zeros with space under them.
    fn zeroed(&self, process: u32, part: Part, unit: Unit) -> Result<Option<Job<'_>>> {
        match (&unit, unit.base()) {
            (Unit::Hole, _) => self.unwritten(process, part).map(Some),
            (_, Some(base)) if part.is_whole() => {
                let after = Unit::Block(Base { unwritten: true, ..base });
                Ok((unit != after).then(|| Job::change(self, process, part.block, after)))
            }
            (_, Some(_)) => {
                let pages = (part.from / PAGE as u32) as usize..(part.to / PAGE as u32) as usize;
                let job = self.punched(process, part.block, &unit, pages)?;
                // All zeros, but not without space.
                Ok(Some(match (&job.after, unit.base()) {
                    (Unit::Hole, Some(base)) => {
                        Job::change(self, process, part.block, Unit::Block(Base { unwritten: true, ..base }))
                    }
                    _ => job,
                }))
            }
            (_, None) => {
                if part.is_whole()
                    && let Ok(job) = self.unwritten(process, part)
                {
                    return Ok(Some(job));
                }
                self.on_pages(process, &unit, part, part.pages().map(|(page, ..)| page)).map(Some)
            }
        }
    }

    /// Whether a page of a unit holds what was written: data for seeking.
    fn is_data(unit: &Unit, page: usize) -> bool {
        match unit {
            Unit::Over { slots, .. } if slots[page].page != 0 => true,
            unit => unit.has_page(page),
        }
    }

    /// The first page at or behind `pos` that is data, or (`data` false) that is none.
    pub(crate) fn seek(&self, inode: &Inode, pos: u64, data: bool) -> Option<u64> {
        let state = node(inode).state.read();
        let size = inode.size();
        let first = pos / PAGE;
        let per = PAGES as u64;
        let mut expected = first;
        for (block, unit) in state.tree.range(first / per, size.div_ceil(BLOCK)) {
            let from = first.max(block * per);
            if !data && from > expected {
                break;
            }
            for page in from..(block + 1) * per {
                if Self::is_data(unit, (page % per) as usize) == data {
                    let at = (page * PAGE).max(pos);
                    return (at < size).then_some(at);
                }
            }
            expected = (block + 1) * per;
        }
        if data { None } else { Some((expected * PAGE).max(pos)).filter(|at| *at < size) }
    }
}

/// Longest names that a directory's page holds: (4096 - 32) / 288 B (SPEC.md).
const NAMES_OF_A_PAGE: u64 = 14;

impl Space for OrchFs {
    granary_fs::file_system_lacks!(empty_until, grow, sweep);

    fn fallocate(&self, call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let (node, old) = (node(inode), inode.attr());
        let end = pos + len;
        let mut new = old;
        new.allocated(how, end, call.time);
        let _held = node.ranges.lock(pos.min(old.size) / BLOCK, end.max(old.size) / BLOCK, Use::Resize);
        let (nothing, group) = (Payload::Bytes(&[]), GROUP);
        if new.size > old.size {
            // The range that the file grows over becomes zero first, which nobody sees.
            let grown = self.grow(call.process, node, old.size, new.size)?;
            if !grown.is_empty() {
                let stamp = Stamp { attr: &|_, _| old, head: false, group };
                self.execute(call.process, inode, grown, nothing, &stamp)?;
            }
        }
        // Both lists have all their numbers before the first byte changes: `NoSpace` leaves everything as it
        // was.
        let edges = match how.zeroes() {
            true => self.edges(call.process, inode, pos..end.min(old.size))?,
            false => Vec::new(),
        };
        let mut jobs = match how {
            Allocate::PunchHole => self.punch(call.process, node, pos..end, &edges)?,
            _ => {
                // Pages that are touched are touched as a whole; the edges have their own jobs.
                let (from, to) = match how {
                    Allocate::Reserve { .. } => (pos / PAGE * PAGE, end.next_multiple_of(PAGE)),
                    _ => (pos.next_multiple_of(PAGE), end / PAGE * PAGE),
                };
                let mut jobs = Vec::new();
                if how.zeroes() {
                    // Edges get space, too.
                    for edge in [pos / PAGE * PAGE, end / PAGE * PAGE] {
                        let from = (edge % BLOCK) as u32;
                        let part = Part { block: edge / BLOCK, from, to: from + PAGE as u32 };
                        if edge < end && !jobs.iter().any(|job: &Job<'_>| job.block == part.block) {
                            jobs.extend(self.reserved(
                                call.process,
                                part,
                                self.unit(inode, part.block, &edges),
                            )?);
                        }
                    }
                }
                for part in parts(from, to.saturating_sub(from)) {
                    let unit = self.unit(inode, part.block, &edges);
                    let job = match how.zeroes() {
                        true => self.zeroed(call.process, part, unit)?,
                        false => self.reserved(call.process, part, unit)?,
                    };
                    if let Some(job) = job {
                        jobs.retain(|other| other.block != job.block);
                        jobs.push(job);
                    }
                }
                jobs
            }
        };
        jobs.sort_by_key(|job| job.block);
        if !edges.is_empty() {
            // Index nodes, too: held until the edges, which need none, are done.
            let _nodes = self.numbers_for(call.process, &jobs, node)?;
            let stamp = Stamp { attr: &|now, _| now, head: false, group };
            self.execute(call.process, inode, edges, nothing, &stamp)?;
        }
        let attr = |_: Attr, reached: Option<u64>| if reached.is_none() { new } else { old };
        let group = if how == Allocate::PunchHole { usize::MAX } else { group };
        self.execute(call.process, inode, jobs, nothing, &Stamp { attr: &attr, head: true, group })
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        Ok(self.seek(inode, pos, true))
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        Ok(self.seek(inode, pos, false).unwrap_or(inode.size()))
    }

    fn trim(&self, _call: &Call<'_>, blocks: Range<u64>, least: u64) -> Result<u64> {
        self.trim_free(blocks, least)
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        // Space that waits for a digest is free: a call that needs it digests first.
        let free = |area| {
            self.pools.free(area) + self.journals.iter().map(|journal| journal.waiting(area)).sum::<u64>()
        };
        let per = PAGES as u64;
        let free_blocks = free(Area::Block) * per + free(Area::Page);
        // Content leaves some pages for names. And it has to be found again: an A-ELN names 8 pages, an index
        // node 64 blocks at most. A write asks for some nodes more than it needs.
        let pages = free(Area::Page).saturating_sub(self.pools.kept_from(Claim::Data));
        let kept = free(Area::Page) - pages.min(free(Area::Append).saturating_mul(per));
        let nodes = free(Area::Index).saturating_sub(MOST_NEW as u64 + 2);
        let named = nodes.saturating_mul(FANOUT as u64 * per);
        // A name needs a place on the NVM, which migration can free.
        let places =
            (free(Area::Page) + self.migratable()).saturating_sub(self.pools.kept_from(Claim::Metadata));
        Ok(StatFs {
            blocks: self.pools.all(Area::Block) * per + self.pools.all(Area::Page),
            free_blocks,
            reserved_blocks: kept.max(free_blocks.saturating_sub(named)),
            inodes: self.pools.all(Area::Inode),
            free_inodes: free(Area::Inode).min(places.saturating_mul(NAMES_OF_A_PAGE)),
        })
    }
}
