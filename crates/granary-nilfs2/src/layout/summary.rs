//! The summary of a partial segment: which file each of its blocks belongs to.
//!
//! ```text
//!   header 64 B | finfo 24 B, blocks of that file: data, then nodes | finfo, blocks | ...
//!     virtual:  data  virtual number 8, block of the file 8         node  virtual number 8
//!     in DAT:   data  block of the file 8                           node  first key 8, level 8
//! ```
//!
//! A log is one partial segment or several, in one segment or several; all have its serial number. It counts
//! only if it is whole, from the part with [`BEGIN`] to the one with [`END`], and has a super root ([`SR`])
//! or is for data only ([`SYNDT`]). `prev` is the serial number of the log before, so that nothing that a
//! power failure left behind is taken for its successor.

use super::{BLOCK_SIZE, BlockBytes, CPFILE_INO, DAT_INO, IFILE_INO, SUFILE_INO, corrupt, le16, le32, le64};
use super::{put16, put32, put64};
use granary_device::Structure;
use granary_fs::Result;
use granary_units::Page;

/// "SUM2".
const MAGIC: u32 = u32::from_le_bytes(*b"SUM2");
/// Bytes of the header.
pub const HEADER: usize = 64;
/// Bytes of a finfo.
pub const FINFO: usize = 24;

/// First part of a log (Linux 6.1: NILFS_SS_LOGBGN, and so on).
pub const BEGIN: u16 = 1;
/// Last part of a log.
pub const END: u16 = 2;
/// The last block is a super root.
pub const SR: u16 = 4;
/// Data only, for a caller that waits: recovery rolls it forward.
pub const SYNDT: u16 = 8;
/// The cleaner moved blocks into it.
pub const GC: u16 = 16;
/// Behind the entries are the times of the file: mtime 8, ctime 8.
pub const TIMES: u16 = 32;
/// Bytes of those.
pub const TIMES_BYTES: usize = 16;

/// A finfo's flag: its blocks were moved by REMAP, the checksum of the log's blocks does not cover them.
pub const REMAPPED: u32 = 1;
/// A finfo's flag: the file grew to the end of the last of these blocks; so many bytes of that are its.
pub const GREW: u32 = 2;

/// Which block of a file a block of a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Content: the block's number in the file.
    Data(u64),
    /// A node of the file's B-tree. Level and first key are known of DAT's nodes only; else 0.
    Node {
        /// 1 is the lowest.
        level: u8,
        /// First key below it.
        key: u64,
    },
}

/// One block of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryEntry {
    /// The inode that owns the block.
    pub ino: u64,
    /// Kind and place of the block in its file.
    pub part: Part,
    /// Virtual block number; 0 in DAT.
    pub vblk: u64,
    /// REMAP moved it.
    pub remapped: bool,
}

impl SummaryEntry {
    /// Bytes that it takes in a summary.
    pub fn bytes(&self) -> usize {
        match (self.ino == DAT_INO, self.part) {
            (true, Part::Data(_)) | (false, Part::Node { .. }) => 8,
            (true, Part::Node { .. }) | (false, Part::Data(_)) => 16,
        }
    }

    /// Whether one finfo serves both.
    pub fn goes_with(&self, other: &SummaryEntry) -> bool {
        let node = |e: &SummaryEntry| matches!(e.part, Part::Node { .. });
        self.ino == other.ino && self.remapped == other.remapped && (!node(self) || node(other))
    }

    /// Structure of such a block in drive counters, where it is not content of a file or of a directory.
    pub fn structure(&self, content: Structure) -> Structure {
        match (self.ino, self.part) {
            (DAT_INO, _) | (_, Part::Node { .. }) => Structure::DataPointer,
            (CPFILE_INO, _) => Structure::Superblock,
            (SUFILE_INO, _) => Structure::Bitmap,
            (IFILE_INO, _) => Structure::Inode,
            _ => content,
        }
    }
}

/// The header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// [`BEGIN`] and so on.
    pub flags: u16,
    /// Which part of its log this is, from 0.
    pub number: u16,
    /// Serial number of the log.
    pub serial: u64,
    /// Serial number of the log before.
    pub prev: u64,
    /// Sequence number of the segment.
    pub seq: u64,
    /// The segment that the log goes on in after this one.
    pub next: u64,
    /// Blocks of this part, summary included.
    pub blocks: u32,
    /// Bytes of the summary.
    pub bytes: u32,
    /// Finfos.
    pub finfos: u32,
    /// Age of the file system in seconds, when it was written.
    pub age: u32,
    /// CRC-32C of the other blocks, but for those that REMAP moved.
    pub data_sum: u32,
}

impl Header {
    /// Blocks of the summary.
    pub fn summary_blocks(&self) -> u64 {
        (self.bytes as u64).div_ceil(BLOCK_SIZE as u64)
    }

    /// Reads a header, from the first block of a summary.
    ///
    /// # Errors
    /// `Corrupt` where it is none.
    pub fn parse(b: &BlockBytes) -> Result<Header> {
        let h = Header {
            data_sum: le32(b, 8),
            flags: le16(b, 12),
            number: le16(b, 14),
            serial: le64(b, 16),
            prev: le64(b, 24),
            seq: le64(b, 32),
            next: le64(b, 40),
            blocks: le32(b, 48),
            bytes: le32(b, 52),
            finfos: le32(b, 56),
            age: le32(b, 60),
        };
        let sane = le32(b, 0) == MAGIC && h.bytes as usize >= HEADER && h.summary_blocks() <= h.blocks as u64;
        if sane && h.seq < u64::MAX / 2 { Ok(h) } else { Err(corrupt("no summary of a log")) }
    }
}

/// A summary: header and entries in the order of the blocks behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The header; `bytes` and `finfos` are made from the entries.
    pub header: Header,
    /// One for each block; the super root has none.
    pub entries: Vec<SummaryEntry>,
    /// Of a log of data: the file grew, and so many bytes of the last block are its.
    pub grown: Option<u16>,
    /// With [`TIMES`]: mtime and ctime of the file, ns.
    pub times: (i64, i64),
}

impl Summary {
    /// Its blocks.
    pub fn encode(&self) -> Vec<Page> {
        let mut b = vec![0; HEADER];
        let mut finfos = 0;
        for run in self.entries.chunk_by(SummaryEntry::goes_with) {
            finfos += 1;
            let data = run.iter().filter(|e| matches!(e.part, Part::Data(_))).count();
            let at = b.len();
            b.resize(at + FINFO, 0);
            put64(&mut b, at, run[0].ino);
            put32(&mut b, at + 8, run.len() as u32);
            put32(&mut b, at + 12, data as u32);
            let grew = if self.grown.is_some() { GREW } else { 0 };
            put32(&mut b, at + 16, grew | if run[0].remapped { REMAPPED } else { 0 });
            put32(&mut b, at + 20, self.grown.unwrap_or(0) as u32);
            for e in run {
                let words: &[u64] = match (e.ino == DAT_INO, e.part) {
                    (true, Part::Data(n)) => &[n],
                    (true, Part::Node { level, key }) => &[key, level as u64],
                    (false, Part::Data(n)) => &[e.vblk, n],
                    (false, Part::Node { .. }) => &[e.vblk],
                };
                words.iter().for_each(|w| b.extend_from_slice(&w.to_le_bytes()));
            }
        }
        if self.header.flags & TIMES != 0 {
            b.extend_from_slice(&self.times.0.to_le_bytes());
            b.extend_from_slice(&self.times.1.to_le_bytes());
        }
        let h = Header { bytes: b.len() as u32, finfos, ..self.header };
        put32(&mut b, 0, MAGIC);
        put32(&mut b, 8, h.data_sum);
        put16(&mut b, 12, h.flags);
        put16(&mut b, 14, h.number);
        for (i, v) in [h.serial, h.prev, h.seq, h.next].into_iter().enumerate() {
            put64(&mut b, 16 + 8 * i, v);
        }
        for (i, v) in [h.blocks, h.bytes, h.finfos, h.age].into_iter().enumerate() {
            put32(&mut b, 48 + 4 * i, v);
        }
        let sum = crc32c::crc32c(&b[8..]);
        put32(&mut b, 4, sum);
        let mut pages = Vec::new();
        for part in b.chunks(BLOCK_SIZE) {
            let mut page = [0; BLOCK_SIZE];
            page[..part.len()].copy_from_slice(part);
            pages.push(Page::from_bytes(&page));
        }
        pages
    }

    /// Reads a summary from its blocks.
    ///
    /// # Errors
    /// `Corrupt` where its checksum is wrong or its entries are not one for each block.
    pub fn parse(blocks: &[Page]) -> Result<Summary> {
        let wrong = || corrupt("a summary of a log is damaged");
        let bytes: Vec<u8> = blocks.iter().flat_map(Page::to_bytes).collect();
        let first = blocks.first().ok_or_else(wrong)?.to_bytes();
        let header = Header::parse(&first)?;
        let end = header.bytes as usize;
        if end > bytes.len() || le32(&bytes, 4) != crc32c::crc32c(&bytes[8..end]) {
            return Err(wrong());
        }
        let (mut entries, mut at, mut grown) = (Vec::new(), HEADER, None);
        let word = |at: &mut usize| {
            let w = (*at + 8 <= end).then(|| le64(&bytes, *at)).ok_or_else(wrong);
            *at += 8;
            w
        };
        for _ in 0..header.finfos {
            if at + FINFO > end {
                return Err(wrong());
            }
            let (ino, all, data) = (le64(&bytes, at), le32(&bytes, at + 8), le32(&bytes, at + 12));
            let flags = le32(&bytes, at + 16);
            let remapped = flags & REMAPPED != 0;
            if flags & GREW != 0 {
                grown = Some(le32(&bytes, at + 20).clamp(1, BLOCK_SIZE as u32) as u16);
            }
            at += FINFO;
            for n in 0..all {
                let (vblk, part) = match (ino == DAT_INO, n < data) {
                    (true, true) => (0, Part::Data(word(&mut at)?)),
                    (true, false) => {
                        let key = word(&mut at)?;
                        (0, Part::Node { key, level: word(&mut at)?.min(255) as u8 })
                    }
                    (false, true) => {
                        let vblk = word(&mut at)?;
                        (vblk, Part::Data(word(&mut at)?))
                    }
                    (false, false) => (word(&mut at)?, Part::Node { key: 0, level: 0 }),
                };
                entries.push(SummaryEntry { ino, part, vblk, remapped });
            }
        }
        let times = match header.flags & TIMES != 0 {
            true => (word(&mut at)? as i64, word(&mut at)? as i64),
            false => (0, 0),
        };
        let root = u64::from(header.flags & SR != 0);
        if header.summary_blocks() + entries.len() as u64 + root != header.blocks as u64 {
            return Err(wrong());
        }
        Ok(Summary { header, entries, grown, times })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of all kinds, more than one block of them, come back; a changed byte is noticed.
    #[test]
    fn entries_come_back_and_damage_is_noticed() {
        let mut entries = Vec::new();
        for n in 0..600u64 {
            let ino = [11, 12, DAT_INO][n as usize / 200];
            let vblk = if ino == DAT_INO { 0 } else { 7 * n + 1 };
            let part = match (ino, n % 200 < 150) {
                (_, true) => Part::Data(n * 3),
                (DAT_INO, false) => Part::Node { level: 1, key: n },
                _ => Part::Node { level: 0, key: 0 },
            };
            entries.push(SummaryEntry { ino, part, vblk, remapped: n < 200 });
        }
        let bytes: usize =
            HEADER + TIMES_BYTES + 3 * FINFO + entries.iter().map(SummaryEntry::bytes).sum::<usize>();
        let blocks = (600 + bytes.div_ceil(BLOCK_SIZE) + 1) as u32;
        let header = Header {
            flags: BEGIN | END | SR | TIMES,
            serial: 9,
            prev: 8,
            seq: 4,
            next: 5,
            blocks,
            ..Header::default()
        };
        let pages = Summary { header, entries: entries.clone(), grown: Some(77), times: (5, 6) }.encode();
        let back = Summary::parse(&pages).expect("whole");
        assert_eq!((&back.entries, back.grown, back.times), (&entries, Some(77), (5, 6)));
        assert_eq!((back.header.finfos, back.header.bytes as usize), (3, bytes));
        for at in [0, 5, 17, 70, 1000] {
            let mut bad = pages.clone();
            bad[0].bytes_mut()[at] ^= 0x10;
            assert!(Summary::parse(&bad).is_err(), "byte {at}");
        }
    }
}
