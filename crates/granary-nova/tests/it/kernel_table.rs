//! Lines and fences of each operation are the original's (reference/baselines.md sections 6.2 and 6.3).
//!
//! Isolated operations, everything warm. The reference sums the table's parts: "dentry (1-2 lines), page
//! tail, inode 2 lines, 2 journal entries (1 line), pair x2, dir tail, valid" = 9 to 10 lines. Ours are the
//! lines that the drive received (stores to one line between two fences are one) without file data, and the
//! fences. 10 % beyond the range are allowed.

use crate::common::{Mounted, Subject};
use granary_device::Structure;
use granary_nova::{DataMode, MountOptions};
use granary_pm::PmStats;
use granary_suite::suite::{drive, run};
use granary_units::{Bytes, Payload};
use granary_vfs::{OpenFlags, Posix, Process};

struct Table {
    m: Mounted,
    p: Process,
    wrong: Vec<&'static str>,
}

impl Table {
    /// Measures `op`: data lines exactly, metadata lines and fences within 10 % of the ranges.
    fn row(
        &mut self,
        name: &'static str,
        data: u64,
        lines: (u64, u64),
        fences: (u64, u64),
        op: impl FnOnce(&mut Process),
    ) {
        let (before, stats): (_, PmStats) = (self.m.drive.traffic(), self.m.fs.stats());
        op(&mut self.p);
        let moved = self.m.drive.traffic().since(&before);
        let stats = self.m.fs.stats().since(&stats);
        let ours_data = moved.byte_write[Structure::Data as usize] / 64;
        let ours = moved.byte_write.iter().sum::<u64>() / 64 - ours_data;
        assert_eq!(moved.block_write.iter().sum::<u64>(), 0, "{name}: block commands");
        println!(
            "{name:<34} data {data:>5} {ours_data:>5} | lines {:>2}-{:<2} {ours:>3} | fences {}-{} {} ({} verifies)",
            lines.0, lines.1, fences.0, fences.1, stats.fences, stats.verifies
        );
        let within = |x: u64, (lo, hi): (u64, u64)| x * 10 >= lo * 9 && x * 10 <= hi * 11;
        if ours_data != data || !within(ours, lines) || !within(stats.fences, fences) {
            self.wrong.push(name);
        }
    }
}

fn put(p: &mut Process, path: &str, len: usize) -> granary_vfs::Fd {
    let fd = p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
    p.pwrite(fd, Payload::Fill { word: 7, len }, 0).expect("write");
    fd
}

fn table(data: DataMode, rows: impl FnOnce(&mut Table) + 'static) {
    run(move || {
        let drive = drive(Bytes::gib(1));
        let subject = Subject { mount: MountOptions { data }, ..Subject::default() };
        let m = Mounted::fresh(&subject, &drive);
        let mut p = m.process();
        p.mkdir("/dir", 0o755).expect("mkdir");
        for i in 0..20 {
            let fd = put(&mut p, &format!("/dir/f{i}"), 4096);
            p.close(fd).expect("close");
        }
        let mut t = Table { m, p, wrong: Vec::new() };
        rows(&mut t);
        assert!(t.wrong.is_empty(), "beyond 10 %: {:?}", t.wrong);
    });
}

#[test]
fn every_row_of_the_table_is_matched() {
    table(DataMode::Cow, |t| {
        let fd = t.p.open("/dir/f0", OpenFlags::RDWR, 0).expect("open");
        // Entry 1-2, page tail, inode tail; at least 3 fences.
        t.row("append 4 KB", 64, (3, 4), (3, 3), |p| {
            p.pwrite(fd, Payload::Fill { word: 8, len: 4096 }, 4096).expect("write");
        });
        // And the old entry's line, and its page's tail.
        t.row("overwrite 4 KB, copy on write", 64, (4, 6), (3, 3), |p| {
            p.pwrite(fd, Payload::Fill { word: 9, len: 4096 }, 0).expect("write");
        });
        t.row("overwrite 100 B, copy on write", 64, (4, 6), (3, 3), |p| {
            p.pwrite(fd, Payload::Fill { word: 9, len: 100 }, 50).expect("write");
        });
        t.row("create", 0, (9, 10), (7, 7), |p| {
            p.mknod("/dir/new", granary_fs::FileKind::File, 0o644, 0).expect("create");
        });
        // Append and a new log page: its tail's line, head and tail in the inode's line.
        t.row("first write to a file", 64, (3, 5), (3, 3), |p| {
            let fd = p.open("/dir/new", OpenFlags::WRONLY, 0).expect("open");
            p.pwrite(fd, Payload::Fill { word: 9, len: 4096 }, 0).expect("write");
        });
        // Create, and "." and ".." (2 lines) in a new log page (its tail).
        t.row("mkdir", 0, (12, 13), (7, 7), |p| p.mkdir("/dir/sub", 0o755).expect("mkdir"));
        // Two dentry lines, two page tails, link change 1-2, 4 journal entries 2, pair 2, tails 2, valid and
        // epoch 2, old dentry and page tail 1-2; eviction 2.
        t.row("unlink, last link", 0, (13, 17), (8, 9), |p| p.unlink("/dir/f9").expect("unlink"));
        // Link change 1-2, dentry add and delete 2-4, page tails 2, 6 entries 3, pair 2, tails 2, old dentry
        // 1-2.
        t.row("rename in a directory", 0, (12, 17), (5, 7), |p| {
            p.rename("/dir/f10", "/dir/g10").expect("rename")
        });
        // Attribute entry 1-2, page tail, inode tail; the tail block's zeros.
        t.row("truncate 4096 to 1000", 49, (3, 5), (2, 4), |p| {
            p.truncate("/dir/f11", 1000).expect("truncate")
        });
        t.row("fsync", 0, (0, 0), (1, 1), |p| p.fsync(fd).expect("fsync"));
    });
}

#[test]
fn overwriting_in_place_is_matched() {
    table(DataMode::InPlace, |t| {
        let fd = t.p.open("/dir/f0", OpenFlags::RDWR, 0).expect("open");
        // Journal 8 x 32 B, pair x2, the entry's line (or two).
        t.row("overwrite 4 KB in place", 64, (7, 8), (5, 5), |p| {
            p.pwrite(fd, Payload::Fill { word: 9, len: 4096 }, 0).expect("write");
        });
    });
}
