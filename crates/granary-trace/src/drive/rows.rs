//! [`Rows`]: block traces that say one access a line, in columns. A [`Layout`] is what a format adds.
//!
//! ```text
//!   line ── split at commas, tabs or blanks; quotes taken off ──> columns ── Layout::row ──> Row ──> Event
//! ```
//!
//! Remains of spreadsheets and scripts around the columns (a byte order mark, quotes, tabs for commas,
//! blanks, capitals or none) change nothing. A first line that names the columns is passed over.
//!
//! Invariant: a line that is no access of the format ends the reading with its number and the reason.

use super::event::{Event, Op, Seen, Source, Written};
use super::lines::{Device, Lines, touched};
use crate::error::TraceError;
use granary_device::Structure;
use granary_units::Nanos;
use std::io::{BufReader, Read};

/// Largest access that is believed: more is a damaged line.
const MOST: u64 = 1 << 30;

/// One access, as its line has it.
pub(super) struct Row {
    /// The device, as `--device` names it.
    pub device: String,
    /// When it was issued.
    pub at: Nanos,
    /// It is a write.
    pub writes: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Separators of columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    /// Commas, or tabs where there is no comma.
    Commas,
    /// Blanks and tabs.
    Blanks,
}

/// A format.
pub(super) struct Layout {
    /// Names of its columns, for messages.
    pub columns: &'static [&'static str],
    /// Their separator.
    pub between: Between,
    /// More columns may follow, which say nothing of interest.
    pub more: bool,
    /// The format allows accesses of no bytes; they are skipped.
    pub empty: bool,
    /// The access of a line.
    pub row: fn(&[&str]) -> Result<Row, String>,
}

impl Layout {
    fn split<'a>(&self, line: &'a str) -> Vec<&'a str> {
        match self.between {
            Between::Commas if line.contains(',') => line.split(',').map(bare).collect(),
            Between::Commas => line.trim().split('\t').map(bare).collect(),
            Between::Blanks => line.split_whitespace().map(bare).collect(),
        }
    }

    fn fits(&self, columns: usize) -> bool {
        columns == self.columns.len() || self.more && columns > self.columns.len()
    }

    /// Whether the columns are their own names.
    fn is_header(&self, columns: &[&str]) -> bool {
        self.fits(columns.len()) && columns.iter().zip(self.columns).all(|(a, b)| a.eq_ignore_ascii_case(b))
    }

    /// Whether blanks part its columns.
    pub fn is_spaced(&self) -> bool {
        self.between == Between::Blanks
    }

    /// Whether a line may be one of such a trace.
    pub fn looks_like(&self, line: &str) -> bool {
        let columns = self.split(line);
        self.fits(columns.len()) && (self.is_header(&columns) || (self.row)(&columns).is_ok())
    }
}

/// A column without the blanks and quotes around it.
fn bare(column: &str) -> &str {
    column.trim().trim_matches(['"', '\'']).trim()
}

/// A whole number of a column.
pub(super) fn number(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{name} '{text}' is no whole number: mend or remove the line"))
}

/// Sectors in bytes.
pub(super) fn sectors(name: &str, text: &str) -> Result<u64, String> {
    number(name, text)?
        .checked_mul(super::lines::SECTOR)
        .ok_or_else(|| format!("{name} {text} lies on no drive: mend or remove the line"))
}

/// Whether it is a write: of one of two words, in capitals or not.
pub(super) fn writes(name: &str, text: &str, [read, write]: [&str; 2]) -> Result<bool, String> {
    match text {
        t if t.eq_ignore_ascii_case(read) => Ok(false),
        t if t.eq_ignore_ascii_case(write) => Ok(true),
        _ => Err(format!("{name} '{text}': there are {read} and {write}")),
    }
}

/// Reader of such a trace.
pub(super) struct Rows {
    lines: Lines,
    layout: &'static Layout,
    device: Device,
    seen: Seen,
}

impl Rows {
    /// Reads `input`, called `file`; only `device`, where given.
    pub fn new(
        file: &str,
        input: BufReader<Box<dyn Read>>,
        layout: &'static Layout,
        device: Option<String>,
    ) -> Rows {
        Rows { lines: Lines::new(file, input), layout, device: Device::new(device), seen: Seen::default() }
    }

    fn parse(&mut self) -> Result<Option<Event>, String> {
        let (layout, nth) = (self.layout, self.lines.nth);
        let columns = layout.split(&self.lines.text);
        let is_named = |c: &&str| !c.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        if nth == 1 && (layout.is_header(&columns) || columns.iter().all(is_named)) {
            return Ok(None);
        }
        if !layout.fits(columns.len()) {
            return Err(format!(
                "{} fields instead of the {} of {}: remove the line, or look at --format",
                columns.len(),
                layout.columns.len(),
                layout.columns.join(if layout.is_spaced() { " " } else { "," })
            ));
        }
        let Row { device, at, writes, offset, len } = (layout.row)(&columns)?;
        if len == 0 && layout.empty {
            self.seen.skipped += 1;
            return Ok(None);
        }
        if len == 0 || len > MOST {
            return Err(format!("Size {len}: 1 B to 1 GiB is believed; mend or remove the line"));
        }
        if offset > u64::MAX / 4 {
            return Err(format!("Offset {offset} lies on no drive: mend or remove the line"));
        }
        if !self.device.is_it(&device)? {
            self.seen.skipped += 1;
            return Ok(None);
        }
        let (lpa, pages, aligned) = touched(offset, len);
        self.seen.unaligned += !aligned as u64;
        let op = match writes {
            false => Op::Read(lpa, pages, Structure::Data),
            true => Op::Write(lpa, Written::Unknown(pages), Structure::Data),
        };
        Ok(Some(Event { at, op, refused: false, nth }))
    }
}

impl Source for Rows {
    fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        while self.lines.advance()? {
            if let Some(event) = self.parse().map_err(|m| self.lines.bad(m))? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn nothing(&self) -> String {
        self.device.nothing()
    }

    fn seen(&self) -> Seen {
        Seen { position: self.lines.position, ..self.seen }
    }
}
