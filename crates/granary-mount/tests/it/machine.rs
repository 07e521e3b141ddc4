//! The machine crashes under a mount with machine durability. It leaves the image's files with their synced
//! bytes (and any of the others), and everything that was acknowledged is in them.
//!
//! ```text
//!   threads: create, write, fsync ─> told    a log appended to and fdatasynced ─> told
//!            rename, fsync(dir) ─> told
//!   the test, at random moments: takes what was told, then a copy of the files
//!            ─> opens it: recovery, check, all there
//! ```

use super::image;
use super::rig::{eventually, possible, systems};
use granary_fs::{Caller, Cred};
use granary_image::host::memory::MemoryHost;
use granary_image::{Durability, Image};
use granary_mount::Options;
use granary_sim::rng::Stream;
use granary_testbed::registry::FsEntry;
use granary_units::Dest;
use granary_vfs::{OpenFlags, Posix, Process, Vfs};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Threads that write, each in a directory of its own.
const WRITERS: usize = 4;
/// Mails of a writer that exist at once.
const KEPT: u64 = 12;
const RECORD: usize = 100;

/// Promises to a writer: so many mails, records of its log, and moves of its file are durable.
#[derive(Default)]
struct Told {
    mails: AtomicU64,
    records: AtomicU64,
    moves: AtomicU64,
}

/// [`Told`] at one moment.
#[derive(Clone, Copy, Debug)]
struct Promise {
    mails: u64,
    records: u64,
    moves: u64,
}

impl Told {
    fn now(&self) -> Promise {
        Promise {
            mails: self.mails.load(SeqCst),
            records: self.records.load(SeqCst),
            moves: self.moves.load(SeqCst),
        }
    }
}

/// Copies taken of each file system: `GRANARY_COPIES`, or one.
fn copies() -> u64 {
    std::env::var("GRANARY_COPIES").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[test]
fn a_copy_of_the_synced_bytes_holds_everything_acknowledged() {
    if !possible() {
        return;
    }
    systems().for_each(explore);
}

fn explore(entry: &'static FsEntry) {
    let host = image::create(entry, None);
    let (image, vfs) = open(&host, entry, true);
    image.barrier().expect("what mkfs made is safe");
    let image = Arc::new(image);
    let barrier = image.clone();
    let hook = move |told: granary_mount::Told| {
        barrier.barrier_then(move |safe| told(safe.map_err(|e| std::io::Error::other(e.to_string()))));
    };
    let options = Options { durable: Some(Arc::new(hook)), ..Options::default() };
    let dir = tempfile::tempdir().expect("a directory");
    let mounted = granary_mount::mount(vfs, dir.path(), &options).expect("mounts");
    let (stop, told) = (AtomicBool::new(false), [(); WRITERS].map(|()| Told::default()));
    let mut random = Stream::new(1, entry.name);
    let mut wrong = Vec::new();
    std::thread::scope(|s| {
        // Also where a check panics: the scope waits for the writers.
        let _end = Stop(&stop);
        for (w, told) in told.iter().enumerate() {
            let (stop, home) = (&stop, dir.path().join(format!("w{w}")));
            s.spawn(move || write(&home, w, told, stop));
        }
        for copy in 0..copies() {
            for _ in 0..1 + random.below(40) {
                super::rig::pause();
            }
            let before = told.each_ref().map(Told::now);
            let left = host.after_machine_crash([512, 4096][random.below(2) as usize], &mut random);
            let after = told.each_ref().map(Told::now);
            if let Err(what) = verify(&left, entry, &before, &after) {
                wrong.push(format!("{}, copy {copy}: {what}", entry.name));
            }
        }
        eventually(|| told.iter().all(|t| t.now().moves > 0));
    });
    for told in &told {
        assert!(told.now().moves > 0, "{}: {:?}", entry.name, told.now());
    }
    // A child that another test has forked holds our open files until it executes its program.
    let unmounter = mounted.unmounter();
    assert!(eventually(|| unmounter.unmount(false).is_ok()), "unmounts");
    mounted.join().expect("ends cleanly");
    drop(options);
    Arc::into_inner(image).expect("nobody else has it").close().expect("closed");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Ends the writers.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Opens the image with machine durability, and its file system, which is made first where `new`.
fn open(host: &MemoryHost, entry: &FsEntry, new: bool) -> (Image, Arc<Vfs>) {
    let (image, devices) = image::open(host, Durability::Machine);
    (image, image::vfs_on(devices, entry, new))
}

/// Writes until told to stop; durable writes are told after the call that promised them.
fn write(home: &Path, w: usize, told: &Told, stop: &AtomicBool) {
    fs::create_dir(home).expect("mkdir");
    let mut log = File::create(home.join("log")).expect("create");
    for n in 0.. {
        if stop.load(SeqCst) {
            return;
        }
        let mut f = File::create(home.join(format!("mail{n}"))).expect("create");
        let mail = mail(w, n);
        f.write_all(&mail[..mail.len() / 2]).expect("write");
        f.sync_all().expect("fsync");
        f.write_all(&mail[mail.len() / 2..]).expect("write");
        f.sync_all().expect("fsync");
        told.mails.store(n + 1, SeqCst);
        if n >= KEPT {
            fs::remove_file(home.join(format!("mail{}", n - KEPT))).expect("unlink");
        }
        log.write_all(&record(w, n)).expect("append");
        log.sync_data().expect("fdatasync");
        told.records.store(n + 1, SeqCst);
        let mut f = File::create(home.join("new")).expect("create");
        f.write_all(&n.to_le_bytes()).expect("write");
        f.sync_all().expect("fsync");
        fs::rename(home.join("new"), home.join("current")).expect("rename");
        File::open(home).expect("open").sync_all().expect("fsync of the directory");
        told.moves.store(n + 1, SeqCst);
    }
}

fn mail(w: usize, n: u64) -> Vec<u8> {
    let mut random = Stream::new(n, ["w0", "w1", "w2", "w3"][w]);
    let len = 1 + random.below(20_000) as usize;
    (0..len).map(|_| random.next_u64() as u8).collect()
}

fn record(w: usize, n: u64) -> [u8; RECORD] {
    let mut record = [w as u8 + 1; RECORD];
    record[..8].copy_from_slice(&n.to_le_bytes());
    record
}

/// Opens a copy: it recovers, is in order, and holds what was told `before` the copy and not undone by the
/// time `after`.
fn verify(
    left: &MemoryHost,
    entry: &FsEntry,
    before: &[Promise; WRITERS],
    after: &[Promise; WRITERS],
) -> Result<(), String> {
    let (image, vfs) = open(left, entry, false);
    let mut process = Process::new(vfs.clone(), Cred::ROOT);
    vfs.sync(&Caller::KERNEL).expect("sync");
    let mut wrong = vfs.check().expect("check runs");
    for (w, (before, after)) in before.iter().zip(after).enumerate() {
        // A mail that was told of after the copy may have pushed out an old one already.
        for n in (after.mails + 2).saturating_sub(KEPT)..before.mails {
            let (found, mail) = (read(&mut process, &format!("/w{w}/mail{n}")), mail(w, n));
            if found.as_ref() != Ok(&mail) {
                let what = found.map(|f| difference(&f, &mail));
                wrong.push(format!(
                    "mail {n} of writer {w} is not as fsynced ({before:?}, {after:?}): {what:?}"
                ));
            }
        }
        let log = if before.records > 0 { read(&mut process, &format!("/w{w}/log")) } else { Ok(Vec::new()) };
        let records: Vec<u8> = (0..before.records).flat_map(|n| record(w, n)).collect();
        if !log.as_ref().is_ok_and(|log| log.starts_with(&records)) {
            let what = log.map(|log| difference(&log, &records));
            wrong.push(format!("the log of writer {w} lacks one of {} records: {what:?}", before.records));
        }
        if before.moves > 0 {
            let current = read(&mut process, &format!("/w{w}/current")).unwrap_or_default();
            let n = current.try_into().map(u64::from_le_bytes).ok();
            if !n.is_some_and(|n| (before.moves - 1..=after.moves + 1).contains(&n)) {
                wrong.push(format!("writer {w}: current is {n:?} after {before:?} and before {after:?}"));
            }
        }
    }
    process.exit();
    vfs.unmount().map_err(|e| format!("unmount: {e}"))?;
    image.close().map_err(|e| format!("close: {e}"))?;
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:#?}")) }
}

fn difference(found: &[u8], wanted: &[u8]) -> String {
    let at = found.iter().zip(wanted).position(|(a, b)| a != b);
    let others = found.iter().zip(wanted).filter(|(a, b)| a != b).count();
    let zeros = at.map_or(0, |at| found[at..].iter().take_while(|b| **b == 0).count());
    format!("{} bytes, wanted {}, {others} others from {at:?} on, {zeros} zeros", found.len(), wanted.len())
}

fn read(process: &mut Process, path: &str) -> Result<Vec<u8>, String> {
    let fd = process.open(path, OpenFlags::RDONLY, 0).map_err(|e| e.to_string())?;
    let (mut out, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let n = process.read(fd, Dest::Bytes(&mut buffer)).map_err(|e| e.to_string())?;
        if n == 0 {
            break;
        }
        out.extend_from_slice(&buffer[..n]);
    }
    process.close(fd).map_err(|e| e.to_string())?;
    Ok(out)
}
