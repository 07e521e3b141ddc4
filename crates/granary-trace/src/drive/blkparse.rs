//! [`Blkparse`]: block traces of Linux, as `blkparse` prints them by default.
//!
//! ```text
//!     8,0    3        1     0.000000000   697  D   W 223490 + 8 [kjournald]
//!     device CPU      no.   seconds       PID  |   |  sector, sectors of 512 B
//!     --device 8,0                             |   R read, W write, D discard, F first: flush; others: no
//!                                                  access
//!                                              Q queued, D given to the driver, others skipped
//!     FWS             a flush without data                 WFS 8 + 8       a write (F behind the W: FUA)
//!     FWFSM 8 + 8     a flush, then the write: two accesses of one line
//!     R 96 (12 00 ..) a command that passes the block layer by (SCSI, ATA, NVMe): bytes and the command,
//!                     no sectors
//! ```
//!
//! The first F is REQ_PREFLUSH, the one behind the letter of the operation REQ_FUA (`blk_fill_rwbs`). A block
//! layer that takes such a write apart shows it whole as `Q`; a driver that gets it whole shows it as `D`,
//! too.
//!
//! `D` is the default: these are the commands that the drive saw, after merging, in the order and at the time
//! that it saw them. Devices without a driver of their own (device mapper, md) have no `D` events: take `Q`
//! there.
//!
//! Commands that pass the block layer by (an inquiry, a SMART query) have a number of bytes, but no place:
//! they are left out and counted.
//!
//! The summary that blkparse prints after the events is skipped. Source: blkparse(1), "Output" and "Default
//! output"; `process_default` of blkparse (lines of packet commands).

use super::event::{Event, Op, Seen, Source, Written};
use super::lines::{Device, Lines, SECTOR, covered, decimal, touched};
use crate::error::TraceError;
use granary_device::Structure;
use std::io::{BufReader, Read};

const WHAT: Structure = Structure::Data;
/// Largest access that is believed, in sectors: a discard of 16 TiB.
const MOST: u64 = 1 << 35;

/// Which events count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Given to the driver.
    #[default]
    Issued,
    /// Queued by the program or file system.
    Queued,
}

impl Action {
    /// Its letter.
    pub fn letter(self) -> &'static str {
        match self {
            Action::Issued => "D",
            Action::Queued => "Q",
        }
    }

    /// From its letter.
    pub fn named(letter: &str) -> Option<Action> {
        [Action::Issued, Action::Queued].into_iter().find(|a| a.letter() == letter)
    }
}

/// Device, action and whatever follows of a line, if it begins as an event does.
fn event_of(line: &str) -> Option<(&str, &str, &str, std::str::SplitWhitespace<'_>)> {
    let mut words = line.split_whitespace();
    let device = words.next()?;
    let (major, minor) = device.split_once(',')?;
    let is_number = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit());
    if !is_number(major) || !is_number(minor) {
        return None;
    }
    let (cpu, no, time, pid, action) =
        (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    let is_time = time.split_once('.').is_some_and(|(s, n)| is_number(s) && is_number(n));
    (is_number(cpu) && is_number(no) && is_time && is_number(pid)).then_some((device, time, action, words))
}

/// Whether a line may be one of such a trace.
pub(super) fn looks_like(line: &str) -> bool {
    event_of(line).is_some()
}

/// Reader of such a trace.
pub struct Blkparse {
    lines: Lines,
    action: Action,
    device: Device,
    seen: Seen,
    events: u64,
    /// The write behind the flush that was just handed out.
    behind: Option<Event>,
    /// The summary has begun.
    done: bool,
}

impl Blkparse {
    /// Reads `input`, called `file`; events of `action` on `device`, where given.
    pub fn new(
        file: &str,
        input: BufReader<Box<dyn Read>>,
        action: Action,
        device: Option<String>,
    ) -> Blkparse {
        let (lines, device) = (Lines::new(file, input), Device::new(device));
        Blkparse { lines, action, device, seen: Seen::default(), events: 0, behind: None, done: false }
    }

    fn parse(&mut self) -> Result<Option<Event>, String> {
        let Some((device, time, action, mut words)) = event_of(&self.lines.text) else {
            return Err("no event of blkparse's default format (8,0 3 1 0.000000000 697 D W 223490 + 8 [name]): remove the \
                        line, or run blkparse without -f"
                .to_owned());
        };
        if action != self.action.letter() {
            self.seen.skipped += 1;
            return Ok(None);
        }
        let at = decimal(time, 1_000_000_000).ok_or_else(|| format!("time {time} is out of range"))?;
        let kind =
            words.next().ok_or("the line ends before what it does (R, W, D, F...): mend or remove it")?;
        let sectors = match words.next() {
            Some(first) if first.bytes().all(|b| b.is_ascii_digit()) => {
                let bad = || "after the sector a '+' and the number of sectors is expected: mend or remove the line";
                match words.next() {
                    Some("+") => {}
                    // Bytes, the command's own bytes in brackets, the program: no sectors.
                    Some(next) if next.starts_with(['(', '[']) => {
                        let counts = self.device.is_it(device)?;
                        *if counts { &mut self.seen.passed_through } else { &mut self.seen.skipped } += 1;
                        return Ok(None);
                    }
                    _ => return Err(bad().to_owned()),
                }
                let sector: u64 = first.parse().map_err(|_| bad())?;
                let n: u64 = words.next().and_then(|n| n.parse().ok()).ok_or_else(bad)?;
                if n > MOST || sector > u64::MAX / SECTOR / 4 {
                    return Err(format!(
                        "{n} sectors from {sector} on lie on no drive: mend or remove the line"
                    ));
                }
                Some((sector * SECTOR, n * SECTOR)).filter(|_| n > 0)
            }
            _ => None,
        };
        if !self.device.is_it(device)? {
            self.seen.skipped += 1;
            return Ok(None);
        }
        let op = match sectors {
            Some((offset, len)) if kind.contains('D') => {
                let (lpa, pages) = covered(offset, len);
                if pages == 0 {
                    self.seen.small_trims += 1;
                    return Ok(None);
                }
                Op::Trim(lpa, pages)
            }
            Some((offset, len)) if kind.contains(['R', 'W']) => {
                let (lpa, pages, aligned) = touched(offset, len);
                self.seen.unaligned += !aligned as u64;
                if kind.contains('W') {
                    Op::Write(lpa, Written::Unknown(pages), WHAT)
                } else {
                    Op::Read(lpa, pages, WHAT)
                }
            }
            None if kind.starts_with('F') => Op::Flush,
            _ => {
                self.seen.skipped += 1;
                return Ok(None);
            }
        };
        self.events += 1;
        let event = Event { at, op, refused: false, nth: self.lines.nth };
        if kind.starts_with('F') && matches!(event.op, Op::Write(..)) {
            let flush = Event { op: Op::Flush, ..event };
            self.behind = Some(event);
            return Ok(Some(flush));
        }
        Ok(Some(event))
    }
}

impl Source for Blkparse {
    fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        if let Some(write) = self.behind.take() {
            return Ok(Some(write));
        }
        while !self.done && self.lines.advance()? {
            let line = self.lines.text.trim_start();
            if line.starts_with("Input file") {
                continue;
            }
            if ["CPU", "Total", "Reads", "Throughput"].iter().any(|w| line.starts_with(w)) {
                self.done = true;
                break;
            }
            if let Some(event) = self.parse().map_err(|m| self.lines.bad(m))? {
                return Ok(Some(event));
            }
        }
        if self.events == 0 && self.seen.skipped > 0 && self.seen.passed_through == 0 {
            let (have, other) = match self.action {
                Action::Issued => ("D", "Q"),
                Action::Queued => ("Q", "D"),
            };
            return Err(self.lines.bad(format!(
                "no {have} event of this device in {} lines: try --event {other}, or look at --device",
                self.lines.nth
            )));
        }
        Ok(None)
    }

    fn nothing(&self) -> String {
        match self.seen.passed_through {
            0 => self.device.nothing(),
            n => format!(
                "there are {n} commands that pass the block layer by (SCSI, ATA, NVMe), and no read or write"
            ),
        }
    }

    fn seen(&self) -> Seen {
        Seen { position: self.lines.position, ..self.seen }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::events;
    use super::super::{Choice, Format};
    use super::*;
    use granary_units::Lpa;

    const TEXT: &str = "\
  8,0    3        1     0.000000000   697  Q   W 223488 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223488 + 8 [kjournald]
  8,0    3        3     0.000005999   697  P   N [kjournald]
  8,0    3        4     0.000010500   697  D   W 223488 + 8 [kjournald]
  8,0    3        5     0.000020000   697  D   R 9 + 16 [cp]
  8,0    3        6     0.5           697  D FWS [kjournald]
  8,0    3        7     1.000000000   697  D   D 1 + 31 [fstrim]
  8,0    3        8     1.000000001   697  D   D 8 + 7 [fstrim]
  8,0    3        9     2.000000000     0  C   W 223488 + 8 [0]
CPU3 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
";

    #[test]
    fn commands_given_to_the_driver_are_replayed() {
        let (events, seen) = events(TEXT, &Choice::default()).expect("good");
        let ops: Vec<(u64, Op)> = events.into_iter().map(|e| (e.at.0, e.op)).collect();
        assert_eq!(
            ops,
            [
                (10_500, Op::Write(Lpa(27936), Written::Unknown(1), WHAT)),
                (20_000, Op::Read(Lpa(1), 3, WHAT)),
                (500_000_000, Op::Flush),
                (1_000_000_000, Op::Trim(Lpa(1), 3)),
            ]
        );
        assert_eq!((seen.skipped, seen.unaligned, seen.small_trims), (4, 1, 1));
    }

    #[test]
    fn queued_requests_can_be_taken_instead() {
        let choice = Choice { event: Action::Queued, ..Choice::default() };
        let (events, _) = events(TEXT, &choice).expect("good");
        assert_eq!(events.len(), 1);
    }

    #[test]
    fn a_write_with_a_flush_before_it_is_two_accesses() {
        for event in [Action::Issued, Action::Queued] {
            let of = |rest: &str| {
                let text = format!("8,0 3 1 0.000000007 697 {} {rest} [x]\n", event.letter());
                let choice = Choice { format: Some(Format::Blkparse), event, ..Choice::default() };
                let (events, seen) = events(&text, &choice).expect("good");
                assert_eq!((seen.skipped, seen.unaligned), (0, 0), "{rest}");
                assert!(events.iter().all(|e| (e.at.0, e.nth) == (7, 1)), "{rest}");
                events.into_iter().map(|e| e.op).collect::<Vec<Op>>()
            };
            let write = || Op::Write(Lpa(1), Written::Unknown(1), WHAT);
            for both in ["FWFSM 8 + 8", "FWS 8 + 8", "FW 8 + 8"] {
                assert_eq!(of(both), [Op::Flush, write()], "{both}");
            }
            for alone in ["WFSM 8 + 8", "WS 8 + 8"] {
                assert_eq!(of(alone), [write()], "{alone}");
            }
            for flush in ["FWS", "FF", "FN", "FF 0 + 0"] {
                assert_eq!(of(flush), [Op::Flush], "{flush}");
            }
        }
    }

    #[test]
    fn commands_that_pass_the_block_layer_by_are_left_out_and_counted() {
        let text = "\
  8,16   0        1     0.000100000  700  D   W 2048 + 8 [writer]
  8,16   0        2     0.001000000  701  D   R 96 (12 00 00 00 60 00 ..) [probe]
  8,16   0        3     0.002000000  702  D   N 0 (00 ..) [kworker/0:1]
  8,16   1        4     0.003000000  703  D   N 0 [nvme-tool]
  8,16   1        5     0.003500000  703  D   W 512 (85 06 2c 00 ..) [hdparm]
  8,16   0        6     0.004000000  700  D   R 2048 + 8 [reader]
";
        let (read, seen) = events(text, &Choice::default()).expect("good");
        let ops: Vec<Op> = read.into_iter().map(|e| e.op).collect();
        assert_eq!(ops, [Op::Write(Lpa(256), Written::Unknown(1), WHAT), Op::Read(Lpa(256), 1, WHAT)]);
        assert_eq!((seen.passed_through, seen.skipped), (4, 0));
        let queued = text.replace("  D  ", "  Q  ");
        let choice = Choice { event: Action::Queued, ..Choice::default() };
        assert_eq!(events(&queued, &choice).expect("good").1.passed_through, 4);
    }

    #[test]
    fn a_bad_line_is_named_with_what_to_do() {
        let choice = Choice { format: Some(Format::Blkparse), ..Choice::default() };
        let good = "8,0 3 1 0.000000000 697 D W 8 + 8 [x]\n";
        for (bad, word) in [
            ("8,0 3 1 0.0 697\n", "blkparse's default format"),
            ("8,0 3 1 0.0 697 D\n", "ends before"),
            ("8,0 3 1 0.0 697 D W 8 8 [x]\n", "'+'"),
            ("8,0 3 1 0.0 697 D W 8 + x [x]\n", "'+'"),
            ("8,0 3 1 0.0 697 D W 8 + 99999999999999 [x]\n", "lie on no drive"),
            ("8,0 3 1 99999999999999.0 697 D W 8 + 8 [x]\n", "out of range"),
            ("8,16 3 1 0.0 697 D W 8 + 8 [x]\n", "--device 8,16"),
        ] {
            let said = events(&format!("{good}{bad}"), &choice).expect_err("refused");
            assert!(said.starts_with("t:2: ") && said.contains(word), "{word}: {said}");
        }
        let said = events("8,0 3 1 0.0 697 Q W 8 + 8 [x]\n", &choice).expect_err("no D");
        assert!(said.contains("--event Q"), "{said}");
    }
}
