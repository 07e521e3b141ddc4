//! [`Recorded`]: a client whose calls are written down in [`Promises`].
//!
//! ```text
//!   call ── begin(model) ── the wrapped client's call (may wait, may never return) ── end(model)
//! ```
//!
//! Every call is forwarded. One thing is changed on the way where asked for ([`Recorded::with_unique_fills`]): a
//! filled write gets a word of its own, so that stale data of any other write can be told from it. After `open` and
//! calls that make names, a `stat` learns the inode number; after an append, an `lseek` learns the place.
//!
//! Bytes that a load reads are compared, too: a read must return what was written before it or meanwhile.
//! Invariant: the model's lock is never held while the wrapped client works.
//! It does *not* follow symbolic links on the way to a file, nor clients that race for one name.

use crate::oracle::{Fate, Model, NameChange, NodeId, Place, Promises, StampId, digest};
use granary_units::{Dest, Payload};
use granary_vfs::{
    Access, Allocate, Cred, Dirent, Fd, FileKind, FsError, Ino, OpenFlags, Posix, RenameFlags, Result,
    SetTime, SetXattr, Stat, StatFs, Whence,
};
use std::collections::BTreeMap;

/// What a descriptor has open.
#[derive(Clone, Copy)]
struct Open {
    node: NodeId,
    flags: OpenFlags,
    pos: u64,
}

/// A [`Posix`] client whose promises are recorded.
pub struct Recorded<P> {
    inner: P,
    promises: Promises,
    files: BTreeMap<Fd, Open>,
    cwd: NodeId,
    unique_fills: bool,
}

impl<P: Posix> Recorded<P> {
    /// Records what `inner` is promised. All clients of one file system share one `promises`.
    pub fn new(inner: P, promises: Promises) -> Recorded<P> {
        Recorded { inner, promises, files: BTreeMap::new(), cwd: NodeId::ROOT, unique_fills: false }
    }

    /// Gives every filled write a word of its own instead of the load's.
    pub fn with_unique_fills(mut self) -> Recorded<P> {
        self.unique_fills = true;
        self
    }

    /// The wrapped client.
    pub fn into_inner(self) -> P {
        self.inner
    }

    fn place(&self, path: &[u8]) -> Option<Place> {
        self.promises.with(|m| m.resolve(self.cwd, path))
    }

    fn confused(&self, call: &str, path: &[u8]) {
        let path = String::from_utf8_lossy(path).into_owned();
        self.promises.with(|m| m.confused.push(format!("{call} {path}: the model knows no such file")));
    }

    /// A call that makes a name for a new node.
    fn make(
        &mut self,
        path: &[u8],
        kind: FileKind,
        target: &[u8],
        call: impl FnOnce(&mut P) -> Result<()>,
    ) -> Result<()> {
        let place = self.place(path);
        let begun = place.map(|at| self.promises.with(|m| m.begin_make(&at, kind, target)));
        let result = call(&mut self.inner);
        let Some((change, id)) = begun else {
            if result.is_ok() {
                self.confused("make", path);
            }
            return result;
        };
        if result.is_ok() {
            let stat = self.inner.lstat(path)?;
            self.promises.with(|m| {
                m.end_names(change, Fate::Done);
                m.identify(id, stat.ino, &stat.attr);
            });
        } else {
            self.promises.with(|m| m.end_names(change, Fate::Failed));
        }
        result
    }

    /// A change of one node, of which `begin` and `end` tell the model.
    fn change<T>(
        &mut self,
        node: Option<NodeId>,
        begin: impl FnOnce(&mut Model, NodeId) -> StampId,
        call: impl FnOnce(&mut P) -> Result<T>,
        end: impl FnOnce(&mut Model, NodeId, StampId, Fate),
    ) -> Result<T> {
        let begun = node.map(|node| (node, self.promises.with(|m| begin(m, node))));
        let result = call(&mut self.inner);
        if let Some((node, by)) = begun {
            let fate = fate(&result);
            self.promises.with(|m| end(m, node, by, fate));
        } else if result.is_ok() {
            self.promises.with(|m| m.confused.push("a change of a file that the model does not know".into()));
        }
        result
    }

    /// A call that removes a name.
    fn remove(&mut self, path: &[u8], call: impl FnOnce(&mut P) -> Result<()>) -> Result<()> {
        let place = self.place(path).filter(|at| at.node.is_some());
        let begun = place.map(|at| self.promises.with(|m| m.begin_remove(&at)));
        let result = call(&mut self.inner);
        self.renamed(begun, "remove", path, &result);
        result
    }

    fn renamed(&self, begun: Option<NameChange>, call: &str, path: &[u8], result: &Result<()>) {
        match begun {
            Some(change) => self.promises.with(|m| m.end_names(change, fate(result))),
            None if result.is_ok() => self.confused(call, path),
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
        let horizon = self.promises.with(|m| m.stamps.tick());
        call(&mut self.inner)?;
        if let Some(node) = self.node_of(fd) {
            self.promises.with(|m| m.keep(node, horizon, data_only));
        }
        Ok(())
    }

    /// Learns which node a descriptor has open: the one that the name says, else the newest with this number.
    fn opened(&mut self, fd: Fd, path: &[u8], flags: OpenFlags, ino: Ino) {
        let known = self.node_at(path);
        let node = self.promises.with(|m| {
            let named = known.filter(|&k| m.node(k).ino.is_none_or(|is| is == ino));
            named.or_else(|| m.by_ino(ino))
        });
        match node {
            Some(node) => {
                self.files.insert(fd, Open { node, flags, pos: 0 });
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
        let by = self.promises.with(|m| m.begin_write(open.node, place, data));
        let written = match self.forward_write(fd, data, at) {
            Ok(written) => written,
            // It may have happened in part: it stays in flight.
            Err(e @ (FsError::NoSpace | FsError::Drive(_) | FsError::Corrupt(_))) => return Err(e),
            Err(e) => {
                self.promises.with(|m| m.cancel_write(open.node, by));
                return Err(e);
            }
        };
        let pos = match place {
            Some(pos) => pos,
            None if at.is_none() => self.inner.lseek(fd, 0, Whence::Cur)? - written as u64,
            // A `pwrite` that appends tells nobody where it went: it stays a change that may be there, somewhere.
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
            if content.known_since(since)
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

fn fate<T>(result: &Result<T>) -> Fate {
    if result.is_ok() { Fate::Done } else { Fate::Failed }
}

impl<P: Posix> Posix for Recorded<P> {
    fn open(&mut self, path: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        let path = path.as_ref();
        let place = self.place(path);
        let exists = place.as_ref().and_then(|at| at.node);
        let mut begun = None;
        if flags.contains(OpenFlags::CREAT) && exists.is_none() {
            begun = place.as_ref().map(|at| self.promises.with(|m| m.begin_make(at, FileKind::File, b"")));
        }
        let cuts = flags.contains(OpenFlags::TRUNC) && flags.writes();
        let cut = exists.filter(|_| cuts).map(|id| (id, self.promises.with(|m| m.begin_truncate(id, 0))));
        let result = self.inner.open(path, flags, mode);
        if let Some((id, by)) = cut {
            self.promises.with(|m| m.end_truncate(id, by, fate(&result)));
        }
        let Ok(fd) = result else {
            if let Some((change, _)) = begun {
                self.promises.with(|m| m.end_names(change, Fate::Failed));
            }
            return result;
        };
        let stat = self.inner.fstat(fd)?;
        if let Some((change, id)) = begun {
            self.promises.with(|m| {
                m.end_names(change, Fate::Done);
                m.identify(id, stat.ino, &stat.attr);
            });
        }
        self.opened(fd, path, flags, stat.ino);
        Ok(fd)
    }

    fn close(&mut self, fd: Fd) -> Result<()> {
        self.files.remove(&fd);
        self.inner.close(fd)
    }

    fn read(&mut self, fd: Fd, dest: Dest<'_>) -> Result<usize> {
        self.read_at(fd, dest, None)
    }

    fn pread(&mut self, fd: Fd, dest: Dest<'_>, pos: u64) -> Result<usize> {
        self.read_at(fd, dest, Some(pos))
    }

    fn write(&mut self, fd: Fd, data: Payload<'_>) -> Result<usize> {
        self.write_at(fd, data, None)
    }

    fn pwrite(&mut self, fd: Fd, data: Payload<'_>, pos: u64) -> Result<usize> {
        self.write_at(fd, data, Some(pos))
    }

    fn lseek(&mut self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        let pos = self.inner.lseek(fd, offset, whence)?;
        self.moved(fd, pos);
        Ok(pos)
    }

    fn ftruncate(&mut self, fd: Fd, size: u64) -> Result<()> {
        let node = self.node_of(fd);
        self.change(node, |m, n| m.begin_truncate(n, size), |p| p.ftruncate(fd, size), Model::end_truncate)
    }

    fn fallocate(&mut self, fd: Fd, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let node = self.node_of(fd).filter(|_| pos.checked_add(len).is_some());
        self.change(
            node,
            |m, n| m.begin_space(n, how, pos, len),
            |p| p.fallocate(fd, how, pos, len),
            Model::end_truncate,
        )
    }

    fn fsync(&mut self, fd: Fd) -> Result<()> {
        self.flush(fd, false, |p| p.fsync(fd))
    }

    fn fdatasync(&mut self, fd: Fd) -> Result<()> {
        self.flush(fd, true, |p| p.fdatasync(fd))
    }

    fn sync(&mut self) -> Result<()> {
        let horizon = self.promises.with(|m| m.stamps.tick());
        self.inner.sync()?;
        self.promises.with(|m| m.keep_everything(horizon));
        Ok(())
    }

    fn stat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat> {
        self.inner.stat(path)
    }

    fn lstat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat> {
        self.inner.lstat(path)
    }

    fn fstat(&mut self, fd: Fd) -> Result<Stat> {
        self.inner.fstat(fd)
    }

    fn access(&mut self, path: impl AsRef<[u8]>, wanted: Access) -> Result<()> {
        self.inner.access(path, wanted)
    }

    fn chmod(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        let node = self.node_at(path.as_ref());
        self.change(node, |m, n| m.begin_mode(n, mode), |p| p.chmod(path, mode), Model::end_mode)
    }

    fn fchmod(&mut self, fd: Fd, mode: u16) -> Result<()> {
        let node = self.node_of(fd);
        self.change(node, |m, n| m.begin_mode(n, mode), |p| p.fchmod(fd, mode), Model::end_mode)
    }

    fn chown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let node = self.node_at(path.as_ref());
        self.change(node, |m, n| m.begin_owner(n, uid, gid), |p| p.chown(path, uid, gid), Model::end_owner)
    }

    fn lchown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let node = self.node_at(path.as_ref());
        self.change(node, |m, n| m.begin_owner(n, uid, gid), |p| p.lchown(path, uid, gid), Model::end_owner)
    }

    fn utimens(&mut self, path: impl AsRef<[u8]>, atime: SetTime, mtime: SetTime) -> Result<()> {
        let modified = match mtime {
            SetTime::Omit => None,
            SetTime::Now => Some(None),
            SetTime::At(time) => Some(Some(time)),
        };
        // It sets nothing, not even the time of change.
        let nothing = atime == SetTime::Omit && mtime == SetTime::Omit;
        let node = self.node_at(path.as_ref()).filter(|_| !nothing);
        if node.is_none() {
            return self.inner.utimens(path, atime, mtime);
        }
        self.change(node, |m, n| m.begin_times(n, modified), |p| p.utimens(path, atime, mtime), Model::end)
    }

    fn truncate(&mut self, path: impl AsRef<[u8]>, size: u64) -> Result<()> {
        let node = self.node_at(path.as_ref());
        self.change(node, |m, n| m.begin_truncate(n, size), |p| p.truncate(path, size), Model::end_truncate)
    }

    fn getxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<Vec<u8>> {
        self.inner.getxattr(path, name)
    }

    fn setxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let node = self.node_at(path.as_ref());
        self.change(
            node,
            |m, n| m.begin_xattr(n, name, Some(digest(value))),
            |p| p.setxattr(path, name, value, how),
            |m, n, by, fate| m.end_xattr(n, name, by, fate),
        )
    }

    fn removexattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<()> {
        let node = self.node_at(path.as_ref());
        self.change(
            node,
            |m, n| m.begin_xattr(n, name, None),
            |p| p.removexattr(path, name),
            |m, n, by, fate| m.end_xattr(n, name, by, fate),
        )
    }

    fn listxattr(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        self.inner.listxattr(path)
    }

    fn mkdir(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        let path = path.as_ref();
        self.make(path, FileKind::Dir, b"", |p| p.mkdir(path, mode))
    }

    fn mknod(&mut self, path: impl AsRef<[u8]>, kind: FileKind, mode: u16, rdev: u32) -> Result<()> {
        let path = path.as_ref();
        self.make(path, kind, b"", |p| p.mknod(path, kind, mode, rdev))
    }

    fn rmdir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        self.remove(path, |p| p.rmdir(path))
    }

    fn unlink(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        self.remove(path, |p| p.unlink(path))
    }

    fn rename_with(
        &mut self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        flags: RenameFlags,
    ) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let begun = match (self.place(from), self.place(to)) {
            (Some(a), Some(b)) if a.node.is_some() && (b.node.is_some() || !flags.exchange) => {
                Some(self.promises.with(|m| m.begin_rename(&a, &b, flags.exchange)))
            }
            _ => None,
        };
        let result = self.inner.rename_with(from, to, flags);
        self.renamed(begun, "rename", from, &result);
        result
    }

    fn link(&mut self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        let (old, new) = (old.as_ref(), new.as_ref());
        let begun = match (self.node_at(old), self.place(new)) {
            (Some(node), Some(to)) => Some(self.promises.with(|m| m.begin_link(node, &to))),
            _ => None,
        };
        let result = self.inner.link(old, new);
        self.renamed(begun, "link", old, &result);
        result
    }

    fn symlink(&mut self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        let (target, path) = (target.as_ref(), path.as_ref());
        self.make(path, FileKind::Symlink, target, |p| p.symlink(target, path))
    }

    fn readlink(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.inner.readlink(path)
    }

    fn readdir(&mut self, fd: Fd, max: usize) -> Result<Vec<Dirent>> {
        self.inner.readdir(fd, max)
    }

    fn chdir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        self.inner.chdir(path)?;
        match self.node_at(path) {
            Some(node) => self.cwd = node,
            None => self.confused("chdir", path),
        }
        Ok(())
    }

    fn statfs(&mut self) -> Result<StatFs> {
        self.inner.statfs()
    }

    fn umask(&mut self, mask: u16) -> u16 {
        self.inner.umask(mask)
    }

    fn set_cred(&mut self, cred: Cred) {
        self.inner.set_cred(cred);
    }
}
