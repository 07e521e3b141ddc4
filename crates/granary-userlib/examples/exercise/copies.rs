//! A program's copies are never older than acknowledged changes: one thread makes changes by the kernel's own
//! calls, another one asks.

use crate::rw;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The last acknowledged value of a number that grows.
static TOLD: AtomicU64 = AtomicU64::new(0);

/// One thread makes changes by the kernel's calls, which no library sees, and says so. Another one asks by
/// libc's all the time, and must not get an older value. `change` makes the number so large, `ask` says how
/// large it is.
fn never_older(changes: u64, change: impl Fn(u64), ask: impl Fn() -> u64 + Sync) {
    let first = ask();
    TOLD.store(first, SeqCst);
    let (ends, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut seen = first;
            while !ends.load(SeqCst) {
                let told = TOLD.load(SeqCst);
                let now = ask();
                if now < told || now < seen {
                    // A panic would leave the other threads waiting for ever.
                    eprintln!("{now} after {seen}, and {told} was acknowledged before");
                    std::process::exit(1);
                }
                seen = now;
                asked.fetch_add(1, SeqCst);
            }
        });
        for n in 1..=changes {
            change(first + n);
            TOLD.store(first + n, SeqCst);
            // Now and then long enough that the answers are remembered.
            let wanted = asked.load(SeqCst) + 4;
            while n % 4 == 0 && asked.load(SeqCst) < wanted {
                std::thread::yield_now();
            }
        }
        ends.store(true, SeqCst);
    });
    assert_eq!(ask(), first + changes);
}

/// The kernel's own calls, as no library sees them.
macro_rules! kernel {
    ($name:ident, $($arg:expr),*) => {{
        // SAFETY: a system call with arguments of its types.
        let result = unsafe { libc::syscall(libc::$name, $($arg),*) };
        assert!(result >= 0, concat!(stringify!($name), ": {}"), io::Error::last_os_error());
        result
    }};
}

/// The library's copies of files and paths agree with the files.
pub fn copies(dir: &Path) {
    let (path, other) = (dir.join("copies"), dir.join("copies.new"));
    let f = rw(&path);
    let fd = f.as_raw_fd();
    let name = |path: &Path| CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
    let (name, other) = (name(&path), name(&other));
    f.write_all_at(&[0; 8192], 0).expect("written");
    let number = |at: u64| {
        let mut got = [0; 8];
        f.read_exact_at(&mut got, at).expect("read");
        u64::from_ne_bytes(got)
    };
    let write = |n: u64| {
        kernel!(SYS_pwrite64, fd, n.to_ne_bytes().as_ptr(), 8, 64);
    };
    never_older(200, write, || number(64));
    let how = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of pages that the file has, used within its bounds and ended once.
    unsafe {
        let map = libc::mmap(std::ptr::null_mut(), 8192, how, libc::MAP_SHARED, fd, 0);
        assert_ne!(map, libc::MAP_FAILED);
        let at = map.cast::<u8>().add(4096).cast::<u64>();
        never_older(100, |n| at.write_volatile(n), || number(4096));
        assert_eq!(libc::munmap(map, 8192), 0);
    }
    let size = || fs::metadata(&path).expect("there").len();
    never_older(
        200,
        |n| {
            kernel!(SYS_ftruncate, fd, n);
        },
        size,
    );
    let mode = || u64::from(fs::metadata(&path).expect("there").mode() & 0o777);
    kernel!(SYS_fchmod, fd, 0);
    never_older(
        200,
        |n| {
            kernel!(SYS_fchmod, fd, n);
        },
        mode,
    );
    // Another file in its place, each one larger.
    let replace = |n: u64| {
        let new = kernel!(SYS_openat, libc::AT_FDCWD, other.as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o600);
        kernel!(SYS_ftruncate, new, n);
        kernel!(SYS_close, new);
        kernel!(SYS_renameat2, libc::AT_FDCWD, other.as_ptr(), libc::AT_FDCWD, name.as_ptr(), 0);
    };
    never_older(100, replace, size);
    // Names that were not there.
    let there = |n: u64| dir.join(format!("copies.{n}")).exists();
    for n in 0..50 {
        assert!(!there(n) && !there(n));
        let name =
            CString::new(dir.join(format!("copies.{n}")).as_os_str().as_encoded_bytes()).expect("a path");
        kernel!(SYS_mkdirat, libc::AT_FDCWD, name.as_ptr(), 0o700);
        assert!(there(n) && there(n));
        kernel!(SYS_unlinkat, libc::AT_FDCWD, name.as_ptr(), libc::AT_REMOVEDIR);
        assert!(!there(n));
    }
}
