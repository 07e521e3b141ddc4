//! The table of descriptors.
//!
//! ```text
//!   descriptor n:  SLOTS[n] = file + 1 | 0: not a file of the mount          dup: two slots, one file
//!   FILES[i]                  File, with the number of its slots             0: free
//! ```
//!
//! Static memory and atomic words: nothing here allocates or waits, so it works in signal handlers and
//! between fork and exec. A descriptor beyond the table, or a file more than it has, goes to the kernel.
//!
//! A program that closes a descriptor in one thread while another one uses it may meet the number's next
//! file, as with the kernel.

use crate::file::File;
use crate::owner;
use crate::session::{self, Connected};
use std::ffi::c_int;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Descriptors that are known: the soft limit of most systems is 1,024, servers raise it to tens of
/// thousands.
const DESCRIPTORS: usize = 1 << 16;
/// Open files that are known.
const FILES_KNOWN: usize = 1 << 13;

static SLOTS: [AtomicU32; DESCRIPTORS] = [const { AtomicU32::new(0) }; DESCRIPTORS];
static FILES: [File; FILES_KNOWN] = [const { File::new() }; FILES_KNOWN];
/// Where the search for a free file begins.
static HINT: AtomicU32 = AtomicU32::new(0);
/// No descriptor at or beyond is in the table.
static END: AtomicU32 = AtomicU32::new(0);

fn slot(fd: c_int) -> Option<&'static AtomicU32> {
    usize::try_from(fd).ok().and_then(|fd| SLOTS.get(fd))
}

/// The file that a descriptor is of.
pub fn file(fd: c_int) -> Option<&'static File> {
    known(fd).filter(|_| owner::is_here())
}

/// The same, whoever asks.
fn known(fd: c_int) -> Option<&'static File> {
    match slot(fd)?.load(SeqCst) {
        0 => None,
        n => Some(&FILES[n as usize - 1]),
    }
}

/// Enters a descriptor that the kernel has just opened.
pub fn enter(fd: c_int, flags: c_int, ino: u64) {
    enter_with(fd, flags, ino, None);
}

/// The same where the server knows the file already.
pub fn enter_with(fd: c_int, flags: c_int, ino: u64, handle: Option<Connected>) {
    let Some(slot) = slot(fd) else {
        handle.into_iter().for_each(session::close);
        return;
    };
    forget(fd);
    let first = HINT.load(Relaxed) as usize;
    let free = (0..FILES_KNOWN).map(|i| (first + i) % FILES_KNOWN).find(|i| FILES[*i].begin(flags, ino));
    if let Some(i) = free {
        HINT.store(i as u32 + 1, Relaxed);
        END.fetch_max(fd as u32 + 1, SeqCst);
        if let Some(handle) = handle {
            FILES[i].set_handle(handle);
        }
        slot.store(i as u32 + 1, SeqCst);
    } else if let Some(handle) = handle {
        session::close(handle);
    }
}

/// A descriptor is about to be closed, or means something else from now on.
pub fn forget(fd: c_int) {
    let Some(slot) = slot(fd) else { return };
    // Mostly it is none of ours. And a child in the same memory closes what is its own.
    if slot.load(SeqCst) == 0 || !owner::is_here() {
        return;
    }
    match slot.swap(0, SeqCst) {
        0 => {}
        n => FILES[n as usize - 1].end(),
    }
}

/// The same for a range.
pub fn forget_range(from: u32, to: u32) {
    let end = END.load(SeqCst);
    (from..end.min(to.saturating_add(1))).for_each(|fd| forget(fd as c_int));
}

/// `new` is a duplicate of `old`. The file that `new` was of before is forgotten already.
pub fn duplicate(old: c_int, new: c_int) {
    let (Some(from), Some(to)) = (slot(old), slot(new)) else { return };
    let n = from.load(SeqCst);
    if n != 0 && old != new && owner::is_here() {
        FILES[n as usize - 1].hold();
        END.fetch_max(new as u32 + 1, SeqCst);
        to.store(n, SeqCst);
    }
}

/// Another process may have these descriptors from now on.
pub fn share_all(which: impl Fn(c_int) -> bool) {
    for fd in 0..END.load(SeqCst) as c_int {
        if let Some(file) = file(fd)
            && which(fd)
        {
            file.share();
        }
    }
}

/// All of them are, whoever asks.
pub fn share_all_known() {
    (0..END.load(SeqCst) as c_int).filter_map(known).for_each(File::share);
}

/// This is the child: other threads, which may have been in the middle of something, are not here.
pub fn forked() {
    FILES.iter().for_each(File::forked);
}
