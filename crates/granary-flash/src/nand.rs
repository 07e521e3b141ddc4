//! [`Nand`]: the array of planes behind channel buses, with the NAND's rules, wear and faults.
//!
//! ```text
//!   read      plane  |== tR ==|                      program   bus    |=xfer=|
//!             bus             |=xfer=|                         plane         |==== tPROG ====|
//!                                    ^ done                                                  ^ done
//!   erase     plane  |======== tBERS ========|
//! ```
//!
//! Reads take the first idle time of their plane; programs and erases go to its end, so that they happen in the order
//! of their issue. A program's data crosses the bus just before its plane becomes free (cache program: one page register in
//! front of the one that is being programmed), and the array reads on while a page that was read crosses the bus (cache
//! read). Commands, addresses and status polls take no bus time. A read of a page whose program is still to come in time is
//! not held up: the controller has the content, and the firmware serves such reads from its buffer.
//!
//! Dies without independent planes, or without cache operations, are timed by `nand/die.rs`.
//!
//! Invariants: the pages of a block are programmed once each and in order after an erase; a bad block is neither
//! programmed nor erased; every operation is counted in [`NandStats`], failed ones too.
//!
//! It does *not* know logical pages (the OOB is opaque to it) nor why it is accessed.
//!
//! Source: ByteFS Table 4 (40 us read, 60 us program per 4 KiB page); transfer over the channel as in FEMU and MQSim.

use crate::config::{FtlConfig, Geometry};
use crate::error::FlashError;
use crate::faults::{FaultRates, Faults};
use crate::medium::{BlockHeader, BlockNo, Medium, Oob};
use crate::timeline::Timeline;
use die::{Dies, Op};
use granary_units::{Nanos, PAGE_SIZE, Page, Ppa};
use serde::Serialize;

mod die;

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

/// Reads or programs that follow each other in one plane, each ready no earlier than the one before and with nothing else in
/// between: their reservations need not be searched for anew.
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
    /// Block headers, what every access needs apart from the rest: it stays in the emulator's caches.
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

/// Whose read it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The host's: it goes before what has not begun.
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

    /// Takes up the larger geometry of `config`, for which the medium has its blocks already: planes behind the others.
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

    /// Time has come to `now`: no operation will be asked for an earlier instant, but by background gc, which looks back at idle
    /// time. Returns to what it had come before.
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

    /// The part of [`NandStats::plane_busy`] and [`NandStats::bus_busy`] that lies after `now`. Of planes that wait for each other
    /// ([`PlaneMode`]) one stands for its die.
    pub fn ahead(&self, now: Nanos) -> (Nanos, Nanos) {
        let sum = |t: &[Timeline]| Nanos(t.iter().map(|t| t.ahead(now).0).sum());
        (sum(&self.planes), sum(&self.buses))
    }

    /// Reads a page: from the cells, then over the channel. Returns its content, its OOB, and when the last byte has arrived.
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

    /// The same for a page that should hold logical page `lpa` ([`Medium::fetch`]); returns what it says that it holds. An
    /// `urgent` read goes before programs, erases and reads of the plane that have not begun.
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
    fn is_plain(&self) -> bool {
        self.dies.is_none() && self.faults.is_none()
    }

    /// Reads a page of a sequence of reads that are all asked for at the instant with which it began; the same as
    /// [`Nand::read`] but for the sequence number.
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

    /// What the medium's refusal to give a page means.
    #[cold]
    fn unreadable(&mut self, e: std::io::Error, ppa: Ppa, done: Nanos) -> FlashError {
        if e.kind() == std::io::ErrorKind::InvalidData {
            // The medium has the page, but its checksum says that this is not what was programmed.
            self.stats.unreadable += 1;
            return FlashError::Unreadable { ppa, done };
        }
        e.into()
    }

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

    /// Reserves the time of a read and counts it. The content comes first of all, so that the emulator's cache miss on it
    /// overlaps with the timelines.
    #[inline]
    fn deliver<T>(
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

    /// What ended before now in a plane, and on its bus, is forgotten.
    #[inline]
    fn pass_at(&mut self, plane: u32) {
        let timeline = self.timeline_of(plane);
        self.planes[timeline].pass(self.now);
        self.buses[self.geometry.channel_of(plane) as usize].pass(self.now);
    }

    #[inline]
    fn array_read(&mut self, ready: Nanos, len: Nanos, timeline: usize, turn: Turn) -> Nanos {
        let array = &mut self.planes[timeline];
        match turn {
            Turn::Next => array.urgent(ready, len).end,
            Turn::Idle => array.fill(ready, len).end,
        }
    }

    /// The first attempt to read has ended at `sensed`; returns when one has succeeded.
    fn retry(&mut self, sensed: Nanos, ppa: Ppa, plane: u32, turn: Turn) -> Result<Nanos, FlashError> {
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
    fn sense(&mut self, now: Nanos, plane: u32, page: u32) -> Nanos {
        let Some(dies) = &mut self.dies else { return now };
        let (end, joined) = dies.array(&mut self.planes, Op::Read, plane, page, now, self.read);
        self.stats.joined += joined as u64;
        end
    }

    /// Programs the next page of a block: over the channel, then into the cells. Returns when the cells hold it.
    ///
    /// # Errors
    /// [`FlashError::ProgramFailed`] leaves an unreadable page; [`FlashError::OutOfOrder`] and errors of the medium
    /// change nothing.
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

    /// Whether operations may fail.
    pub fn has_faults(&self) -> bool {
        self.faults.is_some()
    }

    /// Programs every page of an erased block as [`Medium::program_block`] does: counted, and its planes' and buses' work
    /// too, but no time is reserved and nothing fails.
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

    /// What planes and buses have reserved, for [`Nand::rewind`].
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

    /// Reads the OOB of every programmed page of a block, in page order: each page takes a whole page read in its
    /// plane but only the OOB crosses the bus. Returns when the last one has arrived.
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
