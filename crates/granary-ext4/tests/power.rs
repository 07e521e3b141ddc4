//! Power failures at random instants: what fsync promised is there, everything is sound, work goes on.

mod common;

use common::{Mounted, Subject};
use granary_ext4::{MkfsOptions, MountOptions};
use granary_sim::{now, sleep_until, spawn};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::suite::{self, LateDrive, drive, write_all};
use granary_vfs::{OpenFlags, Posix};
use std::sync::Arc;

/// Small journal and short timers, so that commits, checkpoints and tail updates are everywhere.
fn options() -> MountOptions {
    MountOptions {
        commit_interval: Nanos::from_millis(3),
        dirty_expire: Nanos::from_millis(6),
        writeback_interval: Nanos::from_millis(2),
        cpus: 3,
        ..MountOptions::default()
    }
}

#[test]
fn what_was_fsynced_survives_power_failures_at_any_instant() {
    let mkfs = MkfsOptions { journal_size: Some(Bytes::mib(4)), ..MkfsOptions::default() };
    let all = suite::what_was_fsynced_survives_power_failures(&Subject { mkfs, mount: options() }, 8);
    println!("{all:?}");
    assert!(
        all.iter().any(|r| r.transactions > 0) && all.iter().any(|r| r.blocks > 0),
        "nothing was replayed"
    );
    assert!(all.iter().any(|r| r.revoked > 0) && all.iter().any(|r| r.orphans_freed > 0), "no orphans");
}

#[test]
fn attributes_survive_power_failures() {
    suite::attributes_survive_power_failures(&Subject::default());
}

/// Metadata of the first group, where most of it lies.
#[test]
fn scribbled_images_are_refused_or_reported() {
    suite::scribbled_images_are_refused_or_reported(&Subject::default(), 700);
}

/// Ordered mode: blocks that held a deleted file's data are given to a new file; a commit made by somebody else while
/// the new data is on its way must not show the old.
#[test]
fn a_commit_waits_for_the_data_of_the_extents_in_it() {
    const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;
    const NEW: u64 = 0x0e0e_0e0e_0e0e_0e0e;
    const MUCH: usize = 40 << 20;
    let until = 900_000_000;
    for i in 0..12 {
        let at = Nanos(until + 1_000_000 + i * 3_700_000);
        let before = move |m: &Mounted| {
            let mut p = m.process();
            let fd = write_all(&mut p, "/secret", SECRET, MUCH).expect("write");
            p.close(fd).expect("close");
            p.sync().expect("sync");
            p.unlink("/secret").expect("unlink");
            p.sync().expect("sync");
            assert!(now().0 < until, "{}", now());
            sleep_until(Nanos(until));
            let mut q = m.process();
            spawn("others", move || {
                for n in 0.. {
                    let fd = write_all(&mut q, &format!("/small{n}"), 1, 10).expect("write");
                    q.fsync(fd).expect("fsync");
                    q.close(fd).expect("close");
                }
            });
            let fd = write_all(&mut p, "/new", NEW, MUCH).expect("write");
            p.fsync(fd).expect("fsync");
            granary_sim::sleep(Nanos::from_secs(1));
        };
        let after = |m: &Mounted| {
            let mut p = m.process();
            let Ok(fd) = p.open("/new", OpenFlags::RDONLY, 0) else { return };
            let mut content = vec![0; p.fstat(fd).expect("stat").attr.size as usize];
            p.pread(fd, Dest::Bytes(&mut content), 0).expect("read");
            let seen: Vec<u64> = content
                .chunks_exact(8)
                .map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")))
                .filter(|w| *w != 0 && *w != NEW)
                .collect();
            assert!(
                seen.is_empty(),
                "{} old words of {} bytes, as {:#x}",
                seen.len(),
                content.len(),
                seen[0]
            );
        };
        suite::fail_and_look(
            &Subject::default(),
            Arc::new(LateDrive::new(Bytes::mib(64))),
            Some(at),
            before,
            after,
        );
    }
}

/// Revocation: a directory's block is in the log when it is freed and given to a file; replay must not put the
/// directory back over the file's data.
#[test]
fn replay_does_not_overwrite_what_a_freed_directory_block_became() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        let small = write_all(&mut p, "/small", 5, 4096).expect("write");
        p.mkdir("/d", 0o755).expect("mkdir");
        let all = p.open("/all", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
        let mut at = 0;
        while p.pwrite(all, Payload::Fill { word: 9, len: 4096 }, at).is_ok() {
            at += 4096;
        }
        p.fsync(all).expect("fsync");
        // The one block that comes free is the directory's: the file grows into it.
        p.rmdir("/d").expect("rmdir");
        let root = p.open("/", OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0).expect("open");
        p.fsync(root).expect("fsync");
        p.pwrite(small, Payload::Fill { word: 6, len: 4096 }, 4096).expect("the freed block");
        p.fsync(small).expect("fsync");
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        assert!(m.fs.recovery().revoked > 0, "{:?}", m.fs.recovery());
        let mut p = m.process();
        let fd = p.open("/small", OpenFlags::RDONLY, 0).expect("open");
        let mut content = vec![0; 8192];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut content), 0).expect("read"), 8192);
        assert!(content[..4096].chunks(8).all(|c| c == 5u64.to_le_bytes()));
        assert!(content[4096..].chunks(8).all(|c| c == 6u64.to_le_bytes()), "not the file's data");
    };
    suite::fail_and_look(&Subject::default(), drive(Bytes::mib(64)), None, before, after);
}

/// The data of a directory is its entries: SQLite removes its journal and then calls fdatasync on the directory.
#[test]
fn a_removal_survives_once_its_directory_is_fdatasynced() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        let fd = write_all(&mut p, "/d/journal", 1, 4096).expect("write");
        p.fsync(fd).expect("fsync");
        p.close(fd).expect("close");
        p.unlink("/d/journal").expect("unlink");
        let dir = p.open("/d", OpenFlags::RDONLY, 0).expect("open");
        p.fdatasync(dir).expect("fdatasync");
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| assert!(m.process().stat("/d/journal").is_err(), "it is back");
    suite::fail_and_look(&Subject::default(), drive(Bytes::gib(1)), None, before, after);
}

/// A journal that is never emptied by a sync is replayed whole.
#[test]
fn a_power_failure_right_after_fsync_loses_nothing() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        for i in 0..300 {
            let fd = write_all(&mut p, &format!("/d/{i}"), i, 4096).expect("write");
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        }
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        let r = m.fs.recovery();
        assert!(!r.clean && r.transactions == 300, "{r:?}");
        let mut p = m.process();
        for i in 0..300u64 {
            let fd = p.open(format!("/d/{i}"), OpenFlags::RDONLY, 0).expect("open");
            let mut buf = [0; 8];
            assert_eq!(p.pread(fd, Dest::Bytes(&mut buf), 4088).expect("read"), 8);
            assert_eq!(u64::from_le_bytes(buf), i);
            p.close(fd).expect("close");
        }
    };
    suite::fail_and_look(&Subject::default(), drive(Bytes::gib(1)), None, before, after);
}
