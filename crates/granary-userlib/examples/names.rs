//! A program that makes, changes and removes names, rightly and wrongly, and prints what each call said. The
//! tests compare what it says with the library in front of libc, and without.
//!
//! ```text
//!   names DIR       a line for each call: its name, "ok" or the errno, what it told
//! ```
#![allow(unsafe_code, reason = "libc's functions are what is tested")]

use std::ffi::{CString, c_char, c_int};
use std::io;

const HERE: c_int = libc::AT_FDCWD;

/// Prints a call's result, or its errno.
fn say(what: &str, result: isize, told: &str) {
    match result {
        0.. => println!("{what}: ok {result} {told}"),
        _ => println!("{what}: errno {}", io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}

/// Calls a function of libc with paths, and says what came of it.
macro_rules! call {
    ($name:ident($($arg:expr),*)) => {{
        // SAFETY: libc's function, with arguments of its types; paths end with a zero.
        let result = unsafe { libc::$name($($arg),*) };
        say(concat!(stringify!($name), "(", $(stringify!($arg), ", ",)* ")"), result as isize, "");
    }};
}

fn stat(path: *const c_char, follow: bool) {
    // SAFETY: zeros are a value of it.
    let mut s: libc::stat = unsafe { std::mem::zeroed() };
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: room for the answer.
    let result = unsafe { libc::fstatat(HERE, path, &raw mut s, flags) };
    // SAFETY: a path that ends with a zero.
    let path = unsafe { std::ffi::CStr::from_ptr(path) }.to_string_lossy();
    let size = if s.st_mode & libc::S_IFMT == libc::S_IFDIR { 0 } else { s.st_size };
    let told =
        format!("mode {:o} links {} uid {} gid {} size {size}", s.st_mode, s.st_nlink, s.st_uid, s.st_gid);
    say(&format!("stat({path}, {follow})"), result as isize, &told);
}

fn times(path: *const c_char) {
    // SAFETY: zeros are a value of it.
    let mut s: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: room for the answer.
    let result = unsafe { libc::lstat(path, &raw mut s) };
    let told = format!("{}.{} {}.{}", s.st_atime, s.st_atime_nsec, s.st_mtime, s.st_mtime_nsec);
    say("times", result as isize, &told);
}

fn readlink(path: *const c_char) {
    let mut to = [0u8; 16];
    // SAFETY: room for 16 bytes.
    let n = unsafe { libc::readlink(path, to.as_mut_ptr().cast(), 16) };
    say("readlink", n, &String::from_utf8_lossy(&to[..n.max(0) as usize]));
}

/// An empty file.
fn file(path: *const c_char) {
    // SAFETY: a path that ends with a zero; the descriptor is closed once.
    unsafe { libc::close(libc::open(path, libc::O_CREAT | libc::O_WRONLY, 0o644 as libc::c_uint)) };
}

fn making_and_removing() {
    let long = CString::new(vec![b'n'; 256]).expect("no zeros");
    let longer = CString::new([b"d/".repeat(2100), b"x".to_vec()].concat()).expect("no zeros");
    call!(mkdir(c"d".as_ptr(), 0o777));
    call!(mkdir(c"d".as_ptr(), 0o777));
    call!(mkdir(c"none/d".as_ptr(), 0o777));
    call!(mkdir(long.as_ptr(), 0o777));
    call!(mkdir(longer.as_ptr(), 0o777));
    call!(mkdir(c"".as_ptr(), 0o777));
    call!(mkdir(c"slash/".as_ptr(), 0o700));
    call!(mkdirat(HERE, c"d/e".as_ptr(), 0o1711));
    call!(rmdir(c"d".as_ptr()));
    call!(rmdir(c"d/.".as_ptr()));
    call!(unlink(c"d".as_ptr()));
    file(c"f".as_ptr());
    call!(rmdir(c"f".as_ptr()));
    call!(mkdir(c"f/x".as_ptr(), 0o700));
    call!(unlink(c"f/".as_ptr()));
    call!(unlink(c"none".as_ptr()));
    call!(unlinkat(HERE, c"d/e".as_ptr(), libc::AT_REMOVEDIR));
    call!(unlinkat(HERE, c"d/e".as_ptr(), 0x8000));
    stat(c"d".as_ptr(), true);
    stat(c"f".as_ptr(), true);
    stat(c"none".as_ptr(), true);
    stat(c"f/x".as_ptr(), true);
    stat(long.as_ptr(), true);
    call!(rmdir(c"slash".as_ptr()));
    // By a directory's descriptor, and from within a directory.
    // SAFETY: a path that ends with a zero.
    let dir = unsafe { libc::open(c"d".as_ptr(), libc::O_DIRECTORY) };
    call!(mkdirat(dir, c"by-fd".as_ptr(), 0o755));
    call!(renameat(dir, c"by-fd".as_ptr(), HERE, c"moved".as_ptr()));
    call!(unlinkat(dir, c"by-fd".as_ptr(), libc::AT_REMOVEDIR));
    call!(unlinkat(999, c"by-fd".as_ptr(), 0));
    call!(chdir(c"d".as_ptr()));
    call!(mkdir(c"inner".as_ptr(), 0o755));
    call!(rename(c"inner".as_ptr(), c"../inner".as_ptr()));
    call!(chdir(c"..".as_ptr()));
    stat(c"inner".as_ptr(), true);
    call!(rmdir(c"moved".as_ptr()));
    call!(rmdir(c"inner".as_ptr()));
}

fn links() {
    call!(symlink(c"f".as_ptr(), c"s".as_ptr()));
    call!(symlink(c"f".as_ptr(), c"s".as_ptr()));
    call!(symlink(c"loop".as_ptr(), c"loop".as_ptr()));
    call!(symlink(c"/etc/passwd".as_ptr(), c"out".as_ptr()));
    call!(symlink(c"d".as_ptr(), c"sd".as_ptr()));
    call!(symlink(c"".as_ptr(), c"empty".as_ptr()));
    for path in [c"s", c"loop", c"out", c"f", c"none", c"sd"] {
        readlink(path.as_ptr());
    }
    stat(c"s".as_ptr(), true);
    stat(c"s".as_ptr(), false);
    stat(c"loop".as_ptr(), true);
    stat(c"loop".as_ptr(), false);
    stat(c"out".as_ptr(), false);
    call!(access(c"out".as_ptr(), libc::R_OK));
    call!(access(c"loop".as_ptr(), libc::F_OK));
    call!(mkdir(c"sd/through".as_ptr(), 0o755));
    stat(c"d/through".as_ptr(), true);
    call!(rmdir(c"sd".as_ptr()));
    call!(rmdir(c"sd/through".as_ptr()));
    call!(link(c"f".as_ptr(), c"g".as_ptr()));
    call!(link(c"f".as_ptr(), c"g".as_ptr()));
    call!(link(c"d".as_ptr(), c"d2".as_ptr()));
    call!(link(c"none".as_ptr(), c"d2".as_ptr()));
    call!(linkat(HERE, c"s".as_ptr(), HERE, c"of-link".as_ptr(), 0));
    call!(linkat(HERE, c"s".as_ptr(), HERE, c"of-file".as_ptr(), libc::AT_SYMLINK_FOLLOW));
    call!(link(c"f".as_ptr(), c"/tmp/other-file-system".as_ptr()));
    stat(c"f".as_ptr(), true);
    stat(c"of-link".as_ptr(), false);
    stat(c"of-file".as_ptr(), false);
    call!(unlink(c"of-link".as_ptr()));
    call!(unlink(c"g".as_ptr()));
    stat(c"f".as_ptr(), true);
}

fn renames() {
    file(c"a".as_ptr());
    file(c"b".as_ptr());
    call!(mkdir(c"x".as_ptr(), 0o755));
    call!(mkdir(c"x/y".as_ptr(), 0o755));
    call!(rename(c"a".as_ptr(), c"b".as_ptr()));
    stat(c"a".as_ptr(), true);
    call!(rename(c"none".as_ptr(), c"b".as_ptr()));
    call!(rename(c"b".as_ptr(), c"x".as_ptr()));
    call!(rename(c"x".as_ptr(), c"b".as_ptr()));
    call!(rename(c"x".as_ptr(), c"x/y/z".as_ptr()));
    call!(rename(c"d".as_ptr(), c"x".as_ptr()));
    call!(rename(c"b".as_ptr(), c"x/y/b".as_ptr()));
    call!(renameat2(HERE, c"x/y/b".as_ptr(), HERE, c"f".as_ptr(), libc::RENAME_NOREPLACE));
    call!(renameat2(HERE, c"x/y/b".as_ptr(), HERE, c"f".as_ptr(), libc::RENAME_EXCHANGE));
    call!(renameat2(HERE, c"x/y/b".as_ptr(), HERE, c"none".as_ptr(), libc::RENAME_EXCHANGE));
    call!(renameat2(HERE, c"x/y/b".as_ptr(), HERE, c"f".as_ptr(), 77));
    call!(rename(c"f".as_ptr(), c"/tmp/other-file-system".as_ptr()));
    call!(rename(c"x".as_ptr(), c"w".as_ptr()));
    stat(c"w/y/b".as_ptr(), true);
    stat(c"x/y".as_ptr(), true);
}

fn attributes() {
    let when = |a: i64, m: i64| {
        [libc::timespec { tv_sec: 100, tv_nsec: a }, libc::timespec { tv_sec: -5, tv_nsec: m }]
    };
    call!(chmod(c"f".as_ptr(), 0o6751));
    call!(chmod(c"none".as_ptr(), 0o600));
    call!(chown(c"f".as_ptr(), 1234, 77));
    stat(c"f".as_ptr(), true);
    call!(chown(c"f".as_ptr(), u32::MAX, 78));
    call!(lchown(c"s".as_ptr(), 5, 6));
    stat(c"s".as_ptr(), false);
    stat(c"s".as_ptr(), true);
    call!(utimensat(HERE, c"f".as_ptr(), when(7, 8).as_ptr(), 0));
    times(c"f".as_ptr());
    call!(utimensat(HERE, c"f".as_ptr(), when(libc::UTIME_OMIT, 9).as_ptr(), 0));
    times(c"f".as_ptr());
    call!(utimensat(HERE, c"s".as_ptr(), when(1, 2).as_ptr(), libc::AT_SYMLINK_NOFOLLOW));
    times(c"s".as_ptr());
    call!(utimensat(HERE, c"f".as_ptr(), when(-3, 2).as_ptr(), 0));
    call!(truncate(c"f".as_ptr(), 5000));
    call!(truncate(c"f".as_ptr(), -1));
    call!(truncate(c"d".as_ptr(), 0));
    call!(truncate(c"none".as_ptr(), 0));
    stat(c"f".as_ptr(), true);
    call!(access(c"f".as_ptr(), libc::R_OK | libc::W_OK | libc::X_OK));
    call!(access(c"f".as_ptr(), 99));
    call!(access(c"none".as_ptr(), libc::F_OK));
}

/// Calls that are refused to another user: in a directory of root's, in a sticky one, and through one that
/// may not be searched.
fn another_user() {
    call!(mkdir(c"closed".as_ptr(), 0o700));
    file(c"closed/f".as_ptr());
    call!(mkdir(c"sticky".as_ptr(), 0o1777));
    call!(chmod(c"sticky".as_ptr(), 0o1777));
    file(c"sticky/roots".as_ptr());
    call!(symlink(c"roots".as_ptr(), c"sticky/link".as_ptr()));
    call!(setresgid(65534, 65534, 65534));
    call!(setresuid(65534, 65534, 65534));
    stat(c"closed/f".as_ptr(), true);
    call!(access(c"f".as_ptr(), libc::W_OK));
    call!(access(c"closed/f".as_ptr(), libc::F_OK));
    call!(unlink(c"f".as_ptr()));
    call!(mkdir(c"mine".as_ptr(), 0o755));
    call!(rename(c"f".as_ptr(), c"sticky/f".as_ptr()));
    call!(chmod(c"f".as_ptr(), 0o777));
    call!(chown(c"f".as_ptr(), 65534, 65534));
    call!(utimensat(HERE, c"f".as_ptr(), std::ptr::null(), 0));
    call!(truncate(c"f".as_ptr(), 0));
    call!(mkdir(c"sticky/mine".as_ptr(), 0o755));
    call!(unlink(c"sticky/roots".as_ptr()));
    call!(rename(c"sticky/roots".as_ptr(), c"sticky/renamed".as_ptr()));
    call!(rename(c"sticky/mine".as_ptr(), c"sticky/ours".as_ptr()));
    call!(chown(c"sticky/ours".as_ptr(), 0, 65534));
    stat(c"sticky/link".as_ptr(), false);
    stat(c"sticky/ours".as_ptr(), false);
    call!(rmdir(c"sticky/ours".as_ptr()));
    call!(rmdir(c"closed".as_ptr()));
}

fn main() {
    let dir = std::env::args_os().nth(1).expect("names DIR");
    std::env::set_current_dir(&dir).expect("entered");
    // SAFETY: a mask; this program has one thread.
    unsafe { libc::umask(0o022) };
    making_and_removing();
    links();
    renames();
    attributes();
    // SAFETY: as above.
    if unsafe { libc::geteuid() } == 0 {
        another_user();
    }
}
