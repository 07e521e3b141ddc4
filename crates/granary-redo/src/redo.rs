//! [`Redo`]: the changes of one structure of a drive, as bytes to be put into `dram`; and how records look.
//!
//! ```text
//!   record   | place 5 B | length 3 B | bytes ... |
//!            place < 2^39         offset in `dram`
//!            then, for 2^32 of them   a flash page (place - 2^39), bytes = sequence 8, content 4096
//!            from 2^39 + 2^38 on  line of 64 B in `nvm`, whole lines from there
//! ```
//!
//! Records are physical: putting them a second time changes nothing, so that a redo log may be replayed from
//! any point before the first change that is missing. Each structure collects its own; the drive gathers them
//! at the end of each call into one group, which holds as a whole or not at all.

use super::files;
use super::long;
use granary_units::{LINE_SIZE, PAGE_SIZE};

/// Bytes of a record before its content.
const HEAD: usize = 8;
/// Places from here on are flash pages.
const FLASH: u64 = 1 << 39;
/// Places from here on are lines of NVM DIMMs.
const NVM: u64 = FLASH | 1 << 38;
/// Bytes of NVM DIMMs that places can name.
pub const MOST_NVM: u64 = (LINE_SIZE as u64) << 38;

/// Memories that byte records can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Battery-backed memory of the SSD.
    Dram,
    /// NVM DIMMs.
    Nvm,
}

impl Memory {
    /// All.
    pub const ALL: [Memory; 2] = [Memory::Dram, Memory::Nvm];

    /// The file that it is kept in.
    pub fn file(self) -> &'static str {
        match self {
            Memory::Dram => files::DRAM,
            Memory::Nvm => files::NVM,
        }
    }
}
/// Bytes of a record of a flash page after the head: sequence number and content.
const CONTENT: usize = 8 + PAGE_SIZE;

/// Changes not yet handed over.
#[derive(Clone, Default)]
pub struct Redo {
    base: u64,
    records: Vec<u8>,
}

impl Redo {
    /// For a structure whose zone begins at `base`.
    pub fn new(base: u64) -> Redo {
        Redo { base, records: Vec::new() }
    }

    /// The zone begins at `base` from now on; nothing waits.
    pub fn rebase(&mut self, base: u64) {
        assert!(self.records.is_empty(), "records that wait name the former place");
        self.base = base;
    }

    /// These bytes are now at `at` in the zone.
    #[inline]
    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        let head = (self.base + at) | (bytes.len() as u64) << 40;
        self.records.extend_from_slice(&head.to_le_bytes());
        self.records.extend_from_slice(bytes);
    }

    /// Bytes of records that wait.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none wait.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Takes over the records of another structure, behind its own.
    pub fn take(&mut self, other: &mut Redo) {
        self.records.append(&mut other.records);
    }

    /// Moves the records to the end of `out`.
    #[inline]
    pub fn drain_into(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.records);
        self.records.clear();
    }
}

/// Appends the record of whole lines of the DIMMs from `line` on, less than 16 MiB.
pub fn put_lines(line: u64, bytes: &[u8], out: &mut Vec<u8>) {
    let head = (NVM + line) | (bytes.len() as u64) << 40;
    out.extend_from_slice(&head.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Bytes before the content in the record of a flash page.
pub const CONTENT_HEAD: usize = HEAD + 8;
/// Bytes of the record of a flash page, a multiple of 8.
pub const CONTENT_RECORD: usize = CONTENT_HEAD + PAGE_SIZE;

/// Head of the record of a flash page, before the content.
pub fn content_head(ppa: u32, seq: u64) -> [u8; CONTENT_HEAD] {
    let head = (FLASH | ppa as u64) | (CONTENT as u64) << 40;
    let mut out = [0; CONTENT_HEAD];
    out[..HEAD].copy_from_slice(&head.to_le_bytes());
    out[HEAD..].copy_from_slice(&seq.to_le_bytes());
    out
}

/// Whether these records begin with a flash page.
pub fn is_content(records: &[u8]) -> bool {
    let head = long(records, 0);
    head & NVM == FLASH && head >> 40 == CONTENT as u64
}

/// A record read back.
#[derive(Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Bytes.
    Bytes {
        /// The memory.
        memory: Memory,
        /// First byte in it.
        at: u64,
        /// New bytes.
        bytes: &'a [u8],
    },
    /// Content of a flash page.
    Content {
        /// The page.
        ppa: u32,
        /// The program that wrote it.
        seq: u64,
        /// Where in the group its content is.
        at: usize,
        /// 4096 bytes.
        bytes: &'a [u8],
    },
}

/// Takes a group apart; `each` may fail.
///
/// # Errors
/// Those of `each`; a malformed record is `Err(None)`.
pub fn records<E>(whole: &[u8], mut each: impl FnMut(Record<'_>) -> Result<(), E>) -> Result<(), Option<E>> {
    let mut group = whole;
    while !group.is_empty() {
        if group.len() < HEAD {
            // The padding of the frame.
            return if group.iter().all(|&b| b == 0) { Ok(()) } else { Err(None) };
        }
        let head = long(group, 0);
        let (place, len) = (head & ((1 << 40) - 1), (head >> 40) as usize);
        let Some(bytes) = group.get(HEAD..HEAD + len) else { return Err(None) };
        group = &group[HEAD + len..];
        let record = if place < FLASH {
            Record::Bytes { memory: Memory::Dram, at: place, bytes }
        } else if place >= NVM && len.is_multiple_of(LINE_SIZE) {
            Record::Bytes { memory: Memory::Nvm, at: (place - NVM) * LINE_SIZE as u64, bytes }
        } else if len == CONTENT && place - FLASH <= u32::MAX as u64 {
            let at = whole.len() - group.len() - PAGE_SIZE;
            Record::Content { ppa: (place - FLASH) as u32, seq: long(bytes, 0), at, bytes: &bytes[8..] }
        } else {
            return Err(None);
        };
        each(record).map_err(Some)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_their_order() {
        let (mut redo, mut out) = (Redo::new(4096), Vec::new());
        redo.put(8, b"abc");
        redo.put(0, b"");
        assert_eq!(redo.len(), 19);
        redo.drain_into(&mut out);
        out.extend_from_slice(&content_head(77, 5));
        out.extend_from_slice(&[3; PAGE_SIZE]);
        put_lines(MOST_NVM / 64 - 1, &[9; 64], &mut out);
        let mut seen = Vec::new();
        let all = records::<()>(&out, |r| {
            seen.push(match r {
                Record::Bytes { memory, at, bytes } => (at, memory as u64, bytes.len()),
                Record::Content { ppa, seq, at, bytes } => {
                    assert_eq!(&out[at..at + PAGE_SIZE], bytes);
                    (ppa as u64, seq, bytes.len())
                }
            });
            Ok(())
        });
        assert_eq!(
            (all, &seen[..]),
            (Ok(()), &[(4104, 0, 3), (4096, 0, 0), (77, 5, 4096), (MOST_NVM - 64, 1, 64)][..])
        );
    }

    #[test]
    fn malformed_groups_are_refused() {
        let mut redo = Redo::new(1);
        redo.put(0, &[1; 20]);
        let mut out = Vec::new();
        redo.drain_into(&mut out);
        for cut in 1..out.len() {
            assert_eq!(records::<()>(&out[..cut], |_| Ok(())), Err(None), "cut at {cut}");
        }
    }
}
