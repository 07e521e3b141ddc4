//! [`Ledger`]: what the threads did: counts, bytes and latencies per flowop, and the totals that limits look
//! at.
//!
//! ```text
//!   end of an operation ──► stats[flowop]     count, bytes, latency        (by name: all threads together)
//!                       └─► tally[process]    operations, bytes, I/Os      (finishoncount, opslimit, ...)
//!   end of a system call ───► read, written     bytes of file data, whether its operation comes to its end
//!                                               in time or not
//! ```
//!
//! Invariant: `total_ops` is the sum of the counts of the flowops that count ([`crate::spec::Op::counts`]),
//! as in Filebench's "IO Summary", and also the sum of the tallies.

use granary_sim::Histogram;
use granary_units::Nanos;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Statistics of one flowop (all its instances) in the measured phase.
#[derive(Clone)]
pub struct OpStats {
    /// The type of the flowop, such as `readwholefile`.
    pub kind: &'static str,
    /// Whether it counts as an operation: it does I/O, and is not a limit, a wait or the like.
    pub counted: bool,
    /// How often it was executed (implicit opens and each fsync of `fsyncset` count one, as in Filebench).
    pub count: u64,
    /// Bytes that it moved. For `listdir`: bytes of directory entries as Filebench counts them.
    pub bytes: u64,
    /// Latency of each execution.
    pub latency: Histogram,
}

impl OpStats {
    /// A flowop of this type that was not executed yet.
    pub(crate) fn new(kind: &'static str, counted: bool) -> OpStats {
        OpStats { kind, counted, count: 0, bytes: 0, latency: Histogram::new() }
    }
}

impl std::fmt::Debug for OpStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let OpStats { kind, count, bytes, .. } = *self;
        write!(f, "{kind}: {count} in {} each, {bytes} bytes", self.latency.mean())
    }
}

/// Totals of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) ops: u64,
    pub(crate) bytes: u64,
    /// Operations of flowops that read or write.
    pub(crate) ios: u64,
}

/// How an operation is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Not an operation.
    Control,
    Plain,
    Read,
    Write,
}

/// See the [module](self).
pub(crate) struct Ledger {
    books: parking_lot::Mutex<Books>,
    read: AtomicU64,
    written: AtomicU64,
}

pub(crate) struct Books {
    pub(crate) stats: Vec<OpStats>,
    pub(crate) tallies: Vec<Tally>,
    pub(crate) total_ops: u64,
}

impl Ledger {
    /// `stats`: one per flowop name, empty; `processes`: process instances.
    pub(crate) fn new(stats: Vec<OpStats>, processes: usize) -> Ledger {
        let tallies = vec![Tally::default(); processes];
        Ledger {
            books: parking_lot::Mutex::new(Books { stats, tallies, total_ops: 0 }),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// A system call read so many bytes of a file.
    #[inline]
    pub(crate) fn read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Relaxed);
    }

    /// A system call wrote so many bytes of a file.
    #[inline]
    pub(crate) fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Relaxed);
    }

    /// Bytes that all calls read and wrote.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.read.load(Relaxed), self.written.load(Relaxed))
    }

    /// Counts an execution; returns the number of operations so far.
    #[inline]
    pub(crate) fn record(
        &self,
        process: usize,
        stat: usize,
        class: Class,
        latency: Nanos,
        bytes: u64,
    ) -> u64 {
        let mut books = self.books.lock();
        let stats = &mut books.stats[stat];
        stats.count += 1;
        stats.bytes += bytes;
        stats.latency.record(latency);
        if class != Class::Control {
            let tally = &mut books.tallies[process];
            tally.ops += 1;
            tally.bytes += bytes;
            tally.ios += u64::from(class != Class::Plain);
            books.total_ops += 1;
        }
        books.total_ops
    }

    /// Operations so far, of all processes.
    pub(crate) fn operations(&self) -> u64 {
        self.books.lock().total_ops
    }

    #[inline]
    pub(crate) fn tally(&self, process: usize) -> Tally {
        self.books.lock().tallies[process]
    }

    /// The books, closed.
    pub(crate) fn take(&self) -> Books {
        let empty = Books { stats: Vec::new(), tallies: Vec::new(), total_ops: 0 };
        std::mem::replace(&mut *self.books.lock(), empty)
    }
}
