//! A small file system in memory with whole files as bytes: what the runner's effects are checked on.
//!
//! It has exactly the calls that the runner makes, takes a fixed virtual time per call, writes a log of
//! calls, and can fail the n-th call of a name.

use granary_fs::{Attr, Cred, FileKind, FsError, Ino, RenameFlags, Result, StatFs, Time};
use granary_sim::sleep;
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{Access, Dirent, Fd, OpenFlags, Posix, SetTime, Stat, Whence};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct State {
    /// Path to inode.
    pub(crate) files: BTreeMap<Vec<u8>, usize>,
    pub(crate) dirs: BTreeSet<Vec<u8>>,
    /// Contents by inode.
    pub(crate) data: Vec<Vec<u8>>,
    pub(crate) log: Vec<String>,
    pub(crate) calls: BTreeMap<&'static str, u64>,
    /// Most descriptors that a client had.
    pub(crate) most_open: usize,
    /// Fails this call from the n-th on.
    pub(crate) fail: Option<(&'static str, u64, FsError)>,
}

#[derive(Clone, Default)]
pub(crate) struct MemFs {
    state: Arc<Mutex<State>>,
    /// Duration of each call.
    pub(crate) latency: Nanos,
}

impl MemFs {
    pub(crate) fn new(latency: Nanos) -> MemFs {
        let fs = MemFs { latency, ..MemFs::default() };
        fs.state().dirs.insert(b"/".to_vec());
        fs
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn client(&self, name: &str) -> Client {
        Client { fs: self.clone(), name: name.to_owned(), fds: Vec::new() }
    }

    pub(crate) fn count(&self, call: &str) -> u64 {
        self.state().calls.get(call).copied().unwrap_or(0)
    }
}

struct Open {
    inode: Option<usize>,
    dir: Vec<u8>,
    pos: u64,
    flags: OpenFlags,
}

pub(crate) struct Client {
    fs: MemFs,
    name: String,
    fds: Vec<Option<Open>>,
}

impl Client {
    /// The cost, the log and the faults of a call.
    fn enter(&self, call: &'static str, what: &[u8]) -> Result<MutexGuard<'_, State>> {
        if self.fs.latency != Nanos::ZERO {
            sleep(self.fs.latency);
        }
        let mut state = self.fs.state();
        let n = state.calls.entry(call).or_insert(0);
        *n += 1;
        let n = *n;
        let line = format!("{} {call} {}", self.name, String::from_utf8_lossy(what));
        state.log.push(line);
        match &state.fail {
            Some((failing, from, error)) if *failing == call && n >= *from => Err(error.clone()),
            _ => Ok(state),
        }
    }

    fn open_file(&mut self, fd: Fd) -> Result<&mut Open> {
        self.fds.get_mut(fd.0 as usize).and_then(Option::as_mut).ok_or(FsError::BadFd)
    }
}

fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&b| b == b'/').expect("paths are absolute");
    if end == 0 { b"/" } else { &path[..end] }
}

fn stat_of(kind: FileKind, size: u64, ino: u64) -> Stat {
    let zero = Time(0);
    let attr = Attr {
        kind,
        mode: 0o644,
        uid: 0,
        gid: 0,
        nlink: 1,
        size,
        blocks: 0,
        atime: zero,
        mtime: zero,
        ctime: zero,
        rdev: 0,
        flags: 0,
    };
    Stat { ino: Ino(ino), attr }
}

impl Posix for Client {
    fn open(&mut self, path: impl AsRef<[u8]>, flags: OpenFlags, _mode: u16) -> Result<Fd> {
        let path = path.as_ref();
        let line = [path, format!(" {:o}", flags.bits()).as_bytes()].concat();
        let inode = {
            let mut state = self.enter("open", &line)?;
            if flags.contains(OpenFlags::DIRECTORY) {
                if !state.dirs.contains(path) {
                    return Err(FsError::NoEntry);
                }
                None
            } else if let Some(&inode) = state.files.get(path) {
                Some(inode)
            } else if flags.contains(OpenFlags::CREAT) {
                if !state.dirs.contains(parent(path)) {
                    return Err(FsError::NoEntry);
                }
                let inode = state.data.len();
                state.data.push(Vec::new());
                state.files.insert(path.to_vec(), inode);
                Some(inode)
            } else {
                return Err(FsError::NoEntry);
            }
        };
        let open = Open { inode, dir: path.to_vec(), pos: 0, flags };
        let fd = self.fds.iter().position(Option::is_none).unwrap_or(self.fds.len());
        self.fds.resize_with(self.fds.len().max(fd + 1), || None);
        self.fds[fd] = Some(open);
        let open = self.fds.iter().flatten().count();
        let mut state = self.fs.state();
        state.most_open = state.most_open.max(open);
        drop(state);
        Ok(Fd(fd as u32))
    }

    fn close(&mut self, fd: Fd) -> Result<()> {
        self.open_file(fd)?;
        self.fds[fd.0 as usize] = None;
        self.enter("close", b"").map(|_| ())
    }

    fn read(&mut self, fd: Fd, dest: Dest<'_>) -> Result<usize> {
        let pos = self.open_file(fd)?.pos;
        let n = self.pread(fd, dest, pos)?;
        self.open_file(fd)?.pos += n as u64;
        Ok(n)
    }

    fn pread(&mut self, fd: Fd, dest: Dest<'_>, pos: u64) -> Result<usize> {
        let open = self.open_file(fd)?;
        assert!(open.flags.reads(), "read on a write-only descriptor");
        let inode = open.inode.ok_or(FsError::IsDir)?;
        let state = self.enter("read", format!("{inode} {} at {pos}", dest.len()).as_bytes())?;
        let held = &state.data[inode];
        let n = held.len().saturating_sub(pos as usize).min(dest.len());
        if let Dest::Bytes(out) = dest {
            out[..n].copy_from_slice(&held[pos as usize..][..n]);
        }
        Ok(n)
    }

    fn write(&mut self, fd: Fd, data: Payload<'_>) -> Result<usize> {
        let pos = self.open_file(fd)?.pos;
        let n = self.pwrite(fd, data, pos)?;
        self.open_file(fd)?.pos += n as u64;
        Ok(n)
    }

    fn pwrite(&mut self, fd: Fd, data: Payload<'_>, pos: u64) -> Result<usize> {
        let open = self.open_file(fd)?;
        assert!(open.flags.writes(), "write on a read-only descriptor");
        let inode = open.inode.ok_or(FsError::IsDir)?;
        let mut state = self.enter("write", format!("{inode} {} at {pos}", data.len()).as_bytes())?;
        let (from, to) = (pos as usize, pos as usize + data.len());
        let file = &mut state.data[inode];
        file.resize(file.len().max(to), 0);
        data.copy_to(pos, &mut file[from..to]);
        Ok(data.len())
    }

    fn let_go(&mut self, fd: Fd) -> Result<()> {
        let inode = self.open_file(fd)?.inode.ok_or(FsError::IsDir)?;
        self.enter("let_go", format!("{inode} 0 0").as_bytes()).map(|_| ())
    }

    fn lseek(&mut self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        let inode = self.open_file(fd)?.inode.ok_or(FsError::IsDir)?;
        let size = self.enter("lseek", b"")?.data[inode].len() as i64;
        let base = match whence {
            Whence::Set => 0,
            Whence::End => size,
            _ => return Err(FsError::Invalid),
        };
        let pos = (base + offset) as u64;
        self.open_file(fd)?.pos = pos;
        Ok(pos)
    }

    fn ftruncate(&mut self, fd: Fd, size: u64) -> Result<()> {
        let inode = self.open_file(fd)?.inode.ok_or(FsError::IsDir)?;
        self.enter("ftruncate", b"")?.data[inode].resize(size as usize, 0);
        Ok(())
    }

    fn fsync(&mut self, fd: Fd) -> Result<()> {
        self.open_file(fd)?;
        self.enter("fsync", b"").map(|_| ())
    }

    fn fdatasync(&mut self, fd: Fd) -> Result<()> {
        self.fsync(fd)
    }

    fn sync(&mut self) -> Result<()> {
        self.enter("sync", b"").map(|_| ())
    }

    fn stat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat> {
        let path = path.as_ref();
        let state = self.enter("stat", path)?;
        if let Some(&inode) = state.files.get(path) {
            Ok(stat_of(FileKind::File, state.data[inode].len() as u64, inode as u64))
        } else if state.dirs.contains(path) {
            Ok(stat_of(FileKind::Dir, 0, 0))
        } else {
            Err(FsError::NoEntry)
        }
    }

    fn lstat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat> {
        self.stat(path)
    }

    fn fstat(&mut self, fd: Fd) -> Result<Stat> {
        let inode = self.open_file(fd)?.inode.ok_or(FsError::IsDir)?;
        let size = self.enter("fstat", b"")?.data[inode].len() as u64;
        Ok(stat_of(FileKind::File, size, inode as u64))
    }

    fn mkdir(&mut self, path: impl AsRef<[u8]>, _mode: u16) -> Result<()> {
        let path = path.as_ref();
        let mut state = self.enter("mkdir", path)?;
        if state.dirs.contains(path) || state.files.contains_key(path) {
            return Err(FsError::Exists);
        }
        if !state.dirs.contains(parent(path)) {
            return Err(FsError::NoEntry);
        }
        state.dirs.insert(path.to_vec());
        Ok(())
    }

    fn rmdir(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let mut state = self.enter("rmdir", path)?;
        let below = [path, b"/"].concat();
        let in_it = |p: &Vec<u8>| p.starts_with(&below);
        if state.files.keys().any(in_it) || state.dirs.iter().any(in_it) {
            return Err(FsError::NotEmpty);
        }
        if state.dirs.remove(path) { Ok(()) } else { Err(FsError::NoEntry) }
    }

    fn unlink(&mut self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let mut state = self.enter("unlink", path)?;
        state.files.remove(path).map(|_| ()).ok_or(FsError::NoEntry)
    }

    fn readdir(&mut self, fd: Fd, max: usize) -> Result<Vec<Dirent>> {
        let open = self.open_file(fd)?;
        let (dir, skip) = (open.dir.clone(), open.pos as usize);
        let entries: Vec<Dirent> = {
            let state = self.enter("readdir", &dir)?;
            let entry = |name: &[u8], kind| Dirent { name: name.to_vec(), ino: Ino(1), kind };
            let child = |path: &Vec<u8>| path.len() > 1 && parent(path) == dir;
            let last = |path: &Vec<u8>| path.rsplit(|&b| b == b'/').next().unwrap_or_default().to_vec();
            let dots = [&b"."[..], b".."].map(|name| entry(name, FileKind::Dir));
            let dirs = state.dirs.iter().filter(|p| child(p)).map(|p| entry(&last(p), FileKind::Dir));
            let files = state.files.keys().filter(|p| child(p)).map(|p| entry(&last(p), FileKind::File));
            dots.into_iter().chain(dirs).chain(files).skip(skip).take(max).collect()
        };
        self.open_file(fd)?.pos += entries.len() as u64;
        Ok(entries)
    }

    fn access(&mut self, _: impl AsRef<[u8]>, _: Access) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn chmod(&mut self, _: impl AsRef<[u8]>, _: u16) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn fchmod(&mut self, _: Fd, _: u16) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn chown(&mut self, _: impl AsRef<[u8]>, _: Option<u32>, _: Option<u32>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn lchown(&mut self, _: impl AsRef<[u8]>, _: Option<u32>, _: Option<u32>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn utimens(&mut self, _: impl AsRef<[u8]>, _: SetTime, _: SetTime) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn truncate(&mut self, _: impl AsRef<[u8]>, _: u64) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn mknod(&mut self, _: impl AsRef<[u8]>, _: FileKind, _: u16, _: u32) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn rename_with(&mut self, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>, _: RenameFlags) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn link(&mut self, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn symlink(&mut self, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn readlink(&mut self, _: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        Err(FsError::NotSupported)
    }
    fn chdir(&mut self, _: impl AsRef<[u8]>) -> Result<()> {
        Err(FsError::NotSupported)
    }
    fn statfs(&mut self) -> Result<StatFs> {
        Err(FsError::NotSupported)
    }
    fn umask(&mut self, _: u16) -> u16 {
        0
    }
    fn set_cred(&mut self, _: Cred) {}
}
