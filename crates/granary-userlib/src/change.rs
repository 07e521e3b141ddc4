//! Calls that change attributes of what a path leads to, and ask what may be done with it. Those of
//! descriptors are the kernel's.

use crate::names::returned;
use crate::path::{More, Room, ask, done, may_be_there, place};
use crate::setup::{names, setup};
use granary_direct::wire::{ATIME_NOW, ATIME_OMIT, FOLLOW, MTIME_NOW, MTIME_OMIT, WANTED};
use granary_direct::{Command, Op};
use libc::{c_char, gid_t, mode_t, off_t, timespec, timeval, uid_t, utimbuf};
use std::ffi::c_int;

const HERE: c_int = libc::AT_FDCWD;

type Done = Option<Result<(), i32>>;

/// Asks for what is at a path; `at`: flags of the `...at` calls.
fn change(command: Command, dir: c_int, path: *const c_char, at: c_int) -> Done {
    let follow = match at {
        0 => FOLLOW,
        libc::AT_SYMLINK_NOFOLLOW => 0,
        _ => return None,
    };
    let mut room = Room::new();
    let place = place(dir, path, &mut room)?;
    let command = Command { flags: command.flags | follow, ..command };
    done(ask(command, place, More::Nothing, |_, _| ()))
}

fn try_chmod(dir: c_int, path: *const c_char, mode: mode_t, at: c_int) -> Done {
    change(Command { pos: mode.into(), ..Command::new(Op::Chmod) }, dir, path, at)
}

/// chmod(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chmod(path: *const c_char, mode: mode_t) -> c_int {
    returned(try_chmod(HERE, path, mode, 0), || next!(chmod: fn(*const c_char, mode_t) -> c_int, path, mode))
}

/// fchmodat(2). Of a link itself it is libc's, which refuses it or not.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchmodat(dir: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int {
    let here = (flags == 0).then(|| try_chmod(dir, path, mode, 0)).flatten();
    returned(
        here,
        || next!(fchmodat: fn(c_int, *const c_char, mode_t, c_int) -> c_int, dir, path, mode, flags),
    )
}

fn try_chown(dir: c_int, path: *const c_char, (uid, gid): (uid_t, gid_t), at: c_int) -> Done {
    let pos = u64::from(uid) | (u64::from(gid) << 32);
    change(Command { pos, ..Command::new(Op::Chown) }, dir, path, at)
}

/// chown(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int {
    returned(
        try_chown(HERE, path, (uid, gid), 0),
        || next!(chown: fn(*const c_char, uid_t, gid_t) -> c_int, path, uid, gid),
    )
}

/// lchown(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lchown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int {
    returned(
        try_chown(HERE, path, (uid, gid), libc::AT_SYMLINK_NOFOLLOW),
        || next!(lchown: fn(*const c_char, uid_t, gid_t) -> c_int, path, uid, gid),
    )
}

/// fchownat(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchownat(
    dir: c_int,
    path: *const c_char,
    uid: uid_t,
    gid: gid_t,
    flags: c_int,
) -> c_int {
    returned(try_chown(dir, path, (uid, gid), flags), || {
        next!(
            fchownat: fn(c_int, *const c_char, uid_t, gid_t, c_int) -> c_int,
            dir, path, uid, gid, flags
        )
    })
}

/// A time, as the command has it, and the flag that says what else it is. `None`: no time.
fn time(t: &timespec, now: u32, omit: u32) -> Option<(u64, u32)> {
    match t.tv_nsec {
        libc::UTIME_NOW => Some((0, now)),
        libc::UTIME_OMIT => Some((0, omit)),
        nanos @ 0..1_000_000_000 => {
            Some((t.tv_sec.checked_mul(1_000_000_000)?.checked_add(nanos)? as u64, 0))
        }
        _ => None,
    }
}

/// `times`: where those of access and of modification are, which `exact` reads; null: now.
fn try_utimens<T>(
    dir: c_int,
    path: *const c_char,
    times: *const T,
    exact: impl FnOnce(*const T) -> [timespec; 2],
    at: c_int,
) -> Done {
    let ((pos, first), (ino, second)) = match times.is_null() {
        true => ((0, ATIME_NOW), (0, MTIME_NOW)),
        false if may_be_there(times) && names().is_some() => {
            let [a, m] = exact(times);
            (time(&a, ATIME_NOW, ATIME_OMIT)?, time(&m, MTIME_NOW, MTIME_OMIT)?)
        }
        false => return None,
    };
    if (first, second) == (ATIME_OMIT, MTIME_OMIT) {
        return None;
    }
    change(Command { pos, ino, flags: first | second, ..Command::new(Op::Utimens) }, dir, path, at)
}

/// utimensat(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utimensat(
    dir: c_int,
    path: *const c_char,
    times: *const timespec,
    flags: c_int,
) -> c_int {
    // SAFETY: the program's two.
    let exact = |times: *const timespec| unsafe { [*times, *times.add(1)] };
    returned(
        try_utimens(dir, path, times, exact, flags),
        || next!(utimensat: fn(c_int, *const c_char, *const timespec, c_int) -> c_int, dir, path, times, flags),
    )
}

/// Microseconds as nanoseconds; an invalid number stays invalid.
fn exact(t: timeval) -> timespec {
    let micros = (0..1_000_000).contains(&t.tv_usec);
    timespec { tv_sec: t.tv_sec, tv_nsec: if micros { t.tv_usec * 1000 } else { -1 } }
}

macro_rules! utimes {
    ($($name:ident $flags:expr;)*) => {$(
        /// utimes(2), lutimes(3).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, times: *const timeval) -> c_int {
            // SAFETY: the program's two.
            let exact = |times: *const timeval| unsafe { [exact(*times), exact(*times.add(1))] };
            returned(try_utimens(HERE, path, times, exact, $flags), || {
                next!($name: fn(*const c_char, *const timeval) -> c_int, path, times)
            })
        }
    )*};
}
utimes! {
    utimes 0;
    lutimes libc::AT_SYMLINK_NOFOLLOW;
}

/// utime(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn utime(path: *const c_char, times: *const utimbuf) -> c_int {
    let whole = |tv_sec| timespec { tv_sec, tv_nsec: 0 };
    // SAFETY: the program's.
    let exact = |times: *const utimbuf| unsafe { [whole((*times).actime), whole((*times).modtime)] };
    returned(
        try_utimens(HERE, path, times, exact, 0),
        || next!(utime: fn(*const c_char, *const utimbuf) -> c_int, path, times),
    )
}

fn try_truncate(path: *const c_char, size: off_t) -> Done {
    setup().filter(|setup| !setup.limited)?;
    change(Command { pos: u64::try_from(size).ok()?, ..Command::new(Op::Truncate) }, HERE, path, 0)
}

macro_rules! truncate {
    ($($name:ident)*) => {$(
        /// truncate(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, size: off_t) -> c_int {
            returned(try_truncate(path, size), || next!($name: fn(*const c_char, off_t) -> c_int, path, size))
        }
    )*};
}
truncate! { truncate truncate64 }

fn try_access(dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> Done {
    setup().filter(|setup| !setup.alone && mode & !7 == 0)?;
    // It asks of the real user, the server knows the effective one.
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let one = (uid, gid) == (rustix::process::geteuid(), rustix::process::getegid());
    if flags & libc::AT_EACCESS == 0 && !one {
        return None;
    }
    let command = Command { flags: (mode as u32) << WANTED, ..Command::new(Op::Access) };
    change(command, dir, path, flags & !libc::AT_EACCESS)
}

/// access(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    returned(try_access(HERE, path, mode, 0), || next!(access: fn(*const c_char, c_int) -> c_int, path, mode))
}

/// faccessat(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    returned(
        try_access(dir, path, mode, flags),
        || next!(faccessat: fn(c_int, *const c_char, c_int, c_int) -> c_int, dir, path, mode, flags),
    )
}
