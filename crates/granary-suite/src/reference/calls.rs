//! The system calls of a [`RefProcess`].

mod nodes;

use super::{File, Last, Place, ROOT, RefProcess, View, check_len};
use granary_fs::{Allocate, Attr, Cred, FileKind, FsError, Ino, RenameFlags, Result, SetXattr, StatFs, Time};
use granary_units::{Dest, Payload};
use granary_vfs::{Access, Dirent, Fd, MapHow, MapId, OpenFlags, Posix, SetTime, Stat, Whence};

type R<T> = Result<T>;

fn stat_of(v: &View<'_>, ino: u64) -> Stat {
    let n = v.fs.at(ino);
    let t = Time(0);
    let attr = Attr {
        kind: n.kind,
        mode: n.mode,
        uid: n.uid,
        gid: n.gid,
        nlink: n.nlink,
        size: n.content.size(),
        blocks: 0,
        atime: t,
        mtime: t,
        ctime: t,
        rdev: n.rdev,
        flags: 0,
    };
    Stat { ino: Ino(ino), attr }
}

impl Posix for RefProcess {
    fn open(&mut self, path: impl AsRef<[u8]>, flags: OpenFlags, bits: u16) -> R<Fd> {
        if !flags.access_is_valid() || flags.contains(OpenFlags::CREAT | OpenFlags::DIRECTORY) {
            return Err(FsError::Invalid);
        }
        let ino = self.with(|v| {
            let (ino, created) = RefProcess::open_ino(v, path.as_ref(), flags, bits)?;
            let kind = v.fs.at(ino).kind;
            let truncates = flags.contains(OpenFlags::TRUNC);
            if flags.contains(OpenFlags::DIRECTORY) && kind != FileKind::Dir {
                return Err(FsError::NotDir);
            }
            if kind == FileKind::Symlink {
                return Err(FsError::Loop);
            }
            if kind == FileKind::Dir && (flags.writes() || truncates) {
                return Err(FsError::IsDir);
            }
            if !created {
                if flags.reads() {
                    v.may(ino, Access::READ)?;
                }
                if flags.writes() || truncates {
                    v.may(ino, Access::WRITE)?;
                }
            }
            if flags.contains(OpenFlags::NOATIME) && !v.owns(ino) {
                return Err(FsError::NotPermitted);
            }
            if kind != FileKind::File && kind != FileKind::Dir {
                return Err(FsError::NoDevice);
            }
            if truncates && !created {
                v.resize(ino, 0)?;
            }
            Ok(ino)
        })?;
        Ok(self.install(ino, flags))
    }

    fn close(&mut self, fd: Fd) -> R<()> {
        self.me.files.remove(&fd.0).map(|_| ()).ok_or(FsError::BadFd)
    }

    fn read(&mut self, fd: Fd, dest: Dest<'_>) -> R<usize> {
        let n = self.read_at(fd, dest, None)?;
        self.file(fd)?.pos += n as u64;
        Ok(n)
    }

    fn pread(&mut self, fd: Fd, dest: Dest<'_>, pos: u64) -> R<usize> {
        self.read_at(fd, dest, Some(pos))
    }

    fn write(&mut self, fd: Fd, data: Payload<'_>) -> R<usize> {
        let (n, end) = self.write_at(fd, data, None)?;
        self.file(fd)?.pos = end;
        Ok(n)
    }

    fn pwrite(&mut self, fd: Fd, data: Payload<'_>, pos: u64) -> R<usize> {
        Ok(self.write_at(fd, data, Some(pos))?.0)
    }

    fn lseek(&mut self, fd: Fd, offset: i64, whence: Whence) -> R<u64> {
        let File { ino, pos, .. } = self.file(fd)?.clone();
        let (size, max) = self.with(|v| Ok((v.fs.at(ino).content.size(), v.fs.limits.max_file_size)))?;
        let to = match whence {
            Whence::Set => offset as i128,
            Whence::Cur => offset as i128 + pos as i128,
            Whence::End => offset as i128 + size as i128,
            Whence::Data | Whence::Hole => {
                if offset < 0 || offset as u64 >= size {
                    return Err(FsError::NoDevice);
                }
                if whence == Whence::Data { offset as i128 } else { size as i128 }
            }
        };
        if to < 0 || to > max as i128 || to > i64::MAX as i128 {
            return Err(FsError::Invalid);
        }
        self.file(fd)?.pos = to as u64;
        Ok(to as u64)
    }

    fn ftruncate(&mut self, fd: Fd, size: u64) -> R<()> {
        let File { ino, flags, .. } = self.file(fd)?.clone();
        if !flags.writes() {
            return Err(FsError::Invalid);
        }
        self.with(|v| v.resize(ino, size))
    }

    fn fallocate(&mut self, fd: Fd, how: Allocate, pos: u64, len: u64) -> R<()> {
        let File { ino, flags, .. } = self.file(fd)?.clone();
        if len == 0 {
            return Err(FsError::Invalid);
        }
        if !flags.writes() {
            return Err(FsError::BadFd);
        }
        self.with(|v| {
            let (max, size) = (v.fs.limits.max_file_size, v.fs.at(ino).content.size());
            let end = pos.checked_add(len).filter(|&e| e <= max).ok_or(FsError::TooBig)?;
            v.strip(ino, false);
            let content = &mut v.fs.at_mut(ino).content;
            if how.zeroes() {
                content.zero(pos, end.min(size));
            }
            if how.grows() && end > size {
                content.resize(end);
            }
            Ok(())
        })
    }

    fn mmap(&mut self, fd: Fd, pos: u64, len: u64, how: MapHow) -> R<MapId> {
        self.do_mmap(fd, pos, len, how)
    }

    fn map_load(&mut self, map: MapId, at: u64, dest: Dest<'_>) -> R<()> {
        self.do_load(map, at, dest)
    }

    fn map_store(&mut self, map: MapId, at: u64, data: Payload<'_>) -> R<()> {
        self.do_store(map, at, data)
    }

    fn msync(&mut self, map: MapId, at: u64, len: u64, _: bool) -> R<()> {
        self.do_msync(map, at, len)
    }

    fn munmap(&mut self, map: MapId) -> R<()> {
        self.do_munmap(map)
    }

    fn fsync(&mut self, fd: Fd) -> R<()> {
        self.file(fd).map(|_| ())
    }

    fn fdatasync(&mut self, fd: Fd) -> R<()> {
        self.fsync(fd)
    }

    fn sync(&mut self) -> R<()> {
        Ok(())
    }

    fn stat(&mut self, path: impl AsRef<[u8]>) -> R<Stat> {
        self.with(|v| Ok(stat_of(v, v.find(path.as_ref(), true)?)))
    }

    fn lstat(&mut self, path: impl AsRef<[u8]>) -> R<Stat> {
        self.with(|v| Ok(stat_of(v, v.find(path.as_ref(), false)?)))
    }

    fn fstat(&mut self, fd: Fd) -> R<Stat> {
        let ino = self.file(fd)?.ino;
        self.with(|v| Ok(stat_of(v, ino)))
    }

    fn access(&mut self, path: impl AsRef<[u8]>, wanted: Access) -> R<()> {
        self.with(|v| v.may(v.find(path.as_ref(), true)?, wanted))
    }

    fn chmod(&mut self, path: impl AsRef<[u8]>, bits: u16) -> R<()> {
        self.with(|v| {
            let ino = v.find(path.as_ref(), true)?;
            RefProcess::chmod_node(v, ino, bits)
        })
    }

    fn fchmod(&mut self, fd: Fd, bits: u16) -> R<()> {
        let ino = self.file(fd)?.ino;
        self.with(|v| RefProcess::chmod_node(v, ino, bits))
    }

    fn chown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> R<()> {
        self.chown_path(path.as_ref(), true, uid, gid)
    }

    fn lchown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> R<()> {
        self.chown_path(path.as_ref(), false, uid, gid)
    }

    fn utimens(&mut self, path: impl AsRef<[u8]>, atime: SetTime, mtime: SetTime) -> R<()> {
        if (atime, mtime) == (SetTime::Omit, SetTime::Omit) {
            return Ok(());
        }
        self.with(|v| {
            let ino = v.find(path.as_ref(), true)?;
            match (atime, mtime) {
                _ if v.owns(ino) => Ok(()),
                (SetTime::Now, SetTime::Now) => v.may(ino, Access::WRITE),
                _ => Err(FsError::NotPermitted),
            }
        })
    }

    fn truncate(&mut self, path: impl AsRef<[u8]>, size: u64) -> R<()> {
        self.with(|v| {
            let ino = v.find(path.as_ref(), true)?;
            match v.fs.at(ino).kind {
                FileKind::Dir => return Err(FsError::IsDir),
                FileKind::File => {}
                _ => return Err(FsError::Invalid),
            }
            v.may(ino, Access::WRITE)?;
            v.resize(ino, size)
        })
    }

    fn getxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> R<Vec<u8>> {
        self.with(|v| v.getxattr(path.as_ref(), name))
    }

    fn setxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8], value: &[u8], how: SetXattr) -> R<()> {
        self.with(|v| v.setxattr(path.as_ref(), name, value, how))
    }

    fn removexattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> R<()> {
        self.with(|v| v.removexattr(path.as_ref(), name))
    }

    fn listxattr(&mut self, path: impl AsRef<[u8]>) -> R<Vec<Vec<u8>>> {
        self.with(|v| v.listxattr(path.as_ref()))
    }

    fn mkdir(&mut self, path: impl AsRef<[u8]>, bits: u16) -> R<()> {
        let bits = bits & 0o1777 & !self.me.umask;
        self.make_at(path.as_ref(), FileKind::Dir, bits, 0, b"")
    }

    fn mknod(&mut self, path: impl AsRef<[u8]>, kind: FileKind, bits: u16, rdev: u32) -> R<()> {
        match kind {
            FileKind::Dir => Err(FsError::NotPermitted),
            FileKind::Symlink => Err(FsError::Invalid),
            _ => self.make_at(path.as_ref(), kind, bits & 0o7777 & !self.me.umask, rdev, b""),
        }
    }

    fn rmdir(&mut self, path: impl AsRef<[u8]>) -> R<()> {
        self.with(|v| {
            let Place { dir, last, .. } = v.parent(path.as_ref())?;
            let name = match last {
                Last::Root => return Err(FsError::Busy),
                Last::Dot => return Err(FsError::Invalid),
                Last::DotDot => return Err(FsError::NotEmpty),
                Last::Name(name) => name,
            };
            let ino = v.step(dir, &name)?;
            v.may_remove(dir, ino)?;
            if !v.fs.is_dir(ino) {
                return Err(FsError::NotDir);
            }
            if !v.fs.at(ino).names.is_empty() {
                return Err(FsError::NotEmpty);
            }
            v.fs.at_mut(dir).names.remove(&name);
            v.forget(dir, ino);
            Ok(())
        })
    }

    fn unlink(&mut self, path: impl AsRef<[u8]>) -> R<()> {
        self.with(|v| {
            let Place { dir, last, slash } = v.parent(path.as_ref())?;
            let Last::Name(name) = last else { return Err(FsError::IsDir) };
            let ino = v.step(dir, &name)?;
            if slash {
                return Err(if v.fs.is_dir(ino) { FsError::IsDir } else { FsError::NotDir });
            }
            v.may_remove(dir, ino)?;
            if v.fs.is_dir(ino) {
                return Err(FsError::IsDir);
            }
            v.fs.at_mut(dir).names.remove(&name);
            v.forget(dir, ino);
            Ok(())
        })
    }

    fn rename_with(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, flags: RenameFlags) -> R<()> {
        if flags.no_replace && flags.exchange {
            return Err(FsError::Invalid);
        }
        self.with(|v| {
            let (a, b) = (v.parent(from.as_ref())?, v.parent(to.as_ref())?);
            let Last::Name(from) = a.last else { return Err(FsError::Busy) };
            let Last::Name(to) = b.last else {
                return Err(if flags.no_replace { FsError::Exists } else { FsError::Busy });
            };
            let source = v.step(a.dir, &from)?;
            let target = v.fs.at(b.dir).names.get(&to).copied();
            if v.fs.at(b.dir).nlink == 0 {
                return Err(FsError::NoEntry);
            }
            let source_is_dir = v.fs.is_dir(source);
            let target_is_dir = target.is_some_and(|t| v.fs.is_dir(t));
            if flags.no_replace && target.is_some() {
                return Err(FsError::Exists);
            }
            if flags.exchange {
                if target.is_none() {
                    return Err(FsError::NoEntry);
                }
                if b.slash && !target_is_dir {
                    return Err(FsError::NotDir);
                }
            }
            if !source_is_dir && (a.slash || (b.slash && !flags.exchange)) {
                return Err(FsError::NotDir);
            }
            let cross = a.dir != b.dir;
            if cross && source_is_dir && v.fs.is_above(source, b.dir) {
                return Err(FsError::Invalid);
            }
            if cross && target.is_some_and(|t| target_is_dir && v.fs.is_above(t, a.dir)) {
                return Err(if flags.exchange { FsError::Invalid } else { FsError::NotEmpty });
            }
            if target == Some(source) {
                return Ok(());
            }
            v.may_remove(a.dir, source)?;
            match target {
                None => v.may(b.dir, Access::WRITE | Access::EXEC)?,
                Some(t) => {
                    v.may_remove(b.dir, t)?;
                    if !flags.exchange && source_is_dir != target_is_dir {
                        return Err(if source_is_dir { FsError::NotDir } else { FsError::IsDir });
                    }
                }
            }
            if cross {
                if source_is_dir {
                    v.may(source, Access::WRITE)?;
                }
                if flags.exchange && target_is_dir {
                    v.may(target.unwrap_or(ROOT), Access::WRITE)?;
                }
                let max = v.fs.limits.max_links;
                let full = |dir: u64| v.fs.at(dir).nlink >= max;
                let gives = flags.exchange && target_is_dir && !source_is_dir;
                if (source_is_dir && !target_is_dir && full(b.dir)) || (gives && full(a.dir)) {
                    return Err(FsError::TooManyLinks);
                }
            }
            if !flags.exchange && target.is_some_and(|t| !v.fs.at(t).names.is_empty()) {
                return Err(FsError::NotEmpty);
            }
            v.fs.at_mut(a.dir).names.remove(&from);
            v.fs.at_mut(b.dir).names.insert(to, source);
            let mut moved = vec![(source, a.dir, b.dir)];
            match target {
                Some(t) if flags.exchange => {
                    v.fs.at_mut(a.dir).names.insert(from, t);
                    moved.push((t, b.dir, a.dir));
                }
                Some(t) => v.forget(b.dir, t),
                None => {}
            }
            for (ino, from, to) in moved {
                v.fs.at_mut(ino).parent = to;
                if v.fs.is_dir(ino) {
                    v.fs.at_mut(from).nlink -= 1;
                    v.fs.at_mut(to).nlink += 1;
                }
            }
            Ok(())
        })
    }

    fn link(&mut self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> R<()> {
        self.with(|v| {
            let ino = v.find(old.as_ref(), false)?;
            RefProcess::link_ino(v, ino, new.as_ref())
        })
    }

    fn open_unnamed(&mut self, dir: impl AsRef<[u8]>, flags: OpenFlags, bits: u16) -> R<Fd> {
        if !flags.access_is_valid() || !flags.writes() || flags.contains(OpenFlags::CREAT) {
            return Err(FsError::Invalid);
        }
        let ino = self.with(|v| {
            let dir = v.find(dir.as_ref(), !flags.contains(OpenFlags::NOFOLLOW))?;
            if !v.fs.is_dir(dir) {
                return Err(FsError::NotDir);
            }
            let ino = v.make_node(dir, FileKind::File, bits & 0o7777 & !v.me.umask, 0, b"")?;
            let node = v.fs.at_mut(ino);
            (node.nlink, node.unnamed) = (0, !flags.contains(OpenFlags::EXCL));
            Ok(ino)
        })?;
        Ok(self.install(ino, flags))
    }

    fn link_open(&mut self, fd: Fd, new: impl AsRef<[u8]>) -> R<()> {
        let ino = self.file(fd)?.ino;
        self.with(|v| RefProcess::link_ino(v, ino, new.as_ref()))
    }

    fn symlink(&mut self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> R<()> {
        check_len(target.as_ref())?;
        self.make_at(path.as_ref(), FileKind::Symlink, 0o777, 0, target.as_ref())
    }

    fn readlink(&mut self, path: impl AsRef<[u8]>) -> R<Vec<u8>> {
        self.with(|v| {
            let node = v.fs.at(v.find(path.as_ref(), false)?);
            if node.kind == FileKind::Symlink { Ok(node.target.clone()) } else { Err(FsError::Invalid) }
        })
    }

    fn readdir(&mut self, fd: Fd, max: usize) -> R<Vec<Dirent>> {
        let File { ino, pos, .. } = self.file(fd)?.clone();
        let part = self.with(|v| {
            let node = v.fs.at(ino);
            if node.kind != FileKind::Dir {
                return Err(FsError::NotDir);
            }
            if node.nlink == 0 {
                return Err(FsError::NoEntry);
            }
            let dots = [(&b"."[..], ino), (b"..", node.parent)];
            let names = node.names.iter().map(|(n, i)| (&n[..], *i));
            let all = dots.into_iter().chain(names).skip(pos as usize).take(max);
            Ok(all
                .map(|(n, i)| Dirent { name: n.to_vec(), ino: Ino(i), kind: v.fs.at(i).kind })
                .collect::<Vec<_>>())
        })?;
        self.file(fd)?.pos += part.len() as u64;
        Ok(part)
    }

    fn chdir(&mut self, path: impl AsRef<[u8]>) -> R<()> {
        let ino = self.with(|v| {
            let ino = v.find(path.as_ref(), true)?;
            if !v.fs.is_dir(ino) {
                return Err(FsError::NotDir);
            }
            v.may(ino, Access::EXEC)?;
            Ok(ino)
        })?;
        self.me.cwd = ino;
        Ok(())
    }

    fn statfs(&mut self) -> R<StatFs> {
        let all = u64::MAX;
        Ok(StatFs { blocks: all, free_blocks: all, reserved_blocks: 0, inodes: all, free_inodes: all })
    }

    fn umask(&mut self, mask: u16) -> u16 {
        std::mem::replace(&mut self.me.umask, mask & 0o777)
    }

    fn set_cred(&mut self, cred: Cred) {
        self.me.cred = cred;
    }
}
