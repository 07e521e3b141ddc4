//! Checkpoints and snapshots: they stay readable through cleaning, and as long as nobody ends them.

use crate::common::{Mounted, Subject, promising};
use granary_fs::{Call, Caller, Cred, FsError, Space, Sweep};
use granary_nilfs2::{MkfsOptions, MountOptions};
use granary_suite::suite::{Subject as _, drive, port, run, write_all};
use granary_units::{Bytes, Dest, Nanos};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};

fn word_of(p: &mut Process, path: &str, pos: u64) -> Result<u64, FsError> {
    let fd = p.open(path, OpenFlags::RDONLY, 0)?;
    let mut word = [0; 8];
    p.pread(fd, Dest::Bytes(&mut word), pos)?;
    p.close(fd)?;
    Ok(u64::from_le_bytes(word))
}

/// Three snapshots of files that are written over, renamed and removed meanwhile; after cleaning whatever can
/// be, each shows what was.
#[test]
fn snapshots_stay_readable_through_cleaning() {
    run(|| {
        let d = drive(Bytes::mib(64));
        let mkfs = MkfsOptions { segment_blocks: Some(64), ..MkfsOptions::default() };
        let subject = Subject { mkfs, ..promising() };
        let m = Mounted::fresh(&subject, &d);
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        let mut snapshots = Vec::new();
        for round in 1..=3u64 {
            for n in 0..20u64 {
                let fd = write_all(&mut p, &format!("/d/{n}"), round * 100 + n, 20_000).expect("write");
                p.close(fd).expect("close");
            }
            if round == 2 {
                p.unlink("/d/7").expect("unlink");
            }
            let cno = m.fs.make_checkpoint().expect("checkpoint");
            m.fs.make_snapshot(cno).expect("snapshot");
            snapshots.push((cno, round));
        }
        for n in 0..20u64 {
            p.unlink(format!("/d/{n}")).expect("unlink");
        }
        // Logs that nobody needs, and cleaning between them.
        for round in 0..6u64 {
            let fd = write_all(&mut p, "/ballast", round, 4 << 20).expect("write");
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
            let swept = m.fs.sweep(&Call::offline(), &Sweep { protection: Nanos::ZERO }).expect("sweep");
            assert!(round == 0 || swept.segments > 0);
        }
        assert!(m.fs.stats().copied > 100, "{:?}", m.fs.stats());
        m.check();
        let kept: Vec<u64> =
            m.fs.checkpoints().expect("list").iter().filter(|c| c.snapshot).map(|c| c.number).collect();
        assert_eq!(kept, snapshots.iter().map(|(cno, _)| *cno).collect::<Vec<_>>());
        p.exit();
        m.unmount();
        for (cno, round) in &snapshots {
            let mount = MountOptions { cp: Some(*cno), ..MountOptions::default() };
            let fs = Subject { mount, ..Subject::default() }.mount(port(&d)).expect("mounts");
            let vfs = Vfs::mount(fs, VfsConfig { read_only: true, ..VfsConfig::default() }).expect("vfs");
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            for n in 0..20u64 {
                let found = word_of(&mut p, &format!("/d/{n}"), 16_384);
                let gone = *round == 2 && n == 7;
                assert_eq!(
                    found,
                    if gone { Err(FsError::NoEntry) } else { Ok(round * 100 + n) },
                    "snapshot {cno}"
                );
            }
            assert_eq!(p.mkdir("/no", 0o755), Err(FsError::ReadOnly));
            let fd = p.open("/d/1", OpenFlags::RDONLY, 0).expect("open");
            p.close(fd).expect("close");
            p.exit();
            vfs.unmount().expect("unmount");
        }
        // Ended, its blocks go; one that is none cannot be mounted.
        let m = Mounted::again(&subject, &d);
        let (first, _) = snapshots[0];
        assert_eq!(m.fs.remove_checkpoint(first), Err(FsError::Busy));
        m.fs.remove_snapshot(first).expect("it is one");
        m.fs.sweep(&Call::offline(), &Sweep { protection: Nanos::ZERO }).expect("sweep");
        m.vfs.sync(&Caller::KERNEL).expect("sync");
        m.check();
        m.unmount();
        let gone = Subject {
            mount: MountOptions { cp: Some(first), ..MountOptions::default() },
            ..Subject::default()
        };
        assert!(matches!(gone.mount(port(&d)), Err(FsError::Mismatch(_))));
    });
}

/// Young checkpoints are not cleaned away: within the protection period each can become a snapshot.
#[test]
fn young_checkpoints_are_protected() {
    run(|| {
        let d = drive(Bytes::mib(64));
        let mount = MountOptions { protection_period: Nanos::from_secs(100), ..promising().mount };
        let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &d);
        let mut p = m.process();
        let fd = write_all(&mut p, "/f", 1, 1 << 20).expect("write");
        let old = m.fs.make_checkpoint().expect("checkpoint");
        p.pwrite(fd, granary_units::Payload::Fill { word: 2, len: 1 << 20 }, 0).expect("write");
        p.fsync(fd).expect("fsync");
        let sweep = |seconds| {
            let sweep = Sweep { protection: Nanos::from_secs(seconds) };
            m.fs.sweep(&Call::offline(), &sweep).expect("sweep").segments
        };
        assert_eq!(sweep(100), 0, "nothing is old enough");
        granary_sim::sleep(Nanos::from_secs(50));
        m.fs.make_snapshot(old).expect("it is still there");
        m.fs.remove_snapshot(old).expect("it is one");
        granary_sim::sleep(Nanos::from_secs(60));
        assert!(sweep(100) > 0, "now it is");
        assert_eq!(m.fs.make_snapshot(old), Err(FsError::NoEntry));
        p.close(fd).expect("close");
        m.check();
    });
}

/// Thousands of checkpoints come and go, and two snapshots between them stay: the cpfile keeps the blocks of
/// those that there are, and the next mounts find them.
#[test]
fn checkpoints_that_are_gone_give_their_blocks_back() {
    run(|| {
        let d = drive(Bytes::mib(24));
        let subject = promising();
        let m = Mounted::fresh(&subject, &d);
        let mut p = m.process();
        let used = |p: &mut Process| {
            let s = p.statfs().expect("statfs");
            s.blocks - s.free_blocks
        };
        p.sync().expect("sync");
        let before = used(&mut p);
        let fd = write_all(&mut p, "/f", 1, 16 * 4096).expect("write");
        let mut snapshots = Vec::new();
        for round in 0..6_000u64 {
            p.pwrite(fd, granary_units::Payload::Fill { word: round, len: 100 }, round % 16 * 4096)
                .expect("write");
            p.fsync(fd).expect("fsync");
            if round % 2_500 == 1_000 {
                let cno = m.fs.make_checkpoint().expect("checkpoint");
                m.fs.make_snapshot(cno).expect("snapshot");
                snapshots.push(cno);
            }
        }
        p.close(fd).expect("close");
        p.unlink("/f").expect("unlink");
        p.sync().expect("sync");
        let sweep = |m: &Mounted| {
            m.fs.sweep(&Call::offline(), &Sweep { protection: Nanos::ZERO }).expect("sweep");
        };
        sweep(&m);
        m.check();
        let listed = |m: &Mounted| -> Vec<u64> {
            let all = m.fs.checkpoints().expect("list");
            all.iter().filter(|c| c.snapshot).map(|c| c.number).collect()
        };
        assert_eq!(listed(&m), snapshots);
        // DAT has grown meanwhile; 6,000 checkpoints have 286 blocks.
        let after = used(&mut p);
        assert!(after <= before + 100, "{after} blocks are in use, {before} were");
        p.exit();
        let m = m.remounted();
        assert_eq!(listed(&m), snapshots);
        for cno in snapshots {
            m.fs.remove_snapshot(cno).expect("a checkpoint again");
            m.fs.remove_checkpoint(cno).expect("gone");
        }
        sweep(&m);
        assert_eq!(listed(&m), Vec::<u64>::new());
        m.check();
        m.remounted().check();
    });
}
