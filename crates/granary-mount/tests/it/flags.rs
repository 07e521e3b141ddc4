//! `chattr` and `lsattr`: flags are kept over mounts, and what they forbid is refused.
//!
//! Source: ioctl_iflags(2); `struct fsxattr` of linux/fs.h.
#![allow(unsafe_code, reason = "these calls have no safe wrapper")]

use super::rig::{self, Rig, each, possible, systems, vfs};
use granary_fs::Caller;
use granary_mount::{Mounted, Options, host_config};
use granary_testbed::registry;
use granary_units::Bytes;
use granary_vfs::{Vfs, VfsConfig};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const IMMUTABLE: i32 = 0x10;
const APPEND: i32 = 0x20;
const NODUMP: i32 = 0x40;
const NOATIME: i32 = 0x80;
/// FS_XFLAG_NODUMP.
const X_NODUMP: u32 = 0x80;

fn call<T>(path: &Path, cmd: u64, argument: &mut T) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: each of these calls reads or writes a structure of the type given, which lives through the
    // call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), cmd as libc::Ioctl, std::ptr::from_mut(argument)) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn flags(path: &Path) -> i32 {
    let mut flags = 0i32;
    call(path, 0x8008_6601, &mut flags).expect("lsattr");
    flags
}

fn set(path: &Path, mut flags: i32) -> io::Result<()> {
    call(path, 0x4008_6602, &mut flags)
}

/// `struct fsxattr`.
fn xattr(path: &Path) -> [u32; 7] {
    let mut structure = [u32::MAX; 7];
    call(path, 0x801c_581f, &mut structure).expect("asked");
    structure
}

fn is<T>(result: io::Result<T>, errno: i32) -> bool {
    result.is_err_and(|e| e.raw_os_error() == Some(errno))
}

fn refused<T>(result: io::Result<T>) -> bool {
    is(result, libc::EPERM)
}

fn root() -> bool {
    rustix::process::geteuid().is_root() || {
        granary_suite::skip::skipped("only root makes files immutable");
        false
    }
}

fn mount(vfs: &Arc<Vfs>, dir: &Path) -> Mounted {
    granary_mount::mount(vfs.clone(), dir, &Options { allow_other: true, ..Options::default() })
        .expect("mounts")
}

#[test]
fn every_flag_is_kept_over_mounts_and_other_changes() {
    if !possible() || !root() {
        return;
    }
    for system in systems() {
        let (first, devices) = vfs(system);
        let dir = tempfile::tempdir().expect("a directory");
        let mounted = mount(&first, dir.path());
        let at = |n: usize| dir.path().join(format!("n{n}"));
        let sets = [0, NODUMP, NOATIME, APPEND, IMMUTABLE, IMMUTABLE | APPEND | NODUMP | NOATIME];
        for (n, &wanted) in sets.iter().enumerate() {
            if n % 2 == 0 { fs::write(at(n), "content") } else { fs::create_dir(at(n)) }.expect("made");
            assert_eq!(flags(&at(n)), 0, "{}", system.name);
            // Set, taken away and set again, with changes of other attributes between.
            for flags in [NODUMP, 0, NODUMP | NOATIME] {
                set(&at(n), flags).expect("set");
                fs::set_permissions(at(n), Permissions::from_mode(0o700 + flags as u32 % 8))
                    .expect("changed");
            }
            set(&at(n), wanted).expect("set");
            assert_eq!(flags(&at(n)), wanted, "{}", system.name);
        }
        for other in [1, 0x8, 0x80_0000, 0x2000_0000] {
            assert!(is(set(&at(0), other), libc::EOPNOTSUPP), "{}: {other:#x}", system.name);
        }
        fs::remove_file(at(0)).expect("removed");
        fs::write(at(0), "new").expect("made");
        File::open(at(2)).expect("opened").sync_all().expect("synced");
        rig::unmount(mounted);

        let testbed = rig::testbed();
        let again = registry::mount(system, &devices, &testbed, false).expect("mounted");
        let second =
            Vfs::mount(again, host_config(VfsConfig::default(), Bytes::mib(64), false)).expect("vfs");
        let mounted = mount(&second, dir.path());
        for (n, &wanted) in sets.iter().enumerate() {
            assert_eq!(flags(&at(n)), wanted, "{}: {n}, after a mount", system.name);
        }
        assert!(refused(fs::remove_dir(at(3))), "{}", system.name);
        assert!(refused(fs::write(at(4), "changed")), "{}", system.name);
        for (n, _) in sets.iter().enumerate() {
            set(&at(n), 0).expect("taken away");
            fs::set_permissions(at(n), Permissions::from_mode(0o755)).expect("changed");
        }
        second.sync(&Caller::KERNEL).expect("synced");
        assert_eq!(second.check().expect("checked"), Vec::<String>::new(), "{}", system.name);
        rig::unmount(mounted);
    }
}

fn appends(rig: &Rig, name: &str, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(rig.path(name))?.write_all(text.as_bytes())
}

#[test]
fn an_immutable_file_stays_as_it_is_and_an_append_only_one_grows() {
    if !root() {
        return;
    }
    each(|rig| {
        let (f, log) = (rig.path("f"), rig.path("log"));
        for path in [&f, &log] {
            fs::write(path, "kept").expect("written");
        }
        let open = OpenOptions::new().write(true).open(&f).expect("opened");
        set(&f, IMMUTABLE).expect("set");
        let before = fs::metadata(&f).expect("there");
        assert!(refused(open.write_at(b"lost", 0)), "{}: open since before", rig.fs);
        assert!(refused(fs::write(&f, "lost")), "{}", rig.fs);
        assert!(refused(OpenOptions::new().write(true).open(&f).and_then(|f| f.write_at(b"lost", 0))));
        assert!(refused(appends(rig, "f", "lost")), "{}", rig.fs);
        assert!(refused(open.set_len(1)), "{}", rig.fs);
        assert!(refused(
            rustix::fs::fallocate(&open, rustix::fs::FallocateFlags::empty(), 0, 9000).map_err(Into::into)
        ));
        assert!(refused(fs::set_permissions(&f, Permissions::from_mode(0o600))), "{}", rig.fs);
        assert!(refused(std::os::unix::fs::chown(&f, Some(1), None)), "{}", rig.fs);
        assert!(refused(open.set_modified(std::time::SystemTime::UNIX_EPOCH)), "{}", rig.fs);
        assert!(refused(fs::hard_link(&f, rig.path("link"))), "{}", rig.fs);
        assert!(refused(fs::rename(&f, rig.path("moved"))), "{}", rig.fs);
        assert!(refused(fs::rename(&log, &f)), "{}", rig.fs);
        assert!(refused(fs::remove_file(&f)), "{}", rig.fs);
        drop(open);
        let after = fs::metadata(&f).expect("there");
        let told =
            |m: &fs::Metadata| (m.size(), m.mode(), m.uid(), m.mtime_nsec(), m.ctime_nsec(), m.nlink());
        assert_eq!(told(&after), told(&before), "{}", rig.fs);
        assert_eq!(fs::read(&f).expect("read"), b"kept", "{}", rig.fs);

        set(&log, APPEND).expect("set");
        appends(rig, "log", " and more").expect("appended");
        assert!(refused(OpenOptions::new().write(true).open(&log).and_then(|f| f.write_at(b"lost", 0))));
        assert!(refused(fs::write(&log, "lost")), "{}: cut first", rig.fs);
        assert!(refused(fs::remove_file(&log)), "{}", rig.fs);
        assert!(refused(fs::rename(&log, rig.path("moved"))), "{}", rig.fs);
        assert_eq!(fs::read(&log).expect("read"), b"kept and more", "{}", rig.fs);

        fs::create_dir(rig.path("d")).expect("made");
        fs::write(rig.path("d/in"), "kept").expect("written");
        set(&rig.path("d"), IMMUTABLE).expect("set");
        assert!(refused(File::create_new(rig.path("d/new"))), "{}", rig.fs);
        assert!(refused(fs::create_dir(rig.path("d/new"))), "{}", rig.fs);
        assert!(refused(fs::remove_file(rig.path("d/in"))), "{}", rig.fs);
        fs::write(rig.path("d/in"), "the file is free").expect("written");
        for name in ["f", "log", "d"] {
            set(&rig.path(name), 0).expect("taken away");
        }
        fs::write(&f, "changed").expect("free again");
        fs::remove_file(&log).expect("free again");
        fs::remove_dir_all(rig.path("d")).expect("free again");
    });
}

#[test]
fn what_a_mapping_has_changed_before_a_file_becomes_immutable_is_written() {
    if !root() {
        return;
    }
    each(|rig| {
        let path = rig.path("mapped");
        fs::write(&path, vec![b'a'; 8192]).expect("written");
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("opened");
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of an open file, at no place of ours.
        let map = unsafe {
            libc::mmap(std::ptr::null_mut(), 8192, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(map, libc::MAP_FAILED, "{}", rig.fs);
        // SAFETY: 8192 bytes of the mapping, which is ours alone.
        unsafe { map.cast::<u8>().write_bytes(b'b', 5000) };
        set(&path, IMMUTABLE).expect("set");
        // SAFETY: as above; nothing refers to it any more.
        assert_eq!(unsafe { libc::munmap(map, 8192) }, 0);
        file.sync_all().expect("nothing is left to write");
        drop(file);
        let node = rig.vfs.lookup(&Caller::KERNEL, &rig.vfs.root(), b"mapped").expect("there");
        let open = rig.vfs.open_for_call(node, granary_vfs::OpenFlags::RDONLY).expect("opened");
        let mut bytes = vec![0; 8192];
        rig.vfs.read(&Caller::KERNEL, &open, 0, granary_units::Dest::Bytes(&mut bytes)).expect("read");
        let changed = bytes.iter().take_while(|b| **b == b'b').count();
        assert_eq!((changed, bytes[5000]), (5000, b'a'), "{}", rig.fs);
        drop(open);
        set(&path, 0).expect("taken away");
    });
}

#[test]
fn with_noatime_the_access_time_stays_and_both_ways_to_ask_agree() {
    each(|rig| {
        let path = rig.path("f");
        fs::write(&path, "content").expect("written");
        set(&path, NOATIME | NODUMP).expect("the owner may");
        assert_eq!(xattr(&path), [0x40 | 0x80, 0, 0, 0, 0, 0, 0], "{}", rig.fs);
        let before = fs::metadata(&path).expect("there");
        let mut direct = OpenOptions::new().read(true).open(&path).expect("opened");
        let mut text = String::new();
        direct.read_to_string(&mut text).expect("read");
        let node = rig.vfs.lookup(&Caller::KERNEL, &rig.vfs.root(), b"f").expect("there");
        let atime = rig.vfs.stat(&node).attr.atime;
        drop(node);
        assert_eq!(atime.0, before.atime() * 1_000_000_000 + before.atime_nsec(), "{}", rig.fs);
        call(&path, 0x401c_5820, &mut [X_NODUMP, 0, 0, 0, 0, 0, 0]).expect("set");
        assert_eq!(flags(&path), NODUMP, "{}", rig.fs);
        assert!(is(call(&path, 0x401c_5820, &mut [0x20u32, 0, 0, 0, 0, 0, 0]), libc::EOPNOTSUPP), "sync");
        assert_eq!(flags(&path), NODUMP, "{}", rig.fs);
    });
}

#[test]
fn other_users_set_no_flags_and_owners_only_what_protects_nothing() {
    if !root() {
        return;
    }
    each(|rig| {
        fs::set_permissions(rig.root(), Permissions::from_mode(0o755)).expect("readable");
        for (name, owner) in [("own", 65_534), ("roots", 0)] {
            fs::write(rig.path(name), "x").expect("written");
            std::os::unix::fs::chown(rig.path(name), Some(owner), None).expect("given");
        }
        let chattr = |flag: &str, name: &str| {
            let done = Command::new("chattr").arg(flag).arg(rig.path(name)).uid(65_534).output();
            done.map(|out| out.status.success())
        };
        let Ok(done) = chattr("+d", "own") else { return granary_suite::skip::skipped("there is no chattr") };
        assert!(done, "{}", rig.fs);
        assert_eq!(flags(&rig.path("own")), NODUMP, "{}", rig.fs);
        for (flag, name) in [("+i", "own"), ("+a", "own"), ("+d", "roots")] {
            assert!(!chattr(flag, name).expect("runs"), "{}: {flag} {name}", rig.fs);
        }
        assert_eq!((flags(&rig.path("own")), flags(&rig.path("roots"))), (NODUMP, 0), "{}", rig.fs);
    });
}

/// The kernel keeps attributes: a change of flags has moved one of them.
#[test]
fn the_time_of_the_last_change_shows_at_once() {
    each(|rig| {
        let path = rig.path("f");
        fs::write(&path, b"x").expect("written");
        let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000);
        let file = File::options().write(true).open(&path).expect("opens");
        file.set_times(fs::FileTimes::new().set_modified(long_ago)).expect("set");
        let changed = |path: &Path| {
            let m = fs::metadata(path).expect("stat");
            (m.ctime(), m.ctime_nsec())
        };
        let before = changed(&path);
        let moved = rig::eventually(|| {
            set(&path, NOATIME).expect("chattr +A");
            changed(&path) > before
        });
        assert!(moved, "{}: stat shows the time of before", rig.fs);
    });
}
