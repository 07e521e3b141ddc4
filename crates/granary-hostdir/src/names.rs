//! Names: the host's directories, each by its descriptor.

use crate::errno::error;
use crate::host::{Host, PATH};
use crate::{HostDir, follow, of};
use granary_fs::{
    Attr, Call, Created, DirEntry, FileKind, FsError, Ino, Inode, Loaded, Names, NewNode, Rename, Result,
};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, RenameFlags, SeekFrom};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Bytes of entries that the host is asked for at once.
const ENTRIES: usize = 32 << 10;

/// Positions of the host from here on are its ends of directories: ext4's is 2^63 - 1, which would not leave
/// room for the vfs's own positions.
const END: u64 = i64::MAX as u64 - 2;

fn kind(of: FileType) -> Option<FileKind> {
    Some(match of {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::CharDev,
        FileType::BlockDevice => FileKind::BlockDev,
        FileType::Unknown => return None,
    })
}

fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Dir => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDev => FileType::CharacterDevice,
        FileKind::BlockDev => FileType::BlockDevice,
    }
}

/// A name's descriptor, and not that of what it leads to.
fn look(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, name, PATH, Mode::empty())
}

/// Mode of a new file until its owner is set: nobody else may use it meanwhile.
const NOBODY: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::XUSR);

impl HostDir {
    /// Makes a node in the host's directory; says whether its descriptor is one for bytes.
    fn make(&self, dir: &OwnedFd, name: &[u8], new: &NewNode<'_>) -> Result<(OwnedFd, bool)> {
        match new.kind {
            FileKind::File => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                return Ok((rustix::fs::openat(dir, name, flags, NOBODY).map_err(error)?, true));
            }
            FileKind::Dir => rustix::fs::mkdirat(dir, name, NOBODY),
            FileKind::Symlink => rustix::fs::symlinkat(new.target, dir, name),
            kind => rustix::fs::mknodat(dir, name, file_type(kind), NOBODY, new.rdev.into()),
        }
        .map_err(error)?;
        Ok((look(dir, name).map_err(error)?, false))
    }

    /// Gives what was just made its owner and mode, and takes it into the table.
    fn dress(&self, made: (OwnedFd, bool), new: &NewNode<'_>) -> Result<(Arc<Host>, Attr)> {
        let host = self.table.adopt(made.0, None)?;
        if made.1 {
            host.made_open();
        }
        let dressed = match host.attr() {
            // Somebody has put something else there.
            Ok(attr) if attr.kind != new.kind => Err(FsError::Stale),
            Ok(_) => host.own(Some(new.uid), Some(new.gid)).and_then(|()| host.chmod(new.mode)),
            Err(e) => Err(e),
        };
        match dressed.and_then(|()| host.attr()) {
            Ok(attr) => Ok((host, attr)),
            Err(e) => {
                self.table.forget(&host);
                host.close();
                Err(e)
            }
        }
    }

    /// Takes a name away that was just made, and cannot stay because of `why`.
    fn unmake(dir: &OwnedFd, name: &[u8], kind: FileKind, why: &FsError) {
        if *why == FsError::Stale {
            // The name belongs to another file than ours.
            return;
        }
        let flags = if kind == FileKind::Dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        // The error that made it go is the one to be told.
        let _ = rustix::fs::unlinkat(dir, name, flags);
    }
}

/// The attributes of what has lost a name; of a directory that is the last one, whatever the host counts.
fn follow_unlinked(inode: &Inode) -> Result<()> {
    follow(inode)?;
    inode.update(|a| {
        if a.kind == FileKind::Dir {
            a.nlink = 0;
        }
    });
    Ok(())
}

impl Names for HostDir {
    fn lookup(&self, _call: &Call<'_>, dir: &Inode, name: &[u8]) -> Result<Option<Ino>> {
        let dir = of(dir);
        match look(&*dir.path()?, name) {
            Ok(fd) => Ok(Some(self.table.adopt(fd, Some((&dir, name)))?.number())),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(error(errno)),
        }
    }

    fn readdir(
        &self,
        _call: &Call<'_>,
        dir: &Inode,
        from: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        if from >= END {
            return Ok(());
        }
        let host = of(dir);
        let fd = host.directory()?;
        if from > 0 {
            rustix::fs::seek(&fd, SeekFrom::Start(from)).map_err(error)?;
        }
        let mut buffer = vec![MaybeUninit::uninit(); ENTRIES];
        let mut entries = RawDir::new(&fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(error)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let kind = match kind(entry.file_type()) {
                Some(kind) => kind,
                // This host's file system does not say.
                None => match rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => kind(FileType::from_raw_mode(stat.st_mode)).ok_or(FsError::NotSupported)?,
                    // Gone meanwhile.
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(error(errno)),
                },
            };
            let ino = self.table.number(host.identity().dev, entry.ino());
            if !emit(DirEntry { name, ino, kind, next: entry.next_entry_cookie().min(END) }) {
                break;
            }
        }
        Ok(())
    }

    fn dir_end(&self, _dir: &Inode) -> u64 {
        u64::MAX
    }

    fn parent(&self, _call: &Call<'_>, dir: &Inode) -> Result<Ino> {
        let above = look(&*of(dir).path()?, b"..").map_err(error)?;
        Ok(self.table.adopt(above, None)?.number())
    }

    fn is_empty_dir(&self, call: &Call<'_>, dir: &Inode) -> Result<bool> {
        let mut empty = true;
        self.readdir(call, dir, 0, &mut |_| {
            empty = false;
            false
        })?;
        Ok(empty)
    }

    fn readlink(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<u8>> {
        let target = rustix::fs::readlinkat(&*of(inode).path()?, c"", Vec::new()).map_err(error)?;
        Ok(target.into_bytes())
    }

    fn create(&self, _call: &Call<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created> {
        self.may_change()?;
        let above = of(dir);
        let fd = above.path()?;
        let made = self.make(&fd, name, new)?;
        let (host, attr) = self.dress(made, new).inspect_err(|e| HostDir::unmake(&fd, name, new.kind, e))?;
        host.is_at(&above, name, true);
        follow(dir)?;
        Ok(Created { ino: host.number(), loaded: Loaded { attr, private: host } })
    }

    /// Of regular files only: the host has no others.
    fn create_unnamed(&self, _call: &Call<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        self.may_change()?;
        if new.kind != FileKind::File {
            return Err(FsError::NotSupported);
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&*of(dir).path()?, c".", flags, NOBODY);
        let made = made.map_err(|errno| match errno {
            // File systems without such files report this.
            Errno::ISDIR => FsError::NotSupported,
            other => error(other),
        })?;
        let (host, attr) = self.dress((made, true), new)?;
        Ok(Created { ino: host.number(), loaded: Loaded { attr, private: host } })
    }

    fn link(&self, _call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.may_change()?;
        let (above, host) = (of(dir), of(inode));
        // Through /proc: by the descriptor alone only the superuser may.
        let to = above.path()?;
        host.through_proc(|from| rustix::fs::linkat(CWD, from, &*to, name, AtFlags::SYMLINK_FOLLOW))?;
        host.is_at(&above, name, true);
        follow(dir)?;
        follow(inode)
    }

    fn unlink(&self, _call: &Call<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        self.may_change()?;
        let (above, host) = (of(dir), of(inode));
        // Once the name is gone nothing else leads to it.
        host.path()?;
        let is_dir = inode.view(|a| a.kind) == FileKind::Dir;
        let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&*above.path()?, name, flags).map_err(error)?;
        host.is_not_at(&above, name);
        follow(dir)?;
        follow_unlinked(inode)
    }

    fn rename(&self, _call: &Call<'_>, r: &Rename<'_>) -> Result<()> {
        self.may_change()?;
        let (from, to, host) = (of(r.from_dir), of(r.to_dir), of(r.inode));
        let target = r.target.map(|inode| (inode, of(inode)));
        if let Some((_, target)) = &target {
            target.path()?;
        }
        let flags = if r.exchange { RenameFlags::EXCHANGE } else { RenameFlags::empty() };
        rustix::fs::renameat_with(&*from.path()?, r.from, &*to.path()?, r.to, flags).map_err(error)?;
        host.is_at(&to, r.to, true);
        match &target {
            Some((_, target)) if r.exchange => target.is_at(&from, r.from, true),
            Some((_, target)) => target.is_not_at(&to, r.to),
            None => {}
        }
        follow(r.from_dir)?;
        follow(r.to_dir)?;
        follow(r.inode)?;
        match target {
            Some((inode, _)) if r.exchange => follow(inode),
            Some((inode, _)) => follow_unlinked(inode),
            None => Ok(()),
        }
    }
}
