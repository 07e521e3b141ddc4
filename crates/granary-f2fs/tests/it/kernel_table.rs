//! Checkpoints, timers and flushes are the kernel's (reference/baselines.md sections 4.2 and 4.3). The
//! traffic of each operation (4.4) is compared by `granary calibrate --reference` and the test of that name
//! in granary-papers.

use crate::common::{Mounted, Subject, fresh};
use granary_f2fs::{FsyncMode, MountOptions};
use granary_fs::SetXattr;
use granary_sim::sleep;
use granary_suite::suite::{drive, run, volatile_drive};
use granary_units::{Bytes, Nanos, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Process};

struct Table {
    m: Mounted,
    p: Process,
}

impl Table {
    fn quiet(&mut self) {
        self.p.sync().expect("sync");
        sleep(Nanos::from_millis(20));
    }
}

fn put(p: &mut Process, path: &str, len: usize) -> Fd {
    let fd = p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
    p.pwrite(fd, Payload::Fill { word: 0x1234_5678_9abc_def0, len }, 0).expect("write");
    fd
}

fn sync_dir(p: &mut Process, path: &str) {
    let fd = p.open(path, OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0).expect("open");
    p.fsync(fd).expect("fsync");
    p.close(fd).expect("close");
}

/// A directory with some files, all in a checkpoint; the second one for large writes.
fn table() -> Table {
    table_of(MountOptions::default())
}

fn table_of(mount: MountOptions) -> Table {
    let drive = drive(Bytes::gib(8));
    let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive);
    let mut p = m.process();
    p.mkdir("/dir", 0o755).expect("mkdir");
    for i in 0..60 {
        let fd = put(&mut p, &format!("/dir/f{i}"), 4096);
        p.close(fd).expect("close");
    }
    let big = put(&mut p, "/dir/big", 65536);
    p.close(big).expect("close");
    p.mkdir("/dir/empty", 0o755).expect("mkdir");
    let mut t = Table { m, p };
    t.quiet();
    t
}

/// Sections 4.2 and 4.3: the reasons that make an fsync a checkpoint; each does so once.
#[test]
fn fsync_takes_a_checkpoint_where_the_kernel_does() {
    run(|| {
        let mut t = table();
        let count = |t: &Table| t.m.fs.stats().checkpoints;
        let mut expect = |name: &str, checkpoints: u64, op: &mut dyn FnMut(&mut Process)| {
            t.quiet();
            let before = count(&t);
            op(&mut t.p);
            assert_eq!(count(&t) - before, checkpoints, "{name}");
        };
        let fsync = |p: &mut Process, path: &str| {
            let fd = p.open(path, OpenFlags::RDWR, 0).expect("open");
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        };
        expect("hard links", 1, &mut |p| {
            p.link("/dir/f1", "/dir/l1").expect("link");
            fsync(p, "/dir/f1");
        });
        expect("a renamed file: once", 1, &mut |p| {
            p.rename("/dir/f2", "/dir/g2").expect("rename");
            fsync(p, "/dir/g2");
            p.chmod("/dir/g2", 0o600).expect("chmod");
            fsync(p, "/dir/g2");
        });
        expect("a file in a new directory: once", 1, &mut |p| {
            p.mkdir("/dir/new", 0o755).expect("mkdir");
            for name in ["/dir/new/1", "/dir/new/2"] {
                let fd = put(p, name, 4096);
                p.fsync(fd).expect("fsync");
                p.close(fd).expect("close");
            }
        });
        expect("a directory without changes", 0, &mut |p| sync_dir(p, "/dir"));
        expect("new files, renamed after their fsync", 0, &mut |p| {
            for n in 0..5 {
                let fd = put(p, "/dir/tmp", 4096);
                p.fsync(fd).expect("fsync");
                p.close(fd).expect("close");
                p.rename("/dir/tmp", format!("/dir/mail{}", n % 3)).expect("rename");
            }
        });
        let after_a_rename = |p: &mut Process| {
            p.rename("/dir/f3", "/f3").expect("rename");
            let fd = put(p, "/dir/f3", 4096);
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        };
        expect("a new file where another was renamed away", 0, &mut |p| after_a_rename(p));
        // Not the kernel's: it would lose one of the two.
        expect("a new file where two were renamed away", 1, &mut |p| {
            p.rename("/dir/f4", "/dir/a").expect("rename");
            p.rename("/dir/f5", "/dir/f4").expect("rename");
            p.rename("/dir/f4", "/dir/b").expect("rename");
            let fd = put(p, "/dir/f4", 4096);
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        });
        let mut t = table_of(MountOptions { fsync_mode: FsyncMode::Strict, ..MountOptions::default() });
        t.quiet();
        let before = count(&t);
        after_a_rename(&mut t.p);
        assert_eq!(count(&t) - before, 1, "strict");
    });
}

/// A truncation, and a change of extended attributes, that frees a node: fsync writes the inode and no
/// checkpoint (`need_do_checkpoint` has no such reason).
#[test]
fn freed_nodes_need_no_checkpoint() {
    run(|| {
        let mut t = table();
        let fd = put(&mut t.p, "/dir/long", 12 << 20);
        t.p.setxattr("/dir/f1", b"user.a", &[7; 3000], SetXattr::Any).expect("setxattr");
        t.quiet();
        let blocks = |t: &mut Table, op: &mut dyn FnMut(&mut Process)| {
            let before = t.m.drive.traffic();
            op(&mut t.p);
            t.m.drive.traffic().since(&before).written() / 4096
        };
        let cut = |size: u64| {
            move |p: &mut Process| {
                p.ftruncate(fd, size).expect("truncate");
                p.fsync(fd).expect("fsync");
            }
        };
        assert_eq!(blocks(&mut t, &mut cut(8 << 20)), 2, "the node that is cut, the inode");
        assert_eq!(blocks(&mut t, &mut cut(1 << 20)), 1);
        assert_eq!(blocks(&mut t, &mut cut(0)), 1);
        let removed = blocks(&mut t, &mut |p| {
            p.removexattr("/dir/f1", b"user.a").expect("removexattr");
            let fd = p.open("/dir/f1", OpenFlags::RDWR, 0).expect("open");
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        });
        assert_eq!(removed, 1);
        t.m.check();
    });
}

/// Changes get a checkpoint after 60 s, and an idle file system writes nothing.
#[test]
fn checkpoints_keep_their_time() {
    run(|| {
        let t = table();
        let mut p = t.m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        let before = t.m.fs.stats().checkpoints;
        sleep(Nanos::from_secs(50));
        assert_eq!(t.m.fs.stats().checkpoints, before);
        sleep(Nanos::from_secs(20));
        assert_eq!(t.m.fs.stats().checkpoints, before + 1);
        let quiet = t.m.drive.traffic();
        sleep(Nanos::from_secs(25));
        assert_eq!(t.m.drive.traffic(), quiet);
    });
}

/// 64 tasks that fsync at once share FLUSH commands.
#[test]
fn concurrent_fsyncs_share_flushes() {
    run(|| {
        let drive = volatile_drive(Bytes::gib(1));
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
        let stats = m.fs.stats();
        assert!(stats.flushes < 600, "{} flushes for 640 fsyncs", stats.flushes);
        assert_eq!(stats.checkpoints, 0);
        m.check();
    });
}

/// By the source of Linux (`truncate_partial_data_page` dirties the page): where a truncation cuts a block,
/// fsync writes it with the node. A hole stays one, and what is behind a whole block is not touched.
#[test]
fn a_block_that_is_cut_is_written_again() {
    run(|| {
        let mut t = table();
        let mut blocks = |name: &str, from: u64, to: u64| {
            let fd = t.p.open(name, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
            t.p.pwrite(fd, Payload::Fill { word: 1, len: 4096 }, from - 4096).expect("write");
            t.quiet();
            let before = t.m.drive.traffic();
            t.p.ftruncate(fd, to).expect("truncate");
            t.p.fsync(fd).expect("fsync");
            t.m.drive.traffic().since(&before).written() / 4096
        };
        assert_eq!(blocks("/dir/one", 4096, 100), 2);
        assert_eq!(blocks("/dir/second", 8192, 5000), 2);
        assert_eq!(blocks("/dir/hole", 8192, 100), 1);
        assert_eq!(blocks("/dir/whole", 8192, 4096), 1);
        t.m.check();
    });
}
