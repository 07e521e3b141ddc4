//! Times of modification and change: between which instants each was set that may show.
//!
//! ```text
//!   write   |-----|            the modification time is an instant of the call
//!   fsync           |---|      from here on: of this call, or of a later one
//!   write                |--   not older than its beginning, if it shows
//! ```
//!
//! Invariants: a call that is under way, or never returned, may have set any time from its beginning on. Access times are
//! not followed.

use super::model::{Model, NodeId};
use super::register::Register;
use super::stamp::{StampId, Stamps, Tick};
use granary_units::Nanos;
use granary_vfs::{Attr, FileKind, Time, VfsConfig};
use std::sync::Arc;

/// An instant within these, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    from: Time,
    to: Time,
}

impl Span {
    const ANY: Span = Span { from: Time(i64::MIN), to: Time(i64::MAX) };

    fn only(time: Time) -> Span {
        Span { from: time, to: time }
    }
}

/// The times of one inode.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    modified: Register<Span>,
    changed: Register<Span>,
}

impl Times {
    /// Nothing is known of them.
    pub(super) fn unknown() -> Times {
        Times { modified: Register::new(Span::ANY), changed: Register::new(Span::ANY) }
    }

    /// These, for certain.
    pub(super) fn certain(attr: &Attr) -> Times {
        Times {
            modified: Register::new(Span::only(attr.mtime)),
            changed: Register::new(Span::only(attr.ctime)),
        }
    }

    /// Those of changes that had ended by `horizon` are durable.
    pub(super) fn keep(&self, stamps: &mut Stamps, horizon: Tick) {
        self.modified.keep(stamps, horizon);
        self.changed.keep(stamps, horizon);
    }

    fn remove(&mut self, by: StampId) {
        self.modified.remove(by.times());
        self.changed.remove(by.times());
    }

    /// What is wrong with these attributes after a power failure.
    pub(super) fn compare(&self, stamps: &Stamps, attr: &Attr) -> Vec<String> {
        let all = [("modification", attr.mtime, &self.modified), ("change", attr.ctime, &self.changed)];
        let wrong = |(what, is, register): (&str, Time, &Register<Span>)| {
            let may: Vec<Span> = register.possible(stamps, 0).map(|(_, span)| span).collect();
            // Who enters a synced file's name again after a power failure (F2FS, as in Linux) changes the directory then.
            let is_dir = attr.kind == FileKind::Dir;
            if may.iter().any(|s| s.from <= is && (is <= s.to || is_dir)) {
                return None;
            }
            let may: Vec<String> = may.iter().map(|s| format!("{} to {}", s.from.0, s.to.0)).collect();
            Some(format!("time of {what} {}, may be {}", is.0, may.join(" or ")))
        };
        all.into_iter().filter_map(wrong).collect()
    }
}

/// How the file system under test tells the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    epoch: Time,
    tick: u64,
}

impl Clock {
    pub(super) fn of(config: &VfsConfig) -> Clock {
        Clock { epoch: config.epoch, tick: config.tick.0.max(1) }
    }

    fn now(self) -> Time {
        let now = granary_sim::now().0;
        Time::after(self.epoch, Nanos(now - now % self.tick))
    }
}

impl Model {
    /// The change `by` begins, which sets the time of change of `id`, and with `modifies` that of modification.
    pub(super) fn touch(&mut self, id: NodeId, by: StampId, modifies: bool) {
        let Some(clock) = self.clock else { return };
        let span = Span { from: clock.now(), ..Span::ANY };
        let times = &mut Arc::make_mut(&mut self.nodes[id.0 as usize]).times;
        times.changed.push(&self.stamps, by.times(), span);
        if modifies {
            times.modified.push(&self.stamps, by.times(), span);
        }
    }

    /// It ended.
    pub(super) fn touched(&mut self, id: NodeId, by: StampId) {
        let Some(clock) = self.clock else { return };
        let now = clock.now();
        let times = &mut Arc::make_mut(&mut self.nodes[id.0 as usize]).times;
        for register in [&mut times.modified, &mut times.changed] {
            let begun = register.of(by.times());
            if let Some(span) = begun {
                register.settle(by.times(), Span { to: now.max(span.from), ..span });
            }
        }
    }

    /// It failed.
    pub(super) fn untouch(&mut self, id: NodeId, by: StampId) {
        self.node_mut(id).times.remove(by);
    }

    /// Times are set: `modified` to an instant, or (`Some(None)`) to that of the call.
    pub(crate) fn begin_times(&mut self, id: NodeId, modified: Option<Option<Time>>) -> StampId {
        let by = self.stamps.begin_timed();
        self.touch(id, by, modified.is_some());
        if let Some(Some(time)) = modified {
            self.node_mut(id).times.modified.settle(by.times(), Span::only(time));
        }
        by
    }
}
