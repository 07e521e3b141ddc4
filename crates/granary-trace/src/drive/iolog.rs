//! [`Iolog`]: what fio writes with `write_iolog`, versions 2 and 3.
//!
//! ```text
//!   fio version 2 iolog                    fio version 3 iolog
//!   /dev/sda add                           0 /dev/sda add
//!   /dev/sda open                          0 /dev/sda open
//!   /dev/sda read 4096 8192                12 /dev/sda read 4096 8192       us since the start
//!   /dev/sda wait 500 0                    512 /dev/sda sync 0 0
//!   name     action, offset and bytes      --device /dev/sda
//! ```
//!
//! Actions are read, write, trim, sync and datasync (a flush), and in version 2 wait, for so many
//! microseconds since the line before. A version 2 log without any says no time: all of it is stamped 0.
//!
//! It does *not* leave out waits below 100 us, as the manual has it: fio's `read_iolog` does not either.
//!
//! Source: fio's HOWTO, "Trace file format v2" and "v3"; `log_io_u` (the unit of the stamps is microseconds).

use super::event::{Event, Op, Seen, Source, Written};
use super::lines::{Device, Lines, covered, touched};
use crate::error::TraceError;
use granary_device::Structure;
use granary_units::Nanos;
use std::io::{BufReader, Read};

const WHAT: Structure = Structure::Data;
/// Largest read or write that is believed, bytes.
const MOST: u64 = 1 << 30;
/// Farthest byte that is believed.
const FARTHEST: u64 = u64::MAX / 4;
/// Longest wait that is believed, microseconds: a year.
const LONGEST: u64 = 366 * 86_400 * 1_000_000;

/// The version, if this is the first line of such a log.
fn version(line: &str) -> Option<u32> {
    let version = line.trim().strip_prefix("fio version ")?.strip_suffix(" iolog")?;
    version.parse().ok()
}

/// Whether a line may be the first one of such a log.
pub(super) fn looks_like(line: &str) -> bool {
    version(line).is_some()
}

/// Reader of such a log.
pub struct Iolog {
    lines: Lines,
    version: Option<u32>,
    device: Device,
    seen: Seen,
    /// Version 2: all waits so far.
    now: Nanos,
}

impl Iolog {
    /// Reads `input`, called `file`; only the file `device`, where given.
    pub fn new(file: &str, input: BufReader<Box<dyn Read>>, device: Option<String>) -> Iolog {
        let (lines, device) = (Lines::new(file, input), Device::new(device));
        Iolog { lines, version: None, device, seen: Seen::default(), now: Nanos::ZERO }
    }

    fn parse(&mut self) -> Result<Option<Event>, String> {
        let text = self.lines.text.trim();
        let Some(of) = self.version else {
            self.version = Some(match version(text) {
                Some(v @ (2 | 3)) => v,
                Some(v) => return Err(format!("version {v} of fio's iolog: versions 2 and 3 are read")),
                None => {
                    return Err("the first line of an iolog is `fio version 2 iolog` or `fio version 3 iolog`: look at \
                                --format"
                        .to_owned());
                }
            });
            self.seen.untimed = self.version == Some(2);
            return Ok(None);
        };
        let number = |name: &str, text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("{name} '{text}' is no whole number: mend or remove the line"))
        };
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let at = match of {
            2 => self.now,
            _ if words.is_empty() => Nanos::ZERO,
            _ => number("time stamp", words.remove(0))?
                .checked_mul(1000)
                .map(Nanos)
                .ok_or("the time stamp is beyond 584 years: it counts microseconds")?,
        };
        let (name, action, offset, len) = match words[..] {
            [_, "add" | "open" | "close"] => return Ok(None),
            [name, action, offset, len] => (name, action, number("offset", offset)?, number("length", len)?),
            _ => {
                let wanted =
                    if of == 2 { "NAME ACTION OFFSET LENGTH" } else { "TIME NAME ACTION OFFSET LENGTH" };
                return Err(format!("no line of an iolog of version {of} ({wanted}): mend or remove it"));
            }
        };
        if action == "wait" {
            if of != 2 {
                return Err("version 3 has no wait, but time stamps: mend or remove the line".to_owned());
            }
            if offset > LONGEST {
                return Err(format!(
                    "a wait of {offset} us: up to a year is believed; mend or remove the line"
                ));
            }
            let sum = self.now.0.checked_add(offset * 1000);
            self.now = sum.map(Nanos).ok_or("all waits are beyond 584 years: mend or remove some")?;
            self.seen.untimed = false;
            return Ok(None);
        }
        if !self.device.is_it(name)? {
            self.seen.skipped += 1;
            return Ok(None);
        }
        if offset > FARTHEST || len > FARTHEST || len > MOST && action != "trim" {
            return Err(format!("{len} bytes at {offset}: that lies on no drive; mend or remove the line"));
        }
        let op = match action {
            "sync" | "datasync" => Op::Flush,
            "read" | "write" | "trim" if len == 0 => {
                self.seen.skipped += 1;
                return Ok(None);
            }
            "read" | "write" => {
                let (lpa, pages, aligned) = touched(offset, len);
                self.seen.unaligned += !aligned as u64;
                match action {
                    "read" => Op::Read(lpa, pages, WHAT),
                    _ => Op::Write(lpa, Written::Unknown(pages), WHAT),
                }
            }
            "trim" => {
                let (lpa, pages) = covered(offset, len);
                if pages == 0 {
                    self.seen.small_trims += 1;
                    return Ok(None);
                }
                Op::Trim(lpa, pages)
            }
            _ => {
                return Err(format!(
                    "action '{action}': there are read, write, trim, sync, datasync, wait, add, open and close"
                ));
            }
        };
        Ok(Some(Event { at, op, refused: false, nth: self.lines.nth }))
    }
}

impl Source for Iolog {
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

#[cfg(test)]
mod tests {
    use super::super::Choice;
    use super::super::tests::events;
    use super::*;
    use granary_units::Lpa;

    const V2: &str = "fio version 2 iolog\n/d add\n/d open\n/d read 4096 8192\n/d wait 500 0\n/d write 0 4096\n/d sync 0 0\n\
                      /d wait 20 0\n/d datasync 0 0\n/d trim 4096 12288\n/d close\n";
    const V3: &str = "fio version 3 iolog\n0 /d add\n0 /d open\n0 /d read 4096 8192\n500 /d write 0 4096\n500 /d sync 0 0\n\
                      520 /d datasync 0 0\n520 /d trim 4096 12288\n521 /d close\n";

    #[test]
    fn both_versions_say_the_same() {
        let read = |text: &str| {
            let (events, seen) = events(text, &Choice::default()).expect("good");
            assert!(!seen.untimed);
            events.into_iter().map(|e| (e.at.0, e.op)).collect::<Vec<_>>()
        };
        assert_eq!(
            read(V2),
            [
                (0, Op::Read(Lpa(1), 2, WHAT)),
                (500_000, Op::Write(Lpa(0), Written::Unknown(1), WHAT)),
                (500_000, Op::Flush),
                (520_000, Op::Flush),
                (520_000, Op::Trim(Lpa(1), 3)),
            ]
        );
        assert_eq!(read(V2), read(V3));
    }

    #[test]
    fn a_log_that_says_no_time_is_known_as_such() {
        let (_, seen) = events("fio version 2 iolog\n/d read 0 4096\n", &Choice::default()).expect("good");
        assert!(seen.untimed);
    }

    #[test]
    fn a_bad_line_is_named_with_what_to_do() {
        for (head, bad, word) in [
            ("fio version 2 iolog", "/d read 4096\n", "NAME ACTION OFFSET LENGTH"),
            ("fio version 2 iolog", "/d peek 0 4096\n", "there are read, write"),
            ("fio version 2 iolog", "/d read x 4096\n", "offset 'x'"),
            ("fio version 2 iolog", "/d wait 99999999999999999 0\n", "up to a year"),
            ("fio version 2 iolog", "/d read 0 99999999999\n", "lies on no drive"),
            ("fio version 3 iolog", "/d read 0 4096\n", "time stamp '/d'"),
            ("fio version 3 iolog", "1 /d wait 10 0\n", "version 3 has no wait"),
            ("fio version 3 iolog", "99999999999999999 /d read 0 1\n", "584 years"),
        ] {
            let said = events(&format!("{head}\n{bad}"), &Choice::default()).expect_err("refused");
            assert!(said.starts_with("t:2: ") && said.contains(word), "{word}: {said}");
        }
        let said = events("fio version 4 iolog\n", &Choice::default()).expect_err("refused");
        assert!(said.contains("versions 2 and 3 are read"), "{said}");
        let said = events(&format!("{V3}530 /e read 0 4096\n"), &Choice::default()).expect_err("two files");
        assert!(said.contains("--device /e"), "{said}");
    }
}
