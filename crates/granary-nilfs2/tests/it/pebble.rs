//! PebbleSSD's variants: cleaning that renames, fsync by FS_WRITE; power failures in both.

use crate::common::{Mounted, Subject, promising};
use granary_device::Drive;
use granary_fs::{Call, Space, Sweep};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_nilfs2::{MkfsOptions, MountOptions};
use granary_suite::suite::{self, run, write_all};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix};
use std::sync::Arc;

/// A drive with BAM.
fn pebble(size: Bytes, names: u32) -> Arc<dyn Drive> {
    let mut config = DriveConfig::bytefs_emulator().with_mode(Mode::Cache).with_bam();
    if let Some(bam) = &mut config.firmware.bam {
        bam.names = names;
    }
    config.flash = config.flash.with_capacity(size);
    Arc::new(Mssd::new(&config).expect("a drive with BAM"))
}

fn opt() -> Subject {
    let mount = MountOptions { remap_cleaning: true, fs_write_fsync: true, ..promising().mount };
    let mkfs = MkfsOptions { segment_blocks: Some(64), ..MkfsOptions::default() };
    Subject { mkfs, mount }
}

/// The same cleaning with and without REMAP: it writes a fraction, and every file is as it was.
#[test]
fn renaming_writes_a_fraction_of_what_copying_does() {
    let written = |remap_cleaning: bool, names: u32| {
        run(move || {
            let d = pebble(Bytes::mib(64), names);
            let mkfs = MkfsOptions { segment_blocks: Some(512), ..MkfsOptions::default() };
            let mount = MountOptions { remap_cleaning, ..promising().mount };
            let m = Mounted::fresh(&Subject { mkfs, mount }, &d);
            let mut p = m.process();
            for round in 0..2u64 {
                for i in (0..1500u64).filter(|i| round == 0 || i % 4 == 0) {
                    let fd =
                        write_all(&mut p, &format!("/{i}"), round * 10_000 + i + 1, 8192).expect("write");
                    p.close(fd).expect("close");
                }
                p.sync().expect("sync");
            }
            let before = d.traffic();
            let swept = m.fs.sweep(&Call::offline(), &Sweep { protection: Nanos::ZERO }).expect("sweep");
            let written = d.traffic().since(&before).written() / 4096;
            let moved = (swept.blocks_copied, swept.blocks_remapped);
            m.check();
            p.exit();
            let m = m.remounted();
            let mut p = m.process();
            for i in 0..1500u64 {
                let fd = p.open(format!("/{i}"), OpenFlags::RDONLY, 0).expect("there");
                let mut word = [0; 8];
                p.pread(fd, Dest::Bytes(&mut word), 4096).expect("read");
                let round = if i % 4 == 0 { 10_000 } else { 0 };
                assert_eq!(u64::from_le_bytes(word), round + i + 1, "file {i}");
                p.close(fd).expect("close");
            }
            m.check();
            (written, moved)
        })
    };
    let (copying, (copied, none)) = written(false, 1 << 16);
    let (renaming, (left, renamed)) = written(true, 1 << 16);
    assert!(copied > 1000 && none == 0 && left == 0 && renamed > 1000, "{copied} {none} {left} {renamed}");
    assert!(renaming * 5 < copying, "{renaming} blocks where copying writes {copying}");
    // A drive without room for so many names: they are written.
    let (refused, (copied, renamed)) = written(true, 40);
    assert!(
        copied > renamed && refused * 2 > copying,
        "{refused} of {copying}, {copied} copied, {renamed} renamed"
    );
}

/// fsync writes the data and one block; also where the file grows.
#[test]
fn fsync_by_fs_write_has_data_and_a_summary() {
    run(|| {
        let d = pebble(Bytes::mib(64), 1 << 16);
        let m = Mounted::fresh(&opt(), &d);
        let mut p = m.process();
        let fd = write_all(&mut p, "/f", 1, 40_000).expect("write");
        p.fsync(fd).expect("fsync");
        for (pos, len, blocks) in [(0, 4096, 2), (8192, 8192, 3), (40_000, 900, 2), (40_900, 4000, 3)] {
            let before = d.traffic();
            p.pwrite(fd, Payload::Fill { word: 9, len }, pos).expect("write");
            p.fsync(fd).expect("fsync");
            assert_eq!(d.traffic().since(&before).written() / 4096, blocks, "{len} bytes at {pos}");
        }
        assert_eq!(m.fs.stats().data_logs, 4);
        assert!(m.fs.stats().fs_written == 6, "{:?}", m.fs.stats());
        p.close(fd).expect("close");
        m.check();
    });
}

/// Eight threads that make a file each durable wait for the drive together: a log each, but not eight waits
/// one after the other.
#[test]
fn fsyncs_by_fs_write_wait_together() {
    let took = |threads: u64| {
        run(move || {
            let d = pebble(Bytes::mib(64), 1 << 16);
            let m = Mounted::fresh(&opt(), &d);
            let mut p = m.process();
            for i in 0..threads {
                let fd = write_all(&mut p, &format!("/{i}"), 1, 40_000).expect("write");
                p.fsync(fd).expect("fsync");
                p.close(fd).expect("close");
            }
            let (before, began) = (m.fs.stats().data_logs, granary_sim::now());
            let all: Vec<_> = (0..threads)
                .map(|i| {
                    let mut p = m.process();
                    granary_sim::spawn("writer", move || {
                        let fd = p.open(format!("/{i}"), OpenFlags::WRONLY, 0).expect("open");
                        for round in 0..20 {
                            p.pwrite(fd, Payload::Fill { word: 9, len: 4096 }, round % 4 * 4096)
                                .expect("write");
                            p.fsync(fd).expect("fsync");
                        }
                        p.close(fd).expect("close");
                        p.exit();
                    })
                })
                .collect();
            all.into_iter().for_each(granary_sim::JoinHandle::join);
            let took = granary_sim::now().0 - began.0;
            assert_eq!(m.fs.stats().data_logs - before, 20 * threads);
            m.check();
            took
        })
    };
    let (one, eight) = (took(1), took(8));
    assert!(eight < 6 * one, "20 fsyncs of one thread take {one} ns, of each of eight {eight} ns");
}

/// Content and size that such fsyncs promised are there after a power failure.
#[test]
fn sizes_and_data_of_fs_writes_survive() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        let fd = write_all(&mut p, "/f", 1, 5000).expect("write");
        p.fsync(fd).expect("fsync");
        p.pwrite(fd, Payload::Fill { word: 2, len: 3000 }, 5000).expect("write");
        p.fsync(fd).expect("fsync");
        p.pwrite(fd, Payload::Fill { word: 3, len: 100 }, 20_000).expect("write");
        p.fsync(fd).expect("fsync");
        p.pwrite(fd, Payload::Fill { word: 4, len: 800 }, 0).expect("write");
        p.fsync(fd).expect("fsync");
        assert_eq!(m.fs.stats().data_logs, 3);
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        let mut p = m.process();
        assert_eq!(p.stat("/f").expect("there").attr.size, 20_100);
        let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("open");
        let mut content = vec![0; 20_100];
        p.pread(fd, Dest::Bytes(&mut content), 0).expect("read");
        let word = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().expect("eight bytes"));
        assert_eq!((word(0), word(800), word(5000), word(20_000)), (4, 1, 2, 3));
        assert_eq!((word(7992), word(8000), word(16_384)), (2, 0, 0));
    };
    suite::fail_and_look(&opt(), pebble(Bytes::mib(64), 1 << 16), None, before, after);
}

/// Power fails while segments are cleaned by renaming: every file is as it was.
#[test]
fn power_failures_while_blocks_are_renamed_lose_nothing() {
    for k in 0..14u64 {
        let before = move |m: &Mounted| {
            let mut p = m.process();
            for i in 0..120u64 {
                let fd = write_all(&mut p, &format!("/{i}"), i + 1, 20_000).expect("write");
                p.close(fd).expect("close");
            }
            p.sync().expect("sync");
            (0..120).step_by(3).for_each(|i| p.unlink(format!("/{i}")).expect("unlink"));
            p.sync().expect("sync");
            let fs = m.fs.clone();
            granary_sim::spawn("cleaner", move || {
                let _ = fs.sweep(&Call::offline(), &Sweep { protection: Nanos::ZERO });
            });
            granary_sim::sleep(Nanos(20_000 + k * k * 9_000));
            granary_sim::power_fail();
        };
        let after = |m: &Mounted| {
            let mut p = m.process();
            for i in (0..120u64).filter(|i| i % 3 > 0) {
                let fd = p.open(format!("/{i}"), OpenFlags::RDONLY, 0).expect("there");
                let mut content = vec![0; 20_000];
                p.pread(fd, Dest::Bytes(&mut content), 0).expect("read");
                assert!(content.chunks_exact(8).all(|w| w == (i + 1).to_le_bytes()), "file {i}");
                p.close(fd).expect("close");
            }
            let swept = m.fs.sweep(&Call::offline(), &Sweep { protection: Nanos::ZERO }).expect("sweep");
            assert!(swept.blocks_copied == 0, "{swept:?}");
        };
        suite::fail_and_look(&opt(), pebble(Bytes::mib(64), 1 << 16), None, before, after);
    }
}
