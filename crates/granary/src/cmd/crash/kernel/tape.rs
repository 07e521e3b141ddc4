//! [`Tape`]: a drive that writes down what the kernel's file system asks of it, and when.
//!
//! ```text
//!   time (ticks)   1        2        3        4        5        6
//!   write 0        arrived                    ended
//!   write 1                 arrived  ended
//!   flush 2                                            arrived  ended      covers both writes
//! ```
//!
//! A flush covers the writes that had ended when it arrived, no others. A share of the writes ends late, so
//! that a file system that does not wait for them is seen. Nothing is written down before [`Tape::start`].
//!
//! A loop device knows no FUA: the kernel makes a write and a flush of it, and so it is on the tape.

use granary_device::{Command, Drive, DriveError, Port, Streamed, Structure};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Lpa, Nanos, Page, TxId};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Duration;

/// A share of this many writes ends late.
const LATE: u64 = 4;
/// At most so much later, in microseconds.
const LATE_US: u64 = 400;
/// Pages that the base is read by.
const BATCH: u64 = 256;

/// A request.
#[derive(Clone, Debug)]
pub enum Asked {
    /// These pages from this block on.
    Write(u64, Vec<Page>),
    /// Zeros from this block on, for so many.
    Zero(u64, u64),
    /// Everything that has ended is to be durable.
    Flush,
}

/// A request.
#[derive(Clone, Debug)]
pub struct TapeEntry {
    /// The request.
    pub asked: Asked,
    /// The tick when it came.
    pub arrived: u64,
    /// The tick before its answer; `u64::MAX`: it never was answered.
    pub ended: u64,
}

/// A drive's content when the tape began: its blocks that are not zero.
pub type Base = FxHashMap<u64, Page>;

struct Reel {
    runs: bool,
    ticks: u64,
    entries: Vec<TapeEntry>,
    random: Stream,
}

/// A drive around another one.
pub struct Tape {
    inner: Arc<dyn Drive>,
    reel: Mutex<Reel>,
    /// Held shared by requests, alone while the base is read.
    gate: RwLock<()>,
}

impl Tape {
    /// Around `inner`; the seed says which writes end late.
    pub fn around(inner: Arc<dyn Drive>, seed: u64) -> Tape {
        let random = Stream::new(seed, "late writes");
        let reel = Reel { runs: false, ticks: 0, entries: Vec::new(), random };
        Tape { inner, reel: Mutex::new(reel), gate: RwLock::new(()) }
    }

    /// Begins: what the first `blocks` blocks hold now, all of it durable.
    ///
    /// # Errors
    /// The drive's.
    pub fn start(&self, blocks: u64) -> Result<Base, DriveError> {
        let _alone = self.gate.write();
        let port = Port::new(Arc::clone(&self.inner));
        port.flush()?;
        let mut base = Base::default();
        let mut pages = vec![Page::ZERO; BATCH as usize];
        for first in (0..blocks).step_by(BATCH as usize) {
            let n = BATCH.min(blocks - first) as usize;
            port.read(Lpa(first), &mut pages[..n], Structure::Data)?;
            let held = pages[..n].iter().enumerate().filter(|(_, page)| !page.is_zero());
            base.extend(held.map(|(i, page)| (first + i as u64, page.clone())));
        }
        self.reel.lock().runs = true;
        Ok(base)
    }

    /// Requests so far.
    pub fn position(&self) -> usize {
        self.reel.lock().entries.len()
    }

    /// Ends; all requests.
    pub fn end(&self) -> Vec<TapeEntry> {
        let mut reel = self.reel.lock();
        reel.runs = false;
        std::mem::take(&mut reel.entries)
    }

    /// A request arrives: its number, and how late it is to end.
    fn arrive(&self, asked: Asked) -> Option<(usize, Option<Duration>)> {
        let mut reel = self.reel.lock();
        if !reel.runs {
            return None;
        }
        reel.ticks += 1;
        let late = matches!(asked, Asked::Write(..)) && reel.random.below(LATE) == 0;
        let late = late.then(|| Duration::from_micros(reel.random.below(LATE_US)));
        let arrived = reel.ticks;
        reel.entries.push(TapeEntry { asked, arrived, ended: u64::MAX });
        Some((reel.entries.len() - 1, late))
    }

    fn end_of(&self, number: usize) {
        let mut reel = self.reel.lock();
        reel.ticks += 1;
        let now = reel.ticks;
        if let Some(entry) = reel.entries.get_mut(number) {
            entry.ended = now;
        }
    }
}

impl Drive for Tape {
    granary_device::forward_drive!(inner: info, identify, load, flush_lines, load_pages, load_known, verify, look_ahead, look_ahead_lines, wants_attention, settle, power_fail, power_on, track_in_flight, traffic, counters, counters_at, check);

    // The block interface is all that a kernel's file system has.
    fn store_from(
        &self,
        _core: u16,
        _now: Nanos,
        _at: ByteAddr,
        _data: &[u8],
        _tx: TxId,
        _what: Structure,
    ) -> Result<Nanos, DriveError> {
        Err(DriveError::Unsupported("a tape has blocks only"))
    }

    fn stream(
        &self,
        _now: Nanos,
        _lpa: Lpa,
        _from: usize,
        _data: Streamed<'_>,
        _what: Structure,
    ) -> Result<Nanos, DriveError> {
        Err(DriveError::Unsupported("a tape has blocks only"))
    }

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        let _shared = self.gate.read();
        let asked = match &command {
            Command::Write { lpa, pages, .. } => Some(Asked::Write(lpa.0, pages.to_vec())),
            Command::Trim { lpa, count } => Some(Asked::Zero(lpa.0, *count)),
            Command::Flush => Some(Asked::Flush),
            _ => None,
        };
        let arrived = asked.and_then(|asked| self.arrive(asked));
        let done = self.inner.submit(now, command)?;
        if let Some((number, late)) = arrived {
            #[allow(clippy::disallowed_methods, reason = "the kernel's clock is the machine's")]
            late.into_iter().for_each(std::thread::sleep);
            self.end_of(number);
        }
        Ok(done)
    }
}
