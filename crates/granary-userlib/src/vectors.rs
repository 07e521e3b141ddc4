//! Reading and writing in pieces: one command where all of it fits into the data area, else the kernel's.

use crate::data::{Moved, at_position, one_read, one_write, position, returned};
use crate::file::File;
use crate::table;
use granary_direct::segment::{DATA, Segment};
use libc::{iovec, off_t, ssize_t};
use std::ffi::c_int;

/// Most pieces of one call (UIO_MAXIOV).
const MOST: c_int = 1024;

/// The pieces, and how long they are together, where they can be moved at once.
fn pieces<'a>(iov: *const iovec, count: c_int) -> Option<(&'a [iovec], usize)> {
    if iov.is_null() || !(1..=MOST).contains(&count) {
        return None;
    }
    // SAFETY: so many of them are there, as the program says.
    let all = unsafe { std::slice::from_raw_parts(iov, count as usize) };
    let mut sum = 0usize;
    for one in all {
        sum = sum.checked_add(one.iov_len)?;
    }
    (1..=DATA).contains(&sum).then_some((all, sum))
}

fn scatter(segment: &Segment, all: &[iovec], n: usize) {
    let mut done = 0;
    for one in all {
        let part = one.iov_len.min(n - done);
        if part > 0 {
            // SAFETY: the program's memory, of this length as it says.
            segment.data_at(done, unsafe { std::slice::from_raw_parts_mut(one.iov_base.cast(), part) });
        }
        done += part;
    }
}

fn gather(segment: &Segment, all: &[iovec]) {
    let mut done = 0;
    for one in all.iter().filter(|one| one.iov_len > 0) {
        // SAFETY: the program's memory, of this length as it says.
        segment.put_data_at(done, unsafe { std::slice::from_raw_parts(one.iov_base.cast(), one.iov_len) });
        done += one.iov_len;
    }
}

fn read_at(file: &File, fd: c_int, pos: u64, all: &[iovec], len: usize) -> Option<Moved> {
    if !file.reads_here() {
        return None;
    }
    let n = one_read(file.handle(fd)?, pos, len, |segment, _, n| scatter(segment, all, n))?;
    Some(n.map(|n| (n, pos + n as u64)))
}

fn write_at(file: &File, fd: c_int, pos: u64, all: &[iovec], len: usize) -> Option<Moved> {
    if !file.may_grow() {
        return None;
    }
    let handle = file.handle(fd)?;
    file.writes();
    one_write(handle, pos, len, |segment| gather(segment, all))
}

/// At `pos`.
fn try_readv(fd: c_int, iov: *const iovec, count: c_int, pos: off_t) -> Option<Moved> {
    let file = table::file(fd)?;
    let (all, len) = pieces(iov, count)?;
    read_at(file, fd, position(pos)?, all, len)
}

fn try_writev(fd: c_int, iov: *const iovec, count: c_int, pos: off_t) -> Option<Moved> {
    let file = table::file(fd)?;
    let (all, len) = pieces(iov, count)?;
    write_at(file, fd, position(pos)?, all, len)
}

/// [`read_at`] or [`write_at`].
type At = fn(&File, c_int, u64, &[iovec], usize) -> Option<Moved>;

/// At the file's position; by libc's function, `kernel`, where it is not done here.
fn moving(fd: c_int, iov: *const iovec, count: c_int, f: At, kernel: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some(file) = table::file(fd) else { return kernel() };
    let at = |pos| pieces(iov, count).and_then(|(all, len)| f(file, fd, pos, all, len));
    at_position(fd, file, at, kernel)
}

/// readv(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    let kernel = || next!(readv: fn(c_int, *const iovec, c_int) -> ssize_t, fd, iov, count);
    moving(fd, iov, count, read_at, kernel)
}

/// writev(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    let kernel = || next!(writev: fn(c_int, *const iovec, c_int) -> ssize_t, fd, iov, count);
    moving(fd, iov, count, write_at, kernel)
}

macro_rules! at {
    ($($name:ident $try:ident)*) => {$(
        /// preadv(2), pwritev(2).
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, iov: *const iovec, count: c_int, pos: off_t) -> ssize_t {
            match $try(fd, iov, count, pos) {
                Some(moved) => returned(moved),
                None => next!($name: fn(c_int, *const iovec, c_int, off_t) -> ssize_t, fd, iov, count, pos),
            }
        }
    )*};
}
at! { preadv try_readv preadv64 try_readv pwritev try_writev pwritev64 try_writev }

macro_rules! with_flags {
    ($($name:ident $try:ident $at:ident)*) => {$(
        /// preadv2(2), pwritev2(2): position -1 is the file's. With flags they are the kernel's.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fd: c_int,
            iov: *const iovec,
            count: c_int,
            pos: off_t,
            flags: c_int,
        ) -> ssize_t {
            let kernel = || {
                next!(
                    $name: fn(c_int, *const iovec, c_int, off_t, c_int) -> ssize_t,
                    fd, iov, count, pos, flags
                )
            };
            match (flags, pos) {
                (0, -1) => moving(fd, iov, count, $at, kernel),
                (0, _) => $try(fd, iov, count, pos).map_or_else(kernel, returned),
                _ => kernel(),
            }
        }
    )*};
}
with_flags! {
    preadv2 try_readv read_at
    preadv64v2 try_readv read_at
    pwritev2 try_writev write_at
    pwritev64v2 try_writev write_at
}
