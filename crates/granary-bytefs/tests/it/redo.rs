//! The host's redo log (`bytefs-dual`) and the blocks that it names: recovery stores lines where they were,
//! so such a block has no new owner before the log is empty.

use crate::common::{format, in_world, open, small_cached};
use granary_bytefs::{MountOptions, Variant};
use granary_device::Drive;
use granary_fs::{Caller, Cred, FileKind};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, now, power_fail, sleep_until};
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use parking_lot::Mutex;
use std::sync::Arc;

const NEW: u8 = 0x5a;

fn attach(drive: &Arc<dyn Drive>) -> (Arc<Vfs>, Process) {
    let options = MountOptions { variant: Variant::Dual, commit_batch: 1000, ..MountOptions::default() };
    let vfs = Vfs::mount(open(drive, &options), VfsConfig::default()).expect("mounts");
    (vfs.clone(), Process::new(vfs, Cred::ROOT))
}

/// Directories lose their only names and go, in the group that gave them the names; once the group is
/// committed, a file takes every block that is to be had and is synced. The power fails there, or at `at`;
/// returns that instant, and when the first sync began and ended.
fn reuse(drive: &Arc<dyn Drive>, at: Option<Nanos>) -> (Nanos, [Nanos; 2]) {
    let d = drive.clone();
    let sync = Arc::new(Mutex::new([Nanos::ZERO; 2]));
    let told = sync.clone();
    let stopped = World::new(WorldConfig { power_fail_at: at, ..WorldConfig::default() }).run(move || {
        format(&d);
        let (vfs, mut p) = attach(&d);
        p.mkdir("/kept", 0o755).expect("mkdir");
        p.mknod("/kept/gone", FileKind::File, 0o600, 0).expect("creates");
        p.mknod("/kept/first", FileKind::File, 0o600, 0).expect("creates");
        p.unlink("/kept/gone").expect("unlinks");
        p.sync().expect("syncs");
        p.mknod("/other", FileKind::File, 0o600, 0).expect("creates");
        p.sync().expect("syncs");
        d.track_in_flight(true);
        // Where a name was that neither half knows.
        p.mknod("/kept/second", FileKind::File, 0o600, 0).expect("creates");
        // More of them than the blocks that no file gets.
        for n in 0..40 {
            let dir = format!("/d{n}");
            p.mkdir(&dir, 0o755).expect("mkdir");
            p.mknod(format!("{dir}/name"), FileKind::File, 0o600, 0).expect("creates");
            p.unlink(format!("{dir}/name")).expect("unlinks");
            p.rmdir(&dir).expect("rmdir");
        }
        told.lock()[0] = now();
        p.sync().expect("syncs");
        told.lock()[1] = now();
        // Directly: pages that wait for write-back hold what their extents might need.
        let flags = OpenFlags::RDWR | OpenFlags::CREAT | OpenFlags::DIRECT;
        let fd = p.open("/all", flags, 0o600).expect("creates");
        for len in [1 << 20, 4096] {
            while p.write(fd, Payload::Bytes(&vec![NEW; len])) == Ok(len) {}
        }
        p.sync().expect("syncs");
        let left = vfs.statfs(&Caller::KERNEL).expect("statfs").available_blocks();
        assert_eq!(left, 0, "the directories' blocks are in use again");
        power_fail();
    });
    let Err(Stop::PowerFail(t)) = stopped else { panic!("{stopped:?}") };
    let sync = *sync.lock();
    (t, sync)
}

fn restart(drive: &Arc<dyn Drive>, t: Nanos) -> (Arc<Vfs>, Process) {
    sleep_until(t);
    sleep_until(drive.power_on(now()).expect("power on"));
    let (vfs, p) = attach(drive);
    assert_eq!(vfs.check().expect("readable"), Vec::<String>::new());
    (vfs, p)
}

#[test]
fn recovery_stores_no_old_lines_into_what_a_block_holds_now() {
    let drive = small_cached(16);
    let (t, _) = reuse(&drive, None);
    drive.power_fail(t, &mut Stream::new(1, "power"));
    in_world(move || {
        let (_, mut p) = restart(&drive, t);
        let fd = p.open("/all", OpenFlags::RDONLY, 0).expect("opens");
        let mut found = vec![0; p.fstat(fd).expect("stat").attr.size as usize];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut found), 0), Ok(found.len()));
        let foreign = found.iter().position(|&b| b != NEW);
        assert_eq!(foreign, None, "of {} bytes", found.len());
    });
}

/// The older half is emptied before the newer: alone it would bring lines back that the newer group changed.
#[test]
fn a_power_failure_while_the_log_is_emptied_leaves_a_sound_file_system() {
    const STEPS: u64 = 150;
    let (_, [began, ended]) = reuse(&small_cached(16), None);
    for step in 0..STEPS {
        let drive = small_cached(16);
        let (t, _) = reuse(&drive, Some(Nanos(began.0 + (ended - began).0 * step / STEPS)));
        drive.power_fail(t, &mut Stream::new(step, "power"));
        in_world(move || {
            let (vfs, mut p) = restart(&drive, t);
            p.stat("/kept/first").expect("synced");
            p.exit();
            vfs.unmount().expect("unmounts");
        });
    }
}
