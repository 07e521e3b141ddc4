//! [`Full`]: work on a drive that has no space left, or a little.
//!
//! ```text
//!   /ballast0 /ballast1    written, then reserved, in ever smaller pieces, until there is no space; space
//!                          that is given back comes from here, and is taken again
//!   /full0/n0 ... n7       files and directories of client 0: a call that needs space fails or not, a call
//!                          that frees space must not fail
//! ```
//!
//! Accepted changes must reach the drive: an fsync without space is a failure, and so is a removal.

use super::torture::expected;
use super::{Clients, Load, at_once, fsync, fsync_dir};
use crate::recorded::Recorded;
use granary_fs::{Allocate, FsError, Result as FsResult, SetXattr};
use granary_sim::rng::Stream;
use granary_units::Payload;
use granary_vfs::{OpenFlags, Posix, Process};

/// The load on a full drive.
#[derive(Clone, Copy, Debug)]
pub struct Full {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
    /// Whether removals and cuts may find no space for their records: file systems whose logs grow with them.
    pub removals_may_fail: bool,
}

impl Default for Full {
    /// Three clients, 60 operations each.
    fn default() -> Full {
        Full { clients: 3, ops: 60, removals_may_fail: false }
    }
}

const BALLAST: u64 = 2;
const NAMES: u64 = 8;

impl Load for Full {
    fn name(&self) -> &str {
        "full"
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        let mut first = One {
            id: 0,
            posix: clients.client(),
            random: Stream::new(random.next_u64(), "ballast"),
            load: *self,
        };
        for id in 0..self.clients {
            expected("mkdir", first.posix.mkdir(dir(id), 0o755))?;
        }
        (0..BALLAST).try_for_each(|n| first.fill(n))?;
        first.posix.into_inner().exit();
        let load = *self;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            let mut one = One { id, posix, random, load };
            move || (0..load.ops).try_for_each(|_| one.step()).map(|()| one.posix)
        })
    }
}

fn dir(id: u32) -> String {
    format!("/full{id}")
}

/// A call that must not want space.
fn must<T>(what: &str, result: FsResult<T>) -> Result<Option<T>, String> {
    match result {
        Err(FsError::NoSpace) => Err(format!("{what} failed for want of space")),
        other => expected(what, other),
    }
}

struct One {
    id: u32,
    posix: Recorded<Process>,
    random: Stream,
    load: Full,
}

impl One {
    fn path(&mut self) -> String {
        format!("{}/n{}", dir(self.id), self.random.below(NAMES))
    }

    /// A removal, a cut.
    fn freed<T>(&self, what: &str, result: FsResult<T>) -> Result<(), String> {
        if self.load.removals_may_fail { expected(what, result) } else { must(what, result) }.map(drop)
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..30 => self.write(),
            30..40 => self.give_back(),
            40..45 => {
                let (n, len) = (self.random.below(BALLAST), 4096 << self.random.below(6));
                self.reserve(n, len)
            }
            45..55 => {
                let path = self.path();
                let done = self.posix.unlink(path);
                self.freed("unlink", done)
            }
            55..63 => {
                let (a, b) = (self.path(), self.path());
                expected("rename", self.posix.rename(a, b)).map(drop)
            }
            63..66 => {
                let (a, b) = (self.path(), self.path());
                expected("link", self.posix.link(a, b)).map(drop)
            }
            66..70 => {
                let path = self.path();
                expected("mkdir", self.posix.mkdir(path, 0o755)).map(drop)
            }
            70..74 => {
                let path = self.path();
                let done = self.posix.rmdir(path);
                self.freed("rmdir", done)
            }
            74..79 => self.attributes(),
            79..92 => self.fsync(),
            92..95 => self.fsync_dir(),
            95..97 => must("sync", self.posix.sync()).map(drop),
            _ => {
                granary_sim::sleep(granary_units::Nanos(50_000 + self.random.below(2_000_000)));
                Ok(())
            }
        }
    }

    /// Takes what space there is: some of it with data, the rest reserved.
    fn fill(&mut self, n: u64) -> Result<(), String> {
        let path = format!("/ballast{n}");
        let fd = self.posix.open(&path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644);
        if let Some(fd) = expected("open", fd)? {
            let mut end = expected("stat", self.posix.stat(&path))?.map_or(0, |s| s.attr.size);
            for _ in 0..self.random.below(4) {
                let len = 1 << (12 + self.random.below(9));
                let wrote = expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len }, end))?;
                end += wrote.unwrap_or(0) as u64;
            }
            must("fsync", self.posix.fsync(fd))?;
            expected("close", self.posix.close(fd))?;
        }
        let mut piece = 32 << 20;
        while piece >= 4096 {
            let before = self.size(n)?;
            self.reserve(n, piece)?;
            if self.size(n)? == before {
                piece /= 2;
            }
        }
        Ok(())
    }

    fn size(&mut self, n: u64) -> Result<u64, String> {
        Ok(expected("stat", self.posix.stat(format!("/ballast{n}")))?.map_or(0, |s| s.attr.size))
    }

    /// Reserves space behind the end of a ballast file.
    fn reserve(&mut self, n: u64, len: u64) -> Result<(), String> {
        let fd = self.posix.open(format!("/ballast{n}"), OpenFlags::RDWR, 0);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        let end = self.size(n)?;
        let how = Allocate::Reserve { keep_size: false };
        expected("reserve", self.posix.fallocate(fd, how, end, len))?;
        expected("close", self.posix.close(fd)).map(drop)
    }

    /// Cuts or punches the ballast.
    fn give_back(&mut self) -> Result<(), String> {
        let n = self.random.below(BALLAST);
        let (fd, size) = (self.posix.open(format!("/ballast{n}"), OpenFlags::RDWR, 0), self.size(n)?);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        let len = 4096 << self.random.below(5);
        if self.random.chance(0.7) {
            let done = self.posix.ftruncate(fd, size.saturating_sub(len));
            self.freed("truncate", done)?;
        } else {
            // May cut an extent in two.
            let at = self.random.below(size + 1);
            expected("punch", self.posix.fallocate(fd, Allocate::PunchHole, at, len))?;
        }
        expected("close", self.posix.close(fd)).map(drop)
    }

    fn write(&mut self) -> Result<(), String> {
        let path = self.path();
        let mut flags = OpenFlags::RDWR | OpenFlags::CREAT;
        if self.random.chance(0.1) {
            flags |= OpenFlags::DIRECT;
        }
        if self.random.chance(0.15) {
            flags |= OpenFlags::TRUNC;
        }
        let fd = self.posix.open(&path, flags, 0o644);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        for _ in 0..1 + self.random.below(3) {
            let far = self.random.chance(0.3);
            let at = self.random.below(if far { 8 << 20 } else { 40_000 });
            let (at, len) = match flags.contains(OpenFlags::DIRECT) {
                true => (at / 4096 * 4096, 4096 * (1 + self.random.below(3))),
                false => (at, 1 + self.random.below(12_000)),
            };
            expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len: len as usize }, at))?;
        }
        if self.random.chance(0.5) {
            must("fsync", self.posix.fsync(fd))?;
        }
        expected("close", self.posix.close(fd)).map(drop)
    }

    fn attributes(&mut self) -> Result<(), String> {
        let path = self.path();
        let value = vec![self.random.below(3) as u8; [8, 150, 2500][self.random.below(3) as usize]];
        match self.random.below(4) {
            0 => expected("removexattr", self.posix.removexattr(&path, b"user.a")),
            1 => expected("chmod", self.posix.chmod(&path, 0o700 + self.random.below(64) as u16)),
            _ => expected("setxattr", self.posix.setxattr(&path, b"user.a", &value, SetXattr::Any)),
        }
        .map(drop)
    }

    fn fsync(&mut self) -> Result<(), String> {
        let path = self.path();
        must("fsync", fsync(&mut self.posix, &mut self.random, &path)).map(drop)
    }

    fn fsync_dir(&mut self) -> Result<(), String> {
        must("fsync", fsync_dir(&mut self.posix, &dir(self.id))).map(drop)
    }
}
