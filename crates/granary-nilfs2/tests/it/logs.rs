//! Times of logs that nobody waits for. `granary calibrate --reference` compares the writes of each operation
//! with Linux's.

use crate::common::{Mounted, Subject};
use granary_sim::sleep;
use granary_suite::suite::{drive, run};
use granary_units::{Bytes, Nanos, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Process};

fn put(p: &mut Process, path: &str, pos: u64, len: usize) -> Fd {
    let fd = p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("open");
    p.pwrite(fd, Payload::Fill { word: 0x1234_5678_9abc_def0, len }, pos).expect("write");
    fd
}

/// Nobody waits: one log after 5 s, without a FLUSH, and nothing later (measured of Linux 6.1: 200 files of 4
/// KiB, 230 blocks).
#[test]
fn files_that_nobody_waits_for_are_in_one_log() {
    run(|| {
        let m = Mounted::fresh(&Subject::default(), &drive(Bytes::gib(8)));
        let mut p = m.process();
        p.mkdir("/other", 0o755).expect("mkdir");
        p.sync().expect("sync");
        // Superblocks are not counted.
        sleep(Nanos::from_secs(11));
        let fd = put(&mut p, "/other/tick", 0, 100);
        p.fsync(fd).expect("fsync");
        p.close(fd).expect("close");
        let (logs, flushes) = (m.fs.stats().logs, m.fs.stats().flushes);
        let before = m.drive.traffic();
        for i in 0..200 {
            let fd = put(&mut p, &format!("/other/n{i}"), 0, 4096);
            p.close(fd).expect("close");
        }
        sleep(Nanos::from_secs(4));
        assert_eq!(m.fs.stats().logs, logs, "before its time");
        sleep(Nanos::from_secs(2));
        assert_eq!((m.fs.stats().logs, m.fs.stats().flushes), (logs + 1, flushes));
        let blocks = m.drive.traffic().since(&before).written() / 4096;
        assert!((207..=253).contains(&blocks), "{blocks} of 230");
        let quiet = m.drive.traffic();
        sleep(Nanos::from_secs(60));
        assert_eq!(m.drive.traffic(), quiet);
    });
}
