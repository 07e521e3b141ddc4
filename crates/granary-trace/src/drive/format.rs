//! [`Format`]: the formats of traces, how each is recognised, and who reads it.
//!
//! Invariant: a format is found by lines that its own reader takes, so what is found can be read. Where two
//! formats differ in nothing but whether a time is whole (DiskSim, MQSim), all lines that are looked at
//! decide.

use super::event::Source;
use super::rows::{Layout, Rows};
use super::{alibaba, blkparse, disksim, fiu, iolog, mqsim, msr, native, spc, tencent};
use std::io::{BufReader, Read};

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

/// Formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Granary's own record.
    Granary,
    /// MSR-Cambridge CSV.
    Msr,
    /// Text of blkparse in its default format.
    Blkparse,
    /// Output of fio's `write_iolog`.
    Iolog,
    /// SPC: the UMass Trace Repository.
    Spc,
    /// Alibaba's block traces.
    Alibaba,
    /// Tencent's block traces.
    Tencent,
    /// FIU's traces.
    Fiu,
    /// DiskSim's ASCII traces.
    Disksim,
    /// ASCII traces of MQSim and SSDSim.
    Mqsim,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 10] = [
        Format::Granary,
        Format::Msr,
        Format::Blkparse,
        Format::Iolog,
        Format::Spc,
        Format::Alibaba,
        Format::Tencent,
        Format::Fiu,
        Format::Disksim,
        Format::Mqsim,
    ];

    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Format::Granary => "granary",
            Format::Msr => "msr",
            Format::Blkparse => "blkparse",
            Format::Iolog => "iolog",
            Format::Spc => "spc",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Fiu => "fiu",
            Format::Disksim => "disksim",
            Format::Mqsim => "mqsim",
        }
    }

    /// An example of its lines, or a description.
    pub fn about(self) -> String {
        match self {
            Format::Granary => "made with --record".to_owned(),
            Format::Blkparse => "blkparse's text, 8,0 3 1 0.000000000 697 D W 223490 + 8 [name]".to_owned(),
            Format::Iolog => "fio's write_iolog, versions 2 and 3".to_owned(),
            Format::Msr
            | Format::Spc
            | Format::Alibaba
            | Format::Tencent
            | Format::Fiu
            | Format::Disksim
            | Format::Mqsim => {
                let layout = self.layout().expect("has columns");
                layout.columns.join(if layout.is_spaced() { " " } else { "," })
            }
        }
    }

    /// The names of all, for messages.
    pub fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    /// From its name.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|f| f.name() == name)
    }

    /// The layout of what has one access a line, in columns.
    fn layout(self) -> Option<&'static Layout> {
        Some(match self {
            Format::Msr => &msr::LAYOUT,
            Format::Spc => &spc::LAYOUT,
            Format::Alibaba => &alibaba::LAYOUT,
            Format::Tencent => &tencent::LAYOUT,
            Format::Fiu => &fiu::LAYOUT,
            Format::Disksim => &disksim::LAYOUT,
            Format::Mqsim => &mqsim::LAYOUT,
            Format::Granary | Format::Blkparse | Format::Iolog => return None,
        })
    }

    fn looks_like(self, line: &str) -> bool {
        match self {
            Format::Granary => false,
            Format::Blkparse => blkparse::looks_like(line),
            Format::Iolog => iolog::looks_like(line),
            _ => self.layout().is_some_and(|layout| layout.looks_like(line)),
        }
    }

    /// From the first bytes of a trace.
    pub(super) fn of(head: &[u8]) -> Option<Format> {
        if head.starts_with(native::MAGIC) {
            return Some(Format::Granary);
        }
        let text = String::from_utf8_lossy(head);
        let text = text.trim_start_matches('\u{feff}');
        let found = text.lines().find_map(|line| Format::ALL.into_iter().find(|f| f.looks_like(line)))?;
        // A whole number of milliseconds is one of nanoseconds, too; the first line of a trace is often at 0.
        let by_time = [Format::Disksim, Format::Mqsim];
        if by_time.contains(&found) {
            let mut lines = text.lines().filter(|line| Format::Disksim.looks_like(line));
            return Some(by_time[usize::from(lines.all(|line| Format::Mqsim.looks_like(line)))]);
        }
        Some(found)
    }

    /// The reader of a trace of this format, called `name`, but for a Granary record.
    pub(super) fn reader(
        self,
        name: &str,
        input: BufReader<Box<dyn Read>>,
        choice: &Choice,
    ) -> Result<Box<dyn Source>, BufReader<Box<dyn Read>>> {
        let device = choice.device.clone();
        Ok(match (self, self.layout()) {
            (_, Some(layout)) => Box::new(Rows::new(name, input, layout, device)),
            (Format::Blkparse, _) => Box::new(blkparse::Blkparse::new(name, input, choice.event, device)),
            (Format::Iolog, _) => Box::new(iolog::Iolog::new(name, input, device)),
            _ => return Err(input),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised() {
        for (format, text) in [
            (Format::Msr, "128166372003061629,hm,1,Read,383496192,32768,59\n"),
            (Format::Msr, "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n"),
            (Format::Msr, "\u{feff}timestamp\thostname\tdisknumber\ttype\toffset\tsize\tresponsetime\n"),
            (Format::Blkparse, "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kj]\n"),
            (Format::Blkparse, "Input file sda.blktrace.0 added\n8,0 3 1 0.0 697 Q W 2 + 8 [kj]\n"),
            (Format::Granary, "GRNYTRAC...."),
            (Format::Iolog, "fio version 3 iolog\n0 /dev/sda add\n"),
            (Format::Spc, "0,20941264,8192,W,0.551706\n"),
            (Format::Spc, "0,20941264,8192,r,7\n"),
            (Format::Alibaba, "419,W,8792731648,16384,1577808144360767\n"),
            (Format::Tencent, "1538323200,12910952,128,0,1063\n"),
            (Format::Fiu, "0 4892 syslogd 904265560 8 W 6 0 531e779e5cd8ea4ad6a5f2dd4e7ba9d1\n"),
            (Format::Disksim, "13.191135 30 576560 6 1\n"),
            (Format::Disksim, "0 30 576560 6 1\n13.5 30 576560 6 1\n"),
            (Format::Mqsim, "0 30 576560 6 1\n1030530 30 576560 6 1\n"),
        ] {
            assert_eq!(Format::of(text.as_bytes()), Some(format), "{text}");
        }
        for text in ["hello\n", "", "1,2,3\n", "0 30 x 6 1\n"] {
            assert_eq!(Format::of(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_format_has_its_name() {
        for format in Format::ALL {
            assert_eq!(Format::named(format.name()), Some(format));
            assert!(!format.about().is_empty());
        }
    }
}
