//! Code that the readers of text traces share: [`Lines`], a line at a time; [`Device`], the one device of
//! several; numbers.
//!
//! Invariant: a line longer than 64 KiB is refused, so that no file fills the memory.

use crate::error::TraceError;
use granary_units::{Lpa, Nanos, PAGE_SIZE};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};

/// Byte order mark that Windows programs put in front of a text.
const BOM: &str = "\u{feff}";
/// Bytes of a page, in which drives count.
const PAGE: u64 = PAGE_SIZE as u64;
/// Bytes of a sector, in which block traces count.
pub(super) const SECTOR: u64 = 512;

pub(super) fn bad(file: &str, line: u64, message: impl Into<String>) -> TraceError {
    TraceError::BadTrace { file: file.to_owned(), line, message: message.into() }
}

/// The pages that `offset..offset + len` touches, and whether it consists of whole ones.
pub(super) fn touched(offset: u64, len: u64) -> (Lpa, u64, bool) {
    let (first, end) = (offset / PAGE, (offset + len).div_ceil(PAGE));
    (Lpa(first), end - first, offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE))
}

/// The pages that `offset..offset + len` covers.
pub(super) fn covered(offset: u64, len: u64) -> (Lpa, u64) {
    let (first, end) = (offset.div_ceil(PAGE), (offset + len) / PAGE);
    (Lpa(first), end.saturating_sub(first))
}

/// Lines of a text trace: their number, their text, the bytes read.
pub(super) struct Lines {
    file: String,
    input: BufReader<Box<dyn Read>>,
    pub(super) text: String,
    /// Number of the line, from 1.
    pub(super) nth: u64,
    /// Bytes read.
    pub(super) position: u64,
}

/// No line of a trace is as long.
const LONGEST_LINE: u64 = 1 << 16;

impl Lines {
    pub(super) fn new(file: &str, input: BufReader<Box<dyn Read>>) -> Lines {
        Lines { file: file.to_owned(), input, text: String::new(), nth: 0, position: 0 }
    }

    /// Reads the next line that is not empty into `text`; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool, TraceError> {
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
                    return Err(TraceError::Io { what: format!("reading {}", self.file), source });
                }
            };
            if n == 0 {
                return Ok(false);
            }
            self.nth += 1;
            self.position += n;
            if self.nth == 1 && self.text.starts_with(BOM) {
                self.text.drain(..BOM.len());
            }
            if n == LONGEST_LINE {
                return Err(self.bad("the line has no end: the file is damaged, or --format is wrong"));
            }
            if !self.text.trim().is_empty() {
                return Ok(true);
            }
        }
    }

    pub(super) fn bad(&self, message: impl Into<String>) -> TraceError {
        bad(&self.file, self.nth, message)
    }
}

/// The one device that a trace is about.
pub(super) struct Device {
    wanted: Option<String>,
    found: Option<String>,
    /// Some of those that were not wanted.
    others: BTreeSet<String>,
}

/// Most devices that are listed where the one that was chosen is not there.
const MOST_OTHERS: usize = 16;

impl Device {
    pub(super) fn new(wanted: Option<String>) -> Device {
        Device { wanted, found: None, others: BTreeSet::new() }
    }

    /// Whether accesses of `name` count.
    ///
    /// # Errors
    /// A second device where none was chosen.
    pub(super) fn is_it(&mut self, name: &str) -> Result<bool, String> {
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
    pub(super) fn nothing(&self) -> String {
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

/// A decimal number of units of `unit` nanoseconds, exactly: `12.000000345` seconds. Fractions of a
/// nanosecond are left out. `None` where it is no such number, or more than 584 years.
pub(super) fn decimal(text: &str, unit: u64) -> Option<Nanos> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) || whole.len() + part.len() == 0 {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let (mut of, mut ns) = (unit, 0);
    for digit in part.bytes() {
        of /= 10;
        ns += of * u64::from(digit - b'0');
    }
    whole.checked_mul(unit)?.checked_add(ns).map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_to_the_nanosecond() {
        assert_eq!(decimal("12.000000345", 1_000_000_000), Some(Nanos(12_000_000_345)));
        assert_eq!(decimal("12.0000003459", 1_000_000_000), Some(Nanos(12_000_000_345)));
        assert_eq!(decimal("13.191135", 1_000_000), Some(Nanos(13_191_135)));
        assert_eq!(decimal("7", 1), Some(Nanos(7)));
        assert_eq!(decimal(".5", 1_000), Some(Nanos(500)));
        for bad in ["", ".", "-1", "1e3", "1.2.3", "99999999999999999999", "99999999999.0"] {
            assert_eq!(decimal(bad, 1_000_000_000), None, "{bad}");
        }
    }
}
