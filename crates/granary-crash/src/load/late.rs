//! [`Late`]: files that are written and closed at one time and fsynced at another, perhaps by another task.
//!
//! ```text
//!   /l0 ... /l5      written, cut, renamed over each other, given attributes; then nothing for a while
//!   a while          write-back comes by, inodes leave memory, others' fsyncs commit what there is
//!   fsync            of a file that nobody has changed since: it must know what is still to be done
//! ```

use super::torture::expected;
use super::{Clients, Load, at_once, directories, fsync, fsync_dir};
use crate::recorded::Recorded;
use granary_fs::{Allocate, SetXattr};
use granary_sim::rng::Stream;
use granary_units::{Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process};

/// The load of late fsyncs.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
}

impl Default for Late {
    /// Three clients, 50 operations each: a run of some milliseconds.
    fn default() -> Late {
        Late { clients: 3, ops: 50 }
    }
}

/// Files of each client: more than there are inodes in a small cache.
const FILES: u64 = 6;
/// Largest file: behind what an inode holds itself, in every layout.
const REACH: u64 = 20 << 20;

impl Load for Late {
    fn name(&self) -> &str {
        "late"
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        directories(clients, self.clients, dir, false)?;
        let ops = self.ops;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            let mut one = One { id, posix, random };
            move || (0..ops).try_for_each(|_| one.step()).map(|()| one.posix)
        })
    }
}

fn dir(id: u32) -> String {
    format!("/late{id}")
}

struct One {
    id: u32,
    posix: Recorded<Process>,
    random: Stream,
}

impl One {
    fn path(&mut self) -> String {
        format!("{}/l{}", dir(self.id), self.random.below(FILES))
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..40 => self.write(),
            40..48 => self.cut(),
            48..54 => self.name(),
            54..60 => self.attributes(),
            60..80 => {
                let path = self.path();
                self.fsync(&path)
            }
            80..82 => self.fsync_dir(),
            82..83 => expected("sync", self.posix.sync()).map(drop),
            _ => {
                granary_sim::sleep(Nanos(50_000 + self.random.below(2_000_000)));
                Ok(())
            }
        }
    }

    /// A page near the start, or one far behind.
    fn place(&mut self) -> u64 {
        let far = self.random.chance(0.6);
        self.random.below(if far { REACH } else { 40_000 })
    }

    fn write(&mut self) -> Result<(), String> {
        let path = self.path();
        let mut flags = OpenFlags::RDWR | OpenFlags::CREAT;
        if self.random.chance(0.15) {
            flags |= OpenFlags::DIRECT;
        }
        if self.random.chance(0.1) {
            flags |= OpenFlags::TRUNC;
        }
        let fd = self.posix.open(&path, flags, 0o644);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        for _ in 0..1 + self.random.below(3) {
            let at = self.place();
            let (at, len) = match flags.contains(OpenFlags::DIRECT) {
                true => (at / 4096 * 4096, 4096 * (1 + self.random.below(3))),
                false => (at, 1 + self.random.below(9000)),
            };
            let data = Payload::Fill { word: 1, len: len as usize };
            expected("write", self.posix.pwrite(fd, data, at)).map(drop)?;
        }
        if self.random.chance(0.8) {
            return expected("close", self.posix.close(fd)).map(drop);
        }
        // A commit or a checkpoint takes what memory has of the inode; then it leaves memory.
        self.fsync_dir()?;
        expected("close", self.posix.close(fd))?;
        for n in 0..FILES {
            expected("stat", self.posix.stat(format!("{}/l{n}", dir(self.id))))?;
        }
        self.fsync(&path)
    }

    /// Cuts or grows a file, reserves or punches.
    fn cut(&mut self) -> Result<(), String> {
        let path = self.path();
        let fd = self.posix.open(&path, OpenFlags::RDWR, 0);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        let (at, len) = (self.place(), 1 + self.random.below(30_000));
        match self.random.below(6) {
            0 => {
                expected("reserve", self.posix.fallocate(fd, Allocate::Reserve { keep_size: true }, at, len))?
            }
            1 => expected("punch", self.posix.fallocate(fd, Allocate::PunchHole, at, len))?,
            // A later write into holes changes pointers and nothing else.
            2..4 => expected("grow", self.posix.ftruncate(fd, REACH))?,
            _ => expected("truncate", self.posix.ftruncate(fd, at))?,
        };
        expected("close", self.posix.close(fd)).map(drop)
    }

    fn name(&mut self) -> Result<(), String> {
        let (a, b) = (self.path(), self.path());
        match self.random.below(4) {
            0 => expected("unlink", self.posix.unlink(&a)),
            1 => expected("link", self.posix.link(&a, &b)),
            _ => expected("rename", self.posix.rename(&a, &b)),
        }
        .map(drop)
    }

    fn attributes(&mut self) -> Result<(), String> {
        let path = self.path();
        let byte = self.random.next_u64() as u8;
        match self.random.below(3) {
            0 => expected("chmod", self.posix.chmod(&path, 0o600 + u16::from(byte & 0o77))),
            1 => expected("removexattr", self.posix.removexattr(&path, b"user.a")),
            _ => {
                // Few values: files that have the same may share a block.
                let value = vec![byte % 3; [8, 150, 2500][self.random.below(3) as usize]];
                expected("setxattr", self.posix.setxattr(&path, b"user.a", &value, SetXattr::Any))
            }
        }
        .map(drop)
    }

    /// Of what was written at some time before.
    fn fsync(&mut self, path: &str) -> Result<(), String> {
        expected("fsync", fsync(&mut self.posix, &mut self.random, path)).map(drop)
    }

    fn fsync_dir(&mut self) -> Result<(), String> {
        expected("fsync", fsync_dir(&mut self.posix, &dir(self.id))).map(drop)
    }
}
