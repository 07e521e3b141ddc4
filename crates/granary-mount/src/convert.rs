//! FUSE's words for ours, and back: numbers, attributes, times, flags, errors.
//!
//! ```text
//!   FUSE node   1 = root          n = inode n, but the root's own number stands for inode 1, should there be
//!                                 one
//! ```

use granary_fs::{FsError, Ino, Time};
use granary_fuse::abi::Attr;
use granary_fuse::{NodeId, SetTime as Asked};
use granary_vfs::{OpenFlags, SetTime, Stat};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io;
use std::time::Duration;

/// How long the kernel may believe in a name. Nobody changes names but through it.
pub(crate) const NAME_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The same of directories where files are made by direct access: the kernel is not told each time, because
/// it would look at the directory's mode again before it opened the file.
pub(crate) const DIRECTORY_TTL: Duration = Duration::from_millis(10);
/// How long it may believe in attributes. It knows of every change but one: the space that a file takes, when
/// its pages are written back (after 30 s at the latest).
pub(crate) const ATTR_TTL: Duration = Duration::from_secs(30);

/// Translates inode numbers: a bijection.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) root: Ino,
}

impl Numbers {
    pub(crate) fn ino(self, node: NodeId) -> Ino {
        Ino(self.swap(node.0))
    }

    pub(crate) fn node(self, ino: Ino) -> NodeId {
        NodeId(self.swap(ino.0))
    }

    fn swap(self, n: u64) -> u64 {
        match n {
            1 => self.root.0,
            n if n == self.root.0 => 1,
            n => n,
        }
    }

    pub(crate) fn attr(self, stat: &Stat) -> Attr {
        let a = &stat.attr;
        let [(atime, atimensec), (mtime, mtimensec), (ctime, ctimensec)] =
            [a.atime, a.mtime, a.ctime].map(date);
        Attr {
            ino: self.node(stat.ino).0,
            size: a.size,
            blocks: a.blocks,
            atime,
            mtime,
            ctime,
            atimensec,
            mtimensec,
            ctimensec,
            mode: u32::from(a.kind.code()) << 12 | u32::from(a.mode),
            nlink: a.nlink,
            uid: a.uid,
            gid: a.gid,
            rdev: a.rdev,
            blksize: 4096,
            flags: 0,
        }
    }
}

const SECOND: i64 = 1_000_000_000;

/// Seconds and the nanoseconds after them.
fn date(t: Time) -> (u64, u32) {
    (t.0.div_euclid(SECOND) as u64, t.0.rem_euclid(SECOND) as u32)
}

pub(crate) fn set_time(t: Option<Asked>) -> SetTime {
    match t {
        None => SetTime::Omit,
        Some(Asked::Now) => SetTime::Now,
        Some(Asked::At { seconds, nanos }) => {
            let nanos = i128::from(seconds) * i128::from(SECOND) + i128::from(nanos);
            SetTime::At(Time(nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64))
        }
    }
}

/// The flags that matter to an open file. The kernel has checked the access mode, and may read a page of a
/// file that is open for writing only. It places appending writes itself; that they append is what
/// append-only files ask for.
pub(crate) fn open_flags(flags: u32) -> OpenFlags {
    let given = OFlags::from_bits_retain(flags);
    let mut out = match given & OFlags::ACCMODE {
        OFlags::RDONLY => OpenFlags::RDONLY,
        _ => OpenFlags::RDWR,
    };
    out.set(OpenFlags::DIRECT, given.contains(OFlags::DIRECT));
    out.set(OpenFlags::APPEND, given.contains(OFlags::APPEND));
    out.set(OpenFlags::NOATIME, given.contains(OFlags::NOATIME));
    // `rustix` knows one of the two only; these bits are the same on all architectures that we run on.
    out | OpenFlags::from_bits_retain(flags) & OpenFlags::SYNC
}

pub(crate) fn errno(e: &FsError) -> Errno {
    Errno::from_raw_os_error(e.errno())
}

/// The host's errno; EIO where the error has no number.
pub(crate) fn io_errno(e: &io::Error) -> Errno {
    Errno::from_io_error(e).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_node_one_and_every_number_comes_back() {
        for root in [1, 2, 77] {
            let n = Numbers { root: Ino(root) };
            assert_eq!(n.node(Ino(root)), NodeId(1));
            for i in 1..100 {
                assert_eq!(n.ino(n.node(Ino(i))), Ino(i));
            }
        }
    }

    #[test]
    fn open_flags_keep_what_matters() {
        let f = |o: OFlags| open_flags(o.bits());
        assert_eq!(f(OFlags::WRONLY | OFlags::APPEND | OFlags::TRUNC), OpenFlags::RDWR | OpenFlags::APPEND);
        assert_eq!(f(OFlags::RDONLY | OFlags::DIRECT), OpenFlags::RDONLY | OpenFlags::DIRECT);
        assert_eq!(f(OFlags::RDWR | OFlags::SYNC), OpenFlags::RDWR | OpenFlags::SYNC);
        assert_eq!(open_flags(0o10002), OpenFlags::RDWR | OpenFlags::DSYNC);
    }

    #[test]
    fn times_go_there_and_back_before_1970_too() {
        for nanos in [0, 1, -1, 1_000_000_000, -1_000_000_000, -1_200_000_000, i64::MIN, i64::MAX] {
            let (seconds, rest) = date(Time(nanos));
            let told = Some(Asked::At { seconds: seconds as i64, nanos: rest });
            assert!(matches!(set_time(told), SetTime::At(Time(n)) if n == nanos), "{nanos}");
        }
        assert_eq!(date(Time(-1_200_000_000)), (-2i64 as u64, 800_000_000));
        let far = Some(Asked::At { seconds: i64::MAX, nanos: 0 });
        assert!(matches!(set_time(far), SetTime::At(Time(i64::MAX))));
    }
}
