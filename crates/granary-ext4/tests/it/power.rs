//! Power failures at random instants: fsynced changes are there, everything is sound, work goes on.

use crate::common::{Mounted, Subject};
use granary_device::Structure;
use granary_ext4::layout::journal::{Tag, commit, descriptor};
use granary_ext4::{DataMode, MkfsOptions, MountOptions};
use granary_fs::Allocate;
use granary_sim::{now, sleep_until, spawn};
use granary_suite::suite::{self, LateDrive, drive, write_all};
use granary_units::{Bytes, Dest, Nanos, Page, Payload};
use granary_vfs::{OpenFlags, Posix};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Small journal and short timers, so that commits, checkpoints and tail updates are everywhere.
pub fn options(data: DataMode) -> MountOptions {
    MountOptions {
        data,
        commit_interval: Nanos::from_millis(3),
        dirty_expire: Nanos::from_millis(6),
        writeback_interval: Nanos::from_millis(2),
        cpus: 3,
        ..MountOptions::default()
    }
}

/// Blocks that held a deleted file's data are given to a new file, and somebody else commits while the new
/// data is on its way. In ordered mode that commit waits for it. In writeback mode it does not, and a power
/// failure then leaves zeros. With a data journal a page is there with the size that reaches it. No mode
/// shows the old content.
#[test]
fn no_commit_shows_what_blocks_held_before() {
    let zeros = |data| zeros_after_power_failures(data);
    assert_eq!(zeros(DataMode::Ordered), 0);
    assert_eq!(zeros(DataMode::Journal), 0);
    assert!(zeros(DataMode::Writeback) > 0, "no commit came before the data: nothing was tested");
}

/// How many words of the new file are zero, over all instants.
fn zeros_after_power_failures(data: DataMode) -> u64 {
    let subject = Subject { mount: MountOptions { data, ..MountOptions::default() }, ..Subject::default() };
    let zeros = Arc::new(AtomicU64::new(0));
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
        let found = Arc::clone(&zeros);
        let after = move |m: &Mounted| {
            let mut p = m.process();
            let Ok(fd) = p.open("/new", OpenFlags::RDONLY, 0) else { return };
            let mut content = vec![0; p.fstat(fd).expect("stat").attr.size as usize];
            p.pread(fd, Dest::Bytes(&mut content), 0).expect("read");
            let words =
                content.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")));
            let (zero, seen): (Vec<u64>, Vec<u64>) = words.filter(|w| *w != NEW).partition(|w| *w == 0);
            found.fetch_add(zero.len() as u64, Relaxed);
            assert!(
                seen.is_empty(),
                "{} old words of {} bytes, as {:#x}",
                seen.len(),
                content.len(),
                seen[0]
            );
        };
        suite::fail_and_look(&subject, Arc::new(LateDrive::new(Bytes::mib(64))), Some(at), before, after);
    }
    zeros.load(Relaxed)
}

/// User data must not be taken for a record of the journal: pages that are whole descriptors and commit
/// blocks of the transactions to come, in files whose pages are journalled.
#[test]
fn data_that_looks_like_journal_records_is_data() {
    let forged = |tid: u32| {
        let tag = Tag { home: 40, what: Structure::Data, escaped: false };
        [descriptor(tid, &[tag]), commit(tid, 1, 0)]
    };
    let before = move |m: &Mounted| {
        let mut p = m.process();
        let fd = p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
        for tid in 0..40 {
            for (i, page) in forged(tid).iter().enumerate() {
                let at = (2 * tid as u64 + i as u64) * 4096;
                p.pwrite(fd, Payload::Bytes(&page.to_bytes()), at).expect("write");
            }
        }
        p.fsync(fd).expect("fsync");
        // The copies in the log, and the file's own blocks, where the next transaction would be.
        for n in 0..3u64 {
            let fd = write_all(&mut p, &format!("/small{n}"), n, 4096).expect("write");
            p.fsync(fd).expect("fsync");
        }
        granary_sim::power_fail();
    };
    let after = move |m: &Mounted| {
        assert_eq!(m.fs.recovery().transactions, 4, "{:?}", m.fs.recovery());
        let mut p = m.process();
        let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("open");
        let mut found = [0; 4096];
        for tid in 0..40 {
            for (i, page) in forged(tid).iter().enumerate() {
                let at = (2 * tid as u64 + i as u64) * 4096;
                assert_eq!(p.pread(fd, Dest::Bytes(&mut found), at).expect("read"), 4096);
                assert_eq!(found, page.to_bytes(), "page of transaction {tid}");
            }
        }
    };
    suite::fail_and_look(&journal(), drive(Bytes::mib(64)), None, before, after);
}

fn journal() -> Subject {
    let mount = MountOptions { data: DataMode::Journal, ..MountOptions::default() };
    Subject { mount, ..Subject::default() }
}

/// The log of a data journal has gone round over pages that are whole transactions, of numbers yet to come:
/// what is left of earlier laps stands behind the last transaction, where recovery looks for the next. Taken
/// for one, it would put garbage over the superblock.
#[test]
fn forged_records_of_earlier_laps_are_not_replayed() {
    for more in 1..=3u64 {
        let mkfs = MkfsOptions { journal_size: Some(Bytes::mib(4)), ..MkfsOptions::default() };
        let before = move |m: &Mounted| {
            let mut p = m.process();
            let fd = p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
            let tag = Tag { home: 0, what: Structure::Superblock, escaped: false };
            let forged = [descriptor(1 << 20, &[tag]), Page::word(5), commit(1 << 20, 1, 0)];
            for _ in 0..30 {
                for i in 0..90 {
                    let page = forged[i as usize % 3].to_bytes();
                    p.pwrite(fd, Payload::Bytes(&page), i * 4096).expect("write");
                }
                p.fsync(fd).expect("fsync");
            }
            // Where the log ends decides which of the three comes next.
            p.pwrite(fd, Payload::Fill { word: 77, len: more as usize * 4096 }, 0).expect("write");
            p.fsync(fd).expect("fsync");
            granary_sim::power_fail();
        };
        let after = move |m: &Mounted| {
            let mut p = m.process();
            let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("open");
            let mut found = vec![0; more as usize * 4096];
            assert_eq!(p.pread(fd, Dest::Bytes(&mut found), 0).expect("read"), found.len());
            assert!(found.chunks(8).all(|c| c == 77u64.to_le_bytes()), "an older content is back");
        };
        suite::fail_and_look(&Subject { mkfs, ..journal() }, drive(Bytes::mib(64)), None, before, after);
    }
}

/// A data journal has no revoke records: a block that is freed and given to another file (or to a directory)
/// is journalled again, and reserved blocks are unwritten, so that replay never brings back what they held.
#[test]
fn replay_brings_nothing_back_into_reused_blocks() {
    let before = |m: &Mounted| {
        let mut p = m.process();
        let all = p.open("/all", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
        let mut at = 0;
        while p.pwrite(all, Payload::Fill { word: 9, len: 4096 }, at).is_ok() {
            at += 4096;
        }
        p.fsync(all).expect("fsync");
        p.ftruncate(all, at - 40 * 4096).expect("truncate");
        p.fsync(all).expect("fsync");
        let new = write_all(&mut p, "/new", 6, 8 * 4096).expect("write");
        p.fallocate(new, Allocate::Reserve { keep_size: false }, 8 * 4096, 16 * 4096).expect("reserve");
        p.pwrite(new, Payload::Fill { word: 7, len: 4096 }, 10 * 4096).expect("write");
        p.mkdir("/d", 0o755).expect("mkdir");
        p.fsync(new).expect("fsync");
        granary_sim::power_fail();
    };
    let after = |m: &Mounted| {
        let r = m.fs.recovery();
        assert!(!r.clean && r.revoked == 0 && r.blocks > 0, "{r:?}");
        let mut p = m.process();
        let fd = p.open("/new", OpenFlags::RDONLY, 0).expect("open");
        let mut content = vec![1; 24 * 4096];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut content), 0).expect("read"), content.len());
        for (i, page) in content.chunks(4096).enumerate() {
            let word: u64 = match i {
                0..8 => 6,
                10 => 7,
                _ => 0,
            };
            assert!(page.chunks(8).all(|c| c == word.to_le_bytes()), "page {i}: {:?}", &page[..8]);
        }
        assert_eq!(p.list("/d").expect("list").len(), 2);
    };
    suite::fail_and_look(&journal(), drive(Bytes::mib(64)), None, before, after);
}

/// With a data journal fsync writes nothing home and sends one flush; O_DIRECT goes through the journal, too.
#[test]
fn journalled_data_is_written_once_until_the_checkpoint() {
    let world = |flags: OpenFlags| {
        let before = move |m: &Mounted| {
            let mut p = m.process();
            let fd = p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR | flags, 0o644).expect("create");
            p.fsync(fd).expect("fsync");
            let (from, stats) = (m.drive.traffic(), m.fs.journal_stats());
            p.pwrite(fd, Payload::Fill { word: 3, len: 8 * 4096 }, 0).expect("write");
            p.fsync(fd).expect("fsync");
            let moved = m.drive.traffic().since(&from).block_write;
            assert_eq!(moved[Structure::Data as usize], 0);
            // Descriptor, 8 pages, bitmap, group descriptor, inode, commit block.
            assert_eq!(moved[Structure::Journal as usize], 13 * 4096);
            let now = m.fs.journal_stats();
            assert_eq!((now.flushes - stats.flushes, now.fua_writes - stats.fua_writes), (1, 1));
            p.sync().expect("sync");
            assert_eq!(m.drive.traffic().since(&from).block_write[Structure::Data as usize], 8 * 4096);
            granary_sim::power_fail();
        };
        suite::fail_and_look(&journal(), drive(Bytes::mib(64)), None, before, |_| {});
    };
    world(OpenFlags::empty());
    world(OpenFlags::DIRECT);
}

/// Revocation: a directory's block is in the log when it is freed and given to a file; replay must not put
/// the directory back over the file's data.
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

/// The data of a directory is its entries: SQLite removes its journal and then calls fdatasync on the
/// directory.
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
