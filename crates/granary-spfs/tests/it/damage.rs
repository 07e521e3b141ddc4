//! Persistent memory that somebody scribbled over: refused, reported or read as errors, never a panic.

use crate::common::{Rig, Stack};
use granary_device::{Port, Structure};
use granary_fs::{Call, Cred, Life};
use granary_pm::Pm;
use granary_sim::rng::Stream;
use granary_spfs::exthash::Form;
use granary_suite::suite::{Subject, run};
use granary_units::{Bytes, Dest};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};

const FILES: u64 = 12;
const SIZE: Bytes = Bytes::mib(4);

/// Everything that reads, and some calls that change; says whether anything was noticed.
fn look_at(stack: &Stack, port: Port) -> bool {
    let Ok(fs) = stack.mount(port) else { return true };
    let mut failed = fs.check(&Call::offline()).map_or(true, |bad| !bad.is_empty());
    let Ok(vfs) = Vfs::mount(fs.clone(), VfsConfig::default()) else { return true };
    let mut p = Process::new(vfs, Cred::ROOT);
    for n in 0..FILES {
        let Ok(fd) = p.open(format!("/{n}"), OpenFlags::RDWR, 0) else {
            failed = true;
            continue;
        };
        let mut bytes = vec![0; 100_000];
        failed |= p.pread(fd, Dest::Bytes(&mut bytes), 0) != Ok(20_000 + n as usize * 1000);
        let word = u64::from_le_bytes([n as u8 + 1; 8]);
        let data = granary_units::Payload::Fill { word, len: 5000 };
        failed |= p.pwrite(fd, data, 3000).is_err() | p.fsync(fd).is_err() | p.ftruncate(fd, 100).is_err();
        failed |= p.close(fd).is_err();
    }
    failed |= fs.demote_all().is_err();
    failed | fs.check(&Call::offline()).map_or(true, |bad| !bad.is_empty())
}

fn scribbled(form: Form, seed: u64, whole_device: bool) -> bool {
    run(move || {
        let mut stack = Stack::busy(form);
        stack.mount.demotion = false;
        let mut rig = Rig::new(&stack, SIZE);
        for n in 0..FILES {
            let fd = rig.tiered(&format!("/{n}"), 100);
            rig.put(fd, 0, n, 20_000 + n as usize * 1000);
            rig.p.close(fd).expect("close");
        }
        let drive = rig.drive.clone();
        rig.p.exit();
        // Half of the media have been unmounted, half must be recovered.
        if seed.is_multiple_of(2) {
            rig.vfs.unmount().expect("unmounts");
        }
        drop((rig.vfs, rig.fs));
        let mut random = Stream::new(seed, "scribble");
        let pm = Pm::new(Port::new(drive.clone()));
        let mut b = pm.batch();
        for _ in 0..6 {
            // Superblock and tables at the beginning, split segments and inodes at the end.
            let near = random.below(if whole_device { SIZE.0 } else { 40 << 10 });
            let at = if random.chance(0.5) { near } else { SIZE.0 - 1 - near };
            let byte = [0, 1, 0xff, random.below(256) as u8][random.below(4) as usize];
            b.put(at, &[byte], Structure::Superblock).expect("put");
        }
        b.fence().expect("fence");
        look_at(&stack, Port::new(drive))
    })
}

#[test]
fn damaged_persistent_memory_gives_errors() {
    let mut noticed = 0;
    for seed in 0..60 {
        let form = if seed % 4 < 2 { Form::Carved } else { Form::Pointers };
        noticed += u32::from(scribbled(form, seed, seed % 3 == 0));
    }
    assert!(noticed > 5, "{noticed} of 60 were noticed");
}
