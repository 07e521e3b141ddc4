//! Traces: the calls of a host to a drive, one by one, from other machines or from a run of our own.
//!
//! ```text
//!   columns (rows.rs): msr, spc, alibaba, tencent, fiu, disksim, mqsim ─┐ lines
//!   columns (rows.rs): msr, spc, alibaba, tencent, fiu, disksim, mqsim ─┐ lines
//!   blkparse text (blkparse.rs), fio's iolog (iolog.rs) ────────────────┼──> Event { at, op } ──> replay
//!   Granary record (native.rs) ─────────────────────────────────────────┘ calls of a Drive        on a Drive
//!                                                    format.rs: which one it is
//! ```
//!
//! Block traces have offsets in bytes or sectors of 512 B, the drive has pages of 4 KiB: a read or write
//! takes all pages that it touches, a trim those that it covers. Their content is not known: a write brings a
//! repeated word.
//!
//! A trace is read as a stream: a line at a time, never the whole.

mod alibaba;
pub mod blkparse;
mod disksim;
mod event;
mod fiu;
mod format;
mod iolog;
mod lines;
mod mqsim;
mod msr;
pub mod native;
mod rows;
mod spc;
mod tencent;

pub use event::{Content, Event, FileBlock, Op, Phase, Piece, Seen, Source, Written};
pub use format::{Choice, Format};

use crate::error::TraceError;
use lines::bad;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// A trace that is open.
pub struct Trace {
    /// Its format.
    pub format: Format,
    /// Header of a Granary record.
    pub header: Option<native::Header>,
    /// Its events.
    pub source: Box<dyn Source>,
    /// Length in bytes, 0 where it is not known.
    pub bytes: u64,
}

/// Opens a trace: a file, or standard input as `-`.
///
/// # Errors
/// No such file, a format that is not recognised.
pub fn open(path: &Path, choice: &Choice) -> Result<Trace, TraceError> {
    let name = path.display().to_string();
    let io = |source| TraceError::Io { what: format!("reading {name}"), source };
    if path.as_os_str() == "-" {
        return read(&name, Box::new(std::io::stdin()), 0, choice);
    }
    let file = std::fs::File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    read(&name, Box::new(file), bytes, choice)
}

/// Reads a trace called `name` of `bytes` bytes.
///
/// # Errors
/// A format that is not recognised.
pub fn read(name: &str, input: Box<dyn Read>, bytes: u64, choice: &Choice) -> Result<Trace, TraceError> {
    let mut input = BufReader::with_capacity(1 << 18, input);
    let head =
        input.fill_buf().map_err(|source| TraceError::Io { what: format!("reading {name}"), source })?;
    if let Some(instead) = other_than_a_trace(head) {
        return Err(bad(name, 1, instead));
    }
    let Some(format) = choice.format.or_else(|| Format::of(&head[..head.len().min(1 << 16)])) else {
        let known = Format::ALL.map(|f| format!("{} ({})", f.name(), f.about())).join("; ");
        return Err(bad(
            name,
            1,
            format!("no line is one of a known format: look at the file, or say --format; known are {known}"),
        ));
    };
    let (source, header) = match format.reader(name, input, choice) {
        Ok(source) => (source, None),
        Err(input) => {
            let reader = native::Reader::new(name, input)?.take_cut(choice.cut);
            let header = reader.header().clone();
            (Box::new(reader) as Box<dyn Source>, Some(header))
        }
    };
    Ok(Trace { format, header, source, bytes })
}

/// The remedy for a file that no reader can read as it is.
fn other_than_a_trace(head: &[u8]) -> Option<&'static str> {
    let begins = |with: &[&[u8]]| with.iter().any(|w| head.starts_with(w));
    // The second is zstd's (RFC 8878, "Zstandard Frames").
    if begins(&[b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"7z\xbc\xaf"]) {
        return Some("the file is compressed: unpack it, for example `zcat FILE | granary drive replay -`");
    }
    if begins(&[b"\xff\xfe", b"\xfe\xff"]) {
        return Some(
            "the file is text in UTF-16: turn it into UTF-8, `iconv -f UTF-16 -t UTF-8 FILE | granary drive replay -`",
        );
    }
    // BLK_IO_TRACE_MAGIC and a version, of either byte order (Linux, include/uapi/linux/blktrace_api.h).
    if head.len() > 4 && (head[1..4] == *b"tae" || head[..3] == *b"eat") {
        return Some(
            "the file is binary output of blktrace: print it as text, `blkparse -i FILE | granary drive replay -`",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn events(text: &str, choice: &Choice) -> Result<(Vec<Event>, Seen), String> {
        let input: Box<dyn Read> = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let mut trace = read("t", input, text.len() as u64, choice).map_err(|e| e.to_string())?;
        let mut out = Vec::new();
        while let Some(e) = trace.source.next_event().map_err(|e| e.to_string())? {
            out.push(e);
        }
        Ok((out, trace.source.seen()))
    }

    #[test]
    fn what_is_no_trace_is_refused_with_what_to_do() {
        let why = |text: &str| events(text, &Choice::default()).expect_err("refused");
        assert!(why("hello\n").contains("--format"));
        assert!(why("\x1f\x00").contains("--format"));
        assert!(Format::ALL.iter().all(|f| why("hello\n").contains(f.name())), "all formats are named");
        assert!(why("").contains("known format"));
        for (head, word) in [
            (&b"\x1f\x8b\x08"[..], "zcat"),
            (b"\x28\xb5\x2f\xfd..", "unpack"),
            (b"\xff\xfe1\0", "iconv"),
            (b"\x07tae.....", "blkparse -i"),
            (b"eat\x07.....", "blkparse -i"),
        ] {
            let input: Box<dyn Read> = Box::new(std::io::Cursor::new(head.to_vec()));
            let Err(e) = read("t", input, 3, &Choice::default()) else { panic!("refused") };
            assert!(e.to_string().contains(word), "{e}");
        }
    }

    #[test]
    fn any_text_is_read_or_refused() {
        let mut random = granary_sim::rng::Stream::new(1, "trace text");
        let alphabet: Vec<char> = "0189,. +-:[]QDRWFN\n\tTimestampRead\u{fe}".chars().collect();
        for _ in 0..2000 {
            let text: String = (0..random.below(120))
                .map(|_| alphabet[random.below(alphabet.len() as u64) as usize])
                .collect();
            for format in Format::ALL {
                // The result does not matter, but nothing may panic.
                let _ = events(&text, &Choice { format: Some(format), ..Choice::default() });
            }
            let _ = events(&format!("fio version 2 iolog\n{text}"), &Choice::default());
        }
    }
}
