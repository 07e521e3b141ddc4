//! A program that does with files what programs do, and looks whether libc's manual holds. The tests run it
//! with the library in front of libc, and without.
//!
//! ```text
//!   exercise DIR       exit code 0: all as it should be
//! ```
#![allow(unsafe_code, reason = "libc's functions are what is tested")]

mod copies;

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

fn rw(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).expect("opens")
}

/// A call of libc that must not fail.
fn done(result: libc::c_int) -> libc::c_int {
    assert!(result >= 0, "{}", io::Error::last_os_error());
    result
}

fn positions(dir: &Path) {
    let mut f = rw(&dir.join("positions"));
    f.write_all(b"0123456789").expect("written");
    assert_eq!(f.stream_position().expect("told"), 10);
    f.seek(SeekFrom::Start(3)).expect("moved");
    let mut two = [0; 2];
    f.read_exact(&mut two).expect("read");
    assert_eq!((&two, f.stream_position().expect("told")), (b"34", 5));
    f.read_exact_at(&mut two, 8).expect("read");
    assert_eq!((&two, f.stream_position().expect("told")), (b"89", 5), "pread moves nothing");
    // A duplicate shares the position; so does a number that dup2 has set.
    let mut same = f.try_clone().expect("duplicated");
    same.write_all(b"ab").expect("written");
    assert_eq!(f.stream_position().expect("told"), 7);
    let other = File::open("/dev/null").expect("opens");
    // SAFETY: two descriptors of this program.
    done(unsafe { libc::dup2(f.as_raw_fd(), other.as_raw_fd()) });
    (&other).write_all(b"c").expect("written");
    assert_eq!(f.stream_position().expect("told"), 8);
    drop(f);
    drop(same);
    assert_eq!(fs::read(dir.join("positions")).expect("read"), b"01234abc89");
    (&other).write_all(b"d").expect("the last duplicate is open still");
    assert_eq!(fs::read(dir.join("positions")).expect("read"), b"01234abcd9");
}

fn vectors(dir: &Path) {
    let mut f = rw(&dir.join("vectors"));
    assert_eq!(f.write_vectored(&[&b"one "[..], b"", b"two"].map(IoSlice::new)).expect("written"), 7);
    f.rewind().expect("moved");
    let (mut a, mut b) = ([0; 3], [0; 10]);
    let n = f.read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)]).expect("read");
    assert_eq!((n, &a, &b[..4]), (7, b"one", &b" two"[..]));
}

fn appending(dir: &Path) {
    let path = dir.join("appending");
    let open = || OpenOptions::new().append(true).create(true).open(&path).expect("opens");
    let (mut a, mut b) = (open(), open());
    for _ in 0..50 {
        a.write_all(b"aa").expect("appended");
        b.write_all(b"bbb").expect("appended");
    }
    assert_eq!(fs::read(&path).expect("read"), b"aabbb".repeat(50));
    let f = rw(&path);
    // SAFETY: this program's descriptor.
    done(unsafe { libc::fcntl(f.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) });
    f.write_all_at(b"12", 0).expect("written");
    f.write_all_at(b"34", 0).expect("written");
    assert_eq!(fs::read(&path).expect("read"), b"1234", "with O_APPEND pwrite appends, on Linux");
}

fn sizes_and_large_calls(dir: &Path) {
    let path = dir.join("large");
    let f = rw(&path);
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i >> 3) as u8).collect();
    f.write_all_at(&bytes, 123).expect("written");
    assert_eq!(f.metadata().expect("told").len(), 5_000_123);
    assert_eq!(fs::metadata(&path).expect("told").len(), 5_000_123);
    let mut got = vec![0; 5_000_123];
    f.read_exact_at(&mut got, 0).expect("read");
    assert!(got[..123] == [0; 123] && got[123..] == bytes);
    f.set_len(1000).expect("cut");
    assert_eq!(f.read_at(&mut got, 500).expect("read"), 500);
    f.sync_all().expect("synced");
    f.sync_data().expect("synced");
    let told = f.metadata().expect("told");
    let seen = fs::metadata(&path).expect("told");
    assert_eq!((told.ino(), told.dev(), told.mode()), (seen.ino(), seen.dev(), seen.mode()));
    assert_eq!((told.mtime(), told.mtime_nsec()), (seen.mtime(), seen.mtime_nsec()));
}

fn new_files(dir: &Path) {
    // SAFETY: a mask; this program has one thread now.
    let before = unsafe { libc::umask(0o027) };
    let path = dir.join("new");
    assert!(fs::metadata(&path).is_err());
    let f = OpenOptions::new().write(true).create_new(true).mode(0o666).open(&path).expect("made");
    assert_eq!(f.metadata().expect("told").permissions().mode() & 0o7777, 0o640);
    let again = OpenOptions::new().write(true).create_new(true).open(&path);
    assert_eq!(again.expect_err("it is there").kind(), io::ErrorKind::AlreadyExists);
    (&f).write_all(b"x").expect("written");
    drop(OpenOptions::new().write(true).create(true).truncate(false).open(&path).expect("opens"));
    assert_eq!(fs::read(&path).expect("read"), b"x", "O_CREAT alone cuts nothing");
    // The creator of a file that is read-only for everybody can write it until it is closed.
    let sealed = dir.join("sealed");
    let mut f = OpenOptions::new().write(true).create_new(true).mode(0o444).open(&sealed).expect("made");
    f.write_all(b"once").expect("written");
    assert_eq!(fs::read(&sealed).expect("read"), b"once");
    std::env::set_current_dir(dir).expect("entered");
    fs::write("relative", b"r").expect("made");
    fs::create_dir("sub").expect("made");
    std::env::set_current_dir("sub").expect("entered");
    fs::write("../up", b"u").expect("made");
    fs::write("here", b"h").expect("made");
    std::env::set_current_dir("/").expect("entered");
    for (name, text) in [("relative", b"r"), ("up", b"u"), ("sub/here", b"h")] {
        assert_eq!(fs::read(dir.join(name)).expect(name), text);
    }
    // SAFETY: as above.
    unsafe { libc::umask(before) };
}

fn removed_and_renamed(dir: &Path) {
    let (a, b) = (dir.join("a"), dir.join("b"));
    let mut f = rw(&a);
    f.write_all(b"open").expect("written");
    fs::rename(&a, &b).expect("renamed");
    assert_eq!(fs::read(&b).expect("read"), b"open");
    fs::remove_file(&b).expect("removed");
    f.write_all(b" still").expect("written");
    let mut text = String::new();
    f.rewind().expect("moved");
    f.read_to_string(&mut text).expect("read");
    assert_eq!(text, "open still");
}

/// A number that was closed by whatever call, and is something else now.
fn numbers(dir: &Path) {
    let file = rw(&dir.join("numbers"));
    file.write_all_at(b"file", 0).expect("written");
    let ways: [fn(libc::c_int); 4] = [
        // SAFETY: numbers of this program, which `forget` below has taken from their owners.
        |fd| assert_eq!(unsafe { libc::close(fd) }, 0),
        // SAFETY: as above.
        |fd| assert_eq!(unsafe { libc::close_range(fd as u32, fd as u32, 0) }, 0),
        // SAFETY: as above.
        |fd| assert_eq!(unsafe { libc::syscall(libc::SYS_close, fd) }, 0),
        // SAFETY: as above; a stream that owns the number.
        |fd| assert_eq!(unsafe { libc::fclose(libc::fdopen(fd, c"r".as_ptr())) }, 0),
    ];
    for close in ways {
        let one = file.try_clone().expect("duplicated");
        let fd = one.as_raw_fd();
        assert_eq!(one.read_at(&mut [0; 4], 0).expect("read"), 4);
        std::mem::forget(one);
        close(fd);
        let mut ends = [0; 2];
        // SAFETY: room for two.
        done(unsafe { libc::pipe(ends.as_mut_ptr()) });
        assert_eq!(ends[0], fd, "the lowest free number");
        // SAFETY: the ends of a pipe that nobody else owns.
        let [mut out, mut into] = ends.map(|end| unsafe { File::from_raw_fd(end) });
        into.write_all(b"pipe").expect("written");
        let mut got = [0; 4];
        out.read_exact(&mut got).expect("read");
        assert_eq!(&got, b"pipe");
    }
}

/// Everything beyond the first three is closed, as daemons do; the next file works as before.
fn everything_closed(dir: &Path) {
    for fd in 3..1024 {
        // SAFETY: nothing that this program uses any more.
        unsafe { libc::close(fd) };
    }
    let f = rw(&dir.join("daemon"));
    f.write_all_at(b"d", 0).expect("written");
    // SAFETY: as above.
    let _ = unsafe { libc::close_range(100, u32::MAX, 0) };
    f.write_all_at(b"e", 1).expect("written");
    assert_eq!(fs::read(dir.join("daemon")).expect("read"), b"de");
}

fn processes(dir: &Path) {
    let path = dir.join("processes");
    let mut f = rw(&path);
    f.write_all(b"parent ").expect("written");
    // SAFETY: this program has one thread; the child does system calls alone, and ends.
    match done(unsafe { libc::fork() }) {
        0 => {
            let good = f.write_all(b"child ").is_ok() && f.write_all_at(b"P", 0).is_ok();
            // SAFETY: ends without running anything of the parent's.
            unsafe { libc::_exit(if good { 0 } else { 1 }) }
        }
        child => {
            let mut status = 0;
            // SAFETY: room for the status.
            done(unsafe { libc::waitpid(child, &raw mut status, 0) });
            assert_eq!(status, 0);
        }
    }
    f.write_all(b"parent ").expect("written");
    // Another program goes on where this one was, and this one where that one was.
    let out = f.try_clone().expect("duplicated");
    let status =
        std::process::Command::new("/bin/sh").args(["-c", "echo shell; /bin/echo echo"]).stdout(out).status();
    assert!(status.expect("runs").success());
    f.write_all(b"end").expect("written");
    assert_eq!(fs::read_to_string(&path).expect("read"), "Parent child parent shell\necho\nend");
}

fn streams(dir: &Path) {
    let path = dir.join("streams");
    let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
    let f = rw(&path);
    f.write_all_at(b"first\n", 0).expect("written");
    // SAFETY: streams of this program, each closed once.
    unsafe {
        let stream = libc::fopen(name.as_ptr(), c"a".as_ptr());
        assert!(!stream.is_null());
        libc::fputs(c"second\n".as_ptr(), stream);
        assert_eq!(libc::fclose(stream), 0);
    }
    let mut got = [0; 20];
    assert_eq!(f.read_at(&mut got, 0).expect("read"), 13);
    assert_eq!(&got[..13], b"first\nsecond\n");
}

fn mappings(dir: &Path) {
    let f = rw(&dir.join("mappings"));
    f.write_all_at(&[1; 8192], 0).expect("written");
    let how = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, of pages that the file has, used below within its bounds and ended once.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), 8192, how, libc::MAP_SHARED, f.as_raw_fd(), 0);
        assert_ne!(at, libc::MAP_FAILED);
        let bytes = at.cast::<u8>();
        for round in 2..5u8 {
            bytes.add(5000).write_volatile(round);
            let mut got = [0];
            f.read_exact_at(&mut got, 5000).expect("read");
            assert_eq!(got, [round], "a store");
            f.write_all_at(&[round * 2], 100).expect("written");
            assert_eq!(bytes.add(100).read_volatile(), round * 2, "a write");
        }
        assert_eq!(libc::munmap(at, 8192), 0);
    }
}

/// Random calls against a model in memory: commands, the kernel's calls (sizes, streams) and mappings, in any
/// order.
fn random_calls(dir: &Path) {
    const MOST: usize = 40_000;
    let path = dir.join("random");
    let f = rw(&path);
    let mut model: Vec<u8> = Vec::new();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as usize % below.max(1)
    };
    // SAFETY: a mapping of all that the file ever has; only what it has is touched, and it is ended below.
    let map = unsafe {
        let how = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), MOST, how, libc::MAP_SHARED, f.as_raw_fd(), 0)
    };
    assert_ne!(map, libc::MAP_FAILED);
    let map = map.cast::<u8>();
    for step in 0..3000 {
        let (at, len, byte) = (random(MOST), random(3000).min(MOST), step as u8);
        let end = (at + len).min(MOST);
        let within = at.min(model.len())..end.min(model.len());
        match random(10) {
            0..3 => {
                f.write_all_at(&vec![byte; end - at], at as u64).expect("written");
                if end > at {
                    model.resize(model.len().max(end), 0);
                    model[at..end].fill(byte);
                }
            }
            3..5 => {
                let mut got = vec![0; end - at];
                let n = f.read_at(&mut got, at as u64).expect("read");
                assert!(got[..n] == model[within.clone()] && n == within.len(), "step {step}: {at}..{end}");
            }
            5 => {
                let size = random(MOST);
                f.set_len(size as u64).expect("cut");
                model.resize(size, 0);
            }
            // SAFETY: within the mapping and the file.
            6 => within.for_each(|i| unsafe {
                map.add(i).write_volatile(byte);
                model[i] = byte;
            }),
            // SAFETY: as above.
            7 => within.for_each(|i| unsafe {
                assert_eq!(map.add(i).read_volatile(), model[i], "step {step}: byte {i} of the mapping");
            }),
            8 => {
                let mut appends = OpenOptions::new().append(true).open(&path).expect("opens");
                if model.len() + 10 < MOST {
                    appends.write_all(&[byte; 10]).expect("appended");
                    model.resize(model.len() + 10, byte);
                }
            }
            _ => {
                assert_eq!(f.metadata().expect("told").len(), model.len() as u64, "step {step}");
                assert_eq!(fs::metadata(&path).expect("told").len(), model.len() as u64, "step {step}");
                f.sync_data().expect("synced");
            }
        }
    }
    // SAFETY: exactly the mapping made above.
    unsafe { libc::munmap(map.cast(), MOST) };
    assert!(fs::read(&path).expect("read") == model);
}

fn locks(dir: &Path) {
    let path = dir.join("locks");
    let (a, b) = (rw(&path), rw(&path));
    // SAFETY: descriptors of this program.
    unsafe {
        assert_eq!(libc::flock(a.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB), 0);
        assert_eq!(libc::flock(b.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB), -1, "another open file");
    }
    drop(a);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::flock(b.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }, 0);
}

fn threads(dir: &Path) {
    let f = rw(&dir.join("threads"));
    std::thread::scope(|s| {
        for t in 0..8u8 {
            let f = &f;
            s.spawn(move || {
                for i in 0..100u64 {
                    let at = (i * 8 + u64::from(t)) * 64;
                    f.write_all_at(&[t + 1; 64], at).expect("written");
                    let mut got = [0; 64];
                    f.read_exact_at(&mut got, at).expect("read");
                    assert_eq!(got, [t + 1; 64]);
                }
            });
        }
    });
    // Writes at the common position do not overwrite each other.
    let f = rw(&dir.join("lines"));
    std::thread::scope(|s| {
        for t in 0..4u8 {
            let mut f = &f;
            s.spawn(move || (0..100).for_each(|_| f.write_all(&[b'a' + t; 10]).expect("written")));
        }
    });
    let all = fs::read(dir.join("lines")).expect("read");
    assert_eq!(all.len(), 4000);
    assert!(all.chunks(10).all(|line| line.iter().all(|c| *c == line[0])));
}

/// A handler that writes to the file that the program was writing to.
fn signals(dir: &Path) {
    use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};
    static LOG: AtomicI32 = AtomicI32::new(-1);
    static HANDLED: AtomicU32 = AtomicU32::new(0);
    extern "C" fn handle(_: libc::c_int) {
        // SAFETY: a descriptor that is open while the timer runs.
        if unsafe { libc::write(LOG.load(SeqCst), c"!".as_ptr().cast(), 1) } == 1 {
            HANDLED.fetch_add(1, SeqCst);
        }
    }
    let mut f = rw(&dir.join("signals"));
    LOG.store(f.as_raw_fd(), SeqCst);
    let timer = |micros| libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: micros },
        it_value: libc::timeval { tv_sec: 0, tv_usec: micros },
    };
    // SAFETY: a handler that does a system call alone; the timer is stopped before the file is closed.
    unsafe {
        libc::signal(libc::SIGALRM, handle as extern "C" fn(libc::c_int) as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_REAL, &timer(500), std::ptr::null_mut());
    }
    for _ in 0..3000 {
        f.write_all(b".").expect("written");
    }
    // SAFETY: as above.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer(0), std::ptr::null_mut()) };
    let text = fs::read(dir.join("signals")).expect("read");
    let dots = text.iter().filter(|c| **c == b'.').count();
    let handled = HANDLED.load(SeqCst) as usize;
    assert_eq!((dots, text.len() - dots), (3000, handled), "writes of the program, and of the handler");
}

/// Does some calls in a directory; panics where they are not what they should be.
type Check = fn(&Path);

fn main() {
    let dir = std::env::args_os().nth(1).expect("exercise DIR");
    let dir = Path::new(&dir);
    let all: [(&str, Check); 17] = [
        ("positions", positions),
        ("vectors", vectors),
        ("appending", appending),
        ("sizes", sizes_and_large_calls),
        ("new files", new_files),
        ("removed", removed_and_renamed),
        ("numbers", numbers),
        ("streams", streams),
        ("mappings", mappings),
        ("copies", copies::copies),
        ("random calls", random_calls),
        ("locks", locks),
        ("processes", processes),
        ("signals", signals),
        ("threads", threads),
        ("processes again", processes),
        ("everything closed", everything_closed),
    ];
    for (name, f) in all {
        eprintln!("{name}");
        f(dir);
    }
}
