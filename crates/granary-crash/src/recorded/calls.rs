//! The calls of a client as its [`Scribe`] writes them down, one by one.

use super::doubt::in_doubt;
use super::{Scribe, cut, fate, show};
use crate::oracle::{Fate, Model};
use granary_fs::{Allocate, Cred, FileKind, RenameFlags, Result, SetXattr};
use granary_units::{Dest, Payload};
use granary_vfs::{Dirent, Fd, MapHow, MapId, OpenFlags, Posix, SetTime, Whence};

impl<P: Posix> Posix for Scribe<P> {
    granary_vfs::forward_posix!(inner: stat, lstat, fstat, access, getxattr, listxattr, readlink, statfs, umask);

    fn open(&mut self, path: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        let path = path.as_ref();
        let _telling = self.begin(self.text(|_| format!("open {} {flags:?}", show(path))));
        let place = self.place(path);
        let exists = place.as_ref().and_then(|at| at.node);
        let mut begun = None;
        // A creation that the drive failed may or may not have happened: then this call may make the file.
        let may_be_new = exists.is_none_or(|id| self.promises.with(|m| m.node(id).ino.is_none()));
        if flags.contains(OpenFlags::CREAT) && may_be_new {
            begun = place.as_ref().map(|at| self.promises.with(|m| m.begin_make(at, FileKind::File, b"")));
        }
        let cuts = flags.contains(OpenFlags::TRUNC) && flags.writes();
        let cut = exists.filter(|_| cuts).map(|id| (id, self.promises.with(|m| m.begin_truncate(id, 0))));
        let result = self.inner.open(path, flags, mode);
        if let Some((id, by)) = cut.filter(|_| !in_doubt(&result)) {
            self.promises.with(|m| m.end_truncate(id, by, fate(&result)));
        }
        let Ok(fd) = result else {
            match begun {
                Some((change, _)) if in_doubt(&result) => self.doubt(change, &[path]),
                Some((change, _)) => self.promises.with(|m| m.end_names(change, Fate::Failed)),
                None => {}
            }
            return result;
        };
        let stat = self.inner.fstat(fd)?;
        if let Some((change, id)) = begun {
            let is_new = self.promises.with(|m| {
                let is_new = !place.as_ref().is_some_and(|at| m.is_made(at, id, stat.ino));
                m.end_names(change, if is_new { Fate::Done } else { Fate::Failed });
                if is_new {
                    m.identify(id, stat.ino, &stat.attr);
                }
                is_new
            });
            if is_new {
                self.inherited(place.as_ref().map(|at| at.dir), id, path)?;
            }
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
        let (node, superuser) = (self.node_of(fd), self.superuser);
        let text = self.text(|of| format!("truncate {} to {size}", of(fd)));
        self.change(
            text,
            node,
            |m, n| cut(m, n, size, superuser),
            |p| p.ftruncate(fd, size),
            Model::end_truncate,
        )
    }

    fn fallocate(&mut self, fd: Fd, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let node = self.node_of(fd).filter(|_| pos.checked_add(len).is_some());
        let superuser = self.superuser;
        let text = self.text(|of| format!("fallocate {how:?} {}, {len} bytes at {pos:#x}", of(fd)));
        self.change(
            text,
            node,
            |m, n| {
                let by = m.begin_space(n, how, pos, len);
                if !superuser {
                    m.lose_set_ids(n, by);
                }
                by
            },
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
        let _telling = self.begin(self.text(|_| "sync".to_owned()));
        let horizon = self.promises.with(|m| m.stamps.tick());
        self.inner.sync()?;
        // It leaves the error of a file's write-back to that file's fsync.
        self.promises.with(|m| {
            if !m.writes_fail {
                m.keep_everything(horizon)
            }
        });
        Ok(())
    }

    fn chmod(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        let node = self.node_at(path.as_ref());
        let text = self.text(|_| format!("chmod {} {mode:o}", show(&path)));
        self.change(text, node, |m, n| m.begin_mode(n, mode), |p| p.chmod(path, mode), Model::end_mode)
    }

    fn fchmod(&mut self, fd: Fd, mode: u16) -> Result<()> {
        let node = self.node_of(fd);
        let text = self.text(|of| format!("chmod {} {mode:o}", of(fd)));
        self.change(text, node, |m, n| m.begin_mode(n, mode), |p| p.fchmod(fd, mode), Model::end_mode)
    }

    fn chown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let path = path.as_ref();
        self.own("chown", path, (uid, gid), |p| p.chown(path, uid, gid))
    }

    fn lchown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let path = path.as_ref();
        self.own("lchown", path, (uid, gid), |p| p.lchown(path, uid, gid))
    }

    fn utimens(&mut self, path: impl AsRef<[u8]>, atime: SetTime, mtime: SetTime) -> Result<()> {
        let of = |set: SetTime| match set {
            SetTime::Omit => None,
            SetTime::Now => Some(None),
            SetTime::At(time) => Some(Some(time)),
        };
        let (accessed, modified) = (of(atime), of(mtime));
        // It sets nothing, not even the time of change.
        let nothing = atime == SetTime::Omit && mtime == SetTime::Omit;
        let node = self.node_at(path.as_ref()).filter(|_| !nothing);
        if node.is_none() {
            return self.inner.utimens(path, atime, mtime);
        }
        let text = self.text(|_| format!("utimens {}", show(&path)));
        self.change(
            text,
            node,
            |m, n| m.begin_times(n, accessed, modified),
            |p| p.utimens(path, atime, mtime),
            Model::end,
        )
    }

    fn truncate(&mut self, path: impl AsRef<[u8]>, size: u64) -> Result<()> {
        let (node, superuser) = (self.node_at(path.as_ref()), self.superuser);
        let text = self.text(|_| format!("truncate {} to {size}", show(&path)));
        self.change(
            text,
            node,
            |m, n| cut(m, n, size, superuser),
            |p| p.truncate(path, size),
            Model::end_truncate,
        )
    }

    fn setxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.do_setxattr(path.as_ref(), name, value, how)
    }

    fn removexattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<()> {
        let node = self.node_at(path.as_ref());
        let text = self.text(|_| format!("removexattr {} {}", show(&path), show(name)));
        self.change(
            text,
            node,
            |m, n| m.begin_xattr(n, name, None),
            |p| p.removexattr(path, name),
            |m, n, by, fate| m.end_xattr(n, name, by, fate),
        )
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
        let _telling = self.begin(self.text(|_| {
            let how = if flags.exchange { "exchange" } else { "rename" };
            format!("{how} {}, {}", show(from), show(to))
        }));
        let begun = match (self.place(from), self.place(to)) {
            (Some(a), Some(b)) if a.node.is_some() && (b.node.is_some() || !flags.exchange) => {
                Some(self.promises.with(|m| m.begin_rename(&a, &b, flags.exchange)))
            }
            _ => None,
        };
        let result = self.inner.rename_with(from, to, flags);
        self.renamed(begun, "rename", &[from, to], &result);
        result
    }

    fn link(&mut self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        let (old, new) = (old.as_ref(), new.as_ref());
        let _telling = self.begin(self.text(|_| format!("link {}, {}", show(old), show(new))));
        let begun = match (self.node_at(old), self.place(new)) {
            (Some(node), Some(to)) => Some(self.promises.with(|m| m.begin_link(node, &to))),
            _ => None,
        };
        let result = self.inner.link(old, new);
        self.renamed(begun, "link", &[new], &result);
        result
    }

    fn open_unnamed(&mut self, dir: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        self.do_open_unnamed(dir.as_ref(), flags, mode)
    }

    fn link_open(&mut self, fd: Fd, new: impl AsRef<[u8]>) -> Result<()> {
        let new = new.as_ref();
        let _telling = self.begin(self.text(|of| format!("link {}, {}", of(fd), show(new))));
        let begun = match (self.node_of(fd), self.place(new)) {
            (Some(node), Some(to)) => Some(self.promises.with(|m| m.begin_link(node, &to))),
            _ => None,
        };
        let result = self.inner.link_open(fd, new);
        self.renamed(begun, "link", &[new], &result);
        result
    }

    fn mmap(&mut self, fd: Fd, pos: u64, len: u64, how: MapHow) -> Result<MapId> {
        self.do_mmap(fd, pos, len, how)
    }

    fn map_load(&mut self, map: MapId, at: u64, dest: Dest<'_>) -> Result<()> {
        self.do_load(map, at, dest)
    }

    fn map_store(&mut self, map: MapId, at: u64, data: Payload<'_>) -> Result<()> {
        self.do_store(map, at, data)
    }

    fn msync(&mut self, map: MapId, at: u64, len: u64, wait: bool) -> Result<()> {
        self.do_msync(map, at, len, wait)
    }

    fn munmap(&mut self, map: MapId) -> Result<()> {
        self.inner.munmap(map)?;
        self.maps.remove(&map);
        Ok(())
    }

    fn let_go(&mut self, fd: Fd) -> Result<()> {
        self.inner.let_go(fd)
    }

    fn symlink(&mut self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        let (target, path) = (target.as_ref(), path.as_ref());
        self.make(path, FileKind::Symlink, target, |p| p.symlink(target, path))
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

    fn set_cred(&mut self, cred: Cred) {
        self.superuser = cred.uid == 0;
        self.inner.set_cred(cred);
    }
}
