//! [`Recorded`] (client.rs): a client whose calls are written down in [`Promises`] by a [`Scribe`].
//!
//! ```text
//!   Recorded: call ── left out (tape.rs)? ── begin(model) ── the wrapped client's call ── end(model)
//!                                                            (may wait, may never return)
//! ```
//!
//! A scribe forwards every call. One thing is changed on the way where asked for
//! ([`Recorded::with_unique_fills`]): a filled write gets a word of its own, so that stale data of any other
//! write can be told from it. After `open` and calls that make names, a `stat` learns the inode number; after
//! an append, an `lseek` learns the place.
//!
//! Bytes that a load reads are compared, too: a read must return bytes that were written before it or
//! meanwhile.
//! Invariant: the model's lock is never held while the wrapped client works.
//! It does *not* follow symbolic links on the way to a file, nor clients that race for one name.

mod attributes;
mod budget;
mod calls;
mod client;
mod doubt;
mod mapped;
mod numbers;
mod tape;

pub use budget::Budget;
pub use client::Recorded;
pub(crate) use numbers::CallId;
pub use numbers::Calls;
pub(crate) use tape::{Answers, Begun, Tape};

use doubt::in_doubt;

use crate::oracle::{Fate, Model, NameChange, NodeId, Place, Promises, StampId};
use granary_fs::{FileKind, FsError, Ino, Result};
use granary_units::{Dest, Payload};
use granary_vfs::{Fd, MapId, OpenFlags, Posix, Whence};
use std::collections::BTreeMap;

/// Target of an open descriptor.
#[derive(Clone, Copy)]
struct Open {
    node: NodeId,
    flags: OpenFlags,
    pos: u64,
    /// It was told that a write-back has failed, or somebody was before it was opened: its fsync promises no
    /// content any more.
    doubtful: bool,
}

/// A call of the story that has begun.
struct Telling {
    call: Option<(Promises, usize)>,
}

impl Drop for Telling {
    fn drop(&mut self) {
        if let Some((promises, n)) = self.call.take() {
            promises.with(|m| m.story.iter_mut().for_each(|story| story.returns(n)));
        }
    }
}

/// A path in a story.
fn show(path: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(path.as_ref()).into_owned()
}

/// Writes down what the calls of a client promise.
struct Scribe<P> {
    inner: P,
    promises: Promises,
    files: BTreeMap<Fd, Open>,
    maps: BTreeMap<MapId, mapped::Mapping>,
    cwd: NodeId,
    unique_fills: bool,
    /// Its number in the story, and the names of what it has open there.
    teller: Option<u32>,
    /// The number of the call at hand in its client, where calls have numbers.
    nth: u32,
    names: BTreeMap<Fd, String>,
    /// The client may leave set-id bits where it writes.
    superuser: bool,
    budget: Option<Budget>,
}

impl<P: Posix> Scribe<P> {
    fn new(inner: P, promises: Promises) -> Scribe<P> {
        let tells = promises.story().is_some();
        let client = |m: &mut Model| m.story.as_mut().map(crate::oracle::Story::client);
        Scribe {
            teller: if tells { promises.with(client) } else { None },
            nth: 0,
            names: BTreeMap::new(),
            inner,
            promises,
            files: BTreeMap::new(),
            maps: BTreeMap::new(),
            cwd: NodeId::ROOT,
            unique_fills: false,
            superuser: true,
            budget: None,
        }
    }

    fn spend(&self) {
        if let Some(budget) = &self.budget {
            budget.spend();
        }
    }

    /// A call that changes something begins; it is over when what is returned is dropped.
    fn begin(&self, text: Option<String>) -> Telling {
        self.spend();
        let call = self.teller.zip(text).and_then(|(client, text)| {
            let n = self.promises.with(|m| Some(m.story.as_mut()?.begins((client, self.nth), text)))?;
            Some((self.promises.clone(), n))
        });
        Telling { call }
    }

    /// The words of the story for a call.
    fn text(&self, call: impl FnOnce(&dyn Fn(Fd) -> String) -> String) -> Option<String> {
        self.teller?;
        Some(call(&|fd| self.names.get(&fd).cloned().unwrap_or_else(|| format!("{fd:?}"))))
    }

    fn place(&self, path: &[u8]) -> Option<Place> {
        self.promises.with(|m| m.resolve(self.cwd, path))
    }

    fn confused(&self, call: &str, path: &[u8]) {
        let path = String::from_utf8_lossy(path).into_owned();
        let what = format!("{call} {path}: the model knows no such file");
        // A call that failed because of the drive may have been done all the same.
        self.promises.with(|m| {
            if !m.writes_fail {
                m.confused.push(what)
            }
        });
    }

    /// A call that makes a name for a new node.
    fn make(
        &mut self,
        path: &[u8],
        kind: FileKind,
        target: &[u8],
        call: impl FnOnce(&mut P) -> Result<()>,
    ) -> Result<()> {
        let _telling = self.begin(self.text(|_| format!("make {kind:?} {}", show(path))));
        let place = self.place(path);
        let dir = place.as_ref().map(|at| at.dir);
        let begun = place.map(|at| self.promises.with(|m| m.begin_make(&at, kind, target)));
        let result = call(&mut self.inner);
        let Some((change, id)) = begun else {
            if result.is_ok() {
                self.confused("make", path);
            }
            return result;
        };
        if in_doubt(&result) {
            self.doubt(change, &[path]);
        } else if result.is_ok() {
            let stat = self.inner.lstat(path)?;
            self.promises.with(|m| {
                m.end_names(change, Fate::Done);
                m.identify(id, stat.ino, &stat.attr);
            });
            self.inherited(dir, id, path)?;
        } else {
            self.promises.with(|m| m.end_names(change, Fate::Failed));
        }
        result
    }

    /// A change of one node, of which `begin` and `end` tell the model.
    fn change<T>(
        &mut self,
        text: Option<String>,
        node: Option<NodeId>,
        begin: impl FnOnce(&mut Model, NodeId) -> StampId,
        call: impl FnOnce(&mut P) -> Result<T>,
        end: impl FnOnce(&mut Model, NodeId, StampId, Fate),
    ) -> Result<T> {
        let _telling = self.begin(text);
        let begun = node.map(|node| (node, self.promises.with(|m| begin(m, node))));
        let result = call(&mut self.inner);
        if let Some((node, by)) = begun {
            // Where the drive failed it may have happened in part: it stays in flight.
            if !in_doubt(&result) {
                let fate = fate(&result);
                self.promises.with(|m| end(m, node, by, fate));
            }
        } else if result.is_ok() {
            let what = "a change of a file that the model does not know";
            self.promises.with(|m| {
                if !m.writes_fail {
                    m.confused.push(what.into())
                }
            });
        }
        result
    }

    /// A call that gives a file to somebody.
    fn own(
        &mut self,
        what: &str,
        path: &[u8],
        (uid, gid): (Option<u32>, Option<u32>),
        call: impl FnOnce(&mut P) -> Result<()>,
    ) -> Result<()> {
        let (node, text) = (self.node_at(path), self.text(|_| format!("{what} {}", show(path))));
        self.change(text, node, |m, n| m.begin_owner(n, uid, gid), call, Model::end_owner)
    }

    /// A call that removes a name.
    fn remove(&mut self, path: &[u8], call: impl FnOnce(&mut P) -> Result<()>) -> Result<()> {
        let _telling = self.begin(self.text(|_| format!("remove {}", show(path))));
        let place = self.place(path).filter(|at| at.node.is_some());
        let begun = place.map(|at| self.promises.with(|m| m.begin_remove(&at)));
        let result = call(&mut self.inner);
        self.renamed(begun, "remove", &[path], &result);
        result
    }

    /// A call ended that changes these names.
    fn renamed(&mut self, begun: Option<NameChange>, call: &str, paths: &[&[u8]], result: &Result<()>) {
        match begun {
            Some(change) if in_doubt(result) => self.doubt(change, paths),
            Some(change) => self.promises.with(|m| m.end_names(change, fate(result))),
            None if result.is_ok() => self.confused(call, paths.first().copied().unwrap_or_default()),
            None => {}
        }
    }

    fn node_at(&self, path: &[u8]) -> Option<NodeId> {
        self.place(path)?.node
    }

    fn node_of(&self, fd: Fd) -> Option<NodeId> {
        self.files.get(&fd).map(|open| open.node)
    }

    fn flush(&mut self, fd: Fd, data_only: bool, call: impl FnOnce(&mut P) -> Result<()>) -> Result<()> {
        let what = if data_only { "fdatasync" } else { "fsync" };
        let _telling = self.begin(self.text(|of| format!("{what} {}", of(fd))));
        let horizon = self.promises.with(|m| m.stamps.tick());
        let done = call(&mut self.inner);
        if let Some(node) = self.node_of(fd) {
            match &done {
                Ok(()) => {
                    let content = self.files.get(&fd).is_none_or(|open| !open.doubtful);
                    self.promises.with(|m| m.keep(node, horizon, data_only, content));
                }
                // It told of the loss once; what is lost no later fsync brings back.
                Err(_) => self.told(fd, node),
            }
        }
        done
    }

    /// An open file was told that a write-back has failed. Others that are open are told, too; those opened
    /// later are not.
    fn told(&mut self, fd: Fd, node: NodeId) {
        self.promises.with(|m| m.node_mut(node).doubtful = true);
        if let Some(open) = self.files.get_mut(&fd) {
            open.doubtful = true;
        }
    }

    /// Learns which node a descriptor has open: the one that the name says, else the newest with this number.
    fn opened(&mut self, fd: Fd, path: &[u8], flags: OpenFlags, ino: Ino) {
        if self.teller.is_some() {
            self.names.insert(fd, show(path));
        }
        let known = self.node_at(path);
        let node = self.promises.with(|m| {
            let named = |ino: Option<Ino>| known.filter(|&k| m.node(k).ino == ino);
            let numbered = m.by_ino(ino);
            // A file without a number is being made by another client. Where a file has that number already,
            // it is this one.
            let there = numbered.filter(|&n| m.node(n).removals == 0);
            named(Some(ino)).or(there).or(named(None)).or(numbered)
        });
        match node {
            Some(node) => {
                let doubtful = self.promises.with(|m| m.node(node).doubtful);
                self.files.insert(fd, Open { node, flags, pos: 0, doubtful });
            }
            None => self.confused("open", path),
        }
    }

    fn write_at(&mut self, fd: Fd, data: Payload<'_>, at: Option<u64>) -> Result<usize> {
        let Some(open) = self.files.get(&fd).copied() else {
            return self.forward_write(fd, data, at);
        };
        let data = match data {
            Payload::Fill { len, .. } if self.unique_fills => {
                Payload::Fill { word: self.promises.with(Model::unique_word), len }
            }
            other => other,
        };
        let appends = open.flags.contains(OpenFlags::APPEND);
        let place = if appends { None } else { Some(at.unwrap_or(open.pos)) };
        let _telling = self.begin(self.text(|of| {
            let at = place.map_or("the end".to_owned(), |at| format!("{at:#x}"));
            format!("write {}, {} bytes at {at}", of(fd), data.len())
        }));
        let superuser = self.superuser;
        let by = self.promises.with(|m| {
            let by = m.begin_write(open.node, place, data);
            if !superuser {
                m.lose_set_ids(open.node, by);
            }
            by
        });
        let written = match self.forward_write(fd, data, at) {
            Ok(written) => written,
            // It may have happened in part: it stays in flight. With O_DSYNC it may tell of an earlier
            // write-back.
            Err(e @ (FsError::Drive(_) | FsError::ReadOnly)) => {
                self.promises.with(|m| m.fail_write(open.node, by));
                self.told(fd, open.node);
                return Err(e);
            }
            Err(e @ (FsError::NoSpace | FsError::Corrupt(_))) => return Err(e),
            Err(e) => {
                self.promises.with(|m| {
                    if !m.writes_fail {
                        m.cancel_write(open.node, by)
                    }
                });
                return Err(e);
            }
        };
        let pos = match place {
            Some(pos) => pos,
            None if at.is_none() => self.inner.lseek(fd, 0, Whence::Cur)? - written as u64,
            // A `pwrite` that appends tells nobody where it went: it stays a change that may be there,
            // somewhere.
            None => return Ok(written),
        };
        self.promises.with(|m| m.end_write(open.node, by, pos, written as u64, open.flags));
        if at.is_none() {
            self.moved(fd, pos + written as u64);
        }
        Ok(written)
    }

    fn forward_write(&mut self, fd: Fd, data: Payload<'_>, at: Option<u64>) -> Result<usize> {
        match at {
            Some(pos) => self.inner.pwrite(fd, data, pos),
            None => self.inner.write(fd, data),
        }
    }

    fn moved(&mut self, fd: Fd, pos: u64) {
        if let Some(open) = self.files.get_mut(&fd) {
            open.pos = pos;
        }
    }

    fn read_at(&mut self, fd: Fd, dest: Dest<'_>, at: Option<u64>) -> Result<usize> {
        let _telling = self.begin(None);
        let open = self.files.get(&fd).copied();
        let since = self.promises.with(|m| m.stamps.tick());
        let Dest::Bytes(buffer) = dest else {
            let got = self.forward_read(fd, dest, at)?;
            if let (None, Some(open)) = (at, open) {
                self.moved(fd, open.pos + got as u64);
            }
            return Ok(got);
        };
        let got = self.forward_read(fd, Dest::Bytes(&mut *buffer), at)?;
        let Some(open) = open else { return Ok(got) };
        let pos = at.unwrap_or(open.pos);
        self.promises.with(|m| {
            let content = &m.node(open.node).content;
            // Where a write-back failed a page may read as it was before, as in Linux.
            if content.known_since(since)
                && !m.writes_fail
                && let Err(what) = content.explain(&m.stamps, since, pos, &buffer[..got])
            {
                m.confused.push(format!("a read returned what nobody wrote: {what}"));
            }
        });
        if at.is_none() {
            self.moved(fd, pos + got as u64);
        }
        Ok(got)
    }

    fn forward_read(&mut self, fd: Fd, dest: Dest<'_>, at: Option<u64>) -> Result<usize> {
        match at {
            Some(pos) => self.inner.pread(fd, dest, pos),
            None => self.inner.read(fd, dest),
        }
    }
}

/// A change of size begins.
fn cut(model: &mut Model, node: NodeId, size: u64, superuser: bool) -> StampId {
    let by = model.begin_truncate(node, size);
    if !superuser {
        model.lose_set_ids(node, by);
    }
    by
}

fn fate<T>(result: &Result<T>) -> Fate {
    if result.is_ok() { Fate::Done } else { Fate::Failed }
}
