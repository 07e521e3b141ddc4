//! [`Mssd`]: the drive, put together: link, firmware, write buffer, flash.
//!
//! ```text
//!   submit (mssd/block.rs, bam.rs)    store flush_lines verify load (mssd/byte.rs)
//!     doorbell, fetch | processor | data over the link        write-combining, posted lines
//!           \______________________  ______________________________/
//!                                  \/
//!                       Firmware (log | cache) over Backend (write buffer, FTL)
//!   power_fail, power_on, tracking of what is in flight (mssd/fail.rs); more packages (mssd/grow.rs);
//!   from an image (mssd/kept.rs)
//! ```
//!
//! Every call first does what is due by its instant: programs that are done free their buffers, cleaning batches run,
//! tracked commands that are acknowledged take effect. One mutex guards everything; nothing waits inside.
//!
//! Invariant: sums balance (`Drive::check`): what the link carried is what the commands asked for and what the firmware
//! took in. Source: ByteFS sections 2.1, 4.2 to 4.4, 4.7, 4.9.

mod bam;
mod block;
mod byte;
mod chain;
mod fail;
mod grow;
mod inspect;
mod kept;
mod names;
mod precondition;
mod queue;

pub use kept::{Kept, Unfinished};

use crate::config::{ConfigError, DriveConfig};
use crate::entry::{CACHE, DriveEntry, LOG};
use crate::firmware::bam::{Bam, FileBlock};
use crate::firmware::{Backend, Cores, Firmware};
use crate::link::Link;
use crate::link::wc::{HeldLine, WriteCombining};
use crate::power::{InFlight, Seen};
use granary_device::Structure;
use granary_device::vendor::pebble::{self, BamNames, BamRead, BamReset, FsWrite, Remap, RemapKeep};
use granary_device::vendor::transactions::{Commit, Recover};
use granary_device::{BusyTime, CommandCounters, DriveCounters, LinkTraffic};
use granary_device::{Chain, Command, Drive, DriveError, DriveInfo, RemapRange, Streamed, Vendor};
use granary_flash::Policies;
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use parking_lot::{Mutex, RwLock};
use queue::Queue;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An emulated memory-semantic SSD.
pub struct Mssd {
    config: RwLock<Arc<DriveConfig>>,
    /// The one that the drive was made with, with processor times at the clock that the processors run at. What growth
    /// changes is not read from it.
    at_clock: DriveConfig,
    /// But for the pages: what it is.
    info: DriveInfo,
    /// Its firmware takes stores of transactions.
    has_transactions: bool,
    pages: AtomicU64,
    state: Mutex<State>,
}

#[derive(Clone)]
struct State {
    link: Link,
    wc: WriteCombining,
    firmware: Box<dyn Firmware>,
    backend: Backend,
    bam: Option<Bam>,
    /// When the last posted line is in the firmware's hands.
    posted: Nanos,
    /// When the last COMMIT completes: they complete in order.
    committed: Nanos,
    /// When the last REMAP has been carried out: one at a time.
    remapped: Nanos,
    queue: Queue,
    powered: bool,
    tracking: bool,
    in_flight: InFlight,
    /// Verify reads on their way: (answered at, posted lines before it).
    verifying: Vec<(Nanos, u64)>,
    traffic: LinkTraffic,
    commands: CommandCounters,
    /// Working memory: lines taken out of the write-combining buffers, one page of bytes.
    lines: Vec<HeldLine>,
    page: Vec<u8>,
    /// An acknowledged command that could not be carried out.
    fault: Option<DriveError>,
}

impl Mssd {
    /// A new drive: erased, powered, idle.
    ///
    /// # Errors
    /// [`ConfigError`] where the configuration makes no working drive.
    pub fn new(config: &DriveConfig) -> Result<Mssd, ConfigError> {
        DriveEntry::of(&[LOG, CACHE], config)?.make(config)
    }

    /// A new drive of a configuration that has been validated, with its firmware, its policies where that has its own, its write
    /// buffer and flash.
    pub(crate) fn with_firmware(
        config: &DriveConfig,
        firmware: Box<dyn Firmware>,
        policies: Option<Policies>,
        mut backend: Backend,
    ) -> Mssd {
        policies.into_iter().for_each(|policies| backend.ftl_mut().follow(policies));
        let bam =
            config.firmware.bam.as_ref().map(|bam| Bam::new(bam, config.firmware.names(), config.pages()));
        Mssd::over(config, firmware, bam, backend)
    }

    fn over(
        config: &DriveConfig,
        mut firmware: Box<dyn Firmware>,
        bam: Option<Bam>,
        mut backend: Backend,
    ) -> Mssd {
        if bam.is_some() {
            backend.keep_p2l();
        }
        backend.acknowledge(config.acknowledges());
        backend.cores = Cores::new(config.firmware.cores);
        let info = DriveInfo {
            pages: config.pages(),
            blocks: true,
            bytes: config.window,
            whole_lines: true,
            volatile_cache: config.firmware.volatile_cache,
            max_transfer: config.link.nvme.max_transfer,
            offers: [firmware.offers(), bam.as_ref().map_or(&[], Bam::offers)],
        };
        let has_transactions = firmware.transactions().is_some();
        let state = State {
            link: Link::new(&config.link),
            wc: WriteCombining::default(),
            firmware,
            backend,
            bam,
            posted: Nanos::ZERO,
            committed: Nanos::ZERO,
            remapped: Nanos::ZERO,
            queue: Queue::new(config.link.nvme.queue_depth),
            powered: true,
            tracking: false,
            in_flight: InFlight::default(),
            verifying: Vec::new(),
            traffic: LinkTraffic::default(),
            commands: CommandCounters::default(),
            lines: Vec::new(),
            page: vec![0; PAGE_SIZE],
            fault: None,
        };
        Mssd {
            config: RwLock::new(Arc::new(config.clone())),
            at_clock: config.at_clock(),
            pages: AtomicU64::new(info.pages),
            info,
            has_transactions,
            state: Mutex::new(state),
        }
    }

    /// One call: what is due first, then `work`, then what changed goes to the image, if there is one.
    #[inline]
    fn call<T>(
        &self,
        now: Nanos,
        work: impl FnOnce(&mut State) -> Result<T, DriveError>,
    ) -> Result<T, DriveError> {
        let mut s = self.state.lock();
        let copied = s.backend.copied();
        s.begin(now)?;
        // Each in its own way: a result that was written in parts and is then copied as a whole makes the processor wait.
        match work(&mut s) {
            Ok(done) => {
                s.charge_gc(now, copied, self.at_clock.firmware.entry_cost);
                s.publish()?;
                Ok(done)
            }
            Err(e) => {
                s.publish()?;
                Err(e)
            }
        }
    }

    /// The drive's configuration.
    pub fn config(&self) -> Arc<DriveConfig> {
        self.config.read().clone()
    }

    /// Logical pages. Only more from one call to the next.
    #[inline]
    fn pages(&self) -> u64 {
        self.pages.load(Relaxed)
    }

    /// The newest content of a page as the drive has it (not what the host's write-combining buffers hold), taking no
    /// time and not counted. For checks.
    ///
    /// # Errors
    /// Outside the drive, unreadable flash.
    pub fn peek(&self, lpa: Lpa) -> Result<Page, DriveError> {
        self.range(lpa, 1)?;
        let s = self.state.lock();
        match s.in_flight.seen(lpa) {
            Some(Seen::Content(page)) => Ok(page),
            Some(Seen::Of(src)) => s.firmware.peek(&s.backend, s.newest(src)),
            None => s.firmware.peek(&s.backend, s.newest(lpa)),
        }
    }

    /// Bytes of drive DRAM that the log's index takes (0 in cache mode); the paper reports 21 MB for a 256 MB log.
    pub fn index_memory(&self) -> usize {
        self.state.lock().firmware.index_memory()
    }

    /// One command; see [`Drive::submit`].
    #[inline]
    fn serve(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        let c = &self.at_clock;
        match command {
            Command::Read { lpa, out, what } => {
                self.range(lpa, out.len() as u64)?;
                self.call(now, |s| s.read(c, now, lpa, out, what))
            }
            Command::Write { lpa, pages, what } => {
                self.range(lpa, pages.len() as u64)?;
                self.call(now, |s| s.write(c, now, lpa, pages, what))
            }
            Command::Flush => self.call(now, |s| s.flush(c, now)),
            Command::Trim { lpa, count } => {
                self.range(lpa, count)?;
                self.call(now, |s| s.trim(c, now, lpa, count))
            }
            Command::Vendor(own) => self.serve_vendor(c, now, own),
        }
    }

    /// A command of the firmware.
    fn serve_vendor(&self, c: &DriveConfig, now: Nanos, own: &mut dyn Vendor) -> Result<Nanos, DriveError> {
        if let Some(Commit { tx }) = own.get() {
            return self.call(now, |s| s.commit(c, now, *tx));
        }
        if own.get::<Recover>().is_some() {
            return self.call(now, |s| s.recover(c, now));
        }
        if let Some(served) = self.serve_bam(c, now, own) {
            return served;
        }
        self.call(now, |s| {
            let t = s.accept(c, now);
            let done = s.firmware.serve(&mut s.backend, t, own);
            done.map(|done| done + c.link.nvme.completion)
        })
    }

    /// A command of BAM, if it is one.
    fn serve_bam(
        &self,
        c: &DriveConfig,
        now: Nanos,
        own: &mut dyn Vendor,
    ) -> Option<Result<Nanos, DriveError>> {
        if let Some(FsWrite { lpa, pages, ino, offset, end, what }) = own.get_mut() {
            let (lpa, ino, offset, end, what) = (*lpa, *ino, *offset, *end, *what);
            let within = self.range(lpa, pages.len() as u64);
            let within = within.and_then(|()| self.file_range(offset, pages.len() as u64));
            let block = FileBlock { ino, offset, end };
            return Some(
                within.and_then(|()| self.call(now, |s| s.fs_write(c, now, lpa, pages, block, what))),
            );
        }
        if let Some(&Remap { src, dst, count }) = own.get() {
            let within = self.range(src, count).and_then(|()| self.range(dst, count));
            return Some(within.and_then(|()| self.call(now, |s| s.remap(c, now, src, dst, count))));
        }
        if let Some(RemapKeep { ranges }) = own.get() {
            let within = self.keep_range(ranges);
            return Some(within.and_then(|()| self.call(now, |s| s.remap_keep(c, now, ranges))));
        }
        if let Some(BamNames { out }) = own.get_mut() {
            return Some(self.call(now, |s| s.bam_names(c, now, out)));
        }
        if own.get::<BamReset>().is_some() {
            return Some(self.call(now, |s| s.bam_reset(c, now)));
        }
        let BamRead { ino, out } = own.get_mut()?;
        Some(self.call(now, |s| s.bam_read(c, now, *ino, out)))
    }

    fn range(&self, lpa: Lpa, pages: u64) -> Result<(), DriveError> {
        let all = self.pages();
        if lpa.0 < all && pages <= all - lpa.0 {
            return Ok(());
        }
        Err(DriveError::OutOfRange { what: format!("{pages} pages from {lpa} on"), pages: all })
    }

    /// So many ranges and pages can be carried out as a whole.
    fn keep_range(&self, ranges: &[RemapRange]) -> Result<(), DriveError> {
        for r in ranges {
            self.range(r.src, r.count)?;
            self.range(r.dst, r.count)?;
        }
        let pages = ranges.iter().fold(0u64, |sum, r| sum.saturating_add(r.count));
        if ranges.len() > RemapRange::MOST || pages > RemapRange::MOST_PAGES {
            let what = format!("{} ranges, {pages} pages in one REMAP keep", ranges.len());
            return Err(DriveError::OutOfRange { what, pages: RemapRange::MOST_PAGES });
        }
        Ok(())
    }

    /// Offsets in files are 32 bits in BAM, all ones excepted.
    fn file_range(&self, offset: u32, pages: u64) -> Result<(), DriveError> {
        let end = u32::MAX as u64;
        if offset as u64 + pages <= end {
            return Ok(());
        }
        Err(DriveError::OutOfRange { what: format!("{pages} blocks of a file from {offset} on"), pages: end })
    }

    fn byte_range(&self, at: ByteAddr, len: usize) -> Result<(), DriveError> {
        if !self.info.bytes {
            return Err(DriveError::Unsupported("byte window: it is a plain SSD"));
        }
        let pages = self.pages();
        let size = pages * PAGE_SIZE as u64;
        if at.0 <= size && len as u64 <= size - at.0 {
            return Ok(());
        }
        Err(DriveError::OutOfRange { what: format!("{len} bytes from {at} on"), pages })
    }
}

impl State {
    /// Does what is due by `now`; an error if the drive cannot serve anything.
    #[inline]
    fn begin(&mut self, now: Nanos) -> Result<(), DriveError> {
        if self.tracking || !self.powered || self.fault.is_some() {
            return self.begin_if_able(now);
        }
        self.advance(now);
        Ok(())
    }

    #[cold]
    fn begin_if_able(&mut self, now: Nanos) -> Result<(), DriveError> {
        if !self.powered {
            return Err(DriveError::PoweredOff);
        }
        if self.tracking {
            self.acknowledge(now);
        }
        self.advance(now);
        match &self.fault {
            None => Ok(()),
            Some(fault) => Err(fault.clone()),
        }
    }

    #[inline]
    fn advance(&mut self, now: Nanos) {
        self.backend.pump(now);
        self.firmware.pump(&mut self.backend, now);
        self.backend.pass(now);
        self.link.pass(now);
        self.backend.cores.pass(now);
    }

    /// Whether anything of a page is kept anywhere: a trim of the others changes nothing.
    #[inline]
    fn holds(&self, lpa: Lpa) -> bool {
        self.firmware.holds(lpa) || self.backend.holds(lpa)
    }

    /// Whether a page has content that is kept: of a page without, a cache may hold the zeros that it reads as.
    fn has_content(&self, lpa: Lpa) -> bool {
        self.firmware.holds_newer(lpa) || self.backend.holds(lpa)
    }

    /// Moves everything to flash; returns when it is there.
    fn settle_all(&mut self, t: Nanos) -> Result<Nanos, DriveError> {
        let t = self.firmware.settle(&mut self.backend, t)?;
        Ok(self.backend.drain(t))
    }

    /// The processor's part of the gc that a call at `now` led to, before which `copied` pages had been copied: an entry of the
    /// map for each page.
    #[inline]
    fn charge_gc(&mut self, now: Nanos, copied: u64, entry: Nanos) {
        let copied = self.backend.copied() - copied;
        if copied > 0 {
            self.backend.cores.serve_idle(now, entry * copied);
        }
    }

    /// What BAM changed belongs to what the flash changed just now: whoever hands over the one hands over both.
    #[inline]
    fn save_bam(&mut self) {
        if let Some(bam) = &mut self.bam
            && let Some(image) = self.backend.image()
        {
            bam.redos().for_each(|redo| image.carry(redo));
        }
    }

    /// Hands what changed to the image.
    #[inline]
    fn publish(&mut self) -> Result<(), DriveError> {
        self.save_bam();
        match self.backend.image() {
            None => Ok(()),
            Some(_) => self.backend.publish(|out| self.firmware.drain_redo(out)),
        }
    }

    fn counters(&self) -> DriveCounters {
        let (buffer, flash) = self.backend.counters();
        let (link_to_drive, link_to_host) = self.link.busy();
        let (planes, channels) = self.backend.busy();
        let busy =
            BusyTime { link_to_host, link_to_drive, cores: self.backend.cores.busy(), channels, planes };
        let bam = self.bam.as_ref().map_or_else(Default::default, Bam::counters);
        let rest = DriveCounters::default();
        let mut all =
            DriveCounters { link: self.traffic, flash, buffer, bam, commands: self.commands, busy, ..rest };
        self.firmware.count(&mut all);
        all
    }

    fn counters_at(&self, now: Nanos) -> DriveCounters {
        let mut c = self.counters();
        let (link_to_drive, link_to_host) = self.link.ahead(now);
        let (planes, channels) = self.backend.ahead(now);
        let ahead =
            BusyTime { link_to_host, link_to_drive, cores: self.backend.cores.ahead(now), channels, planes };
        c.busy = c.busy.since(&ahead);
        c
    }

    fn check(&self) -> Vec<String> {
        let mut bad = self.backend.check();
        bad.extend(self.firmware.check());
        if let Some(bam) = &self.bam {
            bad.extend(bam.check(|lpa| self.has_content(lpa)));
        }
        let c = self.counters();
        let sum = |a: &[u64; Structure::COUNT]| a.iter().sum::<u64>();
        let (page, line) = (PAGE_SIZE as u64, LINE_SIZE as u64);
        let taken = self.firmware.lines();
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

impl Drive for Mssd {
    fn info(&self) -> DriveInfo {
        DriveInfo { pages: self.pages(), ..self.info }
    }

    fn identify(&self, facts: &mut dyn Any) -> bool {
        let s = self.state.lock();
        match (facts.downcast_mut::<pebble::Facts>(), &s.bam) {
            (Some(facts), Some(bam)) => {
                facts.names = bam.names().most();
                true
            }
            _ => s.firmware.identify(facts),
        }
    }

    fn load(&self, now: Nanos, at: ByteAddr, out: &mut [u8], what: Structure) -> Result<Nanos, DriveError> {
        self.byte_range(at, out.len())?;
        self.call(now, |s| s.load(&self.at_clock, now, at, out, what))
    }

    fn store_from(
        &self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.byte_range(at, data.len())?;
        if tx != TxId::NONE && !self.has_transactions {
            return Err(DriveError::Unsupported("transactions"));
        }
        self.call(now, |s| s.store(&self.at_clock, core, now, at, data, tx, what))
    }

    fn flush_lines(&self, now: Nanos, at: ByteAddr, len: usize) -> Result<Nanos, DriveError> {
        self.byte_range(at, len)?;
        self.call(now, |s| s.flush_lines(&self.at_clock, now, at, len))
    }

    fn stream(
        &self,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        // A page far beyond the end has no address of its bytes.
        self.range(lpa, 1)?;
        self.byte_range(lpa.byte().offset(from as u64), data.len())?;
        assert!(from + data.len() <= PAGE_SIZE, "{} bytes from {from} on leave the page", data.len());
        self.call(now, |s| s.stream(&self.at_clock, now, lpa, from, data, what))
    }

    fn load_pages(
        &self,
        now: Nanos,
        at: ByteAddr,
        len: usize,
        out: &mut [Page],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.byte_range(at, len)?;
        self.call(now, |s| s.load_pages(&self.at_clock, now, at, len, out, what))
    }

    fn load_known(
        &self,
        now: Nanos,
        runs: &[(Lpa, usize)],
        until: Nanos,
        known: &[Page],
        fresh: &mut [Page],
        what: Structure,
    ) -> Chain {
        let in_range = |lpa, n| self.range(lpa, n as u64);
        self.state.lock().load_chain(&self.at_clock, in_range, now, runs, until, known, fresh, what)
    }

    fn verify(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.byte_range(ByteAddr(0), 0)?;
        self.call(now, |s| Ok(s.verify(&self.at_clock, now)))
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        let done = self.serve(now, command)?;
        if self.at_clock.link.nvme.queue_depth > 0 {
            self.state.lock().queue.ended(done);
        }
        Ok(done)
    }

    fn look_ahead(&self, lpas: &[Lpa]) {
        self.state.lock().backend.look_ahead(lpas);
    }

    fn look_ahead_lines(&self, at: &[ByteAddr]) {
        let s = self.state.lock();
        let mut missed = Vec::with_capacity(at.len());
        s.firmware.look_ahead(at, &mut missed);
        s.backend.look_ahead(&missed);
    }

    fn wants_attention(&self) -> bool {
        self.state.lock().bam.as_ref().is_some_and(Bam::is_nearly_full)
    }

    fn settle(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.call(now, |s| {
            let t = now.max(s.in_flight.last()).max(s.posted);
            s.acknowledge(t);
            s.settle_all(t)
        })
    }

    fn fork(&self) -> Option<Arc<dyn Drive>> {
        let mut s = self.state.lock();
        if s.backend.is_on_image() {
            return None;
        }
        s.backend.share();
        Some(Arc::new(Mssd {
            config: RwLock::new(self.config()),
            at_clock: self.at_clock.clone(),
            info: self.info,
            has_transactions: self.has_transactions,
            pages: AtomicU64::new(self.pages()),
            state: Mutex::new(s.clone()),
        }))
    }

    fn power_fail(&self, now: Nanos, random: &mut Stream) {
        let mut s = self.state.lock();
        s.power_fail(&self.at_clock, now, random);
        if let Err(e) = s.publish() {
            s.fault.get_or_insert(e);
        }
    }

    fn power_on(&self, now: Nanos) -> Result<Nanos, DriveError> {
        let mut s = self.state.lock();
        let ready = s.power_on(&self.at_clock, now)?;
        s.publish()?;
        Ok(ready)
    }

    fn track_in_flight(&self, on: bool) {
        self.state.lock().track(on);
    }

    fn answer_late(&self, seed: Option<u64>) {
        self.state.lock().in_flight.answer_late(seed);
    }

    fn traffic(&self) -> LinkTraffic {
        self.state.lock().traffic
    }

    fn counters(&self) -> DriveCounters {
        self.state.lock().counters()
    }

    fn counters_at(&self, now: Nanos) -> DriveCounters {
        self.state.lock().counters_at(now)
    }

    fn check(&self) -> Result<(), Vec<String>> {
        let bad = self.state.lock().check();
        if bad.is_empty() { Ok(()) } else { Err(bad) }
    }
}
