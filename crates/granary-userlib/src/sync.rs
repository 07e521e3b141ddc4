//! Syncing.

use crate::{fail, session, table};
use granary_direct::{Command, Op};
use std::ffi::c_int;

/// Syncs a file that the server knows from this program; it knows the writes of others through the kernel,
/// too.
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
