//! [`Churn`]: many names in one directory, made, renamed and removed in waves.
//!
//! ```text
//!   wave up     names of 8 to 200 bytes until the directory has several blocks      blocks split
//!   wave down   most of them go, in another order                                   blocks merge, logs of
//!                                                                                   names wrap
//! ```
//!
//! All clients use the same directories, each its own names. Few fsyncs: the property at stake is that a
//! directory is whole.

use super::torture::expected;
use super::{Clients, Load, at_once, fsync, fsync_dir};
use crate::recorded::Recorded;
use granary_fs::{FileKind, RenameFlags};
use granary_sim::rng::Stream;
use granary_units::Payload;
use granary_vfs::{OpenFlags, Posix, Process};

/// The load of names.
#[derive(Clone, Copy, Debug)]
pub struct Churn {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
}

impl Default for Churn {
    /// Two clients, 260 operations each.
    fn default() -> Churn {
        Churn { clients: 2, ops: 260 }
    }
}

const DIRS: u64 = 2;
/// Names of a client in each directory.
const NAMES: u64 = 90;
/// Operations of a wave.
const WAVE: u32 = 70;

impl Load for Churn {
    fn name(&self) -> &str {
        "churn"
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        let mut first = clients.client();
        for dir in 0..DIRS {
            expected("mkdir", first.mkdir(format!("/churn{dir}"), 0o755))?;
        }
        first.into_inner().exit();
        let ops = self.ops;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            let mut one = One { id, posix, random };
            move || (0..ops).try_for_each(|n| one.step((n / WAVE).is_multiple_of(2))).map(|()| one.posix)
        })
    }
}

struct One {
    id: u32,
    posix: Recorded<Process>,
    random: Stream,
}

impl One {
    /// A name whose length is its number's: the same name is always as long.
    fn path(&mut self) -> String {
        let (dir, n) = (self.random.below(DIRS), self.random.below(NAMES));
        let len = [4, 12, 30, 90, 190][(n % 5) as usize];
        format!("/churn{dir}/c{}.{n}.{}", self.id, "x".repeat(len))
    }

    fn step(&mut self, up: bool) -> Result<(), String> {
        let (path, other) = (self.path(), self.path());
        let (make, remove) = if up { (70, 8) } else { (12, 66) };
        match self.random.below(100) {
            n if n < make => self.make(&path, &other),
            n if n < make + remove => match self.posix.unlink(&path) {
                Err(granary_fs::FsError::IsDir) => expected("rmdir", self.posix.rmdir(&path)).map(drop),
                done => expected("unlink", done).map(drop),
            },
            n if n < make + remove + 14 => {
                let exchange = self.random.chance(0.2);
                let flags = RenameFlags { exchange, ..RenameFlags::default() };
                expected("rename", self.posix.rename_with(&path, &other, flags)).map(drop)
            }
            n if n < make + remove + 18 => {
                expected("fsync", fsync(&mut self.posix, &mut self.random, &path)).map(drop)
            }
            n if n < make + remove + 20 => {
                let dir = format!("/churn{}", self.random.below(DIRS));
                expected("fsync", fsync_dir(&mut self.posix, &dir)).map(drop)
            }
            _ => expected("sync", self.posix.sync()).map(drop),
        }
    }

    fn make(&mut self, path: &str, other: &str) -> Result<(), String> {
        match self.random.below(12) {
            0 => expected("mkdir", self.posix.mkdir(path, 0o755)).map(drop),
            1 => expected("symlink", self.posix.symlink(other, path)).map(drop),
            2 => expected("link", self.posix.link(other, path)).map(drop),
            3 | 4 => {
                let flags = OpenFlags::RDWR | OpenFlags::CREAT | OpenFlags::NOFOLLOW;
                let Some(fd) = expected("open", self.posix.open(path, flags, 0o644))? else { return Ok(()) };
                let len = 1 + self.random.below(300) as usize;
                expected("write", self.posix.write(fd, Payload::Fill { word: 1, len }))?;
                expected("close", self.posix.close(fd)).map(drop)
            }
            _ => expected("mknod", self.posix.mknod(path, FileKind::File, 0o644, 0)).map(drop),
        }
    }
}
