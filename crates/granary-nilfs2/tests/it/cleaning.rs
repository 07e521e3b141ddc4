//! The cleaner: every file keeps its content, whoever cleans; what a sweep leaves is not worth it.

use crate::common::{Mounted, Subject, promising};
use granary_nilfs2::{MkfsOptions, MountOptions};
use granary_sim::rng::Stream;
use granary_suite::suite::{create, drive, fill, run_jittered};
use granary_units::{Bytes, Dest, Nanos};
use granary_vfs::{Call, OpenFlags, Posix, Space, Sweep};

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
