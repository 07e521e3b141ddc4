//! Granary's own record of the calls of a drive: [`Writer`], [`Reader`]. Every byte is in SPEC.md, section 9.
//!
//! ```text
//!   magic 8 | version 4 | length 4 | header, TOML | CRC-32C 4 |  operation operation ... | end: count, CRC-32C 4
//!   operation:  kind 1 (bit 7: refused) | time since the one before (zigzag) | its numbers | its content
//! ```
//!
//! Numbers are LEB128: 7 bits a byte, the lowest first. A page that repeats a word takes 9 bytes. The content is all there,
//! so that a replay leaves the drive with the same bytes, counters and times as the recorded run.
//!
//! Invariant: what was cut off or changed is found: by the checksums of header and end. Who asks for it
//! ([`Reader::take_cut`]) gets the whole operations of a record that was cut off, without a checksum over them.

use super::event::{Content, Event, FileBlock, Op, Phase, Piece, Seen, Source, Written};
use crate::error::TraceError;
use granary_device::{FileEnd, RemapRange, Structure};
use granary_mssd::DriveConfig;
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use serde::{Deserialize, Serialize};
use std::io::{BufReader, Read, Write};

/// First bytes of a record.
pub const MAGIC: &[u8; 8] = b"GRNYTRAC";
/// Version of the format.
pub const VERSION: u32 = 1;
/// Longest header, list of pages or piece of data that is believed.
const MOST: u64 = 1 << 26;

const END: u8 = 0x3f;
const REFUSED: u8 = 0x80;

/// What a record says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the program that wrote it.
    pub granary: String,
    /// What ran: `drive bench`, `run varmail on bytefs at scale 1, 12 threads`.
    pub source: String,
    /// The testbed's name.
    pub testbed: String,
    /// Changes to it.
    pub set: Vec<String>,
    /// Root seed of the run.
    pub seed: u64,
    /// What the drive held before: `none`, `fill`, `random:N`; not among the operations.
    pub precondition: String,
    /// The drive.
    pub drive: DriveConfig,
}

/// Writes a record.
pub struct Writer<W: Write> {
    out: W,
    crc: u32,
    last: Nanos,
    count: u64,
    scratch: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a record.
    ///
    /// # Errors
    /// The output's.
    pub fn new(out: W, header: &Header) -> std::io::Result<Writer<W>> {
        let text = toml::to_string(header).expect("a header is plain values");
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend((text.len() as u32).to_le_bytes());
        head.extend(text.as_bytes());
        head.extend(crc32c::crc32c(&head).to_le_bytes());
        let mut w = Writer { out, crc: 0, last: Nanos::ZERO, count: 0, scratch: Vec::new() };
        w.emit(&head)?;
        Ok(w)
    }

    fn emit(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.out.write_all(bytes)
    }

    /// Begins an operation: to be completed by [`Writer::finish_op`] when it is known whether the drive took it.
    pub fn begin_op(&mut self, at: Nanos, op: &OpRef<'_>) {
        let mut e = Encoder(std::mem::take(&mut self.scratch));
        e.0.clear();
        e.op(at.0.wrapping_sub(self.last.0) as i64, op);
        self.scratch = e.0;
        self.last = at;
    }

    /// Writes the operation.
    ///
    /// # Errors
    /// The output's.
    pub fn finish_op(&mut self, refused: bool) -> std::io::Result<()> {
        if refused {
            self.scratch[0] |= REFUSED;
        }
        self.count += 1;
        let scratch = std::mem::take(&mut self.scratch);
        let done = self.emit(&scratch);
        self.scratch = scratch;
        done
    }

    /// Instant of the last operation.
    pub fn last(&self) -> Nanos {
        self.last
    }

    /// Number of operations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Ends the record; returns the number of operations.
    ///
    /// # Errors
    /// The output's.
    pub fn end(mut self) -> std::io::Result<u64> {
        let mut e = Encoder(vec![END]);
        e.number(self.count);
        self.emit(&e.0)?;
        self.out.write_all(&self.crc.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.count)
    }
}

/// An operation with borrowed content, to be written.
pub enum OpRef<'a> {
    /// NVMe read of pages.
    Read(Lpa, u64, Structure),
    /// NVMe write.
    Write(Lpa, &'a [Page], Structure),
    /// Vendor: FS_WRITE.
    FsWrite(Lpa, &'a [Page], FileBlock, Structure),
    /// Store into the write-combining buffers of a core.
    Store(u16, ByteAddr, &'a [u8], TxId, Structure),
    /// Non-temporal stores at a byte of a page.
    Stream(Lpa, usize, granary_device::Streamed<'a>, Structure),
    /// Any without content.
    Plain(Op),
}

/// Numbers of the operations in the format.
mod kind {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const FLUSH: u8 = 3;
    pub const TRIM: u8 = 4;
    pub const COMMIT: u8 = 5;
    pub const RECOVER: u8 = 6;
    pub const LOAD: u8 = 7;
    pub const LOAD_PAGES: u8 = 8;
    pub const STORE: u8 = 9;
    pub const FLUSH_LINES: u8 = 10;
    pub const STREAM: u8 = 11;
    pub const VERIFY: u8 = 12;
    pub const SETTLE: u8 = 13;
    pub const TRACK: u8 = 14;
    pub const POWER_FAIL: u8 = 15;
    pub const POWER_ON: u8 = 16;
    pub const MARK: u8 = 17;
    pub const FS_WRITE: u8 = 18;
    pub const REMAP: u8 = 19;
    pub const BAM_RESET: u8 = 20;
    pub const BAM_READ: u8 = 21;
    /// A store of another core than the first.
    pub const STORE_FROM: u8 = 22;
    /// An FS_WRITE whose last page the file does not fill, or that made it longer.
    pub const FS_WRITE_END: u8 = 23;
    pub const REMAP_KEEP: u8 = 24;
    pub const BAM_NAMES: u8 = 25;
}

/// Forms of content.
mod form {
    pub const ZERO: u64 = 0;
    pub const WORD: u64 = 1;
    pub const PREFIX: u64 = 2;
    pub const BYTES: u64 = 3;
    pub const FILL: u64 = 4;
}

struct Encoder(Vec<u8>);

impl Encoder {
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn numbers<const N: usize>(&mut self, all: [u64; N]) {
        all.into_iter().for_each(|n| self.number(n));
    }

    fn page(&mut self, page: &Page) {
        match page.as_word() {
            Some((0, _)) => self.number(form::ZERO),
            Some((word, PAGE_SIZE)) => {
                self.number(form::WORD);
                self.0.extend(word.to_le_bytes());
            }
            Some((word, len)) => {
                self.number(form::PREFIX);
                self.0.extend(word.to_le_bytes());
                self.number(len as u64);
            }
            None => {
                self.number(form::BYTES);
                page.with_bytes(|bytes| self.0.extend(bytes));
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn op(&mut self, since: i64, op: &OpRef<'_>) {
        let number = match op {
            OpRef::Read(..) => kind::READ,
            OpRef::Write(..) => kind::WRITE,
            OpRef::FsWrite(_, _, FileBlock { end: FileEnd::WHOLE, .. }, _) => kind::FS_WRITE,
            OpRef::FsWrite(..) => kind::FS_WRITE_END,
            OpRef::Store(0, ..) => kind::STORE,
            OpRef::Store(..) => kind::STORE_FROM,
            OpRef::Stream(..) => kind::STREAM,
            OpRef::Plain(op) => match op {
                Op::Read(..) => kind::READ,
                Op::Write(..) => kind::WRITE,
                Op::FsWrite(..) => kind::FS_WRITE,
                Op::Remap(..) => kind::REMAP,
                Op::RemapKeep(_) => kind::REMAP_KEEP,
                Op::BamNames => kind::BAM_NAMES,
                Op::BamReset => kind::BAM_RESET,
                Op::BamRead(_) => kind::BAM_READ,
                Op::Store(..) => kind::STORE,
                Op::Stream(..) => kind::STREAM,
                Op::Flush => kind::FLUSH,
                Op::Trim(..) => kind::TRIM,
                Op::Commit(_) => kind::COMMIT,
                Op::Recover => kind::RECOVER,
                Op::Load(..) => kind::LOAD,
                Op::LoadPages(..) => kind::LOAD_PAGES,
                Op::FlushLines(..) => kind::FLUSH_LINES,
                Op::Verify => kind::VERIFY,
                Op::Settle => kind::SETTLE,
                Op::Track(_) => kind::TRACK,
                Op::PowerFail(_) => kind::POWER_FAIL,
                Op::PowerOn => kind::POWER_ON,
                Op::Mark(_) => kind::MARK,
            },
        };
        self.0.push(number);
        self.number((since << 1 ^ since >> 63) as u64);
        match op {
            OpRef::Read(lpa, n, what) => self.numbers([lpa.0, *n, *what as u64]),
            OpRef::Write(lpa, pages, what) => {
                self.numbers([lpa.0, pages.len() as u64, *what as u64]);
                pages.iter().for_each(|p| self.page(p));
            }
            OpRef::FsWrite(lpa, pages, block, what) => {
                self.numbers([lpa.0, pages.len() as u64, block.ino, block.offset as u64, *what as u64]);
                if block.end != FileEnd::WHOLE {
                    self.numbers([block.end.valid as u64, block.end.grew as u64]);
                }
                pages.iter().for_each(|p| self.page(p));
            }
            OpRef::Store(core, at, bytes, tx, what) => {
                if *core > 0 {
                    self.number(*core as u64);
                }
                self.numbers([at.0, tx.0 as u64, *what as u64]);
                self.bytes(bytes);
            }
            OpRef::Stream(lpa, from, data, what) => {
                self.numbers([lpa.0, *from as u64, *what as u64]);
                self.streamed(data);
            }
            OpRef::Plain(op) => self.plain(op),
        }
    }

    fn streamed(&mut self, data: &granary_device::Streamed<'_>) {
        use granary_device::Streamed;
        use granary_units::Payload;
        match data {
            Streamed::Page(page) => self.page(page),
            Streamed::Part(Payload::Bytes(b)) => {
                self.number(form::FILL + 1);
                self.bytes(b);
            }
            Streamed::Part(Payload::Fill { word, len }) => {
                self.number(form::FILL);
                self.0.extend(word.to_le_bytes());
                self.number(*len as u64);
            }
        }
    }

    fn plain(&mut self, op: &Op) {
        match op {
            Op::Read(lpa, n, what) => self.numbers([lpa.0, *n, *what as u64]),
            Op::Trim(lpa, n) => self.numbers([lpa.0, *n]),
            Op::Commit(tx) => self.number(tx.0 as u64),
            Op::Load(at, len, what) => self.numbers([at.0, *len, *what as u64]),
            Op::LoadPages(at, len, n, what) => self.numbers([at.0, *len, *n, *what as u64]),
            Op::FlushLines(at, len) => self.numbers([at.0, *len]),
            Op::Track(on) => self.number(*on as u64),
            Op::PowerFail(seed) => self.number(*seed),
            Op::Mark(phase) => self.number(*phase as u64),
            Op::Remap(src, dst, n) => self.numbers([src.0, dst.0, *n]),
            Op::RemapKeep(ranges) => {
                self.number(ranges.len() as u64);
                ranges.iter().for_each(|r| self.numbers([r.src.0, r.dst.0, r.count]));
            }
            // 0 all files, 1 the one that follows.
            Op::BamRead(ino) => match ino {
                None => self.number(0),
                Some(ino) => self.numbers([1, *ino]),
            },
            Op::BamReset | Op::BamNames | Op::Flush | Op::Recover | Op::Verify | Op::Settle | Op::PowerOn => {
            }
            Op::Write(..) | Op::FsWrite(..) | Op::Store(..) | Op::Stream(..) => {
                unreachable!("operations with content are written from what they borrow")
            }
        }
    }
}

/// Reads a record.
pub struct Reader {
    file: String,
    input: BufReader<Box<dyn Read>>,
    header: Header,
    crc: u32,
    position: u64,
    last: Nanos,
    count: u64,
    done: bool,
    take_cut: bool,
    /// It was cut off behind so many operations.
    cut: Option<u64>,
}

/// Why an operation cannot be read.
enum Bad {
    Io(std::io::Error),
    Damaged(String),
}

type Part<T> = Result<T, Bad>;

fn damaged<T>(why: impl Into<String>) -> Part<T> {
    Err(Bad::Damaged(why.into()))
}

impl Reader {
    /// Reads the header of `input`, called `file`.
    ///
    /// # Errors
    /// No record, a newer one, a damaged header.
    pub fn new(file: &str, input: BufReader<Box<dyn Read>>) -> Result<Reader, TraceError> {
        let header = Header {
            granary: String::new(),
            source: String::new(),
            testbed: String::new(),
            set: Vec::new(),
            seed: 0,
            precondition: String::new(),
            drive: DriveConfig::bytefs_emulator(),
        };
        let file = file.to_owned();
        let (crc, position, last, count) = (0, 0, Nanos::ZERO, 0);
        let (done, take_cut, cut) = (false, false, None);
        let mut r = Reader { file, input, header, crc, position, last, count, done, take_cut, cut };
        match r.read_header() {
            Ok(header) => Ok(Reader { header, ..r }),
            Err(bad) => Err(r.explain(bad)),
        }
    }

    /// Whether the whole operations of a record that is cut off are taken for all of it; else it is refused.
    #[must_use]
    pub fn take_cut(self, take_cut: bool) -> Reader {
        Reader { take_cut, ..self }
    }

    /// What the record says about itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    fn explain(&self, bad: Bad) -> TraceError {
        let message = match bad {
            Bad::Io(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => format!(
                "the record is cut off at byte {}, in operation {}: its run did not end well; record it again, or --cut replays \
                 what there is",
                self.position,
                self.count + 1
            ),
            Bad::Io(source) => {
                return TraceError::Io { what: format!("reading {}", self.file), source };
            }
            Bad::Damaged(why) => format!("{why} (byte {}, operation {})", self.position, self.count + 1),
        };
        TraceError::BadRecord { file: self.file.clone(), message }
    }

    fn fill(&mut self, out: &mut [u8]) -> Part<()> {
        self.input.read_exact(out).map_err(Bad::Io)?;
        self.crc = crc32c::crc32c_append(self.crc, out);
        self.position += out.len() as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Part<[u8; N]> {
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }

    fn read_header(&mut self) -> Part<Header> {
        if self.array::<8>()? != *MAGIC {
            return damaged("no Granary record: look at --format");
        }
        let version = u32::from_le_bytes(self.array()?);
        if version != VERSION {
            return damaged(format!(
                "version {version} of the format, this program reads {VERSION}: use the program that wrote it"
            ));
        }
        let len = u32::from_le_bytes(self.array()?) as u64;
        if len > MOST {
            return damaged("the header is damaged: record the run again");
        }
        let mut text = vec![0; len as usize];
        self.fill(&mut text)?;
        let crc = self.crc;
        if u32::from_le_bytes(self.array()?) != crc {
            return damaged("the header is damaged: record the run again");
        }
        let text = String::from_utf8(text).or_else(|_| damaged("the header is no text"))?;
        toml::from_str(&text).or_else(|e| damaged(format!("the header makes no sense: {}", e.message())))
    }

    fn number(&mut self) -> Part<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let [b] = self.array()?;
            n |= ((b & 0x7f) as u64) << shift;
            if b & 0x80 == 0 {
                return Ok(n);
            }
        }
        damaged("a number has no end")
    }

    /// A number of things that are to be kept in memory.
    fn count(&mut self) -> Part<u64> {
        match self.number()? {
            n if n <= MOST => Ok(n),
            n => damaged(format!("{n} pages or bytes at once")),
        }
    }

    fn structure(&mut self) -> Part<Structure> {
        let n = self.number()?;
        match Structure::ALL.get(n as usize) {
            Some(what) => Ok(*what),
            None => damaged(format!("structure {n}")),
        }
    }

    fn lpa(&mut self) -> Part<Lpa> {
        match self.number()? {
            n if n < 1 << 50 => Ok(Lpa(n)),
            n => damaged(format!("page {n}")),
        }
    }

    fn at(&mut self) -> Part<ByteAddr> {
        match self.number()? {
            n if n < 1 << 62 => Ok(ByteAddr(n)),
            n => damaged(format!("byte {n}")),
        }
    }

    fn core(&mut self) -> Part<u16> {
        let n = self.number()?;
        u16::try_from(n).or_else(|_| damaged(format!("core {n}")))
    }

    fn tx(&mut self) -> Part<TxId> {
        let n = self.number()?;
        u32::try_from(n).map(TxId).or_else(|_| damaged(format!("transaction {n}")))
    }

    fn bytes(&mut self) -> Part<Vec<u8>> {
        let n = self.count()?;
        let mut out = vec![0; n as usize];
        self.fill(&mut out)?;
        Ok(out)
    }

    fn page(&mut self, form: u64) -> Part<Content> {
        Ok(Content(match form {
            form::ZERO => Page::ZERO,
            form::WORD => Page::word(u64::from_le_bytes(self.array()?)),
            form::PREFIX => {
                let word = u64::from_le_bytes(self.array()?);
                match self.number()? {
                    len if len <= PAGE_SIZE as u64 => Page::prefix(word, len as usize),
                    len => return damaged(format!("{len} bytes of a page")),
                }
            }
            form::BYTES => Page::from_bytes(&self.array()?),
            other => return damaged(format!("content of form {other}")),
        }))
    }

    fn piece(&mut self) -> Part<Piece> {
        Ok(match self.number()? {
            form::FILL => {
                let word = u64::from_le_bytes(self.array()?);
                Piece::Fill(word, self.number()?)
            }
            n if n == form::FILL + 1 => Piece::Bytes(self.bytes()?),
            form => Piece::Page(self.page(form)?),
        })
    }

    fn pages(&mut self, n: u64) -> Part<Vec<Content>> {
        // Not reserved ahead: a damaged number takes no memory.
        let mut pages = Vec::new();
        for _ in 0..n {
            let form = self.number()?;
            pages.push(self.page(form)?);
        }
        Ok(pages)
    }

    fn op(&mut self, number: u8) -> Part<Op> {
        Ok(match number {
            kind::READ => Op::Read(self.lpa()?, self.count()?, self.structure()?),
            kind::WRITE => {
                let (lpa, n, what) = (self.lpa()?, self.count()?, self.structure()?);
                Op::Write(lpa, Written::Pages(self.pages(n)?), what)
            }
            kind::FLUSH => Op::Flush,
            kind::TRIM => Op::Trim(self.lpa()?, self.lpa()?.0),
            kind::COMMIT => Op::Commit(self.tx()?),
            kind::RECOVER => Op::Recover,
            kind::LOAD => Op::Load(self.at()?, self.count()?, self.structure()?),
            kind::LOAD_PAGES => Op::LoadPages(self.at()?, self.count()?, self.count()?, self.structure()?),
            kind::STORE | kind::STORE_FROM => {
                let core = if number == kind::STORE { 0 } else { self.core()? };
                let (at, tx, what) = (self.at()?, self.tx()?, self.structure()?);
                Op::Store(core, at, self.bytes()?, tx, what)
            }
            kind::FLUSH_LINES => Op::FlushLines(self.at()?, self.count()?),
            kind::STREAM => self.stream()?,
            kind::VERIFY => Op::Verify,
            kind::SETTLE => Op::Settle,
            kind::TRACK => Op::Track(self.number()? != 0),
            kind::POWER_FAIL => Op::PowerFail(self.number()?),
            kind::POWER_ON => Op::PowerOn,
            kind::MARK => match self.number()? {
                0 => Op::Mark(Phase::Run),
                1 => Op::Mark(Phase::Drain),
                2 => Op::Mark(Phase::End),
                n => return damaged(format!("phase {n}")),
            },
            kind::FS_WRITE | kind::FS_WRITE_END => {
                let (lpa, n, ino) = (self.lpa()?, self.count()?, self.number()?);
                let offset = self.number()?;
                let offset =
                    u32::try_from(offset).or_else(|_| damaged(format!("block {offset} of a file")))?;
                let what = self.structure()?;
                let end = if number == kind::FS_WRITE { FileEnd::WHOLE } else { self.file_end()? };
                let block = FileBlock { ino, offset, end };
                Op::FsWrite(lpa, Written::Pages(self.pages(n)?), block, what)
            }
            kind::REMAP => Op::Remap(self.lpa()?, self.lpa()?, self.lpa()?.0),
            kind::REMAP_KEEP => {
                let n = self.number()?;
                if n > RemapRange::MOST as u64 {
                    return damaged(format!("{n} ranges to be remapped"));
                }
                let mut ranges = Vec::new();
                for _ in 0..n {
                    ranges.push(RemapRange { src: self.lpa()?, dst: self.lpa()?, count: self.lpa()?.0 });
                }
                Op::RemapKeep(ranges)
            }
            kind::BAM_NAMES => Op::BamNames,
            kind::BAM_RESET => Op::BamReset,
            kind::BAM_READ => Op::BamRead(match self.number()? {
                0 => None,
                1 => Some(self.number()?),
                n => return damaged(format!("{n} files")),
            }),
            other => return damaged(format!("operation of kind {other}")),
        })
    }

    fn file_end(&mut self) -> Part<FileEnd> {
        match (self.number()?, self.number()?) {
            (valid @ 1..=4096, grew @ 0..=1) => Ok(FileEnd { valid: valid as u16, grew: grew == 1 }),
            (valid, grew) => damaged(format!("a page of a file with {valid} bytes, grown {grew}")),
        }
    }

    fn stream(&mut self) -> Part<Op> {
        let (lpa, from, what) = (self.lpa()?, self.number()?, self.structure()?);
        let piece = self.piece()?;
        let len = match &piece {
            Piece::Page(_) => PAGE_SIZE as u64,
            Piece::Bytes(b) => b.len() as u64,
            Piece::Fill(_, len) => *len,
        };
        if from.saturating_add(len) > PAGE_SIZE as u64 {
            return damaged(format!("{len} bytes from {from} on leave their page"));
        }
        Ok(Op::Stream(lpa, from, piece, what))
    }

    fn read_event(&mut self) -> Part<Option<Event>> {
        let [first] = self.array()?;
        if first == END {
            let count = self.number()?;
            let crc = self.crc;
            if u32::from_le_bytes(self.array()?) != crc || count != self.count {
                return damaged(
                    "the record is damaged: its checksum or count is wrong; record the run again",
                );
            }
            self.done = true;
            return Ok(None);
        }
        let since = self.number()?;
        let since = (since >> 1) as i64 ^ -((since & 1) as i64);
        let Some(at) = self.last.0.checked_add_signed(since) else { return damaged("time before the start") };
        self.last = Nanos(at);
        let op = self.op(first & !REFUSED)?;
        self.count += 1;
        Ok(Some(Event { at: self.last, op, refused: first & REFUSED != 0, nth: self.count }))
    }
}

impl Source for Reader {
    fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        if self.done {
            return Ok(None);
        }
        match self.read_event() {
            Ok(event) => Ok(event),
            Err(Bad::Io(e)) if self.take_cut && e.kind() == std::io::ErrorKind::UnexpectedEof => {
                (self.done, self.cut) = (true, Some(self.count));
                Ok(None)
            }
            Err(bad) => Err(self.explain(bad)),
        }
    }

    fn seen(&self) -> Seen {
        Seen { position: self.position, cut: self.cut, ..Seen::default() }
    }

    fn nothing(&self) -> String {
        "there is no operation in the record".to_owned()
    }

    fn is_record(&self) -> bool {
        true
    }
}
