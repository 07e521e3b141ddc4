//! [`Torture`]: renames, links, truncations, holes, synced and unsynced writes, by several clients at once.
//!
//! ```text
//!   /d0 /d1 /d2       shared directories: every client has names of its own in each (c1n4 = client 1, name
//!                     4)
//!     c1d0/           directories of client 1; they move about, with what is in them
//!   /shared0 /shared1 files that all clients write and append to
//! ```
//!
//! Clients share directories (so they meet in directory blocks, bitmaps and journals) but no names: which of
//! two racing calls wins is not the oracle's business. Every operation is drawn without knowing what exists;
//! the errors that this provokes are expected.

use super::{Clients, Load, at_once};
use crate::faulty::is_made;
use crate::recorded::Recorded;
use granary_fs::{Allocate, FileKind, FsError, RenameFlags, Result, SetXattr};
use granary_sim::rng::Stream;
use granary_units::{Dest, Payload};
use granary_vfs::{Fd, OpenFlags, Posix};
use std::collections::BTreeSet;

/// The torture load.
#[derive(Clone, Copy, Debug)]
pub struct Torture {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
    /// Names of each client in each directory.
    pub names: u64,
    /// Largest file, in bytes.
    pub size: u64,
    /// The load's name.
    pub name: &'static str,
}

impl Torture {
    /// Ten times as long: journals and logs wrap, tails move, drives collect garbage while clients go on.
    pub fn long() -> Torture {
        Torture { ops: 600, name: "long", ..Torture::default() }
    }
}

impl Default for Torture {
    /// Four clients, 60 operations each, files up to 96 KiB: a run of some milliseconds.
    fn default() -> Torture {
        Torture { clients: 4, ops: 60, names: 5, size: 96 << 10, name: "torture" }
    }
}

const SHARED_DIRS: u64 = 3;
const SHARED_FILES: u64 = 2;
const OWN_DIRS: u64 = 2;
/// Descriptors that a client keeps open over several operations.
const OPEN: usize = 4;

impl Load for Torture {
    fn name(&self) -> &str {
        self.name
    }

    fn rounds(&self) -> u32 {
        // Not many more operations than the longest loads have in one.
        (600 / self.ops).clamp(1, 6)
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        let mut first = clients.client();
        self.prepare(&mut first)?;
        first.into_inner().exit();
        let load = *self;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            move || load.client(id, posix, random)
        })
    }
}

impl Torture {
    /// Makes what the clients share.
    ///
    /// # Errors
    /// An error that the load did not provoke, in one sentence.
    pub fn prepare<P: Posix>(&self, posix: &mut Recorded<P>) -> Result<(), String> {
        for dir in 0..SHARED_DIRS {
            expected("mkdir", posix.mkdir(format!("/d{dir}"), 0o755))?;
        }
        for file in 0..SHARED_FILES {
            let flags = OpenFlags::RDWR | OpenFlags::CREAT;
            let fd = posix.open(format!("/shared{file}"), flags, 0o644);
            if let Some(fd) = expected("create", fd)? {
                expected("close", posix.close(fd))?;
            }
        }
        Ok(())
    }

    /// Client `id` does its operations, behind [`Torture::prepare`]; it comes back.
    ///
    /// # Errors
    /// An error that the load did not provoke, in one sentence.
    pub fn client<P: Posix>(
        self,
        id: u32,
        posix: Recorded<P>,
        random: Stream,
    ) -> Result<Recorded<P>, String> {
        let mut one = One { load: self, id, posix, random, open: Vec::new(), appends: BTreeSet::new() };
        one.run().map(|()| one.posix)
    }
}

/// Passes over the errors that random operations provoke.
pub(super) fn expected<T>(what: &str, result: Result<T>) -> Result<Option<T>, String> {
    use FsError::*;
    match result {
        Ok(value) => Ok(Some(value)),
        Err(
            NoEntry | Exists | NotDir | IsDir | NotEmpty | NoSpace | Invalid | TooManyLinks | NotPermitted
            | Loop | NoAttribute | NotSupported,
        ) => Ok(None),
        Err(Drive(e)) if is_made(&e) => Ok(None),
        Err(e) => Err(format!("{what} failed: {e}")),
    }
}

struct One<P> {
    load: Torture,
    id: u32,
    posix: Recorded<P>,
    random: Stream,
    open: Vec<Fd>,
    /// Of these, the ones that append. (An appending `pwrite` would tell nobody where it went.)
    appends: BTreeSet<Fd>,
}

impl<P: Posix> One<P> {
    fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.load.ops {
            self.step()?;
        }
        while let Some(fd) = self.open.pop() {
            expected("close", self.posix.close(fd))?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        let dice = self.random.below(100);
        match dice {
            0..12 => self.open(),
            12..34 => self.write(),
            34..40 => self.read(),
            40..43 => self.resize(),
            43..46 => self.fallocate(),
            46..57 => self.fsync(),
            57 => self.xattr(),
            58..60 => self.close(),
            60..75 => self.rename(),
            75..80 => {
                let (from, to) = (self.path(), self.path());
                expected("link", self.posix.link(from, to)).map(drop)
            }
            80..87 => {
                let path = self.path();
                expected("unlink", self.posix.unlink(path)).map(drop)
            }
            87..91 => {
                let path = self.own_dir();
                expected("mkdir", self.posix.mkdir(path, 0o755)).map(drop)
            }
            91..93 => {
                let path = self.own_dir();
                expected("rmdir", self.posix.rmdir(path)).map(drop)
            }
            93..95 => {
                let (target, path) = (self.path(), self.path());
                expected("symlink", self.posix.symlink(target, path)).map(drop)
            }
            95 => self.attributes(),
            96 => self.xattr(),
            97..99 => self.fsync_dir(),
            _ => expected("sync", self.posix.sync()).map(drop),
        }
    }

    /// A shared directory or one of the client's own.
    fn dir(&mut self) -> String {
        if self.random.chance(0.7) { self.shared_dir() } else { self.own_dir() }
    }

    fn shared_dir(&mut self) -> String {
        format!("/d{}", self.random.below(SHARED_DIRS))
    }

    fn own_dir(&mut self) -> String {
        let (id, name) = (self.id, self.random.below(OWN_DIRS));
        format!("{}/c{id}d{name}", self.shared_dir())
    }

    /// A name of the client's own.
    fn path(&mut self) -> String {
        let (id, name) = (self.id, self.random.below(self.load.names));
        format!("{}/c{id}n{name}", self.dir())
    }

    fn open(&mut self) -> Result<(), String> {
        if self.open.len() == OPEN {
            self.close()?;
        }
        let mut flags = OpenFlags::RDWR | OpenFlags::CREAT | OpenFlags::NOFOLLOW;
        match self.random.below(12) {
            0 | 1 => flags |= OpenFlags::TRUNC,
            2 | 3 => flags |= OpenFlags::APPEND,
            4 => flags |= OpenFlags::SYNC,
            5 => flags |= OpenFlags::DSYNC,
            6 => flags |= OpenFlags::DIRECT,
            7 => flags |= OpenFlags::EXCL,
            _ => {}
        }
        let path = if self.random.chance(0.15) {
            flags.remove(OpenFlags::EXCL | OpenFlags::TRUNC);
            format!("/shared{}", self.random.below(SHARED_FILES))
        } else {
            self.path()
        };
        if let Some(fd) = expected("open", self.posix.open(path, flags, 0o644))? {
            self.open.push(fd);
            if flags.contains(OpenFlags::APPEND) {
                self.appends.insert(fd);
            } else {
                self.appends.remove(&fd);
            }
        }
        Ok(())
    }

    /// An open descriptor, opening one where none is.
    fn some_fd(&mut self) -> Result<Option<Fd>, String> {
        if self.open.is_empty() {
            self.open()?;
        }
        let n = self.open.len() as u64;
        Ok((n > 0).then(|| self.open[self.random.below(n) as usize]))
    }

    fn close(&mut self) -> Result<(), String> {
        if self.open.is_empty() {
            return Ok(());
        }
        let n = self.open.len() as u64;
        let fd = self.open.swap_remove(self.random.below(n) as usize);
        expected("close", self.posix.close(fd)).map(drop)
    }

    /// A place and a length: small, of lines, of pages, large; aligned half of the time.
    fn extent(&mut self) -> (u64, usize) {
        let size = self.load.size;
        let (unit, most) =
            [(1, 200), (64, 8), (512, 8), (4096, 4), (4096, 16)][self.random.below(5) as usize];
        let len = unit * (1 + self.random.below(most));
        let pos = self.random.below(size.saturating_sub(len).max(1));
        (if self.random.chance(0.5) { pos / unit * unit } else { pos }, len as usize)
    }

    fn write(&mut self) -> Result<(), String> {
        let Some(fd) = self.some_fd()? else { return Ok(()) };
        let (pos, len) = self.extent();
        let bytes: Vec<u8>;
        let data = if self.random.chance(0.2) {
            let (a, b) = (self.random.next_u64() as u8, self.random.next_u64() as u8 | 1);
            bytes = (0..len).map(|i| a.wrapping_add((i as u8).wrapping_mul(b))).collect();
            Payload::Bytes(&bytes)
        } else {
            Payload::Fill { word: 1, len }
        };
        let written = if self.random.chance(0.5) && !self.appends.contains(&fd) {
            self.posix.pwrite(fd, data, pos)
        } else {
            self.posix.write(fd, data)
        };
        expected("write", written)?;
        if self.random.chance(0.2) {
            expected("fsync", self.posix.fsync(fd))?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        let Some(fd) = self.some_fd()? else { return Ok(()) };
        let (pos, len) = self.extent();
        let mut buffer = vec![0; len];
        expected("read", self.posix.pread(fd, Dest::Bytes(&mut buffer), pos)).map(drop)
    }

    fn resize(&mut self) -> Result<(), String> {
        let Some(fd) = self.some_fd()? else { return Ok(()) };
        let size = if self.random.chance(0.3) { 0 } else { self.random.below(self.load.size) };
        expected("truncate", self.posix.ftruncate(fd, size)).map(drop)
    }

    fn fsync(&mut self) -> Result<(), String> {
        let Some(fd) = self.some_fd()? else { return Ok(()) };
        let result = if self.random.chance(0.3) { self.posix.fdatasync(fd) } else { self.posix.fsync(fd) };
        expected("fsync", result).map(drop)
    }

    fn fsync_dir(&mut self) -> Result<(), String> {
        let path = self.dir();
        // Of some: what SQLite calls on the directory of its journal.
        let data_only = path.as_bytes().last().is_some_and(|digit| digit % 2 == 1);
        let fd = self.posix.open(path, OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0);
        let Some(fd) = expected("open directory", fd)? else { return Ok(()) };
        let done = if data_only { self.posix.fdatasync(fd) } else { self.posix.fsync(fd) };
        expected("fsync directory", done)?;
        expected("close", self.posix.close(fd)).map(drop)
    }

    fn rename(&mut self) -> Result<(), String> {
        let dirs = self.random.chance(0.2);
        let (from, to) = if dirs { (self.own_dir(), self.own_dir()) } else { (self.path(), self.path()) };
        let flags = match self.random.below(10) {
            0 => RenameFlags { exchange: true, ..RenameFlags::default() },
            1 => RenameFlags { no_replace: true, ..RenameFlags::default() },
            _ => RenameFlags::default(),
        };
        expected("rename", self.posix.rename_with(from, to, flags)).map(drop)
    }

    fn fallocate(&mut self) -> Result<(), String> {
        let Some(fd) = self.some_fd()? else { return Ok(()) };
        let (pos, len) = self.extent();
        let keep_size = self.random.chance(0.5);
        let how = match self.random.below(3) {
            0 => Allocate::Reserve { keep_size },
            1 => Allocate::PunchHole,
            _ => Allocate::ZeroRange { keep_size },
        };
        expected("fallocate", self.posix.fallocate(fd, how, pos, len as u64)).map(drop)
    }

    /// Sets or removes an extended attribute of a file (symbolic links lead to others' files).
    fn xattr(&mut self) -> Result<(), String> {
        let path = if self.random.chance(0.2) { self.own_dir() } else { self.path() };
        match expected("lstat", self.posix.lstat(&path))? {
            Some(stat) if stat.attr.kind != FileKind::Symlink => {}
            _ => return Ok(()),
        }
        let name = format!("user.n{}", self.random.below(3));
        if self.random.chance(0.25) {
            return expected("removexattr", self.posix.removexattr(path, name.as_bytes())).map(drop);
        }
        let len = [0, 5, 40, 90, 300, 1000][self.random.below(6) as usize];
        // Of its own, or one that others have: they may share a block.
        let value: Vec<u8> = match self.random.below(2) {
            0 => (0..len).map(|_| self.random.next_u64() as u8).collect(),
            byte => vec![byte as u8; len],
        };
        let set = self.posix.setxattr(path, name.as_bytes(), &value, SetXattr::Any);
        expected("setxattr", set).map(drop)
    }

    fn attributes(&mut self) -> Result<(), String> {
        let Some(fd) = self.some_fd()? else { return Ok(()) };
        let mode = 0o600 | self.random.below(0o200) as u16;
        expected("chmod", self.posix.fchmod(fd, mode))?;
        let path = self.path();
        let (uid, gid) = (self.random.below(5) as u32, self.random.below(5) as u32);
        expected("chown", self.posix.lchown(path, Some(uid), Some(gid))).map(drop)
    }
}
