//! `kill -9` of a process that works on an image: what it had reported as safe is there afterwards.
//!
//! ```text
//!   parent ── starts itself as a child on the image ──> child: append + fsync, create + fsync,
//!      |                                                       one line for each
//!      |  <── pipe: "log 17", "file 4" ───────────────         (written after fsync has returned)
//!      `── SIGKILL at a random moment ── opens, mounts, verifies, checks ── the next child goes on
//! ```
//!
//! `GRANARY_KILLS=200 cargo test -p granary kill::` for more than the sample.

use granary_fs::{Cred, Time};
use granary_image::{Durability, ImageError};
use granary_lab::LabError;
use granary_lab::image::{NewImage, OpenImage, check, make};
use granary_sim::rng::Stream;
use granary_units::{Bytes, Dest, Payload};
use granary_vfs::{OpenFlags, Posix, Process};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const RECORD: usize = 100;
pub const CHILD: &str = "GRANARY_KILL_TEST_IMAGE";
/// Set: the child opens the image so that it would survive a crash of the machine.
const MACHINE: &str = "GRANARY_KILL_TEST_MACHINE";

/// How the child opens the image.
pub fn durability() -> Durability {
    if std::env::var_os(MACHINE).is_some() { Durability::Machine } else { Durability::Process }
}

fn record(n: u64) -> [u8; RECORD] {
    let mut rng = Stream::new(n, "record");
    std::array::from_fn(|_| rng.next_u64() as u8)
}

fn content(n: u64) -> Vec<u8> {
    let mut rng = Stream::new(n, "file");
    let len = 1 + rng.below(30_000);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

fn process(open: &OpenImage) -> Process {
    let vfs = open.vfs(Time(0), Bytes::mib(64)).expect("mounts");
    Process::new(vfs, Cred::ROOT)
}

#[allow(clippy::disallowed_methods, reason = "the parent reads it to the end")]
pub fn say(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).expect("the parent listens");
    out.flush().expect("the parent listens");
}

/// The child's work until it is killed.
fn work(image: &Path) {
    let open = when_free(|| OpenImage::open(image, durability(), false));
    let mut p = process(&open);
    if p.stat("/files").is_err() {
        p.mkdir("/files", 0o755).expect("made");
    }
    let flags = OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::APPEND;
    let log = p.open("/log", flags, 0o644).expect("opens");
    let mut records = p.fstat(log).expect("stat").attr.size / RECORD as u64;
    p.ftruncate(log, records * RECORD as u64).expect("a record in part is cut off");
    let mut files = p.list("/files").expect("listed").len() as u64 - 2;
    // The last file may have been made and not yet written.
    if files > 0 && read(&mut p, &format!("/files/{}", files - 1)) != content(files - 1) {
        files -= 1;
    }
    for n in 0u64.. {
        if n % 3 != 0 {
            p.write(log, Payload::Bytes(&record(records))).expect("written");
            if n % 2 == 0 { p.fdatasync(log) } else { p.fsync(log) }.expect("synced");
            records += 1;
            open.image.barrier().expect("a barrier, in machine mode");
            say(format_args!("log {records}"));
        } else {
            let new = OpenFlags::WRONLY | OpenFlags::CREAT;
            let fd = p.open(format!("/files/{files}"), new, 0o600).expect("made");
            p.pwrite(fd, Payload::Bytes(&content(files)), 0).expect("written");
            p.fsync(fd).expect("synced");
            p.close(fd).expect("closed");
            files += 1;
            open.image.barrier().expect("a barrier, in machine mode");
            say(format_args!("file {files}"));
        }
    }
}

fn read(p: &mut Process, path: &str) -> Vec<u8> {
    let fd = p.open(path, OpenFlags::RDONLY, 0).expect("opens");
    let mut out = vec![0; p.fstat(fd).expect("stat").attr.size as usize];
    let n = p.pread(fd, Dest::Bytes(&mut out), 0).expect("read");
    p.close(fd).expect("closed");
    assert_eq!(n, out.len());
    out
}

/// Opens the image, or looks at it, once nobody has it: a child that another test has just forked holds our
/// locks until it executes its program.
#[allow(clippy::disallowed_methods)] // other processes live on the wall clock
pub fn when_free<T>(mut open: impl FnMut() -> Result<T, LabError>) -> T {
    for _ in 0..200 {
        match open() {
            Err(LabError::Image(ImageError::InUse { .. })) => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            other => return other.expect("opens"),
        }
    }
    panic!("in use for two seconds");
}

/// Lets a child work and kills it; returns the records and files that it had reported.
pub fn kill_one(
    child: &str,
    image: &Path,
    machine: bool,
    rng: &mut Stream,
    before: (u64, u64),
) -> (u64, u64) {
    let me = std::env::current_exe().expect("a path");
    let mut command = Command::new(me);
    if machine {
        command.env(MACHINE, "1");
    }
    let mut child = command
        .args(["--exact", child, "--nocapture"])
        .env(CHILD, image)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let (mut reported, mut left) = (before, rng.below(60));
    let mut take = |line: String| {
        match line.split_once(' ') {
            Some(("log", n)) => reported.0 = n.parse().expect("a number"),
            Some(("file", n)) => reported.1 = n.parse().expect("a number"),
            _ => return false,
        }
        true
    };
    while left > 0 {
        let Some(line) = lines.next() else { break };
        left -= u64::from(take(line.expect("text")));
    }
    // Into the middle of the next call.
    for _ in 0..rng.below(20_000) {
        std::hint::spin_loop();
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    // The lines in the pipe had been reported.
    for line in lines {
        let Ok(line) = line else { break };
        take(line);
    }
    reported
}

pub fn kills() -> u64 {
    std::env::var("GRANARY_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(8)
}

fn survives(fs: &str) {
    // A small log and cache, so that cleaning, write-back and checkpoints happen.
    let sets = ["firmware.log_region=256KiB".into(), "firmware.cache=512KiB".into()];
    survives_on(fs, "bytefs-emulator", &sets, false);
}

fn survives_on(fs: &str, testbed: &str, sets: &[String], machine: bool) {
    let dir = tempfile::tempdir().expect("directory");
    let image = dir.path().join("img");
    let size = Bytes::mib(400);
    let (label, date) = ("", Time(0));
    make(&image, &NewImage { fs, size, testbed, sets, label, force: false, date, owner: (0, 0) })
        .expect("made");
    let (mut rng, mut safe) = (Stream::new(1, fs), (0, 0));
    for round in 0..kills() {
        safe = kill_one("kill::the_child", &image, machine, &mut rng, safe);
        let wrong = when_free(|| check(&image)).wrong;
        assert!(wrong.is_empty(), "{fs}, round {round}: {wrong:?}");
        let open = when_free(|| OpenImage::open(&image, Durability::Process, false));
        let mut p = process(&open);
        if safe == (0, 0) {
            continue;
        }
        let log = read(&mut p, "/log");
        assert!(log.len() as u64 >= safe.0 * RECORD as u64, "{fs}, round {round}: {} of {safe:?}", log.len());
        for n in 0..safe.0 {
            let found = &log[n as usize * RECORD..(n as usize + 1) * RECORD];
            assert!(found == record(n), "{fs}, round {round}: record {n} of {safe:?}");
        }
        for n in 0..safe.1 {
            let (found, wanted) = (read(&mut p, &format!("/files/{n}")), content(n));
            let at = found.iter().zip(&wanted).position(|(a, b)| a != b);
            assert!(
                found == wanted,
                "{fs}, round {round}: file {n} of {safe:?} has {} of {} bytes and is another from {at:?} on",
                found.len(),
                wanted.len()
            );
        }
    }
    assert!(safe.0 > kills() && safe.1 > kills() / 2, "{fs}: only {safe:?} were done");
}

#[test]
fn bytefs_keeps_what_was_synced_when_its_process_is_killed() {
    survives("bytefs");
}

#[test]
fn ext4_keeps_what_was_synced_when_its_process_is_killed() {
    survives("ext4");
}

#[test]
fn f2fs_keeps_what_was_synced_when_its_process_is_killed() {
    survives("f2fs");
}

#[test]
fn nova_keeps_what_was_synced_when_its_process_is_killed() {
    survives("nova");
}

#[test]
fn pmfs_keeps_what_was_synced_when_its_process_is_killed() {
    survives("pmfs");
}

#[test]
fn nova_on_a_dimm_keeps_what_was_synced_when_its_process_is_killed() {
    survives_on("nova", "orchfs", &[], false);
}

#[test]
fn pmfs_on_a_dimm_keeps_what_was_synced_when_its_process_is_killed() {
    survives_on("pmfs", "orchfs", &[], true);
}

#[test]
fn the_child() {
    if let Some(image) = std::env::var_os(CHILD) {
        work(Path::new(&image));
    }
}
