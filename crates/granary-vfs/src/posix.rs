//! [`Posix`]: the system calls as a program makes them, by path and by descriptor.
//!
//! [`crate::Process`] implements them over a [`crate::Vfs`], `granary-suite`'s reference over a plain
//! in-memory model, so that a test can run one sequence of calls on both. Semantics and errnos are Linux's
//! (man section 2); paths are bytes, relative ones start at the working directory.
//!
//! It does *not* have calls that share descriptors (dup, fork).

use granary_fs::{Allocate, Attr, Cred, FileKind, FsError, Ino, RenameFlags, Result, SetXattr, StatFs, Time};
use granary_units::{Dest, Payload};

/// A file descriptor of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub u32);

/// A mapping of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapId(pub u32);

/// How a file is mapped; it can always be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MapHow {
    /// Stores change the file (MAP_SHARED); else they change the process's own copy of the page
    /// (MAP_PRIVATE).
    pub shared: bool,
    /// Stores are allowed (PROT_WRITE).
    pub write: bool,
}

bitflags::bitflags! {
    /// Flags of `open`, with Linux's values (x86-64).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpenFlags: u32 {
        /// Read only.
        const RDONLY = 0;
        /// Write only.
        const WRONLY = 0o1;
        /// Read and write.
        const RDWR = 0o2;
        /// Create the file if it does not exist.
        const CREAT = 0o100;
        /// With `CREAT`: fail if it exists.
        const EXCL = 0o200;
        /// Cut the file to no length.
        const TRUNC = 0o1000;
        /// Every write goes to the end of the file.
        const APPEND = 0o2000;
        /// Every write is followed by `fdatasync`.
        const DSYNC = 0o10000;
        /// Past the page cache.
        const DIRECT = 0o40000;
        /// Fail unless it is a directory.
        const DIRECTORY = 0o200000;
        /// Fail if the last component is a symbolic link.
        const NOFOLLOW = 0o400000;
        /// Reading leaves the access time alone.
        const NOATIME = 0o1000000;
        /// Every write is followed by `fsync` (Linux's value includes `DSYNC`).
        const SYNC = 0o4010000;
    }
}

impl OpenFlags {
    /// The two bits of the access mode.
    const ACCESS: u32 = 0o3;

    /// Whether the access mode is one of the three that exist.
    pub fn access_is_valid(self) -> bool {
        self.bits() & Self::ACCESS != Self::ACCESS
    }

    /// Opened for reading.
    pub fn reads(self) -> bool {
        self.bits() & Self::WRONLY.bits() == 0
    }

    /// Opened for writing.
    pub fn writes(self) -> bool {
        self.bits() & Self::ACCESS != 0
    }
}

/// Base of an `lseek` offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whence {
    /// The file's start.
    Set,
    /// The present position.
    Cur,
    /// The file's end.
    End,
    /// The next data at or after the offset. A file system may call zeros data.
    Data,
    /// The next hole at or after the offset; at the latest the end of the file.
    Hole,
}

bitflags::bitflags! {
    /// Rights that `access` asks for; nothing = whether the file exists.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Access: u8 {
        /// Execute, or search a directory.
        const EXEC = 1;
        /// Write.
        const WRITE = 2;
        /// Read.
        const READ = 4;
    }
}

/// Change of one of the two times by `utimens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetTime {
    /// Leave it (UTIME_OMIT).
    Omit,
    /// The present time (UTIME_NOW).
    Now,
    /// This time.
    At(Time),
}

/// Result of `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Inode number.
    pub ino: Ino,
    /// Everything else.
    pub attr: Attr,
}

/// An entry of a directory as `readdir` tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dirent {
    /// The name; "." and ".." are told too.
    pub name: Vec<u8>,
    /// The inode.
    pub ino: Ino,
    /// Kind of the inode.
    pub kind: FileKind,
}

/// The system calls of one process. Every call can fail as its manual page says, and with the file system's
/// and the drive's errors.
pub trait Posix {
    /// Opens or creates a file; the lowest free descriptor. `mode`: permission bits of a new file, before the
    /// umask.
    fn open(&mut self, path: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd>;
    /// Closes a descriptor.
    fn close(&mut self, fd: Fd) -> Result<()>;

    /// Reads from the descriptor's position and moves it. Fewer bytes only at the end of the file.
    fn read(&mut self, fd: Fd, dest: Dest<'_>) -> Result<usize>;
    /// Reads from `pos`.
    fn pread(&mut self, fd: Fd, dest: Dest<'_>, pos: u64) -> Result<usize>;
    /// Writes at the descriptor's position (O_APPEND: at the end) and moves it.
    fn write(&mut self, fd: Fd, data: Payload<'_>) -> Result<usize>;
    /// Writes at `pos` (O_APPEND: at the end, as Linux does).
    fn pwrite(&mut self, fd: Fd, data: Payload<'_>, pos: u64) -> Result<usize>;
    /// Moves the descriptor's position; returns the new one.
    fn lseek(&mut self, fd: Fd, offset: i64, whence: Whence) -> Result<u64>;
    /// Changes the size of an open file.
    fn ftruncate(&mut self, fd: Fd, size: u64) -> Result<()>;
    /// Allocates, punches or zeroes a range of an open file.
    fn fallocate(&mut self, fd: Fd, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let _ = (fd, how, pos, len);
        Err(FsError::NotSupported)
    }
    /// Copies `len` bytes at most between open files, from and to places of their own; returns how many.
    fn copy_file_range(&mut self, from: (Fd, u64), to: (Fd, u64), len: u64) -> Result<u64> {
        let _ = (from, to, len);
        Err(FsError::NotSupported)
    }
    /// Maps a range of an open file, which may be closed afterwards; the lowest free mapping.
    fn mmap(&mut self, fd: Fd, pos: u64, len: u64, how: MapHow) -> Result<MapId> {
        let _ = (fd, pos, len, how);
        Err(FsError::NotSupported)
    }
    /// Loads bytes from place `at` of a mapping; `Fault` where a program would get a signal.
    fn map_load(&mut self, map: MapId, at: u64, dest: Dest<'_>) -> Result<()> {
        let _ = (map, at, dest);
        Err(FsError::NotSupported)
    }
    /// Stores bytes at place `at` of a mapping; `Fault` where a program would get a signal.
    fn map_store(&mut self, map: MapId, at: u64, data: Payload<'_>) -> Result<()> {
        let _ = (map, at, data);
        Err(FsError::NotSupported)
    }
    /// Makes the stores into a range of a shared mapping durable; without `wait` only asks for it.
    fn msync(&mut self, map: MapId, at: u64, len: u64, wait: bool) -> Result<()> {
        let _ = (map, at, len, wait);
        Err(FsError::NotSupported)
    }
    /// Ends a mapping. Bytes stored into a shared one stay in the file.
    fn munmap(&mut self, map: MapId) -> Result<()> {
        let _ = map;
        Err(FsError::NotSupported)
    }
    /// Allows an open file's clean data to leave memory (POSIX_FADV_DONTNEED). A hint: without an
    /// implementation, the data stays.
    fn let_go(&mut self, fd: Fd) -> Result<()> {
        let _ = fd;
        Ok(())
    }
    /// Makes the file durable.
    fn fsync(&mut self, fd: Fd) -> Result<()>;
    /// Makes the file's data durable, and the attributes that are needed to read it.
    fn fdatasync(&mut self, fd: Fd) -> Result<()>;
    /// Makes everything durable.
    fn sync(&mut self) -> Result<()>;

    /// Attributes; follows a symbolic link.
    fn stat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat>;
    /// Attributes; of the link itself.
    fn lstat(&mut self, path: impl AsRef<[u8]>) -> Result<Stat>;
    /// Attributes of an open file.
    fn fstat(&mut self, fd: Fd) -> Result<Stat>;
    /// Whether the caller may do this with the file.
    fn access(&mut self, path: impl AsRef<[u8]>, wanted: Access) -> Result<()>;
    /// Changes the permission bits.
    fn chmod(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()>;
    /// Changes the permission bits of an open file.
    fn fchmod(&mut self, fd: Fd, mode: u16) -> Result<()>;
    /// Changes owner and group; `None` leaves. Follows a symbolic link.
    fn chown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()>;
    /// Changes owner and group of the link itself.
    fn lchown(&mut self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()>;
    /// Sets access and modification time.
    fn utimens(&mut self, path: impl AsRef<[u8]>, atime: SetTime, mtime: SetTime) -> Result<()>;
    /// Changes the size.
    fn truncate(&mut self, path: impl AsRef<[u8]>, size: u64) -> Result<()>;

    /// The value of an extended attribute; follows a symbolic link, as the other three.
    fn getxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<Vec<u8>> {
        let _ = (path, name);
        Err(FsError::NotSupported)
    }
    /// Sets an extended attribute.
    fn setxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let _ = (path, name, value, how);
        Err(FsError::NotSupported)
    }
    /// Removes an extended attribute.
    fn removexattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<()> {
        let _ = (path, name);
        Err(FsError::NotSupported)
    }
    /// The names of the extended attributes.
    fn listxattr(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        let _ = path;
        Err(FsError::NotSupported)
    }

    /// Makes a directory.
    fn mkdir(&mut self, path: impl AsRef<[u8]>, mode: u16) -> Result<()>;
    /// Makes a special file, or an empty regular one.
    fn mknod(&mut self, path: impl AsRef<[u8]>, kind: FileKind, mode: u16, rdev: u32) -> Result<()>;
    /// Removes an empty directory.
    fn rmdir(&mut self, path: impl AsRef<[u8]>) -> Result<()>;
    /// Removes a name that is not a directory's.
    fn unlink(&mut self, path: impl AsRef<[u8]>) -> Result<()>;
    /// Gives `from` the name `to`.
    fn rename_with(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, flags: RenameFlags)
    -> Result<()>;
    /// Gives `from` the name `to`, replacing what had it.
    fn rename(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.rename_with(from, to, RenameFlags::default())
    }
    /// A second name for a file.
    fn link(&mut self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()>;
    /// Opens a new file in a directory, without a name (O_TMPFILE), for writing at least; with `EXCL` it
    /// never gets one. Gone with its last descriptor, unless [`Posix::link_open`] names it.
    fn open_unnamed(&mut self, dir: impl AsRef<[u8]>, flags: OpenFlags, mode: u16) -> Result<Fd> {
        let _ = (dir, flags, mode);
        Err(FsError::NotSupported)
    }
    /// A name for an open file (linkat of its entry in /proc/self/fd): the first one, or one more.
    fn link_open(&mut self, fd: Fd, new: impl AsRef<[u8]>) -> Result<()> {
        let _ = (fd, new);
        Err(FsError::NotSupported)
    }
    /// A symbolic link.
    fn symlink(&mut self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()>;
    /// The target of a symbolic link.
    fn readlink(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<u8>>;
    /// Up to `max` entries of an open directory from its position on, which moves; none at the end.
    fn readdir(&mut self, fd: Fd, max: usize) -> Result<Vec<Dirent>>;
    /// All entries of a directory, "." and ".." included.
    fn list(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<Dirent>> {
        let fd = self.open(path, OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0)?;
        let mut all = Vec::new();
        let result = loop {
            match self.readdir(fd, 512) {
                Ok(part) if part.is_empty() => break Ok(()),
                Ok(part) => all.extend(part),
                Err(e) => break Err(e),
            }
        };
        self.close(fd)?;
        result.map(|()| all)
    }

    /// Changes the working directory.
    fn chdir(&mut self, path: impl AsRef<[u8]>) -> Result<()>;
    /// Space and inodes.
    fn statfs(&mut self) -> Result<StatFs>;
    /// Sets the file-creation mask; returns the old one.
    fn umask(&mut self, mask: u16) -> u16;
    /// Becomes another user (as setresuid and setgroups together do).
    fn set_cred(&mut self, cred: Cred);
}

/// Passes calls of [`Posix`] on to a field, for clients that wrap another one:
/// `forward_posix!(inner: stat, lstat)` within `impl Posix for ...`.
#[macro_export]
macro_rules! forward_posix {
    ($inner:ident: $($call:ident),+ $(,)?) => { $($crate::forward_posix_call!($inner $call);)+ };
}

/// One call of [`forward_posix!`](crate::forward_posix).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_posix_call {
    ($inner:ident stat) => {
        fn stat(&mut self, path: impl AsRef<[u8]>) -> $crate::contract::Result<$crate::Stat> {
            self.$inner.stat(path)
        }
    };
    ($inner:ident lstat) => {
        fn lstat(&mut self, path: impl AsRef<[u8]>) -> $crate::contract::Result<$crate::Stat> {
            self.$inner.lstat(path)
        }
    };
    ($inner:ident fstat) => {
        fn fstat(&mut self, fd: $crate::Fd) -> $crate::contract::Result<$crate::Stat> {
            self.$inner.fstat(fd)
        }
    };
    ($inner:ident access) => {
        fn access(&mut self, path: impl AsRef<[u8]>, wanted: $crate::Access) -> $crate::contract::Result<()> {
            self.$inner.access(path, wanted)
        }
    };
    ($inner:ident getxattr) => {
        fn getxattr(&mut self, path: impl AsRef<[u8]>, name: &[u8]) -> $crate::contract::Result<Vec<u8>> {
            self.$inner.getxattr(path, name)
        }
    };
    ($inner:ident listxattr) => {
        fn listxattr(&mut self, path: impl AsRef<[u8]>) -> $crate::contract::Result<Vec<Vec<u8>>> {
            self.$inner.listxattr(path)
        }
    };
    ($inner:ident readlink) => {
        fn readlink(&mut self, path: impl AsRef<[u8]>) -> $crate::contract::Result<Vec<u8>> {
            self.$inner.readlink(path)
        }
    };
    ($inner:ident statfs) => {
        fn statfs(&mut self) -> $crate::contract::Result<$crate::contract::StatFs> {
            self.$inner.statfs()
        }
    };
    ($inner:ident umask) => {
        fn umask(&mut self, mask: u16) -> u16 {
            self.$inner.umask(mask)
        }
    };
}
