//! [`Client`]: system calls below a mount of the kernel's file system, each noted in a [`Log`] before it is
//! made.

use super::log::Log;
use granary_fs::{Allocate, Cred, RenameFlags, Result, SetXattr};
use granary_papers::calibrate::KernelClient;
use granary_units::{Dest, Payload};
use granary_vfs::{Dirent, Fd, OpenFlags, Posix, SetTime, Whence};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The directory that mkfs.ext4 makes: nobody's.
const MADE_BY_MKFS: &[u8] = b"lost+found";

/// A client.
pub struct Client {
    inner: KernelClient,
    number: u32,
    log: Option<Arc<Log>>,
    /// Where what is open was when it was opened.
    paths: BTreeMap<Fd, String>,
    writes: u64,
}

/// Behind every so many writes the kernel is asked to write the file back, as it does by itself after half a
/// minute.
const WRITE_BACK: u64 = 3;

impl Client {
    /// Below `root`; without a log, it notes nothing.
    pub fn new(root: &Path, number: u32, log: Option<Arc<Log>>) -> Client {
        Client { inner: KernelClient::new(root), number, log, paths: BTreeMap::new(), writes: 0 }
    }

    fn note(&self, call: impl FnOnce() -> String) {
        if let Some(log) = &self.log {
            log.note(format!("{}: {}", self.number, call()));
        }
    }

    /// Write-back begins now and then; nobody waits for it, and nothing is promised.
    fn write_back(&mut self, fd: Fd) {
        self.writes += 1;
        if self.writes.is_multiple_of(WRITE_BACK) {
            let _ = self.inner.let_go(fd);
        }
    }

    fn at(&self, fd: Fd) -> &str {
        self.paths.get(&fd).map_or("?", String::as_str)
    }
}

fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn flags_of(flags: OpenFlags) -> String {
    let names = [
        (OpenFlags::CREAT, "O_CREAT"),
        (OpenFlags::EXCL, "O_EXCL"),
        (OpenFlags::TRUNC, "O_TRUNC"),
        (OpenFlags::APPEND, "O_APPEND"),
        (OpenFlags::SYNC, "O_SYNC"),
        (OpenFlags::DSYNC, "O_DSYNC"),
        (OpenFlags::DIRECT, "O_DIRECT"),
    ];
    names.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| format!(" {name}")).collect()
}

impl Posix for Client {
    granary_vfs::forward_posix!(inner: stat, lstat, fstat, access, getxattr, listxattr, readlink, statfs, umask);

    fn open(&mut self, path: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        self.note(|| format!("open {}{}", show(path.as_ref()), flags_of(flags)));
        let fd = self.inner.open(path.as_ref(), flags, mode)?;
        self.paths.insert(fd, show(path.as_ref()) + &flags_of(flags & (OpenFlags::SYNC | OpenFlags::DSYNC)));
        Ok(fd)
    }

    fn close(&mut self, fd: Fd) -> Result<()> {
        self.note(|| format!("close {}", self.at(fd)));
        self.paths.remove(&fd);
        self.inner.close(fd)
    }

    fn read(&mut self, fd: Fd, dest: Dest<'_>) -> Result<usize> {
        self.inner.read(fd, dest)
    }

    fn pread(&mut self, fd: Fd, dest: Dest<'_>, pos: u64) -> Result<usize> {
        self.inner.pread(fd, dest, pos)
    }

    fn write(&mut self, fd: Fd, data: Payload<'_>) -> Result<usize> {
        let log = self.log.clone();
        let _alone = log.as_ref().map(|log| log.appends.lock());
        self.note(|| format!("write {}, {} bytes", self.at(fd), data.len()));
        let written = self.inner.write(fd, data);
        self.write_back(fd);
        written
    }

    fn pwrite(&mut self, fd: Fd, data: Payload<'_>, pos: u64) -> Result<usize> {
        self.note(|| format!("pwrite {}, {} bytes at {pos:#x}", self.at(fd), data.len()));
        let written = self.inner.pwrite(fd, data, pos);
        self.write_back(fd);
        written
    }

    fn lseek(&mut self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        self.inner.lseek(fd, offset, whence)
    }

    fn ftruncate(&mut self, fd: Fd, size: u64) -> Result<()> {
        self.note(|| format!("ftruncate {} to {size:#x}", self.at(fd)));
        self.inner.ftruncate(fd, size)
    }

    fn fallocate(&mut self, fd: Fd, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.note(|| format!("fallocate {} {how:?}, {len} bytes at {pos:#x}", self.at(fd)));
        self.inner.fallocate(fd, how, pos, len)
    }

    fn let_go(&mut self, fd: Fd) -> Result<()> {
        self.inner.let_go(fd)
    }

    fn fsync(&mut self, fd: Fd) -> Result<()> {
        self.note(|| format!("fsync {}", self.at(fd)));
        self.inner.fsync(fd)
    }

    fn fdatasync(&mut self, fd: Fd) -> Result<()> {
        self.note(|| format!("fdatasync {}", self.at(fd)));
        self.inner.fdatasync(fd)
    }

    fn sync(&mut self) -> Result<()> {
        self.note(|| "sync".to_owned());
        self.inner.sync()
    }

    fn chmod(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        self.note(|| format!("chmod {} {mode:o}", show(path.as_ref())));
        self.inner.chmod(path, mode)
    }

    fn fchmod(&mut self, fd: Fd, mode: u16) -> Result<()> {
        self.note(|| format!("fchmod {} {mode:o}", self.at(fd)));
        self.inner.fchmod(fd, mode)
    }

    fn chown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.note(|| format!("chown {} {uid:?} {gid:?}", show(path.as_ref())));
        self.inner.chown(path, uid, gid)
    }

    fn lchown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.note(|| format!("lchown {} {uid:?} {gid:?}", show(path.as_ref())));
        self.inner.lchown(path, uid, gid)
    }

    fn utimens(&mut self, path: impl AsRef<[u8]>, atime: SetTime, mtime: SetTime) -> Result<()> {
        self.note(|| format!("utimens {}", show(path.as_ref())));
        self.inner.utimens(path, atime, mtime)
    }

    fn truncate(&mut self, path: impl AsRef<[u8]>, size: u64) -> Result<()> {
        self.note(|| format!("truncate {} to {size:#x}", show(path.as_ref())));
        self.inner.truncate(path, size)
    }

    fn setxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.note(|| format!("setxattr {} {}, {} bytes", show(path.as_ref()), show(name), value.len()));
        self.inner.setxattr(path, name, value, how)
    }

    fn removexattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<()> {
        self.note(|| format!("removexattr {} {}", show(path.as_ref()), show(name)));
        self.inner.removexattr(path, name)
    }

    fn mkdir(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        self.note(|| format!("mkdir {}", show(path.as_ref())));
        self.inner.mkdir(path, mode)
    }

    fn mknod(
        &mut self,
        path: impl AsRef<[u8]>,
        kind: granary_fs::FileKind,
        mode: u16,
        rdev: u32,
    ) -> Result<()> {
        self.note(|| format!("mknod {} {kind:?}", show(path.as_ref())));
        self.inner.mknod(path, kind, mode, rdev)
    }

    fn rmdir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        self.note(|| format!("rmdir {}", show(path.as_ref())));
        self.inner.rmdir(path)
    }

    fn unlink(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        self.note(|| format!("unlink {}", show(path.as_ref())));
        self.inner.unlink(path)
    }

    fn rename_with(
        &mut self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        flags: RenameFlags,
    ) -> Result<()> {
        self.note(|| {
            let how = if flags.exchange { " exchange" } else { "" };
            format!("rename {} {}{how}", show(from.as_ref()), show(to.as_ref()))
        });
        self.inner.rename_with(from, to, flags)
    }

    fn link(&mut self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        self.note(|| format!("link {} {}", show(old.as_ref()), show(new.as_ref())));
        self.inner.link(old, new)
    }

    fn open_unnamed(&mut self, dir: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        self.note(|| format!("open {} O_TMPFILE", show(dir.as_ref())));
        let fd = self.inner.open_unnamed(dir.as_ref(), flags, mode)?;
        self.paths.insert(fd, format!("{} O_TMPFILE", show(dir.as_ref())));
        Ok(fd)
    }

    fn link_open(&mut self, fd: Fd, new: impl AsRef<[u8]>) -> Result<()> {
        self.note(|| format!("linkat {} {}", self.at(fd), show(new.as_ref())));
        self.inner.link_open(fd, new)
    }

    fn symlink(&mut self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        self.note(|| format!("symlink {} {}", show(target.as_ref()), show(path.as_ref())));
        self.inner.symlink(target, path)
    }

    fn readdir(&mut self, fd: Fd, max: usize) -> Result<Vec<Dirent>> {
        loop {
            let mut part = self.inner.readdir(fd, max)?;
            let is_end = part.is_empty();
            part.retain(|entry| entry.name != MADE_BY_MKFS);
            // An empty answer would mean the end.
            if is_end || !part.is_empty() {
                return Ok(part);
            }
        }
    }

    fn chdir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        self.inner.chdir(path)
    }

    fn set_cred(&mut self, cred: Cred) {
        self.inner.set_cred(cred);
    }
}
