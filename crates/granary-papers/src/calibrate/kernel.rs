//! [`KernelClient`]: the calls of a workload as system calls, below a directory of this machine.

use crate::calibrate::land::land;
use granary_ext4::JournalShare;
use granary_fs::{Allocate, Attr, Cred, FileKind, FsError, Ino, RenameFlags, Result, SetXattr, StatFs, Time};
use granary_lab::LabError;
use granary_units::{Dest, Payload};
use granary_vfs::{Access, Dirent, Fd, OpenFlags, Posix, SetTime, Stat, Whence};
use rustix::fs::{self as sys, AtFlags, FallocateFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::{Errno, pread, pwrite, read, write};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How mke2fs makes the file system of a calibration: the features of the kernel that the model was made
/// after (6.1), and nothing left to be zeroed in the background.
pub const MKFS: &[&str] = &[
    "-q",
    "-F",
    "-b",
    "4096",
    "-O",
    "^orphan_file,^metadata_csum_seed,metadata_csum,64bit",
    "-E",
    "lazy_itable_init=0,lazy_journal_init=0",
];
/// How it is mounted: no transaction commits by its age.
pub const MOUNT: &str = "commit=900";

/// Bytes of the largest value of an extended attribute, and of the longest list of names (XATTR_SIZE_MAX,
/// XATTR_LIST_MAX).
const LARGEST_ATTRIBUTE: usize = 1 << 16;

/// The part of the journal that the largest transaction of a Linux of this release ("6.18.5-x") takes: a
/// quarter, since 6.11 a third (commit a794c9ad026f, "jbd2: increase maximum transaction size";
/// `/proc/fs/jbd2/DEV/info` shows the blocks).
pub fn journal_share(release: &str) -> JournalShare {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 11) { JournalShare::Quarter } else { JournalShare::Third }
}

/// Transactions that the journal of a mounted device (`/dev/loop0`) has committed: the first number of
/// `/proc/fs/jbd2/loop0-8/info`. (8: the journal's inode.)
///
/// # Errors
/// It cannot be read.
pub fn commits(device: &str) -> std::result::Result<u64, LabError> {
    let name = device.trim_start_matches("/dev/").replace('/', "!");
    let file = format!("/proc/fs/jbd2/{name}-8/info");
    let text = std::fs::read_to_string(&file)
        .map_err(|source| LabError::Io { what: format!("reading {file}"), source })?;
    first_number(&text).ok_or_else(|| LabError::Usage(format!("{file} does not begin with a number")))
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// A process of root whose root directory is `root`.
pub struct KernelClient {
    root: PathBuf,
    files: BTreeMap<u32, OwnedFd>,
    buffer: Vec<u8>,
}

fn failed(e: Errno) -> FsError {
    use FsError as E;
    let known = [
        E::NoEntry,
        E::Exists,
        E::NotDir,
        E::IsDir,
        E::NotEmpty,
        E::NoSpace,
        E::NameTooLong,
        E::Access,
        E::NotPermitted,
        E::Invalid,
        E::TooBig,
        E::TooManyLinks,
        E::Loop,
        E::BadFd,
        E::TableFull,
        E::TooManyFiles,
        E::ReadOnly,
        E::Busy,
        E::NoAttribute,
        E::Range,
        E::TooLong,
        E::NotSupported,
        E::NoDevice,
        E::Stale,
    ];
    let code = e.raw_os_error();
    known
        .into_iter()
        .find(|k| k.errno() == code)
        .unwrap_or_else(|| E::Corrupt(format!("the kernel says {e}")))
}

fn time(seconds: i64, nanos: i64) -> Time {
    Time(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

fn stat(s: &sys::Stat) -> Stat {
    let kind = FileKind::from_code((s.st_mode >> 12) as u8 & 0xF).unwrap_or(FileKind::File);
    let attr = Attr {
        kind,
        mode: (s.st_mode & 0o7777) as u16,
        uid: s.st_uid,
        gid: s.st_gid,
        nlink: s.st_nlink as u32,
        size: s.st_size as u64,
        blocks: s.st_blocks as u64,
        atime: time(s.st_atime, s.st_atime_nsec as i64),
        mtime: time(s.st_mtime, s.st_mtime_nsec as i64),
        ctime: time(s.st_ctime, s.st_ctime_nsec as i64),
        rdev: s.st_rdev as u32,
        flags: 0,
    };
    Stat { ino: Ino(s.st_ino), attr }
}

impl KernelClient {
    /// A client below `root`.
    pub fn new(root: &Path) -> KernelClient {
        KernelClient { root: root.to_owned(), files: BTreeMap::new(), buffer: Vec::new() }
    }

    fn path(&self, path: impl AsRef<[u8]>) -> PathBuf {
        let path = path.as_ref();
        let below = path.iter().position(|&b| b != b'/').map_or(&[][..], |at| &path[at..]);
        self.root.join(OsStr::from_bytes(below))
    }

    fn file(&self, fd: Fd) -> Result<&OwnedFd> {
        self.files.get(&fd.0).ok_or(FsError::BadFd)
    }

    fn read_with(&mut self, fd: Fd, dest: Dest<'_>, at: Option<u64>) -> Result<usize> {
        let wanted = dest.len();
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let file = self.files.get(&fd.0).ok_or(FsError::BadFd)?;
        let into = &mut self.buffer[..wanted];
        let n = match at {
            Some(pos) => pread(file, into, pos),
            None => read(file, into),
        };
        let n = n.map_err(failed)?;
        if let Dest::Bytes(out) = dest {
            out[..n].copy_from_slice(&self.buffer[..n]);
        }
        Ok(n)
    }

    fn write_with(&mut self, fd: Fd, data: Payload<'_>, at: Option<u64>) -> Result<usize> {
        let file = self.files.get(&fd.0).ok_or(FsError::BadFd)?;
        // A fill is in phase with the file.
        let appends = sys::fcntl_getfl(file).map_err(failed)?.contains(OFlags::APPEND);
        let pos = match at {
            _ if appends => sys::fstat(file).map_err(failed)?.st_size as u64,
            Some(pos) => pos,
            None => sys::tell(file).map_err(failed)?,
        };
        if self.buffer.len() < data.len() {
            self.buffer.resize(data.len(), 0);
        }
        let bytes = &mut self.buffer[..data.len()];
        data.copy_to(pos, bytes);
        let n = match at {
            Some(pos) => pwrite(file, bytes, pos),
            None => write(file, bytes),
        };
        n.map_err(failed)
    }
}

impl Posix for KernelClient {
    fn open(&mut self, path: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        let flags = OFlags::from_bits_retain(flags.bits()) | OFlags::CLOEXEC;
        let fd = sys::open(self.path(path), flags, Mode::from_raw_mode(mode.into())).map_err(failed)?;
        let number = fd.as_raw_fd() as u32;
        self.files.insert(number, fd);
        Ok(Fd(number))
    }

    fn close(&mut self, fd: Fd) -> Result<()> {
        self.files.remove(&fd.0).map(drop).ok_or(FsError::BadFd)
    }

    fn read(&mut self, fd: Fd, dest: Dest<'_>) -> Result<usize> {
        self.read_with(fd, dest, None)
    }

    fn pread(&mut self, fd: Fd, dest: Dest<'_>, pos: u64) -> Result<usize> {
        self.read_with(fd, dest, Some(pos))
    }

    fn write(&mut self, fd: Fd, data: Payload<'_>) -> Result<usize> {
        self.write_with(fd, data, None)
    }

    fn pwrite(&mut self, fd: Fd, data: Payload<'_>, pos: u64) -> Result<usize> {
        self.write_with(fd, data, Some(pos))
    }

    fn lseek(&mut self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        use sys::SeekFrom as F;
        let to = match whence {
            Whence::Set => F::Start(u64::try_from(offset).map_err(|_| FsError::Invalid)?),
            Whence::Cur => F::Current(offset),
            Whence::End => F::End(offset),
            Whence::Data => F::Data(u64::try_from(offset).map_err(|_| FsError::Invalid)?),
            Whence::Hole => F::Hole(u64::try_from(offset).map_err(|_| FsError::Invalid)?),
        };
        sys::seek(self.file(fd)?, to).map_err(failed)
    }

    fn ftruncate(&mut self, fd: Fd, size: u64) -> Result<()> {
        sys::ftruncate(self.file(fd)?, size).map_err(failed)
    }

    fn fallocate(&mut self, fd: Fd, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let keep = |keep| if keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        let flags = match how {
            Allocate::Reserve { keep_size } => keep(keep_size),
            Allocate::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Allocate::ZeroRange { keep_size } => FallocateFlags::ZERO_RANGE | keep(keep_size),
        };
        sys::fallocate(self.file(fd)?, flags, pos, len).map_err(failed)
    }

    fn let_go(&mut self, fd: Fd) -> Result<()> {
        sys::fadvise(self.file(fd)?, 0, None, sys::Advice::DontNeed).map_err(failed)
    }

    fn fsync(&mut self, fd: Fd) -> Result<()> {
        sys::fsync(self.file(fd)?).map_err(failed)
    }

    fn fdatasync(&mut self, fd: Fd) -> Result<()> {
        sys::fdatasync(self.file(fd)?).map_err(failed)
    }

    fn sync(&mut self) -> Result<()> {
        // This file system only: others of the machine are nobody's business here.
        // Not the time of access either, which the walk would change.
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME;
        let root = sys::open(&self.root, how, Mode::empty()).map_err(failed)?;
        land(root.as_fd()).and_then(|()| sys::syncfs(root)).map_err(failed)
    }

    fn stat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat> {
        sys::stat(self.path(path)).map(|s| stat(&s)).map_err(failed)
    }

    fn lstat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat> {
        sys::lstat(self.path(path)).map(|s| stat(&s)).map_err(failed)
    }

    fn fstat(&mut self, fd: Fd) -> Result<Stat> {
        sys::fstat(self.file(fd)?).map(|s| stat(&s)).map_err(failed)
    }

    fn access(&mut self, path: impl AsRef<[u8]>, wanted: Access) -> Result<()> {
        let all = [
            (Access::EXEC, sys::Access::EXEC_OK),
            (Access::WRITE, sys::Access::WRITE_OK),
            (Access::READ, sys::Access::READ_OK),
        ];
        let asked = all.into_iter().filter(|(a, _)| wanted.contains(*a));
        let asked = asked.fold(sys::Access::EXISTS, |sum, (_, a)| sum | a);
        sys::access(self.path(path), asked).map_err(failed)
    }

    fn chmod(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        sys::chmod(self.path(path), Mode::from_raw_mode(mode.into())).map_err(failed)
    }

    fn fchmod(&mut self, fd: Fd, mode: u16) -> Result<()> {
        sys::fchmod(self.file(fd)?, Mode::from_raw_mode(mode.into())).map_err(failed)
    }

    fn chown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        std::os::unix::fs::chown(self.path(path), uid, gid).map_err(|e| failed(from_io(&e)))
    }

    fn lchown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        std::os::unix::fs::lchown(self.path(path), uid, gid).map_err(|e| failed(from_io(&e)))
    }

    fn utimens(&mut self, path: impl AsRef<[u8]>, atime: SetTime, mtime: SetTime) -> Result<()> {
        let of = |t: SetTime| match t {
            SetTime::Omit => Timespec { tv_sec: 0, tv_nsec: sys::UTIME_OMIT },
            SetTime::Now => Timespec { tv_sec: 0, tv_nsec: sys::UTIME_NOW },
            SetTime::At(t) => {
                Timespec { tv_sec: t.0.div_euclid(1_000_000_000), tv_nsec: t.0.rem_euclid(1_000_000_000) }
            }
        };
        let times = Timestamps { last_access: of(atime), last_modification: of(mtime) };
        sys::utimensat(sys::CWD, self.path(path), &times, AtFlags::empty()).map_err(failed)
    }

    fn truncate(&mut self, path: impl AsRef<[u8]>, size: u64) -> Result<()> {
        let file =
            sys::open(self.path(path), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        sys::ftruncate(file, size).map_err(failed)
    }

    fn getxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<Vec<u8>> {
        let mut value = vec![0; LARGEST_ATTRIBUTE];
        let got = sys::getxattr(self.path(path), name, &mut value[..]).map_err(failed)?;
        value.truncate(got);
        Ok(value)
    }

    fn setxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let how = match how {
            SetXattr::Any => sys::XattrFlags::empty(),
            SetXattr::Create => sys::XattrFlags::CREATE,
            SetXattr::Replace => sys::XattrFlags::REPLACE,
        };
        sys::setxattr(self.path(path), name, value, how).map_err(failed)
    }

    fn removexattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<()> {
        sys::removexattr(self.path(path), name).map_err(failed)
    }

    fn listxattr(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        let mut names = vec![0; LARGEST_ATTRIBUTE];
        let got = sys::listxattr(self.path(path), &mut names[..]).map_err(failed)?;
        let all = names[..got].split(|&b| b == 0).filter(|name| !name.is_empty());
        Ok(all.map(<[u8]>::to_vec).collect())
    }

    fn open_unnamed(&mut self, dir: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        let flags = OFlags::from_bits_retain(flags.bits()) | OFlags::TMPFILE | OFlags::CLOEXEC;
        let fd = sys::open(self.path(dir), flags, Mode::from_raw_mode(mode.into())).map_err(failed)?;
        let number = fd.as_raw_fd() as u32;
        self.files.insert(number, fd);
        Ok(Fd(number))
    }

    fn link_open(&mut self, fd: Fd, new: impl AsRef<[u8]>) -> Result<()> {
        let open = format!("/proc/self/fd/{}", self.file(fd)?.as_raw_fd());
        let new = self.path(new);
        sys::linkat(sys::CWD, open, sys::CWD, new, AtFlags::SYMLINK_FOLLOW).map_err(failed)
    }

    fn mkdir(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        sys::mkdir(self.path(path), Mode::from_raw_mode(mode.into())).map_err(failed)
    }

    fn mknod(&mut self, path: impl AsRef<[u8]>, kind: FileKind, mode: u16, rdev: u32) -> Result<()> {
        let kind = sys::FileType::from_raw_mode(u32::from(kind.code()) << 12);
        let mode = Mode::from_raw_mode(mode.into());
        sys::mknodat(sys::CWD, self.path(path), kind, mode, rdev.into()).map_err(failed)
    }

    fn rmdir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        sys::rmdir(self.path(path)).map_err(failed)
    }

    fn unlink(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        sys::unlink(self.path(path)).map_err(failed)
    }

    fn rename_with(
        &mut self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        flags: RenameFlags,
    ) -> Result<()> {
        let mut how = sys::RenameFlags::empty();
        how.set(sys::RenameFlags::NOREPLACE, flags.no_replace);
        how.set(sys::RenameFlags::EXCHANGE, flags.exchange);
        sys::renameat_with(sys::CWD, self.path(from), sys::CWD, self.path(to), how).map_err(failed)
    }

    fn link(&mut self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        sys::link(self.path(old), self.path(new)).map_err(failed)
    }

    fn symlink(&mut self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        sys::symlink(OsStr::from_bytes(target.as_ref()), self.path(path)).map_err(failed)
    }

    fn readlink(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        sys::readlink(self.path(path), Vec::new()).map(|c| c.into_bytes()).map_err(failed)
    }

    fn readdir(&mut self, fd: Fd, max: usize) -> Result<Vec<Dirent>> {
        // Entries come in the buffer's portions: at most as many as the smallest take.
        let mut space = Vec::with_capacity((max * 24).clamp(512, 1 << 16));
        let mut entries = sys::RawDir::new(self.file(fd)?, space.spare_capacity_mut());
        let mut out = Vec::new();
        while let Some(entry) = entries.next() {
            let e = entry.map_err(failed)?;
            let kind = FileKind::from_code((e.file_type().as_raw_mode() >> 12) as u8 & 0xF);
            let kind = kind.unwrap_or(FileKind::File);
            out.push(Dirent { name: e.file_name().to_bytes().to_vec(), ino: Ino(e.ino()), kind });
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok(out)
    }

    fn chdir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = self.path(path);
        if !path.is_dir() {
            return Err(FsError::NotDir);
        }
        self.root = path;
        Ok(())
    }

    fn statfs(&mut self) -> Result<StatFs> {
        let s = sys::statfs(&self.root).map_err(failed)?;
        let per = s.f_bsize as u64;
        Ok(StatFs {
            blocks: s.f_blocks * per / 4096,
            free_blocks: s.f_bfree * per / 4096,
            reserved_blocks: s.f_bfree.saturating_sub(s.f_bavail) * per / 4096,
            inodes: s.f_files,
            free_inodes: s.f_ffree,
        })
    }

    fn umask(&mut self, mask: u16) -> u16 {
        rustix::process::umask(Mode::from_raw_mode(mask.into())).as_raw_mode() as u16
    }

    /// The process stays who it is: a calibration is root's.
    fn set_cred(&mut self, _cred: Cred) {}
}

fn from_io(e: &std::io::Error) -> Errno {
    Errno::from_raw_os_error(e.raw_os_error().unwrap_or(5))
}

#[cfg(test)]
mod tests;
