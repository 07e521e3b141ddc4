//! [`File`]: an open file of the mount.
//!
//! ```text
//!   handle  0: not asked for yet | connection, handle | LEFT: the server has left it to the kernel
//! ```
//!
//! The server is asked when the file is first used. It looks for the file by its path, with this program's
//! rights, and takes it if it has the number that the kernel has opened.

use crate::session::{self, Connected};
use crate::setup::setup;
use crate::signals::{self, Held};
use granary_direct::{Command, Op};
use rustix::fd::{BorrowedFd, RawFd};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// See the module.
const LEFT: u64 = u64::MAX;
/// How often a thread lets others run before it sleeps, where one of them moves the position.
const YIELDS: u64 = 100;
/// How long it sleeps then.
const NAP: rustix::fs::Timespec = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 50_000 };

/// See the module.
pub struct File {
    /// Descriptors of it in this process; 0: this one is free.
    holders: AtomicU32,
    flags: AtomicU32,
    ino: AtomicU64,
    handle: AtomicU64,
    shared: AtomicBool,
    /// This program has written to it past the kernel, which has to ask for its attributes since.
    written: AtomicBool,
    /// The thread that moves the position.
    mover: AtomicU32,
    /// Of this life of it; no other file has had it.
    serial: AtomicU64,
    /// The version of what was read last.
    version: AtomicU64,
}

/// The serial of the last file.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The position of a file is this thread's to move, until the value goes. Signals wait so long: a handler
/// that wrote to the same file in between would write over what was written, or be written over.
pub struct Moving(&'static File, #[expect(dead_code, reason = "dropped last")] Held);

impl Drop for Moving {
    fn drop(&mut self) {
        self.0.mover.store(0, SeqCst);
    }
}

/// Where pages of a file may be found: an open file of this process, in one life of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Of this open file; never used twice.
    pub serial: u64,
    /// The connection that has told them.
    pub epoch: u32,
}

impl File {
    pub const fn new() -> File {
        File {
            holders: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            ino: AtomicU64::new(0),
            handle: AtomicU64::new(0),
            shared: AtomicBool::new(false),
            written: AtomicBool::new(false),
            mover: AtomicU32::new(0),
            serial: AtomicU64::new(0),
            version: AtomicU64::new(0),
        }
    }

    /// Takes it for a file that was opened, if it is free.
    pub fn begin(&self, flags: c_int, ino: u64) -> bool {
        if self.holders.compare_exchange(0, 1, SeqCst, Relaxed).is_err() {
            return false;
        }
        self.flags.store(flags as u32, Relaxed);
        self.ino.store(ino, Relaxed);
        self.handle.store(0, Relaxed);
        self.shared.store(false, Relaxed);
        self.written.store(false, Relaxed);
        self.mover.store(0, SeqCst);
        self.serial.store(LAST.fetch_add(1, Relaxed) + 1, Relaxed);
        self.version.store(0, Relaxed);
        true
    }

    /// The server knows it already: it was made there.
    pub fn set_handle(&self, handle: Connected) {
        self.handle.store(handle.word(), SeqCst);
    }

    pub fn hold(&self) {
        self.holders.fetch_add(1, SeqCst);
    }

    /// A descriptor of it is gone.
    pub fn end(&self) {
        // Before it is free for another one.
        if self.holders.load(SeqCst) == 1 {
            self.let_go();
        }
        self.holders.fetch_sub(1, SeqCst);
    }

    /// Closes it at the server, which may be asked again.
    fn let_go(&self) {
        let handle = self.handle.swap(0, SeqCst);
        if let Some(handle) = Connected::of(handle) {
            session::close(handle);
        }
    }

    /// Other processes may move its position.
    pub fn share(&self) {
        self.shared.store(true, SeqCst);
    }

    /// This is the child: handles are the parent's.
    pub fn forked(&self) {
        self.mover.store(0, SeqCst);
        if self.handle.load(SeqCst) != LEFT {
            self.handle.store(0, SeqCst);
        }
    }

    /// fcntl(F_SETFL) has changed these flags.
    pub fn set_flags(&self, flags: c_int) {
        let changeable = libc::O_APPEND | libc::O_DIRECT | libc::O_NOATIME;
        let kept = self.flags.load(Relaxed) as c_int & !changeable;
        self.flags.store((kept | flags & changeable) as u32, Relaxed);
        self.let_go();
    }

    /// Where what was read of it is remembered; not where it is read past all caches.
    pub fn source(&self, handle: Connected) -> Option<Source> {
        let direct = self.flags.load(Relaxed) as c_int & libc::O_DIRECT != 0;
        (!direct).then(|| Source { serial: self.serial.load(Relaxed), epoch: handle.epoch })
    }

    /// Something of this version was read. Says whether the same was read before: content that changes all
    /// the time is not remembered.
    pub fn was_read(&self, version: u64) -> bool {
        version != 0 && self.version.swap(version, Relaxed) == version
    }

    /// It is about to be written to here.
    pub fn writes(&self) {
        self.written.store(true, Relaxed);
    }

    /// Whether it was.
    pub fn is_written(&self) -> bool {
        self.written.load(Relaxed)
    }

    /// Whether reading it is done here: with one processor only where the kernel has no pages of it, because
    /// this program has written past them, or reads past them.
    pub fn reads_here(&self) -> bool {
        let direct = self.flags.load(Relaxed) as c_int & libc::O_DIRECT != 0;
        direct || self.is_written() || setup().is_some_and(|setup| !setup.alone)
    }

    /// Whether it may be written to here: not where a limit may end it.
    pub fn may_grow(&self) -> bool {
        setup().is_some_and(|setup| !setup.limited)
    }

    /// Makes the position this thread's to move. `None`: it is the kernel's affair, because other processes
    /// share it.
    pub fn moving(&'static self) -> Option<Moving> {
        if self.shared.load(SeqCst) {
            return None;
        }
        let (me, held) = (session::thread(), signals::hold());
        // A thread that moves the position always finishes: signals wait, and a server that is gone is
        // noticed.
        for turn in 0u64.. {
            match self.mover.compare_exchange(0, me, SeqCst, Relaxed) {
                Ok(_) => return Some(Moving(self, held)),
                Err(owner) if owner == me => break,
                Err(_) if turn < YIELDS => rustix::thread::sched_yield(),
                Err(_) => drop(rustix::thread::nanosleep(&NAP)),
            }
        }
        None
    }

    /// The handle by which the server knows the file behind the descriptor `fd`; it is asked where it has
    /// none yet.
    pub fn handle(&self, fd: RawFd) -> Option<Connected> {
        let known = self.handle.load(SeqCst);
        if known == LEFT {
            return None;
        }
        if let Some(handle) = Connected::of(known).filter(|handle| handle.is_current()) {
            return Some(handle);
        }
        let asked = self.ask(fd);
        let new = match &asked {
            Asked::Handle(handle) => handle.word(),
            Asked::Left => LEFT,
            Asked::Nobody => return None,
        };
        match (self.handle.compare_exchange(known, new, SeqCst, SeqCst), asked) {
            (Ok(_), Asked::Handle(handle)) => Some(handle),
            // Another thread was quicker.
            (Err(other), Asked::Handle(handle)) => {
                session::close(handle);
                Connected::of(other).filter(Connected::is_current)
            }
            _ => None,
        }
    }

    /// The handle, if there is one already.
    pub fn known_handle(&self) -> Option<Connected> {
        let known = self.handle.load(SeqCst);
        if known == LEFT { None } else { Connected::of(known).filter(Connected::is_current) }
    }

    fn ask(&self, fd: RawFd) -> Asked {
        let Some(setup) = setup() else { return Asked::Nobody };
        let mut link = [0; 32];
        let Some(link) = name_of(fd, &mut link) else { return Asked::Left };
        let mut room = [MaybeUninit::uninit(); libc::PATH_MAX as usize];
        let Ok((path, _)) = rustix::fs::readlinkat_raw(rustix::fs::CWD, link, &mut room[..]) else {
            return Asked::Left;
        };
        // A removed file is called "... (deleted)", and is not found, or another file is found there.
        let Some(path) = path.strip_prefix(setup.prefix.as_slice()) else { return Asked::Left };
        let command = Command {
            flags: self.flags.load(Relaxed),
            ino: self.ino.load(Relaxed),
            len: path.len() as u32,
            ..Command::new(Op::Open)
        };
        match session::call(None, command, |segment| segment.put_data(path), |_, _| ()) {
            Some((answer, epoch)) => match answer.value() {
                Ok(Ok(handle)) => Asked::Handle(Connected { epoch, handle: handle as u32 }),
                _ => Asked::Left,
            },
            None => Asked::Nobody,
        }
    }
}

enum Asked {
    Handle(Connected),
    /// It is the kernel's for good.
    Left,
    /// There is no server now.
    Nobody,
}

/// "/proc/self/fd/N", without an allocation.
pub fn name_of(fd: RawFd, room: &mut [u8; 32]) -> Option<&std::ffi::CStr> {
    use std::io::Write;
    let mut left = &mut room[..];
    write!(left, "/proc/self/fd/{fd}\0").ok()?;
    std::ffi::CStr::from_bytes_until_nul(room).ok()
}

/// The descriptor, for a system call. It is the program's, which may close it at any time.
pub fn borrowed(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: not -1, since it is in the table. Where it was closed meanwhile the call says EBADF, as the
    // program would be told.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
