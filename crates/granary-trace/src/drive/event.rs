//! [`Event`]: a call of a drive at an instant, whatever the trace that it came from; [`Source`]: a reader of
//! a trace.

use crate::error::TraceError;
use granary_device::{FileEnd, RemapRange, Structure};
use granary_units::{ByteAddr, Lpa, Nanos, Page, TxId};

/// One call of a drive.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// NVMe read.
    Read(Lpa, u64, Structure),
    /// NVMe write.
    Write(Lpa, Written, Structure),
    /// NVMe flush.
    Flush,
    /// NVMe trim of pages.
    Trim(Lpa, u64),
    /// Vendor: COMMIT.
    Commit(TxId),
    /// Vendor: RECOVER.
    Recover,
    /// Vendor: FS_WRITE of pages that are blocks of this file, from this block on.
    FsWrite(Lpa, Written, FileBlock, Structure),
    /// Vendor: REMAP of so many pages to another place.
    Remap(Lpa, Lpa, u64),
    /// Vendor: REMAP that keeps the old names.
    RemapKeep(Vec<RemapRange>),
    /// Vendor: BAM_RESET.
    BamReset,
    /// Vendor: BAM_READ of one file or all.
    BamRead(Option<u64>),
    /// Vendor: BAM_NAMES.
    BamNames,
    /// Load through the byte window.
    Load(ByteAddr, u64, Structure),
    /// The same into this number of pages.
    LoadPages(ByteAddr, u64, u64, Structure),
    /// Store into the write-combining buffers of a core.
    Store(u16, ByteAddr, Vec<u8>, TxId, Structure),
    /// Write-back of lines (clwb).
    FlushLines(ByteAddr, u64),
    /// Non-temporal stores at a byte of a page.
    Stream(Lpa, u64, Piece, Structure),
    /// Write-verify read.
    Verify,
    /// The drive finishes its background work.
    Settle,
    /// Un-acknowledged writes are tracked, or not.
    Track(bool),
    /// Power fails; what survives is drawn with this seed.
    PowerFail(u64),
    /// Power is back.
    PowerOn,
    /// A phase begins.
    Mark(Phase),
}

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileBlock {
    /// The file.
    pub ino: u64,
    /// The block, in pages.
    pub offset: u32,
    /// How much of the last page is the file's.
    pub end: FileEnd,
}

/// Content of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// Recorded pages.
    Pages(Vec<Content>),
    /// So many pages whose content the trace does not have.
    Unknown(u64),
}

impl Written {
    /// Number of pages.
    pub fn count(&self) -> u64 {
        match self {
            Written::Pages(p) => p.len() as u64,
            Written::Unknown(n) => *n,
        }
    }
}

/// A page that compares by its content.
#[derive(Clone, Debug)]
pub struct Content(pub Page);

impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        self.0.to_bytes() == other.0.to_bytes()
    }
}

/// Content of non-temporal stores.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// A whole page.
    Page(Content),
    /// These bytes.
    Bytes(Vec<u8>),
    /// A repeated word in phase with the page, and the number of bytes.
    Fill(u64, u64),
}

/// Phases of a recorded run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The measured run.
    Run,
    /// Work that the run left: log cleaning, write-back.
    Drain,
    /// Calls that nobody counts: checks, unmounting.
    End,
}

impl Op {
    /// The name in reports; `None` for what is no access.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self {
            Op::Read(..) => "read",
            Op::Write(..) => "write",
            Op::Flush => "flush",
            Op::Trim(..) => "trim",
            Op::Commit(_) => "commit",
            Op::Recover => "recover",
            Op::FsWrite(..) => "fs_write",
            Op::Remap(..) => "remap",
            Op::RemapKeep(_) => "remap_keep",
            Op::BamNames => "bam_names",
            Op::BamReset => "bam_reset",
            Op::BamRead(_) => "bam_read",
            Op::Load(..) | Op::LoadPages(..) => "load",
            Op::Store(..) => "store",
            Op::FlushLines(..) => "flush_lines",
            Op::Stream(..) => "stream",
            Op::Verify => "verify",
            Op::Settle | Op::Track(_) | Op::PowerFail(_) | Op::PowerOn | Op::Mark(_) => return None,
        })
    }

    /// Done by the host's CPU itself, which goes on when it is done.
    pub fn is_byte(&self) -> bool {
        matches!(
            self,
            Op::Load(..)
                | Op::LoadPages(..)
                | Op::Store(..)
                | Op::FlushLines(..)
                | Op::Stream(..)
                | Op::Verify
        )
    }
}

/// An operation of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When it was issued; since when depends on the trace.
    pub at: Nanos,
    /// The operation.
    pub op: Op,
    /// The recorded drive refused it.
    pub refused: bool,
    /// Line (text) or number of the operation (record), from 1.
    pub nth: u64,
}

/// Notes of a reader of a trace besides its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bytes of the trace that have been read.
    pub position: u64,
    /// Accesses that did not begin and end at pages.
    pub unaligned: u64,
    /// Trims that covered no whole page.
    pub small_trims: u64,
    /// Lines that are no access (other events of blkparse, other devices).
    pub skipped: u64,
    /// Commands that passed the block layer by (SCSI, ATA, NVMe): no sectors are known of them.
    pub passed_through: u64,
    /// The trace says no time at all.
    pub untimed: bool,
    /// A record was cut off behind so many whole operations.
    pub cut: Option<u64>,
}

/// A reader of a trace.
pub trait Source {
    /// The next event, `None` at the end.
    ///
    /// # Errors
    /// The file and line that cannot be understood.
    fn next_event(&mut self) -> Result<Option<Event>, TraceError>;

    /// The notes so far.
    fn seen(&self) -> Seen;

    /// Why there was no event at all.
    fn nothing(&self) -> String {
        "there is no access in the trace".to_owned()
    }

    /// Whether the events are calls of a drive, whose order must be kept.
    fn is_record(&self) -> bool {
        false
    }
}
