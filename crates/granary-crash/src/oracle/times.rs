//! Times of modification and change: between which instants each was set that may show.
//!
//! ```text
//!   write   |-----|            the modification time is an instant of the call
//!   fsync           |---|      from here on: of this call, or of a later one
//!   write                |--   not older than its beginning, if it shows
//! ```
//!
//! Invariants: a call that is under way, or never returned, may have set any time from its beginning on. An
//! access time is the one that was set (or the file's first), or one from then on: who reads moves it, and
//! nobody promises when that is durable.

use super::model::{Model, NodeId};
use super::register::Register;
use super::stamp::{StampId, Stamps, Tick};
use granary_fs::{Attr, FileKind, Time};
use granary_units::Nanos;
use granary_vfs::VfsConfig;
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
    accessed: Register<Accessed>,
    /// Stores through a mapping move times when they like.
    mapped: bool,
}

/// An access time that was set: it shows, or the time of an access since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Accessed {
    set: Time,
    since: Time,
}

impl Accessed {
    const ANY: Accessed = Accessed { set: Time(0), since: Time(i64::MIN) };
}

impl Times {
    /// Nothing is known of them.
    pub(super) fn unknown() -> Times {
        Times {
            modified: Register::new(Span::ANY),
            changed: Register::new(Span::ANY),
            accessed: Register::new(Accessed::ANY),
            mapped: false,
        }
    }

    /// These, for certain; accesses may have moved the access time from `since` on.
    pub(super) fn certain(attr: &Attr, since: Option<Time>) -> Times {
        let accessed = since.map_or(Accessed::ANY, |since| Accessed { set: attr.atime, since });
        Times {
            accessed: Register::new(accessed),
            mapped: false,
            modified: Register::new(Span::only(attr.mtime)),
            changed: Register::new(Span::only(attr.ctime)),
        }
    }

    /// Those of changes that had ended by `horizon` are durable.
    pub(super) fn keep(&self, stamps: &mut Stamps, horizon: Tick) {
        self.modified.keep(stamps, horizon);
        self.changed.keep(stamps, horizon);
        self.accessed.keep(stamps, horizon);
    }

    fn remove(&mut self, times: StampId) {
        self.modified.remove(times);
        self.changed.remove(times);
        self.accessed.remove(times);
    }

    /// They are not followed any more.
    pub(super) fn forget(&mut self) {
        self.mapped = true;
    }

    /// Errors of these attributes after a power failure.
    pub(super) fn compare(&self, stamps: &Stamps, attr: &Attr) -> Vec<String> {
        if self.mapped {
            return Vec::new();
        }
        let accessed: Vec<Accessed> = self.accessed.possible(stamps, 0).map(|(_, a)| a).collect();
        let is = attr.atime;
        let known = accessed.iter().any(|a| is == a.set || is >= a.since);
        let told = || format!("time of access {}, may be one of {accessed:?}", is.0);
        let all = [("modification", attr.mtime, &self.modified), ("change", attr.ctime, &self.changed)];
        let wrong = |(what, is, register): (&str, Time, &Register<Span>)| {
            let may: Vec<Span> = register.possible(stamps, 0).map(|(_, span)| span).collect();
            // Entering a synced file's name again after a power failure (F2FS, as in Linux) changes the
            // directory then.
            let is_dir = attr.kind == FileKind::Dir;
            if may.iter().any(|s| s.from <= is && (is <= s.to || is_dir)) {
                return None;
            }
            let may: Vec<String> = may.iter().map(|s| format!("{} to {}", s.from.0, s.to.0)).collect();
            Some(format!("time of {what} {}, may be {}", is.0, may.join(" or ")))
        };
        all.into_iter().filter_map(wrong).chain((!known).then(told)).collect()
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

    pub(super) fn now(self) -> Time {
        let now = granary_sim::now().0;
        Time::after(self.epoch, Nanos(now - now % self.tick))
    }
}

impl Model {
    /// The change `by` begins, which sets the time of change of `id`, and with `modifies` that of
    /// modification.
    pub(super) fn touch(&mut self, id: NodeId, by: StampId, modifies: bool) {
        self.touch_as(id, by.times(), modifies);
    }

    /// The same; `stamp` is that of the times.
    pub(super) fn touch_as(&mut self, id: NodeId, stamp: StampId, modifies: bool) {
        let Some(clock) = self.clock else { return };
        let span = Span { from: clock.now(), ..Span::ANY };
        let times = &mut Arc::make_mut(&mut self.nodes[id.0 as usize]).times;
        times.changed.push(&self.stamps, stamp, span);
        if modifies {
            times.modified.push(&self.stamps, stamp, span);
        }
    }

    /// It ended.
    pub(super) fn touched(&mut self, id: NodeId, by: StampId) {
        self.touched_as(id, by.times());
    }

    /// The same; `stamp` is that of the times.
    pub(super) fn touched_as(&mut self, id: NodeId, stamp: StampId) {
        let Some(clock) = self.clock else { return };
        let now = clock.now();
        let times = &mut Arc::make_mut(&mut self.nodes[id.0 as usize]).times;
        for register in [&mut times.modified, &mut times.changed] {
            let begun = register.of(stamp);
            if let Some(span) = begun {
                register.settle(stamp, Span { to: now.max(span.from), ..span });
            }
        }
    }

    /// It failed.
    pub(super) fn untouch(&mut self, id: NodeId, by: StampId) {
        self.untouch_as(id, by.times());
    }

    /// The same; `stamp` is that of the times.
    pub(super) fn untouch_as(&mut self, id: NodeId, stamp: StampId) {
        self.node_mut(id).times.remove(stamp);
    }

    /// Times are set, each to an instant, or (`Some(None)`) to that of the call.
    pub(crate) fn begin_times(
        &mut self,
        id: NodeId,
        accessed: Option<Option<Time>>,
        modified: Option<Option<Time>>,
    ) -> StampId {
        let by = self.stamps.begin_timed();
        self.touch(id, by, modified.is_some());
        if let Some(Some(time)) = modified {
            self.node_mut(id).times.modified.settle(by.times(), Span::only(time));
        }
        if let (Some(set), Some(clock)) = (accessed, self.clock) {
            let since = clock.now();
            let times = &mut Arc::make_mut(&mut self.nodes[id.0 as usize]).times;
            times.accessed.push(&self.stamps, by.times(), Accessed { set: set.unwrap_or(since), since });
        }
        by
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Fate;
    use super::*;
    use granary_sim::{World, sleep};

    /// A model that follows times, whose root directory was changed last at 2 ns, and what its root may not
    /// have of that after a power failure.
    fn model() -> (Model, impl Fn(&Model, NodeId) -> usize) {
        let old = Attr::new(FileKind::Dir, 0o755, Time(2));
        let mut model = Model::new();
        model.clock = Some(Clock { epoch: Time(0), tick: 1 });
        model.node_mut(NodeId::ROOT).times = Times::certain(&old, None);
        sleep(Nanos(10));
        (model, move |m: &Model, id: NodeId| m.node(id).times.compare(&m.stamps, &old).len())
    }

    fn make(m: &mut Model) -> NodeId {
        let at = m.resolve(NodeId::ROOT, b"/a").expect("a place");
        let (change, id) = m.begin_make(&at, FileKind::File, b"");
        m.end_names(change, Fate::Done);
        id
    }

    #[test]
    fn an_fsync_of_a_file_promises_nothing_of_its_directorys_times_and_that_of_the_directory_does() {
        let run = World::default().run(|| {
            let (mut m, wrong) = model();
            let id = make(&mut m);
            let horizon = m.stamps.tick();
            m.keep(id, horizon, false, true);
            assert_eq!(wrong(&m, NodeId::ROOT), 0);
            m.keep(NodeId::ROOT, horizon, false, true);
            assert_eq!(wrong(&m, NodeId::ROOT), 2, "both times");
        });
        run.expect("no deadlock");
    }

    #[test]
    fn an_access_list_that_says_what_the_mode_says_moves_no_time() {
        let run = World::default().run(|| {
            let (mut m, wrong) = model();
            let id = make(&mut m);
            m.identify(id, granary_fs::Ino(7), &Attr::new(FileKind::File, 0o640, Time(2)));
            for (mode, moved) in [(0o640, 0), (0o600, 1)] {
                let by = m.begin_access_list(id, None);
                m.end_access_list(id, by, Some(mode));
                let horizon = m.stamps.tick();
                m.keep(id, horizon, false, true);
                assert_eq!(wrong(&m, id), moved, "mode {mode:o}");
            }
        });
        run.expect("no deadlock");
    }
}
