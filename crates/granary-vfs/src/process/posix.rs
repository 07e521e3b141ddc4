//! The calls of a process.

use super::{File, Process, file_of, walk};
use crate::posix::{Access, Dirent, Fd, MapHow, MapId, OpenFlags, Posix, SetTime, Stat, Whence};
use crate::process::walk::Last;
use crate::vfs::{Change, NewFile};
use granary_fs::{Allocate, Cred, FileKind, FsError, RenameFlags, Result, SetXattr, StatFs, mode};
use granary_sim::costs;
use granary_units::{Dest, Nanos, Payload};

impl Posix for Process {
    fn open(&mut self, path: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        if !flags.access_is_valid() || flags.contains(OpenFlags::CREAT | OpenFlags::DIRECTORY) {
            return Err(FsError::Invalid);
        }
        let mut count = 0;
        let found = self.open_node(path.as_ref(), flags, mode, &mut count);
        if let Ok((node, _)) = &found {
            self.vfs.cache.prefetch(node);
        }
        self.charge(count, costs().inode_op);
        let (node, created) = found?;
        let file = self.vfs.open(&self.caller, node, flags, created)?;
        let fd = self.install(file);
        self.vfs.reap();
        fd
    }

    fn close(&mut self, fd: Fd) -> Result<()> {
        let file = self.files.get_mut(fd.0 as usize).and_then(Option::take);
        self.charge(0, if file.is_some() { costs().inode_op } else { Nanos::ZERO });
        let file = file.ok_or(FsError::BadFd)?;
        self.first_free = self.first_free.min(fd.0 as usize);
        self.vfs.close(&self.caller, file.file);
        Ok(())
    }

    fn read(&mut self, fd: Fd, dest: Dest<'_>) -> Result<usize> {
        let file = file_of(&mut self.files, fd)?;
        let n = self.vfs.read(&self.caller, &file.file, file.pos, dest)?;
        file.pos += n as u64;
        Ok(n)
    }

    fn pread(&mut self, fd: Fd, dest: Dest<'_>, pos: u64) -> Result<usize> {
        let file = self.files.get(fd.0 as usize).and_then(Option::as_ref).ok_or(FsError::BadFd)?;
        self.vfs.read(&self.caller, &file.file, pos, dest)
    }

    fn write(&mut self, fd: Fd, data: Payload<'_>) -> Result<usize> {
        let File { file, pos, .. } =
            self.files.get_mut(fd.0 as usize).and_then(Option::as_mut).ok_or(FsError::BadFd)?;
        let (at, n) = self.vfs.write(&self.caller, file, *pos, data)?;
        *pos = at + n as u64;
        Ok(n)
    }

    fn pwrite(&mut self, fd: Fd, data: Payload<'_>, pos: u64) -> Result<usize> {
        let file = self.files.get(fd.0 as usize).and_then(Option::as_ref).ok_or(FsError::BadFd)?;
        Ok(self.vfs.write(&self.caller, &file.file, pos, data)?.1)
    }

    fn lseek(&mut self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        self.charge(0, Nanos::ZERO);
        let max = self.vfs.max_file_size();
        let file = file_of(&mut self.files, fd)?;
        let size = file.file.node().size();
        let to = match whence {
            Whence::Set => Some(offset),
            Whence::Cur => offset.checked_add_unsigned(file.pos),
            Whence::End => offset.checked_add_unsigned(size),
            Whence::Data | Whence::Hole => {
                let from = u64::try_from(offset).map_err(|_| FsError::NoDevice)?;
                let hole = whence == Whence::Hole;
                i64::try_from(self.vfs.seek(&self.caller, file.file.node(), from, hole)?).ok()
            }
        };
        let to = to.and_then(|t| u64::try_from(t).ok()).filter(|&t| t <= max).ok_or(FsError::Invalid)?;
        file.pos = to;
        Ok(to)
    }

    fn ftruncate(&mut self, fd: Fd, size: u64) -> Result<()> {
        self.charge(0, Nanos::ZERO);
        let file = self.file(fd)?;
        if !file.file.flags().writes() {
            return Err(FsError::Invalid);
        }
        let node = file.file.node().clone();
        self.vfs.setattr(&self.caller, &node, &Change::size(size))
    }

    fn fallocate(&mut self, fd: Fd, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let file = self.files.get(fd.0 as usize).and_then(Option::as_ref).ok_or(FsError::BadFd)?;
        self.vfs.fallocate(&self.caller, &file.file, how, pos, len)
    }

    fn copy_file_range(&mut self, from: (Fd, u64), to: (Fd, u64), len: u64) -> Result<u64> {
        let file = |fd: Fd| self.files.get(fd.0 as usize).and_then(Option::as_ref).ok_or(FsError::BadFd);
        let (source, target) = (&file(from.0)?.file, &file(to.0)?.file);
        self.vfs.copy_file_range(&self.caller, (source, from.1), (target, to.1), len)
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
        self.charge(0, Nanos::ZERO);
        self.do_munmap(map)
    }

    fn let_go(&mut self, fd: Fd) -> Result<()> {
        self.charge(0, Nanos::ZERO);
        let node = self.file(fd)?.file.node().clone();
        self.vfs.let_go(&self.caller, &node);
        Ok(())
    }

    fn fsync(&mut self, fd: Fd) -> Result<()> {
        let file = file_of(&mut self.files, fd)?;
        self.vfs.fsync_file(&self.caller, &file.file, false)
    }

    fn fdatasync(&mut self, fd: Fd) -> Result<()> {
        let file = file_of(&mut self.files, fd)?;
        self.vfs.fsync_file(&self.caller, &file.file, true)
    }

    fn sync(&mut self) -> Result<()> {
        self.vfs.sync(&self.caller)
    }

    fn stat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat> {
        self.stat_path(path.as_ref(), true)
    }

    fn lstat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat> {
        self.stat_path(path.as_ref(), false)
    }

    fn fstat(&mut self, fd: Fd) -> Result<Stat> {
        self.charge(0, Nanos::ZERO);
        let node = self.file(fd)?.file.node().clone();
        Ok(self.vfs.stat(&node))
    }

    fn access(&mut self, path: impl AsRef<[u8]>, wanted: Access) -> Result<()> {
        let mut count = 0;
        let node = self.lookup_path(path.as_ref(), true, &mut count);
        self.charge(count, Nanos::ZERO);
        self.vfs.access(&self.caller, &node?, wanted)
    }

    fn chmod(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        self.setattr_path(path.as_ref(), true, &Change::mode(mode))
    }

    fn fchmod(&mut self, fd: Fd, mode: u16) -> Result<()> {
        self.charge(0, Nanos::ZERO);
        let node = self.file(fd)?.file.node().clone();
        self.vfs.setattr(&self.caller, &node, &Change::mode(mode))
    }

    fn chown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.setattr_path(path.as_ref(), true, &Change::owner(uid, gid))
    }

    fn lchown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.setattr_path(path.as_ref(), false, &Change::owner(uid, gid))
    }

    fn utimens(&mut self, path: impl AsRef<[u8]>, atime: SetTime, mtime: SetTime) -> Result<()> {
        if atime == SetTime::Omit && mtime == SetTime::Omit {
            // As in Linux not even the path is looked at.
            self.charge(0, Nanos::ZERO);
            return Ok(());
        }
        self.setattr_path(path.as_ref(), true, &Change::times(atime, mtime))
    }

    fn truncate(&mut self, path: impl AsRef<[u8]>, size: u64) -> Result<()> {
        let mut count = 0;
        let node = self.lookup_path(path.as_ref(), true, &mut count);
        self.charge(count, Nanos::ZERO);
        let node = node?;
        match node.kind() {
            FileKind::File => {}
            FileKind::Dir => return Err(FsError::IsDir),
            _ => return Err(FsError::Invalid),
        }
        self.vfs.access(&self.caller, &node, Access::WRITE)?;
        self.vfs.setattr(&self.caller, &node, &Change::size(size))
    }

    fn getxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<Vec<u8>> {
        let node = self.node_at(path.as_ref())?;
        self.vfs.getxattr(&self.caller, &node, name)
    }

    fn setxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let node = self.node_at(path.as_ref())?;
        self.vfs.setxattr(&self.caller, &node, name, value, how)
    }

    fn removexattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<()> {
        let node = self.node_at(path.as_ref())?;
        self.vfs.removexattr(&self.caller, &node, name)
    }

    fn listxattr(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        let node = self.node_at(path.as_ref())?;
        self.vfs.listxattr(&self.caller, &node)
    }

    fn mkdir(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        // Linux keeps the sticky bit of what is asked for, and no other special bit.
        let mode = mode & (0o777 | mode::STICKY);
        self.make(path.as_ref(), &NewFile::dir(mode))
    }

    fn mknod(&mut self, path: impl AsRef<[u8]>, kind: FileKind, mode: u16, rdev: u32) -> Result<()> {
        match kind {
            FileKind::Dir => return Err(FsError::NotPermitted),
            FileKind::Symlink => return Err(FsError::Invalid),
            _ => {}
        }
        let mode = mode & mode::ALL;
        self.make(path.as_ref(), &NewFile { kind, mode, rdev, target: b"", direct_sync: false })
    }

    fn rmdir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        let mut count = 0;
        let at = self.resolve_parent(path.as_ref(), &mut count);
        self.charge(count, Nanos::ZERO);
        let at = at?;
        match at.last {
            Last::Name => self.vfs.rmdir(&self.caller, &at.dir, &at.name),
            Last::Dot => Err(FsError::Invalid),
            Last::DotDot => Err(FsError::NotEmpty),
            Last::Root => Err(FsError::Busy),
        }
    }

    fn unlink(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        let mut count = 0;
        let at = self.resolve_parent(path.as_ref(), &mut count);
        self.charge(count, Nanos::ZERO);
        let at = at?;
        if at.last != Last::Name {
            return Err(FsError::IsDir);
        }
        if at.slash {
            return Err(match self.vfs.child(&self.call(), &at.dir, &at.name)? {
                None => FsError::NoEntry,
                Some(node) if node.is_dir() => FsError::IsDir,
                Some(_) => FsError::NotDir,
            });
        }
        self.vfs.unlink(&self.caller, &at.dir, &at.name)
    }

    fn rename_with(
        &mut self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        flags: RenameFlags,
    ) -> Result<()> {
        if flags.no_replace && flags.exchange {
            return Err(FsError::Invalid);
        }
        let mut count = 0;
        let from = self.resolve_parent(from.as_ref(), &mut count);
        let to = from.and_then(|f| Ok((f, self.resolve_parent(to.as_ref(), &mut count)?)));
        self.charge(count, Nanos::ZERO);
        let (from, to) = to?;
        if from.last != Last::Name {
            return Err(FsError::Busy);
        }
        if to.last != Last::Name {
            return Err(if flags.no_replace { FsError::Exists } else { FsError::Busy });
        }
        self.vfs.rename_sides(&self.caller, from.side(), to.side(), flags)
    }

    fn link(&mut self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        let mut count = 0;
        let node = self.lookup_path(old.as_ref(), false, &mut count);
        self.link_node(node, new.as_ref(), count)
    }

    fn open_unnamed(&mut self, dir: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        if !flags.access_is_valid() || !flags.writes() || flags.contains(OpenFlags::CREAT) {
            return Err(FsError::Invalid);
        }
        let mut count = 0;
        let dir = self.lookup_path(dir.as_ref(), !flags.contains(OpenFlags::NOFOLLOW), &mut count);
        self.charge(count, costs().inode_op);
        let dir = dir?;
        if !dir.is_dir() {
            return Err(FsError::NotDir);
        }
        let mode = self.vfs.masked(&self.caller, &dir, mode & mode::ALL, self.umask)?;
        let node = self.vfs.create_unnamed(&self.caller, &dir, mode)?;
        if flags.contains(OpenFlags::EXCL) {
            self.vfs.never_name(&node);
        }
        let file = self.vfs.open(&self.caller, node, flags, true)?;
        let fd = self.install(file);
        self.vfs.reap();
        fd
    }

    fn link_open(&mut self, fd: Fd, new: impl AsRef<[u8]>) -> Result<()> {
        let node = self.file(fd).map(|file| file.file.node().clone());
        self.link_node(node, new.as_ref(), 0)
    }

    fn symlink(&mut self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        let target = target.as_ref();
        walk::check_path(target)?;
        self.make(path.as_ref(), &NewFile::symlink(target))
    }

    fn readlink(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let mut count = 0;
        let node = self.lookup_path(path.as_ref(), false, &mut count);
        self.charge(count, Nanos::ZERO);
        self.vfs.readlink(&self.caller, &node?)
    }

    fn readdir(&mut self, fd: Fd, max: usize) -> Result<Vec<Dirent>> {
        self.charge(0, Nanos::ZERO);
        let file = file_of(&mut self.files, fd)?;
        let mut pos = file.pos;
        let mut all = Vec::new();
        if max > 0 {
            self.vfs.readdir(&self.caller, file.file.node(), &file.stream, pos, &mut |e| {
                all.push(Dirent { name: e.name.to_vec(), ino: e.ino, kind: e.kind });
                pos = e.next;
                all.len() < max
            })?;
        }
        file.pos = pos;
        Ok(all)
    }

    fn chdir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        let mut count = 0;
        let node = self.lookup_path(path.as_ref(), true, &mut count);
        self.charge(count, Nanos::ZERO);
        let node = node?;
        if !node.is_dir() {
            return Err(FsError::NotDir);
        }
        self.vfs.allow(&self.call(), &node, Access::EXEC)?;
        self.cwd = node;
        self.vfs.reap();
        Ok(())
    }

    fn statfs(&mut self) -> Result<StatFs> {
        self.charge(0, Nanos::ZERO);
        self.vfs.statfs(&self.caller)
    }

    fn umask(&mut self, mask: u16) -> u16 {
        std::mem::replace(&mut self.umask, mask & 0o777)
    }

    fn set_cred(&mut self, cred: Cred) {
        self.caller.cred = cred;
    }
}
