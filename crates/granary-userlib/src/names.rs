//! Calls that make, remove and change names, and ask where links lead.
//!
//! Each is one command where its paths lead into the mount (path.rs), else libc's. A rename or a link with
//! one end outside of it is the kernel's to refuse.

use crate::create::umask_now;
use crate::fail;
use crate::path::{More, Room, ask, done, may_be_there, place};
use crate::setup::setup;
use granary_direct::wire::FOLLOW;
use granary_direct::{Command, Op};
use libc::{c_char, c_uint, mode_t, size_t, ssize_t};
use std::ffi::{CStr, c_int};

const HERE: c_int = libc::AT_FDCWD;

type Done = Option<Result<(), i32>>;

/// Return value of libc's function.
pub fn returned(done: Done, kernel: impl FnOnce() -> c_int) -> c_int {
    match done {
        Some(Ok(())) => 0,
        Some(Err(errno)) => fail(errno) as c_int,
        None => kernel(),
    }
}

fn one(command: Command, dir: c_int, path: *const c_char) -> Done {
    let mut room = Room::new();
    done(ask(command, place(dir, path, &mut room)?, More::Nothing, |_, _| ()))
}

fn two(command: Command, from: (c_int, *const c_char), to: (c_int, *const c_char)) -> Done {
    let (mut first, mut second) = (Room::new(), Room::new());
    let (from, to) = (place(from.0, from.1, &mut first)?, place(to.0, to.1, &mut second)?);
    done(ask(command, from, More::PathPlace(to), |_, _| ()))
}

fn try_unlink(dir: c_int, path: *const c_char, flags: c_int) -> Done {
    let op = match flags {
        0 => Op::Unlink,
        libc::AT_REMOVEDIR => Op::Rmdir,
        _ => return None,
    };
    one(Command::new(op), dir, path)
}

/// unlink(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    returned(try_unlink(HERE, path, 0), || next!(unlink: fn(*const c_char) -> c_int, path))
}

/// rmdir(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    let done = try_unlink(HERE, path, libc::AT_REMOVEDIR);
    returned(done, || next!(rmdir: fn(*const c_char) -> c_int, path))
}

/// unlinkat(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    let kernel = || next!(unlinkat: fn(c_int, *const c_char, c_int) -> c_int, dir, path, flags);
    returned(try_unlink(dir, path, flags), kernel)
}

fn try_mkdir(dir: c_int, path: *const c_char, mode: mode_t) -> Done {
    let mut room = Room::new();
    let place = place(dir, path, &mut room)?;
    let pos = u64::from(mode & 0o7777) | (u64::from(umask_now()?) << 16);
    done(ask(Command { pos, ..Command::new(Op::Mkdir) }, place, More::Nothing, |_, _| ()))
}

/// mkdir(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    let kernel = || next!(mkdir: fn(*const c_char, mode_t) -> c_int, path, mode);
    returned(try_mkdir(HERE, path, mode), kernel)
}

/// mkdirat(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int {
    let kernel = || next!(mkdirat: fn(c_int, *const c_char, mode_t) -> c_int, dir, path, mode);
    returned(try_mkdir(dir, path, mode), kernel)
}

fn try_rename(from: (c_int, *const c_char), to: (c_int, *const c_char), flags: c_uint) -> Done {
    two(Command { flags, ..Command::new(Op::Rename) }, from, to)
}

/// rename(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let kernel = || next!(rename: fn(*const c_char, *const c_char) -> c_int, from, to);
    returned(try_rename((HERE, from), (HERE, to), 0), kernel)
}

/// renameat(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
) -> c_int {
    let kernel = || {
        next!(
            renameat: fn(c_int, *const c_char, c_int, *const c_char) -> c_int,
            from_dir, from, to_dir, to
        )
    };
    returned(try_rename((from_dir, from), (to_dir, to), 0), kernel)
}

/// renameat2(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat2(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    let kernel = || {
        next!(
            renameat2: fn(c_int, *const c_char, c_int, *const c_char, c_uint) -> c_int,
            from_dir, from, to_dir, to, flags
        )
    };
    returned(try_rename((from_dir, from), (to_dir, to), flags), kernel)
}

fn try_link(from: (c_int, *const c_char), to: (c_int, *const c_char), flags: c_int) -> Done {
    let flags = match flags {
        0 => 0,
        libc::AT_SYMLINK_FOLLOW => FOLLOW,
        _ => return None,
    };
    two(Command { flags, ..Command::new(Op::Link) }, from, to)
}

/// link(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    let kernel = || next!(link: fn(*const c_char, *const c_char) -> c_int, from, to);
    returned(try_link((HERE, from), (HERE, to), 0), kernel)
}

/// linkat(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linkat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    let kernel = || {
        next!(
            linkat: fn(c_int, *const c_char, c_int, *const c_char, c_int) -> c_int,
            from_dir, from, to_dir, to, flags
        )
    };
    returned(try_link((from_dir, from), (to_dir, to), flags), kernel)
}

fn try_symlink(target: *const c_char, dir: c_int, path: *const c_char) -> Done {
    let mut room = Room::new();
    let place = place(dir, path, &mut room)?;
    if !may_be_there(target) {
        return None;
    }
    // SAFETY: a path of the program's.
    let target = unsafe { CStr::from_ptr(target) }.to_bytes();
    done(ask(Command::new(Op::Symlink), place, More::Bytes(target), |_, _| ()))
}

/// symlink(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn symlink(target: *const c_char, path: *const c_char) -> c_int {
    let kernel = || next!(symlink: fn(*const c_char, *const c_char) -> c_int, target, path);
    returned(try_symlink(target, HERE, path), kernel)
}

/// symlinkat(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int {
    let kernel = || next!(symlinkat: fn(*const c_char, c_int, *const c_char) -> c_int, target, dir, path);
    returned(try_symlink(target, dir, path), kernel)
}

/// The target, as much of it as there is room for.
fn try_readlink(dir: c_int, path: *const c_char, to: *mut c_char, size: size_t) -> Option<ssize_t> {
    setup().filter(|setup| !setup.alone && size > 0 && may_be_there(to))?;
    let mut room = Room::new();
    let place = place(dir, path, &mut room)?;
    let mut len = 0;
    let asked = ask(Command::new(Op::Readlink), place, More::Nothing, |segment, answer| {
        if let Ok(Ok(n)) = answer.value() {
            len = (n as usize).min(size).min(granary_direct::segment::DATA);
            // SAFETY: the program's, of this size as it says.
            segment.data(unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), len) });
        }
    })?;
    Some(match asked {
        Ok(_) => len as ssize_t,
        Err(errno) => fail(errno),
    })
}

/// readlink(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: *const c_char, to: *mut c_char, size: size_t) -> ssize_t {
    try_readlink(HERE, path, to, size)
        .unwrap_or_else(|| next!(readlink: fn(*const c_char, *mut c_char, size_t) -> ssize_t, path, to, size))
}

/// readlinkat(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(
    dir: c_int,
    path: *const c_char,
    to: *mut c_char,
    size: size_t,
) -> ssize_t {
    try_readlink(dir, path, to, size).unwrap_or_else(|| {
        next!(
            readlinkat: fn(c_int, *const c_char, *mut c_char, size_t) -> ssize_t,
            dir, path, to, size
        )
    })
}

/// readlink(2) of programs with _FORTIFY_SOURCE; `known`: what the compiler knows of the buffer.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlink_chk(
    path: *const c_char,
    to: *mut c_char,
    size: size_t,
    known: size_t,
) -> ssize_t {
    let here = (size <= known).then(|| try_readlink(HERE, path, to, size)).flatten();
    here.unwrap_or_else(|| {
        next!(
            __readlink_chk: fn(*const c_char, *mut c_char, size_t, size_t) -> ssize_t,
            path, to, size, known
        )
    })
}
