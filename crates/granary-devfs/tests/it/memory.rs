//! The drive's memory in a running file system, and the bytes that go to storage.

use crate::common::{Mounted, Subject};
use granary_devfs::{MountOptions, memory::Kind};
use granary_device::Structure;
use granary_fs::{Allocate, FileKind};
use granary_suite::suite::{self, on_nvm};
use granary_units::{Bytes, Payload};
use granary_vfs::{OpenFlags, Posix};

fn files(m: &Mounted, numbers: std::ops::Range<u64>) {
    let mut p = m.process();
    for n in numbers {
        let fd = p.open(format!("/f{n}"), OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
        p.pwrite(fd, Payload::Fill { word: n, len: 16 << 10 }, 0).expect("writes");
        p.close(fd).expect("closes");
    }
}

fn subject(mount: MountOptions) -> Subject {
    Subject { mount, ..Subject::default() }
}

/// Figure 8 in small: bytes per closed file under each step.
#[test]
fn closed_files_take_what_the_papers_steps_leave() {
    let cap = MountOptions {
        on_demand: false,
        reverse_dentries: false,
        reverse_inodes: false,
        ..MountOptions::default()
    };
    let demand = MountOptions { on_demand: true, ..cap.clone() };
    let dentry = MountOptions { reverse_dentries: true, ..demand.clone() };
    let all = MountOptions::default();
    for (options, each) in [(cap, 1188), (demand, 1032), (dentry, 840), (all, 262)] {
        let used = on_nvm(|| {
            let drive = suite::drive(Bytes::mib(64));
            suite::run(move || {
                let m = Mounted::fresh(&subject(options), &drive);
                // The root is known then, too.
                files(&m, 0..1);
                let before = m.fs.memory_stats().ledger.total().0;
                files(&m, 1..201);
                let used = m.fs.memory_stats().ledger.total().0 - before;
                assert_eq!(m.fs.recount().0, m.fs.recount().1);
                m.unmount();
                used
            })
        });
        assert_eq!(used / 200, each);
    }
}

#[test]
fn removed_files_leave_nothing_in_either_memory() {
    on_nvm(|| {
        let drive = suite::drive(Bytes::mib(64));
        suite::run(move || {
            let m = Mounted::fresh(&Subject::default(), &drive);
            files(&m, 0..50);
            let mut p = m.process();
            (0..50).for_each(|n| p.unlink(format!("/f{n}")).expect("removes"));
            let stats = m.fs.memory_stats();
            assert_eq!((stats.host_dentries, stats.host_inodes), (0, 0));
            // The root.
            assert!(stats.ledger.count(Kind::InodeDevice) <= 1, "{stats:?}");
            drop(p);
            m.unmount();
        });
    });
}

/// D9 of the sheet: naive writes data and metadata twice, a capacitor data once.
#[test]
fn without_a_capacitor_data_goes_to_storage_twice() {
    let written = |capacitor: bool| {
        on_nvm(|| {
            let drive = suite::drive(Bytes::mib(64));
            let counted = drive.clone();
            suite::run(move || {
                let m =
                    Mounted::fresh(&subject(MountOptions { capacitor, ..MountOptions::default() }), &drive);
                let mut p = m.process();
                let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
                p.pwrite(fd, Payload::Fill { word: 1, len: 256 << 10 }, 0).expect("writes");
                let before = counted.counters();
                for n in 0..64u64 {
                    p.pwrite(fd, Payload::Fill { word: n, len: 4096 }, n * 4096).expect("writes");
                }
                let moved = counted.counters().since(&before).link.byte_write;
                p.close(fd).expect("closes");
                drop(p);
                m.unmount();
                moved
            })
        })
    };
    let (cap, naive) = (written(true), written(false));
    let data = 64 * 4096;
    assert_eq!(cap[Structure::Data as usize], data);
    assert_eq!(naive[Structure::Data as usize], data);
    assert_eq!(cap[Structure::Log as usize], 0);
    assert!(naive[Structure::Log as usize] > data, "{}", naive[Structure::Log as usize]);
    assert!(cap[Structure::Journal as usize] < data / 10, "{}", cap[Structure::Journal as usize]);
}

/// Without a capacitor all goes through the log: what is larger than a lane of it goes in pieces.
#[test]
fn what_is_larger_than_the_log_goes_through_it_in_pieces() {
    on_nvm(|| {
        let drive = suite::drive(Bytes::mib(1100));
        suite::run(move || {
            let m = Mounted::fresh(
                &subject(MountOptions { capacitor: false, ..MountOptions::default() }),
                &drive,
            );
            let mut p = m.process();
            let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
            p.fallocate(fd, Allocate::Reserve { keep_size: false }, 0, 200 << 20).expect("reserves");
            p.pwrite(fd, Payload::Fill { word: 1, len: 9 << 20 }, 1 << 20).expect("writes");
            p.close(fd).expect("closes");
            // More inodes than the first piece of the table has.
            for n in 0..17_000u32 {
                p.mknod(format!("/n{n}"), FileKind::File, 0o600, 0).expect("creates");
            }
            m.check();
            drop(p);
            m.unmount();
        });
    });
}
