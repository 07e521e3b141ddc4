//! Children of every kind, each beside its parent on files of a mount: each reads and writes its own file,
//! and finds nothing of the other's. The tests run it with the library in front of libc.
//!
//! ```text
//!   children DIR       exit code 0: all as it should be
//! ```
#![allow(unsafe_code, reason = "libc's functions are what is tested")]

use libc::{c_int, c_long, c_void, pid_t};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

const BLOCKS: u64 = 16;
const ROUNDS: usize = 60;
const CALLS: u64 = 40;

unsafe extern "C" {
    fn _Fork() -> pid_t;
}

/// The instruction itself, which no library sees.
#[cfg(target_arch = "x86_64")]
fn bare_fork() -> pid_t {
    let child: c_long;
    // SAFETY: fork(2); this program has one thread.
    unsafe {
        std::arch::asm!("syscall", inout("rax") libc::SYS_fork => child, out("rcx") _, out("r11") _);
    }
    child as pid_t
}

fn called_fork() -> pid_t {
    // SAFETY: clone(2) as a fork, with the stack of the parent; this program has one thread.
    unsafe { libc::syscall(libc::SYS_clone, c_long::from(libc::SIGCHLD), 0, 0, 0, 0) as pid_t }
}

fn quiet_fork() -> pid_t {
    // SAFETY: this program has one thread.
    unsafe { _Fork() }
}

fn plain_fork() -> pid_t {
    // SAFETY: as above.
    unsafe { libc::fork() }
}

/// A file of the mount of which nothing is remembered.
fn file(dir: &Path, name: &str) -> File {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
    let file = how.open(dir.join(name)).expect("opens");
    for block in 0..BLOCKS {
        file.write_all_at(&[name.as_bytes()[0]; 4096], block * 4096).expect("written");
    }
    file
}

/// Reads and writes `file`, whose bytes are all `own`: how often something else is there.
fn use_file(file: &File, own: u8) -> u64 {
    let mut wrong = 0;
    for call in 0..CALLS {
        let (at, mut block) = (call % BLOCKS * 4096, [0; 64]);
        let read = file.read_at(&mut block, at);
        wrong += u64::from(read.ok() != Some(64) || block != [own; 64]);
        wrong += u64::from(file.write_at(&[own; 64], at).ok() != Some(64));
    }
    wrong
}

fn wait_for(child: pid_t) -> c_int {
    let mut status = 0;
    // SAFETY: room for the status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "it ended with {status:#x}");
    libc::WEXITSTATUS(status)
}

/// Parent and child at the same time.
fn beside_each_other(dir: &Path, how: &str, fork: fn() -> pid_t) {
    let (ours, theirs) = (file(dir, "ours"), file(dir, "theirs"));
    for round in 0..ROUNDS {
        use_file(&ours, b'o');
        match fork() {
            0 => {
                let wrong = use_file(&theirs, b't');
                // SAFETY: ends without running anything of the parent's.
                unsafe { libc::_exit(wrong.min(100) as c_int) }
            }
            child => {
                assert!(child > 0, "{how}: no child");
                let wrong = use_file(&ours, b'o');
                assert_eq!((wrong, wait_for(child)), (0, 0), "{how}, round {round}: parent, child");
            }
        }
    }
}

/// One position, which parent and child move in turn.
fn one_position(dir: &Path, how: &str, fork: fn() -> pid_t) {
    let path = dir.join("position");
    let file = File::create(&path).expect("made");
    let write = |what: &[u8]| {
        // SAFETY: bytes of this program, its own descriptor.
        unsafe { libc::write(file.as_raw_fd(), what.as_ptr().cast(), what.len()) == what.len() as isize }
    };
    assert!(write(b"a"));
    match fork() {
        0 => {
            let good = (0..100).all(|_| write(b"c"));
            // SAFETY: as above.
            unsafe { libc::_exit((!good).into()) }
        }
        child => {
            assert!((0..100).all(|_| write(b"p")));
            assert_eq!(wait_for(child), 0, "{how}");
        }
    }
    let mut all = std::fs::read(&path).expect("read");
    all.sort_unstable();
    assert_eq!(all, [&b"a"[..], &[b'c'; 100], &[b'p'; 100]].concat(), "{how}: each piece has its place");
}

struct Visit {
    ours: c_int,
    theirs: c_int,
    path: std::ffi::CString,
}

/// The work of a child in its parent's memory: it puts other files at its own numbers, which are none of its
/// parent's.
extern "C" fn visit(arg: *mut c_void) -> c_int {
    // SAFETY: the parent's, which waits.
    let visit = unsafe { &*arg.cast::<Visit>() };
    let mut block = [0u8; 64];
    // SAFETY: numbers that are this child's alone; memory of this function.
    unsafe {
        let read = libc::pread(visit.theirs, block.as_mut_ptr().cast(), 64, 0);
        if read != 64 || block != [b't'; 64] {
            return 1;
        }
        if libc::dup2(visit.theirs, visit.ours) != visit.ours || libc::close(visit.theirs) != 0 {
            return 2;
        }
        let new = libc::open(visit.path.as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600);
        if new < 0 || libc::pwrite(new, [b'n'; 64].as_ptr().cast(), 64, 0) != 64 {
            return 3;
        }
        if libc::pwrite(visit.ours, [b't'; 64].as_ptr().cast(), 64, 64) != 64 || libc::setsid() < 0 {
            return 4;
        }
    }
    0
}

fn in_the_same_memory(dir: &Path) {
    let (ours, theirs) = (file(dir, "ours"), file(dir, "theirs"));
    for flags in [libc::CLONE_VM | libc::CLONE_VFORK, libc::CLONE_VM, 0] {
        assert_eq!((use_file(&ours, b'o'), use_file(&theirs, b't')), (0, 0));
        let path = std::ffi::CString::new(dir.join("new").as_os_str().as_encoded_bytes()).expect("a path");
        let mut visit_of = Visit { ours: ours.as_raw_fd(), theirs: theirs.as_raw_fd(), path };
        let mut stack = vec![0u8; 1 << 18];
        let top = stack.as_mut_ptr().wrapping_add(1 << 18).wrapping_byte_sub((stack.as_ptr().addr()) % 16);
        let arg = (&raw mut visit_of).cast();
        // SAFETY: a stack of its own, and what it looks at stays until it has ended.
        let child = unsafe { libc::clone(visit, top.cast(), flags | libc::SIGCHLD, arg) };
        assert!(child > 0, "{}", std::io::Error::last_os_error());
        assert_eq!(wait_for(child), 0, "the child with flags {flags:#x}");
        assert_eq!((use_file(&ours, b'o'), use_file(&theirs, b't')), (0, 0), "flags {flags:#x}");
        // The number that the child had the new file at is another file here.
        let other = File::open("/dev/null").expect("opens");
        assert_eq!(other.read_at(&mut [0; 8], 0).expect("read"), 0, "flags {flags:#x}");
        assert_eq!(std::fs::read(dir.join("new")).expect("read"), [b'n'; 64]);
    }
    assert_eq!(std::fs::read(dir.join("ours")).expect("read"), [b'o'; BLOCKS as usize * 4096]);
    assert_eq!(std::fs::read(dir.join("theirs")).expect("read"), [b't'; BLOCKS as usize * 4096]);
}

const FORKS_OF_HANDLERS: u32 = 400;
static FORKED: AtomicU32 = AtomicU32::new(0);

/// The child goes on where the parent was; it ends with the loop.
extern "C" fn handler(_: c_int) {
    let n = FORKED.fetch_add(1, SeqCst);
    if n < FORKS_OF_HANDLERS {
        let child = if n.is_multiple_of(2) { plain_fork() } else { quiet_fork() };
        if child == 0 {
            FORKED.store(1000, SeqCst);
        }
    }
}

/// A handler forks in the middle of any call; both go on with it.
fn in_a_handler(dir: &Path) {
    let (ours, log) = (file(dir, "ours"), dir.join("log"));
    let append = OpenOptions::new().append(true).create_new(true).open(&log).expect("made");
    let me = std::process::id();
    let every = libc::timeval { tv_sec: 0, tv_usec: 300 };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: a handler that calls what handlers may; a timer of this process.
    unsafe {
        libc::signal(libc::SIGALRM, handler as extern "C" fn(c_int) as *const () as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
    let (mut wrong, mut lines) = (0, 0);
    while FORKED.load(SeqCst) < FORKS_OF_HANDLERS {
        wrong += use_file(&ours, b'o');
        wrong += u64::from(append.write_at(b"line\n", 0).ok() != Some(5));
        lines += 1;
    }
    if std::process::id() != me {
        // A child: the rest of what it was in the middle of is right, too.
        wrong += use_file(&ours, b'o');
        // SAFETY: ends without running anything of the parent's.
        unsafe { libc::_exit(wrong.min(100) as c_int) }
    }
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_IGN) };
    loop {
        let mut status = 0;
        // SAFETY: room for the status.
        if unsafe { libc::waitpid(-1, &raw mut status, 0) } < 0 {
            break;
        }
        assert_eq!(status, 0, "a child of a handler");
    }
    assert_eq!(wrong, 0, "the parent");
    // A child appends what the parent was about to append when the handler came, at most: it ends with that
    // round.
    let appended = std::fs::read(&log).expect("read");
    assert_eq!(appended.len() % 5, 0);
    assert!(
        (lines..=lines + FORKS_OF_HANDLERS as usize).contains(&(appended.len() / 5)),
        "{} of {lines}",
        appended.len() / 5
    );
}

/// How a process is made, by name.
type Kind = (&'static str, fn() -> pid_t);

fn main() {
    let dir = std::env::args_os().nth(1).expect("a directory");
    let dir = Path::new(&dir);
    let kinds: &[Kind] = &[
        ("fork", plain_fork),
        ("_Fork", quiet_fork),
        ("a system call", called_fork),
        #[cfg(target_arch = "x86_64")]
        ("an instruction", bare_fork),
    ];
    for (how, fork) in kinds {
        beside_each_other(dir, how, *fork);
        if *how != "an instruction" {
            one_position(dir, how, *fork);
        }
    }
    in_the_same_memory(dir);
    in_a_handler(dir);
}
