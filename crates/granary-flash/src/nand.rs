//! [`Nand`]: the array of planes behind channel buses, with the NAND's rules, wear and faults.
//!
//! ```text
//!   read      plane  |== tR ==|                      program   bus    |=xfer=|
//!             bus             |=xfer=|                         plane         |==== tPROG ====|
//!                                    ^ done                                                  ^ done
//!   erase     plane  |======== tBERS ========|
//! ```
//!
//! Reads take the first idle time of their plane; programs and erases go to its end, so that they happen in
//! the order of their issue. A program's data crosses the bus just before its plane becomes free (cache
//! program: one page register in front of the one that is being programmed). The array reads on while a page
//! that was read crosses the bus (cache read). Commands, addresses and status polls take no bus time. A read
//! of a page whose program is still to come in time is not held up: the controller has the content, and the
//! firmware serves such reads from its buffer.
//!
//! Dies without independent planes, or without cache operations, are timed by `nand/die.rs`.
//!
//! Invariants: the pages of a block are programmed once each and in order after an erase; a bad block is
//! neither programmed nor erased; every operation is counted in [`NandStats`], failed ones too.
//!
//! It does *not* know logical pages (the OOB is opaque to it) nor why it is accessed.
//!
//! Source: ByteFS Table 4 (40 us read, 60 us program per 4 KiB page); transfer over the channel as in FEMU
//! and MQSim.

use crate::config::{FtlConfig, Geometry};
use crate::error::FlashError;
use crate::faults::{FaultRates, Faults};
use crate::medium::{BlockHeader, BlockNo, Medium, Oob};
use crate::timeline::Timeline;
use die::Dies;
use granary_units::{Nanos, PAGE_SIZE, Page, Ppa};
use serde::Serialize;

mod die;
mod program;
mod read;

/// Attempts to read a page before it is reported unreadable: one read and a short retry table.
const READ_ATTEMPTS: u32 = 4;
/// Bytes of OOB that cross the bus when only the OOB is wanted.
const OOB_SIZE: u64 = 16;

/// Operations that the array carried out, and how busy it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NandStats {
    /// Pages read, OOB-only reads included; retries of one page count once.
    pub reads: u64,
    /// Further attempts to read a page.
    pub read_retries: u64,
    /// Pages that were read in a further attempt.
    pub corrected: u64,
    /// Pages that stayed unreadable.
    pub unreadable: u64,
    /// Page programs, failed ones included.
    pub programs: u64,
    /// Failed page programs.
    pub program_failures: u64,
    /// Block erases, failed ones included.
    pub erases: u64,
    /// Failed block erases.
    pub erase_failures: u64,
    /// Operations that shared the array time of one before them in a multi-plane command.
    pub joined: u64,
    /// Time that planes were busy, summed over the planes.
    pub plane_busy: Nanos,
    /// Time that channel buses were busy, summed over the channels.
    pub bus_busy: Nanos,
}

/// Reads or programs that follow each other in one plane, each ready no earlier than the one before and with
/// nothing else in between: their reservations need not be searched for anew.
pub(crate) struct Sequence {
    plane: u32,
    channel: u32,
    begun: bool,
}

#[derive(Clone, Copy, Debug)]
struct Wear {
    erases: u32,
    bad: bool,
}

/// A NAND flash array on a medium.
#[derive(Clone, Debug)]
pub struct Nand<M> {
    geometry: Geometry,
    read: Nanos,
    program: Nanos,
    erase: Nanos,
    transfer: Nanos,
    oob_transfer: Nanos,
    retry: Nanos,
    /// Nothing is asked for before this instant.
    now: Nanos,
    /// One for each plane; for each die where its planes share it.
    planes: Vec<Timeline>,
    buses: Vec<Timeline>,
    /// The rules of dies whose planes are not independent, or that have no cache operations.
    dies: Option<Box<Dies>>,
    /// Block headers; the part that every access needs is apart from the rest, so it stays in the emulator's
    /// caches.
    programmed: Vec<u16>,
    wear: Vec<Wear>,
    medium: M,
    faults: Option<Box<Faults>>,
    stats: NandStats,
}

/// The states of the blocks from `first` on of a medium that must have this geometry.
fn headers<M: Medium>(medium: &M, g: &Geometry, first: u32) -> Result<Vec<BlockHeader>, FlashError> {
    let (blocks, pages) = medium.shape();
    if (blocks, pages) != (g.blocks(), g.pages_per_block) {
        return Err(FlashError::Config(format!(
            "the medium has {blocks} blocks of {pages} pages, the geometry {} of {}",
            g.blocks(),
            g.pages_per_block
        )));
    }
    let headers = (first..blocks).map(|b| medium.header(BlockNo(b))).collect::<Result<Vec<_>, _>>()?;
    match headers.iter().zip(first..).find(|(h, _)| h.programmed > g.pages_per_block) {
        Some((h, b)) => {
            Err(FlashError::Corrupt(format!("block {b} claims {} programmed pages", h.programmed)))
        }
        None => Ok(headers),
    }
}

/// An idle plane, or die. Dies with rules about what may follow what keep their order.
fn plane_line(has_rules: bool, shortest: Nanos) -> Timeline {
    if has_rules { Timeline::new(shortest) } else { Timeline::with_queue(shortest) }
}

/// Priority of a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The host's: it goes before work that has not begun.
    Next,
    /// Others take idle time.
    Idle,
}

impl<M: Medium> Nand<M> {
    /// The array of `config` on `medium`, which may hold data already.
    ///
    /// # Errors
    /// An invalid configuration, a medium of another shape, or one that cannot be read.
    pub fn new(config: &FtlConfig, medium: M) -> Result<Nand<M>, FlashError> {
        config.validate()?;
        let (geometry, timing) = (config.geometry, config.timing);
        let blocks = headers(&medium, &geometry, 0)?;
        let transfer = timing.transfer(PAGE_SIZE as u64);
        let dies = Dies::new(config);
        let retry = config.read_retry.unwrap_or(timing.read);
        let timelines = dies.as_ref().map_or(geometry.plane_count(), |d| d.timelines());
        Ok(Nand {
            geometry,
            read: timing.read,
            program: timing.program,
            erase: timing.erase,
            transfer,
            oob_transfer: timing.transfer(OOB_SIZE),
            retry,
            now: Nanos::ZERO,
            planes: vec![plane_line(dies.is_some(), timing.read.min(retry)); timelines as usize],
            buses: vec![Timeline::new(transfer); geometry.channels as usize],
            dies,
            programmed: blocks.iter().map(|h| h.programmed as u16).collect(),
            wear: blocks.iter().map(|h| Wear { erases: h.erases, bad: h.bad }).collect(),
            medium,
            faults: config.errors.plan().map(Box::new),
            stats: NandStats::default(),
        })
    }

    /// Takes up the larger geometry of `config`, for which the medium has its blocks already: planes behind
    /// the others.
    ///
    /// # Errors
    /// A medium of another shape, or one that cannot be read. Nothing has changed then.
    pub(crate) fn grow(&mut self, config: &FtlConfig) -> Result<(), FlashError> {
        let had = self.programmed.len() as u32;
        let headers = headers(&self.medium, &config.geometry, had)?;
        self.geometry = config.geometry;
        let timelines = match &mut self.dies {
            Some(dies) => dies.grow(config),
            None => config.geometry.plane_count(),
        };
        let line = plane_line(self.dies.is_some(), config.timing.read.min(self.retry));
        self.planes.resize(timelines as usize, line);
        self.programmed.extend(headers.iter().map(|h| h.programmed as u16));
        self.wear.extend(headers.iter().map(|h| Wear { erases: h.erases, bad: h.bad }));
        Ok(())
    }

    /// Time has come to `now`: no operation will be asked for an earlier instant, but by background gc, which
    /// looks back at idle time. Returns to what it had come before.
    #[inline]
    pub fn pass(&mut self, now: Nanos) -> Nanos {
        std::mem::replace(&mut self.now, now)
    }

    /// From now on operations fail as `faults` says.
    pub fn set_faults(&mut self, faults: Option<Faults>) {
        self.faults = faults.map(Box::new);
    }

    /// From now on every read of a page fails, until its block is erased.
    pub fn break_page(&mut self, ppa: Ppa) {
        let faults = self.faults.get_or_insert_with(|| Box::new(Faults::new(0, FaultRates::default())));
        faults.break_page(ppa);
    }

    /// Shape of the array.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// The medium, for what is no flash operation. Its pages and headers belong to the array.
    pub fn medium_mut(&mut self) -> &mut M {
        &mut self.medium
    }

    /// State of a block.
    #[inline]
    pub fn header(&self, block: BlockNo) -> BlockHeader {
        let Wear { erases, bad } = self.wear[block.0 as usize];
        BlockHeader { programmed: self.programmed[block.0 as usize] as u32, erases, bad }
    }

    /// Operations so far.
    pub fn stats(&self) -> NandStats {
        let sum = |t: &[Timeline]| Nanos(t.iter().map(|t| t.busy().0).sum());
        NandStats { plane_busy: sum(&self.planes), bus_busy: sum(&self.buses), ..self.stats }
    }

    /// The part of [`NandStats::plane_busy`] and [`NandStats::bus_busy`] that lies after `now`. Of planes
    /// that wait for each other ([`crate::PlaneMode`]) one stands for its die.
    pub fn ahead(&self, now: Nanos) -> (Nanos, Nanos) {
        let sum = |t: &[Timeline]| Nanos(t.iter().map(|t| t.ahead(now).0).sum());
        (sum(&self.planes), sum(&self.buses))
    }

    /// Forgets the work that ended before now in a plane and on its bus.
    #[inline]
    fn pass_at(&mut self, plane: u32) {
        let timeline = self.timeline_of(plane);
        self.planes[timeline].pass(self.now);
        self.buses[self.geometry.channel_of(plane) as usize].pass(self.now);
    }

    /// Whether operations may fail.
    pub fn has_faults(&self) -> bool {
        self.faults.is_some()
    }

    /// Reads the OOB of every programmed page of a block, in page order: each page takes a whole page read in
    /// its plane but only the OOB crosses the bus. Returns when the last one has arrived.
    ///
    /// # Errors
    /// Errors of the medium.
    pub fn scan(
        &mut self,
        now: Nanos,
        block: BlockNo,
        mut each: impl FnMut(u32, Oob),
    ) -> Result<Nanos, FlashError> {
        let n = self.header(block).programmed;
        for page in 0..n {
            each(page, self.medium.oob(block, page)?);
        }
        self.stats.reads += n as u64;
        let plane = self.geometry.plane_of(block.0);
        let timeline = self.timeline_of(plane);
        let sensed = self.planes[timeline].append(now, self.read * n as u64).end;
        // The transfers overlap the reads but for the last one.
        let bus = &mut self.buses[self.geometry.channel_of(plane) as usize];
        let all_but_last = self.oob_transfer * (n as u64).saturating_sub(1);
        let moved = bus.fill(sensed.saturating_sub(all_but_last).max(now), self.oob_transfer * n as u64).end;
        Ok(if n == 0 { now } else { moved.max(sensed + self.oob_transfer) })
    }

    /// Content and OOB of a programmed page, taking no time and not counted.
    ///
    /// # Errors
    /// [`FlashError::Erased`]; errors of the medium.
    pub fn peek(&self, ppa: Ppa) -> Result<(Page, Oob), FlashError> {
        let (block, page) = self.holding(ppa)?;
        Ok(self.medium.read(BlockNo(block), page)?)
    }

    /// Replaces the content of a programmed page, taking no time and not counted ([`Medium::replace`]).
    ///
    /// # Errors
    /// [`FlashError::Erased`]; errors of the medium.
    pub fn replace(&mut self, ppa: Ppa, content: &Page) -> Result<(), FlashError> {
        let (block, page) = self.holding(ppa)?;
        Ok(self.medium.replace(BlockNo(block), page, content)?)
    }

    /// Tells the medium that nobody will read the content of this page again.
    #[inline]
    pub fn forget(&mut self, block: u32, page: u32) {
        self.medium.forget(BlockNo(block), page);
    }

    /// Tells the medium that this page is stale in a block that is to be erased presently.
    #[inline]
    pub fn doomed(&mut self, block: u32, page: u32) {
        self.medium.doomed(BlockNo(block), page);
    }

    /// Makes the medium durable on the machine that runs the emulation.
    ///
    /// # Errors
    /// Errors of the medium.
    pub fn sync(&mut self) -> Result<(), FlashError> {
        Ok(self.medium.sync()?)
    }

    /// Power comes back at `now`: nothing is in flight.
    pub fn power_cycle(&mut self, now: Nanos) {
        for t in self.planes.iter_mut().chain(&mut self.buses) {
            t.reset(now);
        }
        self.forget_commands();
    }

    /// When the last operation reserved in a plane (its die, where planes share it) will be done.
    pub(crate) fn free_at(&self, plane: u32) -> Nanos {
        self.planes[self.timeline_of(plane)].horizon()
    }

    fn forget_commands(&mut self) {
        if let Some(dies) = &mut self.dies {
            dies.forget();
        }
    }

    fn timeline_of(&self, plane: u32) -> usize {
        self.dies.as_ref().map_or(plane, |d| d.timeline_of(plane)) as usize
    }

    #[inline]
    fn holding(&self, ppa: Ppa) -> Result<(u32, u32), FlashError> {
        let (block, page) = self.geometry.split(ppa);
        let programmed = self.programmed.get(block as usize).map_or(0, |&n| n as u32);
        if page < programmed { Ok((block, page)) } else { Err(FlashError::Erased { ppa }) }
    }

    #[inline]
    fn bus(&mut self, plane: u32) -> Bus<'_> {
        let channel = self.geometry.channel_of(plane) as usize;
        Bus { line: &mut self.buses[channel], transfer: self.transfer }
    }
}

/// A channel's bus and the time that a page takes on it.
struct Bus<'a> {
    line: &'a mut Timeline,
    transfer: Nanos,
}

impl Bus<'_> {
    #[inline]
    fn carry_page(self, ready: Nanos) -> Nanos {
        self.line.fill(ready, self.transfer).end
    }
}
