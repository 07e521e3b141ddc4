//! The versions of what the server has told (`granary_direct::versions`).
//!
//! They are asked for with a connection, and stay mapped: another thread may be looking.

use granary_direct::socket::ask_versions;
use granary_direct::versions::{Versions, Watched};
use rustix::fd::BorrowedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// The number of no connection.
const NONE: u32 = 0;

/// The versions of the server, and the connection that they are of.
static VERSIONS: AtomicPtr<Versions> = AtomicPtr::new(std::ptr::null_mut());
static VERSIONS_EPOCH: AtomicU32 = AtomicU32::new(0);
/// Which file they are: the next connection to the same server finds them mapped.
static VERSIONS_FILE: AtomicU64 = AtomicU64::new(0);

/// Asks for those of a connection, once. Without them nothing is remembered.
pub fn get(socket: BorrowedFd<'_>, epoch: u32) {
    if VERSIONS_EPOCH.load(SeqCst) == epoch {
        return;
    }
    let Ok(Ok(file)) = ask_versions(socket) else { return };
    let Ok(which) = rustix::fs::fstat(&file).map(|s| s.st_ino) else { return };
    if VERSIONS.load(SeqCst).is_null() || VERSIONS_FILE.load(SeqCst) != which {
        let Ok(versions) = Versions::open(&file) else { return };
        // A thread that finds the new versions must not take them for those of the connection before, whose
        // versions are other numbers.
        VERSIONS_EPOCH.store(NONE, SeqCst);
        VERSIONS.store(Box::into_raw(Box::new(versions)), SeqCst);
        VERSIONS_FILE.store(which, SeqCst);
    }
    VERSIONS_EPOCH.store(epoch, SeqCst);
}

/// Whether there are those of this connection.
pub fn are_of(epoch: u32) -> bool {
    VERSIONS_EPOCH.load(SeqCst) == epoch
}

/// Whether nothing has changed since the answer of this version on this connection.
pub fn is_current(epoch: u32, what: Watched, version: u64) -> bool {
    let versions = VERSIONS.load(SeqCst);
    // SAFETY: a pointer that was put there stays; it is the connection's since its epoch was stored behind
    // it.
    VERSIONS_EPOCH.load(SeqCst) == epoch
        && unsafe { versions.as_ref() }.is_some_and(|v| v.is_current(what, version))
}
