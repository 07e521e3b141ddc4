//! [`Sparse`]: files with pages far apart, cut and grown again, and files saved under a name of the moment
//! and renamed.
//!
//! ```text
//!   /f1.0 /f1.1   two files of client 1: pages at the borders of what one node of a tree of pointers reaches
//!   /t1 -> /s1.0, /s1.1   created, fsynced, renamed, again and again
//! ```
//!
//! So nodes come and go between two fsyncs, and a file is fsynced where another was a moment ago.

use super::torture::expected;
use super::{Clients, Load, at_once};
use crate::recorded::Recorded;
use granary_fs::SetXattr;
use granary_sim::rng::Stream;
use granary_units::Payload;
use granary_vfs::{Fd, OpenFlags, Posix, Process};

/// The sparse load.
#[derive(Clone, Copy, Debug)]
pub struct Sparse {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
}

impl Default for Sparse {
    /// Two clients, 60 operations each, files up to 20 MiB with few pages.
    fn default() -> Sparse {
        Sparse { clients: 2, ops: 60 }
    }
}

/// Pages: around the ends of an inode of F2FS, of its two direct nodes, of children of its first tree, and in
/// between.
const PAGES: &[u64] = &[0, 3, 511, 512, 872, 873, 1200, 1890, 1891, 2500, 2908, 2909, 3500, 3927, 4500, 4945];
const FILES: u64 = 2;

impl Load for Sparse {
    fn name(&self) -> &str {
        "sparse"
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
        match self.random.below(100) {
            0..75 => self.change(),
            75..97 => self.save(),
            _ => expected("sync", self.posix.sync()).map(drop),
        }
    }

    fn place(&mut self) -> u64 {
        PAGES[self.random.below(PAGES.len() as u64) as usize] * 4096
    }

    fn sync(&mut self, fd: Fd) -> Result<(), String> {
        let result = if self.random.chance(0.3) { self.posix.fdatasync(fd) } else { self.posix.fsync(fd) };
        expected("fsync", result).map(drop)
    }

    /// Some changes of one file.
    fn change(&mut self) -> Result<(), String> {
        let path = format!("/f{}.{}", self.id, self.random.below(FILES));
        let fd = self.posix.open(&path, OpenFlags::RDWR | OpenFlags::CREAT, 0o644);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        for _ in 0..1 + self.random.below(3) {
            let at = self.place() + if self.random.chance(0.3) { self.random.below(4096) } else { 0 };
            match self.random.below(10) {
                0..5 => {
                    let len = 1 + self.random.below(5000) as usize;
                    expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len }, at)).map(drop)?;
                }
                5..8 => expected("truncate", self.posix.ftruncate(fd, at)).map(drop)?,
                8 => {
                    // Few values: files that have the same may share a block.
                    let byte = self.random.below(3) as u8;
                    let value = vec![byte; [10, 100, 3000][self.random.below(3) as usize]];
                    let set = self.posix.setxattr(&path, b"user.a", &value, SetXattr::Any);
                    expected("setxattr", set)?;
                }
                _ => expected("removexattr", self.posix.removexattr(&path, b"user.a")).map(drop)?,
            }
        }
        if self.random.chance(0.6) {
            self.sync(fd)?;
        }
        expected("close", self.posix.close(fd)).map(drop)
    }

    /// Saves a file as editors and mail servers do; sometimes the one before goes on to a third name, or
    /// away.
    fn save(&mut self) -> Result<(), String> {
        let (tmp, to) = (format!("/t{}", self.id), format!("/s{}.{}", self.id, self.random.below(FILES)));
        match self.random.below(8) {
            0 => expected("rename", self.posix.rename(&to, format!("{to}~"))).map(drop)?,
            1 => expected("unlink", self.posix.unlink(&to)).map(drop)?,
            _ => {}
        }
        let fd = self.posix.open(&tmp, OpenFlags::RDWR | OpenFlags::CREAT | OpenFlags::EXCL, 0o644);
        if let Some(fd) = expected("create", fd)? {
            let len = 1 + self.random.below(9000) as usize;
            expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len }, 0))?;
            if self.random.chance(0.8) {
                self.sync(fd)?;
            }
            expected("close", self.posix.close(fd))?;
        }
        match self.random.below(10) {
            0 => expected("unlink", self.posix.unlink(&tmp)).map(drop),
            1 => Ok(()),
            _ => expected("rename", self.posix.rename(&tmp, &to)).map(drop),
        }
    }
}
