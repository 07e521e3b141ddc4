//! Reading a record, damaged ones up to where they are.

use super::{END, Header, MAGIC, MOST, REFUSED, VERSION, form, kind};
use crate::drive::event::{Content, Event, FileBlock, Op, Phase, Piece, Seen, Source, Written};
use crate::error::TraceError;
use granary_device::{FileEnd, RemapRange, Structure};
use granary_mssd::DriveConfig;
use granary_units::{ByteAddr, Lpa, Nanos, PAGE_SIZE, Page, TxId};
use std::io::{BufReader, Read};

/// Reads a record.
pub struct Reader {
    pub(super) file: String,
    pub(super) input: BufReader<Box<dyn Read>>,
    pub(super) header: Header,
    pub(super) crc: u32,
    pub(super) position: u64,
    pub(super) last: Nanos,
    pub(super) count: u64,
    pub(super) done: bool,
    pub(super) take_cut: bool,
    /// It was cut off behind so many operations.
    pub(super) cut: Option<u64>,
}

/// Why an operation cannot be read.
pub(super) enum Bad {
    Io(std::io::Error),
    Damaged(String),
}

pub(super) type Part<T> = Result<T, Bad>;

pub(super) fn damaged<T>(why: impl Into<String>) -> Part<T> {
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

    /// Header of the record.
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
