//! Uncommitted bytes beyond a file's end show in no later mount, whoever looks at the file when.

use crate::failure::across_a_power_failure;
use granary_crash::Target;
use granary_device::Devices;
use granary_fs::{Allocate, Cred};
use granary_units::{Dest, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Process, Vfs};
use std::sync::Arc;

const PAGE: u64 = 4096;

fn attach(target: &dyn Target, devices: &Devices) -> Arc<Vfs> {
    let fs = target.mount(devices).expect("mounts");
    Vfs::mount(fs, target.vfs()).expect("mounts")
}

/// Bytes beyond the end that can be read after a power failure in the middle of a write into reserved space,
/// and a second mount.
fn shown(name: &'static str, looks_in_between: bool) -> usize {
    let target = crate::targets::by_name(name).expect("a target");
    let before = |target: &dyn Target, devices: &Devices| {
        let mut p = Process::new(attach(target, devices), Cred::ROOT);
        let flags = OpenFlags::RDWR | OpenFlags::CREAT | OpenFlags::DIRECT;
        let fd = p.open("/f", flags, 0o600).expect("creates");
        p.fallocate(fd, Allocate::Reserve { keep_size: true }, 0, 16 * PAGE).expect("room");
        p.fsync(fd).expect("fsync");
        devices.track_in_flight(true);
        p.pwrite(fd, Payload::Bytes(&[0x77; 8 * PAGE as usize]), 0).expect("writes");
    };
    across_a_power_failure(&target, before, move |target, devices| {
        let vfs = attach(target, devices);
        if looks_in_between {
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            p.stat("/f").expect("there");
            p.exit();
        }
        vfs.unmount().expect("unmounts");
        let vfs = attach(target, devices);
        assert_eq!(vfs.check().expect("readable"), Vec::<String>::new(), "{name}");
        let mut p = Process::new(vfs, Cred::ROOT);
        let size = p.stat("/f").expect("there").attr.size as usize;
        let fd = p.open("/f", OpenFlags::RDWR, 0).expect("opens");
        p.ftruncate(fd, 16 * PAGE).expect("grows");
        let mut found = vec![1; 16 * PAGE as usize];
        p.pread(fd, Dest::Bytes(&mut found), 0).expect("reads");
        found[size..].iter().filter(|&&b| b != 0).count()
    })
}

#[test]
fn what_was_not_committed_shows_in_no_later_mount() {
    let all = "bytefs bytefs-sync bytefs-log bytefs-dual bytefs-journal ext4 ext4-writeback ext4-journal f2fs nova nova-in-place pmfs";
    for name in all.split(' ') {
        for looks_in_between in [true, false] {
            assert_eq!(shown(name, looks_in_between), 0, "{name}, looked at in between: {looks_in_between}");
        }
    }
}

/// A change that moves the size on media past an old end whose page is only in memory.
type Change = fn(&mut Process, Fd);

/// The file has 6,000 bytes or 8,192 in memory, 100 on media.
const CHANGES: [(&str, usize, Change); 5] = [
    ("cut, but not as far", 6000, |p, fd| p.ftruncate(fd, 4500).expect("cuts")),
    ("grown", 8192, |p, fd| p.ftruncate(fd, 3 * PAGE).expect("grows")),
    ("allocated", 8192, |p, fd| {
        p.fallocate(fd, Allocate::Reserve { keep_size: false }, 0, 3 * PAGE).expect("room");
    }),
    ("its next page synced", 8192, |p, _| {
        let fd = p.open("/f", OpenFlags::WRONLY | OpenFlags::DSYNC, 0).expect("opens");
        assert_eq!(p.pwrite(fd, Payload::Bytes(b"NN"), PAGE + 5), Ok(2));
    }),
    ("written directly", 8192, |p, _| {
        let fd = p.open("/f", OpenFlags::WRONLY | OpenFlags::DIRECT, 0).expect("opens");
        assert_eq!(p.pwrite(fd, Payload::Bytes(&[b'N'; PAGE as usize]), 2 * PAGE), Ok(PAGE as usize));
    }),
];

/// Cuts a page of `X` to 100 bytes, appends `N` over its end without syncing that, lets `change` take the
/// size on media past it, makes other files durable, and lets the power fail. Returns what the file shows
/// behind its first 100 bytes.
fn behind_the_old_end(name: &'static str, appended: usize, change: Change) -> Vec<u8> {
    let target = crate::targets::by_name(name).expect("a target");
    let before = move |target: &dyn Target, devices: &Devices| {
        let mut p = Process::new(attach(target, devices), Cred::ROOT);
        let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
        p.pwrite(fd, Payload::Bytes(&[b'X'; PAGE as usize]), 0).expect("writes");
        p.fsync(fd).expect("fsync");
        p.ftruncate(fd, 100).expect("cuts");
        p.fsync(fd).expect("fsync");
        devices.track_in_flight(true);
        p.pwrite(fd, Payload::Bytes(&vec![b'N'; appended - 100]), 100).expect("appends");
        change(&mut p, fd);
        let other = p.open("/g", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
        p.fsync(other).expect("fsync");
    };
    across_a_power_failure(&target, before, |target, devices| {
        let mut p = Process::new(attach(target, devices), Cred::ROOT);
        let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("opens");
        let size = p.fstat(fd).expect("stat").attr.size as usize;
        let mut found = vec![1; size];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut found), 0), Ok(size));
        found.split_off(100)
    })
}

/// Behind the old end media have what was there before: it never becomes part of the file with a size that
/// grows over it.
#[test]
fn a_size_that_grows_over_an_old_end_shows_what_was_written_there_or_zeros() {
    let all = "bytefs bytefs-sync bytefs-log bytefs-dual bytefs-journal ext4 ext4-writeback ext4-journal f2fs nova nova-in-place pmfs";
    for name in all.split(' ') {
        for (what, appended, change) in CHANGES {
            let found = behind_the_old_end(name, appended, change);
            let stale = found.iter().position(|b| !b"N\0".contains(b));
            assert_eq!(stale, None, "{name}, {what}: of {} bytes behind the old end", found.len());
        }
    }
}
