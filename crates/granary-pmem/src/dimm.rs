//! [`Dimm`]: NVM DIMMs as a [`Drive`].
//!
//! ```text
//!   store_from   into the processors' caches: no time of its own, unless they are full
//!   flush_lines  clwb: a core is busy for each line; it goes on when the last one has left it
//!   stream       non-temporal stores, likewise
//!   verify       sfence: until everything that left a core has been accepted by a queue
//!   load         latency of the first line, then as core and DIMM send the others; lines that the caches
//!                hold take none
//! ```
//!
//! A fence covers what any core wrote back before it, not its own alone: a program that goes on on another
//! core passes a barrier there, and file systems count on each other's fences (`granary-pm`). A real sfence
//! promises less to a caller that does not wait.
//!
//! The calls of `Drive` that name no core (`stream`, `load`) are made by the core that the caller runs on
//! ([`granary_sim::core`]); [`Dimm::stream_from`] and [`Dimm::load_from`] name it.
//!
//! It does *not* know blocks: commands are refused.

mod counts;
mod load;
mod power;
mod state;

use crate::config::{ConfigError, DimmConfig};
use crate::counters::DimmCounters;
use crate::medium::{Medium, RamMedium};
use granary_device::{
    Command, Drive, DriveCounters, DriveError, DriveInfo, LinkTraffic, Streamed, Structure,
};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use parking_lot::Mutex;
use state::DimmState;
use std::sync::Arc;

/// One DIMM, or several that are interleaved, over a medium.
pub struct Dimm<M: Medium = RamMedium> {
    config: DimmConfig,
    pages: u64,
    state: Mutex<DimmState<M>>,
}

impl Dimm {
    /// New DIMMs in memory: zeros, powered, idle.
    ///
    /// # Errors
    /// Where the configuration makes none.
    pub fn new(config: &DimmConfig) -> Result<Dimm, ConfigError> {
        config.validate()?;
        Dimm::over(config, RamMedium::new(config.pages()))
    }
}

impl<M: Medium> Dimm<M> {
    /// DIMMs with the content of a medium, powered, idle.
    ///
    /// # Errors
    /// Where the configuration makes none, or one of another size than the medium.
    pub fn over(config: &DimmConfig, medium: M) -> Result<Dimm<M>, ConfigError> {
        config.validate()?;
        let (pages, has) = (config.pages(), medium.pages());
        if pages != has {
            let why = format!("makes {pages} pages with {} DIMMs, but the medium has {has}", config.dimms);
            return Err(ConfigError { field: "capacity", why });
        }
        Ok(Dimm { config: config.clone(), pages, state: Mutex::new(DimmState::new(config, medium)) })
    }

    /// The configuration.
    pub fn config(&self) -> &DimmConfig {
        &self.config
    }

    /// Counters behind the bus.
    pub fn dimm_counters(&self) -> DimmCounters {
        self.state.lock().counters()
    }

    /// The newest content of a page, caches included, taking no time and not counted. For checks.
    ///
    /// # Errors
    /// Outside the DIMMs, or a line of it cannot be read.
    pub fn peek(&self, lpa: Lpa) -> Result<Page, DriveError> {
        self.range(lpa.byte(), PAGE_SIZE)?;
        self.state.lock().visible(lpa.0)
    }

    /// From now on the line that holds this byte cannot be read, until it is stored whole. For tests.
    ///
    /// # Errors
    /// Outside the DIMMs.
    pub fn break_line(&self, at: ByteAddr) -> Result<(), DriveError> {
        self.range(at, 1)?;
        self.state.lock().break_line(at.line());
        Ok(())
    }

    /// Numbers of the lines that cannot be read, as far as they are known.
    pub fn broken_lines(&self) -> Vec<u64> {
        self.state.lock().broken_lines()
    }

    /// Lines that the processors' caches hold and no write-back has taken out.
    pub fn held_lines(&self) -> usize {
        self.state.lock().held_lines()
    }

    /// [`Drive::load`] by this core.
    ///
    /// # Errors
    /// As there.
    pub fn load_from(
        &self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        out: &mut [u8],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.range(at, out.len())?;
        self.call(now, |s| s.load(core, now, at, out, what))
    }

    /// [`Drive::stream`] by this core.
    ///
    /// # Errors
    /// As there.
    pub fn stream_from(
        &self,
        core: u16,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        assert!(from + data.len() <= PAGE_SIZE, "{} bytes from {from} on leave the page", data.len());
        if lpa.0 >= self.pages {
            return Err(DriveError::OutOfRange { what: format!("a stream to {lpa}"), pages: self.pages });
        }
        self.call(now, |s| s.stream(core, now, lpa, from, data, what))
    }

    fn range(&self, at: ByteAddr, len: usize) -> Result<(), DriveError> {
        let size = self.pages * PAGE_SIZE as u64;
        if at.0 <= size && len as u64 <= size - at.0 {
            return Ok(());
        }
        Err(DriveError::OutOfRange { what: format!("{len} bytes from {at} on"), pages: self.pages })
    }

    #[inline]
    fn call<T>(
        &self,
        now: Nanos,
        work: impl FnOnce(&mut DimmState<M>) -> Result<T, DriveError>,
    ) -> Result<T, DriveError> {
        let mut s = self.state.lock();
        s.begin(now)?;
        let done = work(&mut s);
        let kept = s.keep(false);
        done.and_then(|done| kept.map(|()| done))
    }

    /// No call is served until `work` is done: for the image that the DIMMs are on.
    pub fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        let _nobody = self.state.lock();
        work()
    }

    /// Everything that has left the processors' caches is kept, if the medium outlives the process.
    ///
    /// # Errors
    /// The host of the medium failed.
    pub fn keep(&self) -> Result<(), DriveError> {
        self.state.lock().keep(true)
    }
}

impl<M: Medium + 'static> Drive for Dimm<M> {
    granary_device::plain_chains!();

    fn info(&self) -> DriveInfo {
        // No command is served; one page keeps who splits transfers from dividing by nothing, and is refused
        // like all.
        DriveInfo { pages: self.pages, bytes: true, max_transfer: 1, ..DriveInfo::default() }
    }

    fn load(&self, now: Nanos, at: ByteAddr, out: &mut [u8], what: Structure) -> Result<Nanos, DriveError> {
        self.load_from(granary_sim::core(), now, at, out, what)
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
        if tx != TxId::NONE {
            return Err(DriveError::Unsupported("transactions of stores"));
        }
        self.range(at, data.len())?;
        self.call(now, |s| s.store(core, now, at, data, what))
    }

    fn flush_lines(&self, now: Nanos, at: ByteAddr, len: usize) -> Result<Nanos, DriveError> {
        self.range(at, len)?;
        self.call(now, |s| s.flush_lines(now, at, len))
    }

    fn stream(
        &self,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.stream_from(granary_sim::core(), now, lpa, from, data, what)
    }

    fn load_pages(
        &self,
        now: Nanos,
        at: ByteAddr,
        len: usize,
        out: &mut [Page],
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        assert!(at.in_page() + len <= out.len() * PAGE_SIZE, "{len} bytes at {at} in {} pages", out.len());
        self.range(at, len)?;
        self.call(now, |s| s.load_pages(granary_sim::core(), now, at, len, out, what))
    }

    fn verify(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.call(now, |s| {
            let done = s.fence(now);
            s.keep(true).map(|()| done)
        })
    }

    fn submit(&self, _now: Nanos, _command: Command<'_>) -> Result<Nanos, DriveError> {
        Err(DriveError::Unsupported("block or vendor commands: it is an NVM DIMM, which knows bytes"))
    }

    fn settle(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.call(now, |s| {
            let idle = s.settle(now);
            s.keep(true).map(|()| idle)
        })
    }

    fn fork(&self) -> Option<Arc<dyn Drive>> {
        let state = self.state.lock().fork()?;
        Some(Arc::new(Dimm { config: self.config.clone(), pages: self.pages, state: Mutex::new(state) }))
    }

    fn power_fail(&self, now: Nanos, random: &mut Stream) {
        let mut s = self.state.lock();
        s.power_fail(now, random);
        if let Err(e) = s.keep(true) {
            s.fault.get_or_insert(e);
        }
    }

    fn power_on(&self, now: Nanos) -> Result<Nanos, DriveError> {
        self.state.lock().power_on(now)
    }

    fn track_in_flight(&self, on: bool) {
        self.state.lock().track(on);
    }

    fn traffic(&self) -> LinkTraffic {
        self.state.lock().traffic()
    }

    fn counters(&self) -> DriveCounters {
        self.state.lock().drive_counters()
    }

    fn counters_at(&self, now: Nanos) -> DriveCounters {
        self.state.lock().drive_counters_at(now)
    }

    fn check(&self) -> Result<(), Vec<String>> {
        self.state.lock().check()
    }
}
