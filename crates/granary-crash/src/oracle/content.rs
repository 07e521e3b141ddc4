//! [`Content`]: what a file may contain and how long it may be, after a power failure or when it is read.
//!
//! ```text
//!   base (certain)   |AAAAAAAAAAAA|                     size 12
//!   ops in order        write |BBBB|      durable       hides A below it
//!                       write      |CCCCCCCC|           may show, in part: A or C, zero or C beyond 12
//!                       truncate(6)                     may have happened: zeros beyond 6
//! ```
//!
//! Invariants: operations are in the order in which they began; `base` is older than all of them, except that
//! an operation which overlaps neither in bytes nor in time may have been folded into it earlier. An
//! operation that failed stays in flight for ever: parts of it may show, it hides nothing. It does *not*
//! promise an order among changes that nobody flushed.

mod torn;

use super::segments::{Segments, Source, explain};
use super::stamp::{StampId, Stamps, Tick};
use granary_fs::Allocate;
use granary_units::Payload;
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Kind {
    Write {
        pos: u64,
        len: u64,
        source: Source,
        /// An append in flight: it lies somewhere from `pos` on.
        floating: bool,
        /// The file reaches its end at least; a store through a mapping does not move the end.
        grows: bool,
        /// The call had an error of the drive: any part of it may show.
        failed: bool,
    },
    Truncate(u64),
    /// A range was allocated: it may be zero now, the file may reach its end.
    Space {
        pos: u64,
        end: u64,
        zeroes: bool,
        extends: bool,
        /// It may have blocks that nothing was written to.
        reserves: bool,
    },
}

#[derive(Clone, Debug)]
struct Op {
    stamp: StampId,
    kind: Kind,
}

impl Op {
    /// The bytes whose value it may set.
    fn covers(&self) -> Range<u64> {
        match self.kind {
            Kind::Write { pos, floating: true, .. } => pos..u64::MAX,
            Kind::Write { pos, len, .. } => pos..pos + len,
            Kind::Truncate(size) => size..u64::MAX,
            Kind::Space { pos, end, zeroes: true, .. } => pos..end,
            Kind::Space { end, .. } => end..end,
        }
    }

    /// The size that the file has at least once it is done, if any.
    fn reaches(&self) -> Option<u64> {
        match self.kind {
            Kind::Write { pos, len, grows: true, .. } => (len > 0).then_some(pos + len),
            Kind::Space { end, extends: true, .. } => Some(end),
            _ => None,
        }
    }

    /// Whether the order of the two makes a difference.
    fn meets(&self, other: &Op) -> bool {
        let (a, b) = (self.covers(), other.covers());
        let cut = matches!(self.kind, Kind::Truncate(_)) || matches!(other.kind, Kind::Truncate(_));
        cut || (a.start < b.end && b.start < a.end)
    }
}

/// The content of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    /// Shared with forks until either folds something into it.
    base: Arc<Segments>,
    base_size: u64,
    /// Space up to here may be reserved, as far as the certain content is concerned.
    base_reserved: u64,
    /// The power failed where a cut of it may not have been over.
    was_cut: bool,
    ops: Vec<Op>,
    /// When operations were last folded into the base: what was possible before is no longer known.
    folded: Tick,
}

impl Content {
    /// Content that is certain.
    pub(crate) fn certain(base: Segments, size: u64) -> Content {
        Content { base: Arc::new(base), base_size: size, ..Content::default() }
    }

    /// The same content, where it is certain and this long: a look at the file can find nothing else.
    pub(crate) fn known(&self, size: u64) -> Option<Content> {
        let known = self.ops.is_empty() && self.base_size == size;
        known.then(|| Content { base: Arc::clone(&self.base), base_size: size, ..Content::default() })
    }

    /// Space beyond its end may be there that may have been there in `before`.
    pub(crate) fn inherit(&mut self, before: &Content) {
        // A write that was under way may have its blocks, and not its size yet: ext4 gives that to what has
        // landed.
        let writes = before.ops.iter().filter(|op| matches!(op.kind, Kind::Write { .. }));
        let written = writes.map(|op| op.covers().end).max().unwrap_or(0);
        self.base_reserved = self.base_reserved.max(before.reserved()).max(written);
        self.was_cut |= before.was_cut || before.cuts().next().is_some();
    }

    /// Whether the power failed where a cut of it may not have been over: what lies beyond its end is to be
    /// looked at.
    pub(crate) fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Up to which byte space may be reserved, within the file or beyond its end.
    pub(crate) fn reserved(&self) -> u64 {
        let ends = self.ops.iter().filter_map(|op| match op.kind {
            Kind::Space { end, reserves: true, .. } => Some(end),
            _ => None,
        });
        ends.fold(self.base_reserved, u64::max)
    }

    /// A write begins. `pos`: `None` where it goes to the end, wherever that is.
    pub(crate) fn begin_write(&mut self, stamps: &Stamps, by: StampId, pos: Option<u64>, data: Payload<'_>) {
        let floating = pos.is_none();
        let pos = pos.unwrap_or_else(|| self.size_range(stamps, Tick::MAX - 1).0);
        let source = match data {
            Payload::Fill { word, .. } => Source::Fill(word),
            Payload::Bytes(b) if floating => Source::Anywhere(b.into()),
            Payload::Bytes(b) => Source::Bytes { data: b.into(), origin: pos },
        };
        let kind = Kind::Write { pos, len: data.len() as u64, source, floating, grows: true, failed: false };
        self.ops.push(Op { stamp: by, kind });
    }

    /// The drive failed the write: any part of it may be there.
    pub(crate) fn fail_write(&mut self, by: StampId) {
        if let Some(Op { kind: Kind::Write { failed, .. }, .. }) =
            self.ops.iter_mut().find(|op| op.stamp == by)
        {
            *failed = true;
        }
    }

    /// The write ended: `len` bytes are at `pos`.
    pub(crate) fn end_write(&mut self, by: StampId, pos: u64, written: u64) {
        let Some(op) = self.ops.iter_mut().find(|op| op.stamp == by) else { return };
        if let Kind::Write { pos: at, len, source, floating, .. } = &mut op.kind {
            if let Source::Anywhere(data) | Source::Bytes { data, .. } = source {
                *source = Source::Bytes { data: data.clone(), origin: pos };
            }
            (*at, *len, *floating) = (pos, written, false);
        }
    }

    /// Bytes are stored at `pos` through a mapping: the file is as long as before.
    pub(crate) fn begin_store(&mut self, by: StampId, pos: u64, data: Payload<'_>) {
        let source = match data {
            Payload::Fill { word, .. } => Source::Fill(word),
            Payload::Bytes(b) => Source::Bytes { data: b.into(), origin: pos },
        };
        let kind =
            Kind::Write { pos, len: data.len() as u64, source, floating: false, grows: false, failed: false };
        self.ops.push(Op { stamp: by, kind });
    }

    /// The stores within `range` that had ended by `horizon` are durable.
    pub(crate) fn keep_stores(&mut self, stamps: &mut Stamps, range: Range<u64>, horizon: Tick) {
        for op in &self.ops {
            let inside = op.covers().start >= range.start && op.covers().end <= range.end;
            if inside && matches!(op.kind, Kind::Write { grows: false, .. }) {
                stamps.keep(op.stamp, horizon);
            }
        }
        self.fold(stamps);
    }

    /// A truncation (or extension) begins.
    pub(crate) fn begin_truncate(&mut self, by: StampId, size: u64) {
        for op in &mut self.ops {
            // An append in flight may come after it.
            if let Kind::Write { pos, floating: true, .. } = &mut op.kind {
                *pos = size.min(*pos);
            }
        }
        self.ops.push(Op { stamp: by, kind: Kind::Truncate(size) });
    }

    /// An allocation of the bytes `range` begins, or with `how` a hole in them.
    pub(crate) fn begin_space(&mut self, by: StampId, range: Range<u64>, how: Allocate) {
        let kind = Kind::Space {
            pos: range.start,
            end: range.end,
            zeroes: how.zeroes(),
            extends: how.grows(),
            reserves: how != Allocate::PunchHole,
        };
        self.ops.push(Op { stamp: by, kind });
    }

    /// The change did not happen at all.
    pub(crate) fn remove(&mut self, by: StampId) {
        self.ops.retain(|op| op.stamp != by);
    }

    /// The changes made durable by a flush that began at `horizon`.
    pub(crate) fn keep(&mut self, stamps: &mut Stamps, horizon: Tick) {
        for op in &self.ops {
            stamps.keep(op.stamp, horizon);
        }
        self.fold(stamps);
    }

    /// Folds into the base what is durable and whose order against all others is certain.
    pub(crate) fn fold(&mut self, stamps: &mut Stamps) {
        let mut i = 0;
        while i < self.ops.len() {
            let op = &self.ops[i];
            let certain = stamps.durable(op.stamp)
                && (self.ops.iter().enumerate())
                    .all(|(j, other)| j == i || !op.meets(other) || stamps.before(op.stamp, other.stamp));
            if !certain {
                i += 1;
                continue;
            }
            let op = self.ops.remove(i);
            match op.kind {
                Kind::Write { pos, len, source, grows, .. } => {
                    Arc::make_mut(&mut self.base).write(pos..pos + len, source);
                    if len > 0 && grows {
                        self.base_size = self.base_size.max(pos + len);
                    }
                }
                Kind::Truncate(size) => {
                    Arc::make_mut(&mut self.base).truncate(size);
                    // Only a shorter file must give up space beyond its end. One of the same size may keep
                    // it: ext4 gives it up, NOVA does nothing.
                    if size < self.base_size {
                        self.base_reserved = self.base_reserved.min(size);
                    }
                    self.base_size = size;
                }
                Kind::Space { pos, end, zeroes, extends, reserves } => {
                    if reserves {
                        self.base_reserved = self.base_reserved.max(end);
                    }
                    if zeroes {
                        Arc::make_mut(&mut self.base).write(pos..end, Source::Zero);
                    }
                    if extends {
                        self.base_size = self.base_size.max(end);
                    }
                }
            }
            self.folded = stamps.tick();
        }
    }

    /// Whether there are changes that are not part of the certain content.
    pub(crate) fn has_pending(&self) -> bool {
        !self.ops.is_empty()
    }

    /// Whether everything that was possible since `since` is still known.
    pub(crate) fn known_since(&self, since: Tick) -> bool {
        self.folded <= since
    }

    /// Cuts that are not part of the certain content.
    fn cuts(&self) -> impl Iterator<Item = (StampId, u64)> {
        self.ops.iter().filter_map(|op| match op.kind {
            Kind::Truncate(size) => Some((op.stamp, size)),
            Kind::Write { .. } | Kind::Space { .. } => None,
        })
    }

    /// Smallest and largest possible size at `horizon` (0: after a power failure).
    pub(crate) fn size_range(&self, stamps: &Stamps, horizon: Tick) -> (u64, u64) {
        let cuts = || self.cuts();
        let (mut low, mut high) = (u64::MAX, 0);
        // Each truncation that nothing certainly follows may have been the last one; so may none.
        for (cut, size) in std::iter::once((StampId::ORIGIN, self.base_size)).chain(cuts()) {
            if cuts().any(|(later, _)| stamps.supersedes(later, cut, horizon)) {
                continue;
            }
            let (mut least, mut most, mut floating_bytes) = (size, size, 0);
            for op in &self.ops {
                let Some(end) = op.reaches() else { continue };
                if stamps.supersedes(op.stamp, cut, horizon) {
                    least = least.max(end);
                }
                if cut == StampId::ORIGIN || !stamps.before(op.stamp, cut) {
                    most = most.max(end);
                    if let Kind::Write { len, floating: true, .. } = op.kind {
                        floating_bytes += len;
                    }
                }
            }
            low = low.min(least);
            high = high.max(most + floating_bytes);
        }
        (low, high)
    }

    /// The certain size and the changes since, for evidence.
    pub(crate) fn history(&self, stamps: &Stamps) -> String {
        let mut text = format!("certain: {} bytes", self.base_size);
        for op in &self.ops {
            let what = match op.kind {
                Kind::Write { len, floating: true, .. } => format!("append of {len}"),
                Kind::Write { pos, len, grows: false, .. } => format!("store {pos:#x}..{:#x}", pos + len),
                Kind::Write { pos, len, .. } => format!("write {pos:#x}..{:#x}", pos + len),
                Kind::Truncate(size) => format!("size {size:#x}"),
                Kind::Space { pos, end, zeroes, extends, .. } => {
                    let what = if zeroes { "zero" } else { "reserve" };
                    format!("{what} {pos:#x}..{end:#x}{}", if extends { " and grow" } else { "" })
                }
            };
            let ended = stamps.in_force(op.stamp, Tick::MAX - 1);
            let state = match (stamps.durable(op.stamp), ended) {
                (true, _) => " (promised)",
                (false, true) => "",
                (false, false) => " (in flight)",
            };
            text += &format!(", then {what}{state}");
        }
        text
    }

    /// Whether bytes read at `at` are all somebody's who wrote them there and may still be seen at `horizon`.
    pub(crate) fn explain(
        &self,
        stamps: &Stamps,
        horizon: Tick,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), String> {
        let range = at..at + bytes.len() as u64;
        let mut cuts = vec![range.start, range.end];
        self.base.bounds(&range, &mut cuts);
        for op in &self.ops {
            let c = op.covers();
            cuts.extend([c.start, c.end].into_iter().filter(|b| range.contains(b)));
        }
        cuts.sort_unstable();
        cuts.dedup();
        let mut sources = Vec::new();
        for w in cuts.windows(2) {
            let (from, to) = (w[0], w[1]);
            let over = || self.ops.iter().filter(|op| op.covers().contains(&from));
            let hidden =
                |v: StampId| over().any(|w| !is_floating(w) && stamps.supersedes(w.stamp, v, horizon));
            sources.clear();
            if !hidden(StampId::ORIGIN) {
                sources.push(self.base.at(from));
            }
            sources.extend(over().filter(|op| !hidden(op.stamp)).map(|op| match &op.kind {
                Kind::Write { source, .. } => source.clone(),
                Kind::Truncate(_) | Kind::Space { .. } => Source::Zero,
            }));
            let part = (from - at) as usize..(to - at) as usize;
            explain(from, &bytes[part], &sources)?;
        }
        Ok(())
    }
}

fn is_floating(op: &Op) -> bool {
    matches!(op.kind, Kind::Write { floating: true, .. })
}

#[cfg(test)]
mod tests;
