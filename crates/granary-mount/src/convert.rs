//! FUSE's words for ours, and back: numbers, attributes, times, flags, errors.
//!
//! ```text
//!   FUSE node   1 = root          n = inode n, but the root's own number stands for inode 1, should there be one
//! ```

use fuser::{Errno, FileAttr, FileType, Generation, INodeNo, TimeOrNow};
use granary_vfs::{FileKind, FsError, Ino, Node, OpenFlags, SetTime, Stat, Time};
use rustix::fs::OFlags;
use std::time::{Duration, SystemTime};

/// How long the kernel may believe in a name. Nobody changes names but through it.
pub(crate) const NAME_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// How long it may believe in attributes. It knows of every change but one: the space that a file takes, when its
/// pages are written back (after 30 s at the latest).
pub(crate) const ATTR_TTL: Duration = Duration::from_secs(30);

/// Translates inode numbers: a bijection.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) root: Ino,
}

impl Numbers {
    pub(crate) fn ino(self, node: INodeNo) -> Ino {
        Ino(self.swap(node.0))
    }

    pub(crate) fn node(self, ino: Ino) -> INodeNo {
        INodeNo(self.swap(ino.0))
    }

    fn swap(self, n: u64) -> u64 {
        match n {
            1 => self.root.0,
            n if n == self.root.0 => 1,
            n => n,
        }
    }

    pub(crate) fn attr(self, stat: &Stat) -> FileAttr {
        let a = &stat.attr;
        FileAttr {
            ino: self.node(stat.ino),
            size: a.size,
            blocks: a.blocks,
            atime: date(a.atime),
            mtime: date(a.mtime),
            ctime: date(a.ctime),
            crtime: SystemTime::UNIX_EPOCH,
            kind: file_type(a.kind),
            perm: a.mode,
            nlink: a.nlink,
            uid: a.uid,
            gid: a.gid,
            rdev: a.rdev,
            blksize: 4096,
            flags: 0,
        }
    }
}

/// The kernel keeps 32 bits of a generation.
pub(crate) fn generation(node: &Node) -> Generation {
    Generation(node.generation() & u64::from(u32::MAX))
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Dir => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDev => FileType::CharDevice,
        FileKind::BlockDev => FileType::BlockDevice,
    }
}

fn date(t: Time) -> SystemTime {
    let span = Duration::from_nanos(t.0.unsigned_abs());
    if t.0 >= 0 { SystemTime::UNIX_EPOCH + span } else { SystemTime::UNIX_EPOCH - span }
}

/// A time that the kernel sent. `fuser` 0.18 turns (seconds, nanoseconds) before 1970 into "that many of both before
/// 1970" where the nanoseconds count forward; this undoes it.
fn time(t: SystemTime) -> Time {
    let nanos = match t.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i128,
        Err(e) => {
            let before = e.duration();
            i128::from(before.subsec_nanos()) - i128::from(before.as_secs()) * 1_000_000_000
        }
    };
    Time(nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
}

pub(crate) fn set_time(t: Option<TimeOrNow>) -> SetTime {
    match t {
        None => SetTime::Omit,
        Some(TimeOrNow::Now) => SetTime::Now,
        Some(TimeOrNow::SpecificTime(t)) => SetTime::At(time(t)),
    }
}

/// The flags that matter to an open file. The kernel has checked the access mode, places appending writes itself, and
/// may read a page of a file that is open for writing only.
pub(crate) fn open_flags(flags: i32) -> OpenFlags {
    let given = OFlags::from_bits_retain(flags as u32);
    let mut out = match given & OFlags::ACCMODE {
        OFlags::RDONLY => OpenFlags::RDONLY,
        _ => OpenFlags::RDWR,
    };
    out.set(OpenFlags::DIRECT, given.contains(OFlags::DIRECT));
    out.set(OpenFlags::NOATIME, given.contains(OFlags::NOATIME));
    // `rustix` knows one of the two only; these bits are the same on all architectures that we run on.
    out | OpenFlags::from_bits_retain(flags as u32) & OpenFlags::SYNC
}

pub(crate) fn errno(e: &FsError) -> Errno {
    Errno::from_i32(e.errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_node_one_and_every_number_comes_back() {
        for root in [1, 2, 77] {
            let n = Numbers { root: Ino(root) };
            assert_eq!(n.node(Ino(root)), INodeNo(1));
            for i in 1..100 {
                assert_eq!(n.ino(n.node(Ino(i))), Ino(i));
            }
        }
    }

    #[test]
    fn open_flags_keep_what_matters() {
        let f = |o: OFlags| open_flags(o.bits() as i32);
        assert_eq!(f(OFlags::WRONLY | OFlags::APPEND | OFlags::TRUNC), OpenFlags::RDWR);
        assert_eq!(f(OFlags::RDONLY | OFlags::DIRECT), OpenFlags::RDONLY | OpenFlags::DIRECT);
        assert_eq!(f(OFlags::RDWR | OFlags::SYNC), OpenFlags::RDWR | OpenFlags::SYNC);
        assert_eq!(open_flags(0o10002), OpenFlags::RDWR | OpenFlags::DSYNC);
    }
}
