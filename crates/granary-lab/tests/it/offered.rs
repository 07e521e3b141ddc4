//! The space that statfs offers can be had, on every file system: reserved and then written, or written at
//! once.

use granary_device::Devices;
use granary_fs::{Allocate, Caller, Cred, FsError};
use granary_mssd::Mssd;
use granary_sim::{World, WorldConfig};
use granary_testbed::Testbed;
use granary_testbed::registry::{self, FILE_SYSTEMS};
use granary_units::{Bytes, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs};
use std::sync::Arc;

/// Bytes that are left to a file's inode, and to the roots of trees.
const LESS: u64 = 512 << 10;

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Reserve,
    Write,
}

/// Files of many sizes, half of them removed again: free space is in pieces.
fn use_some(p: &mut Process) {
    for n in 0..40u64 {
        let fd = p.open(format!("/old{n}"), OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
        let len = (n * n * 397 % 300_000) as usize + 1;
        p.pwrite(fd, Payload::Fill { word: n + 1, len }, 0).expect("there is room");
        p.close(fd).expect("closes");
    }
    p.sync().expect("syncs");
    (0..40u64).step_by(2).for_each(|n| p.unlink(format!("/old{n}")).expect("removes"));
    p.sync().expect("syncs");
}

fn fill(fs: &'static str, size: Bytes, how: How, used: bool) {
    let told = format!("{fs}, {size}, {how:?}, used: {used}");
    World::new(WorldConfig::default())
        .run(move || {
            // NILFS2 keeps for an hour what nothing needs any more.
            let sets = ["nilfs2.protection_period=0".to_owned()];
            let testbed = Testbed::load("bytefs-emulator", &sets).expect("built in");
            let entry = registry::find(fs).expect("registered");
            let mut config = testbed.ssd_for(Some(entry)).expect("an SSD");
            config.flash = config.flash.with_capacity(size);
            let devices = Devices::ssd(Arc::new(Mssd::new(&config).expect("valid")));
            registry::mkfs(entry, &devices).expect("formats");
            let mounted = registry::mount(entry, &devices, &testbed, false).expect("mounts");
            let vfs = Vfs::mount(mounted, testbed.host.vfs).expect("mounts");
            let mut p = Process::new(Arc::clone(&vfs), Cred::ROOT);
            if used {
                use_some(&mut p);
            }
            let offered = p.statfs().expect("statfs").available_blocks() * 4096 - LESS;
            let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
            if how == How::Reserve {
                let all = Allocate::Reserve { keep_size: false };
                match p.fallocate(fd, all, 0, offered) {
                    // As Linux's; then it is written all the same.
                    Err(FsError::NotSupported) if fs == "nilfs2" => {}
                    done => done.unwrap_or_else(|e| panic!("{told}: reserving {offered}: {e}")),
                }
            }
            // NOVA writes to new pages, also into space that is reserved (docs/GUARANTEES.md).
            let writes = how == How::Write || fs != "nova";
            let mut at = 0;
            while writes && at < offered {
                let len = (offered - at).min(1 << 20) as usize;
                let n = p.pwrite(fd, Payload::Fill { word: 7, len }, at);
                at += n.unwrap_or_else(|e| panic!("{told}: byte {at} of {offered}: {e}")) as u64;
            }
            p.fsync(fd).unwrap_or_else(|e| panic!("{told}: fsync: {e}"));
            p.close(fd).expect("closes");
            vfs.sync(&Caller::KERNEL).expect("syncs");
            let found = vfs.check().expect("checks");
            assert!(found.is_empty(), "{told}: {found:?}");
            drop(p);
            vfs.unmount().expect("unmounts");
        })
        .expect("ends");
}

#[test]
fn what_statfs_offers_can_be_reserved_and_written() {
    let testbed = Testbed::load("bytefs-emulator", &[]).expect("built in");
    // Those without crash cases of their own differ from another in what a call costs only.
    let each = FILE_SYSTEMS.iter().filter(|f| testbed.roles_for(f).is_ok() && !f.crash.is_empty());
    for fs in each.map(|f| f.name) {
        for (size, how, used) in [
            (64, How::Reserve, false),
            (97, How::Write, true),
            (160, How::Reserve, true),
            (1100, How::Reserve, false),
            (1100, How::Write, true),
        ] {
            fill(fs, Bytes::mib(size), how, used);
        }
    }
}
