//! [`Drive`]: the host interface of a storage device.
//!
//! ```text
//!   byte window                               NVMe and vendor commands
//!   store ─> write-combining buffers          submit(Read | Write | Flush | Trim | Vendor)
//!   flush_lines (clwb) ─> posted writes                 |
//!   verify (zero-byte read) ─> accepted       completion instant = acknowledged
//!   load (non-posted read)
//! ```
//!
//! Invariants. A store is safe from power loss only after `flush_lines` and `verify` (ByteFS section 4.2). A
//! command is safe once its completion instant has passed. Stores that carry a [`TxId`] take effect across a
//! power loss only if that transaction's COMMIT completed.
//!
//! Calls take the present instant and never block. A drive is shared by all tasks; calls must come in time
//! order.

use crate::counters::{DriveCounters, LinkTraffic};
use crate::structure::Structure;
use crate::vendor::Vendor;
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, Lpa, Nanos, PAGE_SIZE, Page, Payload, TxId};
use std::any::Any;
use std::sync::Arc;

/// The drive's answer to IDENTIFY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveInfo {
    /// Logical pages of 4 KiB.
    pub pages: u64,
    /// It answers block commands.
    pub blocks: bool,
    /// It answers loads and stores.
    pub bytes: bool,
    /// A power failure leaves each line of 64 B whole, as a byte window does; else each word of 8 B.
    pub whole_lines: bool,
    /// Its write cache forgets in a power failure what no FLUSH has made safe; else an acknowledged write is
    /// safe.
    pub volatile_cache: bool,
    /// Largest block command, in pages.
    pub max_transfer: usize,
    /// Vendor commands that it answers, by name: its firmware's, and BAM's. [`DriveInfo::answers`] asks for
    /// one.
    pub offers: [&'static [&'static str]; 2],
}

impl DriveInfo {
    /// Whether the drive answers a vendor command of this name.
    #[inline]
    pub fn answers(&self, name: &str) -> bool {
        self.offers.iter().any(|some| some.contains(&name))
    }
}

/// A command for the submission queue.
#[derive(Debug)]
pub enum Command<'a> {
    /// Reads `out.len()` pages from `lpa` on.
    Read {
        /// First page.
        lpa: Lpa,
        /// Receives the pages.
        out: &'a mut [Page],
        /// The structure that is being read.
        what: Structure,
    },
    /// Writes pages from `lpa` on. Torn at page granularity if power fails before completion.
    Write {
        /// First page.
        lpa: Lpa,
        /// The content.
        pages: &'a [Page],
        /// The structure that is being written.
        what: Structure,
    },
    /// Completes when everything acknowledged before is safe.
    Flush,
    /// The content of these pages is no longer needed; they read as zeros afterwards.
    Trim {
        /// First page.
        lpa: Lpa,
        /// Number of pages.
        count: u64,
    },
    /// One of the firmware's own, which a file system asks for by [`Port::vendor`](crate::Port::vendor).
    Vendor(&'a mut dyn Vendor),
}

/// Why the drive refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriveError {
    /// The address lies beyond the drive's end.
    #[error("{what} beyond the end of the drive ({pages} pages)")]
    OutOfRange {
        /// The access.
        what: String,
        /// Capacity.
        pages: u64,
    },
    /// The firmware does not have the command.
    #[error("the drive's firmware has no {0}: use a testbed and a mode whose firmware has it")]
    Unsupported(&'static str),
    /// The drive can take no more data: its flash is at the end of its life, or the host of its image failed.
    #[error("the drive takes no more data: {0}")]
    ReadOnly(String),
    /// A page could not be read back.
    #[error("unreadable page {0}")]
    Unreadable(u64),
    /// The write log has no room left, because of transactions that were never committed.
    #[error(
        "the drive's write log is full of uncommitted transactions: commit them or split them into smaller ones"
    )]
    LogFull,
    /// BAM's tables have no room left for more of these.
    #[error("the drive's BAM has no room for more {0}: write a checkpoint, then reset it")]
    BamFull(&'static str),
    /// The flash failed in a way that no drive should.
    #[error("the drive failed: {0}")]
    Failed(String),
    /// The power is off.
    #[error("the drive has no power")]
    PoweredOff,
}

/// Data of non-temporal stores: see [`Drive::stream`].
#[derive(Clone, Copy, Debug)]
pub enum Streamed<'a> {
    /// A whole page.
    Page(&'a Page),
    /// A part of one; a fill is in phase with the page.
    Part(Payload<'a>),
}

impl Streamed<'_> {
    /// Number of bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            Streamed::Page(_) => PAGE_SIZE,
            Streamed::Part(p) => p.len(),
        }
    }

    /// The bytes as they are to lie from byte `from` of the page on.
    ///
    /// # Panics
    /// Where `out` has another length.
    pub fn copy_to(&self, from: usize, out: &mut [u8]) {
        match self {
            Streamed::Page(page) => page.copy_out(0, out),
            Streamed::Part(p) => p.copy_to(from as u64, out),
        }
    }
}

/// Where a chain of loads has come to: see [`Drive::load_known`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Runs that were loaded.
    pub runs: usize,
    /// When the last of them is there.
    pub done: Nanos,
    /// Pages of the last run that hold another content than the host knows: bit n for page n.
    pub changed: u64,
    /// Why the next one could not be loaded.
    pub failed: Option<DriveError>,
}

impl Chain {
    /// No run yet.
    pub fn new(now: Nanos) -> Chain {
        Chain { runs: 0, done: now, changed: 0, failed: None }
    }

    /// Whether it goes on with another run: nothing failed or is new, and the last run is there before
    /// `until`.
    pub fn goes_on(&self, until: Nanos) -> bool {
        self.failed.is_none() && self.changed == 0 && (self.runs == 0 || self.done < until)
    }
}

/// [`Drive::stream`] by a store and its write-back, for a drive without a way of its own.
///
/// # Errors
/// As [`Drive::stream`].
pub fn stream_by_store<D: Drive + ?Sized>(
    drive: &D,
    now: Nanos,
    lpa: Lpa,
    from: usize,
    data: Streamed<'_>,
    what: Structure,
) -> Result<Nanos, DriveError> {
    let mut bytes = [0; PAGE_SIZE];
    let bytes = &mut bytes[..data.len()];
    data.copy_to(from, bytes);
    let at = lpa.byte().offset(from as u64);
    let t = drive.store(now, at, bytes, TxId::NONE, what)?;
    drive.flush_lines(t, at, bytes.len())
}

/// [`Drive::load_pages`] by one load.
///
/// # Errors
/// As [`Drive::load_pages`].
pub fn load_pages_by_load<D: Drive + ?Sized>(
    drive: &D,
    now: Nanos,
    at: ByteAddr,
    len: usize,
    out: &mut [Page],
    what: Structure,
) -> Result<Nanos, DriveError> {
    let first = at.0 - at.in_page() as u64;
    let start = (at.0 - first) as usize / LINE_SIZE * LINE_SIZE;
    let end = (at.in_page() + len).next_multiple_of(LINE_SIZE);
    let mut bytes = vec![0; out.len() * PAGE_SIZE];
    let done = drive.load(now, ByteAddr(first + start as u64), &mut bytes[start..end], what)?;
    for (page, bytes) in out.iter_mut().zip(bytes.chunks_exact(PAGE_SIZE)) {
        *page = Page::from_bytes(bytes.try_into().expect("a page of bytes"));
    }
    Ok(done)
}

/// [`Drive::load_known`] by [`Drive::load_pages`], run by run: every drive's own has to equal this.
pub fn load_one_by_one<D: Drive + ?Sized>(
    drive: &D,
    now: Nanos,
    runs: &[(Lpa, usize)],
    until: Nanos,
    known: &[Page],
    fresh: &mut [Page],
    what: Structure,
) -> Chain {
    let (mut chain, mut at) = (Chain::new(now), 0);
    while let Some(&(lpa, n)) = runs.get(chain.runs)
        && chain.goes_on(until)
    {
        match drive.load_pages(chain.done, lpa.byte(), n * PAGE_SIZE, &mut fresh[..n], what) {
            Ok(done) => {
                let pairs = fresh[..n].iter().zip(&known[at..at + n]).enumerate();
                chain.changed = pairs.fold(0, |bits, (i, (a, b))| bits | u64::from(!a.is_same(b)) << i);
                (chain.done, chain.runs, at) = (done, chain.runs + 1, at + n);
            }
            Err(e) => chain.failed = Some(e),
        }
    }
    chain
}

/// A storage device: a memory-semantic SSD, a plain SSD, an NVM DIMM. A device refuses calls that it does not
/// have with [`DriveError::Unsupported`].
///
/// No call has a body of its own that a wrapper could forget to pass on ([`Drive::store`] is a shorter way to
/// write another). A wrapper around a drive names the calls that it passes on with
/// [`forward_drive!`](crate::forward_drive).
pub trait Drive: Send + Sync {
    /// Capacity and features.
    fn info(&self) -> DriveInfo;

    /// Fills in what the host can learn of a firmware's own (NVMe: a vendor's part of Identify): `facts` is
    /// of a type that its extension knows, as [`transactions::Facts`](crate::vendor::transactions::Facts).
    /// Returns whether the drive knows it, too. Takes no time.
    fn identify(&self, facts: &mut dyn Any) -> bool;

    /// Non-posted read through the byte window; pushes posted writes ahead of it. Returns when the data is
    /// there.
    ///
    /// # Errors
    /// Outside the drive, unreadable flash, no power (as for every call below).
    fn load(&self, now: Nanos, at: ByteAddr, out: &mut [u8], what: Structure) -> Result<Nanos, DriveError>;

    /// Store through the byte window into the write-combining buffers of one of the host's cores. Unaligned
    /// ends make the drive merge with the line's present content. Returns when the CPU can go on. Buffers of
    /// all cores are coherent: a line is in those of the core that stored to it last.
    fn store_from(
        &self,
        core: u16,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError>;

    /// [`Drive::store_from`] of the first core: for a caller that is alone.
    fn store(
        &self,
        now: Nanos,
        at: ByteAddr,
        data: &[u8],
        tx: TxId,
        what: Structure,
    ) -> Result<Nanos, DriveError> {
        self.store_from(0, now, at, data, tx, what)
    }

    /// Writes back the lines of a range (clwb + sfence): they become posted writes. Returns when the CPU can
    /// go on.
    fn flush_lines(&self, now: Nanos, at: ByteAddr, len: usize) -> Result<Nanos, DriveError>;

    /// Non-temporal stores (movnt) of `data` at byte `from` of a page: posted at once, behind the
    /// write-combining buffers' content of these lines; no [`Drive::flush_lines`] is needed, a
    /// [`Drive::verify`] is. Returns when the CPU can go on.
    fn stream(
        &self,
        now: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        what: Structure,
    ) -> Result<Nanos, DriveError>;

    /// [`Drive::load`] of `at..at + len` into the pages that hold these bytes. Only the lines of the range
    /// are transferred: the rest of the first and last page means nothing.
    fn load_pages(
        &self,
        now: Nanos,
        at: ByteAddr,
        len: usize,
        out: &mut [Page],
        what: Structure,
    ) -> Result<Nanos, DriveError>;

    /// A chain of [`Drive::load_pages`]: of each run (first page, number of pages, at most 64), asked for
    /// when the one before is there. `known` is what the host knows that all these pages held, one after the
    /// other. The chain ends behind the first run of which a page holds anything else, which is put into its
    /// place in `fresh`, and behind the first that is there at `until` or later. Everything that can be
    /// counted or measured is as if each had been asked for by itself; what the emulator saves is to hand
    /// over content that the host has.
    fn load_known(
        &self,
        now: Nanos,
        runs: &[(Lpa, usize)],
        until: Nanos,
        known: &[Page],
        fresh: &mut [Page],
        what: Structure,
    ) -> Chain;

    /// Zero-byte read (write-verify read): returns when every posted write has reached the drive's safe DRAM.
    fn verify(&self, now: Nanos) -> Result<Nanos, DriveError>;

    /// Submits a command; returns its completion instant. Data read is in `out` already, but the host has it
    /// only from that instant on. Commands in flight together are not ordered.
    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError>;

    /// A hint that these pages will be accessed soon: the emulator brings what it will look up into the
    /// processor's cache. Takes no simulated time and changes no result.
    fn look_ahead(&self, lpas: &[Lpa]);

    /// The same for loads of single lines that hold these bytes.
    fn look_ahead_lines(&self, at: &[ByteAddr]);

    /// Whether the firmware asks for its host's attention: a flag in each completion, for which no time
    /// passes. The firmware says what for: BAM asks for a reset when a table is 90 % full.
    fn wants_attention(&self) -> bool;

    /// Lets the drive finish all background work (log cleaning, cache write-back); returns when it is idle.
    /// For the drain phase of a run.
    fn settle(&self, now: Nanos) -> Result<Nanos, DriveError>;

    /// Cuts the power at `now`: applies docs/FAULT_MODEL.md, drawing from `random` what survives of the
    /// volatile.
    fn power_fail(&self, now: Nanos, random: &mut Stream);

    /// A second drive in the same state, commands under way included, which goes on by itself from here:
    /// crash exploration cuts its power while this one works on. `None`: a drive on files, which has no
    /// second copy, or one that cannot tell.
    fn fork(&self) -> Option<Arc<dyn Drive>> {
        None
    }

    /// Powers up again; returns when the drive answers commands.
    fn power_on(&self, now: Nanos) -> Result<Nanos, DriveError>;

    /// Whether un-acknowledged writes are tracked so that [`Drive::power_fail`] can tear them; costs speed,
    /// off by default.
    fn track_in_flight(&self, on: bool);

    /// While un-acknowledged writes are tracked, a share of the write commands is answered, and takes effect,
    /// much later than others that were submitted behind them: as late as the rules of docs/FAULT_MODEL.md
    /// allow. Which, and by how much, is a function of `seed`; `None`: each takes its time. A drive whose
    /// commands are never under way for long need not do anything.
    fn answer_late(&self, _seed: Option<u64>) {}

    /// Bytes over the host link since the drive was made.
    fn traffic(&self) -> LinkTraffic;

    /// Everything counted since the drive was made. A drive that counts nothing else has the link's traffic
    /// only.
    fn counters(&self) -> DriveCounters;

    /// The same, with the resources' time up to `now` only: [`Drive::counters`] counts what is reserved for
    /// later, too.
    fn counters_at(&self, now: Nanos) -> DriveCounters;

    /// Internal consistency (maps, logs, counters against each other).
    ///
    /// # Errors
    /// One sentence per violation.
    fn check(&self) -> Result<(), Vec<String>>;
}
