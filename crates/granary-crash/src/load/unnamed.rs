//! [`Unnamed`]: files that are made without a name, written, and named or dropped.
//!
//! ```text
//!   open(O_TMPFILE) ── write ── fsync? ── linkat ── fsync?     under a name that may be removed and taken
//!                                                              again
//!                         └──── close: nothing may be left of it, however the power fails
//! ```
//!
//! Orphans come and go while others commit, so lists of orphans are long and recoveries find some.

use super::torture::expected;
use super::{Clients, Load, at_once, directories, fsync, fsync_dir};
use crate::recorded::Recorded;
use granary_sim::rng::Stream;
use granary_units::{Nanos, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Process};

/// The load of files without names.
#[derive(Clone, Copy, Debug)]
pub struct Unnamed {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
}

impl Default for Unnamed {
    /// Three clients, 70 operations each.
    fn default() -> Unnamed {
        Unnamed { clients: 3, ops: 70 }
    }
}

const NAMES: u64 = 6;
/// Files without a name that a client has open.
const OPEN: usize = 5;

impl Load for Unnamed {
    fn name(&self) -> &str {
        "unnamed"
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        directories(clients, self.clients, dir, false)?;
        let ops = self.ops;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            let mut one = One { id, posix, random, open: Vec::new() };
            move || {
                (0..ops).try_for_each(|_| one.step())?;
                while one.open.len() > 1 {
                    one.drop_one()?;
                }
                // The last goes with its process.
                Ok(one.posix)
            }
        })
    }
}

fn dir(id: u32) -> String {
    format!("/u{id}")
}

struct One {
    id: u32,
    posix: Recorded<Process>,
    random: Stream,
    open: Vec<Fd>,
}

impl One {
    fn path(&mut self) -> String {
        format!("{}/n{}", dir(self.id), self.random.below(NAMES))
    }

    fn any(&mut self) -> Option<Fd> {
        let n = self.open.len() as u64;
        (n > 0).then(|| self.open[self.random.below(n) as usize])
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..22 => self.make(),
            22..42 => self.write(),
            42..52 => {
                let Some(fd) = self.any() else { return Ok(()) };
                let done =
                    if self.random.chance(0.3) { self.posix.fdatasync(fd) } else { self.posix.fsync(fd) };
                expected("fsync", done).map(drop)
            }
            52..66 => self.name(),
            66..74 => self.drop_one(),
            74..82 => {
                let path = self.path();
                expected("unlink", self.posix.unlink(path)).map(drop)
            }
            82..86 => {
                let (a, b) = (self.path(), self.path());
                expected("rename", self.posix.rename(a, b)).map(drop)
            }
            86..91 => {
                let path = self.path();
                expected("fsync", fsync(&mut self.posix, &mut self.random, &path)).map(drop)
            }
            91..94 => expected("fsync", fsync_dir(&mut self.posix, &dir(self.id))).map(drop),
            94 => expected("sync", self.posix.sync()).map(drop),
            _ => {
                granary_sim::sleep(Nanos(20_000 + self.random.below(1_500_000)));
                Ok(())
            }
        }
    }

    fn make(&mut self) -> Result<(), String> {
        if self.open.len() == OPEN {
            self.drop_one()?;
        }
        let fd = self.posix.open_unnamed(dir(self.id), OpenFlags::RDWR, 0o640);
        let fd = match expected("open without a name", fd)? {
            Some(fd) => Some(fd),
            // Where there are none (NILFS2), as programs do it: made, opened, removed.
            None => {
                let path = format!("{}/tmp", dir(self.id));
                let flags = OpenFlags::RDWR | OpenFlags::CREAT;
                let fd = expected("create", self.posix.open(&path, flags, 0o640))?;
                expected("unlink", self.posix.unlink(&path))?;
                fd
            }
        };
        self.open.extend(fd);
        Ok(())
    }

    fn write(&mut self) -> Result<(), String> {
        let Some(fd) = self.any() else { return Ok(()) };
        let (at, len) = (self.random.below(60_000), 1 + self.random.below(30_000) as usize);
        if self.random.chance(0.15) {
            return expected("truncate", self.posix.ftruncate(fd, at)).map(drop);
        }
        expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len }, at)).map(drop)
    }

    /// Gives one a name; sometimes it is made durable at once, sometimes it gets a second name.
    fn name(&mut self) -> Result<(), String> {
        let Some(fd) = self.any() else { return Ok(()) };
        let path = self.path();
        if self.random.chance(0.3) {
            expected("unlink", self.posix.unlink(&path))?;
        }
        // A file whose name was removed has no way back: only one that never had a name gets one.
        expected("link", self.named(fd, &path))?;
        if self.random.chance(0.5) {
            expected("fsync", self.posix.fsync(fd))?;
        }
        Ok(())
    }

    fn named(&mut self, fd: Fd, path: &str) -> granary_fs::Result<()> {
        self.posix.link_open(fd, path)
    }

    fn drop_one(&mut self) -> Result<(), String> {
        if self.open.is_empty() {
            return Ok(());
        }
        let n = self.random.below(self.open.len() as u64) as usize;
        let fd = self.open.swap_remove(n);
        expected("close", self.posix.close(fd)).map(drop)
    }
}
