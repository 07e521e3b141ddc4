//! PebbleSSD's two changes: their writes, and the entries that recovery takes over from BAM.

use crate::common::{Mounted, Subject};
use granary_device::{Drive, Structure};
use granary_f2fs::{InPlace, MkfsOptions, MountOptions};
use granary_fs::Sweep;
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_suite::suite::{create, fail_and_look, fill, run};
use granary_units::{Bytes, Dest};
use granary_vfs::{Posix, Process};
use std::sync::Arc;

fn drive() -> Arc<dyn Drive> {
    let mut c = DriveConfig::bytefs_emulator().with_mode(Mode::Cache);
    c.flash = c.flash.with_capacity(Bytes::mib(256));
    Arc::new(Mssd::new(&c.with_bam()).expect("a drive with BAM"))
}

fn subject(remap_cleaning: bool, fs_write_fsync: bool) -> Subject {
    let mkfs = MkfsOptions { segment_blocks: Some(64), ..MkfsOptions::default() };
    let mount =
        MountOptions { remap_cleaning, fs_write_fsync, in_place: InPlace::Never, ..MountOptions::default() };
    Subject { mkfs, mount }
}

fn words(p: &mut Process, path: &str, len: usize) -> Vec<u64> {
    let fd = create(p, path);
    let mut bytes = vec![0; len];
    assert_eq!(p.pread(fd, Dest::Bytes(&mut bytes), 0).expect("read"), len);
    p.close(fd).expect("close");
    bytes.chunks_exact(4096).map(|page| u64::from_le_bytes(page[..8].try_into().expect("8 bytes"))).collect()
}

/// An overwrite and an append with fdatasync write the data and nothing else; after a power failure both are
/// there, with the size.
#[test]
fn fdatasync_writes_data_alone_and_recovery_takes_it_over() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        p.pwrite(fd, fill(1, 8 * 4096), 0).expect("write");
        p.sync().expect("sync");
        let (before, link) = (m.fs.stats(), m.drive.traffic());
        p.pwrite(fd, fill(2, 4096), 3 * 4096).expect("overwrite");
        p.fdatasync(fd).expect("fdatasync");
        p.pwrite(fd, fill(3, 5000), 8 * 4096).expect("append");
        p.fdatasync(fd).expect("fdatasync");
        let (after, moved) = (m.fs.stats(), m.drive.traffic().since(&link));
        assert_eq!((after.nodes - before.nodes, after.told - before.told), (0, 2));
        assert_eq!(moved.written(), 3 * 4096, "{moved:?}");
        assert_eq!(moved.block_write[Structure::Data as usize], 3 * 4096);
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        assert_eq!((m.fs.recovery().told, m.fs.recovery().nodes), (3, 0));
        let mut p = m.process();
        assert_eq!(p.stat("/f").expect("stat").attr.size, 8 * 4096 + 5000);
        assert_eq!(words(&mut p, "/f", 9 * 4096), [1, 1, 1, 2, 1, 1, 1, 1, 3]);
    };
    fail_and_look(&subject(false, true), drive(), None, before, after);
}

/// A truncation that was made durable after FS_WRITE stays: its nodes go before the entries of BAM.
#[test]
fn a_truncation_after_fs_write_stays() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        p.pwrite(fd, fill(1, 8 * 4096), 0).expect("write");
        p.sync().expect("sync");
        p.pwrite(fd, fill(4, 4096), 0).expect("overwrite");
        p.pwrite(fd, fill(4, 4096), 8 * 4096).expect("append");
        p.fdatasync(fd).expect("fdatasync");
        assert_eq!(m.fs.stats().told, 1);
        p.ftruncate(fd, 2 * 4096).expect("truncate");
        p.fdatasync(fd).expect("fdatasync");
        p.pwrite(fd, fill(5, 4096), 2 * 4096).expect("append");
        p.fdatasync(fd).expect("fdatasync");
        assert_eq!(m.fs.stats().told, 1);
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        assert!(m.fs.recovery().nodes > 0 && m.fs.recovery().told == 0, "{:?}", m.fs.recovery());
        let mut p = m.process();
        assert_eq!(p.stat("/f").expect("stat").attr.size, 3 * 4096);
        assert_eq!(words(&mut p, "/f", 3 * 4096), [4, 1, 5]);
    };
    fail_and_look(&subject(false, true), drive(), None, before, after);
}

/// A sweep of half-empty segments: by REMAP keep the data is neither read nor written.
#[test]
fn a_sweep_by_remap_moves_no_data_over_the_link() {
    for remap in [false, true] {
        let before = move |m: &Mounted| {
            let mut p = m.process();
            let fd = create(&mut p, "/f");
            p.pwrite(fd, fill(1, 1000 * 4096), 0).expect("write");
            p.sync().expect("sync");
            for page in (0..1000).step_by(2) {
                p.pwrite(fd, fill(2, 4096), page * 4096).expect("overwrite");
            }
            p.sync().expect("sync");
            let before = m.drive.traffic();
            let swept = m.vfs.sweep(&Sweep::default()).expect("sweeps");
            let moved = m.drive.traffic().since(&before);
            let data = Structure::Data as usize;
            let (written, read) = (moved.block_write[data] / 4096, moved.block_read[data] / 4096);
            assert!(swept.segments > 5, "{swept:?}");
            match remap {
                false => {
                    assert!(swept.blocks_copied >= 400 && swept.blocks_remapped == 0, "{swept:?}");
                    assert!(written >= 400 && read >= 400, "{written} {read}");
                }
                true => {
                    assert!(swept.blocks_remapped >= 400, "{swept:?}");
                    assert_eq!((written, read), (0, 0), "{swept:?}");
                }
            }
            granary_sim::power_fail();
        };
        let after = |m: &Mounted| {
            let found = words(&mut m.process(), "/f", 1000 * 4096);
            assert!(found.iter().enumerate().all(|(n, &w)| w == if n % 2 == 0 { 2 } else { 1 }));
        };
        fail_and_look(&subject(remap, false), drive(), None, before, after);
    }
}

#[test]
fn a_drive_without_the_commands_is_refused() {
    run(|| {
        let plain = granary_suite::suite::drive(Bytes::mib(64));
        let port = granary_device::Port::new(plain);
        granary_f2fs::mkfs(&port, &MkfsOptions::default()).expect("mkfs");
        for subject in [subject(true, false), subject(false, true)] {
            let refused = granary_f2fs::mount(port.clone(), &subject.mount);
            assert!(refused.is_err_and(|e| e.to_string().contains("firmware")));
        }
    });
}
