//! Reading logs: recovery, and the cleaner.
//!
//! ```text
//!   superblock -> log -> log -> log (SR)* -> log (data) -> log (data) -> nothing that follows
//!                            newest root     rolled forward
//! ```
//!
//! A log counts if all of its parts are whole and it follows the one before (serial numbers, sequence numbers
//! of segments). A log that a crash left behind has another predecessor and is never taken for a later log.
//!
//! A power failure tears the last log: its blocks can be read, and do not fit its checksum. A drive that
//! cannot read a block is another matter: the log may be one that was acknowledged, and a mount fails (as the
//! kernel's, NILFS_SEG_FAIL_IO). The superblock names a log only after that log was flushed: if it is not
//! whole, something is damaged.
//!
//! Source: reference/nilfs2.md section 5.2; the kernel's `recovery.c`.

use crate::geometry::Geometry;
use crate::layout::summary::{BEGIN, END, Header, Part, SR, SYNDT, Summary, SummaryEntry, TIMES};
use crate::layout::super_root::SuperRoot;
use crate::layout::superblock::Superblock;
use crate::layout::{FIRST_INO, corrupt};
use crate::media::Media;
use crate::segments::{Cursor, LEAST_PART};
use crate::state::LastRoot;
use granary_device::{DriveError, Structure};
use granary_fs::{FsError, Result};
use granary_units::Page;
use std::collections::{BTreeMap, BTreeSet};

/// The state that the logs on media describe.
pub(crate) struct Chain {
    pub root: SuperRoot,
    pub at: LastRoot,
    /// Where the next log goes.
    pub cursor: Cursor,
    /// Logs of data behind the root: blocks with their places.
    pub data: Vec<(u64, SummaryEntry)>,
    /// Files that grew in them, and their new sizes.
    pub grown: Vec<(u64, u64)>,
    /// Times of files that they have data of: mtime, ctime.
    pub times: Vec<(u64, (i64, i64))>,
    /// Logs behind the one that the superblock names.
    pub logs: u32,
    /// Blocks written in segments that the root does not know of.
    pub written: BTreeMap<u64, u64>,
}

/// A log that is whole.
struct Whole {
    header: Header,
    at: u64,
    root: Option<SuperRoot>,
    blocks: Vec<(u64, SummaryEntry)>,
    /// The file that grew, and its new size.
    grown: Option<(u64, u64)>,
    times: Option<(u64, (i64, i64))>,
    /// Where it ended: segment, behind its last block, sequence number, segment after that.
    end: Cursor,
    /// Segments that it has blocks in, and up to where.
    segs: Vec<(u64, u64)>,
}

fn read_part(media: &Media, at: u64, seq: u64) -> Result<(Summary, Option<SuperRoot>)> {
    let what = Structure::Log;
    let head = Header::parse(&media.read(at, what)?.to_bytes())?;
    let left = media.geo.end(media.geo.segment(at)) - at;
    if head.seq != seq || head.blocks as u64 > left || head.next >= media.geo.segments {
        return Err(corrupt("a log of another time"));
    }
    let mut pages = vec![Page::ZERO; head.blocks as usize];
    media.read_run(at, &mut pages, what)?;
    let (summary, blocks) = pages.split_at(head.summary_blocks() as usize);
    let summary = Summary::parse(summary)?;
    let covered =
        blocks.iter().enumerate().filter(|(i, _)| summary.entries.get(*i).is_none_or(|e| !e.remapped));
    let sum = covered.fold(0, |sum, (_, page)| page.with_bytes(|b| crc32c::crc32c_append(sum, b)));
    if sum != head.data_sum {
        return Err(corrupt("a log whose blocks are damaged"));
    }
    let root = match (head.flags & SR != 0, blocks.last()) {
        (true, Some(page)) => Some(SuperRoot::parse(&page.to_bytes())?),
        _ => None,
    };
    Ok((summary, root))
}

/// The log at a place; `follows`: whether its first header is of the expected one.
fn read_log(media: &Media, mut c: Cursor, follows: &dyn Fn(&Header) -> bool) -> Result<Whole> {
    let geo = media.geo;
    let mut whole: Option<Whole> = None;
    for number in 0.. {
        if geo.end(c.seg).saturating_sub(c.at) < LEAST_PART {
            (c.seg, c.at, c.seq) = (c.next, geo.start(c.next), c.seq + 1);
        }
        let (summary, root) = read_part(media, c.at, c.seq)?;
        let h = summary.header;
        let fits = match &whole {
            None => follows(&h) && h.flags & BEGIN != 0 && h.number == 0,
            Some(w) => {
                h.serial == w.header.serial
                    && h.prev == w.header.prev
                    && h.number == number as u16
                    && h.flags & BEGIN == 0
            }
        };
        if !fits {
            return Err(corrupt("a log that does not follow the one before"));
        }
        let first = c.at + h.summary_blocks();
        let end = c.at + h.blocks as u64;
        let cursor = Cursor { at: end, next: h.next, serial: h.serial, ..c };
        let last = summary.entries.last().copied();
        let grown = match (summary.grown, last) {
            (Some(valid), Some(SummaryEntry { ino, part: Part::Data(n), .. })) => {
                Some((ino, n.saturating_mul(4096) + valid as u64))
            }
            _ => None,
        };
        let times = last.filter(|_| h.flags & TIMES != 0).map(|e| (e.ino, summary.times));
        let blocks = (first..).zip(summary.entries);
        let w = whole.get_or_insert_with(|| Whole {
            header: h,
            at: c.at,
            root: None,
            blocks: Vec::new(),
            grown: None,
            times: None,
            end: cursor,
            segs: Vec::new(),
        });
        w.blocks.extend(blocks);
        w.grown = grown.or(w.grown);
        w.times = times.or(w.times);
        w.segs.push((c.seg, end - geo.start(c.seg)));
        (w.end, c) = (cursor, cursor);
        if root.is_some() {
            w.root = root;
        }
        if h.flags & END != 0 {
            break;
        }
    }
    let whole = whole.ok_or_else(|| corrupt("no log"))?;
    let data = whole.header.flags & SYNDT != 0;
    if whole.root.is_some() || data { Ok(whole) } else { Err(corrupt("a log without a super root")) }
}

/// The message of a mount about a log that it cannot do without: whose blocks it has, and how to do without
/// them.
fn damaged(media: &Media, at: u64, e: FsError) -> FsError {
    let why = match e {
        FsError::Corrupt(why) => why,
        FsError::Drive(DriveError::Unreadable(page)) => format!("page {page} of the drive cannot be read"),
        e => return e,
    };
    let end = media.geo.end(media.geo.segment(at));
    let entries = part_entries(media, at, end).map_or(Vec::new(), |(_, entries)| entries);
    let inodes: BTreeSet<u64> = entries.iter().map(|(_, e)| e.ino).filter(|ino| *ino >= FIRST_INO).collect();
    let of = match inodes.len() {
        0 => String::new(),
        _ => format!(
            " with blocks of inodes {}",
            inodes.iter().take(8).map(u64::to_string).collect::<Vec<_>>().join(", ")
        ),
    };
    corrupt(format!(
        "the log at block {at}{of}: {why} (--set nilfs2.go_back=true mounts what was there before this log)"
    ))
}

/// Reads on from the log that the superblock names; with `go_back` up to what the drive cannot read.
///
/// # Errors
/// `Corrupt` where that log is damaged; the drive's.
pub(crate) fn follow(media: &Media, sb: &Superblock, go_back: bool) -> Result<Chain> {
    let geo = media.geo;
    let start = Cursor {
        seg: geo.segment(sb.last_log),
        at: sb.last_log,
        next: 0,
        seq: sb.last_seq,
        serial: sb.last_serial,
    };
    let first =
        read_log(media, start, &|h| h.serial == sb.last_serial).map_err(|e| damaged(media, start.at, e))?;
    let root = first.root.ok_or_else(|| corrupt("the log that the superblock names has no super root"))?;
    let place = |at: u64, h: &Header| LastRoot { at, seq: h.seq, serial: h.serial };
    let mut chain = Chain {
        root,
        at: place(first.at, &first.header),
        cursor: first.end,
        data: Vec::new(),
        grown: Vec::new(),
        times: Vec::new(),
        logs: 0,
        written: BTreeMap::new(),
    };
    // Anything but a log that follows ends the chain.
    loop {
        let before = chain.cursor.serial;
        let log = match read_log(media, chain.cursor, &|h| h.prev == before) {
            Ok(log) => log,
            Err(FsError::Corrupt(_)) => return Ok(chain),
            Err(_) if go_back => return Ok(chain),
            Err(e) => return Err(damaged(media, chain.cursor.at, e)),
        };
        chain.logs += 1;
        chain.cursor = log.end;
        chain.written.extend(log.segs);
        if let Some(root) = log.root {
            chain.at = place(log.at, &log.header);
            (chain.root, chain.data, chain.written) = (root, Vec::new(), BTreeMap::new());
            chain.grown.clear();
            chain.times.clear();
        } else {
            chain.data.extend(log.blocks);
            chain.grown.extend(log.grown);
            chain.times.extend(log.times);
        }
    }
}

/// Every block of a segment that its summaries tell of.
///
/// # Errors
/// `Corrupt` where a summary is damaged; the drive's.
pub(crate) fn segment_blocks(media: &Media, seg: u64, written: u64) -> Result<Vec<(u64, SummaryEntry)>> {
    let geo: Geometry = media.geo;
    let (mut at, end) = (geo.start(seg), geo.start(seg) + written);
    let mut all = Vec::new();
    while at < end {
        let (blocks, entries) = part_entries(media, at, end)?;
        all.extend(entries);
        at += blocks;
    }
    Ok(all)
}

/// Length of the part of a log at a place, and the blocks that its summary tells of.
fn part_entries(media: &Media, at: u64, end: u64) -> Result<(u64, Vec<(u64, SummaryEntry)>)> {
    let first = media.read(at, Structure::Log)?;
    let head = Header::parse(&first.to_bytes())?;
    if at + head.blocks as u64 > end {
        return Err(corrupt(format!("a log at block {at} goes beyond its segment")));
    }
    let mut pages = vec![first; head.summary_blocks() as usize];
    if pages.len() > 1 {
        media.read_run(at + 1, &mut pages[1..], Structure::Log)?;
    }
    let summary = Summary::parse(&pages)?;
    Ok((head.blocks as u64, (at + head.summary_blocks()..).zip(summary.entries).collect()))
}
