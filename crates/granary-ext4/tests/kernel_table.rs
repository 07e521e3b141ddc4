//! The traffic of each operation is the kernel's (reference/baselines.md sections 3.3, 3.6 and 8).
//!
//! Isolated operation + fsync, warm cache, everything else synced, 8 GiB file system, Linux 6.1's numbers measured on
//! real hardware interfaces. Every row must be within 10 %.

mod common;

use common::{Mounted, drive, run};
use granary_ext4::JournalStats;
use granary_mssd::{LinkTraffic, Structure};
use granary_sim::sleep;
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process};

const BLOCK: u64 = 4096;

/// One row: what the kernel did and what we did, in blocks.
struct Row {
    name: &'static str,
    kernel: (u64, u64, u64),
    ours: (u64, u64, u64),
    flushes: u64,
    fua: u64,
    /// Flushes and FUA writes expected: 1 + 1 with a commit, 1 + 0 without.
    barriers: (u64, u64),
}

fn within(ours: u64, kernel: u64) -> bool {
    ours.abs_diff(kernel) * 10 <= kernel
}

struct Table {
    m: Mounted,
    p: Process,
    rows: Vec<Row>,
}

impl Table {
    fn quiet(&mut self) -> (LinkTraffic, JournalStats) {
        self.p.sync().expect("sync");
        sleep(Nanos::from_millis(20));
        (self.m.drive.traffic(), self.m.fs.journal_stats())
    }

    /// Measures `op`. `kernel`: data blocks, journal blocks, all blocks.
    fn row(
        &mut self,
        name: &'static str,
        kernel: (u64, u64, u64),
        barriers: (u64, u64),
        op: impl FnOnce(&mut Process),
    ) {
        let (before, stats) = self.quiet();
        op(&mut self.p);
        let moved = self.m.drive.traffic().since(&before);
        let after = self.m.fs.journal_stats();
        let blocks = |s: Structure| moved.block_write[s as usize] / BLOCK;
        self.rows.push(Row {
            name,
            kernel,
            ours: (blocks(Structure::Data), blocks(Structure::Journal), moved.written() / BLOCK),
            flushes: after.flushes - stats.flushes,
            fua: after.fua_writes - stats.fua_writes,
            barriers,
        });
        assert_eq!(moved.read(), 0, "{name}: the cache was not warm");
    }

    fn print_and_judge(&self) {
        println!(
            "{:<36} {:>17} {:>17} {:>11}",
            "operation", "kernel D + J = all", "ours D + J = all", "flush + FUA"
        );
        let mut wrong = Vec::new();
        for r in &self.rows {
            let show = |(d, j, all): (u64, u64, u64)| format!("{d} + {j} = {all}");
            println!(
                "{:<36} {:>17} {:>17} {:>11}",
                r.name,
                show(r.kernel),
                show(r.ours),
                format!("{} + {}", r.flushes, r.fua)
            );
            let good = r.ours.0 == r.kernel.0 && within(r.ours.1, r.kernel.1) && within(r.ours.2, r.kernel.2);
            if !good || (r.flushes, r.fua) != r.barriers {
                wrong.push(r.name);
            }
        }
        assert!(wrong.is_empty(), "beyond 10 %: {wrong:?}");
    }
}

fn put(p: &mut Process, path: &str, len: usize) -> granary_vfs::Fd {
    let fd = p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
    p.pwrite(fd, Payload::Fill { word: 0x1234_5678_9abc_def0, len }, 0).expect("write");
    fd
}

fn sync_dir(p: &mut Process, path: &str) {
    let fd = p.open(path, OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0).expect("open");
    p.fsync(fd).expect("fsync");
    p.close(fd).expect("close");
}

fn open(p: &mut Process, path: &str) -> granary_vfs::Fd {
    p.open(path, OpenFlags::RDWR, 0).expect("open")
}

#[test]
fn every_row_of_the_kernels_table_is_matched() {
    run(|| {
        let drive = drive(Bytes::gib(8));
        let m = Mounted::fresh(&drive);
        let mut p = m.process();
        p.mkdir("/dir", 0o755).expect("mkdir");
        for i in 0..100 {
            let fd = put(&mut p, &format!("/dir/f{i}"), 4096);
            p.close(fd).expect("close");
        }
        let big = put(&mut p, "/dir/big", 65536);
        p.close(big).expect("close");
        let mut t = Table { m, p, rows: Vec::new() };
        // The first commit after mount also writes the journal's superblock.
        t.quiet();
        const COMMIT: (u64, u64) = (1, 1);
        const FLUSH: (u64, u64) = (1, 0);
        t.row("create 4 KB + fsync", (1, 8, 9), COMMIT, |p| {
            let fd = put(p, "/dir/a", 4096);
            p.fsync(fd).expect("fsync");
        });
        t.row("create 1 KB + fsync", (1, 8, 9), COMMIT, |p| {
            let fd = put(p, "/dir/b", 1024);
            p.fsync(fd).expect("fsync");
        });
        t.row("create empty + fsync", (0, 7, 7), COMMIT, |p| {
            let fd = p.open("/dir/c", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
            p.fsync(fd).expect("fsync");
        });
        t.row("append 4 KB + fsync", (1, 5, 6), COMMIT, |p| {
            let fd = open(p, "/dir/f1");
            p.pwrite(fd, Payload::Fill { word: 1, len: 4096 }, 4096).expect("write");
            p.fsync(fd).expect("fsync");
        });
        t.row("append 4 KB + fdatasync", (1, 5, 6), COMMIT, |p| {
            let fd = open(p, "/dir/f2");
            p.pwrite(fd, Payload::Fill { word: 1, len: 4096 }, 4096).expect("write");
            p.fdatasync(fd).expect("fdatasync");
        });
        t.row("append 100 B + fsync", (1, 5, 6), COMMIT, |p| {
            let fd = open(p, "/dir/f3");
            p.pwrite(fd, Payload::Fill { word: 1, len: 100 }, 4096).expect("write");
            p.fsync(fd).expect("fsync");
        });
        t.row("overwrite 4 KB + fsync", (1, 3, 4), COMMIT, |p| {
            let fd = open(p, "/dir/f4");
            p.pwrite(fd, Payload::Fill { word: 2, len: 4096 }, 0).expect("write");
            p.fsync(fd).expect("fsync");
        });
        t.row("overwrite 4 KB + fdatasync", (1, 0, 1), FLUSH, |p| {
            let fd = open(p, "/dir/f5");
            p.pwrite(fd, Payload::Fill { word: 2, len: 4096 }, 0).expect("write");
            p.fdatasync(fd).expect("fdatasync");
        });
        t.row("overwrite 64 KB + fdatasync", (16, 0, 16), FLUSH, |p| {
            let fd = open(p, "/dir/big");
            p.pwrite(fd, Payload::Fill { word: 2, len: 65536 }, 0).expect("write");
            p.fdatasync(fd).expect("fdatasync");
        });
        t.row("mkdir + fsync(parent)", (0, 9, 9), COMMIT, |p| {
            p.mkdir("/dir/sub", 0o755).expect("mkdir");
            sync_dir(p, "/dir");
        });
        t.row("rename in a directory + fsync", (0, 5, 5), COMMIT, |p| {
            p.rename("/dir/f20", "/dir/g20").expect("rename");
            sync_dir(p, "/dir");
        });
        t.row("rename over a file + fsync", (0, 11, 11), COMMIT, |p| {
            p.rename("/dir/f30", "/dir/f60").expect("rename");
            sync_dir(p, "/dir");
        });
        t.row("unlink (4 KB file) + fsync", (0, 9, 9), COMMIT, |p| {
            p.unlink("/dir/f70").expect("unlink");
            sync_dir(p, "/dir");
        });
        t.row("truncate 4 KB to 0 + fsync", (0, 6, 6), COMMIT, |p| {
            let fd = open(p, "/dir/f80");
            p.ftruncate(fd, 0).expect("truncate");
            p.fsync(fd).expect("fsync");
        });
        t.row("chmod + fsync", (0, 3, 3), COMMIT, |p| {
            let fd = open(p, "/dir/f90");
            p.fchmod(fd, 0o600).expect("chmod");
            p.fsync(fd).expect("fsync");
        });
        t.row("sync after create + 4 KB", (1, 8, 15), COMMIT, |p| {
            let fd = put(p, "/dir/s", 4096);
            p.close(fd).expect("close");
            p.sync().expect("sync");
        });
        t.row("overwrite + fdatasync in one tick", (1, 0, 1), FLUSH, |p| {
            let fd = open(p, "/dir/f5");
            p.pwrite(fd, Payload::Fill { word: 3, len: 4096 }, 0).expect("write");
            p.fdatasync(fd).expect("fdatasync");
        });
        t.print_and_judge();
        t.p.sync().expect("sync");
        common::sound(&*t.m.fs);
    });
}

/// Section 3.2: who never calls fsync still gets his file whole when he renames it over another, or truncates and
/// rewrites it (auto_da_alloc): its data is on the drive before the name, or when it is closed.
#[test]
fn replacing_a_file_writes_the_new_one_first() {
    run(|| {
        let drive = drive(Bytes::gib(1));
        let m = Mounted::fresh(&drive);
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
        let m = Mounted::fresh(&drive);
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
        let m = Mounted::fresh(&drive);
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

/// Blocks read from a cold cache: 34 for a stat (2 directory blocks and 32 of the inode table), 37 for open and read.
#[test]
fn cold_reads_are_the_kernels() {
    run(|| {
        let drive = drive(Bytes::gib(8));
        let m = Mounted::fresh(&drive);
        let mut p = m.process();
        p.mkdir("/dir", 0o755).expect("mkdir");
        // Inodes behind those of the directory that is looked at fill the inode table.
        p.mkdir("/dir/many", 0o755).expect("mkdir");
        for i in 0..100 {
            let fd = put(&mut p, &format!("/dir/f{i}"), 4096);
            p.close(fd).expect("close");
        }
        for i in 0..500 {
            let fd = put(&mut p, &format!("/dir/many/f{i}"), 1);
            p.close(fd).expect("close");
        }
        drop(p);
        m.unmount();
        let cold = |what: &'static str, kernel: u64, op: fn(&mut Process)| {
            let m = Mounted::again(&drive);
            let mut p = m.process();
            let before = m.drive.traffic();
            op(&mut p);
            let ours = m.drive.traffic().since(&before).read() / BLOCK;
            println!("{what:<36} kernel {kernel:>3}   ours {ours:>3}");
            assert!(within(ours, kernel), "{what}: {ours} blocks read, the kernel {kernel}");
            drop(p);
            m.unmount();
        };
        cold("stat 1 file, cold", 34, |p| {
            p.stat("/dir/f50").expect("stat");
        });
        cold("open + read 4 KB, cold", 37, |p| {
            let fd = p.open("/dir/f50", OpenFlags::RDONLY, 0).expect("open");
            p.read(fd, Dest::Discard(4096)).expect("read");
            p.close(fd).expect("close");
        });
    });
}
