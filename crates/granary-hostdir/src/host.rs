//! [`Host`]: one file of the host, by descriptor.
//!
//! ```text
//!   in memory          path: O_PATH descriptor        bytes: opened through /proc/self/fd when first wanted
//!   left memory        place: (directory, name) where it was last seen; opened again from there, if it is
//!                      the same file
//!   no place is known  (made without a name, or the name that was known is gone): the descriptor stays
//! ```

use crate::errno::error;
use granary_fs::{Attr, FileKind, FsError, Ino, Result, Time, flag};
use parking_lot::Mutex;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How an O_PATH descriptor of a name is opened: of a symbolic link, the link's.
pub(crate) const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Tells files of the host apart, also two lives of one inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    /// Device: major and minor number.
    pub(crate) dev: (u32, u32),
    /// The host's inode number.
    pub(crate) ino: u64,
    /// When it was made, in nanoseconds; 0 where the host's file system does not keep that.
    pub(crate) born: i64,
}

impl Identity {
    pub(crate) fn of(stat: &Statx) -> Identity {
        let known = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = if known { time(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec).0 } else { 0 };
        Identity { dev: (stat.stx_dev_major, stat.stx_dev_minor), ino: stat.stx_ino, born }
    }

    /// Two lives of a number differ in it, unless both began in one tick of the host's clock.
    pub(crate) fn generation(&self) -> u32 {
        let mixed = (self.born as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as u32
    }
}

/// Where a file was last seen.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) dir: Arc<Host>,
    pub(crate) name: Vec<u8>,
}

/// A descriptor for bytes.
#[derive(Clone)]
struct Bytes {
    fd: Arc<OwnedFd>,
    writes: bool,
}

#[derive(Default)]
struct Open {
    path: Option<Arc<OwnedFd>>,
    bytes: Option<Bytes>,
}

/// See the module.
pub(crate) struct Host {
    number: Ino,
    identity: Identity,
    /// Nobody changes it: it is opened for reading, and its access time is left as it is.
    read_only: bool,
    open: Mutex<Open>,
    place: Mutex<Option<Place>>,
    /// Its name is newer than its directory's last fsync.
    named: AtomicBool,
}

/// The attributes of what a descriptor is of.
pub(crate) fn stat(fd: impl AsFd) -> Result<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, wanted).map_err(error)
}

fn time(seconds: i64, nanos: u32) -> Time {
    Time(seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanos)))
}

fn kind(stat: &Statx) -> Result<FileKind> {
    FileKind::from_code((stat.stx_mode >> 12) as u8).ok_or(FsError::NotSupported)
}

fn attr(stat: &Statx) -> Result<Attr> {
    let kept = (flag::IMMUTABLE | flag::APPEND | flag::NODUMP) as u64;
    Ok(Attr {
        kind: kind(stat)?,
        mode: stat.stx_mode & granary_fs::mode::ALL,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        nlink: stat.stx_nlink,
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        atime: time(stat.stx_atime.tv_sec, stat.stx_atime.tv_nsec),
        mtime: time(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        ctime: time(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        rdev: rustix::fs::makedev(stat.stx_rdev_major, stat.stx_rdev_minor) as u32,
        // The bits of statx are those of the flags.
        flags: (stat.stx_attributes.bits() & kept) as u8,
    })
}

impl Host {
    pub(crate) fn new(
        number: Ino,
        identity: Identity,
        path: Arc<OwnedFd>,
        place: Option<Place>,
        read_only: bool,
    ) -> Host {
        let open = Mutex::new(Open { path: Some(path), bytes: None });
        Host { number, identity, read_only, open, place: Mutex::new(place), named: AtomicBool::new(false) }
    }

    pub(crate) fn number(&self) -> Ino {
        self.number
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Its attributes now.
    pub(crate) fn attr(&self) -> Result<Attr> {
        attr(&stat(&*self.path()?)?)
    }

    /// It comes into memory: from now on it has a descriptor.
    ///
    /// # Errors
    /// As [`Host::path`].
    pub(crate) fn enter(&self) -> Result<()> {
        let fd = self.path()?;
        self.offer(&fd);
        Ok(())
    }

    /// An O_PATH descriptor of it, for this call where it is not in memory.
    ///
    /// # Errors
    /// `Stale` where it had left memory, and is no longer where it was last seen.
    pub(crate) fn path(&self) -> Result<Arc<OwnedFd>> {
        if let Some(fd) = &self.open.lock().path {
            return Ok(Arc::clone(fd));
        }
        let Place { dir, name } = self.place.lock().clone().ok_or(FsError::Stale)?;
        let found = rustix::fs::openat(&*dir.path()?, &name, PATH, Mode::empty());
        let found = found.map_err(|errno| match error(errno) {
            FsError::NoEntry | FsError::NotDir => FsError::Stale,
            other => other,
        })?;
        if Identity::of(&stat(&found)?) != self.identity {
            return Err(FsError::Stale);
        }
        Ok(Arc::new(found))
    }

    /// Makes a call that takes a path: the one that leads to it through its descriptor, wherever it is now.
    pub(crate) fn through_proc<T>(&self, call: impl FnOnce(&str) -> Result<T, Errno>) -> Result<T> {
        let fd = self.path()?;
        call(&format!("/proc/self/fd/{}", fd.as_raw_fd())).map_err(error)
    }

    /// Whether a descriptor of it is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open.lock().path.is_some()
    }

    /// Takes a descriptor of it where it has none.
    pub(crate) fn offer(&self, fd: &Arc<OwnedFd>) {
        self.open.lock().path.get_or_insert_with(|| Arc::clone(fd));
    }

    /// The descriptor that was opened when the file was made serves for its bytes, too.
    pub(crate) fn made_open(&self) {
        let open = &mut *self.open.lock();
        open.bytes = open.path.clone().map(|fd| Bytes { fd, writes: true });
    }

    /// A descriptor for the bytes of a file.
    pub(crate) fn bytes(&self, writes: bool) -> Result<Arc<OwnedFd>> {
        if let Some(bytes) = self.open.lock().bytes.as_ref().filter(|b| b.writes || !writes) {
            return Ok(Arc::clone(&bytes.fd));
        }
        let both = if self.read_only { Err(FsError::ReadOnly) } else { self.reopen(OFlags::RDWR) };
        let bytes = match (both, writes) {
            (Ok(fd), _) => Bytes { fd: Arc::new(fd), writes: true },
            (Err(e), true) => return Err(e),
            // A file that nobody may write can be read.
            (Err(_), false) => {
                let untouched = |how: OFlags| self.reopen(OFlags::RDONLY | how);
                Bytes { fd: Arc::new(self.leaving_times(untouched)?), writes: false }
            }
        };
        self.open.lock().bytes = Some(bytes.clone());
        Ok(bytes.fd)
    }

    /// A directory, to be read or synced, at its start.
    pub(crate) fn directory(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = self.path()?;
        self.leaving_times(|how| rustix::fs::openat(&*path, c".", flags | how, Mode::empty()).map_err(error))
    }

    /// Opens it so that reading leaves the access time, where it is to stay and this process may ask for
    /// that: the owner and the superuser may.
    fn leaving_times(&self, open: impl Fn(OFlags) -> Result<OwnedFd>) -> Result<OwnedFd> {
        match self.read_only {
            true => open(OFlags::NOATIME).or_else(|_| open(OFlags::empty())),
            false => open(OFlags::empty()),
        }
    }

    /// Opens it again, another way.
    fn reopen(&self, how: OFlags) -> Result<OwnedFd> {
        let flags = how | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        self.through_proc(|path| rustix::fs::openat(CWD, path, flags, Mode::empty()))
    }

    /// It is `name` in `dir` now; `new`: that is a change of this mount, which fsync must make durable.
    pub(crate) fn is_at(&self, dir: &Arc<Host>, name: &[u8], new: bool) {
        *self.place.lock() = Some(Place { dir: Arc::clone(dir), name: name.to_vec() });
        if new {
            self.named.store(true, Relaxed);
        }
    }

    /// It is no longer `name` in `dir`.
    pub(crate) fn is_not_at(&self, dir: &Arc<Host>, name: &[u8]) {
        let place = &mut *self.place.lock();
        if place.as_ref().is_some_and(|p| Arc::ptr_eq(&p.dir, dir) && p.name == name) {
            *place = None;
        }
    }

    /// Where it was last seen, if its name is not durable yet; from now on it counts as that.
    pub(crate) fn take_new_name(&self) -> Option<Place> {
        if self.named.swap(false, Relaxed) { self.place.lock().clone() } else { None }
    }

    /// Takes [`Host::take_new_name`] back: the new name could not be made durable.
    pub(crate) fn name_is_new(&self) {
        self.named.store(true, Relaxed);
    }

    /// It leaves memory: descriptors are closed, where it can be found again.
    pub(crate) fn leave(&self) {
        let findable = self.place.lock().is_some();
        let open = &mut *self.open.lock();
        open.bytes = None;
        if findable {
            open.path = None;
        }
    }

    /// It is gone for good: the host may free it.
    pub(crate) fn close(&self) {
        *self.place.lock() = None;
        *self.open.lock() = Open::default();
    }
}
