//! Power failures at random instants: fsynced changes are there, everything is sound, work goes on.

use crate::common::{Mounted, Subject};
use granary_device::Drive;
use granary_f2fs::{InPlace, MountOptions};
use granary_fs::{FsError, SetXattr};
use granary_sim::spawn;
use granary_suite::suite::{self, LateDrive, drive, fill, write_all};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Short timers, so that checkpoints and cleaning are everywhere.
pub fn options() -> MountOptions {
    MountOptions {
        checkpoint_interval: Nanos::from_millis(15),
        idle_interval: Nanos::from_millis(2),
        gc_sleep: (Nanos::from_millis(2), Nanos::from_millis(4), Nanos::from_millis(8)),
        discard_sleep: (Nanos::from_millis(1), Nanos::from_millis(2), Nanos::from_millis(3)),
        dirty_nodes: 200,
        in_place: InPlace::Fsync,
        ..MountOptions::default()
    }
}

/// A node that points to a new block is written only when the block's data is there, whoever writes it. This
/// drive takes its time with data, and no FLUSH comes in between: others' checkpoints show no earlier data.
#[test]
fn no_pointer_overtakes_its_data() {
    const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;
    const NEW: u64 = 0x0e0e_0e0e_0e0e_0e0e;
    for i in 0..8 {
        let late: Arc<dyn Drive> = Arc::new(LateDrive::new(Bytes::mib(64)));
        let before = move |m: &Mounted| {
            let mut p = m.process();
            for round in 0..6 {
                let fd = write_all(&mut p, &format!("/secret{round}"), SECRET, 5 << 20).expect("write");
                p.close(fd).expect("close");
                p.sync().expect("sync");
                p.unlink(format!("/secret{round}")).expect("unlink");
                p.sync().expect("sync");
            }
            let mut q = m.process();
            spawn("others", move || {
                for n in 0.. {
                    q.mkdir(format!("/dir{n}"), 0o755).expect("mkdir");
                    let fd = q.open("/", OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0).expect("open");
                    q.fsync(fd).expect("fsync");
                    q.close(fd).expect("close");
                }
            });
            let vfs = m.vfs.clone();
            let mut q = m.process();
            spawn("writer", move || {
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
                let old = content.chunks_exact(8).any(|w| w == SECRET.to_le_bytes());
                assert!(!old, "/new{n} shows what another file held");
                p.close(fd).expect("close");
            }
        };
        suite::fail_and_look(&Subject::default(), late, None, before, after);
    }
}

fn word(p: &mut Process, path: &str) -> Option<u64> {
    let fd = p.open(path, OpenFlags::RDONLY, 0).ok()?;
    let mut buf = [0; 8];
    assert_eq!(p.pread(fd, Dest::Bytes(&mut buf), 0).expect("read"), 8);
    p.close(fd).expect("close");
    Some(u64::from_le_bytes(buf))
}

/// Writes a file of its own word and fsyncs it.
fn save(p: &mut Process, path: &str, word: u64) {
    let fd = write_all(p, path, word, 5000).expect("write");
    p.fsync(fd).expect("fsync");
    p.close(fd).expect("close");
}

/// Files that were fsynced under one name and renamed are there, although each of them had the same name.
#[test]
fn files_saved_under_one_name_and_renamed_are_all_there() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        p.mkdir("/tmp", 0o755).expect("mkdir");
        p.mkdir("/new", 0o755).expect("mkdir");
        save(&mut p, "/tmp/other", 1);
        p.sync().expect("sync");
        let checkpoints = m.fs.stats().checkpoints;
        for n in 0..6 {
            save(&mut p, "/tmp/mail", 100 + n);
            p.rename("/tmp/mail", format!("/new/{n}")).expect("rename");
            save(&mut p, "/tmp/conf", 200 + n);
            p.rename("/tmp/conf", "/new/conf").expect("rename");
        }
        save(&mut p, "/tmp/conf", 206);
        assert_eq!(m.fs.stats().checkpoints, checkpoints);
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        let mut p = m.process();
        let found: Vec<_> = (0..5).map(|n| word(&mut p, &format!("/new/{n}"))).collect();
        assert_eq!(found, (100..105).map(Some).collect::<Vec<_>>());
        // Its rename was not fsynced, and nobody else got its name.
        assert_eq!((word(&mut p, "/tmp/mail"), word(&mut p, "/new/5")), (Some(105), None));
        assert_eq!((word(&mut p, "/new/conf"), word(&mut p, "/tmp/conf")), (Some(205), Some(206)));
        assert_eq!(word(&mut p, "/tmp/other"), Some(1));
    };
    suite::fail_and_look(&Subject::default(), drive(Bytes::mib(64)), None, before, after);
}

/// A renamed file is not lost when another is created under its old name and fsynced.
#[test]
fn a_new_file_does_not_take_the_only_name_of_a_renamed_one() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        let fd = write_all(&mut p, "/old", 5, 5000).expect("write");
        p.fsync(fd).expect("fsync");
        p.close(fd).expect("close");
        p.sync().expect("sync");
        p.rename("/old", "/elsewhere").expect("rename");
        let fd = write_all(&mut p, "/old", 6, 5000).expect("write");
        p.fsync(fd).expect("fsync");
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        let mut p = m.process();
        assert_eq!((word(&mut p, "/old"), word(&mut p, "/elsewhere")), (Some(6), Some(5)));
    };
    suite::fail_and_look(&Subject::default(), drive(Bytes::mib(64)), None, before, after);
}

/// Cut to nothing and grown again, then fsynced: the blocks of before stay away.
#[test]
fn what_was_cut_off_does_not_come_back() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        let fd = write_all(&mut p, "/f", 5, 6 << 20).expect("write");
        p.fsync(fd).expect("fsync");
        p.sync().expect("sync");
        p.ftruncate(fd, 0).expect("truncate");
        p.ftruncate(fd, 6 << 20).expect("truncate");
        p.pwrite(fd, Payload::Fill { word: 6, len: 4096 }, 0).expect("write");
        p.fsync(fd).expect("fsync");
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        let mut p = m.process();
        let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("open");
        let mut content = vec![0; 6 << 20];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut content), 0).expect("read"), 6 << 20);
        assert!(content[..4096].chunks(8).all(|c| c == 6u64.to_le_bytes()));
        assert!(content[4096..].iter().all(|b| *b == 0), "old data came back");
        p.close(fd).expect("close");
    };
    suite::fail_and_look(&Subject::default(), drive(Bytes::mib(128)), None, before, after);
}

/// Nodes that are on media and were freed stay away, those of the checkpoint and those that an earlier fsync
/// wrote, while what came after each cut is there.
#[test]
fn nodes_that_were_freed_do_not_come_back() {
    const MIB: u64 = 1 << 20;
    let before = |m: &Mounted| {
        let mut p = m.process();
        let fd = write_all(&mut p, "/f", 5, 20 << 20).expect("write");
        p.setxattr("/f", b"user.a", &[1; 3000], SetXattr::Any).expect("setxattr");
        p.fsync(fd).expect("fsync");
        p.sync().expect("sync");
        let checkpoints = m.fs.stats().checkpoints;
        let put = |p: &mut Process, word: u64, at: u64| {
            p.pwrite(fd, Payload::Fill { word, len: 4096 }, at).expect("write");
            p.fsync(fd).expect("fsync");
        };
        for at in [9, 13, 17] {
            put(&mut p, 6, at * MIB);
        }
        p.ftruncate(fd, 6 * MIB).expect("cut");
        p.ftruncate(fd, 20 * MIB).expect("grow");
        put(&mut p, 7, 10 * MIB);
        put(&mut p, 7, 18 * MIB);
        p.ftruncate(fd, 14 * MIB).expect("cut");
        p.ftruncate(fd, 20 * MIB).expect("grow");
        p.removexattr("/f", b"user.a").expect("removexattr");
        put(&mut p, 8, 15 * MIB);
        assert_eq!(m.fs.stats().checkpoints, checkpoints);
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        let mut p = m.process();
        let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("open");
        let mut content = vec![0; 20 << 20];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut content), 0).expect("read"), 20 << 20);
        for (page, bytes) in content.chunks(4096).enumerate() {
            let at = page as u64 * 4096;
            let wanted: u64 = match at {
                _ if at < 6 * MIB => 5,
                _ if at == 10 * MIB => 7,
                _ if at == 15 * MIB => 8,
                _ => 0,
            };
            assert!(bytes.chunks(8).all(|c| c == wanted.to_le_bytes()), "page {page} is not {wanted}");
        }
        assert!(p.listxattr("/f").expect("listxattr").is_empty());
        p.close(fd).expect("close");
    };
    suite::fail_and_look(&Subject::default(), drive(Bytes::mib(128)), None, before, after);
}

/// A checkpoint has an inode with its times, then its data is written back to a new place, then the inode
/// leaves memory: a later fsync must write the node with the new pointer all the same.
#[test]
fn fsync_knows_what_was_written_back_before_the_inode_left_memory() {
    const AT: u64 = 6 << 20;
    let before = |m: &Mounted| {
        let mut p = m.process();
        let fd = write_all(&mut p, "/f", 5, 4096).expect("write");
        p.ftruncate(fd, 8 << 20).expect("grow");
        p.fsync(fd).expect("fsync");
        p.pwrite(fd, Payload::Fill { word: 6, len: 4096 }, AT).expect("write");
        p.close(fd).expect("close");
        let dir = p.open("/", OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0).expect("open");
        p.fsync(dir).expect("a checkpoint");
        p.close(dir).expect("close");
        let checkpoints = m.fs.stats().checkpoints;
        // Longer than pages stay dirty, shorter than the checkpoint interval.
        granary_sim::sleep(Nanos::from_secs(40));
        m.vfs.drop_caches();
        let fd = p.open("/f", OpenFlags::RDWR, 0).expect("open");
        p.fsync(fd).expect("fsync");
        assert_eq!(m.fs.stats().checkpoints, checkpoints, "the fsync was to do it");
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        let mut p = m.process();
        let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("open");
        let mut content = vec![0; 4096];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut content), AT).expect("read"), 4096);
        assert!(content.chunks(8).all(|c| c == 6u64.to_le_bytes()), "fsync forgot the page");
        p.close(fd).expect("close");
    };
    suite::fail_and_look(&Subject::default(), drive(Bytes::mib(128)), None, before, after);
}

/// An fsync that a power failure cut short comes back whole or not at all. No block lies behind the end of
/// its file, where growing the file would show it. Nodes of a new inode that did not get there belong to
/// nobody.
#[test]
fn an_fsync_that_was_cut_short_leaves_nothing_behind() {
    const AT: u64 = 12 << 20;
    let (mut without, mut with) = (0, 0);
    for step in 0..60 {
        let seen = Arc::new(AtomicU64::new(0));
        let out = seen.clone();
        let before = move |m: &Mounted| {
            let mut p = m.process();
            let old = write_all(&mut p, "/old", 5, 4096).expect("write");
            p.sync().expect("sync");
            let new = write_all(&mut p, "/new", 5, 4096).expect("write");
            let mut q = m.process();
            spawn("fsync", move || {
                for (fd, at) in [(old, AT), (new, AT), (old, AT + (4 << 20))] {
                    p.pwrite(fd, Payload::Fill { word: 6, len: 8192 }, at).expect("write");
                    p.fsync(fd).expect("fsync");
                }
                q.sync().expect("sync");
            });
            granary_sim::sleep(Nanos(8_000 + step * 700));
            granary_sim::power_fail();
        };
        let after = move |m: &Mounted| {
            let mut p = m.process();
            let fd = p.open("/old", OpenFlags::RDWR, 0).expect("open");
            let size = p.fstat(fd).expect("stat").attr.size;
            out.store(size, Relaxed);
            p.ftruncate(fd, 20 << 20).expect("grow");
            for at in [AT, AT + (4 << 20)].into_iter().filter(|at| *at >= size) {
                let mut content = vec![0; 8192];
                assert_eq!(p.pread(fd, Dest::Bytes(&mut content), at).expect("read"), 8192);
                assert!(
                    content.iter().all(|b| *b == 0),
                    "step {step}: what lay behind the end at {size} shows"
                );
            }
            p.close(fd).expect("close");
        };
        suite::fail_and_look(&Subject::default(), drive(Bytes::mib(64)), None, before, after);
        match seen.load(Relaxed) {
            4096 => without += 1,
            _ => with += 1,
        }
    }
    assert!(without > 0 && with > 0, "{without} before and {with} behind the first fsync");
}

/// An fsync may find all written while another fsync of the file still waits for its FLUSH. It has promised
/// nothing before that is over.
#[test]
fn an_fsync_that_finds_all_written_waits_for_the_flush_of_another() {
    suite::run(|| {
        let m = crate::common::fresh(&drive(Bytes::mib(64)));
        let mut p = m.process();
        let fd = write_all(&mut p, "/f", 5, 4096).expect("write");
        p.sync().expect("sync");
        p.pwrite(fd, Payload::Fill { word: 6, len: 4096 }, 1 << 20).expect("write");
        let nodes = m.fs.stats().nodes;
        let (mut q, fs) = (m.process(), m.fs.clone());
        let second = spawn("second", move || {
            let fd = q.open("/f", OpenFlags::RDONLY, 0).expect("open");
            while fs.stats().nodes == nodes {
                granary_sim::sleep(Nanos(100));
            }
            q.fsync(fd).expect("fsync");
            q.close(fd).expect("close");
            (granary_sim::now(), fs.stats().nodes)
        });
        p.fsync(fd).expect("fsync");
        let (first, written) = (granary_sim::now(), m.fs.stats().nodes);
        let (second, after) = second.join();
        assert_eq!(after, written, "the second was to find all written");
        assert!(second >= first, "it returned at {second:?}, the first at {first:?}");
        p.close(fd).expect("close");
    });
}

/// Roll-forward enters one name of a file, and only that of a new one: what was fsynced with more names than
/// one, or with none, is in a checkpoint.
#[test]
fn an_fsync_of_a_file_with_two_names_or_with_none_is_a_checkpoint() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        for path in ["/linked", "/removed"] {
            let fd = write_all(&mut p, path, 5, 5000).expect("write");
            p.close(fd).expect("close");
        }
        p.sync().expect("sync");
        let removed = p.open("/removed", OpenFlags::RDWR, 0).expect("open");
        p.link("/linked", "/second").expect("link");
        let linked = p.open("/linked", OpenFlags::RDWR, 0).expect("open");
        let taken = m.fs.stats().fsync_checkpoints;
        p.fsync(linked).expect("fsync");
        assert_eq!(m.fs.stats().fsync_checkpoints, taken + 1, "two names");
        p.unlink("/removed").expect("unlink");
        p.pwrite(removed, fill(9, 3000), 0).expect("write");
        p.fsync(removed).expect("fsync");
        assert_eq!(m.fs.stats().fsync_checkpoints, taken + 2, "no name");
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        let mut p = m.process();
        for path in ["/linked", "/second"] {
            assert_eq!(p.stat(path).expect("it is there").attr.nlink, 2);
        }
        assert_eq!(p.stat("/removed").err(), Some(FsError::NoEntry));
    };
    suite::fail_and_look(&Subject::default(), drive(Bytes::mib(64)), None, before, after);
}
