//! What was written beyond a file's end, and not committed, shows in no later mount, whoever looks at the file when.

#[path = "common/failure.rs"]
mod failure;
#[path = "common/targets.rs"]
#[allow(dead_code)]
mod targets;

use failure::across_a_power_failure;
use granary_crash::Target;
use granary_mssd::Drive;
use granary_units::{Dest, Payload};
use granary_vfs::{Allocate, Cred, OpenFlags, Posix, Process, Vfs};
use std::sync::Arc;

const PAGE: u64 = 4096;

fn attach(target: &dyn Target, drive: &Arc<dyn Drive>) -> Arc<Vfs> {
    let fs = target.mount(drive.clone()).expect("mounts");
    Vfs::mount(fs, target.vfs()).expect("mounts")
}

/// Bytes beyond the end that can be read after a power failure in the middle of a write into reserved space, and a
/// second mount.
fn shown(name: &'static str, looks_in_between: bool) -> usize {
    let target = targets::by_name(name).expect("a target");
    let before = |target: &dyn Target, drive: &Arc<dyn Drive>| {
        let mut p = Process::new(attach(target, drive), Cred::ROOT);
        let flags = OpenFlags::RDWR | OpenFlags::CREAT | OpenFlags::DIRECT;
        let fd = p.open("/f", flags, 0o600).expect("creates");
        p.fallocate(fd, Allocate::Reserve { keep_size: true }, 0, 16 * PAGE).expect("room");
        p.fsync(fd).expect("fsync");
        drive.track_in_flight(true);
        p.pwrite(fd, Payload::Bytes(&[0x77; 8 * PAGE as usize]), 0).expect("writes");
    };
    across_a_power_failure(&target, before, move |target, drive| {
        let vfs = attach(target, drive);
        if looks_in_between {
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            p.stat("/f").expect("there");
            p.exit();
        }
        vfs.unmount().expect("unmounts");
        let vfs = attach(target, drive);
        assert_eq!(vfs.fs().check().expect("readable"), Vec::<String>::new(), "{name}");
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
