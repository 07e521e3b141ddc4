//! Opening: the kernel does it, with all its rules. The opened file is looked at, and entered if it is a file
//! of the mount.
//!
//! `open` and its like take the permission bits as an argument that may be left out. On x86-64 and aarch64
//! such an argument is where a third one always is, so it is taken as one; libc looks at it only where the
//! flags say that it is there.

use crate::setup::setup;
use crate::{create, session, table};
use libc::{c_char, mode_t};
use rustix::fs::{AtFlags, StatxFlags, statx};
use std::ffi::c_int;

/// Enters a file that the kernel has opened into the table. Returns the descriptor, or the kernel's error.
fn opened(fd: c_int, flags: c_int) -> c_int {
    let Some(setup) = setup().filter(|_| fd >= 0) else { return fd };
    table::forget(fd);
    if flags & (libc::O_PATH | libc::O_DIRECTORY) == 0 {
        // The kernel knows these without asking: the kind, the number and the device do not change.
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::INO;
        if let Ok(s) = statx(crate::file::borrowed(fd), c"", how, wanted)
            && (s.stx_dev_major, s.stx_dev_minor) == (setup.major, setup.minor)
            && u32::from(s.stx_mode) & libc::S_IFMT == libc::S_IFREG
        {
            table::enter(fd, flags, s.stx_ino);
        }
    }
    fd
}

/// Makes a file at the server, if that is where it is to be, and has the kernel open it, by `open`; else
/// `open` alone.
fn made_or_opened(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    open: impl Fn(c_int) -> c_int,
) -> c_int {
    let Some(made) = create::make(dir, path, flags, mode) else { return opened(open(flags), flags) };
    let fd = open((flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC)) | libc::O_NOFOLLOW);
    if fd >= 0 && create::is_opened(&made, fd) {
        table::enter_with(fd, flags, made.ino, Some(made.handle));
        return fd;
    }
    session::close(made.handle);
    if fd >= 0 {
        // Somebody has put another file in its place.
        return opened(fd, flags);
    }
    // Somebody has taken it away: as if they had come first.
    opened(open(flags & !libc::O_EXCL), flags)
}

macro_rules! open {
    ($($name:ident)*) => {$(
        /// open(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            made_or_opened(libc::AT_FDCWD, path, flags, mode, |flags| {
                next!($name: fn(*const c_char, c_int; ...) -> c_int, path, flags, mode)
            })
        }
    )*};
}
open! { open open64 }

macro_rules! openat {
    ($($name:ident)*) => {$(
        /// openat(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            let open =
                |flags| next!($name: fn(c_int, *const c_char, c_int; ...) -> c_int, dir, path, flags, mode);
            made_or_opened(dir, path, flags, mode, open)
        }
    )*};
}
openat! { openat openat64 }

macro_rules! creat {
    ($($name:ident)*) => {$(
        /// creat(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, mode: mode_t) -> c_int {
            let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
            made_or_opened(libc::AT_FDCWD, path, flags, mode, |flags| {
                next!(open: fn(*const c_char, c_int; ...) -> c_int, path, flags, mode)
            })
        }
    )*};
}
creat! { creat creat64 }

macro_rules! open_checked {
    ($($name:ident)*) => {$(
        /// The function that programs with _FORTIFY_SOURCE call for open(2) without a mode.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int) -> c_int {
            opened(next!($name: fn(*const c_char, c_int) -> c_int, path, flags), flags)
        }
    )*};
}
open_checked! { __open_2 __open64_2 }

macro_rules! openat_checked {
    ($($name:ident)*) => {$(
        /// The same for openat(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
            opened(next!($name: fn(c_int, *const c_char, c_int) -> c_int, dir, path, flags), flags)
        }
    )*};
}
openat_checked! { __openat_2 __openat64_2 }
