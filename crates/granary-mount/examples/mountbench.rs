//! Times single operations of a program on any mounted directory; `scripts/bench-mount.sh` runs it.
//!
//! ```text
//!   mountbench DIR OPERATION COUNT               prints: OPERATION median_ns mean_ns
//!   mountbench DIR OPERATION COUNT THREADS       prints: OPERATION ns: the time of the whole run, for each
//!                                                operation
//! ```
//!
//! With THREADS, which only the fsync operations know, every thread has a file or a directory of its own.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

const FILE: u64 = 16 << 20;
const BLOCK: usize = 4096;

fn open(path: &Path, flags: rustix::fs::OFlags) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

/// Times `count` calls of `call` one by one.
fn time(count: u64, mut call: impl FnMut(u64) -> io::Result<()>) -> io::Result<Vec<u64>> {
    (0..count)
        .map(|i| {
            #[allow(clippy::disallowed_methods)] // that is what this program is for
            let start = Instant::now();
            call(i)?;
            Ok(start.elapsed().as_nanos() as u64)
        })
        .collect()
}

/// Some block of the file, the same sequence each time.
fn place(i: u64, size: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (FILE / size) * size
}

/// Bytes without a pattern: a page that repeats one word would be kept as that word.
fn bytes(len: usize) -> Vec<u8> {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let next = |_| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as u8
    };
    (0..len).map(next).collect()
}

fn run(dir: &Path, operation: &str, count: u64) -> io::Result<Vec<u64>> {
    let data = dir.join("data");
    if !data.exists() {
        fs::write(&data, (0..FILE).map(|i| ((i * 31) >> 3) as u8).collect::<Vec<_>>())?;
        File::open(&data)?.sync_all()?;
    }
    let mut space = bytes(2 * BLOCK);
    let skip = space.as_ptr().align_offset(BLOCK);
    let block = &mut space[skip..skip + BLOCK];
    let plain = open(&data, rustix::fs::OFlags::empty())?;
    match operation {
        "create" => {
            let files = dir.join("files");
            let _ = fs::remove_dir_all(&files);
            fs::create_dir(&files)?;
            let times = time(count, |i| File::create(files.join(format!("f{i}"))).map(drop))?;
            fs::remove_dir_all(&files)?;
            Ok(times)
        }
        "create+fsync" => {
            let files = dir.join("synced");
            let _ = fs::remove_dir_all(&files);
            fs::create_dir(&files)?;
            let times = time(count, |i| create_synced(&files, i, block))?;
            fs::remove_dir_all(&files)?;
            Ok(times)
        }
        "open" => time(count, |_| File::open(&data).map(drop)),
        "stat" => time(count, |_| fs::metadata(&data).map(drop)),
        // Of a file that was just written to.
        "fstat" => time(count, |i| {
            plain.write_all_at(&block[..64], place(i, 64))?;
            plain.metadata().map(drop)
        }),
        "write4k" => time(count, |i| plain.write_all_at(block, place(i, 4096))),
        "write4k+fsync" => {
            time(count, |i| plain.write_all_at(block, place(i, 4096)).and_then(|()| plain.sync_all()))
        }
        "write64+fsync" => {
            time(count, |i| plain.write_all_at(&block[..64], place(i, 64)).and_then(|()| plain.sync_all()))
        }
        "direct_read" => {
            let direct = open(&data, rustix::fs::OFlags::DIRECT)?;
            time(count, |i| direct.read_exact_at(block, place(i, 4096)))
        }
        // The least that a commit of one page asks of the disk under an image: the page, its records, and a
        // sync.
        "bare_sync" => {
            let direct = open(&data, rustix::fs::OFlags::DIRECT)?;
            let space = bytes(3 * BLOCK);
            let skip = space.as_ptr().align_offset(BLOCK);
            let commit = &space[skip..skip + 2 * BLOCK];
            time(count, |i| direct.write_all_at(commit, place(i, 8192)).and_then(|()| direct.sync_data()))
        }
        "cached_read" => {
            let mut all = vec![0; FILE as usize];
            plain.read_exact_at(&mut all, 0)?;
            time(count, |i| plain.read_exact_at(block, place(i, 4096)))
        }
        other => Err(io::Error::other(format!("no operation '{other}'"))),
    }
}

/// A new file with a page of content, safe.
fn create_synced(dir: &Path, i: u64, block: &[u8]) -> io::Result<()> {
    let file = File::create(dir.join(format!("f{i}")))?;
    file.write_all_at(block, 0)?;
    file.sync_all()
}

/// The time of `count` operations by each of so many threads, divided by the number of all of them.
fn run_parallel(dir: &Path, operation: &str, count: u64, threads: u64) -> io::Result<u64> {
    let base = dir.join("parallel");
    let _ = fs::remove_dir_all(&base);
    fs::create_dir(&base)?;
    let block = bytes(BLOCK);
    let size = 1 << 20;
    for t in 0..threads {
        let own = base.join(format!("d{t}"));
        fs::create_dir(&own)?;
        fs::write(own.join("data"), bytes(size))?;
        File::open(own.join("data"))?.sync_all()?;
    }
    let work = &|t: u64| -> io::Result<()> {
        let own = base.join(format!("d{t}"));
        let data = open(&own.join("data"), rustix::fs::OFlags::empty())?;
        for i in 0..count {
            match operation {
                "write4k+fsync" => {
                    data.write_all_at(&block, place(i + t, BLOCK as u64) % size as u64)?;
                    data.sync_all()?;
                }
                "create+fsync" => create_synced(&own, i, &block)?,
                other => return Err(io::Error::other(format!("no operation '{other}' for threads"))),
            }
        }
        Ok(())
    };
    #[allow(clippy::disallowed_methods)] // that is what this program is for
    let start = Instant::now();
    std::thread::scope(|s| {
        let running: Vec<_> = (0..threads).map(|t| s.spawn(move || work(t))).collect();
        running.into_iter().try_for_each(|r| r.join().expect("no panics"))
    })?;
    let each = start.elapsed().as_nanos() as u64 / (count * threads).max(1);
    fs::remove_dir_all(&base)?;
    Ok(each)
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let number = |text: &String| text.parse().map_err(io::Error::other);
    match args.as_slice() {
        [_, dir, operation, count] => {
            let count = number(count)?;
            let mut times = run(Path::new(dir), operation, count)?;
            times.sort_unstable();
            let mean = times.iter().sum::<u64>() / count.max(1);
            println!("{operation} {} {mean}", times[times.len() / 2]);
        }
        [_, dir, operation, count, threads] => {
            let each = run_parallel(Path::new(dir), operation, number(count)?, number(threads)?)?;
            println!("{operation} {each}");
        }
        _ => {
            eprintln!("usage: mountbench DIR OPERATION COUNT [THREADS]; OPERATION is one of");
            eprintln!(
                "create open stat fstat write4k write4k+fsync write64+fsync create+fsync direct_read cached_read bare_sync"
            );
            std::process::exit(2);
        }
    }
    Ok(())
}
