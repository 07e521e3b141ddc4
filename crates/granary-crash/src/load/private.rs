//! [`Private`]: files that grow by small synced pieces, as logs and message queues do.
//!
//! ```text
//!   open(O_SYNC | O_CREAT)    or created, and fsynced every few hundred bytes
//!   then   grown far, renamed, linked, cut, removed, left alone until somebody demotes them
//! ```
//!
//! SPFS keeps such files in persistent memory, where its options say so in that alone; growth, second names
//! and directories send them below. For others it is a load of small synchronous appends.

use super::torture::expected;
use super::{Clients, Load, at_once, directories, fsync, fsync_dir};
use crate::recorded::Recorded;
use granary_sim::rng::Stream;
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Process};

/// The load of small synced pieces.
#[derive(Clone, Copy, Debug)]
pub struct Private {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
}

impl Default for Private {
    /// Three clients, 80 operations each.
    fn default() -> Private {
        Private { clients: 3, ops: 80 }
    }
}

const NAMES: u64 = 6;

impl Load for Private {
    fn name(&self) -> &str {
        "private"
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        directories(clients, self.clients, dir, true)?;
        let ops = self.ops;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            let mut one = One { id, posix, random };
            move || (0..ops).try_for_each(|_| one.step()).map(|()| one.posix)
        })
    }
}

fn dir(id: u32) -> String {
    format!("/p{id}")
}

struct One {
    id: u32,
    posix: Recorded<Process>,
    random: Stream,
}

impl One {
    fn path(&mut self) -> String {
        format!("{}/q{}", dir(self.id), self.random.below(NAMES))
    }

    fn step(&mut self) -> Result<(), String> {
        let path = self.path();
        match self.random.below(100) {
            0..46 => self.pieces(&path),
            46..54 => self.grow(&path),
            54..64 => {
                let other = self.path();
                self.rename(&path, &other)
            }
            64..67 => {
                let other = self.path();
                expected("link", self.posix.link(&path, other)).map(drop)
            }
            67..77 => expected("unlink", self.posix.unlink(&path)).map(drop),
            77..81 => {
                let size = self.random.below(20_000);
                expected("truncate", self.posix.truncate(&path, size)).map(drop)
            }
            81..84 => {
                expected("chmod", self.posix.chmod(&path, 0o600 + self.random.below(64) as u16)).map(drop)
            }
            84..88 => expected("fsync", fsync(&mut self.posix, &mut self.random, &path)).map(drop),
            88..90 => expected("fsync", fsync_dir(&mut self.posix, &dir(self.id))).map(drop),
            90 => expected("sync", self.posix.sync()).map(drop),
            _ => {
                // Long enough for a file to be demoted.
                granary_sim::sleep(Nanos(100_000 + self.random.below(6_000_000)));
                Ok(())
            }
        }
    }

    /// To a name that another may have; or away to a long one that none has, and back, as programs do that
    /// replace a file.
    fn rename(&mut self, path: &str, other: &str) -> Result<(), String> {
        if self.random.chance(0.4) {
            return expected("rename", self.posix.rename(path, other)).map(drop);
        }
        // A name of several cache lines.
        let away = format!("{path}.{}", "away".repeat(1 + self.random.below(30) as usize));
        expected("rename", self.posix.rename(path, &away))?;
        let back = if self.random.chance(0.5) { path } else { other };
        expected("rename", self.posix.rename(&away, back)).map(drop)
    }

    fn open(&mut self, path: &str) -> Result<Option<Fd>, String> {
        let how = match self.random.below(4) {
            0 => OpenFlags::SYNC,
            1 => OpenFlags::DSYNC,
            _ => OpenFlags::empty(),
        };
        expected("open", self.posix.open(path, OpenFlags::RDWR | OpenFlags::CREAT | how, 0o644))
    }

    /// Appends or writes over a few hundred bytes, again and again, each followed by an fsync.
    fn pieces(&mut self, path: &str) -> Result<(), String> {
        let Some(fd) = self.open(path)? else { return Ok(()) };
        let end = expected("fstat", self.posix.fstat(fd))?.map_or(0, |stat| stat.attr.size);
        let mut at = if self.random.chance(0.7) { end } else { self.random.below(end + 1) };
        for _ in 0..1 + self.random.below(6) {
            let len = 1 + self.random.below(700) as usize;
            expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len }, at))?;
            at += len as u64;
            if self.random.chance(0.8) {
                let done =
                    if self.random.chance(0.5) { self.posix.fdatasync(fd) } else { self.posix.fsync(fd) };
                expected("fsync", done)?;
            }
        }
        if self.random.chance(0.3) {
            let mut buffer = [0; 600];
            expected("read", self.posix.pread(fd, Dest::Bytes(&mut buffer), at.saturating_sub(500)))?;
        }
        expected("close", self.posix.close(fd)).map(drop)
    }

    /// More than persistent memory keeps of a file, or a hole before it.
    fn grow(&mut self, path: &str) -> Result<(), String> {
        let Some(fd) = self.open(path)? else { return Ok(()) };
        let (at, len) = (self.random.below(400_000), 1 + self.random.below(150_000) as usize);
        expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len }, at))?;
        if self.random.chance(0.5) {
            expected("fsync", self.posix.fsync(fd))?;
        }
        expected("close", self.posix.close(fd)).map(drop)
    }
}
