//! JBD2's blocks: every one begins with a 12 B header {magic, type, transaction number}.
//!
//! ```text
//!   superblock  header | len 4 | first 4 | sequence 4 | start 4 (0 = empty) | checksum 4
//!   descriptor  header | count 4 | zero 12 | tags of 16 B {block 8, structure 1, escaped 1, zero 6}: 254
//!               | checksum 4
//!   revoke      header | count 4 | block numbers of 8 B: 509 | checksum 4
//!   commit      header | blocks of the transaction 4 | ns 8 | checksum 4
//! ```
//!
//! The block of a tag follows its descriptor, in order. Where its content begins with the magic, the copy in
//! the log begins with four zeros instead and the tag says so (escaped). Content of a user's file must never
//! be taken for a record of the journal: the block behind the last transaction could be.

use super::{BLOCK_SIZE, BlockBytes, le32, put32};
use granary_device::Structure;
use granary_units::Page;

/// Marks journal blocks (the kernel's number).
pub const MAGIC: u32 = 0xC03B_3998;
/// Tags in a descriptor block.
pub const TAGS: usize = 254;
/// Numbers in a revoke block.
pub const REVOKES: usize = 509;

const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const SUPERBLOCK: u32 = 4;
const REVOKE: u32 = 5;
const TAG_BASE: usize = 28;
const REVOKE_BASE: usize = 16;

/// A descriptor's entry for one of the blocks that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Where the block belongs.
    pub home: u64,
    /// Structure of the home write.
    pub what: Structure,
    /// The content begins with [`MAGIC`], which the copy does not show.
    pub escaped: bool,
}

/// A journal block that recovery understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Copies of these blocks follow.
    Descriptor(Vec<Tag>),
    /// Copies of these blocks in this and older transactions must not be replayed.
    Revoke(Vec<u64>),
    /// The transaction is complete.
    Commit,
}

/// The journal's superblock, block 0 of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSuper {
    /// Blocks of the journal.
    pub len: u32,
    /// Number of the first transaction to replay, or of the next one.
    pub sequence: u32,
    /// Where it begins; 0 = the log is empty.
    pub start: u32,
}

fn header(kind: u32, tid: u32) -> Page {
    let mut page = Page::ZERO;
    let b = page.bytes_mut();
    put32(b, 0, MAGIC);
    put32(b, 4, kind);
    put32(b, 8, tid);
    page
}

/// Sums up the used part of a record and stores the sum behind the longest record.
fn seal(b: &mut BlockBytes, used: usize) {
    let sum = crc32c::crc32c(&b[..used]);
    put32(b, BLOCK_SIZE - 4, sum);
}

fn sealed(b: &BlockBytes, used: usize) -> bool {
    crc32c::crc32c(&b[..used]) == le32(b, BLOCK_SIZE - 4)
}

/// A descriptor for at most [`TAGS`] blocks.
pub fn descriptor(tid: u32, blocks: &[Tag]) -> Page {
    let mut page = header(DESCRIPTOR, tid);
    let b = page.bytes_mut();
    put32(b, 12, blocks.len() as u32);
    for (i, tag) in blocks.iter().enumerate() {
        let at = TAG_BASE + 16 * i;
        b[at..at + 8].copy_from_slice(&tag.home.to_le_bytes());
        b[at + 8] = Structure::ALL.iter().position(|s| *s == tag.what).unwrap_or_default() as u8;
        b[at + 9] = tag.escaped.into();
    }
    seal(b, TAG_BASE + 16 * blocks.len());
    page
}

/// Hides the magic that a block begins with; true where it did. [`unescape`] brings it back.
pub fn escape(copy: &mut Page) -> bool {
    let mut begins = [0; 4];
    copy.copy_out(0, &mut begins);
    let escaped = u32::from_le_bytes(begins) == MAGIC;
    if escaped {
        put32(copy.bytes_mut(), 0, 0);
    }
    escaped
}

/// Undoes [`escape`] where it changed something.
pub fn unescape(copy: &mut Page) {
    put32(copy.bytes_mut(), 0, MAGIC);
}

/// A revoke block for at most [`REVOKES`] blocks.
pub fn revoke(tid: u32, blocks: &[u64]) -> Page {
    let mut page = header(REVOKE, tid);
    let b = page.bytes_mut();
    put32(b, 12, blocks.len() as u32);
    for (i, lpa) in blocks.iter().enumerate() {
        b[REVOKE_BASE + 8 * i..REVOKE_BASE + 8 * i + 8].copy_from_slice(&lpa.to_le_bytes());
    }
    seal(b, REVOKE_BASE + 8 * blocks.len());
    page
}

/// The commit block of a transaction of `blocks` blocks.
pub fn commit(tid: u32, blocks: u32, ns: u64) -> Page {
    let mut page = header(COMMIT, tid);
    let b = page.bytes_mut();
    put32(b, 12, blocks);
    b[16..24].copy_from_slice(&ns.to_le_bytes());
    seal(b, 24);
    page
}

/// Reads any journal block: its transaction and its record.
pub fn parse(b: &BlockBytes) -> Option<(u32, Record)> {
    if le32(b, 0) != MAGIC {
        return None;
    }
    let (kind, tid, n) = (le32(b, 4), le32(b, 8), le32(b, 12) as usize);
    let number = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"));
    let record = match kind {
        DESCRIPTOR if n <= TAGS && sealed(b, TAG_BASE + 16 * n) => {
            let tag = |at: usize| {
                let what = *Structure::ALL.get(b[at + 8] as usize)?;
                Some(Tag { home: number(at), what, escaped: b[at + 9] != 0 })
            };
            Record::Descriptor((0..n).map(|i| tag(TAG_BASE + 16 * i)).collect::<Option<_>>()?)
        }
        REVOKE if n <= REVOKES && sealed(b, REVOKE_BASE + 8 * n) => {
            Record::Revoke((0..n).map(|i| number(REVOKE_BASE + 8 * i)).collect())
        }
        COMMIT if sealed(b, 24) => Record::Commit,
        _ => return None,
    };
    Some((tid, record))
}

impl LogSuper {
    /// As a block.
    pub fn page(&self) -> Page {
        let mut page = header(SUPERBLOCK, 0);
        let b = page.bytes_mut();
        put32(b, 12, self.len);
        put32(b, 16, 1);
        put32(b, 20, self.sequence);
        put32(b, 24, self.start);
        seal(b, 28);
        page
    }

    /// Reads it.
    pub fn parse(b: &BlockBytes) -> Option<LogSuper> {
        let good = le32(b, 0) == MAGIC && le32(b, 4) == SUPERBLOCK && sealed(b, 28);
        let log = LogSuper { len: le32(b, 12), sequence: le32(b, 20), start: le32(b, 24) };
        (good && log.start < log.len).then_some(log)
    }
}
