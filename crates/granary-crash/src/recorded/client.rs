//! [`Recorded`]: what loads call. Each call has a number and may be left out; the others go to the
//! [`Scribe`].
//!
//! Where calls are left out, descriptors of the load are not those of the process: the load has the first
//! run's, of which some were never opened now. A call on one of these is left out, too.

use super::numbers::CallId;
use super::tape::Tape;
use super::{Budget, Scribe};
use crate::deadline::Deadline;
use crate::oracle::Promises;
use granary_fs::{Allocate, Cred, FileKind, RenameFlags, Result, SetXattr, StatFs};
use granary_units::{Dest, Payload};
use granary_vfs::{Access, Dirent, Fd, MapHow, MapId, OpenFlags, Posix, SetTime, Stat, Whence};
use std::collections::BTreeMap;

/// The part of a client whose calls may be left out.
struct Taped {
    tape: Tape,
    client: u32,
    calls: u32,
    /// The load's descriptors, and the process's.
    files: BTreeMap<Fd, Fd>,
    maps: BTreeMap<MapId, MapId>,
}

/// A [`Posix`] client whose promises are recorded.
pub struct Recorded<P> {
    scribe: Scribe<P>,
    taped: Option<Taped>,
    until: Deadline,
}

impl<P: Posix> Recorded<P> {
    /// Records what `inner` is promised. All clients of one file system share one `promises`.
    pub fn new(inner: P, promises: Promises) -> Recorded<P> {
        Recorded { scribe: Scribe::new(inner, promises), taped: None, until: Deadline::default() }
    }

    /// Gives every filled write a word of its own instead of the load's.
    pub fn with_unique_fills(mut self) -> Recorded<P> {
        self.scribe.unique_fills = true;
        self
    }

    /// Counts calls that change something against a budget, which ends the run when it is spent.
    pub fn with_budget(mut self, budget: Budget) -> Recorded<P> {
        self.scribe.budget = Some(budget);
        self
    }

    /// Its calls are recorded on `tape`, or left out as that says.
    pub(crate) fn on_tape(mut self, tape: Option<&Tape>) -> Recorded<P> {
        self.taped = tape.map(|tape| Taped {
            tape: tape.clone(),
            client: tape.client(),
            calls: 0,
            files: BTreeMap::new(),
            maps: BTreeMap::new(),
        });
        self
    }

    /// Where this has come, its next call ends the life.
    pub(crate) fn until(mut self, until: &Deadline) -> Recorded<P> {
        self.until = until.clone();
        self
    }

    /// The wrapped client.
    pub fn into_inner(self) -> P {
        self.scribe.inner
    }

    /// A call. Where it is not `real` it needs something that is not there.
    fn call<T: Clone + Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        real: bool,
        make: impl FnOnce(&mut Scribe<P>) -> Result<T>,
    ) -> Result<T> {
        if self.until.is_over() {
            // A load may go on for minutes, and nobody waits for its end.
            granary_sim::power_fail();
        }
        let Some(taped) = &mut self.taped else { return make(&mut self.scribe) };
        taped.calls += 1;
        let call = CallId { client: taped.client, nth: taped.calls };
        let answer = taped.tape.answer(call, name);
        if let Some(answer) = &answer
            && !(real && taped.tape.keeps(call))
        {
            // A budget of calls ends the run about where it ended the first one.
            self.scribe.spend();
            return answer.clone();
        }
        taped.tape.begins(call, name);
        self.scribe.nth = call.nth;
        let result = make(&mut self.scribe);
        taped.tape.ends(call, name, &result);
        answer.unwrap_or(result)
    }

    /// A call on a descriptor.
    fn on<T: Clone + Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        fd: Fd,
        make: impl FnOnce(&mut Scribe<P>, Fd) -> Result<T>,
    ) -> Result<T> {
        let real = self.taped.as_ref().map_or(Some(fd), |taped| taped.files.get(&fd).copied());
        self.call(name, real.is_some(), |p| make(p, real.unwrap_or(fd)))
    }

    /// A call on a mapping.
    fn in_map<T: Clone + Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        map: MapId,
        make: impl FnOnce(&mut Scribe<P>, MapId) -> Result<T>,
    ) -> Result<T> {
        let real = self.taped.as_ref().map_or(Some(map), |taped| taped.maps.get(&map).copied());
        self.call(name, real.is_some(), |p| make(p, real.unwrap_or(map)))
    }

    /// A call that opens a file.
    fn opens(&mut self, name: &'static str, make: impl FnOnce(&mut Scribe<P>) -> Result<Fd>) -> Result<Fd> {
        let mut real = None;
        let told = self.call(name, true, |p| make(p).inspect(|fd| real = Some(*fd)));
        let Some(taped) = &mut self.taped else { return told };
        match (&told, real) {
            (Ok(fd), Some(real)) => drop(taped.files.insert(*fd, real)),
            (Ok(fd), None) => drop(taped.files.remove(fd)),
            // It fails in the first run: the load would never close it.
            (Err(_), Some(real)) => drop(self.scribe.close(real)),
            (Err(_), None) => {}
        }
        told
    }
}

#[cfg(test)]
mod tests;

impl<P: Posix> Posix for Recorded<P> {
    granary_vfs::forward_posix!(scribe: umask);

    fn open(&mut self, path: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        self.opens("open", |p| p.open(path, flags, mode))
    }

    fn open_unnamed(&mut self, dir: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        self.opens("open without a name", |p| p.open_unnamed(dir, flags, mode))
    }

    fn close(&mut self, fd: Fd) -> Result<()> {
        let closed = self.on("close", fd, |p, fd| p.close(fd));
        if let Some(taped) = &mut self.taped {
            taped.files.remove(&fd);
        }
        closed
    }

    fn read(&mut self, fd: Fd, dest: Dest<'_>) -> Result<usize> {
        self.on("read", fd, |p, fd| p.read(fd, dest))
    }

    fn pread(&mut self, fd: Fd, dest: Dest<'_>, pos: u64) -> Result<usize> {
        self.on("pread", fd, |p, fd| p.pread(fd, dest, pos))
    }

    fn write(&mut self, fd: Fd, data: Payload<'_>) -> Result<usize> {
        self.on("write", fd, |p, fd| p.write(fd, data))
    }

    fn pwrite(&mut self, fd: Fd, data: Payload<'_>, pos: u64) -> Result<usize> {
        self.on("pwrite", fd, |p, fd| p.pwrite(fd, data, pos))
    }

    fn lseek(&mut self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        self.on("lseek", fd, |p, fd| p.lseek(fd, offset, whence))
    }

    fn ftruncate(&mut self, fd: Fd, size: u64) -> Result<()> {
        self.on("ftruncate", fd, |p, fd| p.ftruncate(fd, size))
    }

    fn fallocate(&mut self, fd: Fd, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.on("fallocate", fd, |p, fd| p.fallocate(fd, how, pos, len))
    }

    fn fsync(&mut self, fd: Fd) -> Result<()> {
        self.on("fsync", fd, |p, fd| p.fsync(fd))
    }

    fn fdatasync(&mut self, fd: Fd) -> Result<()> {
        self.on("fdatasync", fd, |p, fd| p.fdatasync(fd))
    }

    fn sync(&mut self) -> Result<()> {
        self.call("sync", true, |p| p.sync())
    }

    fn stat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat> {
        self.call("stat", true, |p| p.stat(path))
    }

    fn lstat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat> {
        self.call("lstat", true, |p| p.lstat(path))
    }

    fn fstat(&mut self, fd: Fd) -> Result<Stat> {
        self.on("fstat", fd, |p, fd| p.fstat(fd))
    }

    fn access(&mut self, path: impl AsRef<[u8]>, wanted: Access) -> Result<()> {
        self.call("access", true, |p| p.access(path, wanted))
    }

    fn chmod(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        self.call("chmod", true, |p| p.chmod(path, mode))
    }

    fn fchmod(&mut self, fd: Fd, mode: u16) -> Result<()> {
        self.on("fchmod", fd, |p, fd| p.fchmod(fd, mode))
    }

    fn chown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.call("chown", true, |p| p.chown(path, uid, gid))
    }

    fn lchown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.call("lchown", true, |p| p.lchown(path, uid, gid))
    }

    fn utimens(&mut self, path: impl AsRef<[u8]>, atime: SetTime, mtime: SetTime) -> Result<()> {
        self.call("utimens", true, |p| p.utimens(path, atime, mtime))
    }

    fn truncate(&mut self, path: impl AsRef<[u8]>, size: u64) -> Result<()> {
        self.call("truncate", true, |p| p.truncate(path, size))
    }

    fn getxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<Vec<u8>> {
        self.call("getxattr", true, |p| p.getxattr(path, name))
    }

    fn setxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.call("setxattr", true, |p| p.setxattr(path, name, value, how))
    }

    fn removexattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<()> {
        self.call("removexattr", true, |p| p.removexattr(path, name))
    }

    fn listxattr(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        self.call("listxattr", true, |p| p.listxattr(path))
    }

    fn mkdir(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        self.call("mkdir", true, |p| p.mkdir(path, mode))
    }

    fn mknod(&mut self, path: impl AsRef<[u8]>, kind: FileKind, mode: u16, rdev: u32) -> Result<()> {
        self.call("mknod", true, |p| p.mknod(path, kind, mode, rdev))
    }

    fn rmdir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        self.call("rmdir", true, |p| p.rmdir(path))
    }

    fn unlink(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        self.call("unlink", true, |p| p.unlink(path))
    }

    fn rename_with(
        &mut self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        flags: RenameFlags,
    ) -> Result<()> {
        self.call("rename", true, |p| p.rename_with(from, to, flags))
    }

    fn link(&mut self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        self.call("link", true, |p| p.link(old, new))
    }

    fn link_open(&mut self, fd: Fd, new: impl AsRef<[u8]>) -> Result<()> {
        self.on("link an open file", fd, |p, fd| p.link_open(fd, new))
    }

    fn symlink(&mut self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        self.call("symlink", true, |p| p.symlink(target, path))
    }

    fn readlink(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.call("readlink", true, |p| p.readlink(path))
    }

    fn readdir(&mut self, fd: Fd, max: usize) -> Result<Vec<Dirent>> {
        self.on("readdir", fd, |p, fd| p.readdir(fd, max))
    }

    fn chdir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        self.call("chdir", true, |p| p.chdir(path))
    }

    fn statfs(&mut self) -> Result<StatFs> {
        self.call("statfs", true, |p| p.statfs())
    }

    fn mmap(&mut self, fd: Fd, pos: u64, len: u64, how: MapHow) -> Result<MapId> {
        let mut real = None;
        let told = self.on("mmap", fd, |p, fd| p.mmap(fd, pos, len, how).inspect(|map| real = Some(*map)));
        let Some(taped) = &mut self.taped else { return told };
        match (&told, real) {
            (Ok(map), Some(real)) => drop(taped.maps.insert(*map, real)),
            (Ok(map), None) => drop(taped.maps.remove(map)),
            (Err(_), Some(real)) => drop(self.scribe.munmap(real)),
            (Err(_), None) => {}
        }
        told
    }

    fn map_load(&mut self, map: MapId, at: u64, dest: Dest<'_>) -> Result<()> {
        self.in_map("load", map, |p, map| p.map_load(map, at, dest))
    }

    fn map_store(&mut self, map: MapId, at: u64, data: Payload<'_>) -> Result<()> {
        self.in_map("store", map, |p, map| p.map_store(map, at, data))
    }

    fn msync(&mut self, map: MapId, at: u64, len: u64, wait: bool) -> Result<()> {
        self.in_map("msync", map, |p, map| p.msync(map, at, len, wait))
    }

    fn munmap(&mut self, map: MapId) -> Result<()> {
        let done = self.in_map("munmap", map, |p, map| p.munmap(map));
        if let Some(taped) = &mut self.taped {
            taped.maps.remove(&map);
        }
        done
    }

    fn let_go(&mut self, fd: Fd) -> Result<()> {
        self.on("let go", fd, |p, fd| p.let_go(fd))
    }

    fn set_cred(&mut self, cred: Cred) {
        self.scribe.set_cred(cred);
    }
}
