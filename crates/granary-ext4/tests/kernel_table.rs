//! Protocol and timers are the kernel's (reference/baselines.md section 3.2). The traffic of each operation (3.3, 3.6) is
//! compared by `granary calibrate --reference` and the test of that name in granary-lab.

mod common;

use common::{Mounted, fresh};
use granary_mssd::Structure;
use granary_sim::sleep;
use granary_units::{Bytes, Nanos, Payload};
use granary_vfs::suite::{drive, run};
use granary_vfs::{Allocate, OpenFlags, Posix, Process};

const BLOCK: u64 = 4096;

fn put(p: &mut Process, path: &str, len: usize) -> granary_vfs::Fd {
    let fd = p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
    p.pwrite(fd, Payload::Fill { word: 0x1234_5678_9abc_def0, len }, 0).expect("write");
    fd
}

/// Section 3.2: who never calls fsync still gets his file whole when he renames it over another, or truncates and
/// rewrites it (auto_da_alloc): its data is on the drive before the name, or when it is closed.
#[test]
fn replacing_a_file_writes_the_new_one_first() {
    run(|| {
        let drive = drive(Bytes::gib(1));
        let m = fresh(&drive);
        let mut p = m.process();
        let data = |m: &Mounted| m.drive.traffic().block_write[Structure::Data as usize] / BLOCK;
        let old = put(&mut p, "/old", 4096);
        p.close(old).expect("close");
        let new = put(&mut p, "/new", 8192);
        p.close(new).expect("close");
        assert_eq!(data(&m), 0, "delayed allocation: nothing is written yet");
        p.rename("/new", "/old").expect("rename");
        assert_eq!(data(&m), 2);
        let again = p.open("/old", OpenFlags::RDWR | OpenFlags::TRUNC, 0).expect("open");
        p.write(again, Payload::Fill { word: 1, len: 12288 }).expect("write");
        assert_eq!(data(&m), 2);
        p.close(again).expect("close");
        assert_eq!(data(&m), 5);
    });
}

/// Timers: a transaction commits 5 s after it began, its blocks go home at the flusher's first look after 30 s more,
/// and an idle file system writes nothing.
#[test]
fn commits_and_home_writes_keep_their_times() {
    run(|| {
        let drive = drive(Bytes::gib(1));
        let m = fresh(&drive);
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        let begun = granary_sim::now();
        let stats = |m: &Mounted| (m.fs.journal_stats().commits, m.fs.journal_stats().home_blocks);
        sleep(Nanos::from_millis(4_900));
        assert_eq!(stats(&m), (0, 0));
        sleep(Nanos::from_millis(200));
        assert_eq!(stats(&m), (1, 0));
        granary_sim::sleep_until(begun + Nanos::from_millis(34_900));
        assert_eq!(stats(&m), (1, 0));
        granary_sim::sleep_until(begun + Nanos::from_millis(40_500));
        let (commits, home) = stats(&m);
        assert!(commits == 1 && home >= 6, "{commits} commits, {home} blocks home");
        let before = m.drive.traffic();
        sleep(Nanos::from_secs(100));
        assert_eq!(m.drive.traffic(), before);
    });
}

/// 64 tasks that fsync at once share commits.
#[test]
fn concurrent_fsyncs_share_commits() {
    run(|| {
        let drive = drive(Bytes::gib(1));
        let m = fresh(&drive);
        let tasks: Vec<_> = (0..64)
            .map(|t| {
                let mut p = m.process();
                granary_sim::spawn("client", move || {
                    for i in 0..10 {
                        let fd = put(&mut p, &format!("/{t}.{i}"), 4096);
                        p.fsync(fd).expect("fsync");
                        p.close(fd).expect("close");
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|t| t.join());
        let stats = m.fs.journal_stats();
        assert!(stats.commits < 64, "{} commits for 640 fsyncs", stats.commits);
        m.check();
    });
}

/// Linux 6.18: where a truncation cuts a block, the block is written again with zeros behind the cut (`ext4_block_truncate_page`).
/// Blocks written by truncation and fsync.
#[test]
fn a_block_that_is_cut_is_written_again() {
    run(|| {
        let drive = drive(Bytes::gib(1));
        let m = fresh(&drive);
        let mut p = m.process();
        let rows =
            [(4096, 100, 5), (8192, 100, 7), (1 << 20, 100, 7), (1 << 20, 500_000, 7), (8192, 4096, 6)];
        for (n, (from, to, kernel)) in rows.into_iter().enumerate() {
            let fd = put(&mut p, &format!("/{n}"), from);
            p.sync().expect("sync");
            sleep(Nanos::from_millis(20));
            let before = m.drive.traffic();
            p.ftruncate(fd, to).expect("truncate");
            p.fsync(fd).expect("fsync");
            let ours = m.drive.traffic().since(&before).written() / BLOCK;
            assert_eq!(ours, kernel, "{from} -> {to}");
        }
        // Reserved blocks hold nothing: 6 in the kernel, too.
        let fd = put(&mut p, "/reserved", 0);
        p.fallocate(fd, Allocate::Reserve { keep_size: false }, 0, 1 << 20).expect("reserve");
        p.sync().expect("sync");
        sleep(Nanos::from_millis(20));
        let before = m.drive.traffic();
        p.ftruncate(fd, 100).expect("truncate");
        p.fsync(fd).expect("fsync");
        assert_eq!(m.drive.traffic().since(&before).written() / BLOCK, 6);
        m.check();
    });
}
