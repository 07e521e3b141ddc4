//! Protocol and timers are the kernel's (reference/baselines.md section 3.2). The traffic of each operation
//! (3.3, 3.6) is compared by `granary calibrate --reference` and the test of that name in granary-papers.

use crate::common::{Mounted, Subject, fresh};
use granary_device::Structure;
use granary_ext4::{DataMode, MountOptions};
use granary_fs::Allocate;
use granary_sim::sleep;
use granary_suite::suite::{drive, run};
use granary_units::{Bytes, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process};

const BLOCK: u64 = 4096;

fn put(p: &mut Process, path: &str, len: usize) -> granary_vfs::Fd {
    let fd = p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
    p.pwrite(fd, Payload::Fill { word: 0x1234_5678_9abc_def0, len }, 0).expect("write");
    fd
}

/// Section 3.2: who never calls fsync still gets his file whole when he renames it over another, or truncates
/// and rewrites it (auto_da_alloc): its data is on the drive before the name, or when it is closed.
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

/// Timers: a transaction commits 5 s after it began, its blocks go home at the flusher's first look after 30
/// s more, and an idle file system writes nothing.
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

/// Linux 6.18: where a truncation cuts a block, the block is written again with zeros behind the cut
/// (`ext4_block_truncate_page`). Blocks written by truncation and fsync.
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

/// Linux 6.18: in ordered mode the commit that carries a truncation, or a hole whose edge lies within a
/// block, writes the block that was cut (`ext4_jbd2_inode_add_write`), whoever asks for it. The fsync of its
/// file then has nothing to write. In the other modes the block waits for an fsync of its file. An edge
/// without data in its block is not written.
#[test]
fn a_block_that_is_cut_goes_out_with_any_commit_in_ordered_mode() {
    const KIB: u64 = 1024;
    type Cut = fn(&mut Process, granary_vfs::Fd);
    let cuts: [(&str, Cut, u64); 4] = [
        ("truncation", |p, fd| p.ftruncate(fd, 100).expect("truncate"), 1),
        ("at a block's edge", |p, fd| p.ftruncate(fd, 4096).expect("truncate"), 0),
        ("hole", |p, fd| p.fallocate(fd, Allocate::PunchHole, 5 * KIB, 21 * KIB).expect("punch"), 2),
        (
            "zeroed",
            |p, fd| {
                let zero = Allocate::ZeroRange { keep_size: true };
                p.fallocate(fd, zero, 5 * KIB, 19 * KIB).expect("zero");
            },
            1,
        ),
    ];
    for data in [DataMode::Ordered, DataMode::Writeback] {
        run(move || {
            let mount = MountOptions { data, ..MountOptions::default() };
            let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive(Bytes::gib(1)));
            let mut p = m.process();
            let other = put(&mut p, "/other", 4096);
            let blocks = |m: &Mounted| m.drive.traffic().block_write[Structure::Data as usize] / BLOCK;
            for (n, (name, cut, wanted)) in cuts.into_iter().enumerate() {
                let fd = put(&mut p, &format!("/{n}"), 1 << 16);
                p.sync().expect("sync");
                sleep(Nanos::from_millis(20));
                let before = blocks(&m);
                cut(&mut p, fd);
                p.fchmod(other, 0o600 + n as u16).expect("chmod");
                p.fsync(other).expect("fsync");
                let with_other = if data == DataMode::Ordered { wanted } else { 0 };
                assert_eq!(blocks(&m) - before, with_other, "{data:?}, {name}: the other's commit");
                p.fsync(fd).expect("fsync");
                assert_eq!(blocks(&m) - before, wanted, "{data:?}, {name}: with its own fsync");
                let mut bytes = [1; 4096];
                m.vfs.drop_caches();
                let n = p.pread(fd, granary_units::Dest::Bytes(&mut bytes), 4096).expect("read");
                assert!(n == 0 || wanted == 0 || bytes[2048..].iter().all(|b| *b == 0), "{name}");
            }
            // Cut, and grown again before the commit: the size on media is its own write-back's affair.
            let fd = put(&mut p, "/grown", 8192);
            p.sync().expect("sync");
            p.ftruncate(fd, 100).expect("truncate");
            p.pwrite(fd, Payload::Fill { word: 5, len: 3000 }, 100).expect("write");
            p.fsync(other).expect("fsync");
            p.fsync(fd).expect("fsync");
            m.check();
        });
    }
}
