//! [`Mssd`]: the drive, put together: link, firmware, write buffer, flash.
//!
//! ```text
//!   submit (mssd/block.rs)            store flush_lines verify load (mssd/byte.rs)
//!     doorbell, fetch | processor | data over the link        write-combining, posted lines
//!           \______________________  ______________________________/
//!                                  \/
//!                       Firmware, perhaps a Companion, over Backend (mssd/controller.rs)
//!   power_fail, power_on, tracking of what is in flight (mssd/fail.rs); more packages (mssd/grow.rs);
//!   from an image (mssd/kept.rs)
//! ```
//!
//! Every call first does what is due by its instant: programs that are done free their buffers, cleaning batches run,
//! tracked commands that are acknowledged take effect. One mutex guards everything; nothing waits inside.
//!
//! Invariant: sums balance (`Drive::check`): what the link carried is what the commands asked for and what the firmware
//! took in. Source: ByteFS sections 2.1, 4.2 to 4.4, 4.7, 4.9.

mod block;
mod byte;
mod chain;
mod controller;
mod fail;
mod grow;
mod inspect;
mod kept;
mod precondition;
mod queue;

pub use controller::Controller;
pub use kept::Kept;

use crate::companion::{Companion, Seen};
use crate::config::{ConfigError, DriveConfig};
use crate::entry::{BUILT_IN, DriveEntry};
use crate::firmware::{Backend, Cores, Firmware, Transaction};
use crate::link::wc::{HeldLine, WriteCombining};
use granary_device::Structure;
use granary_device::{BusyTime, DriveCounters, LinkTraffic};
use granary_device::{Chain, Command, Drive, DriveError, DriveInfo, Streamed, Vendor};
use granary_flash::Policies;
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use parking_lot::{Mutex, RwLock};
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
    inner: Controller,
    companion: Option<Box<dyn Companion>>,
    wc: WriteCombining,
    /// When the last posted line is in the firmware's hands.
    posted: Nanos,
    /// When the last COMMIT completes: they complete in order.
    committed: Nanos,
    powered: bool,
    /// Verify reads on their way: (answered at, posted lines before it).
    verifying: Vec<(Nanos, u64)>,
    /// Working memory: lines taken out of the write-combining buffers, one page of bytes.
    lines: Vec<HeldLine>,
    page: Vec<u8>,
}

impl Mssd {
    /// A new drive: erased, powered, idle.
    ///
    /// # Errors
    /// [`ConfigError`] where the configuration makes no working drive.
    pub fn new(config: &DriveConfig) -> Result<Mssd, ConfigError> {
        DriveEntry::of(BUILT_IN, config)?.make(config)
    }

    /// A new drive of a configuration that has been validated, with its firmware, its policies where that has its own, what stands
    /// beside it, its write buffer and flash.
    pub(crate) fn with_firmware(
        config: &DriveConfig,
        firmware: Box<dyn Firmware>,
        policies: Option<Policies>,
        companion: Option<Box<dyn Companion>>,
        mut backend: Backend,
    ) -> Mssd {
        policies.into_iter().for_each(|policies| backend.ftl_mut().follow(policies));
        Mssd::over(config, firmware, companion, backend)
    }

    fn over(
        config: &DriveConfig,
        mut firmware: Box<dyn Firmware>,
        companion: Option<Box<dyn Companion>>,
        mut backend: Backend,
    ) -> Mssd {
        if companion.is_some() {
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
            offers: [firmware.offers(), companion.as_ref().map_or(&[], |own| own.offers())],
        };
        let has_transactions = firmware.transactions().is_some();
        let state = State {
            inner: Controller::new(config, firmware, backend),
            companion,
            wc: WriteCombining::default(),
            posted: Nanos::ZERO,
            committed: Nanos::ZERO,
            powered: true,
            verifying: Vec::new(),
            lines: Vec::new(),
            page: vec![0; PAGE_SIZE],
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
        self.call_on(&mut self.state.lock(), now, work)
    }

    /// The same of who has the state.
    #[inline]
    fn call_on<T>(
        &self,
        s: &mut State,
        now: Nanos,
        work: impl FnOnce(&mut State) -> Result<T, DriveError>,
    ) -> Result<T, DriveError> {
        let copied = s.inner.backend.copied();
        s.begin(now)?;
        // Each in its own way: a result that was written in parts and is then copied as a whole makes the processor wait.
        match work(s) {
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
        match s.inner.in_flight.seen(lpa) {
            Some(Seen::Content(page)) => Ok(page),
            Some(Seen::Of(src)) => s.inner.firmware.peek(&s.inner.backend, s.newest(src)),
            None => s.inner.firmware.peek(&s.inner.backend, s.newest(lpa)),
        }
    }

    /// Bytes of drive DRAM that the log's index takes (0 in cache mode); the paper reports 21 MB for a 256 MB log.
    pub fn index_memory(&self) -> usize {
        self.state.lock().inner.firmware.index_memory()
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

    /// A command of the firmware, or of what stands beside it.
    fn serve_vendor(&self, c: &DriveConfig, now: Nanos, own: &mut dyn Vendor) -> Result<Nanos, DriveError> {
        let mut s = self.state.lock();
        match s.inner.firmware.transactions().and_then(|log| log.asked(own)) {
            Some(Transaction::Commit(tx)) => return self.call_on(&mut s, now, |s| s.commit(c, now, tx)),
            Some(Transaction::Recover) => return self.call_on(&mut s, now, |s| s.recover(c, now)),
            None => {}
        }
        if let Some(admitted) = s.companion.as_ref().and_then(|beside| beside.admits(own, self.pages())) {
            admitted?;
            return self.call_on(&mut s, now, |s| match &mut s.companion {
                Some(beside) => beside.serve(&mut s.inner, c, now, own),
                None => Err(DriveError::Unsupported(own.name())),
            });
        }
        self.call_on(&mut s, now, |s| {
            let t = s.inner.accept(c, now);
            let done = s.inner.firmware.serve(&mut s.inner.backend, t, own);
            done.map(|done| done + c.link.nvme.completion)
        })
    }

    #[inline]
    fn range(&self, lpa: Lpa, pages: u64) -> Result<(), DriveError> {
        in_range(lpa, pages, self.pages())
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

/// Whether these pages are on a drive of `all` pages.
///
/// # Errors
/// [`DriveError::OutOfRange`].
#[inline]
pub fn in_range(lpa: Lpa, pages: u64, all: u64) -> Result<(), DriveError> {
    if lpa.0 < all && pages <= all - lpa.0 {
        return Ok(());
    }
    Err(DriveError::OutOfRange { what: format!("{pages} pages from {lpa} on"), pages: all })
}

impl State {
    /// Does what is due by `now`; an error if the drive cannot serve anything.
    #[inline]
    fn begin(&mut self, now: Nanos) -> Result<(), DriveError> {
        if self.inner.tracking || !self.powered || self.inner.fault.is_some() {
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
    fn advance(&mut self, now: Nanos) {
        self.inner.backend.pump(now);
        self.inner.firmware.pump(&mut self.inner.backend, now);
        self.inner.backend.pass(now);
        self.inner.link.pass(now);
        self.inner.backend.cores.pass(now);
    }

    /// The page under which the firmware has what is read under this one.
    #[inline]
    fn newest(&self, lpa: Lpa) -> Lpa {
        self.companion.as_ref().map_or(lpa, |own| own.newest(lpa))
    }

    /// A part of a page is about to change.
    #[inline]
    fn part(&mut self, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        match &mut self.companion {
            None => Ok(t),
            Some(own) => own.part(&mut self.inner, t, lpa),
        }
    }

    /// Lets what is in flight for a page take effect before its acknowledgement.
    fn land(&mut self, lpa: Lpa, now: Nanos) {
        self.inner.land(self.companion.as_deref_mut(), lpa, now);
    }

    /// Moves everything to flash; returns when it is there.
    fn settle_all(&mut self, t: Nanos) -> Result<Nanos, DriveError> {
        let t = self.inner.firmware.settle(&mut self.inner.backend, t)?;
        Ok(self.inner.backend.drain(t))
    }

    /// The processor's part of the gc that a call at `now` led to, before which `copied` pages had been copied: an entry of the
    /// map for each page.
    #[inline]
    fn charge_gc(&mut self, now: Nanos, copied: u64, entry: Nanos) {
        let copied = self.inner.backend.copied() - copied;
        if copied > 0 {
            self.inner.backend.cores.serve_idle(now, entry * copied);
        }
    }

    /// Hands what changed to the image.
    #[inline]
    fn publish(&mut self) -> Result<(), DriveError> {
        self.inner.publish(self.companion.as_deref_mut())
    }

    fn counters(&self) -> DriveCounters {
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

    fn counters_at(&self, now: Nanos) -> DriveCounters {
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

    fn check(&self) -> Vec<String> {
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

impl Drive for Mssd {
    fn info(&self) -> DriveInfo {
        DriveInfo { pages: self.pages(), ..self.info }
    }

    fn identify(&self, facts: &mut dyn Any) -> bool {
        let s = self.state.lock();
        s.companion.as_ref().is_some_and(|own| own.identify(facts)) || s.inner.firmware.identify(facts)
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
            self.state.lock().inner.queue.ended(done);
        }
        Ok(done)
    }

    fn look_ahead(&self, lpas: &[Lpa]) {
        self.state.lock().inner.backend.look_ahead(lpas);
    }

    fn look_ahead_lines(&self, at: &[ByteAddr]) {
        let s = self.state.lock();
        let mut missed = Vec::with_capacity(at.len());
        s.inner.firmware.look_ahead(at, &mut missed);
        s.inner.backend.look_ahead(&missed);
    }

    fn wants_attention(&self) -> bool {
        self.state.lock().companion.as_ref().is_some_and(|own| own.wants_attention())
    }

    fn settle(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.call(now, |s| {
            let t = now.max(s.inner.in_flight.last()).max(s.posted);
            s.acknowledge(t);
            s.settle_all(t)
        })
    }

    fn fork(&self) -> Option<Arc<dyn Drive>> {
        let mut s = self.state.lock();
        if s.inner.backend.is_on_image() {
            return None;
        }
        s.inner.backend.share();
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
            s.inner.fault.get_or_insert(e);
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
        self.state.lock().inner.in_flight.answer_late(seed);
    }

    fn traffic(&self) -> LinkTraffic {
        self.state.lock().inner.traffic
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
