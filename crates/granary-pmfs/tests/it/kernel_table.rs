//! Lines and fences of each operation are the original's (reference/baselines.md sections 7.3 and 7.4).
//!
//! Isolated operations, everything warm. The reference sums the table's parts: "inode undo 2, dir inode 1,
//! dentry 1, commit 1; in place: inode 2, dir inode 1, dentry 1-2, tail 1" = 10 to 12 lines. Ours are the
//! lines that the drive received without file data, and the fences. 10 % beyond the range are allowed.

use crate::common::{Mounted, fresh};
use granary_device::Structure;
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

#[test]
fn every_row_of_the_table_is_matched() {
    run(|| {
        let drive = drive(Bytes::gib(1));
        let m = fresh(&drive);
        let mut p = m.process();
        p.mkdir("/dir", 0o755).expect("mkdir");
        for i in 0..20 {
            let fd = put(&mut p, &format!("/dir/f{i}"), 4096);
            p.close(fd).expect("close");
        }
        let mut t = Table { m, p, wrong: Vec::new() };
        let fd = t.p.open("/dir/f0", OpenFlags::RDWR, 0).expect("open");
        // The fast path: data, and the line with times and size.
        t.row("overwrite 4 KB", 64, (1, 1), (1, 1), |p| {
            p.pwrite(fd, Payload::Fill { word: 9, len: 4096 }, 0).expect("write");
        });
        t.row("overwrite 64 B", 1, (1, 1), (1, 1), |p| {
            p.pwrite(fd, Payload::Fill { word: 9, len: 64 }, 128).expect("write");
        });
        // Inode undo 2, inode 1, tail 1, commit 1; the second block makes a node (64 lines).
        t.row("append the second 4 KB", 64, (68, 70), (3, 4), |p| {
            p.pwrite(fd, Payload::Fill { word: 8, len: 4096 }, 4096).expect("write");
        });
        // Inode undo 2, pointer undo 1, pointer 1, inode 1, tail 1, commit 1.
        t.row("append the third 4 KB", 64, (6, 7), (4, 5), |p| {
            p.pwrite(fd, Payload::Fill { word: 8, len: 4096 }, 8192).expect("write");
        });
        t.row("create", 0, (10, 12), (5, 5), |p| {
            p.mknod("/dir/new", granary_fs::FileKind::File, 0o644, 0).expect("create");
        });
        // Create, and "." and ".." in a new block.
        t.row("mkdir", 0, (11, 13), (5, 5), |p| p.mkdir("/dir/sub", 0o755).expect("mkdir"));
        // Undo: inode 1-2, dentry 1, dir inode 1, list head 1; item 1, commit 1, tail 1; in place: inode,
        // dentry, dir inode, head 4; then evict: 1 + 1, tail 1, pointer 1.
        t.row("unlink, last link", 0, (14, 17), (8, 9), |p| p.unlink("/dir/f9").expect("unlink"));
        // Item 1, head 1, inode 1, head 1.
        t.row("truncate to nothing", 0, (4, 4), (4, 4), |p| p.truncate("/dir/f11", 0).expect("truncate"));
        // The same, and zeros to the end of the page; growth writes them no more. A page less: its pointer. A
        // hole stays one.
        let cut = put(&mut t.p, "/dir/cut", 8192);
        t.row("truncate 8192 to 4196", 63, (4, 4), (4, 4), |p| p.ftruncate(cut, 4196).expect("truncate"));
        t.row("write 64 B behind the end", 1, (1, 1), (2, 2), |p| {
            p.pwrite(cut, Payload::Fill { word: 9, len: 64 }, 5248).expect("write");
        });
        t.row("truncate 5312 to 4096", 0, (5, 5), (4, 4), |p| p.ftruncate(cut, 4096).expect("truncate"));
        t.p.ftruncate(cut, 12288).expect("grow");
        t.row("truncate in a hole", 0, (4, 4), (4, 4), |p| p.ftruncate(cut, 9000).expect("truncate"));
        t.row("fsync", 0, (0, 0), (1, 1), |p| p.fsync(fd).expect("fsync"));
        assert!(t.wrong.is_empty(), "beyond 10 %: {:?}", t.wrong);
    });
}
