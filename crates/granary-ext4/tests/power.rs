//! Power failures at random instants: what fsync promised is there, everything is sound, work goes on.

mod common;

use common::late::LateDrive;
use common::{Mounted, drive, port};
use granary_ext4::{Ext4, MkfsOptions, MountOptions, Recovery, mkfs, mount};
use granary_mssd::Drive;
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, now, sleep_until, spawn};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{FsError, OpenFlags, Posix, Process, VfsConfig};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a client knows of one path: the last state that was fsynced, and whether something was begun since.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Content word and length, or absent.
    durable: Option<(u64, usize)>,
    /// The client has begun to change it after that.
    touched: bool,
}

type Ledger = Arc<Mutex<BTreeMap<String, Known>>>;

fn write_all(p: &mut Process, path: &str, word: u64, len: usize) -> Result<granary_vfs::Fd, FsError> {
    let fd = p.open(path, OpenFlags::CREAT | OpenFlags::RDWR | OpenFlags::TRUNC, 0o644)?;
    p.pwrite(fd, Payload::Fill { word, len }, 0)?;
    Ok(fd)
}

/// One client: creates, fsyncs, renames over, removes and truncates files of its own for ever.
fn client(p: &mut Process, id: u64, seed: u64, ledger: &Ledger) {
    let mut random = Stream::new(seed, &format!("client {id}"));
    let dir = format!("/c{id}");
    match p.mkdir(&dir, 0o755) {
        Ok(()) | Err(FsError::Exists) => {}
        Err(e) => panic!("mkdir: {e}"),
    }
    let begin = |path: &str| ledger.lock().entry(path.to_owned()).or_default().touched = true;
    let done = |path: &str, durable| {
        ledger.lock().insert(path.to_owned(), Known { durable, touched: false });
    };
    let mut word = seed << 32 | id << 24;
    loop {
        word += 1;
        let path = format!("{dir}/{}", random.below(12));
        let len = [0, 100, 4096, 5000, 70_000, 400_000][random.below(6) as usize];
        match random.below(8) {
            0..=2 => {
                begin(&path);
                let fd = write_all(p, &path, word, len).expect("write");
                p.fsync(fd).expect("fsync");
                p.close(fd).expect("close");
                done(&path, Some((word, len)));
            }
            // The way editors save: a new file renamed over the old one.
            3 => {
                let temporary = format!("{dir}/tmp");
                begin(&path);
                begin(&temporary);
                let fd = write_all(p, &temporary, word, len).expect("write");
                p.fsync(fd).expect("fsync");
                p.close(fd).expect("close");
                p.rename(&temporary, &path).expect("rename");
                let fd = p.open(&path, OpenFlags::RDONLY, 0).expect("open");
                p.fsync(fd).expect("fsync");
                p.close(fd).expect("close");
                done(&path, Some((word, len)));
                done(&temporary, None);
            }
            4 => {
                begin(&path);
                match p.unlink(&path) {
                    Ok(()) | Err(FsError::NoEntry) => {}
                    Err(e) => panic!("unlink: {e}"),
                }
                let fd = p.open(&dir, OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0).expect("open");
                p.fsync(fd).expect("fsync");
                p.close(fd).expect("close");
                done(&path, None);
            }
            // Unlinked while open: an orphan until it is closed.
            5 => {
                let fd = write_all(p, &format!("{dir}/gone"), word, len).expect("write");
                p.unlink(format!("{dir}/gone")).expect("unlink");
                p.pwrite(fd, Payload::Fill { word, len: 9000 }, len as u64).expect("write");
                if random.chance(0.5) {
                    p.fsync(fd).expect("fsync");
                }
                p.close(fd).expect("close");
            }
            // Directories come and go: freed metadata blocks are used again for data.
            6 => {
                let sub = format!("{dir}/sub{}", random.below(4));
                if p.mkdir(&sub, 0o700) == Err(FsError::Exists) {
                    p.rmdir(&sub).expect("rmdir");
                }
            }
            _ => {
                begin(&path);
                if let Ok(fd) = p.open(&path, OpenFlags::RDWR | OpenFlags::DIRECT, 0) {
                    let size = p.fstat(fd).expect("stat").attr.size;
                    p.pwrite(fd, Payload::Fill { word: 7, len: 8192 }, size.next_multiple_of(4096))
                        .expect("write");
                    p.ftruncate(fd, 0).expect("truncate");
                    p.pwrite(fd, Payload::Fill { word, len: 5000 }, 0).expect("write");
                    p.fsync(fd).expect("fsync");
                    p.close(fd).expect("close");
                    done(&path, Some((word, 5000)));
                }
            }
        }
    }
}

fn verify(p: &mut Process, ledger: &Ledger) {
    for (path, known) in &*ledger.lock() {
        let found = match p.open(path, OpenFlags::RDONLY, 0) {
            Ok(fd) => {
                let size = p.fstat(fd).expect("stat").attr.size as usize;
                let mut content = vec![0; size];
                assert_eq!(p.pread(fd, Dest::Bytes(&mut content), 0).expect("read"), size);
                p.close(fd).expect("close");
                Some(content)
            }
            Err(FsError::NoEntry) => None,
            Err(e) => panic!("{path}: {e}"),
        };
        // Whatever became of it, no data of others may show: words carry their client's number.
        let id = path[2..].split('/').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        for word in found.iter().flat_map(|c| c.chunks_exact(8)) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            assert!(word == 0 || word == 7 || word >> 24 & 0xff == id, "{path} shows {word:#x}");
        }
        if known.touched {
            continue;
        }
        let expected = known.durable.map(|(word, len)| {
            let mut content = vec![0; len];
            Payload::Fill { word, len }.copy_to(0, &mut content);
            content
        });
        assert!(
            found == expected,
            "{path}: {:?} bytes where {:?} were fsynced",
            found.map(|c| c.len()),
            expected.map(|c| c.len())
        );
    }
}

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

fn cached() -> VfsConfig {
    VfsConfig {
        page_cache: Bytes::mib(2),
        dirty_expire: Nanos::from_millis(4),
        writeback_interval: Nanos::from_millis(1),
        inodes: 20,
        ..VfsConfig::default()
    }
}

/// Powers the drive up at `at`, recovers, checks, verifies, and works on until `until`.
fn life(
    drive: &Arc<dyn Drive>,
    ledger: &Ledger,
    seed: u64,
    at: Nanos,
    until: Nanos,
) -> (Stop, Option<Recovery>) {
    let config =
        WorldConfig { power_fail_at: Some(until), jitter: Nanos(200), seed, ..WorldConfig::default() };
    let (drive, ledger) = (drive.clone(), ledger.clone());
    let report: Arc<Mutex<Option<Recovery>>> = Arc::default();
    let out = report.clone();
    let result = World::new(config).run(move || {
        sleep_until(at);
        sleep_until(drive.power_on(now()).expect("power on"));
        let m = Mounted::with(&drive, &options(), cached());
        *out.lock() = Some(m.fs.recovery());
        m.check();
        verify(&mut m.process(), &ledger);
        let tasks: Vec<_> = (0..6)
            .map(|id| {
                let (mut p, ledger) = (m.process(), ledger.clone());
                spawn("client", move || client(&mut p, id, seed, &ledger))
            })
            .collect();
        tasks.into_iter().for_each(|t| t.join());
    });
    (result.expect_err("clients never end"), *report.lock())
}

#[test]
fn what_was_fsynced_survives_power_failures_at_any_instant() {
    let mut recovered = Recovery::default();
    for seed in 0..8u64 {
        let drive = drive(Bytes::mib(256));
        let ledger = Ledger::default();
        {
            let drive = drive.clone();
            common::run(move || {
                let o = MkfsOptions { journal_size: Some(Bytes::mib(4)), ..MkfsOptions::default() };
                mkfs(&port(&drive), &o).expect("mkfs");
            });
        }
        drive.track_in_flight(true);
        let mut random = Stream::new(seed, "power");
        let mut at = Nanos::from_secs(1);
        for lives in 0..4 {
            // Power-up and recovery take about a second; short lives also cut recovery itself.
            let span = if lives == 2 {
                900_000_000 + random.below(5_000_000)
            } else {
                1_000_000_000 + random.below(60_000_000)
            };
            let until = at + Nanos(span);
            let (stop, report) = life(&drive, &ledger, seed * 10 + lives, at, until);
            assert!(matches!(stop, Stop::PowerFail(_)), "seed {seed}: {stop}");
            drive.power_fail(until, &mut random);
            at = until + Nanos::from_millis(1);
            if let Some(r) = report {
                recovered.transactions += r.transactions;
                recovered.blocks += r.blocks;
                recovered.revoked += r.revoked;
                recovered.orphans_freed += r.orphans_freed;
                recovered.orphans_cut += r.orphans_cut;
            }
        }
    }
    println!("{recovered:?}");
    let r = recovered;
    assert!(r.transactions > 0 && r.blocks > 0 && r.revoked > 0 && r.orphans_freed > 0, "{r:?}");
}

/// Runs `before` on a fresh file system and lets the power fail at `at` (or where `before` says); then `after` on what
/// recovery made of it.
fn fail_and_look(
    drive: Arc<dyn Drive>,
    at: Option<Nanos>,
    before: impl FnOnce(&Mounted) + 'static,
    after: impl FnOnce(&Mounted) + 'static,
) {
    let d = drive.clone();
    let config = WorldConfig { power_fail_at: at, ..WorldConfig::default() };
    let stopped = World::new(config).run(move || {
        let m = Mounted::fresh(&d);
        d.track_in_flight(true);
        before(&m);
    });
    let Err(Stop::PowerFail(t)) = stopped else { panic!("the power failed: {stopped:?}") };
    drive.power_fail(t, &mut Stream::new(t.0, "power"));
    common::run(move || {
        sleep_until(t);
        sleep_until(drive.power_on(now()).expect("power on"));
        let m = Mounted::again(&drive);
        after(&m);
        m.check();
    });
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
        fail_and_look(Arc::new(LateDrive::new(Bytes::mib(64))), Some(at), before, after);
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
    fail_and_look(drive(Bytes::mib(64)), None, before, after);
}

/// An image that was cut or scribbled over is refused or reported, never a panic.
#[test]
fn scribbled_images_are_refused_or_reported() {
    for seed in 0..40u64 {
        common::run(move || {
            let drive = drive(Bytes::mib(64));
            let m = Mounted::fresh(&drive);
            let mut p = m.process();
            p.mkdir("/d", 0o755).expect("mkdir");
            for i in 0..200 {
                let fd =
                    write_all(&mut p, &format!("/d/some.name.of.some.length.{i}"), i, 5000).expect("write");
                p.close(fd).expect("close");
            }
            drop(p);
            m.unmount();
            let mut random = Stream::new(seed, "scribble");
            // Metadata of the first group, where most of it lies.
            let port = port(&drive);
            for _ in 0..4 {
                let lpa = granary_units::Lpa(random.below(700));
                let mut page = [granary_units::Page::ZERO];
                port.read(lpa, &mut page, granary_mssd::Structure::Data).expect("read");
                for _ in 0..8 {
                    page[0].bytes_mut()[random.below(4096) as usize] = random.next_u64() as u8;
                }
                port.write(lpa, &page, granary_mssd::Structure::Data).expect("write");
            }
            let Ok(fs) = mount(port, &MountOptions::default()) else { return };
            look_at(fs);
        });
    }
}

/// Everything that reads; errors are fine.
fn look_at(fs: Arc<Ext4>) {
    use granary_vfs::FileSystem;
    let _ = fs.check();
    let Ok(vfs) = granary_vfs::Vfs::mount(fs, VfsConfig::default()) else { return };
    let mut p = Process::new(vfs, granary_vfs::Cred::ROOT);
    let _ = granary_vfs::model::snapshot(&mut p);
    let _ = p.mkdir("/new", 0o755);
    for i in 0..200 {
        let _ = p.unlink(format!("/d/some.name.of.some.length.{i}"));
    }
    let _ = p.sync();
}

/// A journal that is never emptied by a sync is replayed whole.
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
    fail_and_look(drive(Bytes::gib(1)), None, before, after);
}

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
    fail_and_look(drive(Bytes::gib(1)), None, before, after);
}
