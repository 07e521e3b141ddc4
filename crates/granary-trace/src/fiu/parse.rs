//! Reads a trace: numbers its files, and finds what each of them must have before the replay.

use super::line::{Format, Line, neither};
use super::{PIECE, Record, Trace, TraceFile};
use crate::fio::{Mistake, Mistakes};
use std::collections::{BTreeMap, BTreeSet};

/// Byte order mark that Windows programs put in front of a text.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// Most records: 64 Mi, 2 GiB of memory.
const MOST: usize = 64 << 20;
/// Alignment of the beginning of a device's file: a page.
const PAGE: u64 = 4096;

/// A file on the way.
struct Seen {
    /// Size before the first record, of a trace of files.
    size: u64,
    /// The lowest byte and the end of what is touched.
    touched: (u64, u64),
    pieces: BTreeSet<u64>,
}

impl Trace {
    /// Reads a trace. Empty lines, and those that begin with `#`, say nothing.
    ///
    /// # Errors
    /// The first line that is no record of its format, or that there is none.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Trace, Mistakes> {
        let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
        let (mut format, mut numbers, mut seen) = (None, BTreeMap::new(), Vec::new());
        let mut records = Vec::new();
        for (nth, line) in bytes.split(|b| *b == b'\n').enumerate() {
            let wrong = |message: String| Mistakes::new(file, vec![Mistake { line: nth + 1, message }]);
            let text = String::from_utf8_lossy(line);
            let columns: Vec<&str> = text.split_whitespace().collect();
            if columns.first().is_none_or(|c| c.starts_with('#')) {
                continue;
            }
            let format = match format {
                Some(format) => format,
                None => *format.insert(Format::of(&columns).ok_or_else(|| wrong(neither()))?),
            };
            let line = format.read(&columns).map_err(wrong)?;
            if records.len() == MOST {
                return Err(wrong(format!("more than {MOST} records: split the trace into several files")));
            }
            let number = *numbers.entry(line.file).or_insert_with(|| {
                seen.push(Seen { size: line.size, touched: (u64::MAX, 0), pieces: BTreeSet::new() });
                seen.len() - 1
            });
            seen[number].touch(&line);
            let (call, offset, len) = (line.call, line.offset, line.len as u32);
            records.push(Record { call, file: number as u32, offset, len });
        }
        let Some(format) = format else {
            let message = "there is no record in the trace".to_owned();
            return Err(Mistakes::new(file, vec![Mistake { line: 1, message }]));
        };
        let mut names = vec![String::new(); seen.len()];
        for ((major, minor), number) in numbers {
            names[number] = match format {
                Format::Files => format!("{major}"),
                Format::Blocks => format!("{major}-{minor}"),
            };
        }
        let mut files: Vec<TraceFile> =
            seen.iter().zip(names).map(|(seen, name)| seen.file(name, format)).collect();
        if format == Format::Blocks {
            for r in &mut records {
                // A record of no bytes touches nothing, and may lie before what others touch.
                r.offset = r.offset.saturating_sub(seen[r.file as usize].base(format));
            }
        }
        // A file of which nothing is touched is empty: what it had is nobody's business.
        files.iter_mut().filter(|f| f.pieces.is_empty()).for_each(|f| f.size = 0);
        Ok(Trace {
            name: file.to_owned(),
            files,
            count: records.len() as u64,
            records: records.into(),
            clients: 1,
            durable: format == Format::Blocks,
        })
    }
}

impl Seen {
    fn touch(&mut self, line: &Line) {
        if line.len == 0 {
            return;
        }
        let end = line.offset + line.len;
        self.touched = (self.touched.0.min(line.offset), self.touched.1.max(end));
        self.pieces.extend(line.offset / PIECE..end.div_ceil(PIECE));
    }

    /// Where the file begins.
    fn base(&self, format: Format) -> u64 {
        match format {
            Format::Files => 0,
            Format::Blocks if self.touched.1 == 0 => 0,
            Format::Blocks => self.touched.0 / PAGE * PAGE,
        }
    }

    fn file(&self, name: String, format: Format) -> TraceFile {
        let base = self.base(format);
        let end = match format {
            Format::Files => self.size,
            Format::Blocks => self.touched.1,
        };
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for piece in &self.pieces {
            let (from, to) = ((piece * PIECE).max(base), ((piece + 1) * PIECE).min(end));
            if from >= to {
                continue;
            }
            match pieces.last_mut() {
                Some(last) if last.1 == from - base => last.1 = to - base,
                _ => pieces.push((from - base, to - base)),
            }
        }
        TraceFile { name, size: end.saturating_sub(base), pieces }
    }
}
