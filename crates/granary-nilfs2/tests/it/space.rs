//! Space, size and number: full file systems, large directories, large files.

use crate::common::{Mounted, Subject, promising};
use granary_fs::{Call, FsError, Space as _};
use granary_nilfs2::MountOptions;
use granary_sim::sleep;
use granary_suite::suite::{create, drive, fill, run};
use granary_units::{Bytes, Dest, Nanos};
use granary_vfs::{Posix, Process};

/// A file takes what statfs offers; what one unlink gives back can be written again; a full file system can
/// be written over for ever.
#[test]
fn no_space_comes_when_nothing_is_left() {
    run(|| {
        let m = Mounted::fresh(&promising(), &drive(Bytes::mib(64)));
        let mut p = m.process();
        let small = create(&mut p, "/small");
        p.pwrite(small, fill(7, 100 * 4096), 0).expect("write");
        p.fsync(small).expect("fsync");
        p.close(small).expect("close");
        let fd = create(&mut p, "/all");
        let stat = p.statfs().expect("statfs");
        let mut written = 0;
        let error = loop {
            match p.pwrite(fd, fill(written + 1, 4096), written * 4096) {
                Ok(_) => written += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(error, FsError::NoSpace);
        assert!(written >= stat.available_blocks() && written <= stat.free_blocks, "{written} of {stat:?}");
        p.fsync(fd).expect("everything promised can be written");
        p.unlink("/small").expect("unlink on a full file system");
        for i in 0..50 {
            p.pwrite(fd, fill(written + i + 1, 4096), (written + i) * 4096).expect("there is space again");
        }
        p.fsync(fd).expect("fsync");
        m.check();
        for round in 0..4u64 {
            for i in (0..written).step_by(3) {
                p.pwrite(fd, fill(round + 100_000, 4096), i * 4096).expect("overwrite");
            }
            p.sync().expect("sync");
        }
        assert!(m.fs.stats().cleaned > 0);
        for i in 0..written {
            let mut buf = [0; 8];
            p.pread(fd, Dest::Bytes(&mut buf), i * 4096).expect("read");
            let expected = if i % 3 == 0 { 100_003 } else { i + 1 };
            assert_eq!(u64::from_le_bytes(buf), expected, "block {i}");
        }
        p.close(fd).expect("close");
        m.check();
        p.unlink("/all").expect("unlink");
        p.mkdir("/yes", 0o755).expect("mkdir");
        m.check();
    });
}

/// Dead but protected blocks are not offered until their time is over. All offered blocks can be written.
#[test]
fn statfs_does_not_offer_what_the_protection_period_keeps() {
    run(|| {
        let hour = Nanos::from_secs(3600);
        let mount = MountOptions { protection_period: hour, ..promising().mount };
        let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive(Bytes::mib(48)));
        let mut p = m.process();
        let offered = |p: &mut Process| p.statfs().expect("statfs").available_blocks();
        let write = |p: &mut Process, path: &str, blocks: u64| {
            let fd = create(p, path);
            let written = (0..blocks).try_for_each(|i| p.pwrite(fd, fill(i + 1, 4096), i * 4096).map(drop));
            let synced = p.fsync(fd);
            p.close(fd).expect("close");
            written.and(synced)
        };
        let all = offered(&mut p);
        let file = all * 2 / 5;
        // Once over, and two fifths are dead: no more than the last fifth can be had.
        for _ in 0..2 {
            write(&mut p, "/again", file).expect("write");
        }
        let left = offered(&mut p);
        assert!(left <= all * 11 / 50 && left > all / 10, "{left} of {all}");
        write(&mut p, "/rest", left).expect("what is offered");
        let why = m.fs.kept_back(&Call::offline()).expect("says").expect("much is kept");
        assert!(why.contains("protection period of 3600 s"), "{why}");
        let nothing = offered(&mut p);
        assert!(nothing <= all / 50, "{nothing} of {all}");
        assert_eq!(write(&mut p, "/again", file), Err(FsError::NoSpace));
        m.check();
        // The blocks that the failed write left dead are young, too: wait.
        sleep(hour + Nanos::from_secs(60));
        let later = offered(&mut p);
        assert_eq!(m.fs.kept_back(&Call::offline()), Ok(None), "nothing is young any more");
        assert!(later > all * 3 / 10, "{later} of {all}");
        write(&mut p, "/later", later).expect("what is offered");
        m.check();
    });
}

/// `check` compares the counts that were kept up with a walk; here nothing else walks.
#[test]
fn the_cleaner_and_statfs_count_live_blocks_without_a_walk_of_the_dat() {
    run(|| {
        let mount = MountOptions { protection_period: Nanos::from_secs(30), ..promising().mount };
        let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive(Bytes::mib(48)));
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        for round in 0..60u64 {
            for i in (round % 3..1000).step_by(3) {
                p.pwrite(fd, fill(round + 1, 4096), i * 4096).expect("write");
            }
            p.fsync(fd).expect("fsync");
            p.statfs().expect("statfs");
            m.fs.kept_back(&Call::offline()).expect("says");
            sleep(Nanos::from_secs(10));
        }
        p.close(fd).expect("close");
        let stats = m.fs.stats();
        assert!(stats.cleaned > 10, "{stats:?}");
        assert_eq!(stats.dat_walks, 1, "{stats:?}");
        m.check();
    });
}

/// The used inodes of `df -i` are the inodes that there are.
#[test]
fn statfs_counts_the_inodes_that_there_are() {
    run(|| {
        let m = Mounted::fresh(&promising(), &drive(Bytes::mib(24)));
        let mut p = m.process();
        let used = |p: &mut Process| {
            let s = p.statfs().expect("statfs");
            s.inodes - s.free_inodes
        };
        let before = used(&mut p);
        for n in 0..100 {
            let fd = create(&mut p, &format!("/{n}"));
            p.pwrite(fd, fill(n + 1, 40_000), 0).expect("write");
            p.close(fd).expect("close");
        }
        assert_eq!(used(&mut p), before + 100);
        p.sync().expect("sync");
        (0..50).for_each(|n| p.unlink(format!("/{n}")).expect("unlink"));
        p.sync().expect("sync");
        assert_eq!((before, used(&mut p)), (1, 51));
    });
}
