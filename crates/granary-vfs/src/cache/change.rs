//! The changes that a write, or a store through a mapping, makes of each page: the same for every cache.

use super::{PAGE, valid};
use crate::config::Tracking;
use granary_units::{LINE_SIZE, PAGE_SIZE, Page, Payload};
use std::ops::RangeInclusive;

/// How lines become dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Track {
    /// They are.
    Told,
    /// Those that will differ from a duplicate taken now, if there is none yet; and `told`, whatever they
    /// will hold.
    Duplicate {
        /// These lines are.
        told: u64,
    },
}

/// The change of one page.
pub(super) struct Change<'a> {
    /// First byte in the page.
    from: usize,
    data: Payload<'a>,
    /// Lines that become dirty.
    pub lines: u64,
    pub track: Track,
}

impl Change<'_> {
    pub(super) fn apply(&self, page: &mut Page) {
        page.write(self.from, self.data);
    }
}

/// The page's lines that the bytes `from..to` of it touch.
pub(super) fn lines(from: usize, to: usize) -> u64 {
    if from >= to {
        return 0;
    }
    let (first, last) = (from / LINE_SIZE, (to - 1) / LINE_SIZE);
    (u64::MAX >> (63 - (last - first))) << first
}

/// The lines that hold bytes from `end` on.
fn beyond(end: usize) -> u64 {
    lines(end, PAGE_SIZE)
}

/// A write on its way into the cache. `old`: the file's size before.
#[derive(Clone, Copy)]
pub(super) struct Write<'a> {
    pub pos: u64,
    pub data: Payload<'a>,
    pub old: u64,
    pub tracking: Tracking,
}

impl<'a> Write<'a> {
    /// The pages that it touches; it has a byte at least.
    pub(super) fn pages(&self) -> RangeInclusive<u64> {
        self.pos / PAGE..=(self.pos + self.data.len() as u64 - 1) / PAGE
    }

    /// Whether the page must be here before: the file has more of it than is overwritten.
    pub(super) fn needs(&self, page: u64) -> bool {
        let (start, end) = (page * PAGE, self.pos + self.data.len() as u64);
        let whole = self.pos <= start && end >= self.old.min(start + PAGE);
        start < self.old && !whole
    }

    /// The change of `page`; `fresh`: what media hold of it is not known.
    pub(super) fn of(&self, page: u64, fresh: bool) -> Change<'a> {
        let start = page * PAGE;
        let (from, to) = (self.pos.max(start), (self.pos + self.data.len() as u64).min(start + PAGE));
        let data = self.data.part((from - self.pos) as usize, (to - from) as usize);
        let (from, to) = ((from - start) as usize, (to - start) as usize);
        let track = match self.tracking {
            Tracking::Xor if !fresh && start < self.old => {
                let end = (self.old - start).min(PAGE) as usize;
                Track::Duplicate { told: lines(from.max(end / LINE_SIZE * LINE_SIZE), to) & beyond(end) }
            }
            _ => Track::Told,
        };
        // A new page's bytes before the data are within the file from now on.
        Change { from, data, lines: lines(if start >= self.old { 0 } else { from }, to), track }
    }
}

/// The change that a store through a mapping makes of `page`; the file has `size` bytes.
pub(super) fn stored<'a>(pos: u64, data: Payload<'a>, size: u64, page: u64) -> Change<'a> {
    let start = page * PAGE;
    let (from, to) = (pos.max(start), (pos + data.len() as u64).min(start + PAGE));
    Change {
        from: (from - start) as usize,
        data: data.part((from - pos) as usize, (to - from) as usize),
        lines: lines(0, valid(page, size)),
        track: Track::Duplicate { told: 0 },
    }
}

/// Cuts a page that is gathered at `valid`. Says whether a write that has not ended yet put bytes into the
/// rest of its last line, which is dirty again then.
pub(super) fn cut_gathered(page: &mut Page, valid: usize) -> bool {
    if valid >= PAGE_SIZE {
        return false;
    }
    let mut rest = [0; LINE_SIZE];
    let rest = &mut rest[..valid.next_multiple_of(LINE_SIZE) - valid];
    page.copy_out(valid, rest);
    let more = rest.iter().any(|&b| b != 0);
    page.zero_from(valid);
    more
}
