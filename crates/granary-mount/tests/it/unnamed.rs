//! Files without a name (O_TMPFILE): they live while they are open, get a name or leave nothing.

use super::image;
use super::rig::{self, Rig, each_with, each_with_all as each, eventually};
use granary_fs::{Caller, Cred};
use granary_image::host::memory::MemoryHost;
use granary_image::{Durability, Image};
use granary_mount::Options;
use granary_testbed::registry::FsEntry;
use granary_units::Bytes;
use granary_vfs::{OpenFlags, Posix, Process, Vfs};
use rustix::fs::{AtFlags, CWD, OFlags, linkat, openat};
use rustix::io::{Errno, Result};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

fn unnamed(dir: &Path, more: OFlags) -> Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | more;
    openat(CWD, dir, flags, rustix::fs::Mode::from_raw_mode(0o640)).map(File::from)
}

fn name(file: &File, path: &Path) -> Result<()> {
    let fd = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, &fd, CWD, path, AtFlags::SYMLINK_FOLLOW)
}

fn names(dir: &Path) -> usize {
    fs::read_dir(dir)
        .expect("readable")
        .filter(|e| e.as_ref().expect("entry").file_name() != "lost+found")
        .count()
}

#[test]
fn it_is_written_and_read_and_is_in_no_directory() {
    each(|rig| {
        fs::create_dir(rig.path("d")).expect("mkdir");
        let mut f = unnamed(&rig.path("d"), OFlags::empty()).expect("made");
        f.write_all(&[7; 100_000]).expect("written");
        f.rewind().expect("seek");
        let mut all = Vec::new();
        f.read_to_end(&mut all).expect("read");
        assert!(all == [7; 100_000], "{}", rig.fs);
        let m = f.metadata().expect("stat");
        assert_eq!((m.nlink(), m.len(), m.permissions().mode() & 0o777), (0, 100_000, 0o640), "{}", rig.fs);
        f.set_len(10).expect("cut");
        f.set_permissions(fs::Permissions::from_mode(0o600)).expect("chmod");
        f.sync_all().expect("fsync");
        let m = f.metadata().expect("stat");
        assert_eq!((m.nlink(), m.len(), m.permissions().mode() & 0o777), (0, 10, 0o600), "{}", rig.fs);
        assert_eq!(names(&rig.path("d")), 0);
        drop(f);
        fs::remove_dir(rig.path("d")).expect("it was empty");
    });
}

#[test]
fn it_is_given_a_name_once_unless_it_was_opened_exclusively() {
    each(|rig| {
        let mut f = unnamed(rig.root(), OFlags::empty()).expect("made");
        f.write_all(b"kept").expect("written");
        let path = rig.path("shown");
        name(&f, &path).expect("linked");
        assert_eq!(name(&f, &path), Err(Errno::EXIST), "{}", rig.fs);
        assert_eq!(f.metadata().expect("stat").nlink(), 1, "{}", rig.fs);
        f.write_all(b" on").expect("written");
        drop(f);
        assert_eq!(fs::read_to_string(&path).expect("read"), "kept on", "{}", rig.fs);
        // Like any file now: when its last name is gone, it gets none any more.
        let f = File::open(&path).expect("opens");
        fs::remove_file(&path).expect("removed");
        assert_eq!(name(&f, &path), Err(Errno::NOENT), "{}", rig.fs);
        let f = unnamed(rig.root(), OFlags::EXCL).expect("made");
        assert_eq!(name(&f, &path), Err(Errno::NOENT), "{}", rig.fs);
    });
}

#[test]
fn its_space_comes_back() {
    each(|rig| {
        let free = || {
            rig.vfs.sync(&Caller::KERNEL).expect("sync");
            let told = rustix::fs::statvfs(rig.root()).expect("statvfs");
            (told.f_bfree, told.f_ffree)
        };
        drop(unnamed(rig.root(), OFlags::empty()).expect("made"));
        let before = free();
        for _ in 0..3 {
            let mut f = unnamed(rig.root(), OFlags::empty()).expect("made");
            f.write_all(&vec![3; 8 << 20]).expect("written");
            f.sync_all().expect("fsync");
        }
        let back = eventually(|| free().0 + 16 >= before.0 && free().1 >= before.1);
        assert!(back, "{}: {:?} of {before:?}", rig.fs, free());
    });
}

#[test]
fn a_mount_that_only_reads_makes_none() {
    each_with(&Options { read_only: true, ..Options::default() }, |rig| {
        assert_eq!(unnamed(rig.root(), OFlags::empty()).expect_err("refused"), Errno::ROFS, "{}", rig.fs);
    });
}

#[test]
fn its_owner_is_who_made_it_and_the_directory_s_group_counts() {
    each(|rig| {
        let dir = rig.path("d");
        fs::create_dir(&dir).expect("mkdir");
        std::os::unix::fs::chown(&dir, None, Some(4321)).expect("chgrp");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o2770)).expect("chmod");
        let m = unnamed(&dir, OFlags::empty()).expect("made").metadata().expect("stat");
        assert_eq!((m.uid(), m.gid()), (rustix::process::getuid().as_raw(), 4321), "{}", rig.fs);
    });
}

/// As many as one likes, in an order of ends that is not that of their beginnings.
#[test]
fn many_live_side_by_side() {
    each(|rig: &Rig| {
        let mut all: Vec<(usize, File)> = Vec::new();
        for n in 0..200 {
            let mut f = unnamed(rig.root(), OFlags::empty()).expect("made");
            f.write_all(format!("{n}").as_bytes()).expect("written");
            all.push((n, f));
        }
        for n in (0..200).step_by(3) {
            name(&all[n].1, &rig.path(&format!("f{n}"))).expect("linked");
        }
        let odd: Vec<_> = all.extract_if(.., |(n, _)| *n % 2 == 1).collect();
        drop(odd);
        for (n, f) in &mut all {
            f.rewind().expect("seek");
            let mut text = String::new();
            f.read_to_string(&mut text).expect("read");
            assert_eq!(text, format!("{n}"), "{}", rig.fs);
        }
        drop(all);
        for n in (0..200).step_by(3) {
            assert_eq!(
                fs::read_to_string(rig.path(&format!("f{n}"))).expect("read"),
                format!("{n}"),
                "{}",
                rig.fs
            );
        }
    });
}

fn open(host: &MemoryHost, entry: &FsEntry, new: bool) -> (Image, Arc<Vfs>) {
    let (image, devices) = image::open(host, Durability::Process);
    (image, image::vfs_on(devices, entry, new))
}

fn content(p: &mut Process, path: &str) -> Option<Vec<u8>> {
    let fd = p.open(path, OpenFlags::RDONLY, 0).ok()?;
    let mut out = vec![0; 100];
    let n = p.pread(fd, granary_units::Dest::Bytes(&mut out), 0).expect("read");
    p.close(fd).expect("open");
    out.truncate(n);
    Some(out)
}

/// The file system is in order, on media too.
fn sound(vfs: &Arc<Vfs>, entry: &FsEntry) {
    let mut bad = Vec::new();
    eventually(|| {
        vfs.sync(&Caller::KERNEL).expect("sync");
        bad = vfs.check().expect("check runs");
        bad.is_empty()
    });
    assert!(bad.is_empty(), "{}: {bad:#?}", entry.name);
}

/// Dies with files open that have no name, and one that was given one: by an unmount, or as by `kill -9`.
fn one(entry: &'static FsEntry, killed: bool) {
    let host = image::create(entry, Some(Bytes::mib(4)));
    let (image, vfs) = open(&host, entry, true);
    vfs.sync(&Caller::KERNEL).expect("sync");
    let free = vfs.statfs(&Caller::KERNEL).expect("statfs");
    let dir = tempfile::tempdir().expect("a directory");
    let mounted = granary_mount::mount(vfs, dir.path(), &Options::default()).expect("mounts");
    let mut given = unnamed(dir.path(), OFlags::empty()).expect("made");
    given.write_all(b"given a name").expect("written");
    name(&given, &dir.path().join("given")).expect("linked");
    let mut synced = unnamed(dir.path(), OFlags::empty()).expect("made");
    synced.write_all(b"synced before").expect("written");
    synced.sync_all().expect("fsync");
    name(&synced, &dir.path().join("synced")).expect("linked");
    let mut left = unnamed(dir.path(), OFlags::empty()).expect("made");
    left.write_all(&[9; 50_000]).expect("written");
    for f in [&given, &synced, &left] {
        f.sync_all().expect("fsync");
    }
    File::open(dir.path()).expect("opens").sync_all().expect("fsync of the directory");
    if killed {
        image.freeze("killed");
    }
    mounted.unmounter().unmount(true).expect("detached");
    drop((given, synced, left));
    let ended = mounted.join();
    assert!(killed || ended.is_ok(), "{}: {ended:?}", entry.name);
    let closed = image.close();
    assert_eq!(closed.is_ok(), !killed, "{}", entry.name);

    let (image, vfs) = open(&host, entry, false);
    sound(&vfs, entry);
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    assert_eq!(content(&mut p, "/given").as_deref(), Some(b"given a name".as_slice()), "{}", entry.name);
    assert_eq!(content(&mut p, "/synced").as_deref(), Some(b"synced before".as_slice()), "{}", entry.name);
    for path in ["/given", "/synced"] {
        assert_eq!(p.stat(path).expect("there").attr.nlink, 1, "{}", entry.name);
        p.unlink(path).expect("removed");
    }
    p.exit();
    sound(&vfs, entry);
    let now = vfs.statfs(&Caller::KERNEL).expect("statfs");
    assert!(now.free_blocks + 64 >= free.free_blocks, "{}: {now:?} of {free:?}", entry.name);
    vfs.unmount().expect("unmounts");
    image.close().expect("closes");
}

#[test]
fn nothing_is_left_of_it_after_an_unmount_or_a_death_and_one_with_a_name_is_there() {
    if rig::possible() {
        for entry in rig::systems_with_all() {
            one(entry, false);
            one(entry, true);
        }
    }
}
