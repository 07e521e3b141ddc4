//! Reading and writing.
//!
//! ```text
//!   pread, pwrite      one command for each MiB
//!   read, write        the same at the kernel's position, which is moved afterwards; by one thread at a time
//! ```
//!
//! Strange calls (nothing to move, negative positions, no memory) are the kernel's to answer.

use crate::file::{File, Source, borrowed};
use crate::session::{self, Connected};
use crate::{alive, cache, fail, table};
use granary_direct::segment::{DATA, Segment};
use granary_direct::{Answer, Command, Op, SeeKernel};
use libc::{off_t, size_t, ssize_t};
use rustix::fs::{SeekFrom, seek, tell};
use std::ffi::{c_int, c_void};

/// Bytes that went, and where the next one is; or an errno.
pub type Moved = Result<(usize, u64), i32>;

/// Most bytes of one call (MAX_RW_COUNT of Linux's include/linux/fs.h).
const MOST: usize = 0x7fff_f000;

/// Asks the server to move some bytes: with the memory, at most [`DATA`].
pub fn one_read(
    handle: Connected,
    pos: u64,
    len: usize,
    to: impl FnOnce(&Segment, &Answer, usize),
) -> Option<Result<usize, i32>> {
    let command = Command { handle: handle.handle, pos, len: len as u32, ..Command::new(Op::Read) };
    let take = |segment: &_, answer: &Answer| {
        if let Ok(Ok(n)) = answer.value() {
            to(segment, answer, (n as usize).min(len));
        }
    };
    let (answer, _) = session::call(Some(handle), command, |_| (), take)?;
    match answer.value() {
        Ok(Ok(n)) => Some(Ok((n as usize).min(len))),
        Ok(Err(errno)) => Some(Err(errno)),
        Err(SeeKernel) => None,
    }
}

/// The same for a write.
pub fn one_write(handle: Connected, pos: u64, len: usize, from: impl FnOnce(&Segment)) -> Option<Moved> {
    let command = Command { handle: handle.handle, pos, len: len as u32, ..Command::new(Op::Write) };
    let (answer, _) = session::call(Some(handle), command, from, |_, _| ())?;
    match answer.value() {
        Ok(Ok(n)) => Some(Ok(((n as usize).min(len), answer.pos.saturating_add(n)))),
        Ok(Err(errno)) => Some(Err(errno)),
        Err(SeeKernel) => None,
    }
}

fn read_at(file: &File, fd: c_int, pos: u64, buf: *mut c_void, len: usize) -> Option<Moved> {
    if !file.reads_here() {
        return None;
    }
    let handle = file.handle(fd)?;
    let source = file.source(handle);
    let (len, mut done) = (len.min(MOST), 0);
    while done < len {
        let part = (len - done).min(DATA);
        // SAFETY: within the program's memory of `len` bytes, as it says.
        let to = unsafe { std::slice::from_raw_parts_mut(buf.cast::<u8>().add(done), part) };
        if len <= cache::PAGE
            && let Some(n) = source.and_then(|source| remembered(source, pos, to))
        {
            return Some(Ok((n, pos + n as u64)));
        }
        let at = pos + done as u64;
        let take = |segment: &Segment, answer: &Answer, n: usize| {
            segment.data(&mut to[..n]);
            if let Some(source) = source
                && file.was_read(answer.version)
            {
                cache::keep(source, answer, at, n, n < part, |from, to| segment.data_at(from, to));
            }
        };
        let n = match one_read(handle, at, part, take) {
            Some(Ok(n)) => n,
            None if done == 0 => return None,
            Some(Err(errno)) if done == 0 => return Some(Err(errno)),
            _ => 0,
        };
        done += n;
        if n < part {
            break;
        }
    }
    Some(Ok((done, pos + done as u64)))
}

/// Reads a remembered page; of the present connection, whose server lives.
fn remembered(source: Source, pos: u64, to: &mut [u8]) -> Option<usize> {
    if alive::connection() == Some(source.epoch) { cache::read(source, pos, to) } else { None }
}

fn write_at(file: &File, fd: c_int, pos: u64, buf: *const c_void, len: usize) -> Option<Moved> {
    if !file.may_grow() {
        return None;
    }
    let handle = file.handle(fd)?;
    file.writes();
    let (len, mut done, mut end) = (len.min(MOST), 0, pos);
    while done < len {
        let part = (len - done).min(DATA);
        // SAFETY: within the program's memory of `len` bytes, as it says.
        let from = unsafe { std::slice::from_raw_parts(buf.cast::<u8>().add(done), part) };
        let n = match one_write(handle, pos + done as u64, part, |segment| segment.put_data(from)) {
            Some(Ok((n, after))) => {
                end = after;
                n
            }
            None if done == 0 => return None,
            Some(Err(errno)) if done == 0 => return Some(Err(errno)),
            _ => 0,
        };
        done += n;
        if n < part {
            break;
        }
    }
    Some(Ok((done, end)))
}

/// Return value of libc's function.
pub fn returned(moved: Moved) -> ssize_t {
    match moved {
        Ok((n, _)) => n as ssize_t,
        Err(errno) => fail(errno),
    }
}

/// Does it at the file's position, and moves that; by libc's function, `kernel`, where it is not done here.
/// That comes under the same lock: another thread of this program may be between the position and its change.
pub fn at_position(
    fd: c_int,
    file: &'static File,
    f: impl FnOnce(u64) -> Option<Moved>,
    kernel: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(_moving) = file.moving() else { return kernel() };
    let at = borrowed(fd);
    match tell(at).ok().and_then(f) {
        Some(moved) => {
            if let Ok((_, after)) = moved {
                let _ = seek(at, SeekFrom::Start(after));
            }
            returned(moved)
        }
        None => kernel(),
    }
}

/// A position that a program gives.
pub fn position(pos: off_t) -> Option<u64> {
    u64::try_from(pos).ok().filter(|pos| pos.checked_add(MOST as u64).is_some_and(|end| end < 1 << 63))
}

fn here(fd: c_int, nothing: bool) -> Option<&'static File> {
    if nothing { None } else { table::file(fd) }
}

fn try_pread(fd: c_int, buf: *mut c_void, len: size_t, pos: off_t) -> Option<Moved> {
    let file = here(fd, len == 0 || buf.is_null())?;
    read_at(file, fd, position(pos)?, buf, len)
}

fn try_pwrite(fd: c_int, buf: *const c_void, len: size_t, pos: off_t) -> Option<Moved> {
    let file = here(fd, len == 0 || buf.is_null())?;
    write_at(file, fd, position(pos)?, buf, len)
}

/// read(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t {
    let kernel = || next!(read: fn(c_int, *mut c_void, size_t) -> ssize_t, fd, buf, len);
    match here(fd, len == 0 || buf.is_null()) {
        Some(file) => at_position(fd, file, |pos| read_at(file, fd, pos, buf, len), kernel),
        None => kernel(),
    }
}

/// read(2) of programs with _FORTIFY_SOURCE; `room`: what the compiler knows of the buffer.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    let kernel = || next!(__read_chk: fn(c_int, *mut c_void, size_t, size_t) -> ssize_t, fd, buf, len, room);
    match here(fd, len == 0 || len > room || buf.is_null()) {
        Some(file) => at_position(fd, file, |pos| read_at(file, fd, pos, buf, len), kernel),
        None => kernel(),
    }
}

/// write(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
    let kernel = || next!(write: fn(c_int, *const c_void, size_t) -> ssize_t, fd, buf, len);
    match here(fd, len == 0 || buf.is_null()) {
        Some(file) => at_position(fd, file, |pos| write_at(file, fd, pos, buf, len), kernel),
        None => kernel(),
    }
}

macro_rules! pread {
    ($($name:ident)*) => {$(
        /// pread(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, buf: *mut c_void, len: size_t, pos: off_t) -> ssize_t {
            match try_pread(fd, buf, len, pos) {
                Some(moved) => returned(moved),
                None => next!($name: fn(c_int, *mut c_void, size_t, off_t) -> ssize_t, fd, buf, len, pos),
            }
        }
    )*};
}
pread! { pread pread64 }

macro_rules! pread_checked {
    ($($name:ident)*) => {$(
        /// pread(2) of programs with _FORTIFY_SOURCE.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fd: c_int,
            buf: *mut c_void,
            len: size_t,
            pos: off_t,
            room: size_t,
        ) -> ssize_t {
            match (len <= room).then(|| try_pread(fd, buf, len, pos)).flatten() {
                Some(moved) => returned(moved),
                None => next!(
                    $name: fn(c_int, *mut c_void, size_t, off_t, size_t) -> ssize_t,
                    fd, buf, len, pos, room
                ),
            }
        }
    )*};
}
pread_checked! { __pread_chk __pread64_chk }

macro_rules! pwrite {
    ($($name:ident)*) => {$(
        /// pwrite(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, buf: *const c_void, len: size_t, pos: off_t) -> ssize_t {
            match try_pwrite(fd, buf, len, pos) {
                Some(moved) => returned(moved),
                None => next!($name: fn(c_int, *const c_void, size_t, off_t) -> ssize_t, fd, buf, len, pos),
            }
        }
    )*};
}
pwrite! { pwrite pwrite64 }
