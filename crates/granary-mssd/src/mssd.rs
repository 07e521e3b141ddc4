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
//! Every call first does what is due by its instant: programs that are done free their buffers, cleaning
//! batches run, tracked commands that are acknowledged take effect. One mutex guards everything; nothing
//! waits inside.
//!
//! Invariant: sums balance (`Drive::check`): the link carried the bytes that the commands asked for and that
//! the firmware took in. Source: ByteFS sections 2.1, 4.2 to 4.4, 4.7, 4.9.

mod block;
mod byte;
mod chain;
mod controller;
mod drive;
mod fail;
mod grow;
mod inspect;
mod kept;
mod precondition;
mod queue;
mod state;

pub use controller::Controller;
pub use kept::Kept;

use crate::companion::{Companion, Seen};
use crate::config::{ConfigError, DriveConfig};
use crate::entry::{BUILT_IN, DriveEntry};
use crate::firmware::{Backend, Cores, Firmware, Transaction};
use crate::link::wc::{HeldLine, WriteCombining};
use granary_device::{Command, DriveError, DriveInfo, Vendor};
use granary_flash::Policies;
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An emulated memory-semantic SSD.
pub struct Mssd {
    config: RwLock<Arc<DriveConfig>>,
    /// The configuration that the drive was made with, with processor times at the clock that the processors
    /// run at. Settings that growth changes are not read from it.
    at_clock: DriveConfig,
    /// The drive's description, except for the pages.
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

    /// A new drive of a configuration that has been validated, with its firmware, its policies where that has
    /// its own, what stands beside it, its write buffer and flash.
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
        // Each in its own way: a result that was written in parts and is then copied as a whole makes the
        // processor wait.
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

    /// The newest content of a page as the drive has it (not what the host's write-combining buffers hold),
    /// taking no time and not counted. For checks.
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

    /// Bytes of drive DRAM that the log's index takes (0 in cache mode); the paper reports 21 MB for a 256 MB
    /// log.
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
