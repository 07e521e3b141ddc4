//! [`Msr`]: block traces of MSR Cambridge.
//!
//! ```text
//!   Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
//!   128166372003061629,hm,1,Read,383496192,32768,59
//!   |                  |  | |    bytes     bytes 100 ns: not used, it is the traced drive's
//!   |                  \__/ --device hm.1
//!   100 ns since 1601 (Windows FILETIME)
//! ```
//!
//! Time stamps are not quite in order; the replay sorts them within a window.
//!
//! Source: Narayanan, Donnelly, Rowstron, "Write off-loading", FAST 2008; the README of the traces (SNIA IOTTA 388).

use super::{Device, Event, Lines, Op, Seen, Source, Written, touched};
use crate::error::LabError;
use granary_mssd::Structure;
use granary_units::Nanos;
use std::io::{BufReader, Read};

const FIELDS: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
const WHAT: Structure = Structure::Data;
/// Largest access that is believed: a whole terabyte is a damaged line.
const MOST: u64 = 1 << 30;

/// Whether a line may be one of such a trace.
pub(super) fn looks_like(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').collect();
    fields.len() == 7
        && (fields[0].trim() == "Timestamp"
            || matches!(fields[3].trim(), "Read" | "Write") && fields[0].trim().parse::<u64>().is_ok())
}

/// Reader of such a trace.
pub struct Msr {
    lines: Lines,
    device: Device,
    seen: Seen,
}

impl Msr {
    /// Reads `input`, called `file`; only `device`, where given.
    pub fn new(file: &str, input: BufReader<Box<dyn Read>>, device: Option<String>) -> Msr {
        Msr { lines: Lines::new(file, input), device: Device::new(device), seen: Seen::default() }
    }

    fn parse(&mut self) -> Result<Option<Event>, String> {
        let fields: Vec<&str> = self.lines.text.trim().split(',').map(str::trim).collect();
        let [time, host, disk, kind, offset, size, _] = fields[..] else {
            return Err(format!("{} fields instead of the 7 of {FIELDS}: remove the line", fields.len()));
        };
        let number = |name: &str, text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("{name} '{text}' is no whole number: mend or remove the line"))
        };
        let ticks = number("Timestamp", time)?;
        let at = ticks.checked_mul(100).map(Nanos).ok_or_else(|| {
            format!("Timestamp {ticks} is beyond the year 2185: it counts 100 ns since 1601")
        })?;
        let (offset, size) = (number("Offset", offset)?, number("Size", size)?);
        if size == 0 || size > MOST {
            return Err(format!("Size {size}: 1 B to 1 GiB is believed; mend or remove the line"));
        }
        if offset > u64::MAX / 4 {
            return Err(format!("Offset {offset} lies on no drive: mend or remove the line"));
        }
        if !self.device.is_it(&format!("{host}.{disk}"))? {
            self.seen.skipped += 1;
            return Ok(None);
        }
        let (lpa, pages, aligned) = touched(offset, size);
        self.seen.unaligned += !aligned as u64;
        let op = match kind {
            "Read" => Op::Read(lpa, pages, WHAT),
            "Write" => Op::Write(lpa, Written::Unknown(pages), WHAT),
            _ => return Err(format!("Type '{kind}': there are Read and Write")),
        };
        Ok(Some(Event { at, op, refused: false, nth: self.lines.nth }))
    }
}

impl Source for Msr {
    fn next_event(&mut self) -> Result<Option<Event>, LabError> {
        while self.lines.advance()? {
            if self.lines.nth == 1 && self.lines.text.trim_start().starts_with("Timestamp,") {
                continue;
            }
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

#[cfg(test)]
mod tests {
    use super::super::tests::events;
    use super::super::{Choice, Written};
    use super::*;
    use granary_units::Lpa;

    const LINE: &str = "128166372003061629,hm,1,Read,383496192,32768,59\n";

    #[test]
    fn offsets_become_pages_and_ticks_nanoseconds() {
        let text = format!("{FIELDS}\n{LINE}128166372003061630,hm,1,Write,512,4096,59\n");
        let (events, seen) = events(&text, &Choice::default()).expect("good");
        assert_eq!(events[0].op, Op::Read(Lpa(93627), 8, WHAT));
        assert_eq!(events[1].op, Op::Write(Lpa(0), Written::Unknown(2), WHAT));
        assert_eq!((events[1].at - events[0].at, events[1].nth), (Nanos(100), 3));
        assert_eq!((seen.unaligned, seen.position), (1, text.len() as u64));
    }

    #[test]
    fn a_bad_line_is_named_with_what_to_do() {
        let choice = Choice { format: Some(super::super::Format::Msr), ..Choice::default() };
        for (bad, word) in [
            ("128166372003061629,hm,1,Read,383496192,32768\n", "6 fields instead of the 7"),
            ("x,hm,1,Read,383496192,32768,59\n", "Timestamp 'x'"),
            ("1,hm,1,Peek,383496192,32768,59\n", "there are Read and Write"),
            ("1,hm,1,Read,-1,32768,59\n", "Offset '-1'"),
            ("1,hm,1,Read,0,0,59\n", "Size 0"),
            ("1,hm,1,Read,18446744073709551615,512,59\n", "lies on no drive"),
            ("999999999999999999,hm,1,Read,0,512,59\n", "year 2185"),
            ("1,hm,2,Read,0,512,59\n", "--device hm.2"),
        ] {
            let said = events(&format!("{LINE}{bad}"), &choice).expect_err("refused");
            assert!(said.starts_with("t:2: ") && said.contains(word), "{word}: {said}");
        }
    }

    #[test]
    fn one_device_of_several_can_be_chosen() {
        let choice = Choice { device: Some("usr.0".into()), ..Choice::default() };
        let (events, seen) = events(&format!("{LINE}1,usr,0,Write,0,4096,59\n"), &choice).expect("good");
        assert_eq!((events.len(), seen.skipped), (1, 1));
    }
}
