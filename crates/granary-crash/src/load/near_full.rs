//! [`NearFull`]: a file system with a few percent left, on which clients write over, remove and make files.
//!
//! ```text
//!   /old/0 /old/1 ...    files of 256 KiB, written until [`LEFT`] percent are free; each sixth is removed,
//!                        so that what is free
//!                        lies in pieces
//!   /n0.0 ... /n2.7      what the clients work on: whole pages over old ones, small files, removals
//! ```
//!
//! Allocators search, segments are cleaned, logs are emptied, the drive collects garbage. Unlike `full` there
//! is always space for what is asked for, or nearly: what fails for want of it is not an error.

use super::torture::expected;
use super::{Clients, Load, at_once, fsync};
use crate::recorded::Recorded;
use granary_fs::FsError;
use granary_sim::rng::Stream;
use granary_units::{Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process};

/// The load on an old file system with little space.
#[derive(Clone, Copy, Debug)]
pub struct NearFull {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
}

impl Default for NearFull {
    /// Three clients, 80 operations each.
    fn default() -> NearFull {
        NearFull { clients: 3, ops: 80 }
    }
}

/// Percent of the blocks that programs can fill that are left.
const LEFT: u64 = 8;
/// Bytes of an old file.
const PIECE: u64 = 256 << 10;
const NAMES: u64 = 8;

impl Load for NearFull {
    fn name(&self) -> &str {
        "near-full"
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        let mut first = clients.client();
        fill(&mut first)?;
        first.into_inner().exit();
        let ops = self.ops;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            let mut one = One { id, posix, random };
            move || (0..ops).try_for_each(|_| one.step()).map(|()| one.posix)
        })
    }
}

fn old(n: u64) -> String {
    format!("/old/{n}")
}

/// Old files until little is left. Another round fills what the one before has freed.
fn fill(posix: &mut Recorded<Process>) -> Result<(), String> {
    expected("mkdir", posix.mkdir("/old", 0o755))?;
    let Some(space) = expected("statfs", posix.statfs())? else { return Ok(()) };
    let goal = space.blocks * LEFT / 100;
    // More files than any of the small drives has space for.
    for n in 0..1_000 {
        let free = expected("statfs", posix.statfs())?.map_or(0, |s| s.available_blocks());
        if free <= goal + PIECE / 4096 {
            break;
        }
        let fd = posix.open(old(n), OpenFlags::RDWR | OpenFlags::CREAT | OpenFlags::EXCL, 0o644);
        let Some(fd) = expected("create", fd)? else { continue };
        let wrote = posix.pwrite(fd, Payload::Fill { word: 1, len: PIECE as usize }, 0);
        // Only after it has been given away is it known how much is free.
        let wrote = wrote.and_then(|_| posix.fdatasync(fd));
        expected("close", posix.close(fd))?;
        if wrote == Err(FsError::NoSpace) {
            break;
        }
        expected("write", wrote)?;
    }
    (0..1_000).step_by(6).try_for_each(|n| expected("unlink", posix.unlink(old(n))).map(drop))?;
    expected("sync", posix.sync()).map(drop)
}

struct One {
    id: u32,
    posix: Recorded<Process>,
    random: Stream,
}

impl One {
    fn path(&mut self) -> String {
        format!("/n{}.{}", self.id, self.random.below(NAMES))
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..34 => self.overwrite(),
            34..58 => self.write(),
            58..66 => {
                let path = self.path();
                expected("unlink", self.posix.unlink(path)).map(drop)
            }
            66..72 => {
                let (a, b) = (self.path(), self.path());
                expected("rename", self.posix.rename(a, b)).map(drop)
            }
            72..76 => {
                let (path, size) = (self.path(), self.random.below(100_000));
                expected("truncate", self.posix.truncate(path, size)).map(drop)
            }
            76..88 => {
                let path = self.path();
                expected("fsync", fsync(&mut self.posix, &mut self.random, &path)).map(drop)
            }
            88..90 => expected("sync", self.posix.sync()).map(drop),
            _ => {
                granary_sim::sleep(Nanos(50_000 + self.random.below(2_000_000)));
                Ok(())
            }
        }
    }

    /// Some pages of an old file of the client's: what was there is garbage.
    fn overwrite(&mut self) -> Result<(), String> {
        let n = self.random.below(60) * 3 + u64::from(self.id);
        let fd = self.posix.open(old(n), OpenFlags::RDWR, 0);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        for _ in 0..1 + self.random.below(3) {
            let pages = 1 + self.random.below(8);
            let at = self.random.below(PIECE / 4096 - pages) * 4096;
            let data = Payload::Fill { word: 1, len: pages as usize * 4096 };
            expected("write", self.posix.pwrite(fd, data, at))?;
        }
        if self.random.chance(0.6) {
            expected("fsync", self.posix.fsync(fd))?;
        }
        expected("close", self.posix.close(fd)).map(drop)
    }

    fn write(&mut self) -> Result<(), String> {
        let path = self.path();
        let truncate = if self.random.chance(0.3) { OpenFlags::TRUNC } else { OpenFlags::empty() };
        let fd = self.posix.open(path, OpenFlags::RDWR | OpenFlags::CREAT | truncate, 0o644);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        let (at, len) = (self.random.below(60_000), 1 + self.random.below(30_000) as usize);
        expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len }, at))?;
        if self.random.chance(0.4) {
            expected("fsync", self.posix.fdatasync(fd))?;
        }
        expected("close", self.posix.close(fd)).map(drop)
    }
}
