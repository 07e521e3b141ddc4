//! Lifetimes: open files without names, numbers used again, mounts that end.

use super::rig::{Rig, any, each, eventually, possible, vfs};
use granary_fs::{Caller, Cred, FileKind};
use granary_mount::{MountError, Options, STATS_FILE};
use granary_vfs::{Posix, Process};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::Arc;

#[test]
fn an_unlinked_file_lives_until_its_last_close() {
    each(|rig| {
        let free = || rustix::fs::statvfs(rig.root()).expect("statvfs").f_bfree;
        rig.vfs.sync(&Caller::KERNEL).expect("sync");
        let before = free();
        let mut f = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .truncate(true)
            .open(rig.path("f"))
            .expect("open");
        f.write_all(&vec![7; 8 << 20]).expect("write");
        f.sync_all().expect("fsync");
        fs::remove_file(rig.path("f")).expect("unlink");
        assert!(!rig.path("f").exists());
        assert_eq!(f.metadata().expect("fstat").nlink(), 0);
        f.write_all(b"more").expect("write");
        let mut got = [0; 8];
        f.read_exact_at(&mut got, (8 << 20) - 4).expect("read");
        assert_eq!(&got, b"\x07\x07\x07\x07more");
        f.sync_all().expect("fsync without a name");
        assert!(free() + 2000 < before, "the space is in use");
        drop(f);
        let back = eventually(|| {
            rig.vfs.sync(&Caller::KERNEL).expect("sync");
            free() + 16 >= before
        });
        assert!(back, "{}: {} of {before} blocks came back", rig.fs, free());
    });
}

#[test]
fn a_number_that_is_used_again_is_another_file() {
    each(|rig| {
        let mut kept = Vec::new();
        for round in 0..300 {
            let name = rig.path("f");
            let mut f = File::create(&name).expect("create");
            write!(f, "{round}").expect("write");
            if round % 10 == 0 {
                kept.push((round, File::open(&name).expect("open")));
            }
            fs::remove_file(&name).expect("unlink");
        }
        for (round, mut f) in kept {
            let mut text = String::new();
            f.read_to_string(&mut text).expect("read");
            assert_eq!(text, round.to_string());
        }
    });
}

#[test]
fn a_removed_directory_that_is_somebodys_working_directory_is_empty() {
    each(|rig| {
        fs::create_dir(rig.path("d")).expect("mkdir");
        let d = File::open(rig.path("d")).expect("open");
        fs::remove_dir(rig.path("d")).expect("rmdir");
        let inside = rustix::fs::openat(&d, "x", rustix::fs::OFlags::CREATE, 0o644.into());
        assert_eq!(inside.expect_err("no entries any more"), rustix::io::Errno::NOENT);
        assert_eq!(d.metadata().expect("fstat").nlink(), 0);
    });
}

#[test]
fn statistics_are_read_under_a_hidden_name() {
    if !possible() {
        return;
    }
    let stats =
        |ops: &granary_mount::Operations| format!("{} lookups\n", ops.of(granary_mount::Operation::Lookup));
    let rig = Rig::new(any(), &Options { stats: Some(Arc::new(stats)), ..Options::default() });
    let text = fs::read_to_string(rig.path(STATS_FILE)).expect("readable");
    assert!(text.ends_with(" lookups\n"), "{text}");
    assert!(fs::read_dir(rig.root()).expect("readdir").all(|e| e.expect("entry").file_name() != STATS_FILE));
    assert_eq!(
        fs::remove_file(rig.path(STATS_FILE)).expect_err("not a file").kind(),
        ErrorKind::PermissionDenied
    );
    assert!(fs::write(rig.path(STATS_FILE), "x").is_err());
    rig.finish();
}

#[test]
fn a_mount_in_use_is_not_taken_away_but_a_lazy_one_goes() {
    if !possible() {
        return;
    }
    let mut rig = Rig::new(any(), &Options::default());
    let mut f = File::create(rig.path("f")).expect("create");
    assert!(matches!(rig.unmounter().unmount(false), Err(MountError::InUse(_))));
    rig.unmounter().unmount(true).expect("lazily");
    assert_eq!(fs::read_dir(rig.root()).expect("plain directory").count(), 0);
    f.write_all(b"still there").expect("open files go on");
    f.sync_all().expect("fsync");
    drop(f);
    rig.join().expect("ends when the last file is closed");
}

#[test]
fn what_cannot_be_mounted_on_is_refused_with_the_reason() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let refused = |name: &str| {
        let result = granary_mount::mount(vfs(any()).0, &dir.path().join(name), &Options::default());
        result.err().expect("refused")
    };
    assert!(matches!(refused("absent"), MountError::NoDirectory(_)));
    fs::write(dir.path().join("file"), "").expect("write");
    assert!(matches!(refused("file"), MountError::NotADirectory(_)));
    fs::create_dir_all(dir.path().join("full/x")).expect("mkdir");
    assert!(matches!(refused("full"), MountError::NotEmpty(_)));
    let rig = Rig::new(any(), &Options::default());
    let again = granary_mount::mount(vfs(any()).0, rig.root(), &Options::default());
    assert!(matches!(again.err().expect("refused"), MountError::Busy { .. }));
    rig.finish();
}

#[test]
fn a_read_only_mount_changes_nothing() {
    if !possible() {
        return;
    }
    let rig = Rig::new(any(), &Options { read_only: true, xattrs: true, ..Options::default() });
    let mut below = Process::new(rig.vfs.clone(), Cred::ROOT);
    below.mknod("/f", FileKind::File, 0o666, 0).expect("below the mount");
    below.exit();
    let e = File::create(rig.path("g")).expect_err("read-only");
    assert_eq!(e.kind(), ErrorKind::ReadOnlyFilesystem);
    assert!(fs::read_dir(rig.root()).is_ok());
    // The kernel can be told to let changes through; nothing tells the mount, which refuses them all the
    // same.
    match mount_remount(rig.root(), MountFlags::empty(), "") {
        Ok(()) => every_change_is_refused(&rig),
        Err(Errno::PERM) => eprintln!("not root: not remounted"),
        Err(e) => panic!("remount: {e}"),
    }
    rig.finish();
}

fn every_change_is_refused(rig: &Rig) {
    let (f, g) = (rig.path("f"), rig.path("g"));
    let rofs = |what: &str, result: rustix::io::Result<()>| assert_eq!(result, Err(Errno::ROFS), "{what}");
    let io =
        |result: std::io::Result<()>| result.map_err(|e| Errno::from_io_error(&e).expect("the kernel's"));
    for write in [OpenOptions::new().write(true), OpenOptions::new().read(true).write(true)] {
        rofs("open", io(write.open(&f).map(drop)));
    }
    rofs("open, truncating", io(OpenOptions::new().write(true).truncate(true).open(&f).map(drop)));
    rofs("create", io(File::create(&g).map(drop)));
    rofs("mkdir", io(fs::create_dir(&g)));
    rofs("symlink", io(std::os::unix::fs::symlink("x", &g)));
    rofs("link", io(fs::hard_link(&f, &g)));
    rofs("rename", io(fs::rename(&f, &g)));
    rofs("unlink", io(fs::remove_file(&f)));
    rofs("utimes", io(File::open(&f).and_then(|f| f.set_modified(std::time::UNIX_EPOCH))));
    rofs("chmod", io(fs::set_permissions(&f, fs::Permissions::from_mode(0o600))));
    rofs("chown", rustix::fs::chown(&f, Some(rustix::fs::Uid::from_raw(1)), None));
    rofs("setxattr", rustix::fs::setxattr(&f, "user.a", b"b", XattrFlags::empty()));
    rofs("removexattr", rustix::fs::removexattr(&f, "user.a"));
    assert_eq!(fs::read(&f).expect("reading goes on"), b"");
}
