//! [`Buffer`]: the granules that a DIMM holds between the memory bus and its media (Optane: XPBuffer).
//!
//! ```text
//!   put line ──> | granule 7: lines .xx. | granule 3: xxxx | ...      the first that came leaves first
//!                     | full, or pushed out by another granule
//!                     v
//!   one granule written; where lines are missing that were never read, it is read before
//!
//!   get line ──> held: at once | not held: its granule is read from the media and stays, like a written one
//! ```
//!
//! Without room for a granule (a DIMM of DRAM) every line is a granule, and goes to the media at once.
//!
//! Invariants: a granule is held once; no more are held than there is room for; lines put = combined + left +
//! waiting.
//! It does *not* know content (a buffer is in the persistence domain: what it holds is on the media as far as
//! anybody can tell) nor time.
//!
//! Source: Yang et al., FAST'20, Figure 9: halves of granules are put together up to 16 KiB of them; a
//! granule that is written again and again is written as often, so a full one leaves. First in, first out is
//! our choice: beyond 16 KiB theirs loses gradually, not at once, which does not tell what goes.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

#[derive(Clone, Copy, Default)]
struct Granule {
    /// Lines that were written.
    dirty: u64,
    /// Lines that are there.
    valid: u64,
    /// Lines that came with another one, and are paid for until they are asked for.
    paid: u64,
}

/// Results of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The line is there. `paid`: its way from the media was paid for when its granule was read.
    Held {
        /// Whether it was.
        paid: bool,
    },
    /// The granule was read from the media.
    Fetched {
        /// Lines that it took.
        lines: u64,
        /// Lines that a granule which had to go was short of.
        pushed: u64,
    },
}

/// The buffer of one DIMM.
#[derive(Clone)]
pub struct Buffer {
    room: usize,
    /// Lines of a granule.
    lines: u64,
    held: FxHashMap<u64, Granule>,
    order: VecDeque<u64>,
    /// Lines written.
    pub put: u64,
    /// Lines that were there already, and not written out yet.
    pub combined: u64,
    /// Lines written out.
    pub left: u64,
    /// Lines found.
    pub hits: u64,
    /// Granules read.
    pub reads: u64,
    /// Granules written.
    pub writes: u64,
}

impl Buffer {
    /// An empty one with room for `room` granules of `lines` lines each (1 to 64).
    pub fn new(room: usize, lines: u64) -> Buffer {
        Buffer {
            room,
            lines,
            held: FxHashMap::default(),
            order: VecDeque::with_capacity(room + 1),
            put: 0,
            combined: 0,
            left: 0,
            hits: 0,
            reads: 0,
            writes: 0,
        }
    }

    fn all(&self) -> u64 {
        u64::MAX >> (64 - self.lines)
    }

    /// Writes a line; returns the lines that a granule which had to go for it was short of.
    pub fn put(&mut self, line: u64) -> u64 {
        self.put += 1;
        if self.room == 0 {
            (self.left, self.writes) = (self.left + 1, self.writes + 1);
            return 0;
        }
        let (all, bit) = (self.all(), 1 << (line % self.lines));
        let (granule, new) = self.entry(line / self.lines);
        let again = granule.dirty & bit != 0;
        granule.dirty |= bit;
        granule.valid |= bit;
        granule.paid &= !bit;
        let full = granule.dirty == all;
        if full {
            granule.dirty = 0;
        }
        self.combined += u64::from(again);
        if full {
            (self.left, self.writes) = (self.left + self.lines, self.writes + 1);
        }
        if new { self.push_out() } else { 0 }
    }

    /// Looks for a line, and reads its granule where it is not there.
    pub fn get(&mut self, line: u64) -> Found {
        if self.room == 0 {
            self.reads += 1;
            return Found::Fetched { lines: 1, pushed: 0 };
        }
        let (lines, all, bit) = (self.lines, self.all(), 1 << (line % self.lines));
        let (granule, new) = self.entry(line / lines);
        if granule.valid & bit != 0 {
            let paid = granule.paid & bit != 0;
            granule.paid &= !bit;
            self.hits += 1;
            return Found::Held { paid };
        }
        granule.paid = all & !granule.valid & !bit;
        granule.valid = all;
        self.reads += 1;
        Found::Fetched { lines, pushed: if new { self.push_out() } else { 0 } }
    }

    /// The granule, and whether it is new.
    fn entry(&mut self, granule: u64) -> (&mut Granule, bool) {
        let mut new = false;
        let entry = self.held.entry(granule).or_insert_with(|| {
            new = true;
            self.order.push_back(granule);
            Granule::default()
        });
        (entry, new)
    }

    /// Lets the oldest granule go where there is no room.
    fn push_out(&mut self) -> u64 {
        if self.order.len() > self.room { self.write_oldest() } else { 0 }
    }

    /// Writes the oldest granule; returns the lines that it was short of.
    fn write_oldest(&mut self) -> u64 {
        let granule = self.order.pop_front().and_then(|number| self.held.remove(&number)).unwrap_or_default();
        if granule.dirty == 0 {
            return 0;
        }
        self.writes += 1;
        self.reads += u64::from(granule.valid != self.all());
        let dirty = u64::from(granule.dirty.count_ones());
        self.left += dirty;
        self.lines - dirty
    }

    /// Writes everything; returns the lines that the granules were short of.
    pub fn drain(&mut self) -> u64 {
        (0..self.order.len()).map(|_| self.write_oldest()).sum()
    }

    /// Lines that wait to be written out.
    pub fn waiting(&self) -> u64 {
        self.held.values().map(|granule| u64::from(granule.dirty.count_ones())).sum()
    }

    /// Adds the contradictions in the buffer to `wrong`.
    pub fn check(&self, wrong: &mut Vec<String>) {
        if self.put != self.combined + self.left + self.waiting() {
            let waiting = self.waiting();
            wrong.push(format!(
                "{} lines came into the buffer, but {} were combined, {} left and {waiting} wait",
                self.put, self.combined, self.left
            ));
        }
        if self.order.len() != self.held.len() || self.held.len() > self.room {
            wrong.push(format!(
                "the buffer has room for {} granules, holds {} and lists {}",
                self.room,
                self.held.len(),
                self.order.len()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_granule_is_written_once_and_a_part_of_one_is_read_before() {
        let mut buffer = Buffer::new(1, 4);
        assert_eq!((0..4).map(|line| buffer.put(line)).sum::<u64>(), 0);
        assert_eq!(buffer.put(4), 0);
        assert_eq!((buffer.writes, buffer.reads), (1, 0));
        assert_eq!(buffer.put(8), 3, "three lines of the second granule never came");
        assert_eq!((buffer.writes, buffer.reads), (2, 1));
        assert_eq!(buffer.drain(), 3);
        assert_eq!((buffer.writes, buffer.left, buffer.waiting()), (3, 6, 0));
    }

    #[test]
    fn a_granule_that_was_read_is_complete() {
        let mut buffer = Buffer::new(2, 4);
        assert_eq!(buffer.get(5), Found::Fetched { lines: 4, pushed: 0 });
        assert_eq!(buffer.get(6), Found::Held { paid: true });
        assert_eq!(buffer.get(6), Found::Held { paid: false });
        buffer.put(7);
        buffer.drain();
        assert_eq!((buffer.reads, buffer.writes), (1, 1));
    }

    #[test]
    fn the_lines_of_a_partly_written_granule_that_are_there_are_found() {
        let mut buffer = Buffer::new(2, 4);
        buffer.put(1);
        assert_eq!(buffer.get(1), Found::Held { paid: false });
        assert_eq!(buffer.get(2), Found::Fetched { lines: 4, pushed: 0 });
        assert_eq!(buffer.get(1), Found::Held { paid: false });
        let mut wrong = Vec::new();
        buffer.check(&mut wrong);
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
