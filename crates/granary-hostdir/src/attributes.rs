//! Attributes, extended ones too. Operations without a call for O_PATH descriptors go through /proc/self/fd.

use crate::errno::error;
use crate::host::Host;
use crate::{HostDir, follow, of};
use granary_fs::{Attributes, Call, FileKind, FsError, Inode, Result, SetAttr, Time, XATTR_LIST_MAX, flag};
use rustix::fs::{AtFlags, CWD, Gid, IFlags, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;

/// Flags that statx tells of: others could not be shown again.
const KEPT: u8 = flag::IMMUTABLE | flag::APPEND | flag::NODUMP;

/// Bytes of most values.
const SHORT: usize = 512;

fn timespec(time: Option<Time>) -> Timespec {
    const SECOND: i64 = 1_000_000_000;
    match time {
        Some(Time(t)) => Timespec { tv_sec: t.div_euclid(SECOND), tv_nsec: t.rem_euclid(SECOND) },
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    }
}

/// Reads a value from the host; grows the buffer if it is too short.
fn read_into(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; SHORT];
    let n = match call(&mut buffer) {
        Err(Errno::RANGE) => {
            buffer.resize(XATTR_LIST_MAX, 0);
            call(&mut buffer)?
        }
        other => other?,
    };
    buffer.truncate(n);
    Ok(buffer)
}

impl Host {
    /// Sets the owner if it differs. Without superuser rights a refusal is ignored: the file stays the
    /// caller's.
    pub(crate) fn own(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        match self.chown(uid, gid) {
            Err(FsError::NotPermitted) if !rustix::process::geteuid().is_root() => Ok(()),
            other => other,
        }
    }

    fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let now = self.attr()?;
        let (uid, gid) = (uid.filter(|&u| u != now.uid), gid.filter(|&g| g != now.gid));
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(&*self.path()?, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(error)
    }

    /// Gives it these permission bits, as far as it has others.
    pub(crate) fn chmod(&self, mode: u16) -> Result<()> {
        let now = self.attr()?;
        if now.mode == mode {
            return Ok(());
        }
        if now.kind == FileKind::Symlink {
            return Err(FsError::NotSupported);
        }
        let mode = Mode::from_raw_mode(mode.into());
        self.through_proc(|path| rustix::fs::chmodat(CWD, path, mode, AtFlags::empty()))
    }

    fn set_flags(&self, flags: u8) -> Result<()> {
        if flags & !KEPT != 0 {
            return Err(FsError::NotSupported);
        }
        let set = |old: IFlags| (old.bits() & !u32::from(KEPT)) | u32::from(flags);
        let change = |fd: &rustix::fd::OwnedFd| {
            let old = rustix::fs::ioctl_getflags(fd)?;
            rustix::fs::ioctl_setflags(fd, IFlags::from_bits_retain(set(old)))
        };
        match self.attr()?.kind {
            FileKind::File => change(&*self.bytes(false)?),
            FileKind::Dir => change(&self.directory()?),
            _ => return Err(FsError::NotSupported),
        }
        .map_err(error)
    }

    fn set(&self, set: &SetAttr, old_mode: u16) -> Result<()> {
        if let Some(size) = set.size {
            rustix::fs::ftruncate(&*self.bytes(true)?, size).map_err(error)?;
        }
        self.chown(set.uid, set.gid)?;
        // The host takes set-ID bits away with the owner; whether they go, the vfs has said.
        if set.mode.is_some() || set.uid.is_some() || set.gid.is_some() {
            self.chmod(set.mode.unwrap_or(old_mode))?;
        }
        if set.atime.is_some() || set.mtime.is_some() {
            let times =
                Timestamps { last_access: timespec(set.atime), last_modification: timespec(set.mtime) };
            rustix::fs::utimensat(&*self.path()?, c"", &times, AtFlags::EMPTY_PATH).map_err(error)?;
        }
        set.flags.map_or(Ok(()), |flags| self.set_flags(flags))
    }
}

impl Attributes for HostDir {
    /// As the host has no call for all at once: the size first, which may find no space. After an error later
    /// on the attributes in memory are what the host has.
    fn setattr(&self, _call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.may_change()?;
        let done = of(inode).set(set, inode.view(|a| a.mode));
        follow(inode)?;
        done
    }

    /// In memory only: the host moves its own by its own rules.
    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        inode.update(|a| a.accessed(call.time));
        Ok(())
    }

    fn getxattr(&self, _call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let read = |path: &str| read_into(|buffer| rustix::fs::getxattr(path, name, buffer));
        match of(inode).through_proc(read) {
            Ok(value) => Ok(Some(value)),
            Err(FsError::NoAttribute) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn setxattr(&self, _call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.may_change()?;
        of(inode).through_proc(|path| match value {
            Some(value) => rustix::fs::setxattr(path, name, value, XattrFlags::empty()),
            None => rustix::fs::removexattr(path, name),
        })?;
        follow(inode)
    }

    fn listxattr(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        let read = |path: &str| read_into(|buffer| rustix::fs::listxattr(path, buffer));
        let list = of(inode).through_proc(read)?;
        Ok(list.split(|&b| b == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
    }

    fn generation(&self, inode: &Inode) -> u32 {
        of(inode).identity().generation()
    }
}
