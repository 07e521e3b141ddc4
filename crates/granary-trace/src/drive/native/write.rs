//! Writing a record.

use super::{END, Header, MAGIC, OpRef, REFUSED, VERSION, form, kind};
use crate::drive::event::{FileBlock, Op};
use granary_device::FileEnd;
use granary_units::{Nanos, PAGE_SIZE, Page};
use std::io::Write;

pub(super) struct Encoder(Vec<u8>);

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

/// Writes a record.
pub struct Writer<W: Write> {
    pub(super) out: W,
    pub(super) crc: u32,
    pub(super) last: Nanos,
    pub(super) count: u64,
    pub(super) scratch: Vec<u8>,
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

    /// Begins an operation: to be completed by [`Writer::finish_op`] when it is known whether the drive took
    /// it.
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
