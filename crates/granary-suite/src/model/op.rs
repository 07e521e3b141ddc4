//! [`Op`]: one call, and what it may show.

use granary_fs::{Allocate, FileKind, FsError, RenameFlags, SetXattr};
use granary_units::Payload;
use granary_vfs::{Access, Fd, MapHow, MapId, OpenFlags, Stat, Whence};

/// Data to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Bytes that depend on the seed and the place, no two lines alike.
    Bytes {
        /// Seed.
        seed: u8,
        /// Length.
        len: usize,
    },
    /// One repeated word.
    Fill {
        /// The word.
        word: u64,
        /// Length.
        len: usize,
    },
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the calls of [`Posix`] and their arguments
pub enum Op {
    Open {
        path: String,
        flags: OpenFlags,
        mode: u16,
    },
    Close(Fd),
    Read {
        fd: Fd,
        len: usize,
    },
    Pread {
        fd: Fd,
        pos: u64,
        len: usize,
    },
    Write {
        fd: Fd,
        data: Data,
    },
    Pwrite {
        fd: Fd,
        pos: u64,
        data: Data,
    },
    Seek {
        fd: Fd,
        offset: i64,
        whence: Whence,
    },
    Ftruncate {
        fd: Fd,
        size: u64,
    },
    Truncate {
        path: String,
        size: u64,
    },
    Fallocate {
        fd: Fd,
        how: Allocate,
        pos: u64,
        len: u64,
    },
    Mmap {
        fd: Fd,
        pos: u64,
        len: u64,
        how: MapHow,
    },
    MapLoad {
        map: MapId,
        at: u64,
        len: usize,
    },
    MapStore {
        map: MapId,
        at: u64,
        data: Data,
    },
    Msync {
        map: MapId,
        at: u64,
        len: u64,
        wait: bool,
    },
    Munmap(MapId),
    Fsync {
        fd: Fd,
        data_only: bool,
    },
    Sync,
    Stat(String),
    Lstat(String),
    Fstat(Fd),
    Access {
        path: String,
        wanted: Access,
    },
    Chmod {
        path: String,
        mode: u16,
    },
    Chown {
        path: String,
        uid: Option<u32>,
        gid: Option<u32>,
        follow: bool,
    },
    Utimens {
        path: String,
        now: bool,
    },
    Getxattr {
        path: String,
        name: String,
    },
    Setxattr {
        path: String,
        name: String,
        data: Data,
        how: SetXattr,
    },
    Removexattr {
        path: String,
        name: String,
    },
    Listxattr(String),
    Mkdir {
        path: String,
        mode: u16,
    },
    Mknod {
        path: String,
        kind: FileKind,
        mode: u16,
    },
    Rmdir(String),
    Unlink(String),
    Rename {
        from: String,
        to: String,
        flags: RenameFlags,
    },
    Link {
        old: String,
        new: String,
    },
    OpenUnnamed {
        dir: String,
        flags: OpenFlags,
        mode: u16,
    },
    LinkOpen {
        fd: Fd,
        new: String,
    },
    Symlink {
        target: String,
        path: String,
    },
    Readlink(String),
    List(String),
    Chdir(String),
    Umask(u16),
    /// Becomes user 0, 1 or 2; see `user`.
    Become(u32),
}

/// Outcome of a call. Times, inode numbers, space taken and the sizes of directories are left out: file
/// systems may differ in them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Outcome {
    Done,
    Fd(Fd),
    Count(u64),
    Data(Vec<u8>),
    Stat(Shown),
    Names(Vec<(Vec<u8>, FileKind)>),
    Failed(FsError),
}

/// The attributes that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Shown {
    pub kind: FileKind,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub rdev: u32,
    /// 0 for directories.
    pub size: u64,
}

impl Shown {
    pub(super) fn of(stat: &Stat) -> Shown {
        let a = &stat.attr;
        let size = if a.kind == FileKind::Dir { 0 } else { a.size };
        Shown { kind: a.kind, mode: a.mode, uid: a.uid, gid: a.gid, nlink: a.nlink, rdev: a.rdev, size }
    }
}

impl Data {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match *self {
            Data::Bytes { len, .. } | Data::Fill { len, .. } => len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn bytes<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        self.give(|d| {
            let mut bytes = vec![0; d.len()];
            d.copy_to(0, &mut bytes);
            take(&bytes)
        })
    }

    pub(super) fn give<T>(&self, take: impl FnOnce(Payload<'_>) -> T) -> T {
        match *self {
            Data::Fill { word, len } => take(Payload::Fill { word, len }),
            Data::Bytes { seed, len } => {
                let byte = |i: usize| (i as u32).wrapping_mul(0x9e37_79b1).rotate_left(9) as u8 ^ seed;
                take(Payload::Bytes(&(0..len).map(byte).collect::<Vec<_>>()))
            }
        }
    }
}
