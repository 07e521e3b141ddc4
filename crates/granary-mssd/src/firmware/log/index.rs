//! [`Index`]: which log entries hold the lines of which page. The three layers of ByteFS section 4.3.
//!
//! ```text
//!   partition table        skip list by page           ordered chunk list
//!   | 16 MB | 16 MB | ..   (pages.rs, skiplist.rs)     (chunks.rs)
//!      |       `-> nil
//!      `-> 12 ──> 40 ──> 41 ──> ...
//!           |      `──> | lines held | chunk | chunk | ... | older versions
//! ```
//!
//! Versions. Of the entries that hold a line the newest one (log order) is what reads see. An older one is
//! kept as long as it can still become current, that is, while everything newer on that line is uncommitted
//! (RECOVER may drop it). Older lines leave the index when a newer version of them is committed or belongs to
//! the same transaction. Log order stands for commit order: transactions that touch the same line are
//! serialised by the host's TxTable until they commit (section 4.3), so within a line the two are the same.
//!
//! Invariants: no empty partition, no page without chunks; a line's committed version has no older version
//! below it, once a write touched that line after the commit. It does *not* hold data, and does not know the
//! log's space.

use super::chunks::{Chunks, EntryRef, NIL, Piece, Scratch, mask};
use super::pages::{KEYS, Pages};
use granary_sim::rng::Stream;
use granary_units::TxId;

/// Pages in a partition: 16 MB.
const PARTITION: u32 = KEYS as u32;
/// Lines that are looked up ahead together: the memory's waits for as many overlap.
pub const TOGETHER: usize = 32;

/// Facts about entries that the index asks for.
pub trait LineVersions {
    /// The transaction that wrote the entry.
    fn tx(&self, entry: EntryRef) -> TxId;
    /// Whether that transaction counts as committed.
    fn committed(&self, tx: TxId) -> bool;
}

/// The way from a page to its lines. It lies on one line of memory, in the table itself, because each step to
/// another line has to be waited for.
#[repr(align(64))]
#[derive(Clone)]
struct Partition {
    pages: Pages,
    chunks: Chunks,
}

const _: () = assert!(size_of::<Option<Partition>>() == 64);

/// The index of the write log.
#[derive(Clone)]
pub struct Index {
    partitions: Vec<Option<Partition>>,
    heights: Stream,
    scratch: Scratch,
    lines: u64,
}

/// For each of `newest_first` the lines that may still be needed.
pub fn needed(newest_first: &[Piece], versions: &impl LineVersions, mut each: impl FnMut(Piece, u64)) {
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
            scratch: Scratch::default(),
            lines: 0,
        }
    }

    /// For a drive that has become larger, of `pages` pages.
    pub fn grow(&mut self, pages: u64) {
        self.partitions.resize_with(pages.div_ceil(PARTITION as u64) as usize, || None);
    }

    /// Lines of all chunks, older versions included.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Bytes of memory that the index takes.
    pub fn memory(&self) -> usize {
        let parts = self.partitions.iter().flatten();
        self.partitions.len() * size_of::<Option<Partition>>()
            + parts.map(|p| p.pages.memory() + p.chunks.memory()).sum::<usize>()
    }

    /// The partition and the record of a page.
    #[inline]
    fn record(&self, lpa: u32) -> Option<(&Partition, u32)> {
        let (p, key) = split(lpa);
        let part = self.partitions[p].as_ref()?;
        Some((part, part.pages.find(key)?))
    }

    /// Finds the newest versions of lines `first..first + lines` of a page: appends them to `found`,
    /// ascending and disjoint; returns the lines found, one bit each.
    #[inline]
    pub fn lookup(&self, lpa: u32, first: usize, lines: usize, found: &mut Vec<Piece>) -> u64 {
        let Some((part, record)) = self.record(lpa) else { return 0 };
        part.chunks.lookup(record, mask(first, lines), found)
    }

    /// Work on a page comes soon: fetches the first memory that this reads into the processor's cache.
    /// [`Index::prefetch_record`] fetches the second when the first has come, then [`Index::prefetch_chunks`]
    /// the third.
    #[inline]
    pub fn prefetch_group(&self, lpa: u32) {
        let (p, key) = split(lpa);
        self.partitions[p].iter().for_each(|part| part.pages.prefetch_group(key));
    }

    /// See [`Index::prefetch_group`].
    #[inline]
    pub fn prefetch_record(&self, lpa: u32) {
        let (p, key) = split(lpa);
        self.partitions[p].iter().for_each(|part| part.pages.prefetch_record(key));
    }

    /// See [`Index::prefetch_group`].
    #[inline]
    pub fn prefetch_chunks(&self, lpa: u32) {
        if let Some((part, record)) = self.record(lpa) {
            part.chunks.prefetch(record);
        }
    }

    /// Looks up to [`TOGETHER`] lines (page, line in it) ahead: one after the other, what all of them read
    /// first, second, and so on is fetched into the processor's cache, down to their entries. Returns where
    /// those are; none where the log does not hold the line.
    pub fn look_ahead(&self, lines: &[(u32, u8)]) -> [Option<(&Chunks, u32)>; TOGETHER] {
        lines.iter().for_each(|&(page, _)| self.prefetch_group(page));
        lines.iter().for_each(|&(page, _)| self.prefetch_record(page));
        let mut at = [None; TOGETHER];
        for (at, &(page, _)) in at.iter_mut().zip(lines) {
            *at = self.record(page).map(|(part, record)| (&part.chunks, record));
            if let Some((chunks, record)) = at {
                chunks.prefetch(*record);
            }
        }
        for (at, &(_, line)) in at.iter_mut().zip(lines) {
            *at = at.and_then(|(chunks, record)| Some((chunks, chunks.place_of(record, line as u32)?)));
            if let Some((chunks, place)) = at {
                chunks.prefetch(*place);
            }
        }
        at
    }

    /// Adds the newest version of some lines; older versions that can no longer be needed leave the index.
    pub fn insert(&mut self, lpa: u32, piece: Piece, versions: &impl LineVersions) {
        let (p, key) = split(lpa);
        let part = self.partitions[p]
            .get_or_insert_with(|| Partition { pages: Pages::new(), chunks: Chunks::new() });
        let head = part.pages.find(key);
        let (record, change) = part.chunks.insert(head.unwrap_or(NIL), piece, versions, &mut self.scratch);
        self.lines = self.lines.checked_add_signed(change).expect("a record loses lines that it had");
        match head {
            None => part.pages.insert(key, record, || self.heights.next_u64()),
            Some(same) if same == record => {}
            Some(_) => part.pages.set(key, record),
        }
    }

    /// Whether the log holds anything of the page.
    pub fn contains(&self, lpa: u32) -> bool {
        self.record(lpa).is_some()
    }

    /// All chunks of a page, older versions included, are appended to `all`: newest first for each line.
    pub fn gather(&self, lpa: u32, all: &mut Vec<Piece>) {
        if let Some((part, record)) = self.record(lpa) {
            part.chunks.gather(record, all);
        }
    }

    /// Makes `newest_first` (newest first for each line) all the chunks of a page that the index holds.
    pub fn set(&mut self, lpa: u32, newest_first: &[Piece]) {
        if newest_first.is_empty() {
            self.remove(lpa);
            return;
        }
        let (p, key) = split(lpa);
        let Some(part) = self.partitions[p].as_mut() else { return };
        let Some(head) = part.pages.find(key) else { return };
        self.lines -= part.chunks.lines(head);
        let record = part.chunks.set(head, newest_first);
        self.lines += part.chunks.lines(record);
        part.pages.set(key, record);
    }

    /// Removes a page; returns how many lines of chunks it had.
    pub fn remove(&mut self, lpa: u32) -> u64 {
        let (p, key) = split(lpa);
        let Some(part) = self.partitions[p].as_mut() else { return 0 };
        let Some(head) = part.pages.remove(key) else { return 0 };
        let lines = part.chunks.lines(head);
        part.chunks.release(head);
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
            if let Some(k) = part.as_ref().and_then(|part| part.pages.at_or_after(key)) {
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
            let Some(part) = part.as_ref() else { continue };
            let mut records = 0;
            if part.pages.is_empty() {
                bad.push(format!("log index: partition {p} is empty"));
            }
            for (key, record) in part.pages.iter() {
                let lpa = p as u32 * PARTITION + key as u32;
                records += 1;
                lines += part.chunks.lines(record);
                bad.extend(
                    part.chunks.check(record).into_iter().map(|b| format!("log index: page {lpa}: {b}")),
                );
                let mut all = Vec::new();
                part.chunks.gather(record, &mut all);
                for piece in all {
                    if !holds(lpa, piece) {
                        bad.push(format!("log index: page {lpa}: no entry holds {piece:?}"));
                    }
                }
            }
            if records != part.chunks.len() {
                bad.push(format!("log index: partition {p} leaks records"));
            }
        }
        if lines != self.lines {
            bad.push(format!("log index: {lines} lines, counted {}", self.lines));
        }
        bad
    }
}
