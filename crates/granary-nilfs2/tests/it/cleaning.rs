//! The cleaner: every file keeps its content under every cleaner; a sweep leaves only poor victims.

use crate::common::{Mounted, Subject, promising};
use granary_fs::{Call, Space, Sweep};
use granary_nilfs2::{MkfsOptions, MountOptions};
use granary_sim::rng::Stream;
use granary_sim::sleep;
use granary_suite::suite::{create, drive, fill, run_jittered};
use granary_units::{Bytes, Dest, Nanos};
use granary_vfs::{OpenFlags, Posix};

/// Small files come and go on a drive that they half fill, with the daemon at work all the time.
#[test]
fn cleaning_keeps_every_file() {
    for seed in 0..2u64 {
        run_jittered(seed, move || {
            let mkfs = MkfsOptions { segment_blocks: Some(64), ..MkfsOptions::default() };
            let mount = MountOptions {
                cleaning_interval: (Nanos::from_micros(500), Nanos::from_micros(200)),
                min_clean_segments: 90,
                max_clean_segments: 95,
                metadata_cache: Bytes::kib(300),
                ..promising().mount
            };
            let m = Mounted::fresh(&Subject { mkfs, mount }, &drive(Bytes::mib(48)));
            let mut p = m.process();
            let files = 700;
            let mut random = Stream::new(seed, "files");
            let mut words = vec![0u64; files as usize];
            for round in 0..1500 {
                let i = random.below(files);
                let fd = create(&mut p, &format!("/{i}"));
                words[i as usize] = round + 1;
                p.pwrite(fd, fill(round + 1, 4 * 4096), 0).expect("write");
                if round % 5 == 0 {
                    p.fsync(fd).expect("fsync");
                }
                p.close(fd).expect("close");
            }
            m.check();
            m.vfs.drop_caches();
            for (i, word) in words.iter().enumerate().filter(|(_, w)| **w != 0) {
                let fd = p.open(format!("/{i}"), OpenFlags::RDONLY, 0).expect("there");
                let mut found = [0; 8];
                p.pread(fd, Dest::Bytes(&mut found), 3 * 4096).expect("read");
                assert_eq!(u64::from_le_bytes(found), *word, "seed {seed}, file {i}");
                p.close(fd).expect("close");
            }
            assert!(m.fs.stats().cleaned > 10, "{:?}", m.fs.stats());
            m.check();
            p.exit();
            m.remounted().check();
        });
    }
}

/// Segments that are nearly full of live blocks give less than the log takes that empties them. The daemon
/// does not use up on them what is kept for removals, however long nothing else happens.
#[test]
fn an_idle_daemon_leaves_the_room_that_removals_need() {
    run_jittered(1, || {
        let mkfs = MkfsOptions { size: Some(Bytes::mib(8)), segment_blocks: Some(32) };
        // It never finds segments enough.
        let mount = MountOptions { min_clean_segments: 50, max_clean_segments: 60, ..promising().mount };
        let m = Mounted::fresh(&Subject { mkfs, mount }, &drive(Bytes::mib(24)));
        let mut p = m.process();
        let mut files = 0;
        while let Ok(fd) = p.open(format!("/{files}"), OpenFlags::CREAT | OpenFlags::RDWR, 0o644) {
            files += 1;
            let written = p.pwrite(fd, fill(files, 12 * 4096), 0).and_then(|_| p.fsync(fd));
            p.close(fd).expect("close");
            if written.is_err() {
                break;
            }
            // A dead block in many a segment.
            let fd = create(&mut p, &format!("/{}", files / 2));
            let _ = p.pwrite(fd, fill(files, 4096), 0);
            p.close(fd).expect("close");
        }
        sleep(Nanos::from_secs(600));
        for file in (0..files).step_by(2) {
            p.unlink(format!("/{file}")).expect("unlink");
            p.sync().expect("sync");
        }
        m.check();
    });
}

/// A sweep ends, frees what is dead, and leaves little to do.
#[test]
fn a_sweep_leaves_nothing_that_is_worth_it() {
    run_jittered(1, || {
        let m = Mounted::fresh(&promising(), &drive(Bytes::mib(64)));
        let mut p = m.process();
        for round in 0..4 {
            for i in 0..30 {
                let fd = create(&mut p, &format!("/{i}"));
                p.pwrite(fd, fill(round * 100 + i + 1, 100_000), 0).expect("write");
                p.fsync(fd).expect("fsync");
                p.close(fd).expect("close");
            }
        }
        let sweep = || m.fs.sweep(&Call::offline(), &Sweep { protection: Nanos::ZERO }).expect("sweep");
        let before = m.fs.clean_segments();
        let first = sweep();
        assert!(first.segments > 5 && first.blocks_copied > 0 && first.blocks_remapped == 0, "{first:?}");
        assert!(m.fs.clean_segments() > before + 3);
        // But for what the logs of the first one left behind.
        let more = sweep();
        assert!(more.segments * 2 <= first.segments, "{more:?}");
        m.check();
    });
}
