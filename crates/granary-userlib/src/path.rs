//! Paths of a program: whether they lead into the mount, and how the server is told.
//!
//! ```text
//!   /mount/a/b           the mount's root, "a/b"
//!   a/b                  the working directory, by path and number, "a/b"
//!   descriptor, a/b      the directory that it is of, by path and number, "a/b"
//! ```
//!
//! Paths are compared as text. The kernel walks paths that lead into the mount some other way (through links,
//! through "..").

use crate::file::{borrowed, name_of};
use crate::session;
use crate::setup::names;
use granary_direct::place::LONGEST;
use granary_direct::segment::Segment;
use granary_direct::{Answer, Command, PathPlace};
use libc::c_char;
use rustix::fs::{AtFlags, StatxFlags, statx};
use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;

/// Room for the path of a directory.
pub struct Room([MaybeUninit<u8>; LONGEST]);

impl Room {
    pub const fn new() -> Room {
        Room([const { MaybeUninit::uninit() }; LONGEST])
    }
}

/// The path of the working directory now, past libc's getcwd, which may allocate.
fn working_directory(room: &mut Room) -> Option<&[u8]> {
    let (to, size) = (room.0.as_mut_ptr(), LONGEST);
    // The kernel writes at most as many bytes as there is room for.
    let len = next!(syscall: fn(libc::c_long; ...) -> libc::c_long, libc::SYS_getcwd, to, size);
    let len = usize::try_from(len).ok()?.checked_sub(1)?;
    // SAFETY: the kernel has written so many, and a zero.
    Some(unsafe { std::slice::from_raw_parts(room.0.as_ptr().cast::<u8>(), len) })
}

/// The path of an open directory now.
fn open_directory(fd: c_int, room: &mut Room) -> Option<&[u8]> {
    let mut link = [0; 32];
    let link = name_of(fd, &mut link)?;
    let (path, _) = rustix::fs::readlinkat_raw(rustix::fs::CWD, link, &mut room.0[..]).ok()?;
    Some(&*path)
}

/// The number of the directory that relative paths begin at, if it is one of the mount.
fn number(dir: c_int) -> Option<u64> {
    let setup = names()?;
    let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let at = match dir {
        libc::AT_FDCWD => rustix::fs::CWD,
        0.. => borrowed(dir),
        _ => return None,
    };
    let s = statx(at, c"", how, StatxFlags::INO).ok()?;
    ((s.stx_dev_major, s.stx_dev_minor) == (setup.major, setup.minor)).then_some(s.stx_ino)
}

/// Whether a program may have something there: not in the first page, nor in the kernel's half, of which the
/// kernel says EFAULT. Other bad addresses raise a signal, as in libc's own functions that look at strings.
pub fn may_be_there<T>(at: *const T) -> bool {
    at.addr().cast_signed() > 4095
}

/// Where a program's path leads, if that is into the mount.
pub fn place<'a>(dir: c_int, path: *const c_char, room: &'a mut Room) -> Option<PathPlace<'a>> {
    let prefix = names()?.prefix.as_slice();
    if !may_be_there(path) {
        return None;
    }
    // SAFETY: a path of the program's.
    let path: &'a [u8] = unsafe { CStr::from_ptr(path) }.to_bytes();
    if path.is_empty() || path.len() >= LONGEST {
        return None;
    }
    if path.first() == Some(&b'/') {
        return path.strip_prefix(prefix).map(PathPlace::at_root);
    }
    let ino = number(dir)?;
    let base = match dir {
        libc::AT_FDCWD => working_directory(room)?,
        fd => open_directory(fd, room)?,
    };
    let root = prefix.strip_suffix(b"/").unwrap_or(prefix);
    let base = if base == root { &[] } else { base.strip_prefix(prefix)? };
    Some(PathPlace { base, ino, path })
}

/// Arguments behind the first place.
#[derive(Clone, Copy)]
pub enum More<'a> {
    Nothing,
    PathPlace(PathPlace<'a>),
    Bytes(&'a [u8]),
}

/// Asks the server for what is at a place. `take` reads the data area of an answer. `None`: it is the
/// kernel's to do; nothing was done.
///
/// The kernel is asked, too, for a call that the server forbids: it knows of the program's capabilities.
pub fn ask(
    command: Command,
    place: PathPlace<'_>,
    more: More<'_>,
    take: impl FnOnce(&Segment, &Answer),
) -> Option<Result<Answer, i32>> {
    let (answer, _) = told(command, place, more, take)?;
    Some(answer.value().ok()?.map(|_| answer))
}

/// Asks for what is to be remembered: the answer, which may be an error, and the connection that gave it.
pub fn ask_told(command: Command, place: PathPlace<'_>) -> Option<(Answer, u32)> {
    told(command, place, More::Nothing, |_, _| ())
}

fn told(
    command: Command,
    place: PathPlace<'_>,
    more: More<'_>,
    take: impl FnOnce(&Segment, &Answer),
) -> Option<(Answer, u32)> {
    let behind = match more {
        More::Nothing => 0,
        More::PathPlace(place) => place.bytes(),
        More::Bytes(bytes) if bytes.len() < LONGEST => bytes.len(),
        More::Bytes(_) => return None,
    };
    let command = Command { len: (place.bytes() + behind) as u32, ..command };
    let put = |segment: &Segment| {
        let end = place.put(segment, 0);
        match (more, end) {
            (More::PathPlace(place), Some(end)) => {
                let _ = place.put(segment, end);
            }
            (More::Bytes(bytes), Some(end)) => segment.put_data_at(end, bytes),
            _ => {}
        }
    };
    let (answer, epoch) = session::call(None, command, put, take)?;
    match answer.value().ok()? {
        Err(libc::EACCES | libc::EPERM) => None,
        _ => Some((answer, epoch)),
    }
}

/// The same for what returns nothing.
pub fn done(asked: Option<Result<Answer, i32>>) -> Option<Result<(), i32>> {
    asked.map(|answer| answer.map(drop))
}
