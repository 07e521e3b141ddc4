//! [`Crowd`]: directories that fill with small synced files, and empty again.
//!
//! ```text
//!   files   ..........######################..........#####        tables of names and inodes split, grow and merge
//!           made by the dozen    removed by the dozen  made again
//! ```
//!
//! Each file has some hundred bytes. Whole dozens are made, renamed or removed at a time, so that structures whose size follows the
//! number of files change it in both directions within one run.

use super::torture::expected;
use super::{Clients, Load, at_once, directories, fsync_dir};
use crate::recorded::Recorded;
use granary_sim::rng::Stream;
use granary_units::{Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process};

/// The load of many small files.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Tasks that work at once.
    pub clients: u32,
    /// Dozens that each makes, renames or removes.
    pub dozens: u32,
}

impl Default for Crowd {
    /// Two clients, 24 dozens each.
    fn default() -> Crowd {
        Crowd { clients: 2, dozens: 24 }
    }
}

/// Names of each client: so many files at most.
const NAMES: u64 = 160;

impl Load for Crowd {
    fn name(&self) -> &str {
        "crowd"
    }

    fn rounds(&self) -> u32 {
        3
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        directories(clients, self.clients, dir, true)?;
        let dozens = self.dozens;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            let mut one = One { id, posix, random };
            move || (0..dozens).try_for_each(|_| one.dozen()).map(|()| one.posix)
        })
    }
}

fn dir(id: u32) -> String {
    format!("/w{id}")
}

struct One {
    id: u32,
    posix: Recorded<Process>,
    random: Stream,
}

impl One {
    fn path(&self, n: u64) -> String {
        format!("{}/f{}", dir(self.id), n % NAMES)
    }

    /// A dozen of neighbours, made, renamed or removed.
    fn dozen(&mut self) -> Result<(), String> {
        let first = self.random.below(NAMES);
        let all = first..first + 12;
        match self.random.below(100) {
            0..50 => all.clone().try_for_each(|n| self.make(n))?,
            50..80 => all.clone().try_for_each(|n| {
                let path = self.path(n);
                expected("unlink", self.posix.unlink(path)).map(drop)
            })?,
            80..90 => all.clone().try_for_each(|n| {
                let (old, new) = (self.path(n), self.path(n + 40));
                expected("rename", self.posix.rename(old, new)).map(drop)
            })?,
            _ => granary_sim::sleep(Nanos(100_000 + self.random.below(4_000_000))),
        }
        match self.random.below(4) {
            0 => expected("fsync", fsync_dir(&mut self.posix, &dir(self.id))).map(drop),
            _ => Ok(()),
        }
    }

    fn make(&mut self, n: u64) -> Result<(), String> {
        let flags = OpenFlags::RDWR | OpenFlags::CREAT;
        let Some(fd) = expected("open", self.posix.open(self.path(n), flags, 0o644))? else { return Ok(()) };
        for _ in 0..2 {
            let (at, len) = (self.random.below(300), 1 + self.random.below(300) as usize);
            expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len }, at))?;
            if self.random.chance(0.7) {
                expected("fsync", self.posix.fsync(fd))?;
            }
        }
        expected("close", self.posix.close(fd)).map(drop)
    }
}
