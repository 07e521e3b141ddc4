//! [`Runner`]: makes the calls of a generated program, and before each what it needs.
//!
//! ```text
//!   prepared and synced:  /A  /B  /foo  /A/foo  /B/foo (three pages and a bit each, an attribute)
//! ```
//!
//! The needs of a call are looked up when its turn comes, because after a power failure nobody knows what is
//! left. They are not made durable: they are part of the program.

use super::Step;
use super::core::{By, Core, Flush, Move, Names, Size, Space, Where, parent};
use crate::load::torture::expected;
use crate::recorded::Recorded;
use granary_fs::{Allocate, FileKind, RenameFlags, SetXattr, Time};
use granary_units::{PAGE_SIZE, Payload};
use granary_vfs::{Fd, MapHow, OpenFlags, Posix, SetTime};

/// A file that a call needs: three pages and a part of a fourth.
const LEN: usize = 3 * PAGE_SIZE + 123;
const PAGE: u64 = PAGE_SIZE as u64;
const XATTR: &[u8] = b"user.a";

pub(super) struct Runner<'a, P> {
    pub(super) posix: &'a mut Recorded<P>,
}

fn fill(len: usize) -> Payload<'static> {
    Payload::Fill { word: 1, len }
}

impl<P: Posix> Runner<'_, P> {
    /// The state that programs begin from.
    pub(super) fn prepare(&mut self) -> Result<(), String> {
        for path in ["/foo", "/A/foo", "/B/foo"] {
            self.need_file(path)?;
            self.setxattr(path, 20)?;
        }
        expected("sync", self.posix.sync()).map(drop)
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<(), String> {
        self.call(step.core)?;
        match step.flush {
            None => Ok(()),
            Some(Flush::Sync) => expected("sync", self.posix.sync()).map(drop),
            Some(Flush::Fsync(path)) => self.flush(path, false),
            Some(Flush::Fdatasync(path)) => self.flush(path, true),
            Some(Flush::Dir(path) | Flush::OldDir(path)) => self.flush(parent(path), false),
        }
    }

    /// Makes durable what has the name, if it is still there.
    fn flush(&mut self, path: &str, data_only: bool) -> Result<(), String> {
        let fd = self.posix.open(path, OpenFlags::RDONLY | OpenFlags::NOFOLLOW, 0);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        let done = if data_only { self.posix.fdatasync(fd) } else { self.posix.fsync(fd) };
        expected("fsync", done)?;
        self.close(fd)
    }

    fn close(&mut self, fd: Fd) -> Result<(), String> {
        expected("close", self.posix.close(fd)).map(drop)
    }

    fn kind(&mut self, path: &str) -> Result<Option<FileKind>, String> {
        Ok(expected("lstat", self.posix.lstat(path))?.map(|stat| stat.attr.kind))
    }

    /// A directory with this name.
    fn need_dir(&mut self, path: &str) -> Result<(), String> {
        match self.kind(path)? {
            _ if path == "/" => Ok(()),
            Some(FileKind::Dir) => Ok(()),
            _ => expected("mkdir", self.posix.mkdir(path, 0o755)).map(drop),
        }
    }

    /// A regular file with this name.
    fn need_file(&mut self, path: &'static str) -> Result<(), String> {
        if self.kind(path)? == Some(FileKind::File) {
            return Ok(());
        }
        self.need_free(path)?;
        if let Some(fd) = self.open(path, OpenFlags::CREAT)? {
            expected("write", self.posix.pwrite(fd, fill(LEN), 0))?;
            self.close(fd)?;
        }
        Ok(())
    }

    /// Nothing with this name, in a directory that is there.
    fn need_free(&mut self, path: &'static str) -> Result<(), String> {
        self.need_dir(parent(path))?;
        match self.kind(path)? {
            None => Ok(()),
            Some(FileKind::Dir) => {
                self.need_empty(path)?;
                expected("rmdir", self.posix.rmdir(path)).map(drop)
            }
            Some(_) => expected("unlink", self.posix.unlink(path)).map(drop),
        }
    }

    fn need_empty(&mut self, dir: &'static str) -> Result<(), String> {
        self.need_dir(dir)?;
        for &file in Names::ALL.files.iter().filter(|&&file| parent(file) == dir) {
            if self.kind(file)?.is_some() {
                expected("unlink", self.posix.unlink(file))?;
            }
        }
        Ok(())
    }

    /// A file or a directory, whichever has this name.
    fn need(&mut self, path: &'static str) -> Result<(), String> {
        if Names::ALL.dirs.contains(&path) { self.need_dir(path) } else { self.need_file(path) }
    }

    fn open(&mut self, path: &str, more: OpenFlags) -> Result<Option<Fd>, String> {
        let flags = OpenFlags::RDWR | OpenFlags::NOFOLLOW | more;
        expected("open", self.posix.open(path, flags, 0o644))
    }

    fn call(&mut self, core: Core) -> Result<(), String> {
        match core {
            Core::Creat(path) => {
                self.need_free(path)?;
                let fd = self.open(path, OpenFlags::CREAT | OpenFlags::EXCL)?;
                fd.map_or(Ok(()), |fd| self.close(fd))
            }
            Core::Mkdir(path) => {
                self.need_free(path)?;
                expected("mkdir", self.posix.mkdir(path, 0o755)).map(drop)
            }
            Core::Bytes(by, at, path) => self.bytes(by, at, path),
            Core::Truncate(size, path) => {
                let (fd, len) = self.with_file(path, OpenFlags::empty())?;
                let Some(fd) = fd else { return Ok(()) };
                let size = match size {
                    Size::Zero => 0,
                    Size::Down => len / 2,
                    Size::Up => len + 2 * PAGE + 77,
                };
                expected("truncate", self.posix.ftruncate(fd, size))?;
                self.close(fd)
            }
            Core::Fallocate(how, path) => self.fallocate(how, path),
            Core::Link(old, new) => {
                self.need_file(old)?;
                self.need_free(new)?;
                expected("link", self.posix.link(old, new)).map(drop)
            }
            Core::Symlink(target, path) => {
                self.need_free(path)?;
                expected("symlink", self.posix.symlink(target, path)).map(drop)
            }
            Core::Unlink(path) => {
                self.need_file(path)?;
                expected("unlink", self.posix.unlink(path)).map(drop)
            }
            Core::Rmdir(path) => {
                self.need_empty(path)?;
                expected("rmdir", self.posix.rmdir(path)).map(drop)
            }
            Core::Rename(how, from, to) | Core::RenameDir(how, from, to) => self.rename(how, from, to),
            Core::Setxattr(large, path) => {
                self.need(path)?;
                self.setxattr(path, if large { 2_500 } else { 40 })
            }
            Core::Removexattr(path) => {
                self.need(path)?;
                expected("removexattr", self.posix.removexattr(path, XATTR)).map(drop)
            }
            Core::Chmod(set_id, path) => {
                self.need(path)?;
                let mode = if set_id { 0o6755 } else { 0o700 };
                expected("chmod", self.posix.chmod(path, mode)).map(drop)
            }
            Core::Chown(path) => {
                self.need(path)?;
                expected("chown", self.posix.chown(path, Some(3), Some(4))).map(drop)
            }
            Core::Utimens(path) => {
                self.need(path)?;
                let time = SetTime::At(Time(1_234_567_890_123_456_789));
                expected("utimens", self.posix.utimens(path, time, time)).map(drop)
            }
            Core::Tmpfile(path) => {
                self.need_free(path)?;
                let fd = self.posix.open_unnamed(parent(path), OpenFlags::RDWR, 0o644);
                let Some(fd) = expected("open unnamed", fd)? else { return Ok(()) };
                expected("write", self.posix.pwrite(fd, fill(LEN), 0))?;
                expected("link", self.posix.link_open(fd, path))?;
                self.close(fd)
            }
        }
    }

    /// A regular file, open, and its size.
    fn with_file(&mut self, path: &'static str, more: OpenFlags) -> Result<(Option<Fd>, u64), String> {
        self.need_file(path)?;
        let Some(fd) = self.open(path, more)? else { return Ok((None, 0)) };
        let size = expected("fstat", self.posix.fstat(fd))?.map_or(0, |stat| stat.attr.size);
        Ok((Some(fd), size))
    }

    fn bytes(&mut self, by: By, at: Where, path: &'static str) -> Result<(), String> {
        let direct = if by == By::Direct { OpenFlags::DIRECT } else { OpenFlags::empty() };
        let append =
            if at == Where::Append && by == By::Write { OpenFlags::APPEND } else { OpenFlags::empty() };
        let (fd, size) = self.with_file(path, direct | append)?;
        let Some(fd) = fd else { return Ok(()) };
        // Direct writes are of whole pages.
        let end = if by == By::Direct { size.next_multiple_of(PAGE) } else { size };
        let (pos, len) = match at {
            Where::Append => (end, 5_000),
            Where::Start => (0, 5_000),
            Where::Middle => (PAGE - 100, 300),
            Where::Beyond => (end + 2 * PAGE, 3_000),
        };
        let len = if by == By::Direct { 2 * PAGE_SIZE } else { len };
        match by {
            By::Write if at == Where::Append => {
                expected("write", self.posix.write(fd, fill(len))).map(drop)?
            }
            By::Write | By::Direct => {
                expected("write", self.posix.pwrite(fd, fill(len), pos)).map(drop)?;
            }
            By::Mapping | By::Msync => {
                // Within the file: stores beyond its end are nobody's.
                let len = len.min(size.saturating_sub(pos) as usize);
                if len > 0 {
                    self.store(fd, pos, len, size, by == By::Msync)?;
                }
            }
        }
        self.close(fd)
    }

    fn store(&mut self, fd: Fd, pos: u64, len: usize, size: u64, sync: bool) -> Result<(), String> {
        let how = MapHow { shared: true, write: true };
        let Some(map) = expected("mmap", self.posix.mmap(fd, 0, size, how))? else { return Ok(()) };
        expected("store", self.posix.map_store(map, pos, fill(len)))?;
        if sync {
            expected("msync", self.posix.msync(map, 0, size, true))?;
        }
        expected("munmap", self.posix.munmap(map)).map(drop)
    }

    fn fallocate(&mut self, how: Space, path: &'static str) -> Result<(), String> {
        let (fd, size) = self.with_file(path, OpenFlags::empty())?;
        let Some(fd) = fd else { return Ok(()) };
        let (how, pos) = match how {
            Space::Reserve => (Allocate::Reserve { keep_size: false }, size + PAGE),
            Space::ReserveKeep => (Allocate::Reserve { keep_size: true }, size + PAGE),
            Space::Zero => (Allocate::ZeroRange { keep_size: false }, size / 2),
            Space::ZeroKeep => (Allocate::ZeroRange { keep_size: true }, size / 2),
            Space::Punch => (Allocate::PunchHole, PAGE / 2),
        };
        expected("fallocate", self.posix.fallocate(fd, how, pos, 2 * PAGE + 500))?;
        self.close(fd)
    }

    fn rename(&mut self, how: Move, from: &'static str, to: &'static str) -> Result<(), String> {
        self.need(from)?;
        let is_dir = Names::ALL.dirs.contains(&to);
        match how {
            Move::Free | Move::NoReplace => self.need_free(to)?,
            Move::Over if is_dir => self.need_empty(to)?,
            Move::Over | Move::Exchange => self.need(to)?,
        }
        let flags = RenameFlags { exchange: how == Move::Exchange, no_replace: how == Move::NoReplace };
        expected("rename", self.posix.rename_with(from, to, flags)).map(drop)
    }

    fn setxattr(&mut self, path: &str, len: usize) -> Result<(), String> {
        let value: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        expected("setxattr", self.posix.setxattr(path, XATTR, &value, SetXattr::Any)).map(drop)
    }
}
