//! Properties of a host directory alone: other programs see it, and its descriptors do not follow names.

use granary_fs::{Allocate, Cred, FsError, SetXattr};
use granary_hostdir::mount;
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;
use tempfile::TempDir;

fn mounted(inodes: usize) -> (TempDir, Arc<Vfs>) {
    let dir = TempDir::new().expect("a directory");
    let fs = mount(dir.path()).expect("mounts");
    let vfs = Vfs::mount(fs, VfsConfig { inodes, ..VfsConfig::default() }).expect("mounts");
    (dir, vfs)
}

fn read(p: &mut Process, path: &str) -> Result<Vec<u8>, FsError> {
    let fd = p.open(path, OpenFlags::RDONLY, 0)?;
    let mut bytes = vec![0; 100];
    let n = p.pread(fd, Dest::Bytes(&mut bytes), 0)?;
    bytes.truncate(n);
    p.close(fd)?;
    Ok(bytes)
}

/// Descriptors that this process has open on files of the directory, or on such as are gone.
fn descriptors(dir: &TempDir) -> usize {
    let all = fs::read_dir("/proc/self/fd").expect("/proc");
    let of = all.filter_map(|e| fs::read_link(e.ok()?.path()).ok());
    of.filter(|to| to.starts_with(dir.path())).count()
}

#[test]
fn what_is_written_is_in_the_host_s_file_at_once() {
    let (dir, vfs) = mounted(100);
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    p.mkdir("/d", 0o755).expect("mkdir");
    let fd = p.open("/d/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o640).expect("open");
    p.write(fd, Payload::Bytes(b"seen")).expect("write");
    let path = dir.path().join("d/f");
    assert_eq!(fs::read(&path).expect("there"), b"seen");
    let host = fs::metadata(&path).expect("there");
    let stat = p.fstat(fd).expect("stat");
    assert_eq!((stat.ino.0, stat.attr.mode), (host.ino(), (host.mode() & 0o7777) as u16));
    assert_eq!(stat.attr.mtime.0, host.mtime() * 1_000_000_000 + host.mtime_nsec());
    p.fsync(fd).expect("fsync");
    p.exit();
    vfs.unmount().expect("unmount");
    assert_eq!(descriptors(&dir), 1, "the root's, until it is dropped");
    drop(vfs);
    assert_eq!(descriptors(&dir), 0);
}

#[test]
fn an_open_file_is_itself_whatever_becomes_of_its_name() {
    let (dir, vfs) = mounted(100);
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    fs::create_dir(dir.path().join("d")).expect("mkdir");
    fs::write(dir.path().join("d/f"), b"one").expect("write");
    let fd = p.open("/d/f", OpenFlags::RDWR, 0).expect("open");
    // From beside: the directory goes elsewhere, and another file is where it was.
    fs::rename(dir.path().join("d"), dir.path().join("e")).expect("rename");
    fs::create_dir(dir.path().join("d")).expect("mkdir");
    fs::write(dir.path().join("d/f"), b"two").expect("write");
    p.pwrite(fd, Payload::Bytes(b"ONE"), 0).expect("write");
    p.chmod("/d/f", 0o600).expect("by its descriptor");
    assert_eq!(fs::read(dir.path().join("e/f")).expect("there"), b"ONE");
    assert_eq!(fs::read(dir.path().join("d/f")).expect("there"), b"two");
    assert_eq!(fs::metadata(dir.path().join("e/f")).expect("there").mode() & 0o777, 0o600);
    // And it is gone from everywhere, but for who has it open.
    fs::remove_file(dir.path().join("e/f")).expect("remove");
    let mut bytes = [0; 3];
    assert_eq!(p.pread(fd, Dest::Bytes(&mut bytes), 0), Ok(3));
    assert_eq!(&bytes, b"ONE");
}

#[test]
fn symbolic_links_lead_nowhere_outside() {
    let (dir, vfs) = mounted(100);
    let outside = TempDir::new().expect("a directory");
    fs::write(outside.path().join("secret"), b"secret").expect("write");
    symlink(outside.path(), dir.path().join("l")).expect("symlink");
    symlink(outside.path().join("secret"), dir.path().join("s")).expect("symlink");
    let mut p = Process::new(vfs, Cred::ROOT);
    // Their targets are paths of this file system.
    assert_eq!(read(&mut p, "/l/secret"), Err(FsError::NoEntry));
    assert_eq!(read(&mut p, "/s"), Err(FsError::NoEntry));
    assert_eq!(p.readlink("/l").expect("a link"), outside.path().as_os_str().as_encoded_bytes());
    assert_eq!(p.stat("/.."), p.stat("/"), "nothing is above the root");
    p.unlink("/s").expect("the link goes");
    assert!(outside.path().join("secret").exists());
}

/// Of a thousand files ten have descriptors; the others are found again, also those whose first name is gone.
#[test]
fn inodes_that_left_memory_keep_no_descriptors_and_are_found_again() {
    let (dir, vfs) = mounted(10);
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    for d in 0..4 {
        p.mkdir(format!("/{d}"), 0o755).expect("mkdir");
    }
    let path = |n: usize| format!("/{}/{n}", n % 4);
    for n in 0..1_000 {
        let fd = p.open(path(n), OpenFlags::CREAT | OpenFlags::WRONLY, 0o644).expect("open");
        p.write(fd, Payload::Bytes(n.to_string().as_bytes())).expect("write");
        p.close(fd).expect("close");
    }
    assert!(descriptors(&dir) < 40, "{}", descriptors(&dir));
    for n in (0..1_000).step_by(10) {
        p.link(path(n), format!("/{}/x{n}", (n + 1) % 4)).expect("link");
        p.unlink(path(n)).expect("unlink");
    }
    p.rename("/3", "/0/three").expect("rename");
    for n in 0..1_000 {
        let (dir, name) = match n % 10 {
            0 => ((n + 1) % 4, format!("x{n}")),
            _ => (n % 4, n.to_string()),
        };
        let dir = if dir == 3 { "0/three".to_owned() } else { dir.to_string() };
        assert_eq!(read(&mut p, &format!("/{dir}/{name}")).expect("there"), n.to_string().as_bytes());
    }
    p.exit();
    vfs.unmount().expect("unmount");
}

/// Something else has the name, and perhaps the number, that an inode had when it left memory: it is not
/// taken for it.
#[test]
fn what_was_replaced_from_beside_is_not_taken_for_what_was_there() {
    let (dir, vfs) = mounted(1);
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    fs::write(dir.path().join("f"), b"one").expect("write");
    assert_eq!(read(&mut p, "/f").expect("there"), b"one");
    p.mkdir("/d", 0o755).expect("mkdir");
    p.stat("/d").expect("there");
    vfs.drop_caches();
    // Two lives of a number are told apart by the tick of the host's clock.
    granary_sim::sleep(Nanos::from_millis(20));
    fs::remove_file(dir.path().join("f")).expect("remove");
    fs::write(dir.path().join("f"), b"two").expect("write");
    assert_eq!(read(&mut p, "/f").expect("asked again"), b"two");
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let dir = TempDir::new().expect("a directory");
    fs::write(dir.path().join("f"), b"").expect("write");
    assert_eq!(mount(dir.path().join("f")).err(), Some(FsError::NotDir));
    assert_eq!(mount(dir.path().join("none")).err(), Some(FsError::NoEntry));
}

/// Of a directory that is looked at only nothing moves: not even the access time of a file that is read.
#[test]
fn a_directory_that_is_looked_at_refuses_changes_and_keeps_its_times() {
    let dir = TempDir::new().expect("a directory");
    fs::create_dir(dir.path().join("d")).expect("made");
    fs::write(dir.path().join("d/f"), "there").expect("written");
    let times = || {
        let all = ["", "d", "d/f"].map(|name| fs::symlink_metadata(dir.path().join(name)).expect("there"));
        all.map(|m| [m.atime(), m.atime_nsec(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()])
    };
    let before = times();
    let fs = granary_hostdir::mount_read_only(dir.path()).expect("mounts");
    let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mounts");
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    let read_only = Err(FsError::ReadOnly);
    assert_eq!(p.list("/d").map(|all| all.len()), Ok(3));
    assert_eq!(read(&mut p, "/d/f").expect("read"), b"there");
    assert_eq!(p.open("/d/g", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).map(drop), read_only);
    assert_eq!(p.mkdir("/e", 0o755), read_only);
    assert_eq!(p.unlink("/d/f"), read_only);
    assert_eq!(p.rename("/d/f", "/g"), read_only);
    assert_eq!(p.link("/d/f", "/g"), read_only);
    assert_eq!(p.symlink("/d/f", "/g"), read_only);
    assert_eq!(p.chmod("/d/f", 0o600), read_only);
    assert_eq!(p.truncate("/d/f", 1), read_only);
    assert_eq!(p.setxattr("/d/f", b"user.x", b"", SetXattr::Any), read_only);
    let fd = p.open("/d/f", OpenFlags::RDWR, 0).expect("open");
    assert_eq!(p.write(fd, Payload::Bytes(b"x")).map(drop), read_only);
    assert_eq!(p.fallocate(fd, Allocate::PunchHole, 0, 5), read_only);
    p.fsync(fd).expect("nothing to do");
    p.exit();
    vfs.unmount().expect("unmount");
    assert_eq!(times(), before);
}
