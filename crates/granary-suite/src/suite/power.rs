//! Power failures at random instants: what fsync promised is there, everything is sound, work goes on.

use super::{Mounted, Subject, drive, port, run};
use granary_device::Drive;
use granary_fs::{FsError, Result};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, now, sleep_until, spawn};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::Process;
use granary_vfs::VfsConfig;
use granary_vfs::{Fd, OpenFlags, Posix};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A client's knowledge of one path: the last state that was fsynced, and whether something was begun since.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Content word and length, or absent.
    durable: Option<(u64, usize)>,
    /// The client has begun to change it after that.
    touched: bool,
}

type Ledger = Arc<Mutex<BTreeMap<String, Known>>>;

/// Writes a file anew: `len` bytes of a repeated word.
///
/// # Errors
/// The file system's.
pub fn write_all(p: &mut Process, path: &str, word: u64, len: usize) -> Result<Fd> {
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
        // In any case no data of others may show: words carry their client's number.
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

/// A small page cache that writes back soon.
fn cached() -> VfsConfig {
    VfsConfig {
        page_cache: Bytes::mib(2),
        dirty_expire: Nanos::from_millis(4),
        writeback_interval: Nanos::from_millis(1),
        inodes: 20,
        ..VfsConfig::default()
    }
}

/// Recovers at `at`, when the drive is up, checks, verifies, and works on until `until`.
fn life<S: Subject>(
    subject: &S,
    drive: &Arc<dyn Drive>,
    ledger: &Ledger,
    seed: u64,
    (at, until): (Nanos, Nanos),
) -> (Stop, Option<S::Recovery>) {
    let config =
        WorldConfig { power_fail_at: Some(until), jitter: Nanos(200), seed, ..WorldConfig::default() };
    let (subject, drive, ledger) = (subject.clone(), drive.clone(), ledger.clone());
    let report: Arc<Mutex<Option<S::Recovery>>> = Arc::default();
    let out = report.clone();
    let result = World::new(config).run(move || {
        sleep_until(at);
        let m = Mounted::with(&subject, &drive, cached());
        *out.lock() = Some(m.recovery());
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

/// For each seed a drive that loses its power four times under six clients; returns what the mounts
/// recovered.
pub fn what_was_fsynced_survives_power_failures<S: Subject>(subject: &S, seeds: u64) -> Vec<S::Recovery> {
    let mut recovered = Vec::new();
    for seed in 0..seeds {
        let drive = drive(Bytes::mib(256));
        let ledger = Ledger::default();
        {
            let (subject, drive) = (subject.clone(), drive.clone());
            run(move || subject.mkfs(&port(&drive)).expect("mkfs"));
        }
        drive.track_in_flight(true);
        let mut random = Stream::new(seed, "power");
        let mut at = Nanos::from_secs(1);
        for lives in 0..4 {
            let ready = drive.power_on(at).expect("power on");
            // Many short lives see more failures than few long ones; the shortest also cut recovery itself.
            let span = match lives {
                2 => random.below(5_000_000),
                _ => 10_000_000 + random.below(150_000_000),
            };
            let until = ready + Nanos(span);
            let (stop, report) = life(subject, &drive, &ledger, seed * 10 + lives, (ready, until));
            assert!(matches!(stop, Stop::PowerFail(_)), "seed {seed}: {stop}");
            drive.power_fail(until, &mut random);
            at = until + Nanos::from_millis(1);
            recovered.extend(report);
        }
    }
    recovered
}

/// Runs `before` on a fresh file system and lets the power fail at `at` (or where `before` says); then
/// `after` on what recovery made of it.
pub fn fail_and_look<S: Subject>(
    subject: &S,
    drive: Arc<dyn Drive>,
    at: Option<Nanos>,
    before: impl FnOnce(&Mounted<S>) + 'static,
    after: impl FnOnce(&Mounted<S>) + 'static,
) {
    let (d, s) = (drive.clone(), subject.clone());
    let config = WorldConfig { power_fail_at: at, ..WorldConfig::default() };
    let stopped = World::new(config).run(move || {
        let m = Mounted::fresh(&s, &d);
        d.track_in_flight(true);
        before(&m);
    });
    let Err(Stop::PowerFail(t)) = stopped else { panic!("the power failed: {stopped:?}") };
    drive.power_fail(t, &mut Stream::new(t.0, "power"));
    let subject = subject.clone();
    run(move || {
        sleep_until(t);
        sleep_until(drive.power_on(now()).expect("power on"));
        let m = Mounted::again(&subject, &drive);
        after(&m);
        m.check();
    });
}

/// 300 files, each synced when it was made, and the power fails: all are there. `looked` is shown what
/// recovery did.
pub fn a_power_failure_right_after_fsync_loses_nothing<S: Subject>(
    subject: &S,
    looked: impl FnOnce(&S::Recovery) + 'static,
) {
    let before = |m: &Mounted<S>| {
        let mut p = m.process();
        p.mkdir("/d", 0o755).expect("mkdir");
        for i in 0..300 {
            let fd = write_all(&mut p, &format!("/d/{i}"), i, 4096).expect("write");
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("close");
        }
        granary_sim::power_fail();
    };
    let after = move |m: &Mounted<S>| {
        looked(&m.recovery());
        let mut p = m.process();
        for i in 0..300u64 {
            let fd = p.open(format!("/d/{i}"), OpenFlags::RDONLY, 0).expect("open");
            let mut buf = [0; 8];
            assert_eq!(p.pread(fd, Dest::Bytes(&mut buf), 4088).expect("read"), 8);
            assert_eq!(u64::from_le_bytes(buf), i);
            p.close(fd).expect("close");
        }
    };
    fail_and_look(subject, drive(Bytes::gib(1)), None, before, after);
}
