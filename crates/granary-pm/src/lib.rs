//! Shared parts of file systems that map the whole drive by byte (NOVA, PMFS).
//!
//! ```text
//!   Batch   put (cached store) ... put, stream (movnt) ── write_back: clwb each range, one sfence
//!           ── fence: + verify
//!   Pm      loads, counters; knows which write-verify reads are needed
//!   RedoLog   new bytes before they are at home: batches over it are transactions
//!   FreeLists   free blocks in host memory, one list per CPU
//!   superblock  and its copy;  pages: of files, for mappings
//!   Findings    what a check has to say
//!   saved       the free lists (and other words) on media between an unmount and the next mount
//! ```
//!
//! Invariant: bytes put before a [`Batch::fence`] are safe when it returns. On a DIMM an `sfence` after
//! `clwb` is enough for that. A posted PCIe write is safe only once a read behind it was answered
//! (docs/FAULT_MODEL.md). So a fence here costs a write-verify read, unless nothing was posted since the last
//! one was answered.
//!
//! It does *not* know any format.

#![forbid(unsafe_code)]

mod batch;
mod block;
pub mod bytes;
mod findings;
mod free;
pub mod pages;
mod redo;
pub mod saved;
pub mod superblock;
mod used;

pub use batch::Batch;
pub use block::Block;
pub use findings::Findings;
pub use free::{FreeLists, From};
pub use redo::{Keep, RedoConfig, RedoLog, RedoStats};
pub use used::{Used, merged};

use granary_device::{DriveError, DriveInfo, Port, Structure};
use granary_fs::{FsError, Result};
use granary_units::{ByteAddr, Lpa, PAGE_SIZE, Page};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Bytes in a block, as a `u64`.
pub const BLOCK: u64 = PAGE_SIZE as u64;

/// Counters of a byte-mapped file system, from its mount on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmStats {
    /// Lines written back after ordinary stores.
    pub lines: u64,
    /// Lines stored past the caches (data).
    pub streamed: u64,
    /// Fences (`sfence` that the protocol waits for).
    pub fences: u64,
    /// Write-verify reads among them: those with something posted since the last.
    pub verifies: u64,
}

impl PmStats {
    /// Difference to the counters of `earlier`.
    pub fn since(&self, earlier: &PmStats) -> PmStats {
        PmStats {
            lines: self.lines - earlier.lines,
            streamed: self.streamed - earlier.streamed,
            fences: self.fences - earlier.fences,
            verifies: self.verifies - earlier.verifies,
        }
    }
}

/// A byte-mapped drive.
pub struct Pm {
    port: Port,
    /// Batches are transactions of this log.
    redo: Option<Arc<RedoLog>>,
    /// Write-backs that have left the CPU, and how many of them an answered verify covers.
    posted: AtomicU64,
    verified: AtomicU64,
    lines: AtomicU64,
    streamed: AtomicU64,
    fences: AtomicU64,
    verifies: AtomicU64,
    /// A load of metadata that fails ends all stores ([`Pm::stopping`]).
    stops: bool,
    stopped: AtomicBool,
}

impl Pm {
    /// The drive behind `port`, mapped.
    pub fn new(port: Port) -> Pm {
        let zero = AtomicU64::default;
        let (posted, verified, lines) = (zero(), zero(), zero());
        let (stops, stopped) = (false, AtomicBool::new(false));
        let (streamed, fences, verifies) = (zero(), zero(), zero());
        Pm { port, redo: None, posted, verified, lines, streamed, fences, verifies, stops, stopped }
    }

    /// The same, which takes no stores any more once a load of metadata has failed: a change that ends half
    /// way because of that stays as a power failure would leave it, until a mount recovers it.
    pub fn stopping(self) -> Pm {
        Pm { stops: true, ..self }
    }

    /// Whether it takes stores.
    ///
    /// # Errors
    /// `ReadOnly`: it does not, see [`Pm::stopping`].
    pub(crate) fn working(&self) -> Result<()> {
        if self.stopped.load(Relaxed) { Err(FsError::ReadOnly) } else { Ok(()) }
    }

    fn loaded<T>(&self, loaded: Result<T, DriveError>, what: Structure) -> Result<T> {
        if loaded.is_err() && self.stops && what.is_metadata() {
            self.stopped.store(true, Relaxed);
        }
        Ok(loaded?)
    }

    /// The same, whose batches are transactions of a redo log.
    pub fn logged(self, redo: RedoLog) -> Pm {
        Pm { redo: Some(Arc::new(redo)), ..self }
    }

    /// The redo log.
    pub fn redo(&self) -> Option<&RedoLog> {
        self.redo.as_deref()
    }

    /// The same storage without the redo log: for the log itself, and for what is written when it is empty.
    pub fn bare(&self) -> Pm {
        Pm::new(self.port.clone())
    }

    /// Empties the redo log, where there is one: from then on nothing in it is brought home over what is
    /// stored later.
    pub fn settle(&self) -> Result<()> {
        self.redo.as_ref().map_or(Ok(()), |redo| redo.settle(&self.bare()))
    }

    /// Capacity and features.
    pub fn info(&self) -> DriveInfo {
        self.port.info()
    }

    /// Current counters.
    pub fn stats(&self) -> PmStats {
        PmStats {
            lines: self.lines.load(Relaxed),
            streamed: self.streamed.load(Relaxed),
            fences: self.fences.load(Relaxed),
            verifies: self.verifies.load(Relaxed),
        }
    }

    /// Loads bytes.
    ///
    /// # Errors
    /// The drive's, here and below.
    pub fn load(&self, at: u64, out: &mut [u8], what: Structure) -> Result<()> {
        self.loaded(self.port.load(ByteAddr(at), out, what), what)
    }

    /// Loads a whole block.
    pub fn load_block(&self, block: u64, what: Structure) -> Result<Block> {
        let mut out = [Page::ZERO];
        self.load_pages(block * BLOCK, PAGE_SIZE, &mut out, what)?;
        let [page] = out;
        Ok(Block::new(page))
    }

    /// Loads `at..at + len` into the pages that hold these bytes; the rest of the first and last means
    /// nothing.
    pub fn load_pages(&self, at: u64, len: usize, out: &mut [Page], what: Structure) -> Result<()> {
        self.loaded(self.port.load_pages(ByteAddr(at), len, out, what), what)
    }

    /// Loads runs of whole blocks (first block, number of blocks) whose content is known, until one holds
    /// anything else: see [`Port::load_known`].
    pub fn load_known(
        &self,
        runs: &[(Lpa, usize)],
        known: &[Page],
        fresh: &mut [Page],
        what: Structure,
    ) -> Result<(usize, u64)> {
        self.loaded(self.port.load_known(runs, known, fresh, what), what)
    }

    /// Stores that belong together.
    pub fn batch(&self) -> Batch<'_> {
        Batch::new(self)
    }

    /// For mkfs: the first `needed` blocks read as zeros. A drive is told that none of its `all` blocks is
    /// needed any more; a DIMM cannot be told, and is written.
    pub fn clear(&self, all: u64, needed: u64) -> Result<()> {
        if self.info().blocks {
            return self.discard(0, all);
        }
        let mut b = self.batch();
        for block in 0..needed {
            b.stream_page(block, &Page::ZERO, Structure::Superblock)?;
        }
        b.fence()
    }

    /// Tells the drive that blocks are no longer needed.
    ///
    /// # Errors
    /// `NotSupported` on DIMMs, which know bytes; the drive's.
    pub fn discard(&self, first: u64, count: u64) -> Result<()> {
        if !self.info().blocks {
            return Err(FsError::NotSupported);
        }
        let trim = self.port.trim(Lpa(first), count)?;
        self.port.wait(trim);
        Ok(())
    }
}

/// A `Corrupt` error with this evidence.
pub fn corrupt(what: impl Into<String>) -> FsError {
    FsError::Corrupt(what.into())
}
