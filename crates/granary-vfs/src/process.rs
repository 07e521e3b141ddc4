//! [`Process`]: one program's view: credentials, working directory, descriptors.

use crate::attr::FileKind;
use crate::error::{FsError, Result};
use crate::fs::{Cred, RenameFlags, StatFs};
use crate::posix::{Access, Dirent, Fd, OpenFlags, Posix, SetTime, Stat, Whence};
use crate::vfs::Vfs;
use granary_units::{Dest, Payload};
use std::sync::Arc;

/// A process; one per workload thread. Drop it before [`Vfs::unmount`].
pub struct Process {
    vfs: Arc<Vfs>,
    cred: Cred,
    umask: u16,
}

impl Process {
    /// A process of user `cred` in the root directory, with umask 022.
    pub fn new(vfs: Arc<Vfs>, cred: Cred) -> Process {
        Process { vfs, cred, umask: 0o022 }
    }

    /// The vfs that it runs on.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.vfs
    }
}

impl Posix for Process {
    fn open(&mut self, _path: impl AsRef<[u8]>, _flags: OpenFlags, _mode: u16) -> Result<Fd> {
        Err(FsError::NotSupported)
    }
    fn close(&mut self, _fd: Fd) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn read(&mut self, _fd: Fd, _dest: Dest<'_>) -> Result<usize> {
        Err(FsError::NotSupported)
    }
    fn pread(&mut self, _fd: Fd, _dest: Dest<'_>, _pos: u64) -> Result<usize> {
        Err(FsError::NotSupported)
    }
    fn write(&mut self, _fd: Fd, _data: Payload<'_>) -> Result<usize> {
        Err(FsError::NotSupported)
    }
    fn pwrite(&mut self, _fd: Fd, _data: Payload<'_>, _pos: u64) -> Result<usize> {
        Err(FsError::NotSupported)
    }
    fn lseek(&mut self, _fd: Fd, _offset: i64, _whence: Whence) -> Result<u64> {
        Err(FsError::NotSupported)
    }
    fn ftruncate(&mut self, _fd: Fd, _size: u64) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn fsync(&mut self, _fd: Fd) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn fdatasync(&mut self, _fd: Fd) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn sync(&mut self) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn stat(&mut self, _path: impl AsRef<[u8]>) -> Result<Stat> {
        Err(FsError::NotSupported)
    }
    fn lstat(&mut self, _path: impl AsRef<[u8]>) -> Result<Stat> {
        Err(FsError::NotSupported)
    }
    fn fstat(&mut self, _fd: Fd) -> Result<Stat> {
        Err(FsError::NotSupported)
    }
    fn access(&mut self, _path: impl AsRef<[u8]>, _wanted: Access) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn chmod(&mut self, _path: impl AsRef<[u8]>, _mode: u16) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn fchmod(&mut self, _fd: Fd, _mode: u16) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn chown(&mut self, _path: impl AsRef<[u8]>, _uid: Option<u32>, _gid: Option<u32>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn lchown(&mut self, _path: impl AsRef<[u8]>, _uid: Option<u32>, _gid: Option<u32>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn utimens(&mut self, _path: impl AsRef<[u8]>, _atime: SetTime, _mtime: SetTime) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn truncate(&mut self, _path: impl AsRef<[u8]>, _size: u64) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn mkdir(&mut self, _path: impl AsRef<[u8]>, _mode: u16) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn mknod(&mut self, _path: impl AsRef<[u8]>, _kind: FileKind, _mode: u16, _rdev: u32) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn rmdir(&mut self, _path: impl AsRef<[u8]>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn unlink(&mut self, _path: impl AsRef<[u8]>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn rename_with(
        &mut self,
        _from: impl AsRef<[u8]>,
        _to: impl AsRef<[u8]>,
        _flags: RenameFlags,
    ) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn link(&mut self, _old: impl AsRef<[u8]>, _new: impl AsRef<[u8]>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn symlink(&mut self, _target: impl AsRef<[u8]>, _path: impl AsRef<[u8]>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn readlink(&mut self, _path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        Err(FsError::NotSupported)
    }
    fn readdir(&mut self, _fd: Fd, _max: usize) -> Result<Vec<Dirent>> {
        Err(FsError::NotSupported)
    }
    fn chdir(&mut self, _path: impl AsRef<[u8]>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn statfs(&mut self) -> Result<StatFs> {
        Err(FsError::NotSupported)
    }
    fn umask(&mut self, mask: u16) -> u16 {
        std::mem::replace(&mut self.umask, mask & 0o777)
    }
    fn set_cred(&mut self, cred: Cred) {
        self.cred = cred;
    }
}
