//! [`Firmware`]: what the drive does between link and flash, in one of two modes, over one [`Backend`].
//!
//! ```text
//!              byte interface            block interface
//!                    |                          |
//!   log mode:    write log (log.rs)  <──merge── | ──> voids log entries
//!   cache mode:  page cache (cache.rs) <────────|
//!                    |                          |
//!                    v                          v
//!   Backend:     write buffer (buffer.rs)  ──> FTL (granary-flash)
//! ```
//!
//! All of it is work of the drive's processors ([`Cores`]): commands and posted lines as they come, log cleaning and gc in the
//! time that they leave.
//!
//! Every function takes the instant at which its work begins and returns the one at which it is done. State changes at
//! once; only its time lies in the future.

pub mod bam;
pub mod buffer;
pub mod cache;
pub mod log;
pub mod store;

use crate::config::DriveConfig;
use crate::saved::layout::Layout;
use buffer::Backend;
use cache::Cache;
use granary_device::DriveError;
use granary_device::{CacheCounters, LogCounters};
use granary_flash::Timeline;
use granary_sim::rng::Stream;
use granary_units::{Lpa, Nanos, Page, TxId};
use log::Log;

/// The drive's processors. What a host waits for is served in the order in which it is ready; background work takes time
/// that nobody else has asked for, in pieces that are not interrupted.
#[derive(Clone)]
pub struct Cores(Vec<Timeline>);

impl Cores {
    /// `count` idle processors.
    pub fn new(count: usize) -> Cores {
        Cores(vec![Timeline::new(Nanos(1)); count])
    }

    /// Serves `len` of work that arrives at `ready` on the processor that is free first; returns when it is done.
    pub fn serve(&mut self, ready: Nanos, len: Nanos) -> Nanos {
        self.idlest().fill(ready, len).end
    }

    /// A piece of background work whose turn comes at `ready`, which is not later than the drive's present: it takes idle time.
    /// Whoever comes while the piece is under way waits for its end. Returns when it is done.
    pub fn serve_idle(&mut self, ready: Nanos, len: Nanos) -> Nanos {
        self.serve(ready, len)
    }

    /// A piece of background work that lies ahead, since somebody waits for where it leads. It is counted and takes the time that
    /// is idle as far as one knows, but keeps nobody who comes meanwhile waiting: the host goes first. Returns when it is done.
    pub fn serve_ahead(&mut self, ready: Nanos, len: Nanos) -> Nanos {
        let core = self.idlest();
        core.charge(1, len);
        core.probe(ready, len) + len
    }

    fn idlest(&mut self) -> &mut Timeline {
        match &mut self.0[..] {
            [one] => one,
            many => many.iter_mut().min_by_key(|c| c.horizon()).expect("at least one processor"),
        }
    }

    /// From when on one of them has nothing to do.
    pub fn idle_from(&self) -> Nanos {
        self.0.iter().map(Timeline::horizon).min().expect("at least one processor")
    }

    /// Serves `count` pieces of work of `len`, which arrive from `ready` on at this distance, no sooner than one is done and some
    /// processor is idle.
    pub fn serve_each(&mut self, ready: Nanos, len: Nanos, distance: Nanos, count: usize) {
        match &mut self.0[..] {
            [one] => one.append_each(ready, len, distance, count as u64),
            _ => {
                for i in 0..count as u64 {
                    self.serve(ready + distance * i, len);
                }
            }
        }
    }

    /// Time has come to `now`.
    #[inline]
    pub fn pass(&mut self, now: Nanos) {
        self.0.iter_mut().for_each(|c| c.pass(now));
    }

    /// Time reserved so far, over all processors.
    pub fn busy(&self) -> Nanos {
        Nanos(self.0.iter().map(|c| c.busy().0).sum())
    }

    /// The part of it that lies after `now`.
    pub fn ahead(&self, now: Nanos) -> Nanos {
        Nanos(self.0.iter().map(|c| c.ahead(now).0).sum())
    }

    /// Forgets all work.
    pub fn reset(&mut self, at: Nanos) {
        self.0.iter_mut().for_each(|c| c.reset(at));
    }
}

/// The firmware in its mode.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "one per drive")]
pub enum Firmware {
    /// ByteFS.
    Log(Log),
    /// The baselines.
    Cache(Cache),
}

impl Firmware {
    /// Moves the changes since the last time, as redo records, to the end of `out`.
    pub fn drain_redo(&mut self, out: &mut Vec<u8>) {
        match self {
            Firmware::Log(log) => log.drain_redo(out),
            Firmware::Cache(cache) => cache.drain_redo(out),
        }
    }

    /// For a drive that has become larger, on an image with this layout.
    pub fn grow(&mut self, config: &DriveConfig, layout: &Layout) {
        match self {
            Firmware::Log(log) => log.grow(config, layout),
            Firmware::Cache(cache) => cache.rebase(layout),
        }
    }

    /// Does the background work whose time has come.
    #[inline]
    pub fn pump(&mut self, be: &mut Backend, now: Nanos) {
        be.pump(now);
        if let Firmware::Log(log) = self {
            log.pump(be, now);
        }
    }

    /// Reads a page, newest content.
    #[inline]
    pub fn read_page(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<(Page, Nanos), DriveError> {
        match self {
            Firmware::Log(log) => log.read_page(be, t, lpa),
            Firmware::Cache(cache) => cache.read_page(be, t, lpa),
        }
    }

    /// [`Firmware::read_page`] of a page that held `known`; no content where it is still that.
    #[inline]
    pub fn read_known(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        known: &Page,
    ) -> Result<(Option<Page>, Nanos), DriveError> {
        match self {
            Firmware::Log(log) => {
                let (page, done) = log.read_page(be, t, lpa)?;
                Ok(((!page.is_same(known)).then_some(page), done))
            }
            Firmware::Cache(cache) => cache.read_known(be, t, lpa, known),
        }
    }

    /// Takes a page of a block write that arrived at `t`; returns when the drive may acknowledge it.
    #[inline]
    pub fn write_page(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        page: Page,
    ) -> Result<Nanos, DriveError> {
        match self {
            Firmware::Log(log) => log.write_page(be, t, lpa, page),
            Firmware::Cache(cache) => cache.write_block(be, t, lpa, page),
        }
    }

    /// Reads whole lines of a page from line `first` on.
    pub fn read_lines(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        first: usize,
        out: &mut [u8],
    ) -> Result<Nanos, DriveError> {
        match self {
            Firmware::Log(log) => log.read_lines(be, t, lpa, first, out),
            Firmware::Cache(cache) => cache.read_lines(be, t, lpa, first, out),
        }
    }

    /// Takes whole lines of a page that arrived at `t`.
    pub fn write_lines(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        first: usize,
        data: &[u8],
        tx: TxId,
    ) -> Result<Nanos, DriveError> {
        match self {
            Firmware::Log(log) => log.write_lines(be, t, lpa, first, data, tx),
            Firmware::Cache(cache) => cache.write_lines(be, t, lpa, first, data),
        }
    }

    /// When lines that the processor had done with at `served` are in the drive's memory, and no longer in the link's buffer: in
    /// the log, once it has room (`stalled`); in the cache, once it has a slot, whether the page is there or not.
    #[inline]
    pub fn held_from(&self, served: Nanos, stalled: Option<Nanos>) -> Nanos {
        match self {
            Firmware::Log(_) => stalled.unwrap_or(served),
            Firmware::Cache(cache) => served.max(cache.admitted()),
        }
    }

    /// Whether anything of a page is kept anywhere: a trim of the others changes nothing.
    #[inline]
    pub fn holds(&self, be: &Backend, lpa: Lpa) -> bool {
        let here = match self {
            Firmware::Log(log) => log.holds(lpa),
            Firmware::Cache(cache) => cache.holds(lpa),
        };
        here || be.holds(lpa)
    }

    /// Whether [`Firmware::holds`] no page.
    pub fn is_empty(&self, be: &Backend) -> bool {
        let here = match self {
            Firmware::Log(log) => log.is_empty(),
            Firmware::Cache(cache) => cache.is_empty(),
        };
        here && be.is_empty()
    }

    /// Whether a page has content that is kept: of a page without, the cache may hold the zeros that it reads as.
    pub fn has_content(&self, be: &Backend, lpa: Lpa) -> bool {
        let here = match self {
            Firmware::Log(log) => log.holds(lpa),
            Firmware::Cache(cache) => cache.holds_dirty(lpa),
        };
        here || be.holds(lpa)
    }

    /// Drops a page's content.
    pub fn trim(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError> {
        match self {
            Firmware::Log(log) => log.trim(be, t, lpa),
            Firmware::Cache(cache) => {
                cache.forget(lpa);
                be.trim(lpa)?;
                Ok(t)
            }
        }
    }

    /// Moves a page's content to `dst`, and drops what was there; returns when it is there, and whether it was copied.
    pub fn remap(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        src: Lpa,
        dst: Lpa,
    ) -> Result<(Nanos, bool), DriveError> {
        match self {
            Firmware::Log(log) => log.remap(be, t, src, dst),
            Firmware::Cache(cache) => {
                cache.remap(src, dst);
                be.remap(src, dst)?;
                Ok((t, false))
            }
        }
    }

    /// Newest content of a page, taking no time.
    pub fn peek(&self, be: &Backend, lpa: Lpa) -> Result<Page, DriveError> {
        match self {
            Firmware::Log(log) => log.peek(be, lpa),
            Firmware::Cache(cache) => cache.peek(be, lpa),
        }
    }

    /// Moves everything to flash; returns when it is there.
    pub fn settle(&mut self, be: &mut Backend, now: Nanos) -> Result<Nanos, DriveError> {
        let t = match self {
            Firmware::Log(log) => log.settle(be, now)?,
            Firmware::Cache(cache) => cache.settle(be, now)?,
        };
        Ok(be.drain(t))
    }

    /// Whether posted lines are to be remembered until they are verified.
    pub fn track(&mut self, on: bool) {
        match self {
            Firmware::Log(log) => log.track(on),
            Firmware::Cache(cache) => cache.track(on),
        }
    }

    /// Number of runs of lines posted while tracking.
    pub fn posts(&self) -> u64 {
        match self {
            Firmware::Log(log) => log.posts(),
            Firmware::Cache(cache) => cache.posts(),
        }
    }

    /// The first `posts` runs of lines have been verified.
    pub fn verified(&mut self, posts: u64) {
        match self {
            Firmware::Log(log) => log.verified(posts),
            Firmware::Cache(cache) => cache.verified(posts),
        }
    }

    /// Power fails: each line that was posted but not verified is lost or not, as `random` has it.
    pub fn power_fail(
        &mut self,
        be: &mut Backend,
        now: Nanos,
        random: &mut Stream,
    ) -> Result<(), DriveError> {
        match self {
            Firmware::Log(log) => {
                log.power_fail(random);
                Ok(())
            }
            Firmware::Cache(cache) => cache.power_fail(be, now, random),
        }
    }

    /// Power is back: what only the firmware's SRAM held is made again from the DRAM.
    pub fn power_on(&mut self, now: Nanos, load: Nanos) {
        match self {
            Firmware::Log(log) => log.power_on(now, load),
            Firmware::Cache(_) => {}
        }
    }

    /// What was counted.
    pub fn counters(&self) -> (LogCounters, CacheCounters) {
        match self {
            Firmware::Log(log) => (log.counters(), CacheCounters::default()),
            Firmware::Cache(cache) => (LogCounters::default(), cache.counters()),
        }
    }

    /// Internal consistency.
    pub fn check(&self) -> Vec<String> {
        match self {
            Firmware::Log(log) => log.check(),
            Firmware::Cache(cache) => cache.check(),
        }
    }
}
