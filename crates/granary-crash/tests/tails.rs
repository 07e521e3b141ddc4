//! What was written beyond a file's end, and not committed, shows in no later mount, whoever looks at the file when.

#[path = "common/targets.rs"]
#[allow(dead_code)]
mod targets;

use granary_crash::Target;
use granary_mssd::Drive;
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, now, sleep_until};
use granary_units::{Dest, Payload};
use granary_vfs::{Allocate, Cred, OpenFlags, Posix, Process, Vfs};
use std::sync::Arc;

const PAGE: u64 = 4096;

fn attach(target: &dyn Target, drive: &Arc<dyn Drive>) -> Arc<Vfs> {
    let fs = target.mount(drive.clone()).expect("mounts");
    Vfs::mount(fs, target.vfs()).expect("mounts")
}

/// Bytes beyond the end that can be read after a power failure in the middle of a write into reserved space, and a second mount.
fn shown(name: &'static str, looks_in_between: bool) -> usize {
    let target = targets::by_name(name).expect("a target");
    let drive = target.drive(1);
    let d = drive.clone();
    let stopped = World::default().run(move || {
        target.mkfs(&d).expect("mkfs");
        let mut p = Process::new(attach(&*target, &d), Cred::ROOT);
        let flags = OpenFlags::RDWR | OpenFlags::CREAT | OpenFlags::DIRECT;
        let fd = p.open("/f", flags, 0o600).expect("creates");
        p.fallocate(fd, Allocate::Reserve { keep_size: true }, 0, 16 * PAGE).expect("room");
        p.fsync(fd).expect("fsync");
        d.track_in_flight(true);
        p.pwrite(fd, Payload::Bytes(&[0x77; 8 * PAGE as usize]), 0).expect("writes");
        granary_sim::power_fail();
    });
    let Err(Stop::PowerFail(t)) = stopped else { panic!("{stopped:?}") };
    drive.power_fail(t, &mut Stream::new(1, "power"));
    let target = targets::by_name(name).expect("a target");
    let (tell, told) = std::sync::mpsc::channel();
    let world = World::default().run(move || {
        sleep_until(t);
        sleep_until(drive.power_on(now()).expect("power on"));
        let vfs = attach(&*target, &drive);
        if looks_in_between {
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            p.stat("/f").expect("there");
            p.exit();
        }
        vfs.unmount().expect("unmounts");
        let vfs = attach(&*target, &drive);
        assert_eq!(vfs.fs().check().expect("readable"), Vec::<String>::new(), "{name}");
        let mut p = Process::new(vfs, Cred::ROOT);
        let size = p.stat("/f").expect("there").attr.size as usize;
        let fd = p.open("/f", OpenFlags::RDWR, 0).expect("opens");
        p.ftruncate(fd, 16 * PAGE).expect("grows");
        let mut found = vec![1; 16 * PAGE as usize];
        p.pread(fd, Dest::Bytes(&mut found), 0).expect("reads");
        tell.send(found[size..].iter().filter(|&&b| b != 0).count()).expect("heard");
    });
    world.expect("no deadlock");
    told.recv().expect("told")
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
