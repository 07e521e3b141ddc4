//! Power failures at random instants: fsynced changes are there, everything is sound, work goes on.

use crate::common::{Mounted, Subject, promising};
use granary_nilfs2::{MkfsOptions, MountOptions};
use granary_suite::suite::{self, LateDrive, drive, write_all};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix};
use std::sync::Arc;

/// Short timers and small segments, so that logs and cleaning are everywhere.
pub fn busy() -> Subject {
    Subject {
        mkfs: MkfsOptions { segment_blocks: Some(128), ..MkfsOptions::default() },
        mount: MountOptions {
            log_interval: Nanos::from_millis(3),
            super_interval: Nanos::from_millis(10),
            cleaning_interval: (Nanos::from_millis(4), Nanos::from_millis(2)),
            min_clean_segments: 90,
            max_clean_segments: 95,
            ..promising().mount
        },
    }
}

/// Overwrites that fdatasync made safe are in logs of data, which recovery rolls forward.
#[test]
fn overwritten_data_is_rolled_forward() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        let fd = write_all(&mut p, "/f", 1, 40 * 4096).expect("write");
        p.fsync(fd).expect("fsync");
        for i in [3u64, 4, 17, 3] {
            p.pwrite(fd, Payload::Fill { word: 100 + i, len: 4096 }, i * 4096).expect("write");
            p.fdatasync(fd).expect("fdatasync");
        }
        assert_eq!(m.fs.stats().data_logs, 4);
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        assert_eq!(m.recovery().blocks, 4, "{:?}", m.recovery());
        let mut p = m.process();
        let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("open");
        for i in 0..40u64 {
            let mut word = [0; 8];
            p.pread(fd, Dest::Bytes(&mut word), i * 4096).expect("read");
            let expected = if [3, 4, 17].contains(&i) { 100 + i } else { 1 };
            assert_eq!(u64::from_le_bytes(word), expected, "page {i}");
        }
    };
    suite::fail_and_look(&promising(), drive(Bytes::mib(64)), None, before, after);
}

/// Nothing of an earlier life shows where a log names a block before the drive has it.
#[test]
fn no_log_counts_before_its_blocks_are_there() {
    const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;
    const NEW: u64 = 0x0e0e_0e0e_0e0e_0e0e;
    for i in 0..6 {
        let late: Arc<dyn granary_device::Drive> = Arc::new(LateDrive::new(Bytes::mib(64)));
        let before = move |m: &Mounted| {
            let mut p = m.process();
            for round in 0..8 {
                let fd = write_all(&mut p, &format!("/secret{round}"), SECRET, 5 << 20).expect("write");
                p.close(fd).expect("close");
                p.sync().expect("sync");
                p.unlink(format!("/secret{round}")).expect("unlink");
                p.sync().expect("sync");
            }
            let mut q = m.process();
            let vfs = m.vfs.clone();
            granary_sim::spawn("writer", move || {
                let _vfs = vfs;
                for n in 0..40 {
                    let fd = write_all(&mut q, &format!("/new{n}"), NEW, 1 << 20).expect("write");
                    q.fsync(fd).expect("fsync");
                    q.close(fd).expect("close");
                }
            });
            granary_sim::sleep(Nanos(3_000_000 + i * 1_700_000));
            granary_sim::power_fail();
        };
        let after = |m: &Mounted| {
            let mut p = m.process();
            for n in 0..40 {
                let Ok(fd) = p.open(format!("/new{n}"), OpenFlags::RDONLY, 0) else { continue };
                let size = p.fstat(fd).expect("stat").attr.size as usize;
                let mut content = vec![0; size];
                p.pread(fd, Dest::Bytes(&mut content), 0).expect("read");
                assert!(
                    content.chunks_exact(8).all(|w| w == NEW.to_le_bytes()),
                    "/new{n} is not what was written"
                );
                p.close(fd).expect("close");
            }
        };
        suite::fail_and_look(&busy(), late, None, before, after);
    }
}
