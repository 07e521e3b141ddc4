//! [`Redo`]: the host's own redo log, for drives whose firmware has none (variant `bytefs-dual`).
//!
//! ```text
//!   journal area   | half 0                              | half 1                              |
//!   half           | header line | addresses, 8 per line | lines ...            | rest: garbage |
//!
//!   group n:  addresses and lines by byte into half n % 2 ── verify ── header line ── verify: committed
//!             ── the lines once more, where they belong (posted; the verify of group n + 1 covers them)
//! ```
//!
//! This is what the firmware's write log saves (section 4.3, "we can avoid writing to flash memory twice"):
//! every line crosses the link twice, and a commit takes two round trips.
//!
//! Invariants:
//! - A header is valid only with the checksum of all that follows, so a half that is being overwritten counts
//!   as empty.
//! - Before half n % 2 is overwritten by group n + 2, the lines of group n are where they belong: the first
//!   verify of group n + 1 came after they were stored.
//! - Blocks whose lines are only in a queue or a half are held in memory (`Image` has them), so that no
//!   reader gets the old lines from the drive.
//! - Halves are emptied one after the other, the older first.
//! - A block that a half names is not used for anything else before both halves are empty ([`Redo::retire`]):
//!   recovery would store old lines into its new content. (jbd2 has revoke records for this.)
//!
//! It does *not* hold file data: in this variant data goes by block, before the transaction that points to
//! it.
//!
//! Source: ByteFS section 5.4 for the variant; the paper does not say how it keeps transactions without
//! firmware logging.

use crate::layout::Geometry;
use crate::space::Run;
use granary_device::{DriveError, Port, Structure};
use granary_fs::Result;
use granary_kit::Block;
use granary_sim::sync::Mutex;
use granary_units::{ByteAddr, LINE_SIZE, Lpa, PAGE_SIZE, Page, TxId};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"GRBFREDO";
/// Addresses in one line.
const PER_LINE: usize = LINE_SIZE / 8;

/// The first line of a half.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    /// Counts groups since the mount, from 1.
    seq: U64,
    /// Lines of the group.
    lines: U32,
    /// XXH3 (lower half) of the addresses and the lines, seeded with the sequence number.
    sum: U32,
    zero: [u8; 40],
}

const _: () = assert!(size_of::<Header>() == LINE_SIZE);

/// The lines of one transaction as it left them.
pub struct Image {
    /// Runs of lines: block, first byte, bytes.
    pub ranges: Vec<(Arc<Block>, usize, usize)>,
    /// Their content, one after the other.
    pub bytes: Vec<u8>,
}

impl Image {
    fn lines(&self) -> usize {
        self.bytes.len() / LINE_SIZE
    }

    fn addresses(&self) -> impl Iterator<Item = u64> {
        self.ranges.iter().flat_map(|(block, at, len)| {
            let first = block.lpa().byte().offset(*at as u64).0;
            (first..first + *len as u64).step_by(LINE_SIZE)
        })
    }
}

struct State {
    seq: u64,
    /// Pages that each half names.
    named: [FxHashSet<u64>; 2],
}

/// The host's redo log.
pub struct Redo {
    first: u64,
    half_blocks: u64,
    state: Mutex<State>,
}

impl Redo {
    /// The empty log of a file system that was just made, recovered or found clean.
    pub fn new(geometry: &Geometry) -> Redo {
        let state = State { seq: 0, named: Default::default() };
        Redo { first: geometry.journal, half_blocks: geometry.journal_blocks / 2, state: Mutex::new(state) }
    }

    fn half(&self, n: u64) -> Lpa {
        Lpa(self.first + n % 2 * self.half_blocks)
    }

    /// Lines that one group may have.
    pub fn capacity(&self) -> usize {
        // n lines need ceil(n / 8) lines of addresses, and the header.
        (self.half_blocks as usize * PAGE_SIZE / LINE_SIZE - 2) * PER_LINE / (PER_LINE + 1)
    }

    /// Makes the transactions of a group durable, all or none, and puts their lines where they belong.
    ///
    /// # Errors
    /// Of the drive; `LogFull` for more lines than a half holds.
    pub fn commit(&self, port: &Port, images: &[Image]) -> Result<()> {
        let mut state = self.state.lock();
        if images.iter().map(|i| i.lines()).sum::<usize>() > self.capacity() {
            return Err(DriveError::LogFull.into());
        }
        self.commit_group(port, &mut state, images)
    }

    fn commit_group(&self, port: &Port, state: &mut State, images: &[Image]) -> Result<()> {
        let _step = granary_sim::step("bytefs: a group is committed through the redo log");
        state.seq += 1;
        let base = self.half(state.seq).byte();
        let mut bytes: Vec<u8> =
            images.iter().flat_map(|i| i.addresses()).flat_map(u64::to_le_bytes).collect();
        bytes.resize(bytes.len().next_multiple_of(LINE_SIZE), 0);
        images.iter().for_each(|i| bytes.extend_from_slice(&i.bytes));
        let lines = images.iter().map(|i| i.lines()).sum::<usize>() as u32;
        put(port, base.offset(LINE_SIZE as u64), &bytes)?;
        port.verify()?;
        let header = Header {
            magic: MAGIC,
            seq: U64::new(state.seq),
            lines: U32::new(lines),
            sum: U32::new(checksum(state.seq, &bytes)),
            zero: [0; 40],
        };
        put(port, base, header.as_bytes())?;
        port.verify()?;
        let named = &mut state.named[(state.seq % 2) as usize];
        named.clear();
        for image in images {
            let mut at = 0;
            for (block, from, len) in &image.ranges {
                named.insert(block.lpa().0);
                let addr = block.lpa().byte().offset(*from as u64);
                port.stage(addr, &image.bytes[at..at + len], TxId::NONE, block.what())?;
                at += len;
            }
        }
        let all = images.iter().flat_map(|i| &i.ranges);
        port.flush_lines(all.map(|(block, at, len)| (block.lpa().byte().offset(*at as u64), *len)))?;
        Ok(())
    }

    /// Empties the log where it names one of these blocks, which are about to get new owners.
    ///
    /// # Errors
    /// Of the drive.
    pub fn retire(&self, port: &Port, runs: &[Run]) -> Result<()> {
        let mut state = self.state.lock();
        let names = |set: &FxHashSet<u64>| {
            let within = |r: &Run| (r.lba..r.lba + r.len).any(|b| set.contains(&(b as u64)));
            !set.is_empty() && runs.iter().any(within)
        };
        if !state.named.iter().any(names) {
            return Ok(());
        }
        port.verify()?;
        self.empty(port, &mut state)
    }

    /// Empties both halves: what they held is where it belongs.
    ///
    /// # Errors
    /// Of the drive.
    pub fn clear(&self, port: &Port) -> Result<()> {
        self.empty(port, &mut self.state.lock())
    }

    /// The older half goes first, and is gone before the newer one goes: alone, it would bring old lines
    /// back.
    fn empty(&self, port: &Port, state: &mut State) -> Result<()> {
        let _step = granary_sim::step("bytefs: the redo log is emptied");
        for n in [state.seq + 1, state.seq] {
            put(port, self.half(n).byte(), &[0; LINE_SIZE])?;
            port.verify()?;
        }
        state.named.iter_mut().for_each(FxHashSet::clear);
        Ok(())
    }

    /// After a power failure: stores the lines of all groups that were committed, but for pages in `lost`,
    /// which take no lines. Returns how many groups there were; [`Redo::clear`] is to follow.
    ///
    /// # Errors
    /// `Corrupt` where a group names lines outside the file system; of the drive.
    pub fn recover(&self, port: &Port, blocks: u64, lost: &BTreeSet<u64>) -> Result<u64> {
        let mut groups = Vec::new();
        for n in 0..2 {
            let mut pages = vec![Page::ZERO; self.half_blocks as usize];
            port.read(self.half(n), &mut pages, Structure::Journal)?;
            let bytes: Vec<u8> = pages.iter().flat_map(|p| p.to_bytes()).collect();
            groups.extend(read_half(&bytes));
        }
        groups.sort_by_key(|g| g.0);
        let count = groups.len() as u64;
        let _step = (count > 0).then(|| granary_sim::step("bytefs: a mount replays the redo log"));
        let last = groups.last().map_or(0, |g| g.0);
        for (seq, lines) in groups {
            for (addr, content) in lines {
                if addr.0 % LINE_SIZE as u64 != 0 || addr.lpa().0 >= blocks {
                    let what = format!("redo log: group {seq} names byte {}", addr.0);
                    return Err(granary_fs::FsError::Corrupt(what));
                }
                if lost.contains(&addr.lpa().0) {
                    continue;
                }
                port.stage(addr, &content, TxId::NONE, Structure::Journal)?;
                port.flush_lines(std::iter::once((addr, LINE_SIZE)))?;
            }
        }
        self.state.lock().seq = last;
        port.verify()?;
        Ok(count)
    }
}

type Group = (u64, Vec<(ByteAddr, [u8; LINE_SIZE])>);

/// The group in a half, if it is whole.
fn read_half(bytes: &[u8]) -> Option<Group> {
    let (header, rest) = Header::read_from_prefix(bytes).ok()?;
    let lines = header.lines.get() as usize;
    let addresses = lines.div_ceil(PER_LINE) * LINE_SIZE;
    let used = rest.get(..addresses.checked_add(lines.checked_mul(LINE_SIZE)?)?)?;
    let seq = header.seq.get();
    if header.magic != MAGIC || checksum(seq, used) != header.sum.get() {
        return None;
    }
    let (at, content) = used.split_at(addresses);
    let at = at.chunks_exact(8).map(|c| ByteAddr(u64::from_le_bytes(c.try_into().expect("eight bytes"))));
    let content = content.chunks_exact(LINE_SIZE).map(|l| l.try_into().expect("a line"));
    Some((seq, at.zip(content).collect()))
}

/// Not a CRC-32C: the lines have theirs inside, so all sound versions of a line add the same to a CRC-32C of
/// them all. A half with some lines of the next group in it would pass for the group before.
fn checksum(seq: u64, bytes: &[u8]) -> u32 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seq) as u32
}

/// Stores bytes of the journal area by byte and writes their lines back.
fn put(port: &Port, at: ByteAddr, bytes: &[u8]) -> Result<()> {
    port.stage(at, bytes, TxId::NONE, Structure::Journal)?;
    Ok(port.flush_lines(std::iter::once((at, bytes.len())))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::line;

    #[test]
    fn a_half_is_read_whole_or_not_at_all() {
        let mut body = Vec::new();
        (0..9u64).for_each(|n| body.extend_from_slice(&(n * 64).to_le_bytes()));
        body.resize(2 * LINE_SIZE, 0);
        (0..9u8).for_each(|n| body.extend_from_slice(&[n; LINE_SIZE]));
        let header = Header {
            magic: MAGIC,
            seq: U64::new(5),
            lines: U32::new(9),
            sum: U32::new(checksum(5, &body)),
            zero: [0; 40],
        };
        let mut half = header.as_bytes().to_vec();
        half.extend_from_slice(&body);
        half.resize(4096, 0xaa);
        let (seq, lines) = read_half(&half).expect("whole");
        assert_eq!((seq, lines.len()), (5, 9));
        assert!(lines.iter().enumerate().all(|(n, l)| l.0.0 == n as u64 * 64 && l.1 == [n as u8; 64]));
        for byte in 0..LINE_SIZE - 40 + body.len() {
            let at = if byte < 24 { byte } else { byte + 40 };
            let mut torn = half.clone();
            torn[at] ^= 1;
            assert!(read_half(&torn).is_none(), "byte {at}");
        }
        assert!(read_half(&[0; 4096]).is_none());
    }

    #[test]
    fn a_line_of_the_next_group_is_not_taken_for_one_of_this() {
        let sealed = |fill: u8| {
            let mut block = [0; PAGE_SIZE];
            block[..LINE_SIZE / 2].fill(fill);
            line::seal(&mut block, 3, 1);
            block[..LINE_SIZE].to_vec()
        };
        let mut body = (3 * PAGE_SIZE as u64).to_le_bytes().to_vec();
        body.resize(LINE_SIZE, 0);
        body.extend(sealed(1));
        let header = Header {
            magic: MAGIC,
            seq: U64::new(13),
            lines: U32::new(1),
            sum: U32::new(checksum(13, &body)),
            zero: [0; 40],
        };
        let mut half = header.as_bytes().to_vec();
        half.extend_from_slice(&body);
        assert!(read_half(&half).is_some());
        half[2 * LINE_SIZE..].copy_from_slice(&sealed(2));
        assert!(read_half(&half).is_none());
    }
}
