//! Owner of the connection: one process, and no other, however that other one came to be.
//!
//! ```text
//!   mark: a page that is empty in a child (MADV_WIPEONFORK)
//!     number of the process     it is this one                                    one load at each call
//!     0                         a child that no handler has told (_Fork, a bare system call, clone): it
//!                               makes a connection of its own
//!     NOTICED                   another thread of it is about to
//!     LEFT                      another process closes and opens this one's descriptors (CLONE_FILES): all
//!                               is the kernel's
//!   VISITS: children that share this memory (CLONE_VM) and are no threads
//!                               the number is looked at each time: they are the kernel's
//! ```
//!
//! A child in the same memory has descriptors of its own, and another number. It is kept from the table and
//! from the channels, which are its parent's. Such children are made by `clone` and `syscall`, which are
//! taken here. One that a program makes by an instruction of its own is not known: its calls of libc's
//! functions count as its parent's.
//!
//! Where the system does not empty pages (before Linux 4.14) the number is looked at each time.

use crate::{session, table};
use libc::{c_long, pid_t};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU32};

const PAGE: usize = 4096;
const UNKNOWN: u32 = 0;
const NOTICED: u32 = u32::MAX;
const LEFT: u32 = u32::MAX - 1;

/// Where the system does not empty pages.
static PLAIN: AtomicU32 = AtomicU32::new(UNKNOWN);
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const PLAIN).cast_mut());
static VISITS: AtomicU32 = AtomicU32::new(0);

fn mark() -> &'static AtomicU32 {
    // SAFETY: a static word, or one of a page that stays mapped; it is reached atomically only.
    unsafe { &*MARK.load(Relaxed) }
}

fn number() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// The library is loaded: this process is the one.
pub fn begin() {
    let how = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: fresh memory at an address that the kernel chooses.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE, how, MapFlags::PRIVATE) };
    // SAFETY: advice about memory that is this function's alone.
    let emptied = page.is_ok_and(|at| unsafe { madvise(at, PAGE, Advice::LinuxWipeOnFork) }.is_ok());
    match page {
        Ok(at) if emptied => MARK.store(at.cast(), SeqCst),
        _ => drop(VISITS.fetch_add(1, SeqCst)),
    }
    mark().store(number(), SeqCst);
}

/// Whether this process is the one whose connection and table these are. A child that nobody has told finds
/// it out here.
pub fn is_here() -> bool {
    let mark = mark().load(SeqCst);
    if mark < LEFT && mark != UNKNOWN && VISITS.load(Relaxed) == 0 { true } else { look(mark) }
}

#[cold]
fn look(known: u32) -> bool {
    match known {
        LEFT | NOTICED => false,
        UNKNOWN => {
            let first = mark().compare_exchange(UNKNOWN, NOTICED, SeqCst, SeqCst).is_ok();
            if first {
                becomes_child();
                mark().store(number(), SeqCst);
            }
            first
        }
        number_of_owner => number() == number_of_owner,
    }
}

/// This is a child, with memory of its own: nothing of the parent's connection is used any more.
fn becomes_child() {
    // Other processes have its open files, too.
    table::share_all_known();
    session::forked();
    table::forked();
}

/// A child of libc's fork, which runs handlers.
pub fn forked() {
    if mark().load(SeqCst) != LEFT {
        mark().store(NOTICED, SeqCst);
        becomes_child();
        mark().store(number(), SeqCst);
    }
}

/// Another process is about to be made, with these flags of clone(2).
fn before_clone(flags: u64) {
    let has = |flag: c_int| flags & flag as u64 != 0;
    if has(libc::CLONE_THREAD) {
        return;
    }
    table::share_all(|_| true);
    if has(libc::CLONE_VM) {
        VISITS.fetch_add(1, SeqCst);
    }
    if has(libc::CLONE_FILES) && is_here() {
        mark().store(LEFT, SeqCst);
    }
}

/// In the parent it has been made; or this is it.
fn after_clone(flags: u64, made: c_long) {
    let shares = (libc::CLONE_VM | libc::CLONE_THREAD) as u64 & flags == libc::CLONE_VM as u64;
    let is_over = flags & libc::CLONE_VFORK as u64 != 0 || made < 0;
    if shares && made != 0 && is_over {
        VISITS.fetch_sub(1, SeqCst);
    }
    if !shares && made == 0 {
        is_here();
    }
}

/// The number of the system call that is to be made, and the flags of clone(2) that it is with, where it
/// makes a process. `fork` stands for `vfork`, whose child would run on its parent's stack.
pub fn cloning(number: c_long, first: c_long) -> Option<(c_long, u64)> {
    match number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork | libc::SYS_vfork => Some((libc::SYS_fork, 0)),
        libc::SYS_clone => Some((number, first as u64)),
        // SAFETY: `struct clone_args` of the program's, which begins with the flags.
        libc::SYS_clone3 if first != 0 => Some((number, unsafe { *(first as usize as *const u64) })),
        _ => None,
    }
}

/// Makes a process, by `make`.
pub fn making(flags: u64, make: impl FnOnce() -> c_long) -> c_long {
    before_clone(flags);
    let made = make();
    after_clone(flags, made);
    made
}

/// _Fork(3): a fork without handlers.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> pid_t {
    making(0, || next!(_Fork: fn() -> pid_t,).into()) as pid_t
}

/// clone(2).
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clone(
    begin: *mut c_void,
    stack: *mut c_void,
    flags: c_int,
    arg: *mut c_void,
    parent: *mut pid_t,
    tls: *mut c_void,
    child: *mut pid_t,
) -> c_int {
    let make = || {
        next!(
            clone: fn(*mut c_void, *mut c_void, c_int, *mut c_void, *mut pid_t, *mut c_void, *mut pid_t) -> c_int,
            begin, stack, flags, arg, parent, tls, child
        )
        .into()
    };
    making(u64::from(flags as u32), make) as c_int
}
