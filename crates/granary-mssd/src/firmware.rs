//! [`Firmware`]: the part of a drive between link and flash. One drive, many personalities.
//!
//! ```text
//!              byte interface            block interface
//!                    |                          |
//!   Log:         write log (log.rs)  <──merge── | ──> voids log entries          ByteFS
//!   Cache:       page cache (cache.rs) <────────|                                the baselines
//!   yours        ...                                                             docs/ADDING_A_DRIVE.md
//!                    |                          |
//!                    v                          v
//!   Backend:     write buffer (buffer.rs)  ──> FTL (granary-flash)
//! ```
//!
//! All of it is work of the drive's processors ([`Cores`]): commands and posted lines as they come, log
//! cleaning and gc in the time that they leave.
//!
//! Every function takes the instant at which its work begins and returns the one at which it is done. State
//! changes at once; only its time lies in the future.

pub mod buffer;
pub mod cache;
mod cores;
pub mod log;
pub mod store;

pub use buffer::Backend;
pub use cores::Cores;

use crate::config::DriveConfig;
use crate::saved::layout::Layout;
use granary_device::{DriveCounters, DriveError, Streamed, Vendor};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, LINE_SIZE, Lpa, Nanos, Page, TxId};
use std::any::Any;

/// A personality of a drive: its firmware, which decides what is kept where. The drive around it does the
/// link, the queues, what is in flight, and the processors' time of each command; pages that the firmware
/// does not keep go to the [`Backend`].
///
/// Functions that serve something return when that is done, and fail with the drive's errors: unreadable
/// flash, a drive that takes no more data. A page of which nothing is known reads as zeros.
///
/// A power failure leaves what the drive's battery keeps: all that was taken, but for lines that were posted
/// and not verified.
pub trait Firmware: Send {
    /// A second one that knows the same.
    fn fork(&self) -> Box<dyn Firmware>;

    /// Vendor commands that it answers, by their names: those of its transactions, if it has some, and those
    /// that it serves.
    fn offers(&self) -> &'static [&'static str] {
        &[]
    }

    /// Fills in what it says of its own ([`Drive::identify`](granary_device::Drive::identify)), where it
    /// knows the type of `facts`.
    fn identify(&self, facts: &mut dyn Any) -> bool {
        let _ = facts;
        false
    }

    /// Does the background work whose time has come.
    fn pump(&mut self, be: &mut Backend, now: Nanos) {
        let _ = (be, now);
    }

    /// Reads a page, newest content.
    fn read_page(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<(Page, Nanos), DriveError>;

    /// [`Firmware::read_page`] of a page that held `known`; no content where it is still that.
    fn read_known(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        known: &Page,
    ) -> Result<(Option<Page>, Nanos), DriveError> {
        let (page, done) = self.read_page(be, t, lpa)?;
        Ok(((!page.is_same(known)).then_some(page), done))
    }

    /// Takes a page of a block write that arrived at `t`; returns when the drive may acknowledge it.
    fn write_page(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa, page: Page) -> Result<Nanos, DriveError>;

    /// Reads whole lines of a page from line `first` on.
    fn read_lines(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        first: usize,
        out: &mut [u8],
    ) -> Result<Nanos, DriveError> {
        let (page, done) = self.read_page(be, t, lpa)?;
        page.copy_out(first * LINE_SIZE, out);
        Ok(done)
    }

    /// Takes whole lines of a page that arrived at `t`. `tx` is [`TxId::NONE`] where there are no
    /// transactions.
    fn write_lines(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        first: usize,
        data: &[u8],
        tx: TxId,
    ) -> Result<Nanos, DriveError>;

    /// Drops a page's content.
    fn trim(&mut self, be: &mut Backend, t: Nanos, lpa: Lpa) -> Result<Nanos, DriveError>;

    /// Moves a page's content to `dst`, and drops what was there; returns when it is there, and whether it
    /// was copied.
    fn remap(&mut self, be: &mut Backend, t: Nanos, src: Lpa, dst: Lpa) -> Result<(Nanos, bool), DriveError>;

    /// Newest content of a page, taking no time.
    fn peek(&self, be: &Backend, lpa: Lpa) -> Result<Page, DriveError>;

    /// Whether anything of a page is kept here: a trim of another one changes nothing.
    fn holds(&self, lpa: Lpa) -> bool;

    /// Whether content of a page is kept here that the [`Backend`] may not have.
    fn holds_newer(&self, lpa: Lpa) -> bool {
        self.holds(lpa)
    }

    /// Whether it [`Firmware::holds`] no page.
    fn is_empty(&self) -> bool;

    /// Moves everything to the [`Backend`]; returns when it is there.
    fn settle(&mut self, be: &mut Backend, now: Nanos) -> Result<Nanos, DriveError>;

    /// Whether posted lines are to be remembered until they are verified.
    fn track(&mut self, on: bool);

    /// Number of runs of lines posted while tracking.
    fn posts(&self) -> u64;

    /// The first `posts` runs of lines have been verified.
    fn verified(&mut self, posts: u64);

    /// Power fails: each line that was posted but not verified is lost or not, as `random` has it.
    fn power_fail(&mut self, be: &mut Backend, now: Nanos, random: &mut Stream) -> Result<(), DriveError>;

    /// Power is back at `now`: what only the firmware's SRAM held is made again from the DRAM, within `load`.
    fn power_on(&mut self, now: Nanos, load: Nanos) {
        let _ = (now, load);
    }

    /// Lines that were taken since the drive was made: as many as were posted.
    fn lines(&self) -> u64;

    /// Puts what was counted among the drive's counters.
    fn count(&self, all: &mut DriveCounters) {
        let _ = all;
    }

    /// Internal consistency, one sentence for each violation.
    fn check(&self) -> Vec<String> {
        Vec::new()
    }

    /// Bytes of the drive's memory that its index takes.
    fn index_memory(&self) -> usize {
        0
    }

    /// Whether lines that it has no room for keep the host's processor waiting. Else they wait in the link's
    /// buffer.
    fn stalls_host(&self) -> bool {
        false
    }

    /// When lines that the processor had done with at `served` are in the drive's memory, and no longer in
    /// the link's buffer. `stalled`: the host waited until then.
    fn held_from(&self, served: Nanos, stalled: Option<Nanos>) -> Nanos {
        stalled.unwrap_or(served)
    }

    /// The transactions of a write log, where the firmware has one.
    fn transactions(&mut self) -> Option<&mut dyn Transactions> {
        None
    }

    /// Serves a command of its own that has come at `t`; returns when it is done. The processors have been
    /// charged for a command; what it costs beyond that it charges itself ([`Backend::cores`]).
    ///
    /// # Errors
    /// [`DriveError::Unsupported`]: it is none of this firmware's.
    fn serve(&mut self, be: &mut Backend, t: Nanos, own: &mut dyn Vendor) -> Result<Nanos, DriveError> {
        let _ = (be, t);
        Err(DriveError::Unsupported(own.name()))
    }

    /// Moves the changes since the last time, as redo records, to the end of `out`: for drives on images.
    fn drain_redo(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// For a drive that has become larger, on an image with this layout.
    fn grow(&mut self, config: &DriveConfig, layout: &Layout) {
        let _ = (config, layout);
    }

    // Shorter ways. A firmware that has none of them is served as well.

    /// Changes whole lines, going by what they hold: one look at the page in place of a read of `reads` lines
    /// and a write of all. `None`: the drive reads and writes.
    #[allow(clippy::too_many_arguments, reason = "those of a read and a write")]
    fn change_lines(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        first: usize,
        lines: &mut [u8],
        reads: usize,
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Option<Result<Nanos, DriveError>> {
        let _ = (be, t, lpa, first, lines, reads, change);
        None
    }

    /// Takes a part of a page that came in `lines` lines. `None`: the drive reads and writes them.
    fn write_part(
        &mut self,
        be: &mut Backend,
        t: Nanos,
        lpa: Lpa,
        from: usize,
        data: Streamed<'_>,
        lines: usize,
    ) -> Option<Result<Nanos, DriveError>> {
        let _ = (be, t, lpa, from, data, lines);
        None
    }

    /// Serves the first of these runs, `most` at most, that are single pages, kept here, ready at `t` and
    /// equal to `known`. Returns how many.
    fn hit_all(&mut self, runs: &[(Lpa, usize)], known: &[Page], t: Nanos, most: usize) -> usize {
        let _ = (runs, known, t, most);
        0
    }

    /// Lines of this page are coming: what the processor that runs the emulator will need can be fetched.
    fn expect(&mut self, lpa: Lpa) {
        let _ = lpa;
    }

    /// These lines will be read: likewise. Pages that the [`Backend`] will be asked for go to `missed`.
    fn look_ahead(&self, at: &[ByteAddr], missed: &mut Vec<Lpa>) {
        missed.extend(at.iter().map(|at| at.lpa()));
    }
}

impl Clone for Box<dyn Firmware> {
    fn clone(&self) -> Box<dyn Firmware> {
        (**self).fork()
    }
}

/// A vendor command of a firmware's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// This one is to be committed. Commits count in the order of their submission, also where a power
    /// failure meets them.
    Commit(TxId),
    /// Stores that have not committed are to be dropped.
    Recover,
}

/// The write log's transactions (ByteFS section 4.3).
pub trait Transactions {
    /// The transaction command that this is, if it is one.
    fn asked(&self, own: &dyn Vendor) -> Option<Transaction>;

    /// When there is room for a COMMIT, from `t` on.
    ///
    /// # Errors
    /// Read-only drive.
    fn commit_room(&mut self, be: &mut Backend, t: Nanos, tx: TxId) -> Result<Nanos, DriveError>;

    /// COMMIT at `t`; returns when it counts.
    ///
    /// # Errors
    /// As [`Transactions::commit_room`].
    fn commit(&mut self, be: &mut Backend, t: Nanos, tx: TxId) -> Result<Nanos, DriveError>;

    /// RECOVER: what has not committed is dropped, the rest goes to flash (section 4.7); returns when it is
    /// there.
    ///
    /// # Errors
    /// Read-only drive, unreadable flash.
    fn recover(&mut self, be: &mut Backend, t: Nanos) -> Result<Nanos, DriveError>;
}
