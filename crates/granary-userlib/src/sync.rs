//! Syncing, and the attributes of open files.
//!
//! A file that was only read has its attributes in the kernel, which answers from there. One that this program has written to past
//! it is asked of the server.

use crate::session::{self, Connected};
use crate::setup::setup;
use crate::{fail, table};
use granary_direct::{Attributes, Command, Op};
use libc::{c_char, c_uint, stat, statx as Statx};
use std::ffi::{CStr, c_int};

/// Syncs a file that the server knows from this program; what others have written through the kernel it knows, too.
fn try_sync(fd: c_int, data_only: bool) -> Option<Result<(), i32>> {
    let handle = table::file(fd)?.known_handle()?;
    let command = Command { handle: handle.handle, flags: data_only.into(), ..Command::new(Op::Sync) };
    let (answer, _) = session::call(Some(handle), command, |_| (), |_, _| ())?;
    Some(answer.value().ok()?.map(drop))
}

fn returned(done: Result<(), i32>) -> c_int {
    match done {
        Ok(()) => 0,
        Err(errno) => fail(errno) as c_int,
    }
}

/// fsync(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    match try_sync(fd, false) {
        Some(done) => returned(done),
        None => next!(fsync: fn(c_int) -> c_int, fd),
    }
}

/// fdatasync(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    match try_sync(fd, true) {
        Some(done) => returned(done),
        None => next!(fdatasync: fn(c_int) -> c_int, fd),
    }
}

fn attributes(fd: c_int) -> Option<Attributes> {
    let file = table::file(fd).filter(|file| file.is_written())?;
    let handle: Connected = file.known_handle()?;
    let command = Command { handle: handle.handle, ..Command::new(Op::Stat) };
    let (answer, _) = session::call(Some(handle), command, |_| (), |_, _| ())?;
    answer.value().ok()?.ok()?;
    Some(answer.attributes)
}

/// Fills a program's `struct stat`.
fn try_fstat(fd: c_int, to: *mut stat) -> Option<()> {
    if to.is_null() {
        return None;
    }
    let (a, setup) = (attributes(fd)?, setup()?);
    // SAFETY: all zero is a value of it.
    let mut s: stat = unsafe { std::mem::zeroed() };
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
    // SAFETY: the program's, of this type.
    unsafe { to.write(s) };
    Some(())
}

macro_rules! fstat {
    ($($name:ident)*) => {$(
        /// fstat(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, to: *mut stat) -> c_int {
            match try_fstat(fd, to) {
                Some(()) => 0,
                None => next!($name: fn(c_int, *mut stat) -> c_int, fd, to),
            }
        }
    )*};
}
fstat! { fstat fstat64 }

macro_rules! fstat_versioned {
    ($($name:ident)*) => {$(
        /// fstat(2) of programs that were built before glibc 2.33.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(version: c_int, fd: c_int, to: *mut stat) -> c_int {
            // 1: the structure of today (_STAT_VER_LINUX of x86-64).
            match (version == 1).then(|| try_fstat(fd, to)).flatten() {
                Some(()) => 0,
                None => next!($name: fn(c_int, c_int, *mut stat) -> c_int, version, fd, to),
            }
        }
    )*};
}
fstat_versioned! { __fxstat __fxstat64 }

fn try_statx(fd: c_int, path: *const c_char, flags: c_int, to: *mut Statx) -> Option<()> {
    table::file(fd)?;
    if path.is_null() || to.is_null() || flags & libc::AT_EMPTY_PATH == 0 {
        return None;
    }
    // SAFETY: a path of the program's.
    if !unsafe { CStr::from_ptr(path) }.is_empty() {
        return None;
    }
    let (a, setup) = (attributes(fd)?, setup()?);
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
    // SAFETY: the program's, of this type.
    unsafe { to.write(s) };
    Some(())
}

/// statx(2) of an open file.
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
    match try_statx(fd, path, flags, to) {
        Some(()) => 0,
        None => next!(
            statx: fn(c_int, *const c_char, c_int, c_uint, *mut Statx) -> c_int,
            fd, path, flags, mask, to
        ),
    }
}
