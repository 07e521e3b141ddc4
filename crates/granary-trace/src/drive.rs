//! Traces: what a host asked a drive for, call by call, from other machines or from a run of our own.
//!
//! ```text
//!   columns (rows.rs): msr, spc, alibaba, tencent, fiu, disksim, mqsim ─┐ lines
//!   blkparse text (blkparse.rs), fio's iolog (iolog.rs) ────────────────┼──> Event { at, op } ──> who replays it on a Drive
//!   Granary record (native.rs) ─────────────────────────────────────────┘ calls of a Drive
//!                                                    format.rs: which one it is
//! ```
//!
//! Block traces have offsets in bytes or sectors of 512 B, the drive has pages of 4 KiB: a read or write takes all pages
//! that it touches, a trim those that it covers. Their content is not known: a write brings a repeated word.
//!
//! A trace is read as a stream: a line at a time, never the whole.

mod alibaba;
pub mod blkparse;
mod disksim;
mod fiu;
mod format;
mod iolog;
mod lines;
mod mqsim;
mod msr;
pub mod native;
mod rows;
mod spc;
mod tencent;

pub use format::Format;

use crate::error::TraceError;
use granary_device::{FileEnd, RemapRange, Structure};
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use lines::bad;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

const PAGE: u64 = PAGE_SIZE as u64;

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

/// What a write brings.
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

/// What non-temporal stores bring.
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
    /// What is measured.
    Run,
    /// What it left to be done: log cleaning, write-back.
    Drain,
    /// What nobody counts: checks, unmounting.
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

/// What a reader of a trace has seen besides its events.
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

    /// What was seen so far.
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

/// How to read a block trace.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The format; found out where not given.
    pub format: Option<Format>,
    /// blkparse: which events count.
    pub event: blkparse::Action,
    /// Which device of several: `8,16` (blkparse), `usr.0` (MSR: host and disk).
    pub device: Option<String>,
    /// Granary: of a record that is cut off, what there is of it.
    pub cut: bool,
}

/// A trace that is open.
pub struct Trace {
    /// Its format.
    pub format: Format,
    /// What a Granary record says about itself.
    pub header: Option<native::Header>,
    /// Its events.
    pub source: Box<dyn Source>,
    /// Length in bytes, 0 where it is not known.
    pub bytes: u64,
}

/// Opens a trace: a file, or standard input as `-`.
///
/// # Errors
/// No such file, a format that is not recognised.
pub fn open(path: &Path, choice: &Choice) -> Result<Trace, TraceError> {
    let name = path.display().to_string();
    let io = |source| TraceError::Io { what: format!("reading {name}"), source };
    if path.as_os_str() == "-" {
        return read(&name, Box::new(std::io::stdin()), 0, choice);
    }
    let file = std::fs::File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    read(&name, Box::new(file), bytes, choice)
}

/// Reads a trace called `name` of `bytes` bytes.
///
/// # Errors
/// A format that is not recognised.
pub fn read(name: &str, input: Box<dyn Read>, bytes: u64, choice: &Choice) -> Result<Trace, TraceError> {
    let mut input = BufReader::with_capacity(1 << 18, input);
    let head =
        input.fill_buf().map_err(|source| TraceError::Io { what: format!("reading {name}"), source })?;
    if let Some(instead) = other_than_a_trace(head) {
        return Err(bad(name, 1, instead));
    }
    let Some(format) = choice.format.or_else(|| Format::of(&head[..head.len().min(1 << 16)])) else {
        let known = Format::ALL.map(|f| format!("{} ({})", f.name(), f.about())).join("; ");
        return Err(bad(
            name,
            1,
            format!("no line is one of a known format: look at the file, or say --format; known are {known}"),
        ));
    };
    let (source, header) = match format.reader(name, input, choice) {
        Ok(source) => (source, None),
        Err(input) => {
            let reader = native::Reader::new(name, input)?.take_cut(choice.cut);
            let header = reader.header().clone();
            (Box::new(reader) as Box<dyn Source>, Some(header))
        }
    };
    Ok(Trace { format, header, source, bytes })
}

/// What to do with a file that no reader can read as it is.
fn other_than_a_trace(head: &[u8]) -> Option<&'static str> {
    let begins = |with: &[&[u8]]| with.iter().any(|w| head.starts_with(w));
    // The second is zstd's (RFC 8878, "Zstandard Frames").
    if begins(&[b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"7z\xbc\xaf"]) {
        return Some("the file is compressed: unpack it, for example `zcat FILE | granary drive replay -`");
    }
    if begins(&[b"\xff\xfe", b"\xfe\xff"]) {
        return Some(
            "the file is text in UTF-16: turn it into UTF-8, `iconv -f UTF-16 -t UTF-8 FILE | granary drive replay -`",
        );
    }
    // BLK_IO_TRACE_MAGIC and a version, of either byte order (Linux, include/uapi/linux/blktrace_api.h).
    if head.len() > 4 && (head[1..4] == *b"tae" || head[..3] == *b"eat") {
        return Some(
            "the file is binary output of blktrace: print it as text, `blkparse -i FILE | granary drive replay -`",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn events(text: &str, choice: &Choice) -> Result<(Vec<Event>, Seen), String> {
        let input: Box<dyn Read> = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let mut trace = read("t", input, text.len() as u64, choice).map_err(|e| e.to_string())?;
        let mut out = Vec::new();
        while let Some(e) = trace.source.next_event().map_err(|e| e.to_string())? {
            out.push(e);
        }
        Ok((out, trace.source.seen()))
    }

    #[test]
    fn what_is_no_trace_is_refused_with_what_to_do() {
        let why = |text: &str| events(text, &Choice::default()).expect_err("refused");
        assert!(why("hello\n").contains("--format"));
        assert!(why("\x1f\x00").contains("--format"));
        assert!(Format::ALL.iter().all(|f| why("hello\n").contains(f.name())), "all formats are named");
        assert!(why("").contains("known format"));
        for (head, word) in [
            (&b"\x1f\x8b\x08"[..], "zcat"),
            (b"\x28\xb5\x2f\xfd..", "unpack"),
            (b"\xff\xfe1\0", "iconv"),
            (b"\x07tae.....", "blkparse -i"),
            (b"eat\x07.....", "blkparse -i"),
        ] {
            let input: Box<dyn Read> = Box::new(std::io::Cursor::new(head.to_vec()));
            let Err(e) = read("t", input, 3, &Choice::default()) else { panic!("refused") };
            assert!(e.to_string().contains(word), "{e}");
        }
    }

    #[test]
    fn any_text_is_read_or_refused() {
        let mut random = granary_sim::rng::Stream::new(1, "trace text");
        let alphabet: Vec<char> = "0189,. +-:[]QDRWFN\n\tTimestampRead\u{fe}".chars().collect();
        for _ in 0..2000 {
            let text: String = (0..random.below(120))
                .map(|_| alphabet[random.below(alphabet.len() as u64) as usize])
                .collect();
            for format in Format::ALL {
                // What counts is that nothing panics.
                let _ = events(&text, &Choice { format: Some(format), ..Choice::default() });
            }
            let _ = events(&format!("fio version 2 iolog\n{text}"), &Choice::default());
        }
    }
}
