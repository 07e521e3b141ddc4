//! Descriptors: closed, duplicated, changed. The kernel does it, the table follows.
//!
//! The library's own socket has a number, too. A program that closes everything must not close it, and one
//! that wants this number gets it: the socket goes elsewhere.

use crate::setup::leave_names;
use crate::{fail, owner, session, table};
use libc::{FILE, c_char, c_long, c_uint};
use std::ffi::c_int;

/// close(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if session::is_ours(fd) {
        return fail(libc::EBADF) as c_int;
    }
    table::forget(fd);
    next!(close: fn(c_int) -> c_int, fd)
}

/// close_range(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let range = |first: c_uint, last: c_uint| next!(close_range: fn(c_uint, c_uint, c_int) -> c_int, first, last, flags);
    let closes = flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0;
    if closes && first <= last {
        table::forget_range(first, last);
    }
    match session::our_socket().filter(|ours| closes && (first..=last).contains(ours)) {
        Some(ours) => {
            let below = if first < ours { range(first, ours - 1) } else { 0 };
            let above = if ours < last { range(ours + 1, last) } else { 0 };
            if below < 0 { below } else { above }
        }
        None => range(first, last),
    }
}

/// closefrom(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: as of close_range.
    let done = unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
    if done < 0 {
        table::forget_range(first.max(0) as u32, u32::MAX);
        next!(closefrom: fn(c_int) -> c_int, first);
    }
}

/// dup(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(old: c_int) -> c_int {
    duplicated(old, next!(dup: fn(c_int) -> c_int, old))
}

/// A number that the kernel has made a duplicate.
fn duplicated(old: c_int, new: c_int) -> c_int {
    if new >= 0 {
        table::forget(new);
        table::duplicate(old, new);
    }
    new
}

/// The number `new` is about to mean the same as `old`.
fn before_dup(old: c_int, new: c_int) {
    session::make_way(new);
    if old != new && rustix::io::fcntl_getfd(crate::file::borrowed(old.max(0))).is_ok() {
        table::forget(new);
    }
}

/// dup2(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    before_dup(old, new);
    let done = next!(dup2: fn(c_int, c_int) -> c_int, old, new);
    if done >= 0 && old != new {
        table::duplicate(old, new);
    }
    done
}

/// dup3(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    before_dup(old, new);
    let done = next!(dup3: fn(c_int, c_int, c_int) -> c_int, old, new, flags);
    if done >= 0 {
        table::duplicate(old, new);
    }
    done
}

macro_rules! fcntl {
    ($($name:ident)*) => {$(
        /// fcntl(2). Locks are the kernel's.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, what: c_int, arg: c_long) -> c_int {
            let done = next!($name: fn(c_int, c_int; ...) -> c_int, fd, what, arg);
            match what {
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => return duplicated(fd, done),
                libc::F_SETFL if done == 0 => {
                    if let Some(file) = table::file(fd) {
                        file.set_flags(arg as c_int);
                    }
                }
                _ => {}
            }
            done
        }
    )*};
}
fcntl! { fcntl fcntl64 }

/// The descriptor of a stream is about to be closed by libc itself.
fn forget_stream(stream: *mut FILE) {
    if !stream.is_null() {
        // SAFETY: the program's stream.
        table::forget(unsafe { libc::fileno(stream) });
    }
}

/// fclose(3).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fclose(stream: *mut FILE) -> c_int {
    forget_stream(stream);
    next!(fclose: fn(*mut FILE) -> c_int, stream)
}

macro_rules! freopen {
    ($($name:ident)*) => {$(
        /// freopen(3).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            path: *const c_char,
            mode: *const c_char,
            stream: *mut FILE,
        ) -> *mut FILE {
            forget_stream(stream);
            next!($name: fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE, path, mode, stream)
        }
    )*};
}
freopen! { freopen freopen64 }

/// syscall(2): the calls that close or replace a descriptor, make a process, or change the process's user,
/// root or namespace, past the functions above.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if let Some((number, flags)) = owner::cloning(number, a) {
        return owner::making(flags, || next!(syscall: fn(c_long; ...) -> c_long, number, a, b, c, d, e, f));
    }
    match number {
        libc::SYS_close => table::forget(a as c_int),
        libc::SYS_dup3 => table::forget(b as c_int),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_dup2 if a != b => table::forget(b as c_int),
        libc::SYS_close_range if c as c_uint & libc::CLOSE_RANGE_CLOEXEC == 0 => {
            table::forget_range(a as u32, b as u32);
        }
        // Of one thread alone, unlike libc's.
        libc::SYS_setuid
        | libc::SYS_setgid
        | libc::SYS_setreuid
        | libc::SYS_setregid
        | libc::SYS_setresuid
        | libc::SYS_setresgid
        | libc::SYS_setgroups
        | libc::SYS_setfsuid
        | libc::SYS_setfsgid
        | libc::SYS_capset
        | libc::SYS_chroot
        | libc::SYS_pivot_root
        | libc::SYS_unshare
        | libc::SYS_setns => {
            leave_names();
            session::start_anew();
        }
        _ => {}
    }
    next!(syscall: fn(c_long; ...) -> c_long, number, a, b, c, d, e, f)
}
