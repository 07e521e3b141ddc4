//! Attributes: of open files, of paths.
//!
//! A file that was only read has its attributes in the kernel, which answers from there. One that this
//! program has written to past it is asked of the server; so is what a path in the mount leads to, unless the
//! process has one processor: what the kernel knows it then says faster.

use crate::path::{Room, ask_told, may_be_there, place};
use crate::session::{self, Connected};
use crate::setup::{Setup, setup};
use crate::{cache, fail, table};
use granary_direct::wire::FOLLOW;
use granary_direct::{Attributes, Command, Op};
use libc::{c_char, c_uint, stat as Stat, statx as Statx};
use std::ffi::c_int;

fn of_open(fd: c_int) -> Option<Attributes> {
    let file = table::file(fd).filter(|file| file.is_written())?;
    let handle: Connected = file.known_handle()?;
    let command = Command { handle: handle.handle, ..Command::new(Op::Stat) };
    let (answer, _) = session::call(Some(handle), command, |_| (), |_, _| ())?;
    answer.value().ok()?.ok()?;
    Some(answer.attributes)
}

fn of_path(dir: c_int, path: *const c_char, follow: bool) -> Option<Result<Attributes, i32>> {
    setup().filter(|setup| !setup.alone)?;
    let mut room = Room::new();
    let place = place(dir, path, &mut room)?;
    let told = match cache::path(&place, follow) {
        Some(told) => told,
        None => {
            let flags = if follow { FOLLOW } else { 0 };
            let command = Command { flags, ..Command::new(Op::StatPath) };
            let (told, epoch) = ask_told(command, place)?;
            cache::keep_path(&place, follow, &told, epoch);
            told
        }
    };
    match told.value().ok()? {
        Ok(_) => Some(Ok(told.attributes)),
        Err(errno) => Some(Err(errno)),
    }
}

/// Whether a path is the empty one, which with AT_EMPTY_PATH stands for the descriptor.
fn is_empty(path: *const c_char) -> bool {
    // SAFETY: a path of the program's, which ends with a zero.
    may_be_there(path) && unsafe { *path } == 0
}

/// Attributes of what a call with a descriptor, a path and `AT_...` flags means.
fn found(dir: c_int, path: *const c_char, flags: c_int) -> Option<Result<Attributes, i32>> {
    const SYNC: c_int = libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;
    let known = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_EMPTY_PATH | SYNC;
    if flags & !known != 0 {
        return None;
    }
    match is_empty(path) {
        true if flags & libc::AT_EMPTY_PATH != 0 => of_open(dir).map(Ok),
        true => None,
        false => of_path(dir, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0),
    }
}

/// Gives a program what it has asked for, by `fill`.
fn told<T>(
    found: Option<Result<Attributes, i32>>,
    to: *mut T,
    fill: fn(&Setup, &Attributes) -> T,
) -> Option<c_int> {
    if !may_be_there(to) {
        return None;
    }
    let setup = setup()?;
    match found? {
        Ok(attributes) => {
            // SAFETY: the program's, of this type.
            unsafe { to.write(fill(setup, &attributes)) };
            Some(0)
        }
        Err(errno) => Some(fail(errno) as c_int),
    }
}

fn as_stat(setup: &Setup, a: &Attributes) -> Stat {
    // SAFETY: all zero is a value of it.
    let mut s: Stat = unsafe { std::mem::zeroed() };
    s.st_dev = libc::makedev(setup.major, setup.minor);
    s.st_ino = a.ino;
    s.st_mode = a.mode;
    s.st_nlink = a.nlink.into();
    s.st_uid = a.uid;
    s.st_gid = a.gid;
    s.st_rdev = a.rdev.into();
    s.st_size = a.size as i64;
    s.st_blksize = 4096;
    s.st_blocks = a.blocks as i64;
    [s.st_atime, s.st_mtime, s.st_ctime] = a.seconds;
    [s.st_atime_nsec, s.st_mtime_nsec, s.st_ctime_nsec] = a.nanos.map(i64::from);
    s
}

fn as_statx(setup: &Setup, a: &Attributes) -> Statx {
    // SAFETY: all zero is a value of it.
    let mut s: Statx = unsafe { std::mem::zeroed() };
    s.stx_mask = libc::STATX_BASIC_STATS;
    s.stx_blksize = 4096;
    (s.stx_nlink, s.stx_uid, s.stx_gid, s.stx_mode) = (a.nlink, a.uid, a.gid, a.mode as u16);
    (s.stx_ino, s.stx_size, s.stx_blocks) = (a.ino, a.size, a.blocks);
    let [atime, mtime, ctime] = [0, 1, 2].map(|i| (a.seconds[i], a.nanos[i]));
    (s.stx_atime.tv_sec, s.stx_atime.tv_nsec) = atime;
    (s.stx_mtime.tv_sec, s.stx_mtime.tv_nsec) = mtime;
    (s.stx_ctime.tv_sec, s.stx_ctime.tv_nsec) = ctime;
    (s.stx_dev_major, s.stx_dev_minor) = (setup.major, setup.minor);
    (s.stx_rdev_major, s.stx_rdev_minor) = (libc::major(a.rdev.into()), libc::minor(a.rdev.into()));
    s
}

macro_rules! fstat {
    ($($name:ident)*) => {$(
        /// fstat(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, to: *mut Stat) -> c_int {
            told(of_open(fd).map(Ok), to, as_stat)
                .unwrap_or_else(|| next!($name: fn(c_int, *mut Stat) -> c_int, fd, to))
        }
    )*};
}
fstat! { fstat fstat64 }

macro_rules! stat {
    ($($name:ident $flags:expr;)*) => {$(
        /// stat(2), lstat(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, to: *mut Stat) -> c_int {
            told(found(libc::AT_FDCWD, path, $flags), to, as_stat)
                .unwrap_or_else(|| next!($name: fn(*const c_char, *mut Stat) -> c_int, path, to))
        }
    )*};
}
stat! {
    stat 0;
    stat64 0;
    lstat libc::AT_SYMLINK_NOFOLLOW;
    lstat64 libc::AT_SYMLINK_NOFOLLOW;
}

macro_rules! fstatat {
    ($($name:ident)*) => {$(
        /// fstatat(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(dir: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int {
            told(found(dir, path, flags), to, as_stat).unwrap_or_else(|| {
                next!($name: fn(c_int, *const c_char, *mut Stat, c_int) -> c_int, dir, path, to, flags)
            })
        }
    )*};
}
fstatat! { fstatat fstatat64 }

/// The structure of today (_STAT_VER_LINUX of x86-64) is meant.
const TODAY: c_int = 1;

macro_rules! fstat_versioned {
    ($($name:ident)*) => {$(
        /// fstat(2) of programs that were built before glibc 2.33.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(version: c_int, fd: c_int, to: *mut Stat) -> c_int {
            (version == TODAY)
                .then(|| told(of_open(fd).map(Ok), to, as_stat))
                .flatten()
                .unwrap_or_else(|| next!($name: fn(c_int, c_int, *mut Stat) -> c_int, version, fd, to))
        }
    )*};
}
fstat_versioned! { __fxstat __fxstat64 }

macro_rules! stat_versioned {
    ($($name:ident $flags:expr;)*) => {$(
        /// stat(2), lstat(2) of such programs.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(version: c_int, path: *const c_char, to: *mut Stat) -> c_int {
            (version == TODAY)
                .then(|| told(found(libc::AT_FDCWD, path, $flags), to, as_stat))
                .flatten()
                .unwrap_or_else(|| {
                    next!($name: fn(c_int, *const c_char, *mut Stat) -> c_int, version, path, to)
                })
        }
    )*};
}
stat_versioned! {
    __xstat 0;
    __xstat64 0;
    __lxstat libc::AT_SYMLINK_NOFOLLOW;
    __lxstat64 libc::AT_SYMLINK_NOFOLLOW;
}

macro_rules! fstatat_versioned {
    ($($name:ident)*) => {$(
        /// fstatat(2) of such programs.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            version: c_int,
            dir: c_int,
            path: *const c_char,
            to: *mut Stat,
            flags: c_int,
        ) -> c_int {
            (version == TODAY).then(|| told(found(dir, path, flags), to, as_stat)).flatten().unwrap_or_else(|| {
                next!(
                    $name: fn(c_int, c_int, *const c_char, *mut Stat, c_int) -> c_int,
                    version, dir, path, to, flags
                )
            })
        }
    )*};
}
fstatat_versioned! { __fxstatat __fxstatat64 }

/// statx(2). The kernel answers requests for more than the basic attributes.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    fd: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut Statx,
) -> c_int {
    // Times of birth are asked for by many; no view of the mount tells one.
    let known = mask & !(libc::STATX_BASIC_STATS | libc::STATX_BTIME) == 0;
    known.then(|| told(found(fd, path, flags), to, as_statx)).flatten().unwrap_or_else(|| {
        next!(
            statx: fn(c_int, *const c_char, c_int, c_uint, *mut Statx) -> c_int,
            fd, path, flags, mask, to
        )
    })
}
