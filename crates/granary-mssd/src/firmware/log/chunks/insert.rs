//! Pieces that come into chunks.

use super::{CLASSES, Chunks, EntryRef, HEADER, NIL, Piece, class_for, piece_of, range_word};
use crate::firmware::log::chunks::cut::Scratch;
use crate::firmware::log::index::LineVersions;
use crate::firmware::log::lean::{LEAN, Lean};

impl Chunks {
    /// Adds the newest version of some lines to a record ([`NIL`]: to a new one); older versions that can no
    /// longer be needed leave. Returns the record and by how much its lines changed.
    pub fn insert(
        &mut self,
        head: u32,
        piece: Piece,
        versions: &impl LineVersions,
        scratch: &mut Scratch,
    ) -> (u32, i64) {
        if head == NIL {
            return (self.build(&[piece], &[]), piece.lines as i64);
        }
        if head & LEAN != 0 {
            return self.insert_lean(head, piece, versions, scratch);
        }
        let (cover, starts, new) = (self.cover(head), self.starts(head), piece.mask());
        if cover & new == 0 {
            return (self.add(head, cover, starts, piece), piece.lines as i64);
        }
        if cover & new == new {
            let (index, first, end) = Chunks::chunk_at(cover, starts, piece.first as u32);
            if (first, end) == (piece.first as u32, (piece.first + piece.lines) as u32)
                && let Some(change) = self.replace(head, index, piece, versions)
            {
                return (head, change);
            }
        }
        self.cut(head, piece, versions, scratch)
    }

    /// The same for a lean record, which stays one where that is simple.
    pub(super) fn insert_lean(
        &mut self,
        head: u32,
        piece: Piece,
        versions: &impl LineVersions,
        scratch: &mut Scratch,
    ) -> (u32, i64) {
        let lean = self.lean(head);
        let overlapped = lean.pieces().iter().enumerate().find(|(_, p)| p.mask() & piece.mask() != 0);
        match overlapped {
            None => {
                if let Some(more) = lean.with(piece) {
                    self.release(head);
                    return (self.build_lean(&more), piece.lines as i64);
                }
            }
            Some((nth, same)) if (same.first, same.lines) == (piece.first, piece.lines) => {
                let tx = versions.tx(piece.entry);
                if versions.tx(same.entry) == tx || versions.committed(tx) {
                    self.words[(head & !LEAN) as usize + 1 + nth] = piece.entry.0;
                    return (head, 0);
                }
            }
            Some(_) => {}
        }
        self.release(head);
        let head = self.build_masks(lean.pieces(), &[]);
        self.insert(head, piece, versions, scratch)
    }

    /// A chunk on lines that the record does not cover.
    pub(super) fn add(&mut self, head: u32, cover: u64, starts: u64, piece: Piece) -> u32 {
        let below = (starts & ((1u64 << piece.first) - 1)).count_ones() as usize;
        let (older, class) = self.older(head);
        let used = starts.count_ones() as usize + 2 * older;
        let (head, from) = if used < CLASSES[class] as usize {
            (head, head)
        } else {
            let bigger = class_for(used + 1);
            let new = self.allocate(bigger);
            let (at, to) = (head as usize, new as usize);
            self.words.copy_within(at..at + HEADER + below, to);
            self.set_older(new, older, bigger);
            (new, head)
        };
        let (to, from) = (head as usize + HEADER, from as usize + HEADER);
        self.words.copy_within(from + below..from + used, to + below + 1);
        self.words[to + below] = piece.entry.0;
        self.set_mask(head as usize, cover | piece.mask());
        self.set_mask(head as usize + 2, starts | 1 << piece.first);
        if from != to {
            self.release((from - HEADER) as u32);
        }
        head
    }

    /// A new version of exactly one current chunk, in place where that is simple: returns the change in
    /// lines.
    pub(super) fn replace(
        &mut self,
        head: u32,
        index: usize,
        piece: Piece,
        versions: &impl LineVersions,
    ) -> Option<i64> {
        let at = head as usize + HEADER;
        let old = EntryRef(self.words[at + index]);
        let (older, class) = self.older(head);
        let tx = versions.tx(piece.entry);
        let old_tx = versions.tx(old);
        let mut change = 0;
        if old_tx != tx && versions.committed(tx) {
            if older != 0 {
                return None;
            }
        } else if old_tx != tx {
            let chunks = self.starts(head).count_ones() as usize;
            let below = at + chunks;
            let room = (CLASSES[class] as usize - chunks) / 2;
            let mut count = older;
            if versions.committed(old_tx) {
                // The committed version makes what is below it superfluous.
                let dropped = self.drop_older(below, older, piece.mask())?;
                (count, change) = (older - dropped, -((dropped * piece.lines as usize) as i64));
            }
            if count == room {
                // Where something was dropped there is room.
                return None;
            }
            self.words.copy_within(below..below + 2 * count, below + 2);
            self.words[below] = old.0;
            self.words[below + 1] = range_word(&piece);
            self.set_older(head, count + 1, class);
            change += piece.lines as i64;
        }
        self.words[at + index] = piece.entry.0;
        Some(change)
    }

    /// Takes the older versions of exactly these lines out of the list at `below`; returns how many. `None`
    /// where one has some of the lines and others.
    pub(super) fn drop_older(&mut self, below: usize, count: usize, lines: u64) -> Option<usize> {
        // As a rule at most one is concerned: nothing before it moves.
        let mut first = None;
        for (i, pair) in self.words[below..below + 2 * count].chunks_exact(2).enumerate() {
            let m = piece_of(pair[0], pair[1]).mask();
            if m & lines == 0 {
                continue;
            }
            if m != lines {
                return None;
            }
            first = first.or(Some(i));
        }
        let Some(first) = first else { return Some(0) };
        let mut kept = below + 2 * first;
        for i in first..count {
            let at = below + 2 * i;
            if self.older_at(at).mask() & lines == 0 {
                (self.words[kept], self.words[kept + 1]) = (self.words[at], self.words[at + 1]);
                kept += 2;
            }
        }
        Some(count - (kept - below) / 2)
    }

    /// A record of disjoint ascending chunks and older versions, newest first for each line.
    pub(super) fn build(&mut self, current: &[Piece], older: &[Piece]) -> u32 {
        match Lean::new(current, older) {
            Some(lean) => self.build_lean(&lean),
            None => self.build_masks(current, older),
        }
    }

    pub(super) fn build_lean(&mut self, lean: &Lean) -> u32 {
        let (len, size) = (lean.pieces().len(), Lean::size(lean.pieces().len()));
        let at = self.take(CLASSES.len() + len - 1, size);
        lean.write(&mut self.words[at as usize..at as usize + size]);
        at | LEAN
    }

    pub(super) fn build_masks(&mut self, current: &[Piece], older: &[Piece]) -> u32 {
        let cover = current.iter().fold(0, |all, p| all | p.mask());
        let starts = current.iter().fold(0, |all, p| all | 1 << p.first);
        let head = self.begin(cover, starts, current.len(), older.len());
        let mut at = head as usize + HEADER;
        for p in current {
            self.words[at] = p.entry.0;
            at += 1;
        }
        for p in older {
            self.words[at] = p.entry.0;
            self.words[at + 1] = range_word(p);
            at += 2;
        }
        head
    }

    /// A record with its header, for so many chunks and older versions.
    pub(super) fn begin(&mut self, cover: u64, starts: u64, chunks: usize, older: usize) -> u32 {
        // Where there are older versions there will be more: without room for them every insertion would make
        // it anew.
        let class = class_for(chunks + 2 * older + older / 2 * 2);
        let head = self.allocate(class);
        self.set_mask(head as usize, cover);
        self.set_mask(head as usize + 2, starts);
        self.set_older(head, older, class);
        head
    }

    /// Makes `newest_first` (newest first for each line) all that `head` holds; returns the record.
    pub fn set(&mut self, head: u32, newest_first: &[Piece]) -> u32 {
        let (mut taken, mut current, mut older) = (0u64, Vec::new(), Vec::new());
        for p in newest_first {
            current.extend(p.parts(!taken));
            older.extend(p.parts(taken));
            taken |= p.mask();
        }
        current.sort_unstable_by_key(|p| p.first);
        self.release(head);
        self.build(&current, &older)
    }
}
