//! Files that nobody changes read as they were written, whoever moves their blocks.
//!
//! ```text
//!   still files   | s0 | s1 | ...   written once, then read all the time by several threads
//!   others        | o0 | o1 | ...   between them on the drive, written over all the time: what cleans has to
//!                                   move the still ones
//! ```
//!
//! A reader looks an address up and asks the drive later. In between the block may move, and its old address
//! may end. In virtual time a reader is set aside there ([`WorldConfig::preempt`]); threads on the wall clock
//! are set aside by the host.

use super::{Mounted, Subject, create, drive, fill, port};
use granary_device::Drive;
use granary_fs::{Cred, FsError, Sweep};
use granary_sim::rng::Stream;
use granary_sim::{World, WorldConfig, spawn};
use granary_units::{Bytes, Dest, Nanos, PAGE_SIZE};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Still files, and as many others.
const FILES: u64 = 40;
/// Pages of a file.
const PAGES: u64 = 16;
const READERS: u64 = 3;
/// Writes after which everything is swept, where the file system can be told to.
const SWEEP: u64 = 50;

/// Next to no page cache: nearly every read asks the drive.
fn no_cache() -> VfsConfig {
    VfsConfig { page_cache: Bytes::kib(256), read_ahead: Bytes::kib(16), ..VfsConfig::default() }
}

fn word(file: u64) -> u64 {
    0x5714_0000_0000_0000 + file
}

/// The fault of a still file; `None` where there is none.
fn look(p: &mut Process, file: u64) -> Option<String> {
    let fd = p
        .open(format!("/s{file}"), OpenFlags::RDONLY, 0)
        .unwrap_or_else(|e| panic!("still file {file}: {e}"));
    let mut bytes = vec![0; (PAGES as usize) * PAGE_SIZE];
    let read = p.pread(fd, Dest::Bytes(&mut bytes), 0).expect("read");
    p.close(fd).expect("close");
    let want = word(file).to_le_bytes();
    let is_wrong = |page: &[u8]| page.chunks_exact(8).any(|w| w != want);
    let wrong: Vec<usize> = (0..)
        .zip(bytes[..read].chunks(PAGE_SIZE))
        .filter(|(_, page)| is_wrong(page))
        .map(|(n, _)| n)
        .collect();
    let short = read != bytes.len();
    (short || !wrong.is_empty())
        .then(|| format!("still file {file}: {read} bytes, pages {wrong:?} are wrong"))
}

fn reader(vfs: Arc<Vfs>, seed: u64, stop: &AtomicBool, reads: &AtomicU64) -> Option<String> {
    let mut p = Process::new(vfs, Cred::ROOT);
    let mut random = Stream::new(seed, "still files");
    let mut wrong = None;
    while wrong.is_none() && !stop.load(Relaxed) {
        wrong = look(&mut p, random.below(FILES));
        reads.fetch_add(1, Relaxed);
        // Where everything is in memory no time passes by itself.
        granary_sim::sleep(Nanos::from_micros(100));
    }
    p.exit();
    wrong
}

/// Makes the files, writes `rounds` times to the others while the still ones are read, and looks at all of it
/// again after a mount.
fn exercise<S: Subject>(
    subject: &S,
    drive: &Arc<dyn Drive>,
    (seed, rounds): (u64, u64),
    worked: impl FnOnce(&S::Fs),
) -> Result<(), String> {
    subject.mkfs(&port(drive)).map_err(|e| e.to_string())?;
    let m = Mounted::with(subject, drive, no_cache());
    let mut p = m.process();
    for file in 0..FILES {
        for (path, word) in [(format!("/s{file}"), word(file)), (format!("/o{file}"), file)] {
            let fd = create(&mut p, &path);
            p.pwrite(fd, fill(word, PAGES as usize * PAGE_SIZE), 0).map_err(|e| e.to_string())?;
            p.fsync(fd).map_err(|e| e.to_string())?;
            p.close(fd).expect("close");
        }
    }
    p.sync().map_err(|e| e.to_string())?;
    let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let readers: Vec<_> = (0..READERS)
        .map(|n| {
            let (vfs, stop, reads) = (m.vfs.clone(), stop.clone(), reads.clone());
            spawn("reader", move || reader(vfs, seed * READERS + n, &stop, &reads))
        })
        .collect();
    let mut random = Stream::new(seed, "others");
    let mut written = Ok(());
    for round in 0..rounds {
        let file = random.below(FILES);
        let fd = create(&mut p, &format!("/o{file}"));
        let at = random.below(PAGES - 1) * PAGE_SIZE as u64;
        written = p.pwrite(fd, fill(round, 2 * PAGE_SIZE), at).map(drop);
        if round % 4 == 0 {
            written = written.and_then(|()| p.fsync(fd));
        }
        p.close(fd).expect("close");
        if round % SWEEP == SWEEP - 1 {
            written = written.and_then(|()| match m.vfs.sweep(&Sweep::default()) {
                Ok(_) | Err(FsError::NotSupported) => Ok(()),
                Err(e) => Err(e),
            });
        }
        if written.is_err() {
            break;
        }
    }
    stop.store(true, Relaxed);
    let wrong: Vec<String> = readers.into_iter().filter_map(granary_sim::JoinHandle::join).collect();
    written.map_err(|e| e.to_string())?;
    if let Some(first) = wrong.first() {
        return Err(format!("after {} reads: {first}", reads.load(Relaxed)));
    }
    worked(&m.fs);
    p.exit();
    m.settle_now();
    m.check();
    let m = m.remounted();
    let mut p = m.process();
    let wrong = (0..FILES).find_map(|file| look(&mut p, file));
    p.exit();
    m.check();
    m.unmount();
    wrong.map_or(Ok(()), |wrong| Err(format!("after a mount: {wrong}")))
}

/// For each seed: readers are set aside between an address and the drive's command, while everything around
/// them is written over. `worked` looks whether what moves blocks did so at all.
pub fn still_files_stay_while_readers_are_set_aside<S: Subject>(
    subject: &S,
    size: Bytes,
    seeds: std::ops::Range<u64>,
    worked: fn(&S::Fs),
) {
    for seed in seeds {
        let subject = subject.clone();
        let config = WorldConfig {
            preempt: Nanos::from_millis(4),
            jitter: Nanos(500),
            seed,
            ..WorldConfig::default()
        };
        let result = World::new(config).run(move || exercise(&subject, &drive(size), (seed, 400), worked));
        match result {
            Ok(Ok(())) => {}
            Ok(Err(why)) => panic!("seed {seed}: {why}"),
            Err(stop) => panic!("seed {seed}: {stop}"),
        }
    }
}

/// The same on OS threads, with `rounds` writes.
pub fn still_files_stay_on_the_wall_clock<S: Subject>(
    subject: &S,
    size: Bytes,
    rounds: u64,
    worked: fn(&S::Fs),
) {
    if let Err(why) = exercise(subject, &drive(size), (0, rounds), worked) {
        panic!("{why}");
    }
}
