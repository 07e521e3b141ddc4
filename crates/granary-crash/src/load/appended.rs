//! [`Appended`]: files that grow by small pieces that are made durable one by one, are cut, removed and made
//! again.
//!
//! ```text
//!   /a0 ... /a3    append, overwrite, fdatasync | truncate, punch, chmod, rename in between
//!                  | sync, so that a checkpoint has them
//! ```
//!
//! So data that a drive knows to be a file's meets a file that is another by then, or shorter.

use super::torture::expected;
use super::{Clients, Load, at_once};
use crate::recorded::Recorded;
use granary_fs::Allocate;
use granary_sim::rng::Stream;
use granary_units::Payload;
use granary_vfs::{OpenFlags, Posix, Process};

/// Files of a client.
const FILES: u64 = 3;

/// The load of appends.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
}

impl Default for Appended {
    /// Two clients, 90 operations each.
    fn default() -> Appended {
        Appended { clients: 2, ops: 90 }
    }
}

impl Load for Appended {
    fn name(&self) -> &str {
        "appended"
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        let ops = self.ops;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            let mut one = One { id, posix, random };
            move || (0..ops).try_for_each(|_| one.step()).map(|()| one.posix)
        })
    }
}

struct One {
    id: u32,
    posix: Recorded<Process>,
    random: Stream,
}

impl One {
    fn step(&mut self) -> Result<(), String> {
        let path = format!("/a{}.{}", self.id, self.random.below(FILES));
        match self.random.below(100) {
            0..6 => expected("sync", self.posix.sync()).map(drop),
            6..10 => expected("unlink", self.posix.unlink(&path)).map(drop),
            10..14 => {
                let to = format!("/a{}.{}", self.id, self.random.below(FILES));
                expected("rename", self.posix.rename(&path, to)).map(drop)
            }
            14..17 => {
                expected("chmod", self.posix.chmod(&path, 0o600 + self.random.below(8) as u16)).map(drop)
            }
            _ => self.change(&path),
        }
    }

    fn change(&mut self, path: &str) -> Result<(), String> {
        let fd = self.posix.open(path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        let size = expected("fstat", self.posix.fstat(fd))?.map_or(0, |s| s.attr.size);
        let (at, len) = match self.random.below(10) {
            0..6 => (size, 1 + self.random.below(9000)),
            _ => (self.random.below(size + 1), 1 + self.random.below(5000)),
        };
        let fill = Payload::Fill { word: 1, len: len as usize };
        expected("write", self.posix.pwrite(fd, fill, at))?;
        if self.random.chance(0.8) {
            let once = if self.random.chance(0.8) { self.posix.fdatasync(fd) } else { self.posix.fsync(fd) };
            expected("fsync", once)?;
        }
        match self.random.below(12) {
            0 => expected("truncate", self.posix.ftruncate(fd, self.random.below(size + 9000))).map(drop)?,
            1 => {
                let at = self.random.below(size + 1) / 4096 * 4096;
                expected("punch", self.posix.fallocate(fd, Allocate::PunchHole, at, 8192)).map(drop)?;
            }
            _ => {}
        }
        expected("close", self.posix.close(fd)).map(drop)
    }
}
