//! [`Segments`]: the free segments, and the place where the log goes on.
//!
//! ```text
//!   segment  | log | log | here -> ......... |      next segment, already chosen | ............ |
//!             parts of a log fill what is left, then the log goes on in the next one, with the next sequence
//!             number
//! ```
//!
//! A segment can be taken under two conditions. The sufile of the newest log that is surely on media calls it
//! clean. The log that the superblock names is newer than the segment's old content: a recovery begins to
//! read at that log, and else the chain of logs would be cut.

use crate::geometry::Geometry;
use crate::layout::SUFILE_INO;
use crate::layout::corrupt;
use crate::layout::summary::{FINFO, HEADER, Part as Block, SummaryEntry, TIMES_BYTES};
use crate::layout::usage::{DIRTY, Usage, place};
use granary_fs::{FsError, Result};
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};

/// Fewest blocks at the end of a segment that a part of a log uses.
pub(crate) const LEAST_PART: u64 = 4;

/// Where the next log goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub seg: u64,
    /// Next block.
    pub at: u64,
    /// The segment after this one.
    pub next: u64,
    /// Sequence number of the segment.
    pub seq: u64,
    /// Serial number of the last log.
    pub serial: u64,
}

/// A part of a log in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub at: u64,
    pub seq: u64,
    pub next: u64,
    /// Blocks of its summary.
    pub summary: u64,
    /// First of the log's entries, and how many.
    pub first: usize,
    pub count: usize,
    /// The super root is its last block.
    pub root: bool,
}

/// See the module.
pub(crate) struct Segments {
    pub geo: Geometry,
    pub usages: Vec<Usage>,
    pub clean: u64,
    pub cursor: Cursor,
    /// Last one taken.
    pub last: u64,
    /// Their usages changed since the last log with a sufile.
    pub touched: BTreeSet<u64>,
    /// Clean, but not yet surely so on media.
    pub unready: BTreeSet<u64>,
    /// Sequence numbers of segments written since the mount.
    seqs: FxHashMap<u64, u64>,
    /// Sequence number of the log in the superblock.
    pub super_seq: u64,
    /// Chosen for the log that is being made.
    pool: VecDeque<u64>,
    /// Segments taken since the mount.
    pub reuses: u64,
}

impl Segments {
    pub fn new(
        geo: Geometry,
        usages: Vec<Usage>,
        cursor: Cursor,
        last: u64,
        super_seq: u64,
    ) -> Result<Segments> {
        let clean = usages.iter().filter(|u| u.is_clean()).count() as u64;
        let (seg, next) = (cursor.seg, cursor.next);
        if seg >= geo.segments || next >= geo.segments || seg == next || last >= geo.segments {
            return Err(corrupt(format!("the log is said to go on in segments {seg} and {next}")));
        }
        let mut s = Segments {
            geo,
            usages,
            clean,
            cursor,
            last,
            touched: BTreeSet::new(),
            unready: BTreeSet::new(),
            seqs: FxHashMap::default(),
            super_seq,
            pool: VecDeque::new(),
            reuses: 0,
        };
        s.seqs.insert(seg, cursor.seq);
        s.occupy(seg);
        s.occupy(next);
        Ok(s)
    }

    /// The segment is not free any more.
    pub fn occupy(&mut self, seg: u64) {
        let usage = &mut self.usages[seg as usize];
        if usage.is_clean() {
            *usage = Usage { age: usage.age, blocks: 0, flags: DIRTY };
            self.clean -= 1;
            self.touched.insert(seg);
        }
    }

    /// The segment is free as soon as the next log is on media.
    pub fn vacate(&mut self, seg: u64) {
        self.usages[seg as usize] = Usage::default();
        self.clean += 1;
        self.touched.insert(seg);
        self.unready.insert(seg);
    }

    /// Blocks left in the present segment.
    pub fn left(&self) -> u64 {
        self.geo.end(self.cursor.seg).saturating_sub(self.cursor.at)
    }

    /// Blocks that logs can have before something is cleaned.
    pub fn room(&self) -> u64 {
        let ready = self.clean.saturating_sub(self.unready.len() as u64) + 1;
        self.left() + ready * self.geo.seg_blocks
    }

    /// Free segments in the order in which they are taken (`nilfs_sufile_alloc` goes round).
    fn free(&self) -> impl Iterator<Item = u64> + '_ {
        let n = self.geo.segments;
        let all = (1..=n).map(move |i| (self.last + i) % n);
        all.filter(|s| self.usages[*s as usize].is_clean() && !self.unready.contains(s))
    }

    fn is_named(&self, seg: u64) -> bool {
        self.seqs.get(&seg).is_some_and(|seq| *seq >= self.super_seq)
    }

    /// A segment that was written before the mount, with this sequence number or a later one.
    pub fn remember(&mut self, seg: u64, seq: u64) {
        self.seqs.entry(seg).or_insert(seq);
    }

    /// Whether a log has this block.
    pub fn is_written(&self, at: u64) -> bool {
        let seg = self.geo.segment(at);
        let usage = &self.usages[seg as usize];
        let written = self.geo.start(seg) + usage.blocks as u64;
        !usage.is_clean() && at < if seg == self.cursor.seg { self.cursor.at } else { written }
    }

    /// Whether a segment was last written before sequence number `seq` was.
    pub fn is_before(&self, seg: u64, seq: u64) -> bool {
        self.seqs.get(&seg).is_none_or(|s| *s < seq)
    }

    /// Whether the superblock must be written before so many segments are taken.
    pub fn needs_super(&self, count: usize) -> bool {
        self.free().take(count).any(|s| self.is_named(s))
    }

    /// How many segments a log of so many blocks goes on in.
    pub fn crossings(&self, blocks: u64) -> usize {
        let left = self.left();
        if blocks * 4 < left * 3 {
            0
        } else {
            3 + (blocks.saturating_sub(left) / (self.geo.seg_blocks * 7 / 8)) as usize
        }
    }

    /// Chooses up to so many segments for the log that is being made.
    pub fn choose(&mut self, count: usize) -> &VecDeque<u64> {
        self.pool = self.free().filter(|s| !self.is_named(*s)).take(count).collect();
        &self.pool
    }

    /// Notes the blocks that are written in the present segment.
    fn note(&mut self, age: u64) {
        let seg = self.cursor.seg;
        let blocks = (self.cursor.at - self.geo.start(seg)) as u32;
        self.usages[seg as usize] = Usage { age, blocks, flags: DIRTY };
        self.touched.insert(seg);
    }

    /// The log goes on in the next segment. `told`: blocks of the sufile that the log has.
    fn advance(&mut self, age: u64, told: Option<&BTreeSet<u64>>) -> Result<()> {
        let is_told = |seg: u64| told.is_none_or(|told| told.contains(&place(seg).0));
        let next = match self.pool.pop_front() {
            Some(next) => next,
            None => self.free().find(|s| !self.is_named(*s) && is_told(*s)).ok_or(FsError::NoSpace)?,
        };
        self.note(age);
        self.last = next;
        self.reuses += 1;
        self.occupy(next);
        let c = &mut self.cursor;
        (c.seg, c.at, c.next, c.seq) = (c.next, self.geo.start(c.next), next, c.seq + 1);
        self.seqs.insert(c.seg, c.seq);
        Ok(())
    }

    /// Gives each entry of a log, and its super root, a place.
    ///
    /// # Errors
    /// `NoSpace`: there are too few free segments.
    pub fn lay(&mut self, entries: &[SummaryEntry], root: bool, age: u64) -> Result<Vec<Part>> {
        let usages = entries.iter().filter(|e| root && e.ino == SUFILE_INO);
        let told: BTreeSet<u64> =
            usages.filter_map(|e| if let Block::Data(n) = e.part { Some(n) } else { None }).collect();
        let told = root.then_some(&told);
        let (mut parts, mut first, mut root_left) = (Vec::new(), 0, root);
        while first < entries.len() || root_left {
            if self.left() < LEAST_PART {
                self.advance(age, told)?;
            }
            let left = self.left();
            let (mut bytes, mut count) = (HEADER + if root { 0 } else { TIMES_BYTES }, 0);
            for (i, e) in entries[first..].iter().enumerate() {
                let begins = i == 0 || !entries[first + i - 1].goes_with(e);
                let more = bytes + e.bytes() + if begins { FINFO } else { 0 };
                if blocks(more) + count + 1 > left {
                    break;
                }
                (bytes, count) = (more, count + 1);
            }
            let ends = first + count as usize == entries.len();
            let has_root = root_left && ends && blocks(bytes) + count < left;
            root_left &= !has_root;
            let c = self.cursor;
            let count = count as usize;
            parts.push(Part {
                at: c.at,
                seq: c.seq,
                next: c.next,
                summary: blocks(bytes),
                first,
                count,
                root: has_root,
            });
            first += count;
            self.cursor.at += blocks(bytes) + count as u64 + u64::from(has_root);
        }
        self.note(age);
        self.pool.clear();
        Ok(parts)
    }
}

fn blocks(bytes: usize) -> u64 {
    bytes.div_ceil(crate::layout::BLOCK_SIZE) as u64
}
