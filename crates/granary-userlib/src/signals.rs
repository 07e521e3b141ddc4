//! Signals, which wait while this thread changes something.
//!
//! A handler may fork, or leave by `longjmp`. In the middle of a command either would do half of it, or do it
//! twice. A command that only asks may be asked again.
//!
//! A wait that outlasts the server's time to answer lets through the signals that end the process, or stop
//! it. Signals that say what the thread itself has done (SIGSEGV and its like) never wait.

use libc::{c_int, sigset_t};
use std::cell::Cell;
use std::mem::MaybeUninit;

const OWN: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
/// The last one with a name of its own; those behind it are for real-time.
const NAMED: c_int = 31;

thread_local! {
    /// The mask before, while signals wait.
    static BEFORE: Cell<Option<sigset_t>> = const { Cell::new(None) };
}

/// Signals wait until it is dropped; with `false` another one outside of it does that.
pub struct Held(bool);

fn set(mask: &sigset_t) -> sigset_t {
    let mut before = MaybeUninit::uninit();
    // SAFETY: a mask; room for the one before, which the call fills. Of this thread alone.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, mask, before.as_mut_ptr());
        before.assume_init()
    }
}

fn all() -> sigset_t {
    let mut all = MaybeUninit::uninit();
    // SAFETY: filled before it is read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for one in OWN {
            libc::sigdelset(all.as_mut_ptr(), one);
        }
        all.assume_init()
    }
}

/// Has signals wait.
pub fn hold() -> Held {
    BEFORE.with(|before| {
        let first = before.get().is_none();
        if first {
            before.set(Some(set(&all())));
        }
        Held(first)
    })
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.0
            && let Some(before) = BEFORE.take()
        {
            set(&before);
        }
    }
}

/// Whether one that waits has no handler.
fn one_ends() -> bool {
    let mut waiting = MaybeUninit::uninit();
    // SAFETY: filled before it is read.
    let waiting = unsafe {
        libc::sigpending(waiting.as_mut_ptr());
        waiting.assume_init()
    };
    (1..=NAMED).any(|one| {
        let mut what = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a signal's number; room for what is done with it, which is all zero before.
        unsafe {
            libc::sigismember(&raw const waiting, one) == 1
                && libc::sigaction(one, std::ptr::null(), what.as_mut_ptr()) == 0
                && what.assume_init().sa_sigaction == libc::SIG_DFL
        }
    })
}

/// Something takes long: what ends the process comes through.
pub fn let_through() {
    if let Some(before) = BEFORE.get()
        && one_ends()
    {
        set(&before);
        set(&all());
    }
}
