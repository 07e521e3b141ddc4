//! [`Crowd`]: directories that fill with small synced files, and empty again.
//!
//! ```text
//!   files   ..........######################..........#####        tables of names and inodes split, grow
//!                                                                  and merge
//!           made by the dozen    removed by the dozen  made again
//!   ledger  hhhh ######|                                  logs of one file are cleaned: most of it is dead,
//!                                                         a cut write is not
//! ```
//!
//! Each file has some hundred bytes, or as many in each of eight pages. Whole dozens are made, renamed or
//! removed at a time, more in the waves down, so that structures whose size follows the number of files
//! change it in both directions within one run. One file of each client has hundreds of changes.

use super::torture::expected;
use super::{Clients, Load, at_once, directories, fsync_dir};
use crate::recorded::Recorded;
use granary_sim::rng::Stream;
use granary_units::{Nanos, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Process};

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

/// Dozens of a wave.
const WAVE: u32 = 6;
/// Names of each client: so many files at most.
const NAMES: u64 = 160;
const PAGE: u64 = 4096;
/// Pages of a large one.
const LARGE: u64 = 8;
/// Pages of a ledger that are written again and again, and pages in all.
const HOT: u64 = 8;
const LEDGER: u64 = 64;

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
            move || (0..dozens).try_for_each(|n| one.dozen((n / WAVE).is_multiple_of(2))).map(|()| one.posix)
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

    /// A dozen of neighbours, made, renamed or removed. `up`: more are made than removed.
    fn dozen(&mut self, up: bool) -> Result<(), String> {
        let make = if up { 62 } else { 12 };
        let first = self.random.below(NAMES);
        let all = first..first + 12;
        match self.random.below(100) {
            n if n < make => all.clone().try_for_each(|n| self.make(n))?,
            0..68 => (first..first + if up { 12 } else { 40 }).try_for_each(|n| {
                let path = self.path(n);
                expected("unlink", self.posix.unlink(path)).map(drop)
            })?,
            68..76 => all.clone().try_for_each(|n| {
                let (old, new) = (self.path(n), self.path(n + 40));
                expected("rename", self.posix.rename(old, new)).map(drop)
            })?,
            76..94 => self.ledger()?,
            _ => granary_sim::sleep(Nanos(100_000 + self.random.below(4_000_000))),
        }
        match self.random.below(4) {
            0 => expected("fsync", fsync_dir(&mut self.posix, &dir(self.id))).map(drop),
            _ => Ok(()),
        }
    }

    fn open(&mut self, name: &str) -> Result<Option<Fd>, String> {
        let path = format!("{}/{name}", dir(self.id));
        expected("open", self.posix.open(path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644))
    }

    fn write(&mut self, fd: Fd, at: u64, len: u64) -> Result<(), String> {
        let data = Payload::Fill { word: 1, len: len as usize };
        expected("write", self.posix.pwrite(fd, data, at)).map(drop)
    }

    fn cut(&mut self, fd: Fd, size: u64) -> Result<(), String> {
        expected("truncate", self.posix.ftruncate(fd, size)).map(drop)
    }

    fn fsync_now_and_then(&mut self, fd: Fd) -> Result<(), String> {
        if self.random.below(5) > 0 {
            return Ok(());
        }
        expected("fsync", self.posix.fsync(fd)).map(drop)
    }

    /// Changes whose records are dead soon, among some that cut a longer write.
    fn ledger(&mut self) -> Result<(), String> {
        let Some(fd) = self.open("ledger")? else { return Ok(()) };
        for _ in 0..40 {
            let (hot, page) = (self.random.below(HOT * PAGE), HOT + self.random.below(LEDGER - HOT));
            match self.random.below(40) {
                0 => {
                    let pages = 2 + self.random.below(5);
                    self.write(fd, page * PAGE, pages * PAGE)?;
                    let left = 1 + self.random.below(pages * PAGE - 1);
                    self.cut(fd, page * PAGE + left)?;
                    self.cut(fd, LEDGER * PAGE)?;
                }
                1 => self.cut(fd, page * PAGE)?,
                _ => {
                    let len = 1 + self.random.below(600);
                    self.write(fd, hot, len)?;
                }
            }
            self.fsync_now_and_then(fd)?;
        }
        expected("close", self.posix.close(fd)).map(drop)
    }

    fn make(&mut self, n: u64) -> Result<(), String> {
        let flags = OpenFlags::RDWR | OpenFlags::CREAT;
        let Some(fd) = expected("open", self.posix.open(self.path(n), flags, 0o644))? else { return Ok(()) };
        if self.random.chance(0.5) {
            // The last page first: each is an extent of its own.
            for page in (1..LARGE).rev() {
                let len = 1 + self.random.below(300);
                self.write(fd, page * PAGE, len)?;
            }
        }
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
