//! Events in the order of their instants.

use super::WINDOW;
use granary_trace::TraceError;
use granary_trace::drive::{Event, Op, Source};
use granary_units::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nothing is issued later: half of what the virtual clock holds, so that what is under way can end.
pub(super) const FARTHEST: Nanos = Nanos(u64::MAX / 2);

/// An event with its order, to be sorted by time.
pub(super) struct Sorted(Event);

impl PartialEq for Sorted {
    fn eq(&self, other: &Sorted) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Sorted {}

impl PartialOrd for Sorted {
    fn partial_cmp(&self, other: &Sorted) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sorted {
    fn cmp(&self, other: &Sorted) -> std::cmp::Ordering {
        // Of one line of a trace the flush comes before its write.
        let key = |s: &Sorted| (s.0.at, s.0.nth, !matches!(s.0.op, Op::Flush));
        key(self).cmp(&key(other))
    }
}

/// The events of a source, those of a block trace in the order of time.
pub(super) struct Ordered<'a> {
    pub(super) source: &'a mut dyn Source,
    pub(super) window: BinaryHeap<Reverse<Sorted>>,
    pub(super) size: usize,
}

impl<'a> Ordered<'a> {
    pub(super) fn new(source: &'a mut dyn Source) -> Ordered<'a> {
        let size = if source.is_record() { 0 } else { WINDOW };
        Ordered { source, window: BinaryHeap::new(), size }
    }

    pub(super) fn next(&mut self) -> Result<Option<Event>, TraceError> {
        if self.size == 0 {
            return self.source.next_event();
        }
        while self.window.len() < self.size {
            match self.source.next_event()? {
                Some(event) => self.window.push(Reverse(Sorted(event))),
                None => break,
            }
        }
        Ok(self.window.pop().map(|Reverse(Sorted(event))| event))
    }
}
