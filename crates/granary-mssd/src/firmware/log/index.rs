//! [`Index`]: which log entries hold the lines of which page. The three layers of ByteFS section 4.3.
//!
//! ```text
//!   partition table        skip list by page           ordered chunk list
//!   | 16 MB | 16 MB | ..   (skiplist.rs)               (chunks.rs)
//!      |       `-> nil
//!      `-> 12 ──> 40 ──> 41 ──> ...
//!           |      `──> { lines, entry } ──> { lines, entry }
//! ```
//!
//! Versions. Of the entries that hold a line the newest one (log order) is what reads see. An older one is kept as long as
//! it can still become current, that is, while everything newer on that line is uncommitted (RECOVER may drop it).
//! Older lines leave the index when a newer version of them is committed or belongs to the same transaction. Log order
//! stands for commit order: transactions that touch the same line are serialised by the host's TxTable until they
//! commit (section 4.3), so within a line the two are the same.
//!
//! Invariants: no empty partition, no page without chunks; a line's committed version has no older version below it, once
//! a write touched that line after the commit.
//! It does *not* hold data, and does not know the log's space.

use super::chunks::{Chunks, EntryRef, NIL, Piece, mask};
use super::skiplist::{Node, SkipList};
use granary_sim::rng::Stream;
use granary_units::TxId;

/// Pages in a partition: 16 MB.
const PARTITION: u32 = 4096;

/// What the index asks about entries.
pub trait Versions {
    /// Of two versions the one with the higher rank is the newer.
    fn rank(&self, entry: EntryRef) -> u32;
    /// The transaction that wrote the entry.
    fn tx(&self, entry: EntryRef) -> TxId;
    /// Whether that transaction counts as committed.
    fn committed(&self, tx: TxId) -> bool;
}

struct Partition {
    pages: SkipList,
    chunks: Chunks,
}

/// The index of the write log.
pub struct Index {
    partitions: Vec<Option<Box<Partition>>>,
    heights: Stream,
    scratch: Vec<Piece>,
    lines: u64,
}

/// For each of `newest_first` the lines that may still be needed.
pub fn needed(newest_first: &[Piece], versions: &impl Versions, mut each: impl FnMut(Piece, u64)) {
    let mut committed = 0u64;
    let mut running: Vec<(TxId, u64)> = Vec::new();
    for &piece in newest_first {
        let mut need = piece.mask() & !committed;
        let tx = versions.tx(piece.entry);
        if versions.committed(tx) {
            committed |= piece.mask();
        } else if let Some((_, seen)) = running.iter_mut().find(|(t, _)| *t == tx) {
            need &= !*seen;
            *seen |= piece.mask();
        } else {
            running.push((tx, piece.mask()));
        }
        each(piece, need);
    }
}

fn split(lpa: u32) -> (usize, u16) {
    ((lpa / PARTITION) as usize, (lpa % PARTITION) as u16)
}

impl Index {
    /// An empty index for a drive of `pages` pages. `seed` decides the heights of the skip lists.
    pub fn new(pages: u64, seed: u64) -> Index {
        let partitions = pages.div_ceil(PARTITION as u64) as usize;
        Index {
            partitions: std::iter::repeat_with(|| None).take(partitions).collect(),
            heights: Stream::new(seed, "log index"),
            scratch: Vec::new(),
            lines: 0,
        }
    }

    /// Lines of all chunks, older versions included.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Bytes of memory that the index takes.
    pub fn memory(&self) -> usize {
        let parts = self.partitions.iter().flatten();
        self.partitions.len() * 8
            + parts.map(|p| size_of::<Partition>() + p.pages.memory() + p.chunks.memory()).sum::<usize>()
    }

    #[inline]
    fn node(&self, lpa: u32) -> Option<(&Partition, Node)> {
        let (p, key) = split(lpa);
        let part = self.partitions[p].as_deref()?;
        Some((part, part.pages.find(key)?))
    }

    /// Finds the newest versions of lines `first..first + lines` of a page: appends them to `found`, disjoint; returns
    /// the lines found, one bit each.
    #[inline]
    pub fn lookup(
        &self,
        lpa: u32,
        first: usize,
        lines: usize,
        versions: &impl Versions,
        found: &mut Vec<Piece>,
    ) -> u64 {
        let Some((part, node)) = self.node(lpa) else { return 0 };
        let want = mask(first, lines);
        let start = found.len();
        let (mut covered, mut overlap) = (0u64, 0u64);
        for piece in part.chunks.iter(part.pages.payload(node)) {
            if piece.first as usize >= first + lines {
                break;
            }
            let m = piece.mask() & want;
            if m != 0 {
                overlap |= covered & m;
                covered |= m;
                let low = m.trailing_zeros();
                found.push(Piece { entry: piece.entry, first: low as u8, lines: m.count_ones() as u8 });
            }
        }
        if overlap != 0 {
            Index::resolve(start, versions, found);
        }
        covered
    }

    /// Makes the overlapping pieces from `start` on disjoint, newest first.
    fn resolve(start: usize, versions: &impl Versions, found: &mut Vec<Piece>) {
        let mut all = found.split_off(start);
        all.sort_unstable_by_key(|p| std::cmp::Reverse(versions.rank(p.entry)));
        let mut taken = 0u64;
        for piece in all {
            found.extend(piece.parts(!taken));
            taken |= piece.mask();
        }
    }

    /// Adds the newest version of some lines; older versions that can no longer be needed leave the index.
    pub fn insert(&mut self, lpa: u32, piece: Piece, versions: &impl Versions) {
        let (p, key) = split(lpa);
        let part = self.partitions[p]
            .get_or_insert_with(|| Box::new(Partition { pages: SkipList::new(), chunks: Chunks::new() }));
        let heights = &mut self.heights;
        let node = part.pages.find_or_insert(key, NIL, || heights.next_u64());
        let head = part.pages.payload(node);
        self.lines += piece.lines as u64;

        let below = &mut self.scratch;
        below.clear();
        let end = piece.first + piece.lines;
        below.extend(
            part.chunks.iter(head).take_while(|c| c.first < end).filter(|c| c.mask() & piece.mask() != 0),
        );
        let head = match below[..] {
            [] => part.chunks.insert(head, piece),
            [old]
                if (old.first, old.lines) == (piece.first, piece.lines) && {
                    let tx = versions.tx(piece.entry);
                    versions.committed(tx) || versions.tx(old.entry) == tx
                } =>
            {
                part.chunks.exchange(head, old, piece.entry);
                self.lines -= old.lines as u64;
                head
            }
            _ => {
                below.push(piece);
                below.sort_unstable_by_key(|p| std::cmp::Reverse(versions.rank(p.entry)));
                debug_assert_eq!(below[0], piece, "an insert is the newest version");
                let mut head = head;
                let (chunks, lines) = (&mut part.chunks, &mut self.lines);
                needed(below, versions, |old, need| {
                    if need != old.mask() {
                        head = chunks.remove(head, old);
                        *lines -= (old.mask() & !need).count_ones() as u64;
                        for rest in old.parts(need) {
                            head = chunks.insert(head, rest);
                        }
                    }
                });
                chunks.insert(head, piece)
            }
        };
        part.pages.set_payload(node, head);
    }

    /// Whether the log holds anything of the page.
    pub fn contains(&self, lpa: u32) -> bool {
        self.node(lpa).is_some()
    }

    /// All chunks of a page, older versions included, are appended to `all`.
    pub fn gather(&self, lpa: u32, all: &mut Vec<Piece>) {
        if let Some((part, node)) = self.node(lpa) {
            all.extend(part.chunks.iter(part.pages.payload(node)));
        }
    }

    /// Makes `pieces` all the chunks of a page.
    pub fn set(&mut self, lpa: u32, pieces: &[Piece]) {
        if pieces.is_empty() {
            self.remove(lpa);
            return;
        }
        let (p, key) = split(lpa);
        let Some(part) = self.partitions[p].as_deref_mut() else { return };
        let Some(node) = part.pages.find(key) else { return };
        let head = part.pages.payload(node);
        let before: u64 = part.chunks.iter(head).map(|c| c.lines as u64).sum();
        part.chunks.free_list(head);
        let head = pieces.iter().fold(NIL, |head, &piece| part.chunks.insert(head, piece));
        part.pages.set_payload(node, head);
        self.lines = self.lines - before + pieces.iter().map(|c| c.lines as u64).sum::<u64>();
    }

    /// Removes a page; returns how many lines of chunks it had.
    pub fn remove(&mut self, lpa: u32) -> u64 {
        let (p, key) = split(lpa);
        let Some(part) = self.partitions[p].as_deref_mut() else { return 0 };
        let Some(head) = part.pages.remove(key) else { return 0 };
        let lines: u64 = part.chunks.iter(head).map(|c| c.lines as u64).sum();
        part.chunks.free_list(head);
        if part.pages.is_empty() {
            self.partitions[p] = None;
        }
        self.lines -= lines;
        lines
    }

    /// The first page not below `lpa` that the log holds something of.
    pub fn at_or_after(&self, lpa: u64) -> Option<u32> {
        let (first, mut key) = ((lpa / PARTITION as u64) as usize, (lpa % PARTITION as u64) as u16);
        for (p, part) in self.partitions.iter().enumerate().skip(first) {
            if let Some((k, _)) = part.as_deref().and_then(|part| part.pages.at_or_after(key)) {
                return Some(p as u32 * PARTITION + k as u32);
            }
            key = 0;
        }
        None
    }

    /// Internal consistency, with the entry of each chunk looked at through `holds(page, piece)`.
    pub fn check(&self, holds: impl Fn(u32, Piece) -> bool) -> Vec<String> {
        let mut bad = Vec::new();
        let mut lines = 0;
        for (p, part) in self.partitions.iter().enumerate() {
            let Some(part) = part.as_deref() else { continue };
            let mut chunks = 0;
            if part.pages.is_empty() {
                bad.push(format!("log index: partition {p} is empty"));
            }
            for (key, node) in part.pages.iter() {
                let lpa = p as u32 * PARTITION + key as u32;
                let list: Vec<Piece> = part.chunks.iter(part.pages.payload(node)).collect();
                chunks += list.len();
                lines += list.iter().map(|c| c.lines as u64).sum::<u64>();
                if list.is_empty() || list.windows(2).any(|w| w[0].first > w[1].first) {
                    bad.push(format!("log index: page {lpa} has an empty or unordered chunk list"));
                }
                for piece in list {
                    if !holds(lpa, piece) {
                        bad.push(format!("log index: page {lpa}: no entry holds {piece:?}"));
                    }
                }
            }
            if chunks != part.chunks.len() {
                bad.push(format!("log index: partition {p} leaks chunks"));
            }
        }
        if lines != self.lines {
            bad.push(format!("log index: {lines} lines, counted {}", self.lines));
        }
        bad
    }
}
