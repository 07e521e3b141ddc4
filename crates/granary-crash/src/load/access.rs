//! [`Rights`]: who may do what with a file: permission and set-id bits, owners, access lists, attributes that
//! grow, times.
//!
//! ```text
//!   /x0/n0 ... n4     files and directories of client 0, each with attributes from nothing to several blocks
//!   /x0/list          a directory whose default list everything made in it gets
//! ```
//!
//! Attributes begin in the inode, go to a block of their own, are shared by files that have the same, and
//! come back. Each call changes one inode and, with access lists, the mode as well.

use super::torture::expected;
use super::{Clients, Load, at_once, fsync, fsync_dir};
use crate::recorded::Recorded;
use granary_fs::{SetXattr, Time};
use granary_sim::rng::Stream;
use granary_units::Payload;
use granary_vfs::{OpenFlags, Posix, Process, SetTime};

/// The load of attributes.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// Tasks that work at once.
    pub clients: u32,
    /// Operations of each.
    pub ops: u32,
}

impl Default for Rights {
    /// Three clients, 80 operations each.
    fn default() -> Rights {
        Rights { clients: 3, ops: 80 }
    }
}

const NAMES: u64 = 5;
const SIZES: [usize; 9] = [0, 1, 30, 90, 200, 700, 1500, 3000, 3900];

impl Load for Rights {
    fn name(&self) -> &str {
        "access"
    }

    fn run(&self, clients: &Clients, _round: u32, random: &mut Stream) -> Result<(), String> {
        let mut first = clients.client();
        for id in 0..self.clients {
            expected("mkdir", first.mkdir(dir(id), 0o755))?;
            expected("mkdir", first.mkdir(format!("{}/list", dir(id)), 0o2775))?;
        }
        first.into_inner().exit();
        let ops = self.ops;
        at_once(self.name(), self.clients, clients, random, |id, posix, random| {
            let mut one = One { id, posix, random };
            move || (0..ops).try_for_each(|_| one.step()).map(|()| one.posix)
        })
    }
}

fn dir(id: u32) -> String {
    format!("/x{id}")
}

/// An access list in the form of the kernel: owner, perhaps a user, group, perhaps a mask, others.
fn list(owner: u16, user: Option<(u32, u16)>, group: u16, others: u16) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut value = 2u32.to_le_bytes().to_vec();
    let mut entry = |tag: u16, bits: u16, id: u32| {
        value.extend(tag.to_le_bytes().into_iter().chain(bits.to_le_bytes()).chain(id.to_le_bytes()));
    };
    entry(1, owner, NOBODY);
    if let Some((id, bits)) = user {
        entry(2, bits, id);
    }
    entry(4, group, NOBODY);
    if let Some((_, bits)) = user {
        entry(0x10, bits | group, NOBODY);
    }
    entry(0x20, others, NOBODY);
    value
}

struct One {
    id: u32,
    posix: Recorded<Process>,
    random: Stream,
}

impl One {
    fn path(&mut self) -> String {
        let list = if self.random.chance(0.25) { "/list" } else { "" };
        format!("{}{list}/n{}", dir(self.id), self.random.below(NAMES))
    }

    fn step(&mut self) -> Result<(), String> {
        let path = self.path();
        match self.random.below(100) {
            0..14 => self.make(&path),
            14..34 => self.attribute(&path),
            34..40 => {
                let name = self.name();
                expected("removexattr", self.posix.removexattr(&path, &name)).map(drop)
            }
            40..50 => self.list(&path),
            50..60 => {
                let bits = [0, 0o4000, 0o2000, 0o6000, 0o1000][self.random.below(5) as usize];
                let mode = bits | 0o400 | self.random.below(0o400) as u16;
                expected("chmod", self.posix.chmod(&path, mode)).map(drop)
            }
            60..67 => {
                let mut id = || self.random.chance(0.7).then(|| self.random.below(5) as u32);
                let (uid, gid) = (id(), id());
                expected("chown", self.posix.chown(&path, uid, gid)).map(drop)
            }
            67..73 => {
                let mut time = || match self.random.below(4) {
                    0 => SetTime::Omit,
                    1 => SetTime::Now,
                    _ => SetTime::At(Time(self.random.below(1 << 60) as i64)),
                };
                let (atime, mtime) = (time(), time());
                expected("utimens", self.posix.utimens(&path, atime, mtime)).map(drop)
            }
            73..78 => {
                let other = self.path();
                expected("rename", self.posix.rename(&path, other)).map(drop)
            }
            78..82 => expected("unlink", self.posix.unlink(&path)).map(drop),
            82..84 => expected("rmdir", self.posix.rmdir(&path)).map(drop),
            84..95 => expected("fsync", fsync(&mut self.posix, &mut self.random, &path)).map(drop),
            95..98 => expected("fsync", fsync_dir(&mut self.posix, &dir(self.id))).map(drop),
            _ => expected("sync", self.posix.sync()).map(drop),
        }
    }

    fn make(&mut self, path: &str) -> Result<(), String> {
        if self.random.chance(0.2) {
            return expected("mkdir", self.posix.mkdir(path, 0o777)).map(drop);
        }
        let fd = self.posix.open(path, OpenFlags::RDWR | OpenFlags::CREAT, 0o666);
        let Some(fd) = expected("open", fd)? else { return Ok(()) };
        let (at, len) = (self.random.below(9000), 1 + self.random.below(5000) as usize);
        expected("write", self.posix.pwrite(fd, Payload::Fill { word: 1, len }, at))?;
        expected("close", self.posix.close(fd)).map(drop)
    }

    fn name(&mut self) -> Vec<u8> {
        let space = if self.random.chance(0.8) { "user" } else { "trusted" };
        format!("{space}.name{}", self.random.below(4)).into_bytes()
    }

    fn attribute(&mut self, path: &str) -> Result<(), String> {
        let name = self.name();
        let len = SIZES[self.random.below(SIZES.len() as u64) as usize];
        // Of its own, or one that others have: they may share a block.
        let value: Vec<u8> = match self.random.below(3) {
            0 => (0..len).map(|_| self.random.next_u64() as u8).collect(),
            byte => vec![byte as u8; len],
        };
        let how = match self.random.below(8) {
            0 => SetXattr::Create,
            1 => SetXattr::Replace,
            _ => SetXattr::Any,
        };
        passed("setxattr", self.posix.setxattr(path, &name, &value, how))
    }

    /// Sets or removes an access list, or the default list of the directory.
    fn list(&mut self, path: &str) -> Result<(), String> {
        let mut bits = || self.random.below(8) as u16;
        let (owner, group, others, more) = (bits() | 4, bits(), bits(), bits());
        let user = self.random.chance(0.7).then(|| (self.random.below(9) as u32, more));
        let value = list(owner, user, group, others);
        let (path, name) = match self.random.below(3) {
            0 => (format!("{}/list", dir(self.id)), &b"system.posix_acl_default"[..]),
            _ => (path.to_owned(), &b"system.posix_acl_access"[..]),
        };
        if self.random.chance(0.2) {
            return passed("removexattr", self.posix.removexattr(path, name));
        }
        passed("setxattr", self.posix.setxattr(path, name, &value, SetXattr::Any))
    }
}

/// Passes over the errors of attributes that are too large for a file system, too.
fn passed(what: &str, result: granary_fs::Result<()>) -> Result<(), String> {
    match result {
        Err(granary_fs::FsError::Range | granary_fs::FsError::TooLong) => Ok(()),
        other => expected(what, other).map(drop),
    }
}
