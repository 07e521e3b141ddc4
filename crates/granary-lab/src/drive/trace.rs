//! Traces: what a host asked a drive for, call by call, from other machines or from a run of our own.
//!
//! ```text
//!   MSR-Cambridge CSV (msr.rs) ─┐ lines
//!   blkparse text (blkparse.rs) ┼──> Event { at, op } ──> replay (../replay.rs) ──> Drive
//!   Granary record (native.rs) ─┘ calls of a Drive
//!                 ^
//!   Recorded (recorded.rs): a Drive that writes down what it is asked
//! ```
//!
//! Block traces have offsets in bytes of 512 B sectors, the drive has pages of 4 KiB: a read or write takes all pages
//! that it touches, a trim those that it covers. Their content is not known: a write brings a repeated word.
//!
//! A trace is read as a stream: a line at a time, never the whole.

pub mod blkparse;
pub mod msr;
pub mod native;
pub mod recorded;

use crate::error::LabError;
use granary_mssd::Structure;
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use std::collections::BTreeSet;
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
    /// Vendor: BAM_RESET.
    BamReset,
    /// Vendor: BAM_READ of one file or all.
    BamRead(Option<u64>),
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
    /// Lines that are no access (other events of blkparse).
    pub skipped: u64,
    /// A record was cut off behind so many whole operations.
    pub cut: Option<u64>,
}

/// A reader of a trace.
pub trait Source {
    /// The next event, `None` at the end.
    ///
    /// # Errors
    /// The file and line that cannot be understood.
    fn next_event(&mut self) -> Result<Option<Event>, LabError>;

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

/// Formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// MSR-Cambridge CSV.
    Msr,
    /// Text of blkparse in its default format.
    Blkparse,
    /// Granary's own record.
    Granary,
}

impl Format {
    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Format::Msr => "msr",
            Format::Blkparse => "blkparse",
            Format::Granary => "granary",
        }
    }

    /// From its name.
    pub fn named(name: &str) -> Option<Format> {
        [Format::Msr, Format::Blkparse, Format::Granary].into_iter().find(|f| f.name() == name)
    }

    /// From the first bytes of a trace.
    fn of(head: &[u8]) -> Option<Format> {
        if head.starts_with(native::MAGIC) {
            return Some(Format::Granary);
        }
        let text = String::from_utf8_lossy(head);
        text.lines().find_map(|line| {
            if msr::looks_like(line) {
                Some(Format::Msr)
            } else if blkparse::looks_like(line) {
                Some(Format::Blkparse)
            } else {
                None
            }
        })
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
pub fn open(path: &Path, choice: &Choice) -> Result<Trace, LabError> {
    let name = path.display().to_string();
    let io = |source| LabError::Io { what: format!("reading {name}"), source };
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
pub fn read(name: &str, input: Box<dyn Read>, bytes: u64, choice: &Choice) -> Result<Trace, LabError> {
    let mut input = BufReader::with_capacity(1 << 18, input);
    let head = input.fill_buf().map_err(|source| LabError::Io { what: format!("reading {name}"), source })?;
    let is_packed =
        head.starts_with(&[0x1f, 0x8b]) || head.starts_with(b"BZh") || head.starts_with(b"\xfd7zXZ");
    if is_packed {
        return Err(bad(
            name,
            1,
            "the file is compressed: unpack it, for example `zcat FILE | granary drive replay -`",
        ));
    }
    let Some(format) = choice.format.or_else(|| Format::of(&head[..head.len().min(1 << 16)])) else {
        return Err(bad(
            name,
            1,
            "neither MSR-Cambridge CSV nor text of blkparse nor a Granary record: look at the file, or say --format",
        ));
    };
    let (source, header): (Box<dyn Source>, _) = match format {
        Format::Msr => (Box::new(msr::Msr::new(name, input, choice.device.clone())), None),
        Format::Blkparse => {
            (Box::new(blkparse::Blkparse::new(name, input, choice.event, choice.device.clone())), None)
        }
        Format::Granary => {
            let reader = native::Reader::new(name, input)?.take_cut(choice.cut);
            let header = reader.header().clone();
            (Box::new(reader), Some(header))
        }
    };
    Ok(Trace { format, header, source, bytes })
}

fn bad(file: &str, line: u64, message: impl Into<String>) -> LabError {
    LabError::BadTrace { file: file.to_owned(), line, message: message.into() }
}

/// The pages that `offset..offset + len` touches, and whether it consists of whole ones.
fn touched(offset: u64, len: u64) -> (Lpa, u64, bool) {
    let (first, end) = (offset / PAGE, (offset + len).div_ceil(PAGE));
    (Lpa(first), end - first, offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE))
}

/// The pages that `offset..offset + len` covers.
fn covered(offset: u64, len: u64) -> (Lpa, u64) {
    let (first, end) = (offset.div_ceil(PAGE), (offset + len) / PAGE);
    (Lpa(first), end.saturating_sub(first))
}

/// Lines of a text trace: their number, their text, the bytes read.
struct Lines {
    file: String,
    input: BufReader<Box<dyn Read>>,
    text: String,
    nth: u64,
    position: u64,
}

/// No line of a trace is as long.
const LONGEST_LINE: u64 = 1 << 16;

impl Lines {
    fn new(file: &str, input: BufReader<Box<dyn Read>>) -> Lines {
        Lines { file: file.to_owned(), input, text: String::new(), nth: 0, position: 0 }
    }

    /// Reads the next line that is not empty into `text`; false at the end.
    fn advance(&mut self) -> Result<bool, LabError> {
        loop {
            self.text.clear();
            let mut bounded = (&mut self.input).take(LONGEST_LINE);
            let n = match bounded.read_line(&mut self.text) {
                Ok(n) => n as u64,
                Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                    self.nth += 1;
                    return Err(self.bad("the line is no text: the file is damaged, or --format is wrong"));
                }
                Err(source) => {
                    return Err(LabError::Io { what: format!("reading {}", self.file), source });
                }
            };
            if n == 0 {
                return Ok(false);
            }
            self.nth += 1;
            self.position += n;
            if n == LONGEST_LINE {
                return Err(self.bad("the line has no end: the file is damaged, or --format is wrong"));
            }
            if !self.text.trim().is_empty() {
                return Ok(true);
            }
        }
    }

    fn bad(&self, message: impl Into<String>) -> LabError {
        bad(&self.file, self.nth, message)
    }
}

/// The one device that a trace is about.
struct Device {
    wanted: Option<String>,
    found: Option<String>,
    /// Some of those that were not wanted.
    others: BTreeSet<String>,
}

/// Most devices that are listed where the one that was chosen is not there.
const MOST_OTHERS: usize = 16;

impl Device {
    fn new(wanted: Option<String>) -> Device {
        Device { wanted, found: None, others: BTreeSet::new() }
    }

    /// Whether accesses of `name` count.
    ///
    /// # Errors
    /// A second device where none was chosen.
    fn is_it(&mut self, name: &str) -> Result<bool, String> {
        if let Some(wanted) = &self.wanted {
            if wanted != name && self.others.len() < MOST_OTHERS && !self.others.contains(name) {
                self.others.insert(name.to_owned());
            }
            return Ok(wanted == name);
        }
        match &self.found {
            None => {
                self.found = Some(name.to_owned());
                Ok(true)
            }
            Some(found) if found == name => Ok(true),
            Some(found) => Err(format!(
                "a second device, {name} beside {found}, and one drive to replay them on: choose with --device {found} or \
                 --device {name}"
            )),
        }
    }

    /// Why there was no access.
    fn nothing(&self) -> String {
        let others: Vec<&str> = self.others.iter().map(String::as_str).collect();
        match &self.wanted {
            Some(wanted) if !others.is_empty() => {
                let more = if others.len() == MOST_OTHERS { ", ..." } else { "" };
                format!(
                    "there is no access of --device {wanted} in the trace, but of {}{more}",
                    others.join(", ")
                )
            }
            _ => "there is no access in the trace".to_owned(),
        }
    }
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
    fn formats_are_recognised() {
        let of = |text: &str| Format::of(text.as_bytes());
        assert_eq!(of("128166372003061629,hm,1,Read,383496192,32768,59\n"), Some(Format::Msr));
        assert_eq!(of("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n"), Some(Format::Msr));
        assert_eq!(
            of("  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kj]\n"),
            Some(Format::Blkparse)
        );
        assert_eq!(
            of("Input file sda.blktrace.0 added\n8,0 3 1 0.0 697 Q W 2 + 8 [kj]\n"),
            Some(Format::Blkparse)
        );
        assert_eq!(of("GRNYTRAC...."), Some(Format::Granary));
        assert_eq!(of("hello\n"), None);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_what_to_do() {
        let why = |text: &str| events(text, &Choice::default()).expect_err("refused");
        assert!(why("hello\n").contains("--format"));
        assert!(why("\x1f\x00").contains("--format"));
        let packed: Box<dyn Read> = Box::new(std::io::Cursor::new(vec![0x1f, 0x8b, 8]));
        let Err(e) = read("t", packed, 3, &Choice::default()) else { panic!("refused") };
        assert!(e.to_string().contains("zcat"), "{e}");
        assert!(why("").contains("neither"));
    }

    #[test]
    fn any_text_is_read_or_refused() {
        let mut random = granary_sim::rng::Stream::new(1, "trace text");
        let alphabet: Vec<char> = "0189,. +-:[]QDRWFN\n\tTimestampRead\u{fe}".chars().collect();
        for _ in 0..2000 {
            let text: String = (0..random.below(120))
                .map(|_| alphabet[random.below(alphabet.len() as u64) as usize])
                .collect();
            for format in [Format::Msr, Format::Blkparse, Format::Granary] {
                // What counts is that nothing panics.
                let _ = events(&text, &Choice { format: Some(format), ..Choice::default() });
            }
        }
    }
}
