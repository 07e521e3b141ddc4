//! [`Ledger`]: files whose changes are kept for long, but for a stretch of them that is soon dead, and new
//! files right behind.
//!
//! ```text
//!   changes   aaaaaaaa hhhhhhhhhhhh bbbbbbbbb    a, b: each a page of its own, every second one
//!                                                h: one page again and again
//!   log       | page 0 | page 1    | page 2 | page 3      page 1 has nothing alive, the others have: it is
//!                                                         given away
//!   small files, made and removed at once: the next one takes the page that was given away
//! ```
//!
//! Another file soon writes to the pages that a log, a journal or a table gives away. A file has over a
//! hundred pieces that cannot be joined, so tables of extents get deep, and buckets of one hash full.

use super::torture::expected;
use super::{Clients, Load, at_once, directories};
use crate::recorded::Recorded;
use granary_sim::rng::Stream;
use granary_units::Payload;
use granary_vfs::{Fd, OpenFlags, Posix, Process};

/// The load of long-lived files with dead stretches.
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    /// Tasks that work at once.
    pub clients: u32,
    /// Files that each fills.
    pub files: u32,
}

impl Default for Ledger {
    /// Two clients, two files each.
    fn default() -> Ledger {
        Ledger { clients: 2, files: 2 }
    }
}

const PAGE: u64 = 4096;
/// Changes before the stretch that dies, of it, and behind it. A page of NOVA's log has 63 of them: the first
/// two together are more than two pages, and all of them more than three.
const BEFORE: u64 = 50;
const HOT: u64 = 80;
const AFTER: u64 = 70;
const NAMES: u64 = 3;

impl Load for Ledger {
    fn name(&self) -> &str {
        "ledger"
    }

    fn rounds(&self) -> u32 {
        3
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        directories(clients, self.clients, dir, true)?;
        let files = self.files;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            let mut one = One { id, posix, random, made: 0 };
            move || (0..files).try_for_each(|_| one.ledger()).map(|()| one.posix)
        })
    }
}

fn dir(id: u32) -> String {
    format!("/l{id}")
}

struct One {
    id: u32,
    posix: Recorded<Process>,
    random: Stream,
    /// Small files so far.
    made: u64,
}

impl One {
    fn ledger(&mut self) -> Result<(), String> {
        let path = format!("{}/ledger{}", dir(self.id), self.random.below(NAMES));
        expected("unlink", self.posix.unlink(&path))?;
        let how = match self.random.below(3) {
            0 => OpenFlags::SYNC,
            1 => OpenFlags::DSYNC,
            _ => OpenFlags::empty(),
        };
        let fd = self.posix.open(&path, OpenFlags::RDWR | OpenFlags::CREAT | how, 0o644);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        let (before, hot) = (BEFORE + self.random.below(10), HOT + self.random.below(10));
        // The last page first, so that none follows the one before.
        for n in (0..before).rev() {
            self.write(fd, 1 + n)?;
        }
        for _ in 0..hot {
            self.write(fd, 0)?;
        }
        for n in 0..AFTER {
            self.write(fd, 1 + before + n)?;
            if n >= AFTER / 2 && self.random.below(4) == 0 {
                self.small()?;
            }
        }
        expected("fsync", self.posix.fsync(fd))?;
        expected("close", self.posix.close(fd)).map(drop)
    }

    /// Some bytes of the `nth` second page.
    fn write(&mut self, fd: Fd, nth: u64) -> Result<(), String> {
        let (at, len) = (2 * nth * PAGE + self.random.below(1000), 1 + self.random.below(300));
        let data = Payload::Fill { word: 1, len: len as usize };
        expected("write", self.posix.pwrite(fd, data, at)).map(drop)
    }

    /// A small file is made, and one that was made before goes, or gets its name.
    fn small(&mut self) -> Result<(), String> {
        self.made += 1;
        let path = |id, n: u64| format!("{}/small{}", dir(id), n % 8);
        let (new, old) = (path(self.id, self.made), path(self.id, self.made + 3));
        let fd = self.posix.open(&new, OpenFlags::RDWR | OpenFlags::CREAT, 0o644);
        let Some(fd) = expected("create", fd)? else { return Ok(()) };
        let len = 1 + self.random.below(500) as usize;
        expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len }, 0))?;
        if self.random.chance(0.3) {
            expected("fsync", self.posix.fdatasync(fd))?;
        }
        expected("close", self.posix.close(fd))?;
        match self.random.below(3) {
            0 => expected("unlink", self.posix.unlink(old)).map(drop),
            1 => expected("rename", self.posix.rename(new, old)).map(drop),
            _ => Ok(()),
        }
    }
}
