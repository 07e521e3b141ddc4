//! Power failures at random instants: what fsync promised is there, everything is sound, work goes on.

mod common;

use common::late::LateDrive;
use common::{Mounted, drive, port};
use granary_f2fs::{F2fs, InPlace, MkfsOptions, MountOptions, Recovery, mkfs, mount};
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

/// Short timers, so that checkpoints and cleaning are everywhere.
fn options() -> MountOptions {
    MountOptions {
        checkpoint_interval: Nanos::from_millis(15),
        idle_interval: Nanos::from_millis(2),
        gc_sleep: (Nanos::from_millis(2), Nanos::from_millis(4), Nanos::from_millis(8)),
        dirty_nodes: 200,
        in_place: InPlace::Fsync,
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
    for seed in 0..5u64 {
        let drive = drive(Bytes::mib(256));
        let ledger = Ledger::default();
        {
            let drive = drive.clone();
            common::run(move || {
                let o = MkfsOptions { segment_blocks: Some(64), ..MkfsOptions::default() };
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
                recovered.orphans += r.orphans;
                recovered.nodes += r.nodes;
                recovered.files += r.files;
                recovered.names += r.names;
            }
        }
    }
    println!("{recovered:?}");
    let r = recovered;
    assert!(r.nodes > 0 && r.files > 0 && r.names > 0 && r.orphans > 0, "{r:?}");
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

/// A node that points to a new block is written only when the block's data is there, whoever writes it: on a drive
/// that takes its time with data, and no FLUSH in between, others' checkpoints show no data of before.
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
        fail_and_look(late, None, before, after);
    }
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
        let word = |p: &mut Process, path: &str| {
            let fd = p.open(path, OpenFlags::RDONLY, 0).expect("open");
            let mut buf = [0; 8];
            assert_eq!(p.pread(fd, Dest::Bytes(&mut buf), 0).expect("read"), 8);
            p.close(fd).expect("close");
            u64::from_le_bytes(buf)
        };
        assert_eq!((word(&mut p, "/old"), word(&mut p, "/elsewhere")), (6, 5));
    };
    fail_and_look(drive(Bytes::mib(64)), None, before, after);
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
    fail_and_look(drive(Bytes::mib(128)), None, before, after);
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
            // Superblock, checkpoints, tables, the first segments.
            let port = port(&drive);
            for _ in 0..4 {
                let lpa = granary_units::Lpa(random.below(2048));
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
fn look_at(fs: Arc<F2fs>) {
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
        // The first fsync found its directory not in a checkpoint.
        assert!(!r.clean && r.files == 299 && r.names == 299, "{r:?}");
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
