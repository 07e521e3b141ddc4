//! The oracle: the promises made, and whether a recovered file system keeps them.
//!
//! ```text
//!   Recorded ── begin/end of every call ──> Model: stamps, names, contents, attributes
//!                                             |  power fails, the file system recovers
//!   Promises::verify(process) ── walks the tree, reads every file ──> Verdict { violations,
//!                                                                               recovered model }
//! ```
//!
//! Rules: the weakest promise that all our file systems make.
//!
//! ```text
//!   of                               is promised                        by
//!   content and size of a file       every change that ended before     fsync, fdatasync of it, sync
//!   the bytes of one write           these bytes, and a size that       the write itself, with O_SYNC or
//!                                    reaches them                       O_DSYNC
//!   permission and set-id bits,      every change that ended before     fsync of it, sync
//!   owner, extended attributes,
//!   access lists
//!   stores through a shared mapping  every store that ended before      msync of the range, fsync,
//!                                                                       fdatasync, sync
//!   times of modification and        that of the last change that       fsync of it, sync, an O_SYNC write
//!   change                           ended before, or a later one
//!   names under which it was         they are there, in a directory     fsync or an O_SYNC write of it
//!   created or renamed               that is there
//!   that it was created              it is there, under one of its      fdatasync or an O_DSYNC write of it
//!                                    names
//!   all names in a directory         every change that ended before     fsync of the directory
//!   everything                       every change that ended before     sync
//!   any call, where every call is    its effect, wholly                 its return
//!   durable (1)
//!   a rename, an exchange            wholly there or not at all (2)     itself
//!
//!   state                            may be                             never
//!   a later change, or one in        absent, there, and (content)
//!   flight                           there in part
//!   a name with several unsynced     at any of them                     at one that was over before a
//!   changes                                                             promised change began
//!   bytes of a file                  promised, or of a later write to   anybody else's
//!                                    this very place; zero where the
//!                                    file was cut, punched or grew
//!   a page that a write was          old or new                         a part of the write
//!   changing, where pages are
//!   whole (3)
//!   blocks of a file                 within its size, or reserved       beyond its end with nobody having
//!                                                                       reserved them
//!   link count                                                          other than the number of names
//!   an entry                                                            one that nobody made; a file
//!                                                                       without its directory
//! ```
//!
//! (1) [`Promises::with_every_call_durable`]. (2) F2FS without strict fsyncs: see
//! [`crate::Target::renames_are_whole`]. (3) [`Promises::with_whole_pages`].
//!
//! Changes that overlap in time may have happened in either order. Names made by `link` are promised by
//! `fsync` of the directory and by `sync` only; the first name of a file made without one is a creation's.
//! Times are followed where the clock is known ([`Promises::with_times`]): an access time is the one that was
//! set, or of any access since. Files that were stored to through a mapping keep no times that the model
//! knows.

mod attributes;
mod beyond;
mod calls;
mod content;
mod doubt;
mod exercise;
mod model;
mod names;
mod picture;
mod register;
mod segments;
mod stamp;
mod story;
mod times;
mod verify;

pub(crate) use attributes::{ACCESS_LIST, DEFAULT_LIST, digest};
pub(crate) use doubt::Shows;
pub use exercise::exercise;
pub(crate) use model::{Fate, Model, NodeId};
pub(crate) use names::{NameChange, Place};
pub(crate) use picture::Picture;
pub(crate) use stamp::StampId;
pub(crate) use story::Story;
pub use verify::Verdict;

use granary_vfs::{Posix, VfsConfig};
use parking_lot::Mutex;
use std::sync::Arc;

/// Promises of one file system so far; shared by all its [`crate::Recorded`] clients, outlives their world.
#[derive(Clone)]
pub struct Promises(Arc<Mutex<Arc<Model>>>);

impl Default for Promises {
    fn default() -> Promises {
        Promises::new()
    }
}

impl Promises {
    /// An empty file system that is certain.
    pub fn new() -> Promises {
        Promises(Arc::new(Mutex::new(Arc::new(Model::new()))))
    }

    /// Times are followed, too; the vfs under test has this configuration.
    pub fn with_times(self, config: &VfsConfig) -> Promises {
        self.with(|m| m.clock = Some(times::Clock::of(config)));
        self
    }

    /// Whether renames are whole ([`crate::Target::renames_are_whole`]).
    pub fn with_whole_renames(self, whole: bool) -> Promises {
        self.with(|m| m.whole_renames = whole);
        self
    }

    /// An independent copy of what is promised at this instant: later calls, in either, do not show in the
    /// other. The two share what neither has changed since. A fork costs a count; the first change after it
    /// costs a list of the files, and each file that is changed after it costs that file's own record.
    pub fn fork(&self) -> Promises {
        Promises(Arc::new(Mutex::new(Arc::clone(&self.0.lock()))))
    }

    /// A call's change is durable once it has returned ([`crate::Target::every_call_is_durable`]).
    pub fn with_every_call_durable(self, durable: bool) -> Promises {
        self.with(|m| m.durable_calls = durable);
        self
    }

    /// Whether an inode's number may be another one after a mount ([`crate::Target::inodes_may_change`]).
    pub fn with_loose_inodes(self, loose: bool) -> Promises {
        self.with(|m| m.loose_inodes = loose);
        self
    }

    /// Whether a write is old or new in each page ([`crate::Target::pages_are_whole`]).
    pub fn with_whole_pages(self, whole: bool) -> Promises {
        self.with(|m| m.whole_pages = whole);
        self
    }

    /// Writes of the drive are made to fail: a `sync` promises nothing, since it does not tell of them.
    pub(crate) fn with_writes_that_fail(self) -> Promises {
        self.with(|m| m.writes_fail = true);
        self
    }

    /// Whether a call failed of which nobody can say what it has left, so that nothing can be compared.
    pub(crate) fn is_astray(&self) -> bool {
        self.0.lock().astray
    }

    /// Keeps the calls, to tell them.
    pub(crate) fn with_story(self) -> Promises {
        self.with(|m| m.story = Some(Story::default()));
        self
    }

    /// The calls so far.
    pub(crate) fn story(&self) -> Option<Story> {
        self.0.lock().story.clone()
    }

    /// Changes the model. `change` must not wait: other tasks need the model.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Model) -> T) -> T {
        change(Arc::make_mut(&mut self.0.lock()))
    }

    /// Compares what `process` sees with what may be seen. No other client may be at work.
    pub fn verify<P: Posix>(&self, process: &mut P) -> Verdict {
        let model = Arc::clone(&self.0.lock());
        verify::verify(&model, process)
    }

    /// Says which files have blocks beyond their ends that nobody reserved, where the power may have failed
    /// in a cut. Needs the state that [`Promises::go_on_from`] has set. It moves times, so nothing can be
    /// compared afterwards.
    pub fn blocks_beyond<P: Posix>(&self, process: &mut P) -> Vec<String> {
        let model = Arc::clone(&self.0.lock());
        beyond::beyond(&model, process)
    }

    /// From now on, what the verdict found is certain.
    pub fn go_on_from(&self, verdict: Verdict) {
        *self.0.lock() = Arc::new(verdict.recovered);
    }

    /// A snapshot was taken, which shows this.
    pub(crate) fn keep_snapshot(&self, number: u64, picture: Picture) {
        self.with(|m| m.snapshots.push((number, Arc::new(picture))));
    }

    /// The snapshots so far.
    pub(crate) fn snapshots(&self) -> Vec<(u64, Arc<Picture>)> {
        self.0.lock().snapshots.clone()
    }

    /// Everything that the load has done so far is durable: after a clean unmount.
    pub fn keep_everything(&self) {
        self.with(|m| {
            let horizon = m.stamps.tick();
            m.keep_everything(horizon);
        });
    }
}
