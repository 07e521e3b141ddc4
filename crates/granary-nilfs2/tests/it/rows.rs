//! Blocks of each operation, as logs of Linux 6.1 have them (reference/nilfs2.md section 5.4, measured).
//!
//! ```text
//!   summary | directory, data, nodes | ifile | cpfile | sufile | DAT | super root
//! ```

use crate::common::{Mounted, Subject};
use granary_device::Structure;
use granary_sim::sleep;
use granary_suite::suite::{drive, run};
use granary_units::{Bytes, Nanos, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Process};

struct Table {
    m: Mounted,
    p: Process,
}

fn put(p: &mut Process, path: &str, pos: u64, len: usize) -> Fd {
    let fd = p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("open");
    p.pwrite(fd, Payload::Fill { word: 0x1234_5678_9abc_def0, len }, pos).expect("write");
    fd
}

fn fsync(p: &mut Process, path: &str) {
    let fd = p.open(path, OpenFlags::RDONLY, 0).expect("open");
    p.fsync(fd).expect("fsync");
    p.close(fd).expect("close");
}

/// As the measured one: 8 GiB, two directories with some files in different blocks of the ifile, and some dozens of checkpoints.
fn table() -> Table {
    let d = drive(Bytes::gib(8));
    let m = Mounted::fresh(&Subject::default(), &d);
    let mut p = m.process();
    p.mkdir("/dir", 0o755).expect("mkdir");
    p.mkdir("/other", 0o755).expect("mkdir");
    for i in 0..70 {
        let fd = put(&mut p, &format!("/dir/f{i}"), 0, 4096);
        p.close(fd).expect("close");
        if i % 2 == 0 {
            fsync(&mut p, &format!("/dir/f{i}"));
        }
    }
    p.mkdir("/dir/empty", 0o755).expect("mkdir");
    let mut t = Table { m, p };
    t.quiet();
    t
}

impl Table {
    fn quiet(&mut self) {
        self.p.sync().expect("sync");
        // Superblocks are not counted with any row.
        sleep(Nanos::from_secs(11));
        let fd = put(&mut self.p, "/other/tick", 0, 100);
        self.p.fsync(fd).expect("fsync");
        self.p.close(fd).expect("close");
    }

    /// Blocks that an operation writes, by structure.
    fn blocks(&mut self, op: &mut dyn FnMut(&mut Process)) -> (u64, [u64; Structure::COUNT]) {
        self.quiet();
        let before = self.m.drive.traffic();
        op(&mut self.p);
        let t = self.m.drive.traffic().since(&before);
        let by = Structure::ALL.map(|s| t.block_write[s as usize] / 4096);
        (by.iter().sum(), by)
    }
}

/// Looks at rows: what is not within a tenth of what was measured.
struct Rows {
    t: Table,
    wrong: Vec<String>,
}

impl Rows {
    fn row(&mut self, name: &str, (least, most): (u64, u64), op: &mut dyn FnMut(&mut Process)) {
        let (all, by) = self.t.blocks(op);
        println!("{name}: {all} of {least}-{most}: {by:?}");
        if all * 10 < least * 9 || all * 10 > most * 11 {
            self.wrong.push(format!("{name}: {all} of {least}-{most} ({by:?})"));
        }
    }
}

#[test]
fn small_files_write_the_blocks_that_were_measured() {
    run(|| {
        let mut rows = Rows { t: table(), wrong: Vec::new() };
        let mut row = |name: &str, range, op: &mut dyn FnMut(&mut Process)| rows.row(name, range, op);
        row("create 4 KiB + fsync", (17, 19), &mut |p| {
            let fd = put(p, "/dir/new", 0, 4096);
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        });
        row("create 1 KiB + fsync", (17, 19), &mut |p| {
            let fd = put(p, "/dir/newer", 0, 1024);
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        });
        row("create empty + fsync", (0, 0), &mut |p| {
            let fd = p.open("/dir/none", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("open");
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        });
        row("append 4 KiB + fsync", (13, 13), &mut |p| {
            let fd = put(p, "/dir/f1", 4096, 4096);
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        });
        row("append 4 KiB + fdatasync", (13, 13), &mut |p| {
            let fd = put(p, "/dir/f3", 4096, 4096);
            p.fdatasync(fd).expect("fdatasync");
            p.close(fd).expect("close");
        });
        row("append 100 B + fsync", (13, 13), &mut |p| {
            let fd = put(p, "/dir/f5", 4096, 100);
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        });
        row("mkdir + fsync of the parent", (18, 18), &mut |p| {
            p.mkdir("/dir/sub", 0o755).expect("mkdir");
            fsync(p, "/dir");
        });
        row("rename in a directory + fsync of it", (15, 18), &mut |p| {
            p.rename("/dir/f7", "/dir/g7").expect("rename");
            fsync(p, "/dir");
        });
        row("rename to another directory + fsync of it", (15, 18), &mut |p| {
            p.rename("/dir/f9", "/other/f9").expect("rename");
            fsync(p, "/other");
        });
        row("rename over another + fsync of the directory", (15, 18), &mut |p| {
            p.rename("/dir/f11", "/dir/f13").expect("rename");
            fsync(p, "/dir");
        });
        row("unlink + fsync of the directory", (17, 17), &mut |p| {
            p.unlink("/dir/f15").expect("unlink");
            fsync(p, "/dir");
        });
        row("rmdir + fsync of the parent", (16, 16), &mut |p| {
            p.rmdir("/dir/empty").expect("rmdir");
            fsync(p, "/dir");
        });
        row("truncate to nothing + fsync", (12, 12), &mut |p| {
            let fd = p.open("/dir/f17", OpenFlags::RDWR, 0).expect("open");
            p.ftruncate(fd, 0).expect("truncate");
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        });
        row("chmod + fsync", (0, 0), &mut |p| {
            p.chmod("/dir/f19", 0o600).expect("chmod");
            fsync(p, "/dir/f19");
        });
        row("sync of what is idle", (0, 0), &mut |p| p.sync().expect("sync"));
        assert!(rows.wrong.is_empty(), "{:#?}", rows.wrong);
    });
}

/// A file of 64 MiB.
#[test]
fn large_files_write_the_blocks_that_were_measured() {
    run(|| {
        let mut rows = Rows { t: table(), wrong: Vec::new() };
        let big = put(&mut rows.t.p, "/dir/big", 0, 64 << 20);
        let mut row = |name: &str, range, op: &mut dyn FnMut(&mut Process)| rows.row(name, range, op);
        let at = |fd: Fd, p: &mut Process, pos: u64, len: usize| {
            p.pwrite(fd, Payload::Fill { word: pos + 7, len }, pos).expect("write");
        };
        row("overwrite 4 KiB + fsync", (16, 17), &mut |p| {
            at(big, p, 30 << 20, 4096);
            p.fsync(big).expect("fsync");
        });
        row("overwrite 64 KiB + fsync", (32, 32), &mut |p| {
            at(big, p, 40 << 20, 65_536);
            p.fsync(big).expect("fsync");
        });
        row("overwrite 4 KiB + fdatasync", (2, 2), &mut |p| {
            at(big, p, 20 << 20, 4096);
            p.fdatasync(big).expect("fdatasync");
        });
        row("overwrite 64 KiB + fdatasync", (17, 17), &mut |p| {
            at(big, p, 10 << 20, 65_536);
            p.fdatasync(big).expect("fdatasync");
        });
        row("truncate 64 MiB to 32 MiB + fsync", (82, 82), &mut |p| {
            p.ftruncate(big, 32 << 20).expect("truncate");
            p.fsync(big).expect("fsync");
        });
        assert!(rows.wrong.is_empty(), "{:#?}", rows.wrong);
    });
}

/// Nobody waits: one log after 5 s, without a FLUSH, and nothing later (measured: 200 files of 4 KiB, 230 blocks).
#[test]
fn files_that_nobody_waits_for_are_in_one_log() {
    run(|| {
        let mut t = table();
        t.quiet();
        let (logs, flushes) = (t.m.fs.stats().logs, t.m.fs.stats().flushes);
        let before = t.m.drive.traffic();
        for i in 0..200 {
            let fd = put(&mut t.p, &format!("/other/n{i}"), 0, 4096);
            t.p.close(fd).expect("close");
        }
        sleep(Nanos::from_secs(4));
        assert_eq!(t.m.fs.stats().logs, logs, "before its time");
        sleep(Nanos::from_secs(2));
        assert_eq!((t.m.fs.stats().logs, t.m.fs.stats().flushes), (logs + 1, flushes));
        let blocks = t.m.drive.traffic().since(&before).written() / 4096;
        assert!((207..=253).contains(&blocks), "{blocks} of 230");
        let quiet = t.m.drive.traffic();
        sleep(Nanos::from_secs(60));
        assert_eq!(t.m.drive.traffic(), quiet);
    });
}
