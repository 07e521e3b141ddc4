//! [`Line`]: one line of a trace, in either format.

use super::Call;

/// Largest access that is believed: more is a damaged line.
const MOST: u64 = 1 << 30;
/// Largest place that is believed: 1 PiB, as of fio's job files.
const FARTHEST: u64 = 1 << 50;
/// Bytes of a sector.
const SECTOR: u64 = 512;

/// Which of the two formats a trace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// System calls on files.
    Files,
    /// Accesses of drives.
    Blocks,
}

/// Content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub call: Call,
    /// The inode, or major and minor number of the device.
    pub file: (u64, u64),
    /// Bytes that the file had before.
    pub size: u64,
    pub offset: u64,
    pub len: u64,
}

const FILES: &str = "seq ts operation inode inode-size [offset bytes HIT|MISS|APPEND]";
const BLOCKS: &str = "ts pid process lba size R|W major minor md5";

impl Format {
    /// The format of a trace whose first record is in these columns.
    pub fn of(columns: &[&str]) -> Option<Format> {
        if columns.get(2).is_some_and(|c| call(c).is_some()) && columns.len() != 9 {
            return Some(Format::Files);
        }
        let is_access = |c: &&str| c.eq_ignore_ascii_case("R") || c.eq_ignore_ascii_case("W");
        (columns.len() >= 8 && columns.get(5).is_some_and(is_access)).then_some(Format::Blocks)
    }

    /// Reads the columns of a line.
    ///
    /// # Errors
    /// The mistake in the line.
    pub fn read(self, columns: &[&str]) -> Result<Line, String> {
        let line = match self {
            Format::Files => of_files(columns)?,
            Format::Blocks => of_blocks(columns)?,
        };
        if line.len > MOST {
            return Err(format!("{} bytes: up to 1 GiB is believed; mend or remove the line", line.len));
        }
        if line.offset.saturating_add(line.len).max(line.size) > FARTHEST {
            return Err("it lies beyond 1 PiB: mend or remove the line".to_owned());
        }
        Ok(line)
    }
}

/// The message about a first line that has neither format.
pub(super) fn neither() -> String {
    format!("is no record of an FIU trace, which are `{FILES}` (files) or `{BLOCKS}` (blocks)")
}

fn call(text: &str) -> Option<Call> {
    Call::ALL.into_iter().find(|call| call.name().eq_ignore_ascii_case(text))
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{name} '{text}' is no whole number: mend or remove the line"))
}

fn fields(columns: &[&str], least: usize, most: usize, what: &str) -> Result<(), String> {
    if (least..=most).contains(&columns.len()) {
        return Ok(());
    }
    Err(format!("{} fields instead of those of `{what}`: mend or remove the line", columns.len()))
}

fn of_files(columns: &[&str]) -> Result<Line, String> {
    fields(columns, 5, 8, FILES)?;
    number("seq", columns[0])?;
    number("ts", columns[1])?;
    let call = call(columns[2]).ok_or_else(|| {
        format!("operation '{}': there are READ, WRITE, OPEN, CLOSE, FSYNC and FDATASYNC", columns[2])
    })?;
    let (file, size) = ((number("inode", columns[3])?, 0), number("inode-size", columns[4])?);
    let mut line = Line { call, file, size, offset: 0, len: 0 };
    if matches!(call, Call::Read | Call::Write) {
        // Accesses of ZFS have no last column.
        fields(columns, 7, 8, FILES)?;
        (line.offset, line.len) = (number("offset", columns[5])?, number("bytes", columns[6])?);
        let known = ["HIT", "MISS", "APPEND"];
        if let Some(other) = columns.get(7).filter(|c| !known.iter().any(|k| k.eq_ignore_ascii_case(c))) {
            return Err(format!("'{other}': there are HIT, MISS and APPEND"));
        }
    }
    Ok(line)
}

fn of_blocks(columns: &[&str]) -> Result<Line, String> {
    // More digests may follow the first.
    fields(columns, 8, usize::MAX, BLOCKS)?;
    number("ts", columns[0])?;
    number("pid", columns[1])?;
    let sectors = |name, text| {
        let bytes = number(name, text)?.checked_mul(SECTOR);
        bytes.ok_or_else(|| format!("{name} {text} lies on no drive: mend or remove the line"))
    };
    let (offset, len) = (sectors("lba", columns[3])?, sectors("size", columns[4])?);
    let call = match columns[5] {
        t if t.eq_ignore_ascii_case("R") => Call::Read,
        t if t.eq_ignore_ascii_case("W") => Call::Write,
        other => return Err(format!("type '{other}': there are R and W")),
    };
    let file = (number("major", columns[6])?, number("minor", columns[7])?);
    Ok(Line { call, file, size: 0, offset, len })
}
